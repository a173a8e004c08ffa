/* A structure's work as curves over shares, one set for each class of ranks.
 *
 * Operators are priced at every whole share up to EVERY_SHARE, where large devices are inefficient, then at steps that
 * grow, so that a curve has some dozens of points. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/split.h"
#include "planner/search/internal.h"

enum { EVERY_SHARE = 24, MOST_POINTS = 160, STORAGE_POINTS = 9 };

static int share_points(int64_t extent, int64_t *at) {
    int n = 0;
    for (int64_t x = 0; x < extent && n < MOST_POINTS - 2;) {
        at[n++] = x;
        x = x < EVERY_SHARE ? x + 1 : (int64_t)ceil(1.125 * (double)x);
    }
    at[n++] = extent;
    return n;
}

double mt_search_op_s(const struct mt_searching *s, int rank, const struct mt_work_op *op,
                      const struct mt_work_share *share) {
    struct mt_op_shape shape;
    if (op->copy) return mt_cost_copy_s(&s->costs, rank, mt_work_copy_bytes(op, share), op->npieces);
    mt_work_shape(op, share, &shape);
    return mt_cost_op(&s->costs, rank, &shape).s;
}

/* Seconds of the operators of one block, once. */
static double block_s(const struct mt_searching *s, const struct mt_work *w, int class, enum mt_block_kind block,
                      const struct mt_work_share *share) {
    double sum = 0;
    for (int o = 0; o < w->nops; o++)
        if (w->ops[o].block == block)
            sum += (double)w->ops[o].count * mt_search_op_s(s, s->classes[class].rank, &w->ops[o], share);
    return sum;
}

/* An earlier class of the same device class, whose times differ by the devices' speeds only; or -1. */
static int similar_class(const struct mt_searching *s, int class) {
    const struct mt_cluster *cluster = s->costs.cluster;
    const struct mt_cluster_device *mine = &cluster->devices[s->costs.device[s->classes[class].rank]];
    for (int c = 0; c < class; c++) {
        const struct mt_cluster_device *other = &cluster->devices[s->costs.device[s->classes[c].rank]];
        if (other->class == mine->class && other->emulated == mine->emulated) return c;
    }
    return -1;
}

static void labels_at(const struct mt_searching *s, const struct mt_work *w, int class, double units,
                      int64_t *storage) {
    for (int l = 0; l < w->nlabels; l++)
        storage[l] = s->given_storage[l] ? s->given_storage[l][s->classes[class].rank]
                                         : (int64_t)llround((double)w->labels[l].extent * units / (double)s->unit);
}

/* value[n]: the curve's values, to be filled in. */
static struct mt_share_curve new_curve(struct mt_arena *arena, int n, const int64_t *at, double **value) {
    *value = mt_new(arena, double, n);
    return (struct mt_share_curve){n, mt_arena_memdup(arena, at, (size_t)n * sizeof *at), *value};
}

/* The curves of a class with the same devices in the parent's search; they depend but little on shares of storage. */
static const struct search_curves *parent_curves(const struct mt_searching *s, const struct search_work *of,
                                                 int class) {
    const struct mt_searching *parent = s->parent;
    if (!of) return NULL;
    const struct mt_cluster_device *devices = s->costs.cluster->devices;
    const struct mt_cluster_device *mine = &devices[s->costs.device[s->classes[class].rank]];
    for (int c = 0; c < parent->nclasses; c++) {
        const struct mt_cluster_device *other = &devices[parent->costs.device[parent->classes[c].rank]];
        if (other->class == mine->class && other->speed == mine->speed && other->emulated == mine->emulated)
            return &of->curves[c];
    }
    return NULL;
}

static void price_samples(struct mt_searching *s, struct search_work *w, const struct search_work *of, int class, int n,
                          const int64_t *at) {
    struct search_curves *c = &w->curves[class];
    const struct search_curves *known = parent_curves(s, of, class);
    int like = known ? -1 : similar_class(s, class);
    double ratio = like >= 0 ? s->classes[like].speed / s->classes[class].speed : 1;
    int64_t *storage = mt_new(&s->arena, int64_t, w->work.nlabels + 1);
    labels_at(s, &w->work, class, (double)s->unit / s->nranks, storage);
    struct mt_work_share none = {0, storage};
    c->before_s = block_s(s, &w->work, class, MT_PROLOGUE, &none);
    if (known) {
        c->samples = known->samples;
        c->body_samples = known->body_samples;
        return;
    }
    double *last, *body;
    c->samples = new_curve(&s->arena, n, at, &last);
    c->body_samples = new_curve(&s->arena, w->body ? n : 0, at, &body);
    for (int i = 0; i < n; i++) {
        struct mt_work_share share = {at[i], storage};
        last[i] = like >= 0 ? w->curves[like].samples.value[i] * ratio : block_s(s, &w->work, class, MT_LAST, &share);
        if (!w->body) continue;
        body[i] =
            like >= 0 ? w->curves[like].body_samples.value[i] * ratio : block_s(s, &w->work, class, MT_BODY, &share);
    }
}

