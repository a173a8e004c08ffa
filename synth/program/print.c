/* Programs as text, and their hash. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/text/printed.h"
#include "synth/program/program.h"

struct printer {
    const struct mt_program *program;
    int rank; /* -1: all */
    FILE *out;
    struct mt_arena arena;
};

static void print_vector(FILE *out, const int64_t *values, int count) {
    for (int i = 0; i < count; i++) fprintf(out, " %" PRId64, values[i]);
}

static const char *value_name(const struct printer *p, int value) {
    return p->program->graph->values[p->program->values[value].gvalue].name;
}

/* The layout; or the rank's box as "[0:3 0:8]", "[]" for a scalar, "nothing" if it is empty, with its part if it is
 * partial. */
static const char *place(struct printer *p, int value) {
    const struct mt_program *program = p->program;
    int id = program->values[value].layout;
    if (p->rank < 0) return mt_layout_text(&program->layouts, id, &p->arena);
    const struct mt_layout *l = &program->layouts.items[id];
    const struct mt_box *box = &l->box[p->rank];
    if (!mt_box_count(box, l->naxes)) return "nothing";
    char *text = mt_arena_printf(&p->arena, "[");
    for (int a = 0; a < l->naxes; a++)
        text = mt_arena_printf(&p->arena, "%s%s%" PRId64 ":%" PRId64, text, a ? " " : "", box->lo[a], box->hi[a]);
    const char *reduce = l->reduce == MT_MAX ? "max" : "sum";
    return l->nparts > 1 ? mt_arena_printf(&p->arena, "%s] %s part %d of %d", text, reduce, l->part[p->rank], l->nparts)
                         : mt_arena_printf(&p->arena, "%s]", text);
}

static void print_values(FILE *out, const int *values, int count) {
    for (int i = 0; i < count; i++) fprintf(out, "%s%%%d", i ? ", " : "", values[i]);
}

static void print_results(struct printer *p, const struct mt_instr *instr) {
    fputs(" : ", p->out);
    for (int i = 0; i < instr->nout; i++)
        fprintf(p->out, "%s%s %s", i ? ", " : "", place(p, instr->out[i]),
                mt_type_name(p->program->values[instr->out[i]].type));
    fputc('\n', p->out);
}

/* Elements that one value adds to the message: its larger box, on the rank shown or the largest of all ranks. */
static int64_t message_elements(const struct printer *p, int from, int to) {
    int64_t most = 0;
    for (int r = 0; r < p->program->nranks; r++) {
        if (p->rank >= 0 && r != p->rank) continue;
        int values[2] = {from, to};
        for (int i = 0; i < 2; i++) {
            const struct mt_layout *l = &p->program->layouts.items[p->program->values[values[i]].layout];
            int64_t count = mt_box_count(&l->box[r], l->naxes);
            if (count > most) most = count;
        }
    }
    return most;
}

static bool one_group(const struct mt_program *program, const int *group) {
    for (int r = 0; r < program->nranks; r++)
        if (group[r] != group[0]) return false;
    return true;
}

static void print_collective(struct printer *p, const struct mt_instr *instr) {
    static const char *const reductions[] = {[MT_REDUCE_NONE] = "", [MT_SUM] = " sum", [MT_MAX] = " max"};
    int64_t elements = 0;
    for (int i = 0; i < instr->nin; i++) elements += message_elements(p, instr->in[i], instr->out[i]);
    fprintf(p->out, "  %s%s: %d value%s, %" PRId64 " bytes, wire %s", mt_coll_name(instr->coll),
            reductions[instr->reduce], instr->nin, instr->nin == 1 ? "" : "s", elements * mt_type_size(instr->wire),
            mt_type_name(instr->wire));
    if (instr->reduce != MT_REDUCE_NONE) fprintf(p->out, ", sums in %s", mt_type_name(instr->acc));
    fprintf(p->out, ", %s", instr->algorithm);
    if (!one_group(p->program, instr->group)) {
        int64_t *groups = mt_new(&p->arena, int64_t, p->program->nranks);
        for (int r = 0; r < p->program->nranks; r++) groups[r] = instr->group[r];
        fputs(", groups", p->out);
        mt_text_of_ranks(p->out, groups, p->program->nranks);
    }
    fputc('\n', p->out);
    for (int i = 0; i < instr->nin; i++)
        fprintf(p->out, "    %%%d = %%%d %s : %s -> %s %s\n", instr->out[i], instr->in[i], value_name(p, instr->in[i]),
                place(p, instr->in[i]), place(p, instr->out[i]), mt_type_name(p->program->values[instr->out[i]].type));
}

