/* Programs and costs become a simulation, its outcome a prediction. */
#include "planner/predict/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "synth/lower/internal.h"
#include "planner/predict/communicators.h"
#include "planner/predict/overlapped.h"
#include "planner/predict/record.h"
#include "planner/predict/simulate.h"

enum { STEPS = 3 };

/* Relative error bands: of every prediction, and of what overlapped streams slow each other. */
static const double least_error = 0.02, overlap_error = 0.3;
static const double busy_part = 0.1; /* of a step: a rank that idles less may be the slowest one, if errors are so */

/* Half-widths of figures of one kind, which are taken as fully correlated: they add up. */
struct band {
    double above_s, below_s; /* below: no further than to floor_s */
};
/* What one actor's costs rest on. */
struct basis {
    struct band op, coll[MT_NCOLLS];
    double op_s;                     /* without slowdown */
    double op_floor_s, comm_floor_s; /* what its operators, and its messages, take at least */
    bool nominal;
};

struct predictor {
    const struct mt_program *program;
    struct mt_lower_options options;
    struct mt_costs costs;
    struct mt_sim sim;
    struct basis *basis; /* [actors] */
    int *actor_of;       /* [nranks] */
    int *rendezvous_of;  /* [all instructions of the program]: its last added one, or -1 */
    int first_instr[MT_NBLOCKS];
    struct sharing {      /* which groups communicate at the same time */
        const int *group; /* [nranks]: of some instruction */
        int *concurrent;  /* [nranks] */
    } * sharing;
    int nsharing, sharing_capacity;
    struct mt_err *err;
};

/* ---- classes of ranks ---- */

static bool same_device(const struct mt_costs *costs, int a, int b) {
    const struct mt_cluster_device *x = &costs->cluster->devices[costs->device[a]];
    const struct mt_cluster_device *y = &costs->cluster->devices[costs->device[b]];
    return x->class == y->class && x->speed == y->speed && x->speed_error == y->speed_error &&
           x->emulated == y->emulated;
}

/* What collectives of groups cost depends on. Rows of pairs and fits are of single devices. */
static void tag_ranks(const struct mt_costs *costs, uint64_t *tag) {
    const struct mt_cluster *cluster = costs->cluster;
    for (int r = 0; r < costs->nranks; r++) {
        const struct mt_cluster_device *d = &cluster->devices[costs->device[r]];
        const struct mt_cluster_node *node = &cluster->nodes[d->node];
        int alone = cluster->npairs || cluster->ngroups ? costs->device[r] + 1 : 0,
            what[] = {d->class, node->inside, alone};
        double figures[] = {d->speed, d->speed_error, d->emulated, node->egress_Bps, node->ingress_Bps};
        tag[r] = mt_hash64(figures, sizeof figures, mt_hash64(what, sizeof what, 0));
    }
}

/* ---- costs ---- */

static void note(struct band *band, struct mt_cost cost, int64_t times) {
    band->above_s += (double)times * cost.s * cost.error;
    band->below_s += (double)times * fmin(cost.s * cost.error, fmax(cost.s - cost.floor_s, 0));
}

static void note_op(struct basis *basis, struct mt_cost cost, int64_t times) {
    basis->op_s += (double)times * cost.s;
    basis->op_floor_s += (double)times * cost.floor_s;
    basis->nominal |= cost.basis == MT_COST_NOMINAL;
    note(&basis->op, cost, times);
}

static double op_time(struct predictor *p, int a, const struct mt_linstr *c, int64_t times) {
    struct mt_call call = mt_linstr_call(c, c->tensor);
    struct mt_op_shape shape;
    mt_op_shape(&call, &shape);
    struct mt_cost cost = mt_cost_op(&p->costs, p->sim.actors[a].rank, &shape);
    note_op(&p->basis[a], cost, times);
    return cost.s;
}

static const struct mt_cluster_class *class_of(const struct predictor *p, int rank) {
    return &p->costs.cluster->classes[p->costs.cluster->devices[p->costs.device[rank]].class];
}

static bool is_cpu(const struct predictor *p, int rank) {
    return !strcmp(class_of(p, rank)->kind, "cpu");
}

