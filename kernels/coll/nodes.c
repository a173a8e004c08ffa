/* Nodes, cells and slices; the steps on one cell. */
#include "kernels/coll/nodes.h"

#include <assert.h>

bool mt_nodes_apply(const struct mt_coll *problem) {
    if (!problem->node) return false;
    int most = 0;
    for (int p = 0; p < problem->n; p++)
        if (problem->node[p] > most) most = problem->node[p];
    return most > 0 && most + 1 < problem->n;
}

struct mt_nodes mt_nodes_of(const struct mt_coll *problem, struct mt_arena *arena) {
    struct mt_nodes nodes = {.problem = problem, .arena = arena, .n = 1};
    int n = problem->n;
    for (int p = 0; p < n && problem->node; p++)
        if (problem->node[p] >= nodes.n) nodes.n = problem->node[p] + 1;
    nodes.first = mt_new(arena, int, nodes.n + 2);
    nodes.places = mt_new(arena, int, n);
    nodes.starts = mt_new(arena, int64_t, n + 1);
    /* A counting sort: first[j + 1] is where node j's next member goes, and in the end where node j + 1 begins. */
    for (int p = 0; p < n; p++) nodes.first[(problem->node ? problem->node[p] : 0) + 2]++;
    for (int j = 0; j < nodes.n; j++) {
        if (nodes.first[j + 2] > nodes.largest) nodes.largest = nodes.first[j + 2];
        nodes.first[j + 2] += nodes.first[j + 1];
    }
    for (int p = 0; p < n; p++) {
        int node = problem->node ? problem->node[p] : 0;
        int place = nodes.first[node + 1]++;
        nodes.places[place] = p;
        if (p == problem->me) nodes.mine = node, nodes.at = place;
        nodes.starts[p + 1] = nodes.starts[p] + problem->counts[p];
    }
    nodes.at -= nodes.first[nodes.mine];
    nodes.total = nodes.starts[n];
    return nodes;
}

struct mt_cell mt_cell_even(const struct mt_nodes *nodes, int64_t n, int64_t b) {
    struct mt_cell cell = {.at = mt_cut(nodes->total, n, b), .owner = -1};
    cell.length = mt_cut(nodes->total, n, b + 1) - cell.at;
    return cell;
}

static struct mt_cell make_owned(const struct mt_nodes *nodes, int node, int part, int of) {
    struct mt_cell cell = {.owner = node, .part = part, .of = of};
    int members = mt_nodes_members(nodes, node);
    int64_t longest = 0, *begins = mt_new(nodes->arena, int64_t, 2 * members + 1), *places = begins + members + 1;
    for (int i = 0; i < members; i++) {
        int place = nodes->places[nodes->first[node] + i];
        int64_t begin = mt_cut(nodes->problem->counts[place], of, part);
        int64_t length = mt_cut(nodes->problem->counts[place], of, part + 1) - begin;
        begins[i + 1] = begins[i] + length;
        places[i] = nodes->starts[place] + begin;
        if (length > longest) longest = length;
    }
    cell.length = begins[members];
    cell.nearly_even = longest * members <= cell.length + cell.length / 4;
    cell.begins = begins, cell.places = places;
    return cell;
}

struct mt_cell mt_cell_owned(struct mt_nodes *nodes, int node, int part, int of) {
    if (!nodes->owned) nodes->owned = mt_new(nodes->arena, struct mt_cell, nodes->n * of), nodes->of = of;
    assert(of == nodes->of);
    struct mt_cell *cell = &nodes->owned[node * of + part];
    if (!cell->begins) *cell = make_owned(nodes, node, part, of);
    return *cell;
}

/* ---- slices ---- */

/* What bounds depend on; in blocks, also the cell. */
struct mt_cell_bounds {
    int64_t length;
    int owner, part, members; /* owner -1: in equal parts of the length, whatever the cell */
    int64_t *bounds;          /* [members + 1]; null: a free slot */
};

static struct mt_cell_bounds *slot_of(const struct mt_nodes *nodes, const struct mt_cell_bounds *key) {
    uint64_t hash = (uint64_t)key->length * 0x9e3779b97f4a7c15u;
    hash ^=
        ((uint64_t)(key->owner + 1) << 32 ^ (uint64_t)key->part << 16 ^ (uint64_t)key->members) * 0xc2b2ae3d27d4eb4fu;
    for (int at = (int)(hash >> 40) & (nodes->capacity - 1);; at = (at + 1) & (nodes->capacity - 1)) {
        struct mt_cell_bounds *slot = &nodes->bounds[at];
        bool same = slot->length == key->length && slot->owner == key->owner && slot->part == key->part &&
                    slot->members == key->members;
        if (same || !slot->bounds) return slot;
    }
}

