/* Chunks by greedy filling: values join a chunk in order while the fullest rank has room. One that is too large has a
 * chunk of its own where its tensor may serve as the message; else it is cut into the fewest equal parts that fit,
 * which are counted exactly. */
#include "synth/program/cut.h"

#include <assert.h>
#include <string.h>

enum { LONG_AXIS = 8, ALIGN = 16 }; /* times the parts: rounding makes a part at most an eighth larger */

/* Where part `part` of n places begins. Parts begin at multiples of up to ALIGN places where that makes them hardly
 * larger: communicators are slower where messages do not begin at multiples of some bytes. */
static int64_t cut_place(int64_t n, int part, int parts) {
    int64_t place = n * part / parts, align = ALIGN;
    while (align > 1 && n < (int64_t)LONG_AXIS * parts * align) align /= 2;
    return part < parts ? place / align * align : n;
}

struct mt_box mt_box_cut(const struct mt_box *box, int naxes, int part, int parts) {
    struct mt_box out = *box;
    if (!mt_box_count(box, naxes)) return out;
    while (parts > 1) {
        int axis = 0;
        for (int a = 1; a < naxes; a++)
            if (out.hi[a] - out.lo[a] > out.hi[axis] - out.lo[axis]) axis = a;
        for (int a = naxes - 1; a >= 0; a--)
            if (out.hi[a] - out.lo[a] >= (int64_t)LONG_AXIS * parts) axis = a;
        int64_t n = out.hi[axis] - out.lo[axis], lo = out.lo[axis];
        if (n >= parts || n <= 1) {
            out.lo[axis] = lo + cut_place(n, part, parts);
            out.hi[axis] = lo + cut_place(n, part + 1, parts);
            if (n <= 1) out.lo[axis] = lo, out.hi[axis] = part ? lo : lo + n; /* one element is in part 0 */
            break;
        }
        /* Place `at` of the axis is divided by parts [first, end). */
        int64_t at = n * part / parts;
        int first = (int)((at * parts + n - 1) / n), end = (int)(((at + 1) * parts + n - 1) / n);
        out.lo[axis] = lo + at;
        out.hi[axis] = lo + at + 1;
        part -= first;
        parts = end - first;
    }
    return out;
}

struct mt_instr mt_message_chunk_instr(const struct mt_instr *instr, const struct mt_message_chunk *chunk) {
    struct mt_instr one = *instr;
    one.in += chunk->first;
    one.out += chunk->first;
    one.nin = one.nout = chunk->count;
    return one;
}

struct cutting {
    const struct mt_program *program;
    const struct mt_instr *instr;
    int64_t staging_bytes;
    struct mt_cut_form form;
    struct mt_arena *arena;
    struct mt_arena scratch;
    struct mt_message_chunk *chunks;
    int nchunks, capacity;
    int64_t *held;   /* [nranks]: bytes staged by the chunk that is being filled */
    int64_t *needed; /* [nranks]: by what was measured last */
    bool direct;     /* alone, what was measured last needs no staging on any rank */
    bool copies;     /* some of it must be packed or unpacked, whatever the communicator */
    struct mt_err *err;
};

/* Whether the only value's tensor serves as the message (see the lowering). */
static bool is_direct(const struct cutting *c, const struct mt_instr *one, const struct mt_message *m, int operand) {
    enum mt_type acc = m->problem.acc;
    if (one->coll == MT_ALL_TO_ALL || c->program->values[one->in[0]].type != acc ||
        c->program->values[one->out[0]].type != acc)
        return false;
    return one->coll == MT_REDUCE_SCATTER ? c->form.takes && c->form.takes[operand] && m->pack.is_tensor
                                          : m->unpack.is_tensor;
}

/* The ranks of the group that one is in; returns their number. */
static int list_group(const struct cutting *c, const struct mt_instr *one, int rank, int *members) {
    int n = 0;
    for (int r = rank; r < c->program->nranks; r++)
        if (one->group[r] == one->group[rank]) members[n++] = r;
    return n;
}

static bool is_moved(const struct mt_box *a, const struct mt_box *a0, const struct mt_box *b, const struct mt_box *b0,
                     int naxes) {
    for (int x = 0; x < naxes; x++)
        if (a->lo[x] - a0->lo[x] != b->lo[x] - b0->lo[x] || a->hi[x] - a->lo[x] != b->hi[x] - b->lo[x]) return false;
    return true;
}

/* Whether the boxes of two groups of `n` ranks, the first with old boxes, differ in their place alone, and their parts
 * in their numbers: then their messages are alike. */
