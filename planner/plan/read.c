/* The plan read from a document, every member checked, unknown ones refused. */
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/plan/plan.h"

#define MOST_ROWS 10000

/* Of 32 digits (mt_plan_check), or, if it is of something that need not be there, "". */
static enum mt_status take_hash(struct mt_json at, const char *key, bool needed, char hash[33], struct mt_err *err) {
    const char *text;
    enum mt_status st = mt_json_string(at, key, &text, err);
    if (st) return st;
    if (strlen(text) > 32 || (needed && !text[0]))
        return mt_json_fail(at, err, "%s: must be 32 hexadecimal digits", key);
    strcpy(hash, text);
    return MT_OK;
}

static enum mt_status read_rank(void *context, struct mt_json at, int r, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"host",         "class",       "speed",          "memory_bytes",
                                       "state_bytes",  "arena_bytes", "reserved_bytes", "communicator_bytes",
                                       "window_bytes", NULL};
    struct mt_plan_rank *rank = &p->ranks[r];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "host", &p->arena, &rank->host, err)) ||
        (st = mt_json_text(at, "class", &p->arena, &rank->class, err)) ||
        (st = mt_json_real(at, "speed", 0, DBL_MAX, &rank->speed, err)) ||
        (st = mt_json_int(at, "memory_bytes", 0, INT64_MAX, &rank->memory_bytes, err)) ||
        (st = mt_json_int(at, "state_bytes", 0, INT64_MAX, &p->memory[r].state_bytes, err)) ||
        (mt_json_has(at, "reserved_bytes") &&
         (st = mt_json_int(at, "reserved_bytes", 0, INT64_MAX, &p->ranks[r].reserved_bytes, err))) ||
        (mt_json_has(at, "window_bytes") &&
         (st = mt_json_int(at, "window_bytes", 0, INT64_MAX, &p->memory[r].window_bytes, err))) ||
        (mt_json_has(at, "communicator_bytes") &&
         (st = mt_json_int(at, "communicator_bytes", 0, INT64_MAX, &p->memory[r].communicator_bytes, err))))
        return st;
    return mt_json_int(at, "arena_bytes", 0, INT64_MAX, &p->memory[r].arena_bytes, err);
}

/* A number for each host, in order of first rank, of which every rank of the host that takes part has all. */
static enum mt_status read_host_sizes(const struct mt_plan *p, struct mt_json at, int64_t *sizes, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_json vector;
    int nhosts, length, *host = mt_plan_hosts(p, &arena, &nhosts), *place = mt_plan_places(p, &arena);
    int64_t *of_host = mt_new(&arena, int64_t, nhosts);
    bool *works = mt_new(&arena, bool, nhosts);
    enum mt_status st = mt_json_get(at, "sizes", &vector, err);
    if (!st && !p->ranks[0].host[0]) {
        st = mt_json_fail(at, err, "over: is \"host\", but the plan's ranks have no hosts");
        mt_err_hint(err, "name them: \"host\" in \"ranks\", or `motley plan --hosts a,a,b,b`");
    } else if (!st && !(st = mt_json_length(vector, MT_PLAN_MOST_RANKS, &length, err)) && length != nhosts) {
        st = mt_json_fail(vector, err, "has %d numbers, but there are %d hosts: a split over hosts has one for each",
                          length, nhosts);
        mt_err_hint(err, "hosts are in order of their first ranks: \"%.60s\" first", p->ranks[0].host);
    }
    if (!st) st = mt_json_ints(at, "sizes", 0, INT64_MAX, nhosts, of_host, err);
    for (int r = 0; r < p->nranks && !st; r++)
        if (place[r] >= 0) sizes[r] = of_host[host[r]], works[host[r]] = true;
    for (int r = 0; r < p->nranks && !st; r++)
        if (of_host[host[r]] && !works[host[r]])
            st = mt_json_fail(vector, err, "host %d (\"%.60s\") has %lld, but all its ranks are idle", host[r],
                              p->ranks[r].host, (long long)of_host[host[r]]);
    mt_arena_release(&arena);
    return st;
}

