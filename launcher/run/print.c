/* A run as tables: its progress and end, and measured against predicted times. */
#include <math.h>

#include "kernels/base/text/units.h"
#include "launcher/run/run.h"

const char *mt_run_step_text(const struct mt_run_doc *run, struct mt_arena *arena) {
    char step[MT_UNITS_TEXT], predicted[MT_UNITS_TEXT];
    mt_units_seconds(run->step_s, step);
    if (run->predicted_step_s == 0) return mt_arena_printf(arena, "step %s", step);
    double off = run->step_s / run->predicted_step_s - 1;
    double above = run->predicted_error, below = run->predicted_error_below;
    const char *band = off > above ? "above" : off < -below ? "below" : "within";
    return mt_arena_printf(arena, "step %s, predicted %s (%+.1f%%, %s the band of -%.0f%% +%.0f%%)", step,
                           mt_units_seconds(run->predicted_step_s, predicted), 100 * off, band, 100 * below,
                           100 * above);
}

static void say_head(const struct mt_run_doc *run, FILE *file) {
    struct mt_arena arena = MT_ARENA_INIT;
    char rate[MT_UNITS_TEXT], flops[MT_UNITS_TEXT], tokens[MT_UNITS_TEXT], time[MT_UNITS_TEXT];
    long long last = (long long)run->first_step + run->nlosses - 1;
    fprintf(file, "run        %s, by %s, %s\n", run->ended, run->made_by, run->mpi);
    fprintf(file, "plan       %s\n", run->plan_hash);
    fprintf(file, "model      %s\n", run->model);
    if (run->nlosses)
        fprintf(file, "steps      %lld to %lld of %s tokens\n", (long long)run->first_step, last,
                mt_units_count((double)run->tokens_per_step, tokens));
    if (run->nlosses) fprintf(file, "loss       %.4f to %.4f\n", run->losses[0], run->losses[run->nlosses - 1]);
    for (int v = 0; v < run->nvals; v++)
        fprintf(file, "%s %.4f after step %lld\n", v ? "          " : "validation", run->vals[v].loss,
                (long long)run->vals[v].step);
    if (run->step_s > 0)
        fprintf(file, "time       %s for steps since the last start, %s tokens/s, %s flop/s\n",
                mt_units_seconds(run->train_s, time), mt_units_count(run->tokens_per_s, rate),
                mt_units_count(run->flops_per_s, flops));
    if (run->step_s > 0) fprintf(file, "           %s\n", mt_run_step_text(run, &arena));
    if (run->loss_scale > 0)
        fprintf(file, "loss scale %.9g, %lld step%s skipped\n", run->loss_scale, (long long)run->skipped_steps,
                run->skipped_steps == 1 ? "" : "s");
    if (run->parameter_hash[0]) fprintf(file, "parameters %s\n", run->parameter_hash);
    mt_arena_release(&arena);
}

static void put_head(const struct mt_run_doc *run, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add_values(out, "run");
    bool timed = run->step_s > 0, losses = run->nlosses > 0;
    mt_table_put_text(t, "ended", "%s", run->ended);
    mt_table_put_text(t, "made_by", "%s", run->made_by);
    mt_table_put_text(t, "mpi", "%s", run->mpi);
    mt_table_put_text(t, "plan_hash", "%s", run->plan_hash);
    mt_table_put_text(t, "model", "%s", run->model);
    mt_table_put_real(t, "first_step", MT_UNIT_COUNT, losses ? (double)run->first_step : NAN);
    mt_table_put_real(t, "last_step", MT_UNIT_COUNT, losses ? (double)run->first_step + run->nlosses - 1 : NAN);
    mt_table_put_real(t, "tokens_per_step", MT_UNIT_QUANTITY, (double)run->tokens_per_step);
    mt_table_put_real(t, "first_loss", MT_UNIT_NUMBER, losses ? run->losses[0] : NAN);
    mt_table_put_real(t, "last_loss", MT_UNIT_NUMBER, losses ? run->losses[run->nlosses - 1] : NAN);
    mt_table_put_real(t, "train_s", MT_UNIT_SECONDS, timed ? run->train_s : NAN);
    mt_table_put_real(t, "step_s", MT_UNIT_SECONDS, timed ? run->step_s : NAN);
    mt_table_put_real(t, "predicted_step_s", MT_UNIT_SECONDS, run->predicted_step_s > 0 ? run->predicted_step_s : NAN);
    mt_table_put_real(t, "tokens_per_s", MT_UNIT_QUANTITY, timed ? run->tokens_per_s : NAN);
    mt_table_put_real(t, "flops", MT_UNIT_FLOPS, timed ? run->flops_per_s : NAN);
    mt_table_put_text(t, "parameter_hash", "%s", run->parameter_hash);
}

static void add_validations(const struct mt_run_doc *run, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "validations", "validations", "");
    t->machines_only = true;
    mt_table_column(t, "step", "after step", MT_UNIT_COUNT);
    mt_table_column(t, "loss", "loss", MT_UNIT_NUMBER)->decimals = 4;
    for (int v = 0; v < run->nvals; v++) {
        mt_table_row(t);
        mt_cell_int(t, run->vals[v].step);
        mt_cell_real(t, run->vals[v].loss);
    }
}

static void add_ranks(const struct mt_run_doc *run, struct mt_tables *out) {
    bool predicted = run->predicted_step_s > 0;
    struct mt_table *t = mt_tables_add(
        out, "ranks", "ranks", predicted ? "median times of a step, measured and predicted" : "median times of a step");
    mt_table_columns(t, {"rank", "rank", MT_UNIT_COUNT}, {"host", "host", MT_UNIT_TEXT},
                     {"device", "device", MT_UNIT_TEXT}, {"samples", "samples", MT_UNIT_COUNT},
                     {"compute_s", "computing", MT_UNIT_SECONDS});
    mt_table_column(t, "predicted_compute_s", "predicted", MT_UNIT_SECONDS)->machines_only = !predicted;
    mt_table_column(t, "wait_s", "waiting", MT_UNIT_SECONDS);
    mt_table_column(t, "predicted_wait_s", "predicted", MT_UNIT_SECONDS)->machines_only = !predicted;
    mt_table_columns(t, {"collectives_s", "in collectives", MT_UNIT_SECONDS}, {"memory_bytes", "memory", MT_UNIT_BYTES},
                     {"arena_bytes", "planned", MT_UNIT_BYTES});
    for (int r = 0; r < run->nranks; r++) {
        const struct mt_run_rank *rank = &run->ranks[r];
        mt_table_row(t);
        mt_cell_int(t, r);
        mt_cell_text(t, "%s", rank->host);
        mt_cell_text(t, "%s", rank->device);
        if (rank->idle) continue; /* as its device says */
        double used = (double)(rank->peak_rss_bytes - rank->start_rss_bytes);
        mt_cell_int(t, rank->samples);
        mt_cell_real(t, rank->step_compute_s);
        mt_cell_real(t, predicted ? rank->predicted_compute_s : NAN);
        mt_cell_real(t, rank->step_wait_s);
        mt_cell_real(t, predicted ? rank->predicted_wait_s : NAN);
        mt_cell_real(t, rank->step_comm_s);
        mt_cell_real(t, used > 0 ? used : 0);
        mt_cell_int(t, rank->arena_bytes);
    }
    mt_table_fold(t, 2, "ranks");
}

void mt_run_tables(const struct mt_run_doc *run, struct mt_tables *out) {
    say_head(run, mt_tables_say_begin(out));
    mt_tables_say_end(out);
    put_head(run, out);
    if (run->nvals) add_validations(run, out);
    add_ranks(run, out);
}