/* The rendezvous of the instruction's collective, in the actor's group of n; added when asked for first. */
static int rendezvous_of(struct predictor *p, int a, enum mt_block_kind block, const struct mt_linstr *c, int n,
                         double alone_s) {
    int source = c->sources[c->what == MT_LOWERED_OVERLAP];
    int *first = &p->rendezvous_of[p->first_instr[block] + source];
    int group = p->program->blocks[block].instrs[source].group[p->sim.actors[a].rank];
    for (int m = *first; m >= 0; m = p->sim.rendezvous[m].next)
        if (p->sim.rendezvous[m].group == group && p->sim.rendezvous[m].chunk == c->chunk_index) return m;
    int link = mt_cost_link(&p->costs, c->group, n);
    struct mt_sim_rendezvous made = {
        .group = group, .chunk = c->chunk_index, .next = *first, .stream = c->stream, .alone_s = alone_s};
    const struct mt_cluster *cluster = p->costs.cluster;
    for (int i = 0; i < n; i++) made.naps |= is_cpu(p, c->group[i]);
    made.spins = !made.naps;
    if (link >= 0) {
        made.compute_slowdown = cluster->links[link].compute_slowdown;
        made.comm_slowdown = cluster->links[link].comm_slowdown;
    }
    mt_arena_grow(&p->sim.arena, &p->sim.rendezvous, p->sim.nrendezvous, &p->sim.rendezvous_capacity, sizeof made);
    p->sim.rendezvous[p->sim.nrendezvous] = made;
    return *first = p->sim.nrendezvous++;
}

static void join_rendezvous(struct predictor *p, int rendezvous, int a) {
    struct mt_sim_rendezvous *m = &p->sim.rendezvous[rendezvous];
    mt_arena_grow(&p->sim.arena, &m->members, m->nmembers, &m->members_capacity, sizeof *m->members);
    m->members[m->nmembers++] = a;
}

static double copies_s(const struct predictor *p, int rank, const struct mt_lcopies *copies) {
    return mt_cost_copy_s(&p->costs, rank, copies->bytes, copies->n);
}

/* How many groups share hosts with the rank's own in this collective; instructions have few different groups. */
static int concurrent_with(struct predictor *p, enum mt_block_kind block, const struct mt_linstr *c, int rank) {
    const int *group = p->program->blocks[block].instrs[c->sources[0]].group;
    size_t bytes = (size_t)p->program->nranks * sizeof *group;
    int i = 0;
    while (i < p->nsharing && memcmp(p->sharing[i].group, group, bytes)) i++;
    if (i == p->nsharing) {
        mt_arena_grow(&p->sim.arena, &p->sharing, p->nsharing, &p->sharing_capacity, sizeof *p->sharing);
        p->sharing[p->nsharing++] = (struct sharing){group, mt_new(&p->sim.arena, int, p->program->nranks)};
        mt_cost_concurrent(&p->costs, group, p->program->nranks, p->sharing[i].concurrent);
    }
    return p->sharing[i].concurrent[rank];
}

/* A collective, or a copy, which is packed and unpacked only. */
static void price_message(struct predictor *p, int a, enum mt_block_kind block, const struct mt_linstr *c,
                          int64_t times, struct mt_sim_item *item) {
    const struct mt_costs *costs = &p->costs;
    int rank = p->sim.actors[a].rank;
    double overhead_s = class_of(p, rank)->overhead_s;
    int64_t zeros = c->zero ? c->message_count[0] * mt_type_size(c->problem.acc) : 0;
    bool arrays = mt_cost_takes_arrays(costs, rank, &c->problem);
    item->own_s = overhead_s + copies_s(p, rank, arrays ? &c->packed_rest : &c->packed) +
                  mt_cost_copy_s(costs, rank, zeros / 2, 0);
    item->unpack_s = copies_s(p, rank, arrays ? &c->unpacked_rest : &c->unpacked);
    item->kernels = 1 + (item->own_s > overhead_s) + (item->unpack_s > 0);
    if (!c->algorithm) return;
    struct mt_costs sharing = *costs;
    sharing.concurrent = concurrent_with(p, block, c, rank);
    struct mt_cost cost = mt_cost_coll(&sharing, &c->problem, c->group, c->algorithm);
    item->rendezvous = rendezvous_of(p, a, block, c, c->problem.n, cost.s);
    struct basis *basis = &p->basis[a];
    note(&basis->coll[c->problem.kind], cost, times);
    basis->comm_floor_s += (double)times * cost.floor_s;
    basis->nominal |= cost.basis == MT_COST_NOMINAL;
}

