/* Two interpreters run one after the other, so that only one program's values are in memory. */
#include "launcher/verify/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/working.h"
#include "kernels/base/number/rng.h"
#include "planner/plan/planned.h"
#include "launcher/verify/proxy_plan.h"
#include "synth/interp/interp.h"
#include "synth/ops/ops.h"

/* Of the plain C operators in fp64 on a slow core; for the estimate only. */
#define REFERENCE_FLOPS_PER_S 2e9

/* Results of a run: every parameter whole, and the losses. */
struct outcome {
    double **params; /* [graph->nvalues], null where the value is no parameter */
    double *losses;  /* [steps]: per token */
    double spread;
};

static double program_bytes(const struct mt_program *p) {
    double count = 0;
    for (int v = 0; v < p->nvalues; v++)
        for (int r = 0; r < p->nranks; r++)
            count += (double)mt_box_count(mt_pvalue_box(p, v, r), p->layouts.items[p->values[v].layout].naxes);
    return count * (double)mt_type_size(MT_F64);
}

static enum mt_status open_proxy(const struct mt_plan *proxy, struct mt_planned *planned, struct mt_err *err) {
    enum mt_status st = mt_planned_graph(proxy, planned, err);
    return st ? st : mt_planned_program(proxy, planned, err);
}

enum mt_status mt_numeric_estimate(const struct mt_plan *plan, int64_t steps, double *memory_bytes, double *time_s,
                                   struct mt_err *err) {
    struct mt_plan *fp64 = mt_proxy_plan_fp64(plan);
    struct mt_planned planned;
    enum mt_status st = open_proxy(fp64, &planned, err);
    if (!st) {
        double params = (double)mt_graph_parameters(planned.graph) * (double)mt_type_size(MT_F64);
        *memory_bytes = program_bytes(&planned.program) + params;
        *time_s = 2 * (double)steps * mt_graph_flops(planned.graph) / REFERENCE_FLOPS_PER_S;
    }
    mt_planned_release(&planned);
    mt_plan_free(fp64);
    return st;
}

/* Random tokens; every sixteenth target is not counted; positions count up. */
static void feed(struct mt_interp *interp, const struct mt_planned *planned, uint64_t seed, int64_t step) {
    const struct mt_graph *g = planned->graph;
    uint64_t vocab = (uint64_t)mt_model_get(&planned->model, "vocab");
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_INPUT) continue;
        int64_t n = mt_value_count(g, v);
        int32_t *ids = mt_malloc((size_t)n * sizeof *ids);
        bool positions = !strcmp(g->values[v].name, "positions"), targets = !strcmp(g->values[v].name, "targets");
        for (int64_t i = 0; i < n; i++) {
            uint64_t stream = (uint64_t)step << 8 | (uint64_t)(v & 0xff);
            int32_t token = (int32_t)mt_random_below(seed, stream, (uint64_t)i, vocab);
            ids[i] = positions ? (int32_t)i : targets && i % 16 == 5 ? -1 : token;
        }
        mt_interp_set(interp, v, ids);
        free(ids);
    }
}

static enum mt_status step_loss(const struct mt_interp *interp, const struct mt_graph *g, double *loss,
                                struct mt_err *err) {
    double sum, count;
    if (!mt_interp_result(interp, g->loss_sum, &sum) || !mt_interp_result(interp, g->token_count, &count))
        return mt_fail(err, MT_EPROOF, "no rank has the whole loss");
    *loss = sum / count;
    return MT_OK;
}

static enum mt_status run_proxy(const struct mt_plan *proxy, int64_t steps, struct outcome *out,
                                struct mt_planned *planned, struct mt_err *err) {
    enum mt_status st = open_proxy(proxy, planned, err);
    if (st) return st;
    const struct mt_graph *g = planned->graph;
    struct mt_interp *interp = mt_interp_new(&planned->program);
    out->params = mt_calloc((size_t)g->nvalues, sizeof *out->params);
    out->losses = mt_calloc((size_t)steps, sizeof *out->losses);
    mt_interp_init_states(interp, proxy->job.seed);
    for (int64_t s = 0; s < steps && !st; s++) {
        mt_working((double)(proxy->nplaces > 1 ? steps + s : s), 2 * (double)steps, "step %lld on %d rank%s",
                   (long long)s + 1, proxy->nplaces, proxy->nplaces == 1 ? "" : "s");
        struct mt_clock clock = {.step = s + 1, .seed = proxy->job.seed, .lr = mt_job_lr(&proxy->job, s + 1)};
        feed(interp, planned, proxy->job.seed, s);
        if (!(st = mt_interp_step(interp, &clock, err))) st = step_loss(interp, g, &out->losses[s], err);
    }
    for (int v = 0; v < g->nvalues && !st; v++) {
        double spread;
        if (!g->values[v].param) continue;
        out->params[v] = mt_malloc((size_t)mt_value_count(g, v) * sizeof **out->params);
        mt_interp_get(interp, v, out->params[v], &spread);
        out->spread = fmax(out->spread, spread);
    }
    mt_interp_free(interp);
    return st;
}

