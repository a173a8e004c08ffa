/* The plan in memory: what must hold within it, and who is who. */
#include "planner/plan/plan.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mt_plan *mt_plan_new(int nranks) {
    struct mt_plan *p = mt_calloc(1, sizeof *p);
    p->made_by = p->model = p->hypothetical = "";
    p->device = "cpu";
    p->decisions =
        (struct mt_decisions){.sync = MT_SYNC_ALL_REDUCE, .start = MT_START_FULL, .gradient_wire = MT_NTYPES};
    p->nranks = nranks;
    p->ranks = mt_new(&p->arena, struct mt_plan_rank, nranks);
    for (int r = 0; r < nranks; r++) p->ranks[r].host = p->ranks[r].class = "";
    p->nplaces = nranks;
    p->order = mt_new(&p->arena, int, nranks);
    for (int r = 0; r < nranks; r++) p->order[r] = r;
    p->micro = mt_new(&p->arena, int64_t, nranks);
    p->memory = mt_new(&p->arena, struct mt_plan_memory, nranks);
    mt_job_default(&p->job);
    return p;
}

enum mt_start mt_plan_default_start(const char *device) {
    return device && strcmp(device, "cpu") != 0 ? MT_START_ATTENTION : MT_START_FULL;
}

enum mt_type mt_plan_wire(const struct mt_plan *plan) {
    enum mt_type wire = plan->decisions.gradient_wire;
    return wire == MT_NTYPES ? mt_type_acc(plan->job.precision) : wire;
}

void mt_plan_free(struct mt_plan *plan) {
    if (!plan) return;
    mt_arena_release(&plan->arena);
    free(plan);
}

const struct mt_plan_split *mt_plan_split_named(const struct mt_plan *plan, const char *name) {
    for (int s = 0; s < plan->nsplits; s++)
        if (!strcmp(plan->splits[s].name, name)) return &plan->splits[s];
    return NULL;
}

int mt_plan_storage_row(const struct mt_plan *plan, const char *parameter) {
    for (int s = 0; s < plan->decisions.nstorage; s++)
        if (!fnmatch(plan->decisions.storage[s].pattern, parameter, 0)) return s;
    return -1;
}

bool mt_plan_stored_split(const struct mt_plan *plan, const char *parameter) {
    int row = mt_plan_storage_row(plan, parameter);
    return row >= 0 && plan->decisions.storage[row].state == MT_STATE_SPLIT;
}

/* "": not known yet, or of something that need not be there. */
static enum mt_status check_hash(const char *name, const char *hash, struct mt_err *err) {
    if (!hash[0]) return MT_OK;
    if (strlen(hash) == 32 && strspn(hash, "0123456789abcdef") == 32) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: must be 32 hexadecimal digits", name);
}

static enum mt_status check_ranks(const struct mt_plan *p, struct mt_err *err) {
    for (int r = 0; r < p->nranks; r++) {
        if (!isfinite(p->ranks[r].speed) || p->ranks[r].speed < 0)
            return mt_fail(err, MT_EINPUT, "ranks[%d].speed: is %g, but must be a number from 0", r, p->ranks[r].speed);
        if (!p->ranks[r].host[0] != !p->ranks[0].host[0])
            return mt_fail(err, MT_EINPUT, "ranks[%d].host: either all ranks have a host, or none", r);
    }
    return MT_OK;
}

/* Each rank at most once, and at least one. */
static enum mt_status check_order(const struct mt_plan *p, struct mt_err *err) {
    enum mt_status st = MT_OK;
    if (p->nplaces < 1 || p->nplaces > p->nranks)
        return mt_fail(err, MT_EINPUT, "order: lists %d ranks, but must list from 1 to %d: those that take part",
                       p->nplaces, p->nranks);
    int *seen = mt_calloc((size_t)p->nranks, sizeof *seen); /* the place, from 1 */
    for (int i = 0; i < p->nplaces && !st; i++) {
        int rank = p->order[i];
        if (rank < 0 || rank >= p->nranks)
            st = mt_fail(err, MT_EINPUT, "order[%d]: is %d, but ranks are 0 to %d", i, rank, p->nranks - 1);
        else if (seen[rank])
            st = mt_fail(err, MT_EINPUT, "order[%d]: is %d, which order[%d] is already: a rank has one place", i, rank,
                         seen[rank] - 1);
        else
            seen[rank] = i + 1;
    }
    free(seen);
    return st;
}