/* A GEMM with its collective: it begins when all have arrived. Its epilogue, which each rank has for itself, or a bias
 * of the sums that it adds, is priced before that. */
static enum mt_status price_overlapped(struct predictor *p, int a, enum mt_block_kind block, const struct mt_linstr *c,
                                       int64_t times, struct mt_sim_item *item) {
    struct mt_cost cost;
    int rank = p->sim.actors[a].rank;
    enum mt_status st = mt_predict_overlapped(&p->costs, &c->overlap->problem, c->group, &cost, p->err);
    if (st) return st;
    const struct mt_call gemm = mt_linstr_call(c, c->tensor);
    const struct mt_cost epilogue = mt_predict_epilogue(&p->costs, rank, &gemm);
    item->own_s = class_of(p, rank)->overhead_s + epilogue.s;
    item->rendezvous = rendezvous_of(p, a, block, c, c->overlap->problem.n, cost.s);
    note_op(&p->basis[a], cost, times);
    note_op(&p->basis[a], epilogue, times);
    return MT_OK;
}

/* ---- items ---- */

/* What add_block keeps of an actor. */
struct queueing {
    const struct mt_sim_item *priced; /* [instrs] */
    int *queued;                      /* [instrs]: how often each has been added */
    bool *awaited;                    /* [instrs]: another instruction waits for it */
    bool apart;                       /* each operator is an item of its own */
};

/* Whether an operator may be added to the item before it on its stream: no other item waits for either's end. */
static bool may_join(const struct queueing *q, const struct mt_sim_item *before, const struct mt_linstr *c,
                     const struct mt_sim_item *item, bool barrier) {
    return c->what == MT_LOWERED_OP && !c->nwaits && before->rendezvous < 0 && before->unpack_s == 0 &&
           !q->awaited[before->instr] && before->work == item->work && (!barrier || before->phase == item->phase);
}

static const struct mt_sim_wait *waits_of(struct mt_arena *arena, const struct mt_linstr *c, const struct queueing *q) {
    struct mt_sim_wait *waits = c->nwaits ? mt_new(arena, struct mt_sim_wait, c->nwaits) : NULL;
    for (int w = 0; w < c->nwaits; w++) waits[w] = (struct mt_sim_wait){c->waits[w], q->queued[c->waits[w]]};
    return waits;
}

/* Add a block's instructions once. */
static void add_block(struct mt_arena *arena, struct mt_sim_actor *actor, const struct mt_lowered *low,
                      enum mt_block_kind block, struct mt_sim_item like, struct queueing *q) {
    for (int i = low->block_begin[block]; i < low->block_begin[block + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what == MT_LOWERED_ALIAS) continue;
        struct mt_sim_item item = like.work ? q->priced[i] : (struct mt_sim_item){.rendezvous = -1};
        item.instr = i;
        item.phase = like.phase;
        item.work = like.work;
        item.nwaits = c->nwaits;
        item.waits = waits_of(arena, c, q);
        q->queued[i]++;
        struct mt_sim_item *next = &actor->items[c->stream][actor->nitems[c->stream]], *before = next - 1;
        if (!q->apart && actor->nitems[c->stream] && may_join(q, before, c, &item, actor->body_barrier)) {
            before->own_s += item.own_s;
            before->instr = i;
            continue;
        }
        *next = item;
        actor->nitems[c->stream]++;
    }
}