static void price_storage(struct mt_searching *s, struct search_work *w, int class) {
    struct search_curves *c = &w->curves[class];
    int64_t at[STORAGE_POINTS + 2], *storage = mt_new(&s->arena, int64_t, w->work.nlabels + 1);
    int n = 0;
    at[n++] = 0;
    for (int i = STORAGE_POINTS - 1; i >= 0; i--) {
        int64_t x = (int64_t)(4 * (double)s->unit / s->nranks / (double)(1 << i));
        if (x > at[n - 1] && x < s->unit) at[n++] = x;
    }
    if (s->unit > at[n - 1]) at[n++] = s->unit;
    double *update, *state;
    c->update = new_curve(&s->arena, n, at, &update);
    c->state = new_curve(&s->arena, n, at, &state);
    c->state_fixed = w->work.state_bytes;
    for (int i = 0; i < n; i++) {
        struct mt_work_share share = {0, storage};
        labels_at(s, &w->work, class, (double)at[i], storage);
        update[i] = block_s(s, &w->work, class, MT_EPILOGUE, &share);
        for (int l = 0; l < w->work.nlabels; l++)
            state[i] += (double)w->work.labels[l].state_bytes / (double)w->work.labels[l].extent * (double)storage[l];
    }
}

/* What mt_work_open and mt_work_memory read of a plan. */
static struct mt_plan *prototype(const struct mt_searching *s, const struct search_structure *structure) {
    struct mt_plan *p = mt_plan_new(s->nranks);
    p->job = *s->search->job;
    p->decisions = structure->decisions;
    p->decisions.bucket_bytes = 0;
    p->decisions.staging_bytes = s->search->fixed.decisions.staging_bytes;
    return p;
}

/* The parent's work of the same structure: works do not depend on the number of ranks, but that of one rank has no
 * messages. *work stays null where it has none. */
static enum mt_status parent_work(struct mt_searching *s, int structure, bool body, struct search_work **work) {
    struct mt_searching *parent = s->parent;
    if (!parent || s->nranks == 1 || parent->nranks == 1) return MT_OK;
    for (int i = 0; i < parent->nstructures; i++)
        if (mt_decisions_same_rows(&parent->structures[i].decisions, &s->structures[structure].decisions) &&
            parent->structures[i].decisions.start == s->structures[structure].decisions.start)
            return mt_search_open_work(parent, i, body, work);
    return MT_OK;
}

static enum mt_status open_work(struct mt_searching *s, struct search_work *w, int structure, bool body) {
    struct search_work *of = NULL;
    enum mt_status st = parent_work(s, structure, body, &of);
    if (st) return st;
    w->structure = &s->structures[structure];
    w->body = body;
    w->plan = prototype(s, w->structure);
    w->of = of;
    const struct mt_work *known = of ? &of->work : NULL;
    if (!known && s->search->works)
        st = mt_work_memo_open(s->search->works, s->search->graph, w->plan, body, s->search->options, &known, s->err);
    else if (!known)
        st = mt_work_open(s->search->graph, w->plan, body, s->search->options, &w->work, s->err);
    if (known) w->work = *known;
    w->borrowed = known != NULL;
    if (st) {
        mt_plan_free(w->plan);
        return st;
    }
    int64_t at[MOST_POINTS];
    int n = share_points(s->search->job->batch, at);
    w->curves = mt_new(&s->arena, struct search_curves, s->nclasses);
    for (int c = 0; c < s->nclasses; c++) {
        price_samples(s, w, of, c, n, at);
        price_storage(s, w, c);
    }
    return MT_OK;
}

enum mt_status mt_search_open_work(struct mt_searching *s, int structure, bool body, struct search_work **work) {
    body &= s->structures[structure].by_batch;
    struct search_work **place = &s->works[2 * structure + body];
    if (!*place) {
        struct search_work *w = mt_new(&s->arena, struct search_work, 1);
        enum mt_status st = open_work(s, w, structure, body);
        if (st) return st;
        *place = w;
    }
    *work = *place;
    return MT_OK;
}

/* ---- memory ---- */