/* A share of an idle rank would be held by nobody. */
static enum mt_status check_idle_share(const struct mt_plan *p, int s, const int *place, struct mt_err *err) {
    for (int r = 0; r < p->nranks; r++) {
        if (place[r] >= 0 || !p->splits[s].sizes[r]) continue;
        mt_fail(err, MT_EINPUT,
                "splits[%d].sizes[%d]: is %lld, but must be 0: rank %d is not in \"order\", so it is idle", s, r,
                (long long)p->splits[s].sizes[r], r);
        return mt_err_hint(err, "give its share to ranks in \"order\", or add rank %d to \"order\"", r);
    }
    return MT_OK;
}

static enum mt_status check_idle_shares(const struct mt_plan *p, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const int *place = mt_plan_places(p, &arena);
    enum mt_status st = MT_OK;
    for (int s = 0; s < p->nsplits && !st; s++) st = check_idle_share(p, s, place, err);
    mt_arena_release(&arena);
    return st;
}

/* Shares are whole multiples of the alignment but for one of those that together are an extent, or a host's part. */
static enum mt_status check_sizes(const struct mt_plan *p, int s, struct mt_err *err) {
    const struct mt_plan_split *split = &p->splits[s];
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = MT_OK;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts), *place = mt_plan_places(p, &arena);
    int *ragged = mt_new(&arena, int, nhosts), *first = mt_new(&arena, int, nhosts);
    int64_t sum = 0;
    for (int h = 0; h < nhosts; h++) first[h] = -1;
    for (int r = 0; r < p->nranks && !st; r++) {
        int64_t size = split->sizes[r];
        int *f = &first[host[r]], *among = &ragged[split->over == MT_OVER_DEVICE ? host[r] : 0];
        bool counts = split->over != MT_OVER_HOST || (place[r] >= 0 && *f < 0);
        if (size < 0)
            st = mt_fail(err, MT_EINPUT, "splits[%d].sizes[%d]: is negative", s, r);
        else if (__builtin_add_overflow(sum, size, &sum))
            st = mt_fail(err, MT_EINPUT, "splits[%d].sizes: the sum is out of range", s);
        else if (split->over == MT_OVER_HOST && place[r] >= 0 && *f >= 0 && size != split->sizes[*f])
            st = mt_fail(err, MT_EINPUT, "splits[%d].sizes: ranks %d and %d are on one host, but have other shares", s,
                         *f, r);
        else if (counts && size % split->align != 0 && (*among)++)
            st = mt_fail(err, MT_EINPUT, "splits[%d].sizes: all but one must be multiples of the align of %lld", s,
                         (long long)split->align);
        if (place[r] >= 0 && *f < 0) *f = r;
    }
    mt_arena_release(&arena);
    return st;
}

/* Beside "batch", samples are divided within hosts only: what "batch" gives each. */
static enum mt_status check_samples(const struct mt_plan *p, int s, struct mt_err *err) {
    const struct mt_plan_split *split = &p->splits[s], *batch = mt_plan_split_named(p, "batch");
    if (!batch || batch == split || strcmp(split->label, "batch")) return MT_OK;
    if (split->over != MT_OVER_DEVICE || batch->over != MT_OVER_HOST) {
        mt_fail(err, MT_EINPUT, "splits[%d].name: is \"%.60s\", but samples are divided by the split \"batch\"", s,
                split->name);
        return mt_err_hint(err,
                           "where \"batch\" is over hosts, another split of samples may be over devices: the ranks "
                           "of a host divide what it gives the host");
    }
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts);
    int64_t *sum = mt_new(&arena, int64_t, nhosts);
    enum mt_status st = MT_OK;
    for (int r = 0; r < p->nranks; r++) sum[host[r]] += split->sizes[r];
    for (int i = 0; i < p->nplaces && !st; i++) {
        int r = p->order[i];
        if (sum[host[r]] == batch->sizes[r]) continue;
        st = mt_fail(err, MT_EINPUT,
                     "splits[%d].sizes: those of host \"%.60s\" sum to %lld, but \"batch\" gives it %lld samples", s,
                     p->ranks[r].host, (long long)sum[host[r]], (long long)batch->sizes[r]);
    }
    mt_arena_release(&arena);
    return st;
}

