/* A lowered program as text: one line an instruction, with stream, wait, operands and their offsets. */
#include <inttypes.h>

#include "synth/lower/lower.h"

const char *mt_lowered_stream_name(int stream) {
    static const char *const names[MT_MOST_STREAMS] = {"compute", "comm",   "copy",   "copy 2",
                                                       "copy 3",  "copy 4", "copy 5", "copy 6"};
    return names[stream];
}

static void print_value(const struct mt_lowered *low, int v, FILE *file) {
    const struct mt_program *p = low->program;
    const struct mt_lvalue *value = &low->values[v];
    if (value->pvalue < 0) {
        fprintf(file, " buffer");
    } else {
        fprintf(file, " %s %s[", p->graph->values[p->values[v].gvalue].name, mt_type_name(value->tensor.type));
        for (int a = 0; a < value->tensor.naxes; a++)
            fprintf(file, "%s%" PRId64, a ? " " : "", value->tensor.extent[a]);
        fputc(']', file);
    }
    fprintf(file, "@%" PRId64, value->offset_bytes);
}

static void print_overlap(const struct mt_loverlap *o, FILE *file) {
    const struct mt_overlap *p = &o->problem;
    fprintf(file,
            "; overlapped: %" PRId64 " by %" PRId64 " by %" PRId64 "%s, place %d of %d ranks, window %" PRId64
            " to %" PRId64,
            p->m, p->cols, p->k, o->trans_out ? " transposed" : "", o->me, p->n, o->window_at,
            o->window_at + mt_overlap_window_bytes(p));
    if (o->schedule)
        fprintf(file, ", tiles of %" PRId64 " by %" PRId64 ", %d tiles, %d puts", p->tile[0], p->tile[1],
                o->schedule->ntiles, o->schedule->nputs);
    if (p->how)
        fprintf(file, ", by %s",
                p->how == MT_OVERLAP_FUSED  ? "one kernel"
                : p->how == MT_OVERLAP_NCCL ? "NCCL and GEMMs"
                                            : "copy engines and GEMMs");
    if (mt_overlap_nslabs(p) > 1) fprintf(file, ", K in %d slabs", mt_overlap_nslabs(p));
    if (p->engines) fprintf(file, ", puts by copy engines");
    if (p->joint) fprintf(file, ", rows of all ranks in each tile");
    for (int g = 0; g < p->ngroups; g++) fprintf(file, "%s %" PRId64, g ? "" : ", groups of rows:", p->groups[g]);
}

static void print_instr(const struct mt_lowered *low, int index, FILE *file) {
    static const char *const whats[] = {"", "", "", "copy", "alias"};
    const struct mt_linstr *c = &low->instrs[index];
    fprintf(file, "  %4d %-7s", index, mt_lowered_stream_name(c->stream));
    for (int i = 0; i < c->nwaits; i++) fprintf(file, i ? " and %d" : " after %d", c->waits[i]);
    const char *what = c->what == MT_LOWERED_OVERLAP      ? mt_overlap_name(c->overlap->problem.form)
                       : c->what == MT_LOWERED_OP         ? mt_op_info[c->kind].name
                       : c->what == MT_LOWERED_COLLECTIVE ? mt_coll_name(c->problem.kind)
                                                          : whats[c->what];
    bool gemm = c->kind == MT_OP_fused_matmul;
    fprintf(file, " %s", what);
    if (gemm) fprintf(file, " %s", mt_op_info[c->attr.epilogue].name);
    fprintf(file, "%s (%s):", c->attr.accumulate ? " accumulate" : "", c->name);
    for (int i = 0; i < c->nin; i++) print_value(low, c->in[i], file);
    fprintf(file, " ->");
    for (int o = 0; o < c->nout; o++) print_value(low, c->out[o], file);
    if (c->scratch >= 0) {
        fprintf(file, "; scratch %" PRId64 " bytes", low->values[c->scratch].size_bytes);
        print_value(low, c->scratch, file);
    }
    for (int b = 0; b < 2; b++)
        if (c->message[b] >= 0 && c->what == MT_LOWERED_COLLECTIVE) {
            fprintf(file, "; message %" PRId64 " %s", c->message_count[b], mt_type_name(c->problem.acc));
            print_value(low, c->message[b], file);
        }
    if (c->schedule)
        fprintf(file, "; %d ranks, %d rounds, %d packed, %d unpacked", c->problem.n, c->schedule->nrounds, c->npack,
                c->nunpack);
    if (c->overlap) print_overlap(c->overlap, file);
    if (c->nin_place[0] + c->nin_place[1])
        fprintf(file, ", %d sent and %d received in place", c->nin_place[0], c->nin_place[1]);
    if (c->kept) fputs("; kept", file);
    if (c->ahead) fputs(", overlaps the one before", file);
    fputc('\n', file);
}

void mt_lowered_print(const struct mt_lowered *low, FILE *file) {
    fprintf(file,
            "%d instructions, arena %" PRId64 " bytes: states %" PRId64 ", the rest %" PRId64
            " bytes in the place of %" PRId64 "\n",
            low->ninstrs, low->arena_bytes, low->state_bytes, low->arena_bytes - low->state_bytes, low->value_bytes);
    if (low->window_bytes) fprintf(file, "window %" PRId64 " bytes\n", low->window_bytes);
    for (int b = 0; b < MT_NBLOCKS; b++) {
        if (low->block_begin[b] == low->block_begin[b + 1]) continue;
        fprintf(file, "%s", mt_block_name((enum mt_block_kind)b));
        if (b == MT_BODY)
            fprintf(file, " (%" PRId64 " times%s)", low->body_count, low->body_barrier ? ", with barriers" : "");
        fputc('\n', file);
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) print_instr(low, i, file);
    }
}