bool mt_search_memory_matters(const struct mt_searching *s) {
    for (int c = 0; c < s->nclasses; c++)
        if (s->classes[c].memory_limit > 0) return true;
    return false;
}

/* Of memory curves: small against all gradients, since a bucket is memory in addition. */
int64_t mt_search_memory_buckets(const struct mt_searching *s) {
    enum { MOST_BYTES = 4 << 20, PARTS = 16 };
    int64_t all = mt_graph_parameters(s->search->graph) * mt_type_size(s->search->graph->acc);
    int64_t fixed = s->search->fixed.decisions.bucket_bytes;
    return fixed >= 0 ? fixed : all / PARTS < MOST_BYTES ? all / PARTS : MOST_BYTES;
}

/* All points are programs of one kind, with accumulators if the work has a body, else without, so that the curve does
 * not fall. One rank without a body has the whole batch and no other share. */
enum mt_status mt_search_open_memory(struct mt_searching *s, struct search_work *w, int64_t bucket_bytes) {
    int64_t batch = s->search->job->batch, usual = 2 * ((batch + s->nranks - 1) / s->nranks), at[4] = {0, 1};
    int64_t most = w->body ? batch / 2 : batch;
    int n = 2;
    if (w->arena.npoints) return MT_OK;
    if (w->of && 2 * s->nranks > s->parent->nranks) { /* shares of the state make little difference to it */
        enum mt_status st = mt_search_open_memory(s->parent, w->of, bucket_bytes);
        w->arena = w->of->arena;
        return st;
    }
    if (usual > most) usual = most;
    if (usual > 1) at[n++] = usual;
    bool alone = s->nranks == 1;
    if (alone && !w->body && n > 2) at[1] = at[--n];
    double *value;
    struct mt_share_curve curve = new_curve(&s->arena, n, at, &value);
    w->plan->decisions.bucket_bytes = bucket_bytes;
    for (int i = alone ? 1 : 0; i < n; i++) {
        struct mt_plan_memory memory;
        int64_t samples = w->body ? 2 * at[i] : at[i];
        enum mt_status st = mt_work_memo_memory(s->search->works, s->search->graph, w->plan, samples,
                                                w->body && !at[i] ? 1 : at[i], s->search->options, &memory, s->err);
        if (st) return st;
        value[i] = fmax((double)(memory.arena_bytes - memory.state_bytes), i ? value[i - 1] : 0);
    }
    if (alone) value[0] = value[1];
    w->arena = curve;
    return MT_OK;
}

/* ---- micro-batches ---- */

static double in_micro(const struct search_curves *c, bool body, int64_t share, int64_t micro) {
    int64_t runs = body ? mt_search_body_runs(share, micro) : 0;
    if (!runs) return mt_share_curve_at(&c->samples, share);
    return (double)runs * mt_share_curve_at(&c->body_samples, micro) +
           mt_share_curve_at(&c->samples, share - runs * micro);
}

int64_t mt_search_micro(const struct mt_searching *s, const struct search_work *w, int class, int64_t share,
                        int64_t most, double *seconds) {
    static const int counts[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
    const struct search_curves *c = &w->curves[class];
    const int64_t *given = s->search->fixed.micro;
    if (given && given[s->classes[class].rank] < most) most = given[s->classes[class].rank];
    if (most < 1) most = 1;
    int64_t least = (share + most - 1) / most;
    int64_t best = given   ? (share < most ? share : most)
                   : least ? (share + least - 1) / least
                           : 0; /* as even as possible */
    double best_s = in_micro(c, w->body, share, best);
    for (size_t i = 0; w->body && i < sizeof counts / sizeof *counts; i++) {
        int64_t count = least > counts[i] ? least : counts[i], micro = count ? (share + count - 1) / count : 0;
        if (micro < 1 || (given && micro != best)) break;
        double time_s = in_micro(c, true, share, micro);
        if (time_s < best_s * (1 - 1e-9)) best = micro, best_s = time_s;
    }
    if (seconds) *seconds = best_s;
    return best;
}

int64_t mt_search_most_micro(const struct mt_searching *s, const struct search_work *w, int class, int64_t units,
                             int64_t heavier) {
    const struct search_class *k = &s->classes[class];
    const struct search_curves *c = &w->curves[class];
    int64_t low = 0, high = s->search->job->batch;
    if (!k->memory_limit || !w->arena.npoints) return high;
    double room =
        (double)k->memory_limit - (double)c->state_fixed - mt_share_curve_at(&c->state, units) - (double)heavier;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (mt_share_curve_at(&w->arena, middle) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