static enum mt_status check_split(const struct mt_plan *p, int s, struct mt_err *err) {
    const struct mt_plan_split *split = &p->splits[s];
    if (!split->name[0] || !split->label[0])
        return mt_fail(err, MT_EINPUT, "splits[%d]: name and label must not be empty", s);
    if (mt_plan_split_named(p, split->name) != split)
        return mt_fail(err, MT_EINPUT, "splits[%d].name: \"%s\" is there already", s, split->name);
    bool batch = !strcmp(split->name, "batch"), storage = !strncmp(split->name, "storage:", 8);
    const char *label = batch ? "batch" : storage ? split->name + 8 : split->label;
    if (strcmp(split->label, label))
        return mt_fail(err, MT_EINPUT, "splits[%d].label: is \"%s\", but the split \"%s\" must be of \"%s\"", s,
                       split->label, split->name, label);
    if (split->align < 1) return mt_fail(err, MT_EINPUT, "splits[%d].align: must be at least 1", s);
    if (batch && split->over == MT_OVER_DEVICE)
        return mt_fail(err, MT_EINPUT, "splits[%d].over: samples are divided over all ranks, or over hosts", s);
    if (split->over != MT_OVER_ALL && !p->ranks[0].host[0]) {
        mt_fail(err, MT_EINPUT, "splits[%d].over: is \"%s\", but the plan's ranks have no hosts", s,
                mt_over_names[split->over]);
        return mt_err_hint(err, "name them: \"host\" in \"ranks\", or `motley plan --hosts a,a,b,b`");
    }
    enum mt_status st = check_sizes(p, s, err);
    if (!st) st = check_samples(p, s, err);
    int64_t sum = st ? 0 : mt_plan_split_sum(p, split);
    if (st || !batch || sum == p->job.batch) return st;
    mt_fail(err, MT_EINPUT, "splits[%d].sizes: sums to %lld, but the job's global batch is %lld", s, (long long)sum,
            (long long)p->job.batch);
    return mt_err_hint(err, "run `motley plan` again, or edit the sizes so that they sum to %lld",
                       (long long)p->job.batch);
}

static enum mt_status check_micro(const struct mt_plan *p, struct mt_err *err) {
    const struct mt_plan_split *batch = mt_plan_split_named(p, "batch");
    if (!batch) return mt_fail(err, MT_EINPUT, "splits: has none with the name \"batch\"");
    for (int r = 0; r < p->nranks; r++) {
        int64_t share = batch->sizes[r], least = share > 0;
        if (p->micro[r] < least || p->micro[r] > share)
            return mt_fail(err, MT_EINPUT,
                           "micro_batch[%d]: is %lld, but must be from %lld to the rank's share of the batch, %lld", r,
                           (long long)p->micro[r], (long long)least, (long long)share);
    }
    if (batch->over != MT_OVER_HOST) return MT_OK;
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts), *place = mt_plan_places(p, &arena);
    int *first = mt_new(&arena, int, nhosts); /* + 1 */
    enum mt_status st = MT_OK;
    for (int r = 0; r < p->nranks && !st; r++) {
        int f = first[host[r]] - 1;
        if (place[r] < 0) continue;
        if (f < 0)
            first[host[r]] = r + 1;
        else if (p->micro[r] != p->micro[f])
            st = mt_fail(err, MT_EINPUT, "micro_batch[%d]: is %lld, but rank %d, which has the same samples, has %lld",
                         r, (long long)p->micro[r], f, (long long)p->micro[f]);
    }
    mt_arena_release(&arena);
    return st;
}

