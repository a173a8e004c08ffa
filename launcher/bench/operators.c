/* Each operator of a model's training step on one rank, measured alone: every distinct call once. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/working.h"
#include "kernels/base/text/units.h"
#include "launcher/session/agree.h"
#include "launcher/bench/suite.h"
#include "launcher/profile/synthetic.h"
#include "launcher/watch/watch.h"

struct op_case {
    const struct mt_linstr *instr;
    struct mt_op_shape shape;
    double runs, time_s;
};

static bool same_call(const struct op_case *a, const struct mt_linstr *instr, const struct mt_op_shape *shape) {
    const struct mt_op_shape *s = &a->shape;
    return s->kind == shape->kind && !strcmp(s->variant, shape->variant) && s->type == shape->type &&
           s->rows == shape->rows && s->dim[0] == shape->dim[0] && s->dim[1] == shape->dim[1] &&
           a->instr->nin == instr->nin;
}

static int list_cases(const struct mt_lowered *low, struct op_case *cases) {
    int n = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *instr = &low->instrs[i];
            if (instr->what != MT_LOWERED_OP) continue;
            struct mt_op_shape shape = mt_synthetic_shape(instr);
            double runs = b == MT_BODY ? (double)low->body_count : 1;
            int c = 0;
            while (c < n && !same_call(&cases[c], instr, &shape)) c++;
            if (c == n) cases[n++] = (struct op_case){.instr = instr, .shape = shape};
            cases[c].runs += runs;
        }
    return n;
}

static int by_share(const void *a, const void *b) {
    const struct op_case *x = a, *y = b;
    double left = x->runs * x->time_s, right = y->runs * y->time_s;
    return (left < right) - (left > right);
}

static struct mt_table *begin(struct mt_tables *doc) {
    struct mt_table *t = mt_tables_add(doc, "operators", "operators", "");
    mt_table_columns(t, {"operator", "operator", MT_UNIT_TEXT}, {"variant", "variant", MT_UNIT_TEXT},
                     {"type", "type", MT_UNIT_TEXT}, {"rows", "rows", MT_UNIT_COUNT}, {"dim0", "dim", MT_UNIT_COUNT},
                     {"dim1", "dim", MT_UNIT_COUNT}, {"runs", "runs", MT_UNIT_COUNT},
                     {"time_s", "time", MT_UNIT_SECONDS}, {"flops", "rate", MT_UNIT_FLOPS},
                     {"Bps", "memory", MT_UNIT_BPS}, {"part", "of peak", MT_UNIT_FRACTION},
                     {"step_s", "in a step", MT_UNIT_SECONDS});
    return t;
}

static void print(struct mt_bench *b, const struct op_case *cases, int n) {
    double all_s = 0, least_s = 0;
    char all[MT_UNITS_TEXT];
    struct mt_table *t = begin(&b->doc);
    for (int c = 0; c < n; c++) {
        const struct mt_op_shape *s = &cases[c].shape;
        double time_s = cases[c].time_s, part = mt_bench_part(b, s, time_s);
        mt_table_row(t);
        mt_cell_text(t, "%s", mt_op_info[s->kind].name);
        mt_cell_text(t, "%s", s->variant);
        mt_cell_text(t, "%s", mt_type_name(s->type));
        mt_cell_positive(t, (double)s->rows);
        mt_cell_positive(t, (double)s->dim[0]);
        mt_cell_positive(t, (double)s->dim[1]);
        mt_cell_positive(t, cases[c].runs);
        mt_cell_positive(t, time_s);
        mt_cell_positive(t, time_s > 0 ? s->flops / time_s : 0);
        mt_cell_positive(t, time_s > 0 ? s->bytes / time_s : 0);
        mt_cell_positive(t, part);
        mt_cell_positive(t, cases[c].runs * time_s);
        all_s += cases[c].runs * time_s, least_s += cases[c].runs * time_s * part;
    }
    t->title =
        mt_arena_printf(t->arena, "operators of a step of %lld samples: %s one after the other, %.0f%% of the peak",
                        (long long)b->job.batch, mt_units_seconds(all_s, all), all_s > 0 ? 100 * least_s / all_s : 0);
}

enum mt_status mt_bench_operators(struct mt_bench *b, struct mt_err *err) {
    struct mt_synthetic run;
    int64_t own = b->job.batch / b->nranks > 0 ? b->job.batch / b->nranks : 1;
    enum mt_status st =
        mt_agree(MPI_COMM_WORLD, mt_synthetic_open(b->device, b->model, &b->job, own, own, &run, err), err);
    if (st) return st;
    struct op_case *cases = mt_calloc((size_t)run.lowered->ninstrs + 1, sizeof *cases);
    int n = list_cases(run.lowered, cases);
    for (int c = 0; c < n && !st; c++) {
        const struct mt_linstr *i = cases[c].instr;
        mt_working(c, n, "%s", i->name);
        const struct mt_call call = mt_linstr_call(i, i->tensor);
        if ((st = mt_bench_call(b, &call, b->options->seconds, &cases[c].time_s, err)))
            mt_err_context(err, "%s", i->name);
        mt_watch_progress();
    }
    if (!(st = mt_agree(MPI_COMM_WORLD, st, err))) {
        qsort(cases, (size_t)n, sizeof *cases, by_share);
        print(b, cases, n);
    }
    free(cases);
    mt_synthetic_close(&run);
    return st;
}