static enum mt_status read_split(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"name", "label", "align", "over", "sizes", NULL};
    struct mt_plan_split *split = &p->splits[i];
    int over = MT_OVER_ALL;
    enum mt_status st;
    split->sizes = mt_new(&p->arena, int64_t, p->nranks);
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "name", &p->arena, &split->name, err)) ||
        (st = mt_json_text(at, "label", &p->arena, &split->label, err)) ||
        (st = mt_json_int(at, "align", 1, INT64_MAX, &split->align, err)) ||
        (mt_json_has(at, "over") && (st = mt_json_enum(at, "over", mt_over_names, MT_NOVER, &over, err))))
        return st;
    split->over = (enum mt_over)over;
    if (split->over == MT_OVER_HOST) return read_host_sizes(p, at, split->sizes, err);
    return mt_json_ints(at, "sizes", 0, INT64_MAX, p->nranks, split->sizes, err);
}

/* "inner": a name, or one for each host. */
static enum mt_status read_inner(struct mt_plan *p, struct mt_json at, struct mt_row_levels *levels,
                                 struct mt_err *err) {
    struct mt_json inner, item;
    struct mt_err none = MT_ERR_INIT;
    const char *name, **names;
    enum mt_status st;
    if ((st = mt_json_get(at, "inner", &inner, err))) return st;
    if (!mt_json_as_string(inner, &name, &none)) {
        levels->ninner = 1;
        levels->inner = names = mt_new(&p->arena, const char *, 1);
        return mt_json_text(at, "inner", &p->arena, &names[0], err);
    }
    if ((st = mt_json_length(inner, MT_PLAN_MOST_RANKS, &levels->ninner, err))) return st;
    levels->inner = names = mt_new(&p->arena, const char *, levels->ninner);
    for (int i = 0; i < levels->ninner && !st; i++)
        if (!(st = mt_json_item(inner, i, &item, err)) && !(st = mt_json_as_string(item, &name, err)))
            names[i] = mt_arena_strdup(&p->arena, name);
    return st;
}

static enum mt_status read_occurrence(struct mt_json at, const char *key, int *occurrence, struct mt_err *err) {
    int64_t value = 1;
    enum mt_status st = mt_json_has(at, key) ? mt_json_int(at, key, 1, 100, &value, err) : MT_OK;
    *occurrence = value > 1 ? (int)value : 0;
    return st;
}

static enum mt_status read_levels(struct mt_plan *p, struct mt_json at, struct mt_row_levels *levels,
                                  struct mt_err *err) {
    enum mt_status st = read_occurrence(at, "occurrence", &levels->occurrence, err);
    if (!st) st = read_occurrence(at, "inner_occurrence", &levels->inner_occurrence, err);
    return st || !mt_json_has(at, "inner") ? st : read_inner(p, at, levels, err);
}

static enum mt_status read_rule(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"pattern", "rule", "split", "inner", "occurrence", "inner_occurrence", NULL};
    struct mt_rule_row *row = &p->decisions.rules[i];
    int operators = 0;
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "pattern", &p->arena, &row->pattern, err)) ||
        (st = mt_json_enum(at, "rule", mt_operators_names, MT_NOPERATORS, &operators, err)))
        return st;
    row->operators = (enum mt_operators)operators;
    row->split = "";
    if (mt_json_has(at, "split") && (st = mt_json_text(at, "split", &p->arena, &row->split, err))) return st;
    return read_levels(p, at, &row->levels, err);
}