/* The splits that a row names are there and over what the row's levels divide among. */
static enum mt_status check_levels(const struct mt_plan *p, const char *list, int row, const char *name,
                                   const struct mt_row_levels *levels, struct mt_err *err) {
    bool rules = !strcmp(list, "rules"), linear = rules && !strcmp(name, MT_ROW_LINEAR);
    const struct mt_plan_split *outer = name[0] ? mt_plan_split_named(p, name) : NULL;
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts;
    mt_plan_hosts(p, &arena, &nhosts);
    mt_arena_release(&arena);
    if (name[0] && !outer && !linear)
        return mt_fail(err, MT_EINPUT, "%s[%d].split: no split has the name \"%s\"", list, row, name);
    if (!levels->ninner) {
        if (!levels->inner_occurrence) return MT_OK;
        return mt_fail(err, MT_EINPUT, "%s[%d].inner_occurrence: there is no \"inner\"", list, row);
    }
    if (!p->ranks[0].host[0]) {
        mt_fail(err, MT_EINPUT, "%s[%d].inner: divides the work of hosts, but the plan's ranks have no hosts", list,
                row);
        return mt_err_hint(err, "name them: \"host\" in \"ranks\", or `motley plan --hosts a,a,b,b`");
    }
    if (outer && outer->over != MT_OVER_HOST) {
        mt_fail(err, MT_EINPUT, "%s[%d].split: \"%s\" is over %s, but with \"inner\" it must be over hosts", list, row,
                name, outer->over == MT_OVER_ALL ? "all ranks" : "devices");
        return mt_err_hint(err,
                           "a split over hosts has \"over\": \"host\" and a number for each host; \"\": every host "
                           "does the same");
    }
    if (levels->ninner > 1 && levels->ninner != nhosts)
        return mt_fail(err, MT_EINPUT,
                       "%s[%d].inner: lists %d splits, but must list one for each of %d hosts, or be one", list, row,
                       levels->ninner, nhosts);
    for (int i = 0; i < levels->ninner; i++) {
        const char *inner = levels->inner[i];
        const struct mt_plan_split *split = inner[0] ? mt_plan_split_named(p, inner) : NULL;
        if (inner[0] && !split && !(rules && !strcmp(inner, MT_ROW_LINEAR)))
            return mt_fail(err, MT_EINPUT, "%s[%d].inner: no split has the name \"%s\"", list, row, inner);
        if (!split || split->over == MT_OVER_DEVICE) continue;
        mt_fail(err, MT_EINPUT, "%s[%d].inner: \"%s\" is over %s, but must be over devices", list, row, inner,
                split->over == MT_OVER_HOST ? "hosts" : "all ranks");
        return mt_err_hint(err,
                           "a split over devices has \"over\": \"device\" and a number for each rank: those of one "
                           "host sum to the extent, or to the host's share of it");
    }
    return MT_OK;
}

static enum mt_status check_rows(const struct mt_plan *p, struct mt_err *err) {
    const struct mt_decisions *d = &p->decisions;
    enum mt_status st;
    for (int i = 0; i < d->nrules; i++) {
        const struct mt_rule_row *row = &d->rules[i];
        bool split = row->operators == MT_OPERATORS_SPLIT;
        if (split && !row->split[0] && !row->levels.ninner)
            return mt_fail(err, MT_EINPUT, "rules[%d].split: no split has the name \"\"", i);
        if (!split && (row->split[0] || row->levels.ninner))
            return mt_fail(err, MT_EINPUT, "rules[%d].split: a replicated operator has no split", i);
        if ((st = check_levels(p, "rules", i, row->split, &row->levels, err))) return st;
        if (!row->pattern[0]) return mt_fail(err, MT_EINPUT, "rules[%d].pattern: must not be empty", i);
    }
    for (int i = 0; i < d->nstorage; i++) {
        const struct mt_storage_row *row = &d->storage[i];
        const char *split = row->split ? row->split : "";
        if (!row->pattern[0]) return mt_fail(err, MT_EINPUT, "storage[%d].pattern: must not be empty", i);
        if (row->state != MT_STATE_SPLIT && (split[0] || row->levels.ninner))
            return mt_fail(err, MT_EINPUT, "storage[%d].split: a replicated parameter has no split", i);
        if ((st = check_levels(p, "storage", i, split, &row->levels, err))) return st;
        if (split[0] && !strcmp(mt_plan_split_named(p, split)->label, "batch"))
            return mt_fail(err, MT_EINPUT, "storage[%d].split: parameters have no samples", i);
    }
    return MT_OK;
}

