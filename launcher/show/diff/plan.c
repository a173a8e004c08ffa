/* The facts of a plan: job, ranks, splits, rules, collectives, memory and prediction. */
#include "kernels/base/text/units.h"
#include "launcher/show/diff/diff.h"
#include "planner/plan/plan.h"

static void list_optimizer(const struct mt_optimizer *o, struct mt_facts *f) {
    mt_fact(f, "optimizer", "%s", mt_optimizer_names[o->kind]);
    mt_fact_real(f, "learning rate", o->lr, 0, MT_UNIT_NUMBER);
    mt_fact(f, "schedule", "%s", mt_schedule_names[o->schedule]);
    if (o->schedule != MT_LR_CONSTANT) mt_fact_real(f, "last learning rate", o->lr_min, 0, MT_UNIT_NUMBER);
    mt_fact(f, "steps of warm-up", "%lld", (long long)o->warmup);
    if (o->kind == MT_ADAMW) {
        mt_fact(f, "beta", "%.9g %.9g", o->beta1, o->beta2);
        mt_fact(f, "eps", "%.9g", o->eps);
    } else {
        mt_fact(f, "momentum", "%.9g%s", o->momentum, o->nesterov ? ", Nesterov's" : "");
    }
    mt_fact(f, "weight decay", "%.9g", o->decay);
    mt_fact(f, "clip", "%.9g", o->clip);
}

static void list_job(const struct mt_plan *p, struct mt_facts *f) {
    const struct mt_job *j = &p->job;
    mt_fact(f, "model", "%s", p->model);
    mt_fact(f, "cluster", "%s", p->cluster_hash);
    if (p->hypothetical[0]) mt_fact(f, "cannot run here", "%s", p->hypothetical);
    mt_fact(f, "batch", "%lld", (long long)j->batch);
    mt_fact(f, "seq", "%lld", (long long)j->seq);
    mt_fact(f, "steps", "%lld", (long long)j->steps);
    mt_fact(f, "precision", "%s", mt_type_name(j->precision));
    mt_fact(f, "seed", "%llu", (unsigned long long)j->seed);
    mt_fact(f, "dropout", "%.9g", j->dropout);
    mt_fact(f, "gradients of attention", j->any_order ? "in any order" : "the same bits each run");
    mt_fact(f, "recompute", "%s", mt_recompute_names[j->recompute]);
    list_optimizer(&j->optimizer, f);
}

static void list_ranks(const struct mt_plan *p, struct mt_facts *f) {
    struct mt_arena arena = MT_ARENA_INIT;
    const int *place = mt_plan_places(p, &arena);
    mt_fact(f, "ranks", "%d", p->nranks);
    for (int r = 0; r < p->nranks; r++) {
        const struct mt_plan_rank *rank = &p->ranks[r];
        if (rank->host[0]) mt_fact(f, mt_fact_name(f, "rank %d: host", r), "%s", rank->host);
        if (rank->class[0]) mt_fact(f, mt_fact_name(f, "rank %d: class", r), "%s", rank->class);
        mt_fact_real(f, mt_fact_name(f, "rank %d: speed", r), rank->speed, 0, MT_UNIT_NUMBER);
        if (place[r] < 0)
            mt_fact(f, mt_fact_name(f, "rank %d: place in the program", r), "idle");
        else
            mt_fact(f, mt_fact_name(f, "rank %d: place in the program", r), "%d", place[r]);
        if (rank->memory_bytes)
            mt_fact_real(f, mt_fact_name(f, "rank %d: may use", r), (double)rank->memory_bytes, 0, MT_UNIT_BYTES);
    }
    mt_arena_release(&arena);
}

static void list_splits(const struct mt_plan *p, struct mt_facts *f) {
    struct mt_arena arena = MT_ARENA_INIT;
    for (int s = 0; s < p->nsplits; s++)
        for (int r = 0; r < p->nranks; r++)
            mt_fact_real(f, mt_fact_name(f, "%s of rank %d", mt_plan_split_text(&p->splits[s], &arena), r),
                         (double)p->splits[s].sizes[r], 0, MT_UNIT_NUMBER);
    mt_arena_release(&arena);
    for (int r = 0; r < p->nranks; r++)
        mt_fact(f, mt_fact_name(f, "micro-batch of rank %d", r), "%lld", (long long)p->micro[r]);
}