static enum mt_status read_storage(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"pattern", "layout", "split", "inner", "occurrence", "inner_occurrence", NULL};
    struct mt_storage_row *row = &p->decisions.storage[i];
    int state = 0;
    enum mt_status st = mt_json_only(at, keys, err);
    if (!st) st = mt_json_text(at, "pattern", &p->arena, &row->pattern, err);
    if (!st) st = mt_json_enum(at, "layout", mt_state_names, MT_NSTATE, &state, err);
    row->state = (enum mt_state)state;
    row->split = "";
    if (!st && mt_json_has(at, "split")) st = mt_json_text(at, "split", &p->arena, &row->split, err);
    return st ? st : read_levels(p, at, &row->levels, err);
}

/* Rows of kinds that reduce repeat the wire type and the accumulation type, which are the same in all. */
static enum mt_status read_types(struct mt_plan *p, struct mt_json at, struct mt_err *err) {
    const char *types[MT_I32];
    enum mt_type *wire = &p->decisions.gradient_wire, want = mt_type_acc(p->job.precision);
    struct mt_json wire_at, acc_at;
    int is, acc;
    enum mt_status st;
    for (int t = 0; t < MT_I32; t++) types[t] = mt_type_name((enum mt_type)t);
    if ((st = mt_json_enum(at, "wire", types, MT_I32, &is, err)) ||
        (st = mt_json_enum(at, "acc", types, MT_I32, &acc, err)) || (st = mt_json_get(at, "wire", &wire_at, err)) ||
        (st = mt_json_get(at, "acc", &acc_at, err)))
        return st;
    if ((enum mt_type)acc != want)
        return mt_json_fail(acc_at, err, "is %s, but a job in %s accumulates in %s", types[acc],
                            mt_type_name(p->job.precision), mt_type_name(want));
    if (*wire != MT_NTYPES && *wire != (enum mt_type)is)
        return mt_json_fail(wire_at, err, "is %s, but %s in the rows before: all sums of gradients have one wire type",
                            types[is], mt_type_name(*wire));
    *wire = (enum mt_type)is;
    return MT_OK;
}

static enum mt_status read_collective(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const sum_keys[] = {"kind", "algorithm", "up_to_bytes", "wire", "acc", NULL};
    static const char *const move_keys[] = {"kind", "algorithm", "up_to_bytes", NULL};
    struct mt_algorithm_row *row = &p->decisions.algorithms[i];
    const char *kinds[MT_NCOLLS];
    for (int k = 0; k < MT_NCOLLS; k++) kinds[k] = mt_coll_name((enum mt_coll_kind)k);
    int kind;
    enum mt_status st;
    if ((st = mt_json_enum(at, "kind", kinds, MT_NCOLLS, &kind, err))) return st;
    bool sums = mt_coll_reduces(row->kind = (enum mt_coll_kind)kind);
    if ((st = mt_json_only(at, sums ? sum_keys : move_keys, err)) ||
        (st = mt_json_text(at, "algorithm", &p->arena, &row->algorithm, err)) ||
        (sums && (st = read_types(p, at, err))))
        return st;
    if (!mt_json_has(at, "up_to_bytes")) return MT_OK;
    return mt_json_int(at, "up_to_bytes", 1, INT64_MAX, &row->up_to_bytes, err);
}

static enum mt_status read_groups(struct mt_plan *p, struct mt_json at, struct mt_overlap_choice *row,
                                  struct mt_err *err) {
    struct mt_json groups;
    enum mt_status st;
    if (!mt_json_has(at, "groups")) return MT_OK;
    if ((st = mt_json_get(at, "groups", &groups, err)) || (st = mt_json_length(groups, MOST_ROWS, &row->ngroups, err)))
        return st;
    int64_t *rows = mt_new(&p->arena, int64_t, row->ngroups);
    row->groups = rows;
    return mt_json_ints(at, "groups", 1, INT64_MAX, row->ngroups, rows, err);
}