/* Of all sums of gradients; f16 only if an overflow is noticed. */
static enum mt_status check_wire(const struct mt_plan *p, struct mt_err *err) {
    const struct mt_decisions *d = &p->decisions;
    enum mt_type acc = mt_type_acc(p->job.precision), wire = d->gradient_wire;
    int i = 0;
    if (wire == MT_NTYPES || wire == acc || wire == MT_BF16 || (wire == MT_F16 && p->job.loss_scale > 0)) return MT_OK;
    while (i < d->nalgorithms && !mt_coll_reduces(d->algorithms[i].kind)) i++;
    if (i == d->nalgorithms) return MT_OK;
    return mt_fail(err, MT_EINPUT,
                   "collectives[%d].wire: is %s, but must be %s or bf16, or f16 if the job has a loss_scale", i,
                   mt_type_name(wire), mt_type_name(acc));
}

static bool is_time(double s) {
    return isfinite(s) && s >= 0;
}

static enum mt_status check_idle(const struct mt_plan *p, struct mt_err *err) {
    const struct mt_plan_prediction *f = p->prediction;
    struct mt_arena arena = MT_ARENA_INIT;
    const int *place = mt_plan_places(p, &arena);
    enum mt_status st = MT_OK;
    for (int i = 0; i < f->nidle && !st; i++) {
        const struct mt_plan_idle *row = &f->idle[i];
        if (row->rank < 0 || row->rank >= p->nranks || place[row->rank] >= 0)
            st = mt_fail(err, MT_EINPUT, "prediction.idle[%d].rank: is %d, which is no idle rank", i, row->rank);
        else if (i && row->rank <= f->idle[i - 1].rank)
            st = mt_fail(err, MT_EINPUT, "prediction.idle[%d].rank: rows must be in the order of ranks", i);
        else if (!row->why[0])
            st = mt_fail(err, MT_EINPUT, "prediction.idle[%d].why: must not be empty", i);
        else if (!is_time(row->step_s))
            st = mt_fail(err, MT_EINPUT, "prediction.idle[%d].step_s: is %g, but must be from 0", i, row->step_s);
    }
    mt_arena_release(&arena);
    return st;
}

static enum mt_status check_prediction(const struct mt_plan *p, struct mt_err *err) {
    const struct mt_plan_prediction *f = p->prediction;
    if (!f) return MT_OK;
    if (!p->cluster_hash[0])
        return mt_fail(err, MT_EINPUT, "prediction: there is one, but no cluster_hash says for what cluster");
    if (!is_time(f->step_s) || f->step_s == 0)
        return mt_fail(err, MT_EINPUT, "prediction.step_s: is %g, but must be a time above 0", f->step_s);
    if (!is_time(f->error)) return mt_fail(err, MT_EINPUT, "prediction.error: is %g, but must be from 0", f->error);
    if (!is_time(f->error_below) || (f->error_below > 1 && f->error_below != f->error))
        return mt_fail(err, MT_EINPUT, "prediction.error_below: is %g, but must be from 0 to 1", f->error_below);
    if (!is_time(f->bound_s) || f->bound_s > f->step_s * (1 + 1e-6))
        return mt_fail(err, MT_EINPUT, "prediction.bound_s: is %g, but must be from 0 to the step's time, %g",
                       f->bound_s, f->step_s);
    for (int r = 0; r < p->nranks; r++)
        if (!is_time(f->times[r].compute_s) || !is_time(f->times[r].exposed_s) || !is_time(f->times[r].idle_s))
            return mt_fail(err, MT_EINPUT, "prediction.times[%d]: times must be from 0", r);
    for (int i = 0; i < f->nrejected; i++) {
        const struct mt_plan_rejected *row = &f->rejected[i];
        double before = i ? f->rejected[i - 1].step_s : 0;
        if (!row->what[0] || !row->why[0])
            return mt_fail(err, MT_EINPUT, "prediction.rejected[%d]: what and why must not be empty", i);
        if (!is_time(row->step_s))
            return mt_fail(err, MT_EINPUT, "prediction.rejected[%d].step_s: is %g, but must be from 0", i, row->step_s);
        if (i && row->step_s > 0 && (before == 0 || before > row->step_s))
            return mt_fail(err, MT_EINPUT,
                           "prediction.rejected[%d]: rows must be in the order of step_s, those without it last", i);
    }
    return check_idle(p, err);
}