static void grow(struct mt_nodes *nodes) {
    const struct mt_cell_bounds *old = nodes->bounds;
    int nold = nodes->capacity;
    nodes->capacity = nold ? 2 * nold : 16;
    nodes->bounds = mt_new(nodes->arena, struct mt_cell_bounds, nodes->capacity);
    for (int i = 0; i < nold; i++)
        if (old[i].bounds) *slot_of(nodes, &old[i]) = old[i];
}

/* The owner's bounds are those of its blocks; another node's are at multiples of owners/members of a block, so that
 * both have common bounds where their numbers of members have a common divisor. */
const int64_t *mt_cell_bounds(struct mt_nodes *nodes, const struct mt_cell *cell, int node) {
    int members = mt_nodes_members(nodes, node), owner = cell->owner;
    bool blocks = node == owner || cell->nearly_even;
    int owners = blocks ? mt_nodes_members(nodes, owner) : 0;
    if (members == owners) return cell->begins;
    if (2 * nodes->nbounds >= nodes->capacity) grow(nodes);
    struct mt_cell_bounds key = {cell->length, blocks ? owner : -1, blocks ? cell->part : 0, members, NULL};
    struct mt_cell_bounds *slot = slot_of(nodes, &key);
    if (slot->bounds) return slot->bounds;
    *slot = key;
    slot->bounds = mt_new(nodes->arena, int64_t, members + 1);
    nodes->nbounds++;
    for (int q = 0; q <= members; q++) {
        if (!blocks) {
            slot->bounds[q] = mt_cut(cell->length, members, q);
            continue;
        }
        int block = (int)((int64_t)q * owners / members);
        slot->bounds[q] = cell->begins[block];
        if (block < owners)
            slot->bounds[q] +=
                mt_cut(cell->begins[block + 1] - cell->begins[block], members, (int64_t)q * owners % members);
    }
    return slot->bounds;
}

int64_t mt_cell_run(const struct mt_nodes *nodes, const struct mt_cell *cell, int64_t lo, int64_t hi, int64_t *offset) {
    *offset = cell->at + lo;
    if (cell->owner < 0) return hi - lo;
    int members = mt_nodes_members(nodes, cell->owner);
    int64_t run = 0;
    for (int i = 0; i < members && cell->begins[i] < hi; i++) {
        int64_t from = lo > cell->begins[i] ? lo : cell->begins[i];
        int64_t to = hi < cell->begins[i + 1] ? hi : cell->begins[i + 1],
                place = cell->places[i] + from - cell->begins[i];
        if (from >= to) continue;
        if (run && place != *offset + run) break;
        if (!run) *offset = place;
        run += to - from;
    }
    return run;
}

/* Steps of one kind on elements [lo, hi) of the cell. */
static void add_steps(const struct mt_nodes *nodes, const struct mt_cell *cell, enum mt_step_kind kind, int peer,
                      int64_t lo, int64_t hi, struct mt_schedule *schedule) {
    struct mt_step step = {kind, .peer = peer};
    for (; lo < hi; lo += step.count) {
        step.count = mt_cell_run(nodes, cell, lo, hi, &step.offset);
        mt_schedule_add(schedule, step);
    }
}

static int place_of(const struct mt_nodes *nodes, int node, int member) {
    return nodes->places[nodes->first[node] + member];
}

/* Sends begin with the next member, so that not all send to one at first. */
void mt_cell_reduce(struct mt_nodes *nodes, const struct mt_cell *cell, struct mt_schedule *schedule) {
    int members = mt_nodes_members(nodes, nodes->mine), at = nodes->at;
    const int64_t *slice = mt_cell_bounds(nodes, cell, nodes->mine);
    for (int k = 1; k < members; k++) {
        int q = mt_wrap(at + k, members);
        add_steps(nodes, cell, MT_STEP_SEND, place_of(nodes, nodes->mine, q), slice[q], slice[q + 1], schedule);
    }
    for (int q = 0; q < members; q++)
        if (q != at)
            add_steps(nodes, cell, MT_STEP_REDUCE, place_of(nodes, nodes->mine, q), slice[at], slice[at + 1], schedule);
}

void mt_cell_gather(struct mt_nodes *nodes, const struct mt_cell *cell, int has_all, struct mt_schedule *schedule) {
    int members = mt_nodes_members(nodes, nodes->mine), at = nodes->at;
    const int64_t *slice = mt_cell_bounds(nodes, cell, nodes->mine);
    for (int k = 1; k < members; k++) {
        int q = mt_wrap(at + k, members);
        if (q != has_all)
            add_steps(nodes, cell, MT_STEP_SEND, place_of(nodes, nodes->mine, q), slice[at], slice[at + 1], schedule);
    }
    for (int k = 1; k < members && at != has_all; k++) {
        int q = mt_wrap(at - k, members);
        add_steps(nodes, cell, MT_STEP_RECV, place_of(nodes, nodes->mine, q), slice[q], slice[q + 1], schedule);
    }
}