static enum mt_status read_overlapped(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"form",     "m",      "columns", "k",     "by",      "tile",  "mix",
                                       "put_rows", "direct", "groups",  "slabs", "engines", "joint", NULL};
    static const char *const apart_keys[] = {"form", "m", "columns", "k", "by", NULL};
    struct mt_overlap_choice *row = &p->decisions.overlaps[i];
    int64_t mix = 0, slabs = 0;
    int form, how;
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) ||
        (st = mt_json_enum(at, "form", mt_overlap_form_names, MT_OVERLAP_NFORMS, &form, err)) ||
        (st = mt_json_enum(at, "by", mt_overlap_how_names, MT_OVERLAP_NHOWS, &how, err)) ||
        (st = mt_json_int(at, "m", 1, INT64_MAX, &row->m, err)) ||
        (st = mt_json_int(at, "columns", 1, INT64_MAX, &row->cols, err)) ||
        (st = mt_json_int(at, "k", 1, INT64_MAX, &row->k, err)))
        return st;
    row->form = (enum mt_overlap_form)form, row->how = (enum mt_overlap_how)how;
    if (row->how == MT_OVERLAP_APART) return mt_json_only(at, apart_keys, err);
    if ((st = mt_json_ints(at, "tile", 1, INT64_MAX, 2, row->tile, err)) ||
        (mt_json_has(at, "put_rows") && (st = mt_json_int(at, "put_rows", 1, INT64_MAX, &row->chunk, err))) ||
        (mt_json_has(at, "slabs") && (st = mt_json_int(at, "slabs", 2, MT_OVERLAP_MOST_SLABS, &slabs, err))) ||
        (mt_json_has(at, "mix") && (st = mt_json_int(at, "mix", 0, INT32_MAX, &mix, err))) ||
        (mt_json_has(at, "direct") && (st = mt_json_bool(at, "direct", &row->direct, err))) ||
        (mt_json_has(at, "engines") && (st = mt_json_bool(at, "engines", &row->engines, err))) ||
        (mt_json_has(at, "joint") && (st = mt_json_bool(at, "joint", &row->joint, err))))
        return st;
    row->mix = (int)mix, row->slabs = (int)slabs;
    return read_groups(p, at, row, err);
}

static enum mt_status read_decision(struct mt_json at, enum mt_decision_id which, int *value, struct mt_err *err) {
    const struct mt_decision *row = &mt_decision_table[which];
    struct mt_err none = MT_ERR_INIT;
    const char *text;
    if (which == MT_DECISION_OVERLAPPED && !mt_json_string(at, row->name, &text, &none) &&
        (*value = mt_overlapped_parse(text)) >= 0)
        return MT_OK;
    return mt_json_enum(at, row->name, row->words, row->nwords, value, err);
}

static enum mt_status read_gradients(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    const char *keys[MT_NDECISIONS + 3] = {"bucket_bytes", "staging_bytes"};
    struct mt_json at;
    enum mt_status st;
    for (int i = 0; i < MT_NDECISIONS; i++) keys[2 + i] = mt_decision_table[i].name;
    if ((st = mt_json_get(root, "gradients", &at, err)) || (st = mt_json_only(at, keys, err))) return st;
    for (int i = 0; i < MT_NDECISIONS; i++) {
        const struct mt_decision *row = &mt_decision_table[i];
        int value = row->omitted;
        if ((value < 0 || mt_json_has(at, row->name)) && (st = read_decision(at, (enum mt_decision_id)i, &value, err)))
            return st;
        mt_decision_set(&p->decisions, (enum mt_decision_id)i, value);
    }
    if (mt_json_has(at, "staging_bytes") &&
        (st = mt_json_int(at, "staging_bytes", MT_LEAST_STAGING_BYTES, INT64_MAX, &p->decisions.staging_bytes, err)))
        return st;
    return mt_json_int(at, "bucket_bytes", 0, INT64_MAX, &p->decisions.bucket_bytes, err);
}

