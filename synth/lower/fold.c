/* Classes of ranks whose lowered programs are alike.
 *
 * A rank's colour is a hash of what is its own (extents of boxes, iterations of BODY, its tag) and, for each
 * collective, of its group: the colours of the members in order, and which share a node. Colours are refined until they
 * do not become more. So the nodes of a regular mesh fold into one, although each has groups of its own. Of an AllToAll
 * the places of all boxes of the group count as well, but for where the first begins, and what a rank itself sends and
 * receives. */
#include "synth/lower/lower.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"
#include "synth/layout/convert/exchange.h"

struct exchanged { /* a collective, of those with equal groups and, if it is an AllToAll, layouts */
    const struct mt_instr *instr;
    uint64_t key;
    uint64_t *mine; /* [nranks]: of an AllToAll, what each rank sends and receives; else null */
};

struct folding {
    const struct mt_program *program;
    struct mt_arena arena;
    uint64_t *own;    /* [nranks] */
    uint64_t *colour; /* [nranks] */
    uint64_t *tag;    /* [nranks] */
    int n, capacity;
    struct exchanged *items;
    uint64_t *sum; /* [nranks]: of a group, by its number */
    int *first;    /* [nranks]: of a group, its first rank, or -1 */
};

static uint64_t own_hash(const struct mt_program *p, const bool *used, int rank) {
    uint64_t hash = mt_hash64(&p->body_count[rank], sizeof p->body_count[rank], 0);
    for (int l = 0; l < p->layouts.count; l++) {
        const struct mt_layout *layout = &p->layouts.items[l];
        int64_t extent[MT_MAX_AXES];
        if (!used[l]) continue;
        for (int a = 0; a < layout->naxes; a++) extent[a] = layout->box[rank].hi[a] - layout->box[rank].lo[a];
        hash = mt_hash64(extent, (size_t)layout->naxes * sizeof *extent, hash);
    }
    return hash;
}

/* A box from where another begins. */
static uint64_t box_hash(const struct mt_box *box, int naxes, const struct mt_box *origin, uint64_t hash) {
    int64_t at[2 * MT_MAX_AXES];
    for (int a = 0; a < naxes; a++) at[2 * a] = box->lo[a] - origin->lo[a], at[2 * a + 1] = box->hi[a] - box->lo[a];
    return mt_hash64(at, 2 * (size_t)naxes * sizeof *at, hash);
}

static void add_transfer(const struct mt_layout *from, const struct mt_layout *to, int sender, int receiver,
                         const struct mt_box *box, bool adds, uint64_t *mine) {
    uint64_t kind = 2 * (uint64_t)(sender == receiver) + adds;
    if (sender >= 0) mine[sender] = box_hash(box, from->naxes, &from->box[sender], mine[sender] + 1 + kind);
    mine[receiver] = box_hash(box, to->naxes, &to->box[receiver], mine[receiver] + 5 + kind + (sender < 0));
}

static void add_simple(const struct mt_exchange *x, int n, uint64_t *mine) {
    struct mt_box box;
    for (int s = 0; s < n; s++)
        for (int r = 0; r < n && x->box[s] >= 0; r++)
            if (mt_exchange_box(x, s, r, &box)) add_transfer(x->from, x->to, s, r, &box, false, mine);
}

/* What each rank exchanges in an AllToAll: boxes, from where its own begin. */
static uint64_t *own_messages(struct folding *f, const struct mt_instr *instr) {
    const struct mt_program *p = f->program;
    uint64_t *mine = mt_new(&f->arena, uint64_t, p->nranks);
    for (int v = 0; v < instr->nin; v++) {
        int from = p->values[instr->in[v]].layout, to = p->values[instr->out[v]].layout;
        struct mt_exchange x;
        if (mt_exchange_open(&p->layouts, from, to, instr->group, &x)) {
            add_simple(&x, p->nranks, mine);
            mt_exchange_close(&x);
            continue;
        }
        struct mt_arena scratch = MT_ARENA_INIT;
        struct mt_transfer *list;
        int count = mt_layout_transfers(&p->layouts, from, to, instr->group, -1, &scratch, &list);
        for (int i = 0; i < count; i++)
            add_transfer(&p->layouts.items[from], &p->layouts.items[to], list[i].from, list[i].to, &list[i].box,
                         list[i].adds, mine);
        mt_arena_release(&scratch);
    }
    return mine;
}

static void list_collectives(struct folding *f) {
    const struct mt_program *p = f->program;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            bool exchange = instr->coll == MT_ALL_TO_ALL;
            uint64_t key = mt_hash64(instr->group, (size_t)p->nranks * sizeof *instr->group, exchange);
            for (int v = 0; v < instr->nin && exchange; v++) {
                int layouts[] = {p->values[instr->in[v]].layout, p->values[instr->out[v]].layout};
                key = mt_hash64(layouts, sizeof layouts, key);
            }
            int known = 0;
            while (known < f->n && f->items[known].key != key) known++;
            if (known < f->n) continue;
            mt_arena_grow(&f->arena, &f->items, f->n, &f->capacity, sizeof *f->items);
            f->items[f->n++] = (struct exchanged){instr, key, exchange ? own_messages(f, instr) : NULL};
        }
}