/* The order in which the executor's host enqueues work, and where it blocks (launcher/execute/executor.c). */
static void add_items(struct predictor *p, struct mt_sim_actor *actor, const struct mt_lowered *low,
                      const struct mt_sim_item *priced) {
    int body = low->block_begin[MT_LAST] - low->block_begin[MT_BODY], phase = 0;
    int64_t most = low->ninstrs + (low->body_count > 1 ? (low->body_count - 1) * body : 0);
    struct queueing q = {.priced = priced, .apart = p->sim.timeline != NULL};
    struct mt_arena *arena = &p->sim.arena;
    q.queued = mt_calloc((size_t)low->ninstrs + 1, sizeof *q.queued);
    q.awaited = mt_calloc((size_t)low->ninstrs + 1, sizeof *q.awaited);
    for (int i = 0; i < low->ninstrs; i++)
        for (int w = 0; w < low->instrs[i].nwaits; w++) q.awaited[low->instrs[i].waits[w]] = true;
    for (int s = 0; s < low->nstreams; s++) actor->items[s] = mt_new(&p->sim.arena, struct mt_sim_item, most);
    add_block(arena, actor, low, MT_PROLOGUE, (struct mt_sim_item){.work = true}, &q);
    for (int64_t i = 0; i < low->body_count && body; i++)
        add_block(arena, actor, low, MT_BODY, (struct mt_sim_item){.work = true, .phase = i ? ++phase : phase}, &q);
    if (!low->body_count) add_block(arena, actor, low, MT_BODY, (struct mt_sim_item){0}, &q);
    if (low->body_barrier) phase++;
    add_block(arena, actor, low, MT_LAST, (struct mt_sim_item){.work = true, .phase = phase}, &q);
    add_block(arena, actor, low, MT_EPILOGUE, (struct mt_sim_item){.work = true, .phase = phase}, &q);
    actor->nphases = phase + 1;
    free(q.queued);
    free(q.awaited);
}

static enum mt_status price_actor(struct predictor *p, int a, const struct mt_lowered *low) {
    enum mt_status st = MT_OK;
    struct mt_sim_actor *actor = &p->sim.actors[a];
    double threads = fmax(class_of(p, actor->rank)->threads, 1);
    actor->copy_rate = is_cpu(p, actor->rank) ? threads / (threads + 1) : 1;
    struct mt_sim_item *priced = mt_calloc((size_t)low->ninstrs + 1, sizeof *priced);
    double sum_s = 0, squares_s2 = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            int64_t times = b == MT_BODY ? low->body_count : 1;
            priced[i].rendezvous = -1;
            if (c->what == MT_LOWERED_OP)
                priced[i].own_s = c->kept ? 0 : op_time(p, a, c, times);
            else if (c->what == MT_LOWERED_OVERLAP && !st)
                st = price_overlapped(p, a, (enum mt_block_kind)b, c, times, &priced[i]);
            else if (c->what != MT_LOWERED_ALIAS && c->what != MT_LOWERED_OVERLAP)
                price_message(p, a, (enum mt_block_kind)b, c, times, &priced[i]);
            if (c->what == MT_LOWERED_OP) {
                sum_s += (double)times * priced[i].own_s;
                squares_s2 += (double)times * priced[i].own_s * priced[i].own_s;
            }
            if (priced[i].rendezvous >= 0 && times) join_rendezvous(p, priced[i].rendezvous, a);
        }
    actor->yield_s = mt_cost_yield_s(&p->costs, actor->rank, sum_s, squares_s2);
    add_items(p, actor, low, priced);
    free(priced);
    return st;
}

/* Lower the first rank of each class, and make its actor's items (price_actor): one lowered program at a time. */
static enum mt_status make_actors(struct predictor *p) {
    int n = p->program->nranks, *like = mt_calloc((size_t)n, sizeof *like), *next = mt_calloc((size_t)n, sizeof *next);
    int *first = mt_calloc((size_t)n, sizeof *first); /* of a class of like programs, the first actor + 1 */
    enum mt_status st = MT_OK;
    uint64_t *tag = mt_calloc((size_t)n, sizeof *tag);
    tag_ranks(&p->costs, tag);
    mt_lower_fold(p->program, tag, like);
    free(tag);
    p->sim.actors = mt_new(&p->sim.arena, struct mt_sim_actor, n);
    p->basis = mt_calloc((size_t)n, sizeof *p->basis);
    for (int r = 0; r < n && !st; r++) {
        int *link = &first[like[r]];
        while (*link && !same_device(&p->costs, p->sim.actors[*link - 1].rank, r)) link = &next[*link - 1];
        if (!*link) {
            struct mt_lowered *low;
            if ((st = mt_lower(p->program, r, &p->options, &low, p->err))) break;
            p->sim.actors[p->sim.nactors] = (struct mt_sim_actor){.rank = r,
                                                                  .ninstrs = low->ninstrs,
                                                                  .body_barrier = low->body_barrier,
                                                                  .state_bytes = low->state_bytes,
                                                                  .arena_bytes = low->arena_bytes,
                                                                  .window_bytes = low->window_bytes};
            *link = ++p->sim.nactors;
            p->sim.nstreams = low->nstreams;
            st = price_actor(p, *link - 1, low);
            if (p->sim.timeline) mt_recording_actor(p->sim.timeline, low);
            mt_lowered_free(low);
        }
        p->actor_of[r] = *link - 1;
    }
    free(like), free(next), free(first);
    return st;
}