static bool are_alike(const struct mt_program *p, const struct mt_instr *one, const int *a, const int *b, int n) {
    for (int v = 0; v < one->nin; v++) {
        const struct mt_layout *from = &p->layouts.items[p->values[one->in[v]].layout];
        const struct mt_layout *to = &p->layouts.items[p->values[one->out[v]].layout];
        const struct mt_box *a0 = &from->box[a[0]], *b0 = &from->box[b[0]];
        for (int k = 0; k < n; k++) {
            bool alike = is_moved(&from->box[a[k]], a0, &from->box[b[k]], b0, from->naxes) &&
                         is_moved(&to->box[a[k]], a0, &to->box[b[k]], b0, to->naxes);
            int part = from->part[a[k]] - from->part[a[0]], cover = from->cover[from->part[a[k]]];
            alike &= part == from->part[b[k]] - from->part[b[0]] && mt_layout_is_complete(to, a[k]) &&
                     mt_layout_is_complete(to, b[k]);
            alike &=
                cover - from->cover[from->part[a[0]]] == from->cover[from->part[b[k]]] - from->cover[from->part[b[0]]];
            if (!alike) return false;
        }
    }
    return true;
}

/* Fill `needed` with what every rank stages for a part of one operand; *most gets the largest. */
static enum mt_status measure(struct cutting *c, const struct mt_message_chunk *chunk, int64_t *most) {
    const struct mt_instr one = mt_message_chunk_instr(c->instr, chunk);
    const struct mt_message_form form = {
        .sketch = true, .part = chunk->part, .parts = chunk->parts, .wire_sums = c->form.wire_sums};
    int nranks = c->program->nranks;
    struct mt_arena arena = MT_ARENA_INIT;
    bool *seen = mt_new(&arena, bool, nranks);
    int *members = mt_new(&arena, int, nranks), *last = mt_new(&arena, int, nranks), nlast = 0;
    enum mt_status st = MT_OK;
    *most = 0;
    c->direct = true;
    c->copies = false;
    for (int first = 0; first < nranks && !st; first++) {
        struct mt_message m;
        if (seen[one.group[first]]) continue;
        seen[one.group[first]] = true;
        int nmembers = list_group(c, &one, first, members);
        if (nmembers == nlast && are_alike(c->program, &one, last, members, nlast)) {
            for (int k = 0; k < nlast; k++) c->needed[members[k]] = c->needed[last[k]];
            continue;
        }
        memcpy(last, members, (size_t)nmembers * sizeof *last);
        nlast = nmembers;
        if ((st = mt_message_make(c->program, &one, first, &form, &arena, &m, c->err))) break;
        bool exchanges = one.coll == MT_ALL_TO_ALL;
        c->direct &= is_direct(c, &one, &m, chunk->first);
        c->copies |= !mt_coll_takes_arrays(&m.problem) || m.pack.nrest + m.unpack.nrest > 0;
        for (int p = 0; p < m.problem.n; p++) {
            int64_t count[2] = {exchanges ? m.staged[0][p] : m.count[0], exchanges ? m.staged[1][p] : 0};
            int64_t *bytes = &c->needed[m.group[p]], size = mt_type_size(m.problem.acc);
            *bytes = mt_message_round(count[0] * size) + mt_message_round(count[1] * size);
            if (*bytes > *most) *most = *bytes;
        }
    }
    mt_arena_release(&arena);
    return st;
}

static void add_chunk(struct cutting *c, struct mt_message_chunk chunk) {
    mt_arena_grow(c->arena, &c->chunks, c->nchunks, &c->capacity, sizeof *c->chunks);
    c->chunks[c->nchunks++] = chunk;
    memset(c->held, 0, (size_t)c->program->nranks * sizeof *c->held);
}

/* The next number of parts to try, where some part stages `most` bytes: they should shrink with their number. */
static int64_t more_parts(int64_t parts, int64_t most, int64_t part_bytes, int64_t elements) {
    int64_t next = (int64_t)((double)parts * (double)most / (double)part_bytes);
    if (next <= parts) next = parts + 1;
    return parts < elements && next > elements ? elements : next;
}

/* Cut one operand, of which some rank stages `whole_bytes`, into the fewest parts that stage at most part_bytes each.
 * *most gets what the largest of too many parts stages, if there is no such number of parts; else 0. */
