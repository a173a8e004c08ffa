/* Overlapped instructions: a matmul and its collective become one, with its schedule and its place in the window. */
#include "kernels/overlap/chunk.h"
#include "synth/lower/internal.h"

void mt_lowering_pair(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    mt_pairs_find(p, &l->scratch, &l->pairs);
    for (int b = 0; b < MT_NBLOCKS; b++) {
        l->pair_of[b] = mt_new(&l->scratch, int, p->blocks[b].ninstrs + 1);
        for (int i = 0; i < p->blocks[b].ninstrs; i++) l->pair_of[b][i] = -1;
    }
    for (int i = 0; i < l->pairs.count; i++) {
        const struct mt_pair *pair = &l->pairs.items[i];
        l->pair_of[pair->block][pair->product] = l->pair_of[pair->block][pair->collective] = i;
    }
    l->low->window_bytes = l->pairs.window_bytes;
    l->low->nregions = l->pairs.nregions;
}

static struct mt_loverlap *overlap_of(struct mt_lowering *l, const struct mt_pair *pair, int **group) {
    struct mt_arena *arena = &l->low->arena;
    struct mt_loverlap *o = mt_new(arena, struct mt_loverlap, 1);
    bool transposed[3];
    mt_pair_transposes(l->program, pair, transposed);
    *o = (struct mt_loverlap){.trans_a = transposed[0],
                              .trans_b = transposed[1],
                              .trans_out = transposed[2],
                              .region = pair->region,
                              .window_at = pair->window_at};
    mt_pair_problem(l->program, pair, l->rank, arena, &o->problem, group);
    while ((*group)[o->me] != l->rank) o->me++;
    if (l->options->sketch) return o;
    o->schedule = mt_new(arena, struct mt_overlap_schedule, 1);
    mt_overlap_schedule(&o->problem, o->me, o->schedule);
    return o;
}

void mt_draft_overlap(struct mt_lowering *l, const struct mt_pair *pair) {
    const struct mt_program *p = l->program;
    struct mt_arena *arena = &l->low->arena;
    const struct mt_instr *product = &p->blocks[pair->block].instrs[pair->product];
    const struct mt_instr *collective = &p->blocks[pair->block].instrs[pair->collective];
    const struct mt_op *op = &p->graph->ops[product->gop];
    bool gather = pair->form == MT_OVERLAP_GATHER;
    int sources[] = {pair->product, pair->collective};
    int in[] = {product->in[pair->transposed], product->in[!pair->transposed]};
    int out[] = {gather ? product->out[0] : collective->out[0], collective->out[0]}, nout = 1 + pair->keep;
    if (gather) in[0] = collective->in[0];
    struct mt_linstr *c = mt_lowering_instr(l);
    *c = (struct mt_linstr){.what = MT_LOWERED_OVERLAP,
                            .nsources = 2,
                            .sources = mt_arena_memdup(arena, sources, sizeof sources),
                            .nin = 2,
                            .nout = nout,
                            .in = mt_arena_memdup(arena, in, sizeof in),
                            .out = mt_arena_memdup(arena, out, (size_t)nout * sizeof *out),
                            .kind = op->kind,
                            .attr = op->attr,
                            .scratch = -1,
                            .message = {-1, -1}};
    c->name = l->options->sketch ? op->name : mt_arena_printf(arena, "%s %s", mt_overlap_name(pair->form), op->name);
    c->overlap = overlap_of(l, pair, &c->group);
    c->tensor = mt_new(arena, struct mt_tensor, 2 + nout);
    for (int k = 0; k < 2 + nout; k++) c->tensor[k] = l->low->values[k < 2 ? in[k] : out[k - 2]].tensor;
    if (gather) c->tensor[0] = l->low->values[collective->out[0]].tensor;
}

static int64_t no_scratch(void *context, const struct mt_call *call) {
    (void)context, (void)call;
    return 0;
}

int64_t mt_overlapped_scratch_bytes(const struct mt_lowering *l, const struct mt_linstr *c) {
    const struct mt_lower_options *o = l->options;
    int64_t (*of_gemm)(void *, const struct mt_call *) = o->scratch_bytes ? o->scratch_bytes : no_scratch;
    const struct mt_overlap *problem = &c->overlap->problem;
    return (o->chunks ? mt_overlap_chunks_scratch_bytes
                      : mt_overlap_scratch_bytes)(problem, c->overlap->me, c->attr.epilogue, of_gemm, o->context);
}