/* ---- figures ---- */

/* A source of error in one actor's step, and its two sides. */
struct side {
    const char *source;
    double above_s, below_s;
};

/* Of collectives the exposed part counts; of hidden ones, what is longer than the communication stream has time left.
 */
static void list_sides(const struct predictor *p, int a, double step_s, struct side *sides, int *count,
                       struct mt_arena *arena) {
    const struct mt_sim_actor *actor = &p->sim.actors[a];
    const struct basis *basis = &p->basis[a];
    double exposed = actor->comm_s > 0 ? 1 - actor->hidden_s / actor->comm_s : 1;
    double slowed_s = fmax(actor->compute_s - basis->op_s, 0), left_s = fmax(step_s - actor->comm_s, 0);
    int *all = mt_calloc((size_t)p->costs.nranks, sizeof *all), n = 0;
    for (int r = 0; r < p->costs.nranks; r++) all[r] = r;
    int link = mt_cost_link(&p->costs, all, p->costs.nranks);
    free(all);
    const char *over = link >= 0 ? p->costs.cluster->links[link].name : "";
    sides[n++] = (struct side){"computing", basis->op.above_s, basis->op.below_s};
    sides[n++] = (struct side){"model", least_error * step_s, least_error * step_s};
    sides[n++] = (struct side){"overlap", overlap_error * slowed_s, overlap_error * slowed_s};
    for (int k = 0; k < MT_NCOLLS; k++) {
        const struct band *band = &basis->coll[k];
        if (!(band->above_s > 0)) continue;
        sides[n++] = (struct side){mt_arena_printf(arena, "%s over %s", mt_coll_name((enum mt_coll_kind)k), over),
                                   fmax(exposed * band->above_s, band->above_s - left_s), exposed * band->below_s};
    }
    *count = n;
}

/* The first part is the slowest actor's computing; it becomes one for each class of devices that computes about as
 * long, in equal parts: if any of them is slower than predicted, so is the step. */
static void add_parts(const struct predictor *p, const struct side *sides, int nsides, struct mt_prediction *out) {
    const struct mt_cluster *cluster = p->costs.cluster;
    double *above_s = mt_calloc((size_t)cluster->nclasses, sizeof *above_s);
    int busy = 0;
    for (int r = 0; r < out->nranks; r++) {
        int class = (int)(class_of(p, r) - cluster->classes);
        double s = p->basis[p->actor_of[r]].op.above_s;
        if (out->ranks[r].idle_s > busy_part * out->step_s || !(s > 0)) continue;
        busy += !(above_s[class] > 0);
        above_s[class] = fmax(above_s[class], s);
    }
    out->parts = mt_new(&out->arena, struct mt_error_part, nsides + cluster->nclasses);
    for (int k = 0; k < cluster->nclasses; k++)
        if (above_s[k] > 0)
            out->parts[out->nparts++] = (struct mt_error_part){
                mt_arena_printf(&out->arena, "computing of %s", cluster->classes[k].name), above_s[k] / busy};
    for (int i = 1; i < nsides; i++)
        out->parts[out->nparts++] = (struct mt_error_part){sides[i].source, sides[i].above_s};
    free(above_s);
}