/* The slices of members [first, first + count). */
static void add_slices(struct mt_nodes *nodes, const struct mt_cell *cell, enum mt_step_kind kind, int peer, int first,
                       int count, struct mt_schedule *schedule) {
    const int64_t *slice = mt_cell_bounds(nodes, cell, nodes->mine);
    add_steps(nodes, cell, kind, place_of(nodes, nodes->mine, peer), slice[first], slice[first + count], schedule);
}

void mt_cell_exchange(struct mt_nodes *nodes, const struct mt_cell *cell, int distance, bool gathers,
                      struct mt_schedule *schedule) {
    int at = nodes->at, peer = at ^ distance, mine = at / distance * distance, theirs = peer / distance * distance;
    add_slices(nodes, cell, MT_STEP_SEND, peer, gathers ? mine : theirs, distance, schedule);
    add_slices(nodes, cell, gathers ? MT_STEP_RECV : MT_STEP_REDUCE, peer, gathers ? theirs : mine, distance, schedule);
}

void mt_cell_scatter(struct mt_nodes *nodes, const struct mt_cell *cell, int from, struct mt_schedule *schedule) {
    int members = mt_nodes_members(nodes, nodes->mine), at = nodes->at;
    const int64_t *slice = mt_cell_bounds(nodes, cell, nodes->mine);
    if (at != from)
        add_steps(nodes, cell, MT_STEP_RECV, place_of(nodes, nodes->mine, from), slice[at], slice[at + 1], schedule);
    for (int q = 0; q < members && at == from; q++)
        if (q != from)
            add_steps(nodes, cell, MT_STEP_SEND, place_of(nodes, nodes->mine, q), slice[q], slice[q + 1], schedule);
}

/* Steps with each member of another node, on what its slice and this rank's have in common. */
static void exchange(struct mt_nodes *nodes, const struct mt_cell *cell, int node, enum mt_step_kind kind, bool round,
                     struct mt_schedule *schedule) {
    const int64_t *slice = mt_cell_bounds(nodes, cell, nodes->mine), *other = mt_cell_bounds(nodes, cell, node);
    for (int q = 0; q < mt_nodes_members(nodes, node); q++) {
        int64_t lo = slice[nodes->at] > other[q] ? slice[nodes->at] : other[q];
        int64_t hi = slice[nodes->at + 1] < other[q + 1] ? slice[nodes->at + 1] : other[q + 1];
        add_steps(nodes, cell, kind, place_of(nodes, node, q), lo, hi, schedule);
        if (round) add_steps(nodes, cell, MT_STEP_ROUND, 0, lo, hi, schedule);
    }
}

void mt_cell_send(struct mt_nodes *nodes, const struct mt_cell *cell, int to, struct mt_schedule *schedule) {
    exchange(nodes, cell, to, MT_STEP_SEND, false, schedule);
}

void mt_cell_receive(struct mt_nodes *nodes, const struct mt_cell *cell, int from, enum mt_step_kind kind, bool round,
                     struct mt_schedule *schedule) {
    exchange(nodes, cell, from, kind, round, schedule);
}

struct mt_coll mt_nodes_within(const struct mt_nodes *nodes) {
    struct mt_coll within = *nodes->problem;
    within.n = mt_nodes_members(nodes, nodes->mine), within.me = nodes->at;
    within.counts = NULL, within.node = NULL;
    return within;
}

void mt_rename_peers(struct mt_schedule *schedule, int from, const int *places) {
    for (int i = from; i < schedule->nsteps; i++) schedule->steps[i].peer = places[schedule->steps[i].peer];
}

/* ---- cost ---- */

/* Of slices a[na] and b[nb]: how many of one intersect one of the other, at most. */
static int most_peers(const int64_t *a, int na, const int64_t *b, int nb) {
    int most = 0;
    for (int side = 0; side < 2; side++) {
        for (int p = 0, q = 0; p < na; p++) {
            int peers = 0;
            while (q > 0 && b[q] > a[p]) q--;
            for (; q < nb && b[q] < a[p + 1]; q++) peers += b[q + 1] > a[p] && b[q + 1] > b[q] && a[p + 1] > a[p];
            if (peers > most) most = peers;
            if (q == nb) q = nb - 1;
        }
        const int64_t *other = a;
        int nother = na;
        a = b, na = nb, b = other, nb = nother;
    }
    return most;
}

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

void mt_cell_load(struct mt_nodes *nodes, const struct mt_cell *cell, int node, int next, struct mt_cell_load *load) {
    int members = mt_nodes_members(nodes, node), nexts = mt_nodes_members(nodes, next);
    const int64_t *slice = mt_cell_bounds(nodes, cell, node), *other = mt_cell_bounds(nodes, cell, next);
    load->inside_peers = members - 1;
    load->across_peers = (int)largest(load->across_peers, most_peers(slice, members, other, nexts));
    for (int q = 0; q < members; q++) {
        int64_t own = slice[q + 1] - slice[q];
        load->across = largest(load->across, own);
        load->inside = largest(load->inside, largest((members - 1) * own, members > 1 ? cell->length - own : 0));
    }
}