static uint64_t exchange_hash(const struct mt_program *p, const struct mt_instr *instr, int rank, int first,
                              uint64_t hash) {
    for (int v = 0; v < instr->nin; v++) {
        const struct mt_layout *from = &p->layouts.items[p->values[instr->in[v]].layout];
        const struct mt_layout *to = &p->layouts.items[p->values[instr->out[v]].layout];
        int part[] = {from->part[rank] - from->part[first],
                      from->cover[from->part[rank]] - from->cover[from->part[first]], to->part[rank] - to->part[first]};
        hash = mt_hash64(part, sizeof part, hash);
        hash = box_hash(&from->box[rank], from->naxes, &from->box[first], hash);
        hash = box_hash(&to->box[rank], to->naxes, &from->box[first], hash);
    }
    return hash;
}

/* Fill in sum and first for a collective. */
static void sum_groups(struct folding *f, const struct mt_instr *instr) {
    const struct mt_program *p = f->program;
    for (int r = 0; r < p->nranks; r++) f->first[r] = -1, f->sum[r] = 0;
    for (int r = 0; r < p->nranks; r++) {
        int group = instr->group[r];
        if (f->first[group] < 0) f->first[group] = r;
        int first = f->first[group], node = p->node ? p->node[r] - p->node[first] : 0;
        uint64_t what[] = {f->colour[r], (uint64_t)(int64_t)node, f->sum[group]};
        f->sum[group] = mt_hash64(what, sizeof what, 0);
        if (instr->coll == MT_ALL_TO_ALL) f->sum[group] = exchange_hash(p, instr, r, first, f->sum[group]);
    }
}

/* hash[nranks]: new colours, without the ranks' own tags. */
static void refine(struct folding *f, uint64_t *hash) {
    int n = f->program->nranks;
    memcpy(hash, f->own, (size_t)n * sizeof *hash);
    for (int i = 0; i < f->n; i++) {
        sum_groups(f, f->items[i].instr);
        const uint64_t *mine = f->items[i].mine;
        for (int r = 0; r < n; r++) {
            uint64_t what[] = {hash[r], f->sum[f->items[i].instr->group[r]], mine ? mine[r] : 0};
            hash[r] = mt_hash64(what, sizeof what, 0);
        }
    }
}

/* first[nranks]: the first rank with the same hash; returns how many there are. */
static int number(const uint64_t *hash, int n, int *first) {
    int nslots = 16, count = 0;
    while (nslots < 2 * n) nslots *= 2;
    int *slots = mt_calloc((size_t)nslots, sizeof *slots); /* the first rank of a class + 1; open addressing */
    for (int r = 0; r < n; r++) {
        uint64_t at = hash[r] & (uint64_t)(nslots - 1);
        while (slots[at] && hash[slots[at] - 1] != hash[r]) at = (at + 1) & (uint64_t)(nslots - 1);
        if (!slots[at]) slots[at] = r + 1, count++;
        first[r] = slots[at] - 1;
    }
    free(slots);
    return count;
}

/* Whether the first ranks of classes that meet in a group are themselves in one. */
static bool firsts_meet(const struct folding *f, const int *first) {
    int n = f->program->nranks;
    for (int i = 0; i < f->n; i++) {
        const int *group = f->items[i].instr->group;
        int *of = mt_malloc((size_t)n * sizeof *of); /* of a group that has a first rank: that */
        bool meet = true;
        for (int g = 0; g < n; g++) of[g] = -1;
        for (int r = 0; r < n; r++)
            if (first[r] == r) of[group[r]] = r;
        for (int r = 0; r < n && meet; r++) meet = of[group[r]] < 0 || group[first[r]] == group[r];
        free(of);
        if (!meet) return false;
    }
    return true;
}

void mt_lower_fold(const struct mt_program *program, const uint64_t *tag, int *first) {
    int n = program->nranks, before = 0, count;
    struct folding f = {.program = program};
    bool *used = mt_new(&f.arena, bool, program->layouts.count + 1);
    uint64_t *hash = mt_new(&f.arena, uint64_t, n), *tags = mt_new(&f.arena, uint64_t, n);
    f.own = mt_new(&f.arena, uint64_t, n), f.colour = mt_new(&f.arena, uint64_t, n);
    f.sum = mt_new(&f.arena, uint64_t, n);
    f.first = mt_new(&f.arena, int, n);
    for (int v = 0; v < program->nvalues; v++) used[program->values[v].layout] = true;
    for (int r = 0; r < n; r++) f.own[r] = own_hash(program, used, r), tags[r] = tag ? tag[r] : 0;
    list_collectives(&f);
    for (int exact = 0; exact < 2; exact++) { /* where first ranks do not meet, groups are told apart by their ranks */
        for (int r = 0; r < n; r++) f.colour[r] = f.own[r] + 0x9e3779b97f4a7c15u * (exact ? (uint64_t)r + 1 : tags[r]);
        for (before = 0;; before = count) {
            refine(&f, hash);
            count = number(hash, n, first);
            if (exact || count <= before || count == n) break;
            for (int r = 0; r < n; r++) f.colour[r] = hash[r] + 0x9e3779b97f4a7c15u * tags[r];
        }
        if (firsts_meet(&f, first)) break;
    }
    mt_arena_release(&f.arena);
}