static void print_instr(struct printer *p, const struct mt_instr *instr) {
    static const char *const words[] = {
        [MT_INSTR_SLICE] = "slice", [MT_INSTR_ZERO] = "zero", [MT_INSTR_ACCUMULATE] = "accumulate"};
    if (instr->kind == MT_INSTR_COLLECTIVE) {
        print_collective(p, instr);
        return;
    }
    fputs("  ", p->out);
    print_values(p->out, instr->out, instr->nout);
    if (instr->kind == MT_INSTR_OP) {
        const struct mt_op *op = &p->program->graph->ops[instr->gop];
        fprintf(p->out, " = %s %s(", mt_op_info[op->kind].name, op->name);
    } else {
        fprintf(p->out, " = %s %s%s", words[instr->kind], value_name(p, instr->out[0]), instr->nin ? "(" : "");
    }
    print_values(p->out, instr->in, instr->nin);
    if (instr->nin || instr->kind == MT_INSTR_OP) fputc(')', p->out);
    print_results(p, instr);
}

static void print_fed(struct printer *p, enum mt_block_kind block) {
    for (int v = 0; v < p->program->nvalues; v++) {
        const struct mt_pvalue *value = &p->program->values[v];
        if (!value->input || value->block != block) continue;
        bool state = p->program->graph->values[value->gvalue].kind == MT_VALUE_STATE;
        fprintf(p->out, "  %%%d = %s %s : %s %s", v, state ? "state" : "input", value_name(p, v), place(p, v),
                mt_type_name(value->type));
        if (value->next >= 0) fprintf(p->out, ", then %%%d", value->next);
        fputc('\n', p->out);
    }
}

static void print_heading(const struct printer *p, enum mt_block_kind block) {
    const struct mt_program *program = p->program;
    int first = p->rank < 0 ? 0 : p->rank, count = p->rank < 0 ? program->nranks : 1;
    fputs(mt_block_name(block), p->out);
    if (block == MT_BODY) {
        fputs(": times", p->out);
        mt_text_of_ranks(p->out, program->body_count + first, count);
        fputs(", samples", p->out);
        mt_text_of_ranks(p->out, program->body_size + first, count);
    } else if (block == MT_LAST) {
        fputs(": samples", p->out);
        mt_text_of_ranks(p->out, program->last_size + first, count);
    }
    fputc('\n', p->out);
}

void mt_program_print(const struct mt_program *program, int rank, FILE *file) {
    struct printer p = {.program = program, .rank = rank, .out = file};
    const struct mt_graph *g = program->graph;
    fprintf(p.out, "%s program of %d rank%s", program->train ? "training" : "forward", program->nranks,
            program->nranks == 1 ? "" : "s");
    if (rank >= 0) fprintf(p.out, ", rank %d's view", rank);
    if (g->batch >= 0) {
        fprintf(p.out, "; batch %" PRId64 " as", g->labels[g->batch].extent);
        mt_text_of_ranks(p.out, program->batch_size, program->nranks);
    }
    fputc('\n', p.out);
    for (int b = 0; b < MT_NBLOCKS; b++) {
        enum mt_block_kind block = (enum mt_block_kind)b;
        if (block == MT_BODY && !program->blocks[b].ninstrs) continue;
        print_heading(&p, block);
        print_fed(&p, block);
        for (int i = 0; i < program->blocks[b].ninstrs; i++) {
            print_instr(&p, &program->blocks[b].instrs[i]);
            mt_arena_release(&p.arena);
        }
        mt_arena_release(&p.arena);
    }
}

struct hashed { /* a layout */
    char hash[33];
};

