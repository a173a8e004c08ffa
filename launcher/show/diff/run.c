/* The facts of a run: what it trained, how it ended, losses, and times with the error of two runs of one plan. */
#include "launcher/run/run.h"
#include "launcher/show/diff/diff.h"

static const double time_error = 0.03, loss_error = 1e-6; /* relative */

static void list_losses(const struct mt_run_doc *r, struct mt_facts *f) {
    mt_fact(f, "first step", "%lld", (long long)r->first_step);
    mt_fact(f, "steps", "%d", r->nlosses);
    if (r->nlosses) mt_fact_real(f, "first loss", r->losses[0], loss_error, MT_UNIT_NUMBER);
    if (r->nlosses) mt_fact_real(f, "last loss", r->losses[r->nlosses - 1], loss_error, MT_UNIT_NUMBER);
    for (int v = 0; v < r->nvals; v++)
        mt_fact_real(f, mt_fact_name(f, "validation after step %lld", (long long)r->vals[v].step), r->vals[v].loss,
                     loss_error, MT_UNIT_NUMBER);
}

static void list_ranks(const struct mt_run_doc *r, struct mt_facts *f) {
    mt_fact(f, "ranks", "%d", r->nranks);
    for (int i = 0; i < r->nranks; i++) {
        const struct mt_run_rank *rank = &r->ranks[i];
        mt_fact(f, mt_fact_name(f, "rank %d: host", i), "%s", rank->host);
        mt_fact(f, mt_fact_name(f, "rank %d: device", i), "%s", rank->device);
        mt_fact_real(f, mt_fact_name(f, "rank %d: samples", i), (double)rank->samples, 0, MT_UNIT_NUMBER);
        mt_fact_real(f, mt_fact_name(f, "rank %d: computing", i), rank->step_compute_s, time_error, MT_UNIT_SECONDS);
        mt_fact_real(f, mt_fact_name(f, "rank %d: waiting", i), rank->step_wait_s, time_error, MT_UNIT_SECONDS);
        mt_fact_real(f, mt_fact_name(f, "rank %d: in collectives", i), rank->step_comm_s, time_error, MT_UNIT_SECONDS);
        mt_fact_real(f, mt_fact_name(f, "rank %d: planned memory", i), (double)rank->arena_bytes, 0, MT_UNIT_BYTES);
    }
}

enum mt_status mt_facts_of_run(const char *path, struct mt_facts *facts, struct mt_err *err) {
    struct mt_run_doc run;
    enum mt_status st = mt_run_read(path, &run, err);
    if (st) return st;
    mt_fact(facts, "plan", "%s", run.plan_hash);
    mt_fact(facts, "model", "%s", run.model);
    mt_fact(facts, "data", "%s", run.data_hash);
    mt_fact(facts, "ended", "%s", run.ended);
    list_losses(&run, facts);
    mt_fact(facts, "parameters", "%s", run.parameter_hash);
    mt_fact_real(facts, "step", run.step_s, time_error, MT_UNIT_SECONDS);
    mt_fact_real(facts, "predicted step", run.predicted_step_s, 0, MT_UNIT_SECONDS);
    mt_fact_real(facts, "tokens a second", run.tokens_per_s, time_error, MT_UNIT_QUANTITY);
    list_ranks(&run, facts);
    mt_run_release(&run);
    return MT_OK;
}