static enum mt_status read_time(void *context, struct mt_json at, int r, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"compute_s", "exposed_s", "idle_s", NULL};
    struct mt_plan_time *time = &p->prediction->times[r];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_real(at, "compute_s", 0, DBL_MAX, &time->compute_s, err)) ||
        (st = mt_json_real(at, "exposed_s", 0, DBL_MAX, &time->exposed_s, err)))
        return st;
    return mt_json_real(at, "idle_s", 0, DBL_MAX, &time->idle_s, err);
}

static enum mt_status read_rejected(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"what", "why", "step_s", NULL};
    struct mt_plan_rejected *row = &p->prediction->rejected[i];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "what", &p->arena, &row->what, err)) ||
        (st = mt_json_text(at, "why", &p->arena, &row->why, err)))
        return st;
    return mt_json_has(at, "step_s") ? mt_json_real(at, "step_s", DBL_MIN, DBL_MAX, &row->step_s, err) : MT_OK;
}

static enum mt_status read_idle(void *context, struct mt_json at, int i, struct mt_err *err) {
    struct mt_plan *p = context;
    static const char *const keys[] = {"rank", "why", "step_s", NULL};
    struct mt_plan_idle *row = &p->prediction->idle[i];
    int64_t rank = 0;
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_int(at, "rank", 0, p->nranks - 1, &rank, err)) ||
        (st = mt_json_text(at, "why", &p->arena, &row->why, err)))
        return st;
    row->rank = (int)rank;
    return mt_json_has(at, "step_s") ? mt_json_real(at, "step_s", DBL_MIN, DBL_MAX, &row->step_s, err) : MT_OK;
}

static enum mt_status one_a_rank(const struct mt_plan *p, struct mt_json at, const char *key, int count,
                                 struct mt_err *err) {
    if (count == p->nranks) return MT_OK;
    return mt_json_fail(at, err, "%s: has %d rows, but there are %d ranks", key, count, p->nranks);
}

static enum mt_status read_error_below(struct mt_plan_prediction *f, struct mt_json at, struct mt_err *err) {
    f->error_below = f->error;
    return mt_json_has(at, "error_below") ? mt_json_real(at, "error_below", 0, 1, &f->error_below, err) : MT_OK;
}

static enum mt_status read_prediction(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    static const char *const keys[] = {"step_s", "error",    "error_below", "bound_s", "nominal",
                                       "times",  "rejected", "idle",        NULL};
    struct mt_json at;
    enum mt_status st;
    if (!mt_json_has(root, "prediction")) return MT_OK;
    struct mt_plan_prediction *f = p->prediction = mt_new(&p->arena, struct mt_plan_prediction, 1);
    int ntimes;
    if ((st = mt_json_get(root, "prediction", &at, err)) || (st = mt_json_only(at, keys, err)) ||
        (st = mt_json_real(at, "step_s", DBL_MIN, DBL_MAX, &f->step_s, err)) ||
        (st = mt_json_real(at, "error", 0, DBL_MAX, &f->error, err)) || (st = read_error_below(f, at, err)) ||
        (st = mt_json_real(at, "bound_s", 0, DBL_MAX, &f->bound_s, err)) ||
        (st = mt_json_bool(at, "nominal", &f->nominal, err)) ||
        (st = mt_json_list(at, &(struct mt_json_rows){"times", MT_PLAN_MOST_RANKS, sizeof *f->times, read_time}, p,
                           &p->arena, &f->times, &ntimes, err)) ||
        (st = one_a_rank(p, at, "times", ntimes, err)) ||
        (st = mt_json_list(at, &(struct mt_json_rows){"rejected", MOST_ROWS, sizeof *f->rejected, read_rejected}, p,
                           &p->arena, &f->rejected, &f->nrejected, err)))
        return st;
    if (!mt_json_has(at, "idle")) return MT_OK;
    return mt_json_list(at, &(struct mt_json_rows){"idle", MT_PLAN_MOST_RANKS, sizeof *f->idle, read_idle}, p,
                        &p->arena, &f->idle, &f->nidle, err);
}