static void list_rows(const struct mt_plan *p, struct mt_facts *f) {
    char bytes[MT_UNITS_TEXT];
    const struct mt_decisions *d = &p->decisions;
    struct mt_arena arena = MT_ARENA_INIT;
    for (int i = 0; i < d->nrules; i++)
        mt_fact(f, mt_fact_name(f, "operators %s", d->rules[i].pattern), "%s", mt_plan_rule_text(&d->rules[i], &arena));
    for (int i = 0; i < d->nstorage; i++)
        mt_fact(f, mt_fact_name(f, "storage of %s", d->storage[i].pattern), "%s",
                mt_plan_storage_text(&d->storage[i], &arena));
    for (int i = 0; i < d->noverlaps; i++) {
        const struct mt_overlap_choice *row = &d->overlaps[i];
        mt_fact(f,
                mt_fact_name(f, "%s of %lld by %lld by %lld", mt_overlap_name(row->form), (long long)row->m,
                             (long long)row->k, (long long)row->cols),
                "%s", mt_overlap_choice_text(row, &arena));
    }
    mt_arena_release(&arena);
    for (int i = 0; i < MT_NDECISIONS; i++)
        mt_fact(f, mt_decision_table[i].what, "%s",
                mt_decision_table[i].words[mt_decision_get(d, (enum mt_decision_id)i)]);
    if (d->bucket_bytes)
        mt_fact_real(f, "buckets", (double)d->bucket_bytes, 0, MT_UNIT_BYTES);
    else
        mt_fact(f, "buckets", "none");
    if (d->staging_bytes)
        mt_fact_real(f, "staging at most", (double)d->staging_bytes, 0, MT_UNIT_BYTES);
    else
        mt_fact(f, "staging at most", "by default");
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row *row = &d->algorithms[i];
        const char *name = mt_coll_name(row->kind);
        if (row->up_to_bytes)
            name = mt_fact_name(f, "%s up to %s", name, mt_units_bytes((double)row->up_to_bytes, bytes));
        mt_fact(f, name, mt_coll_reduces(row->kind) ? "%s, as %s" : "%s", row->algorithm,
                mt_type_name(mt_plan_wire(p)));
    }
}

static void list_bytes(const char *what, int rank, int64_t bytes, struct mt_facts *f) {
    if (bytes) mt_fact_real(f, mt_fact_name(f, "%s of rank %d", what, rank), (double)bytes, 0, MT_UNIT_BYTES);
}

static void list_memory(const struct mt_plan *p, struct mt_facts *f) {
    for (int r = 0; r < p->nranks; r++) {
        const struct mt_plan_memory *memory = &p->memory[r];
        mt_fact_real(f, mt_fact_name(f, "memory of rank %d", r), (double)memory->arena_bytes, 0, MT_UNIT_BYTES);
        list_bytes("communicators", r, memory->communicator_bytes, f);
        list_bytes("window", r, memory->window_bytes, f);
    }
}

static void list_prediction(const struct mt_plan *p, struct mt_facts *f) {
    const struct mt_plan_prediction *t = p->prediction;
    if (!t) return;
    mt_fact_predicted(f, "predicted step", t->step_s, t->step_s);
    mt_fact_predicted(f, "bound of the step", t->bound_s, t->step_s);
    for (int i = 0; i < t->nidle; i++) {
        const char *name = mt_fact_name(f, "best step that uses rank %d", t->idle[i].rank);
        if (t->idle[i].step_s > 0) mt_fact_predicted(f, name, t->idle[i].step_s, t->step_s);
    }
    for (int r = 0; r < p->nranks; r++) {
        mt_fact_predicted(f, mt_fact_name(f, "rank %d: computing", r), t->times[r].compute_s, t->step_s);
        mt_fact_predicted(f, mt_fact_name(f, "rank %d: communicating", r), t->times[r].exposed_s, t->step_s);
        mt_fact_predicted(f, mt_fact_name(f, "rank %d: idle", r), t->times[r].idle_s, t->step_s);
    }
}

/* Who made it does not count. */
static const char *content_of(const struct mt_plan *p, struct mt_arena *arena) {
    struct mt_plan same = *p;
    char hash[33];
    same.made_by = "";
    mt_plan_hash(&same, hash);
    return mt_arena_strdup(arena, hash);
}

enum mt_status mt_facts_of_plan(const char *path, struct mt_facts *facts, struct mt_err *err) {
    struct mt_plan *plan;
    enum mt_status st = mt_plan_read(path, &plan, err);
    if (st) return st;
    list_job(plan, facts);
    list_ranks(plan, facts);
    list_splits(plan, facts);
    list_rows(plan, facts);
    list_memory(plan, facts);
    list_prediction(plan, facts);
    facts->content = content_of(plan, &facts->arena);
    mt_plan_free(plan);
    return MT_OK;
}