static void describe_layout(const struct mt_program *program, int layout, FILE *out) {
    const struct mt_layout *l = &program->layouts.items[layout];
    fprintf(out, "%d %d", (int)l->reduce, l->nparts);
    print_vector(out, l->extent, l->naxes);
    for (int part = 0; part < l->nparts && l->ncovers > 1; part++) fprintf(out, " c%d", l->cover[part]);
    for (int r = 0; r < program->nranks; r++) {
        fprintf(out, "|%d", l->part[r]);
        print_vector(out, l->box[r].lo, l->naxes);
        print_vector(out, l->box[r].hi, l->naxes);
    }
}

static void describe_choice(const struct mt_overlap_choice *row, FILE *out) {
    fprintf(out, "\noverlap %d %" PRId64 " %" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64 " %" PRId64 " %d %d",
            (int)row->form, row->m, row->cols, row->k, (int)row->how, row->tile[0], row->tile[1], row->chunk, row->mix,
            row->direct);
    if (row->slabs) fprintf(out, " %d slabs", row->slabs);
    if (row->engines) fprintf(out, " engines");
    if (row->joint) fprintf(out, " joint");
    print_vector(out, row->groups, row->ngroups);
}

/* What is hashed: all that decides what is computed. Layouts are described by their boxes, not by their ids. */
static void describe_program(const struct mt_program *program, const struct hashed *layouts, FILE *out) {
    int n = program->nranks;
    bool by_node = false;
    char graph_hash[33];
    mt_graph_hash(program->graph, graph_hash);
    fprintf(out, "%s %d %d", graph_hash, n, program->train);
    print_vector(out, program->batch_size, n);
    print_vector(out, program->batch_start, n);
    print_vector(out, program->body_size, n);
    print_vector(out, program->body_count, n);
    print_vector(out, program->last_size, n);
    for (int v = 0; v < program->nvalues; v++) {
        const struct mt_pvalue *value = &program->values[v];
        fprintf(out, "\nv %d %d %d %d %d %d %s", value->gvalue, (int)value->type, (int)value->block, (int)value->covers,
                value->input, value->next, layouts[value->layout].hash);
    }
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < program->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &program->blocks[b].instrs[i];
            fprintf(out, "\ni %d %d %d ", b, (int)instr->kind, instr->gop);
            print_values(out, instr->in, instr->nin);
            fputs(" -> ", out);
            print_values(out, instr->out, instr->nout);
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            enum { UNUSED = 0 }; /* a field that instructions had: hashes stay what they were */
            fprintf(out, " %d %d %d %d %d %s", (int)instr->coll, (int)instr->reduce, (int)instr->wire, (int)instr->acc,
                    UNUSED, instr->algorithm);
            for (int r = 0; r < n; r++) fprintf(out, " %d", instr->group[r]);
            const struct mt_coll_algorithm *algorithm = mt_coll_find(instr->coll, instr->algorithm);
            by_node = by_node || (algorithm && algorithm->by_node);
        }
    if (program->staging_bytes) fprintf(out, "\ns %" PRId64, program->staging_bytes);
    if (program->overlap) fprintf(out, "\no %u", program->overlap);
    for (int i = 0; i < program->noverlaps; i++) describe_choice(&program->overlaps[i], out);
    if (!by_node || !program->node) return;
    fputs("\nn", out);
    for (int r = 0; r < n; r++) fprintf(out, " %d", program->node[r]);
}

static void describe_end(struct mt_printed *printed, char hash[33]) {
    char *text = mt_printed_end(printed);
    mt_hash_text(text, printed->length, hash);
    free(text);
}

void mt_program_hash(const struct mt_program *program, char out[33]) {
    struct hashed *layouts = mt_calloc((size_t)program->layouts.count, sizeof *layouts);
    struct mt_printed printed;
    for (int l = 0; l < program->layouts.count; l++) {
        describe_layout(program, l, mt_printed_begin(&printed));
        describe_end(&printed, layouts[l].hash);
    }
    describe_program(program, layouts, mt_printed_begin(&printed));
    describe_end(&printed, out);
    free(layouts);
}