static enum mt_status cut_into(struct cutting *c, int operand, int64_t whole_bytes, int64_t part_bytes, int64_t *most) {
    const struct mt_pvalue *value = &c->program->values[c->instr->in[operand]];
    const struct mt_layout *layout = &c->program->layouts.items[value->layout];
    int64_t elements = 1, parts = part_bytes ? (whole_bytes + part_bytes - 1) / part_bytes : INT64_MAX;
    for (int a = 0; a < layout->naxes; a++) elements *= layout->extent[a];
    *most = whole_bytes;
    while (parts <= elements && parts <= INT32_MAX && layout->naxes) {
        for (int part = 0; part < parts; part++) {
            struct mt_message_chunk chunk = {operand, 1, part, (int)parts, 0};
            enum mt_status st = measure(c, &chunk, most);
            if (st) return st;
            if (*most > part_bytes) break;
        }
        if (*most > part_bytes) {
            parts = more_parts(parts, *most, part_bytes, elements);
            continue;
        }
        for (int part = 0; part < parts; part++)
            add_chunk(c, (struct mt_message_chunk){operand, 1, part, (int)parts, part_bytes < c->staging_bytes});
        *most = 0;
        return MT_OK;
    }
    return MT_OK;
}

/* Where nothing is copied, pipelining would only make messages smaller. */
static enum mt_status cut_operand(struct cutting *c, int operand, int64_t whole_bytes) {
    int64_t most = 1;
    enum mt_status st = MT_OK;
    if (c->copies && !c->program->staging_in_turn) st = cut_into(c, operand, whole_bytes, c->staging_bytes / 2, &most);
    if (!st && most) st = cut_into(c, operand, whole_bytes, c->staging_bytes, &most);
    if (st || !most) return st;
    mt_fail(c->err, MT_EINPUT, "%lld bytes of staging are too few to move %s in parts: at least %lld are needed",
            (long long)c->staging_bytes,
            c->program->graph->values[c->program->values[c->instr->in[operand]].gvalue].name, (long long)most);
    return mt_err_hint(c->err, "allow more with --staging");
}

static enum mt_status cut_all(struct cutting *c) {
    struct mt_message_chunk filling = {.parts = 1};
    int nranks = c->program->nranks;
    for (int v = 0; v < c->instr->nin; v++) {
        struct mt_message_chunk alone = {v, 1, 0, 1, 0};
        int64_t most, together = 0;
        enum mt_status st = measure(c, &alone, &most);
        if (st) return st;
        for (int r = 0; r < nranks; r++)
            if (c->held[r] + c->needed[r] > together) together = c->held[r] + c->needed[r];
        if (together > c->staging_bytes && filling.count) add_chunk(c, filling), filling.count = 0;
        if (most <= c->staging_bytes) {
            if (!filling.count) filling.first = v;
            filling.count++;
            for (int r = 0; r < nranks; r++) c->held[r] += c->needed[r];
        } else if (c->direct) {
            add_chunk(c, alone);
        } else if ((st = cut_operand(c, v, most))) {
            return st;
        }
    }
    if (filling.count) add_chunk(c, filling);
    return MT_OK;
}

/* More than any rank stages: an AllToAll's sender may send to every receiver, and receives too. */
static int64_t bound_bytes(const struct mt_program *program, const struct mt_instr *instr, bool wire_sums) {
    enum mt_type acc = mt_coll_reduces(instr->coll) && !wire_sums ? instr->acc : instr->wire;
    int64_t bytes = mt_message_bytes(program, instr) / mt_type_size(instr->wire) * mt_type_size(acc);
    return instr->coll == MT_ALL_TO_ALL ? 2 * mt_message_round(bytes) : mt_message_round(bytes);
}

static int64_t limit_of(const struct mt_program *program, const struct mt_instr *instr) {
    if (program->staging_bytes) return program->staging_bytes;
    return instr->nin == 1 ? MT_STAGING_BYTES : INT64_MAX;
}

enum mt_status mt_message_cut(const struct mt_program *program, const struct mt_instr *instr,
                              const struct mt_cut_form *form, struct mt_arena *arena, struct mt_message_chunk **chunks,
                              int *nchunks, struct mt_err *err) {
    struct cutting c = {.program = program,
                        .instr = instr,
                        .staging_bytes = limit_of(program, instr),
                        .form = *form,
                        .arena = arena,
                        .err = err};
    assert(c.staging_bytes > 0);
    enum mt_status st = MT_OK;
    c.held = mt_new(&c.scratch, int64_t, program->nranks);
    c.needed = mt_new(&c.scratch, int64_t, program->nranks);
    if (bound_bytes(program, instr, form->wire_sums) <= c.staging_bytes)
        add_chunk(&c, (struct mt_message_chunk){0, instr->nin, 0, 1, 0});
    else
        st = cut_all(&c);
    mt_arena_release(&c.scratch);
    *chunks = c.chunks;
    *nchunks = c.nchunks;
    return st;
}
