/* Ranks that use memory alike: all that flow.c reads of a lowered program, as one list of numbers. Where a rank's list
 * is that of a rank whose flow is proven, its flow is proven too: lists are compared, number by number. Of what is not
 * in the list flow.c reads the program alone, which is the same for all ranks. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

enum { MOST_LISTS = 8 }; /* that are kept */

struct mt_lflow {
    int64_t *items;
    size_t count, capacity;
};

static void add(struct mt_lflow *f, int64_t x) {
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 4096;
        f->items = mt_realloc(f->items, f->capacity * sizeof *f->items);
    }
    f->items[f->count++] = x;
}

static void add_list(struct mt_lflow *f, const int *items, int count) {
    add(f, count);
    for (int i = 0; i < count; i++) add(f, items[i]);
}

/* Of collectives in parts, what their pieces overwrite. */
static void add_pieces(struct mt_lflow *f, const struct mt_piece *pieces, const int *of, int count) {
    for (int i = 0; i < count; i++) {
        add(f, of[i]);
        add(f, (int64_t)(uintptr_t)pieces[i].data);
        add(f, pieces[i].naxes);
        for (int a = 0; a < MT_MAX_AXES; a++) add(f, pieces[i].extent[a]);
    }
}

static void add_instr(struct mt_lflow *f, const struct mt_linstr *l, const int *old) {
    add(f,
        l->what | (int64_t)l->kind << 8 | (int64_t)l->stream << 32 | (int64_t)l->ahead << 40 | (int64_t)l->kept << 41);
    add_list(f, l->waits, l->nwaits);
    add(f, l->nsources);
    add_list(f, l->in, l->nin);
    add_list(f, l->out, l->nout);
    add_list(f, old, l->what == MT_LOWERED_OP ? l->nout : 0);
    add(f, l->scratch);
    if (l->what != MT_LOWERED_COLLECTIVE) return;
    bool arrays = mt_coll_takes_arrays(&l->problem);
    const int figures[] = {l->message[0],   l->message[1],   l->npack,       l->nunpack,   arrays,
                           l->nin_place[0], l->nin_place[1], l->chunk.parts, l->chunk.part};
    add_list(f, figures, (int)(sizeof figures / sizeof *figures));
    if (l->chunk.parts <= 1) return;
    add_pieces(f, l->pack, l->pack_of, l->npack);
    add_pieces(f, l->unpack, l->unpack_of, l->nunpack);
}

static void list(const struct mt_lchecker *c, struct mt_lflow *f) {
    const struct mt_lowered *low = c->low;
    add(f, low->nvalues);
    for (int v = 0; v < low->nvalues; v++) {
        add(f, low->values[v].offset_bytes);
        add(f, low->values[v].size_bytes);
    }
    add_list(f, low->block_begin, MT_NBLOCKS + 1);
    add_list(f, low->output_at, c->program->graph->nvalues);
    add(f, low->body_count);
    add(f, low->body_barrier);
    add(f, low->nstreams);
    add(f, low->state_bytes);
    for (int i = 0; i < low->ninstrs; i++) add_instr(f, &low->instrs[i], c->old[i]);
}

enum mt_status mt_lchecker_flow(struct mt_lchecker *c) {
    struct mt_lflow mine = {NULL, 0, 0};
    list(c, &mine);
    for (int i = 0; i < c->nflows && i < MOST_LISTS; i++) {
        const struct mt_lflow *f = &c->flows[i];
        if (f->count != mine.count || memcmp(f->items, mine.items, mine.count * sizeof *mine.items)) continue;
        free(mine.items);
        return MT_OK;
    }
    enum mt_status st = mt_lchecker_run_flow(c);
    if (st) {
        free(mine.items);
        return st;
    }
    if (!c->flows) c->flows = mt_new(&c->arena, struct mt_lflow, MOST_LISTS);
    struct mt_lflow *kept = &c->flows[c->nflows++ % MOST_LISTS];
    free(kept->items);
    *kept = mine;
    return MT_OK;
}

void mt_lchecker_forget_flows(struct mt_lchecker *c) {
    for (int i = 0; i < c->nflows && i < MOST_LISTS; i++) free(c->flows[i].items);
}
