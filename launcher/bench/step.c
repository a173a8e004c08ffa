/* Training steps of the model on synthetic data: on one rank, or divided evenly over several, with AllReduce of
 * gradients. */
#include <stdlib.h>

#include "kernels/base/number/stats.h"
#include "launcher/session/agree.h"
#include "launcher/bench/suite.h"
#include "launcher/profile/synthetic.h"
#include "launcher/session/session.h"
#include "launcher/tune/tuning.h"
#include "launcher/watch/watch.h"

enum { LEAST_STEPS = 5, MOST_STEPS = 40, WARM_STEPS = 3 };

/* Floating-point operations of a lowered step: those of GEMMs and attention. */
static double step_flops(const struct mt_lowered *low) {
    double flops = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *instr = &low->instrs[i];
            if (instr->what != MT_LOWERED_OP) continue;
            struct mt_op_shape shape = mt_synthetic_shape(instr);
            bool counts = instr->kind == MT_OP_matmul || instr->kind == MT_OP_fused_matmul ||
                          mt_op_is_attention(instr->kind) || mt_op_is_attention_grad(instr->kind);
            if (counts) flops += shape.flops * (b == MT_BODY ? (double)low->body_count : 1);
        }
    return flops;
}

static enum mt_status time_steps(struct mt_bench *b, struct mt_synthetic *run, double *step_s, struct mt_err *err) {
    double times_s[MOST_STEPS], spent_s = 0, budget_s = 20 * b->options->seconds;
    int steps = 0;
    for (int i = 0; steps < MOST_STEPS && (steps < LEAST_STEPS || spent_s < budget_s); i++) {
        struct mt_synthetic_times times;
        enum mt_status st = mt_synthetic_step(run, NULL, NULL, &times, err);
        if (st) return st;
        if (i < WARM_STEPS) continue;
        double mine[2] = {times.feed_s + times.run.wall_s, spent_s};
        MPI_Allreduce(MPI_IN_PLACE, mine, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        times_s[steps++] = mine[0];
        spent_s = mine[1] + mine[0];
    }
    *step_s = mt_median(times_s, (size_t)steps);
    return MT_OK;
}

static void print(struct mt_bench *b, const struct mt_synthetic *run, double step_s, double all_flops) {
    double rate = all_flops / b->nranks / step_s;
    int tokens = mt_graph_find_value(run->planned.graph, "tokens");
    double count =
        (double)(mt_value_extent(run->planned.graph, tokens, 0) * mt_value_extent(run->planned.graph, tokens, 1));
    struct mt_table *t = mt_tables_add(&b->doc, "step", "training step", "rate: of GEMMs and attention");
    mt_table_columns(t, {"model", "model", MT_UNIT_TEXT}, {"batch", "batch", MT_UNIT_COUNT},
                     {"ranks", "ranks", MT_UNIT_COUNT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"tokens_per_s", "tokens/s", MT_UNIT_QUANTITY}, {"flops", "a rank", MT_UNIT_FLOPS},
                     {"part", "of peak", MT_UNIT_FRACTION});
    mt_table_row(t);
    mt_cell_text(t, "%s", b->model);
    mt_cell_positive(t, (double)b->job.batch);
    mt_cell_positive(t, b->nranks);
    mt_cell_positive(t, step_s);
    mt_cell_positive(t, count / step_s);
    mt_cell_positive(t, rate);
    mt_cell_positive(t, b->peak.flops > 0 ? rate / b->peak.flops : 0);
}

enum mt_status mt_bench_step(struct mt_bench *b, struct mt_err *err) {
    struct mt_synthetic run;
    int64_t own = (b->job.batch + b->nranks - 1) / b->nranks;
    double step_s = 0, flops;
    struct mt_comm *wire = b->nranks > 1 ? b->wire : NULL;
    enum mt_status st = mt_synthetic_open_among(b->device, b->model, &b->job, own, wire, &run, err);
    bool open = !st;
    st = mt_agree(MPI_COMM_WORLD, st, err);
    const struct mt_lowered *const lowered[] = {open ? run.lowered : NULL};
    if (!st) st = mt_tuning_share(MPI_COMM_WORLD, b->device, lowered, 1, NULL, err);
    if (!st) st = mt_agree(MPI_COMM_WORLD, mt_synthetic_start(&run, err), err);
    if (!st) {
        if (time_steps(b, &run, &step_s, err)) mt_session_abort(err);
        flops = step_flops(run.lowered);
        MPI_Allreduce(MPI_IN_PLACE, &flops, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        print(b, &run, step_s, flops);
    }
    if (open) mt_synthetic_close(&run);
    return st;
}