static enum mt_status read_decisions(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    struct mt_decisions *d = &p->decisions;
    enum mt_status st;
    if ((st = mt_json_list(root, &(struct mt_json_rows){"rules", MOST_ROWS, sizeof *d->rules, read_rule}, p, &p->arena,
                           &d->rules, &d->nrules, err)) ||
        (st = mt_json_list(root, &(struct mt_json_rows){"storage", MOST_ROWS, sizeof *d->storage, read_storage}, p,
                           &p->arena, &d->storage, &d->nstorage, err)) ||
        (st = read_gradients(p, root, err)))
        return st;
    st = mt_json_list(root, &(struct mt_json_rows){"collectives", MOST_ROWS, sizeof *d->algorithms, read_collective}, p,
                      &p->arena, &d->algorithms, &d->nalgorithms, err);
    if (st || !mt_json_has(root, "overlapped")) return st;
    return mt_json_list(root, &(struct mt_json_rows){"overlapped", MOST_ROWS, sizeof *d->overlaps, read_overlapped}, p,
                        &p->arena, &d->overlaps, &d->noverlaps, err);
}

/* Without it all ranks take part, in order. */
static enum mt_status read_order(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_json at;
    enum mt_status st;
    if (!mt_json_has(root, "order")) return MT_OK;
    if ((st = mt_json_get(root, "order", &at, err)) || (st = mt_json_length(at, MT_PLAN_MOST_RANKS, &p->nplaces, err)))
        return st;
    int64_t *order = mt_new(&arena, int64_t, p->nplaces);
    p->order = mt_new(&p->arena, int, p->nplaces);
    st = mt_json_ints(root, "order", 0, p->nranks - 1, p->nplaces, order, err);
    for (int i = 0; i < p->nplaces && !st; i++) p->order[i] = (int)order[i];
    mt_arena_release(&arena);
    return st;
}

static enum mt_status read_members(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    static const char *const keys[] = {"format",     "version",      "hash",         "made_by",     "model",
                                       "model_hash", "program_hash", "cluster_hash", "parameters",  "flops_per_step",
                                       "job",        "ranks",        "splits",       "micro_batch", "rules",
                                       "storage",    "gradients",    "collectives",  "prediction",  "device",
                                       "order",      "hypothetical", "overlapped",   NULL};
    struct mt_json job;
    enum mt_status st;
    int nranks;
    if ((st = mt_json_only(root, keys, err)) || (st = take_hash(root, "hash", false, p->hash, err)) ||
        (st = mt_json_text(root, "made_by", &p->arena, &p->made_by, err)) ||
        (mt_json_has(root, "device") && (st = mt_json_text(root, "device", &p->arena, &p->device, err))) ||
        (st = mt_json_text(root, "model", &p->arena, &p->model, err)) ||
        (st = take_hash(root, "model_hash", true, p->model_hash, err)) ||
        (st = take_hash(root, "program_hash", true, p->program_hash, err)) ||
        (st = take_hash(root, "cluster_hash", false, p->cluster_hash, err)) ||
        (mt_json_has(root, "hypothetical") &&
         (st = mt_json_text(root, "hypothetical", &p->arena, &p->hypothetical, err))) ||
        (st = mt_json_int(root, "parameters", 0, INT64_MAX, &p->parameters, err)) ||
        (st = mt_json_real(root, "flops_per_step", 0, DBL_MAX, &p->flops_per_step, err)) ||
        (st = mt_json_get(root, "job", &job, err)) || (st = mt_job_read(job, &p->job, err)))
        return st;
    if ((st = mt_json_list(root, &(struct mt_json_rows){"ranks", MT_PLAN_MOST_RANKS, sizeof *p->ranks, read_rank}, p,
                           &p->arena, &p->ranks, &nranks, err)) ||
        (st = read_order(p, root, err)) ||
        (st = mt_json_list(root, &(struct mt_json_rows){"splits", MOST_ROWS, sizeof *p->splits, read_split}, p,
                           &p->arena, &p->splits, &p->nsplits, err)) ||
        (st = mt_json_ints(root, "micro_batch", 0, INT64_MAX, p->nranks, p->micro, err)) ||
        (st = read_decisions(p, root, err)))
        return st;
    return read_prediction(p, root, err);
}

