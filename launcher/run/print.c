/* A run as tables: its progress and end, and measured against predicted times. */
#include "kernels/base/text/plain_table.h"
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

static void print_head(const struct mt_run_doc *run, FILE *file) {
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

static void cell_times(struct mt_plain_table *table, double measured_s, double predicted_s) {
    char text[MT_UNITS_TEXT];
    mt_plain_table_cell(table, "%s", mt_units_seconds(measured_s, text));
    if (predicted_s < 0) return;
    mt_plain_table_cell(table, "%s", mt_units_seconds(predicted_s, text));
}

void mt_run_print(const struct mt_run_doc *run, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    char bytes[MT_UNITS_TEXT];
    bool predicted = run->predicted_step_s > 0;
    print_head(run, file);
    fprintf(file, "\nranks (median times of a step%s)\n", predicted ? ", measured and predicted" : "");
    mt_plain_table_header(&table, ">rank", "host", "device", ">samples", ">computing", NULL);
    if (predicted) mt_plain_table_column(&table, ">predicted");
    mt_plain_table_column(&table, ">waiting");
    if (predicted) mt_plain_table_column(&table, ">predicted");
    mt_plain_table_column(&table, ">in collectives");
    mt_plain_table_column(&table, ">memory");
    mt_plain_table_column(&table, ">planned");
    for (int r = 0; r < run->nranks; r++) {
        const struct mt_run_rank *rank = &run->ranks[r];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%d", r);
        mt_plain_table_cell(&table, "%s", rank->host);
        mt_plain_table_cell(&table, "%s", rank->device);
        if (rank->idle) continue; /* as its device says */
        mt_plain_table_cell(&table, "%lld", (long long)rank->samples);
        cell_times(&table, rank->step_compute_s, predicted ? rank->predicted_compute_s : -1);
        cell_times(&table, rank->step_wait_s, predicted ? rank->predicted_wait_s : -1);
        cell_times(&table, rank->step_comm_s, -1);
        double used = (double)(rank->peak_rss_bytes - rank->start_rss_bytes);
        mt_plain_table_cell(&table, "%s", mt_units_bytes(used > 0 ? used : 0, bytes));
        mt_plain_table_cell(&table, "%s", mt_units_bytes((double)rank->arena_bytes, bytes));
    }
    mt_plain_table_fold(&table, 2, ">ranks");
    mt_plain_table_print(&table, 2, file);
}