/* Independent sources in quadrature. No actor's stream takes less than its floors. */
static void fill_error(const struct predictor *p, int a, struct mt_prediction *out) {
    struct side sides[3 + MT_NCOLLS];
    int nsides;
    double above2 = 0, below2 = 0, floor_s = 0, step_s = out->step_s;
    if (!(step_s > 0)) return;
    list_sides(p, a, step_s, sides, &nsides, &out->arena);
    for (int i = 0; i < nsides; i++) {
        above2 += sides[i].above_s * sides[i].above_s;
        below2 += sides[i].below_s * sides[i].below_s;
    }
    for (int k = 0; k < p->sim.nactors; k++)
        floor_s = fmax(floor_s, fmax(p->basis[k].op_floor_s, p->basis[k].comm_floor_s));
    out->error = sqrt(above2) / step_s;
    out->error_below = fmin(sqrt(below2) / step_s, fmax(1 - floor_s / step_s, 0));
    add_parts(p, sides, nsides, out);
}

static void report(struct predictor *p, const double *ends_s, struct mt_prediction *out) {
    out->step_s = ends_s[STEPS - 1] - ends_s[STEPS - 2];
    int slowest = 0; /* the rank that idles least */
    out->nranks = p->program->nranks;
    out->ranks = mt_new(&out->arena, struct mt_rank_prediction, out->nranks);
    struct mt_communicators *communicators = mt_new(&out->arena, struct mt_communicators, out->nranks);
    mt_communicators_of(p->program, &p->costs, communicators);
    for (int r = 0; r < out->nranks; r++) {
        const struct mt_sim_actor *actor = &p->sim.actors[p->actor_of[r]];
        double exposed_s = actor->comm_s - actor->hidden_s;
        out->ranks[r] = (struct mt_rank_prediction){.compute_s = actor->compute_s,
                                                    .comm_s = actor->comm_s,
                                                    .exposed_s = exposed_s,
                                                    .idle_s = fmax(out->step_s - actor->compute_s - exposed_s, 0),
                                                    .state_bytes = actor->state_bytes,
                                                    .arena_bytes = actor->arena_bytes,
                                                    .window_bytes = actor->window_bytes,
                                                    .communicator_bytes = communicators[r].bytes};
        if (out->ranks[r].idle_s < out->ranks[slowest].idle_s) slowest = r;
    }
    for (int a = 0; a < p->sim.nactors; a++) out->nominal |= p->basis[a].nominal;
    fill_error(p, p->actor_of[slowest], out);
}

enum mt_status mt_predict(const struct mt_program *program, const struct mt_costs *costs,
                          const struct mt_lower_options *options, struct mt_prediction *prediction,
                          struct mt_err *err) {
    return mt_predict_timeline(program, costs, options, prediction, NULL, err);
}

enum mt_status mt_predict_timeline(const struct mt_program *program, const struct mt_costs *costs,
                                   const struct mt_lower_options *options, struct mt_prediction *prediction,
                                   struct mt_timeline *timeline, struct mt_err *err) {
    struct predictor p = {.program = program, .options = *options, .costs = *costs, .err = err};
    p.options.sketch = true;
    size_t n = (size_t)program->nranks, ninstrs = 0;
    if (!p.costs.memo) p.costs.memo = mt_cost_memo_new();
    for (int b = 0; b < MT_NBLOCKS; b++) {
        p.first_instr[b] = (int)ninstrs;
        ninstrs += (size_t)program->blocks[b].ninstrs;
    }
    p.actor_of = mt_calloc(n, sizeof *p.actor_of);
    p.rendezvous_of = mt_calloc(ninstrs + 1, sizeof *p.rendezvous_of);
    memset(p.rendezvous_of, -1, ninstrs * sizeof *p.rendezvous_of);
    *prediction = (struct mt_prediction){0};
    if (timeline) mt_recording_begin(p.sim.timeline = timeline, program->nranks);
    enum mt_status st = make_actors(&p);
    if (!st && timeline) mt_recording_ranks(timeline, p.actor_of);
    double ends_s[STEPS];
    if (!st) st = mt_sim_run(&p.sim, STEPS, ends_s, err);
    if (!st) report(&p, ends_s, prediction);
    if (!st && timeline) mt_recording_end(timeline, ends_s[STEPS - 2], ends_s[STEPS - 1]);
    if (st && timeline) mt_timeline_release(timeline);
    mt_arena_release(&p.sim.arena);
    free(p.basis);
    free(p.actor_of);
    free(p.rendezvous_of);
    if (!costs->memo) mt_cost_memo_free(p.costs.memo);
    return st;
}