/* Reasons for ranks that an edit has given a place. */
static void drop_stale_reasons(struct mt_plan *p) {
    struct mt_plan_prediction *f = p->prediction;
    int kept = 0;
    for (int i = 0; f && i < f->nidle; i++)
        if (mt_plan_place(p, f->idle[i].rank) < 0) f->idle[kept++] = f->idle[i];
    if (f) f->nidle = kept;
}

static enum mt_status read_document(struct mt_json_doc *doc, bool edited, struct mt_plan **plan, struct mt_err *err) {
    struct mt_json ranks;
    struct mt_plan *p = NULL;
    enum mt_status st;
    int nranks;
    if ((st = mt_json_format(doc->root, MT_PLAN_FORMAT, MT_PLAN_VERSION, err)) ||
        (st = mt_json_get(doc->root, "ranks", &ranks, err)) ||
        (st = mt_json_length(ranks, MT_PLAN_MOST_RANKS, &nranks, err)))
        goto out;
    if (!nranks) {
        st = mt_json_fail(ranks, err, "is empty");
        goto out;
    }
    p = mt_plan_new(nranks);
    if ((st = read_members(p, doc->root, err))) goto out;
    if (edited) drop_stale_reasons(p);
    if ((st = mt_plan_check(p, err))) {
        mt_err_context(err, "%s", doc->name);
        goto out;
    }
    char hash[33];
    mt_plan_hash(p, hash);
    if (!edited && strcmp(hash, p->hash)) {
        st = mt_fail(err, MT_EINPUT, "%s: hash: does not fit: the plan was changed after it was made", doc->name);
        mt_err_hint(err, "to check an edited plan and sign it: motley plan --check %s -o %s", doc->name, doc->name);
    }
    memcpy(p->hash, hash, sizeof hash);
out:
    if (st)
        mt_plan_free(p);
    else
        *plan = p;
    mt_json_release(doc);
    return st;
}

enum mt_status mt_plan_parse(const char *name, const char *text, size_t length, struct mt_plan **plan,
                             struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    return st ? st : read_document(&doc, false, plan, err);
}

enum mt_status mt_plan_parse_edited(const char *name, const char *text, size_t length, struct mt_plan **plan,
                                    struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    return st ? st : read_document(&doc, true, plan, err);
}

static enum mt_status read_path(const char *path, bool edited, struct mt_plan **plan, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_json_doc doc;
    const char *file = mt_file_in(path, "plan.json", &arena);
    enum mt_status st = mt_json_load(file, &doc, err);
    if (st && access(file, F_OK)) mt_err_hint(err, "`motley plan -o %.200s` makes a plan", path);
    if (!st) st = read_document(&doc, edited, plan, err);
    mt_arena_release(&arena);
    return st;
}

enum mt_status mt_plan_read(const char *path, struct mt_plan **plan, struct mt_err *err) {
    return read_path(path, false, plan, err);
}

enum mt_status mt_plan_read_edited(const char *path, struct mt_plan **plan, struct mt_err *err) {
    return read_path(path, true, plan, err);
}

enum mt_status mt_plan_copy(const struct mt_plan *plan, struct mt_plan **copy, struct mt_err *err) {
    struct mt_plan same = *plan; /* the text needs a hash */
    size_t length;
    char *text = mt_plan_text(&same, &length);
    enum mt_status st = mt_plan_parse("the plan", text, length, copy, err);
    free(text);
    return st;
}