enum mt_status mt_plan_check(const struct mt_plan *plan, struct mt_err *err) {
    enum mt_status st;
    if (!plan->model[0]) return mt_fail(err, MT_EINPUT, "model: must not be empty");
    if (strcmp(plan->device, "cpu") && strcmp(plan->device, "cuda"))
        return mt_fail(err, MT_EINPUT, "device: \"%.60s\" must be \"cpu\" or \"cuda\"", plan->device);
    if (plan->nranks < 1 || plan->nranks > MT_PLAN_MOST_RANKS)
        return mt_fail(err, MT_EINPUT, "ranks: there are %d, but must be from 1 to %d", plan->nranks,
                       MT_PLAN_MOST_RANKS);
    if ((st = check_hash("model_hash", plan->model_hash, err)) ||
        (st = check_hash("program_hash", plan->program_hash, err)) ||
        (st = check_hash("cluster_hash", plan->cluster_hash, err)) || (st = check_ranks(plan, err)) ||
        (st = check_order(plan, err)))
        return st;
    for (int s = 0; s < plan->nsplits; s++)
        if ((st = check_split(plan, s, err))) return st;
    if ((st = check_idle_shares(plan, err)) || (st = check_micro(plan, err)) || (st = check_rows(plan, err)) ||
        (st = check_wire(plan, err)) || (st = check_prediction(plan, err)))
        return st;
    if ((st = mt_job_check(&plan->job, err))) return mt_err_context(err, "job");
    return mt_decisions_check(&plan->decisions, err);
}

bool mt_plan_same_host(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return (!*a || *a == '.') && (!*b || *b == '.') && (!*a || !*b);
}

static enum mt_status refuse_host(const struct mt_plan *plan, int nprocs, const char *const *host, int proc,
                                  struct mt_err *err) {
    int given = 0, running = 0;
    for (int r = 0; r < plan->nranks; r++) given += mt_plan_same_host(plan->ranks[r].host, host[proc]);
    for (int p = 0; p < nprocs; p++) running += mt_plan_same_host(host[p], host[proc]);
    if (given)
        return mt_fail(err, MT_EINPUT, "%d processes run on host \"%.200s\", but the plan gives it %d rank%s", running,
                       host[proc], given, given == 1 ? "" : "s");
    mt_fail(err, MT_EINPUT, "process %d runs on host \"%.200s\", which the plan does not have", proc, host[proc]);
    char names[300] = "";
    for (int r = 0; r < plan->nranks; r++) {
        size_t used = strlen(names);
        bool seen = false;
        for (int q = 0; q < r && !seen; q++) seen = !strcmp(plan->ranks[q].host, plan->ranks[r].host);
        if (!seen) snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", plan->ranks[r].host);
    }
    return mt_err_hint(
        err,
        "the plan is for: %s; for the hosts at hand, `mpirun -n %d motley profile -o cluster.json` there, "
        "then plan with `--cluster cluster.json`",
        names, nprocs);
}

enum mt_status mt_plan_match(const struct mt_plan *plan, int nprocs, const char *const *host, int *place,
                             struct mt_err *err) {
    if (nprocs != plan->nranks) {
        mt_fail(err, MT_EINPUT, "the plan is for %d rank%s, but %d process%s started", plan->nranks,
                plan->nranks == 1 ? "" : "s", nprocs, nprocs == 1 ? " was" : "es were");
        return mt_err_hint(err, "start it with `mpirun -n %d`, or make a plan with `--ranks %d`", plan->nranks, nprocs);
    }
    bool named = plan->ranks[0].host[0];
    bool *taken = mt_calloc((size_t)nprocs, sizeof *taken);
    enum mt_status st = MT_OK;
    for (int p = 0; p < nprocs && !st; p++) {
        int r = 0;
        while (r < nprocs && (taken[r] || (named && !mt_plan_same_host(plan->ranks[r].host, host[p])))) r++;
        if (r == nprocs) {
            st = refuse_host(plan, nprocs, host, p, err);
        } else {
            taken[r] = true;
            place[p] = r;
        }
    }
    free(taken);
    return st;
}