static void free_outcome(struct outcome *out, int nvalues) {
    for (int v = 0; v < nvalues && out->params; v++) free(out->params[v]);
    free(out->params);
    free(out->losses);
}

static void compare(const struct mt_plan *plan, const struct mt_graph *g, int64_t steps, const struct outcome *want,
                    const struct outcome *got, struct mt_numeric *result) {
    double squares = 0, differences = 0, rates = 0;
    for (int64_t s = 0; s < steps; s++) {
        double apart = fabs(got->losses[s] - want->losses[s]) / fabs(want->losses[s]);
        rates += mt_job_lr(&plan->job, s + 1);
        if (!(apart <= result->loss_difference)) result->loss_difference = apart; /* a NaN stays */
    }
    for (int v = 0; v < g->nvalues; v++) {
        if (!want->params[v]) continue;
        double largest = 0, apart = 0;
        for (int64_t i = 0; i < mt_value_count(g, v); i++) {
            double w = want->params[v][i], d = fabs(got->params[v][i] - w);
            squares += w * w;
            differences += d * d;
            largest = fmax(largest, fabs(w));
            if (!(d <= apart)) apart = d;
        }
        apart /= fmax(largest, rates);
        if (result->worst_name && apart <= result->worst) continue;
        result->worst = apart;
        result->worst_name = mt_arena_strdup(&result->arena, g->values[v].name);
    }
    result->difference = sqrt(differences / squares);
    result->spread = got->spread;
    result->first_loss = want->losses[0];
    result->last_loss = want->losses[steps - 1];
}

/* Comparisons are negated so that a NaN fails. */
static enum mt_status check_limits(const struct mt_numeric *result, struct mt_err *err) {
    if (!(result->spread == 0))
        return mt_fail(err, MT_EPROOF, "replicas of a parameter differ between ranks by %.3g", result->spread);
    if (!(result->difference <= MT_NUMERIC_DIFFERENCE))
        return mt_fail(err, MT_EPROOF, "the parameters differ from one rank's by %.3g of their norm; %g is allowed",
                       result->difference, MT_NUMERIC_DIFFERENCE);
    if (!(result->worst <= MT_NUMERIC_WORST))
        return mt_fail(err, MT_EPROOF, "%s differs from one rank's by %.3g; %g is allowed", result->worst_name,
                       result->worst, MT_NUMERIC_WORST);
    if (!(result->loss_difference <= MT_NUMERIC_LOSS))
        return mt_fail(err, MT_EPROOF, "a loss differs from one rank's by %.3g; %g is allowed", result->loss_difference,
                       MT_NUMERIC_LOSS);
    return MT_OK;
}

enum mt_status mt_numeric_run(const struct mt_plan *plan, int64_t steps, struct mt_numeric *result,
                              struct mt_err *err) {
    memset(result, 0, sizeof *result);
    struct mt_plan *fp64 = mt_proxy_plan_fp64(plan), *one = mt_proxy_plan_one_rank(fp64);
    struct outcome want = {0}, got = {0};
    struct mt_planned reference = {0}, planned = {0};
    mt_working_begin("comparing with one rank");
    enum mt_status st = run_proxy(one, steps, &want, &reference, err);
    if (st) {
        mt_err_context(err, "on one rank");
        goto out;
    }
    if ((st = run_proxy(fp64, steps, &got, &planned, err))) goto out;
    compare(plan, reference.graph, steps, &want, &got, result);
    st = check_limits(result, err);
out:
    mt_working_end();
    if (reference.graph) free_outcome(&want, reference.graph->nvalues);
    if (planned.graph) free_outcome(&got, planned.graph->nvalues);
    mt_planned_release(&reference);
    mt_planned_release(&planned);
    mt_plan_free(one);
    mt_plan_free(fp64);
    return st;
}
