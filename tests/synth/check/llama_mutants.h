/* Mutants of small random Llamas, with three classes beside those of mutants.h:
 *
 *   an untrained gain         a norm's gain is what it was before the step, or is updated with another gradient
 *   a residual once per rank  the residual is added to each rank's part of the branch, and then the parts are added up
 *   other keys or values      some ranks leave a sum that makes replicas of keys, values, or their weights' gradients
 */
#ifndef MT_TESTS_SYNTH_CHECK_LLAMA_MUTANTS_H
#define MT_TESTS_SYNTH_CHECK_LLAMA_MUTANTS_H

#include "tests/synth/check/mutants.h"

static inline struct mt_graph *random_llama(int64_t batch, char *text, size_t size) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    int kv_heads = 1 + (int)below(3), share = 1 + (int)below(3);
    snprintf(text, size,
             "llama:layers=1,heads=%d,kv_heads=%d,embed=%d,headsize=2,ffn=%d,context=%d,vocab=%d,tied=%d,"
             "qkv_bias=%d,window=%d,rope_factor=%d",
             kv_heads * share, kv_heads, 3 + (int)below(5), 3 + (int)below(6), 2 + (int)below(3), 7 + (int)below(4),
             (int)below(2), (int)below(2), 2 * (int)below(2), 4 * (int)below(2));
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, MT_F64, batch, 0, 0, &g, &err), err);
    for (int v = 0; v < g->nvalues; v++) /* far from their gentle beginning, so that every path matters */
        if (g->values[v].init == MT_INIT_NORMAL) g->values[v].init_std = 0.5;
    add_random_training(g);
    return g;
}

static inline bool is_update(const struct mt_program *p, const struct mt_instr *i, int state) {
    if (i->kind != MT_INSTR_OP || i->in[0] != state) return false;
    enum mt_op_kind kind = p->graph->ops[i->gop].kind;
    return kind == MT_OP_adamw || kind == MT_OP_sgd;
}

static inline bool untrained_gain(struct mt_program *p) {
    int v = (int)below(p->nvalues);
    const struct mt_value *value = &p->graph->values[p->values[v].gvalue];
    if (p->values[v].next < 0 || !value->param || !strstr(value->name, "norm")) return false;
    if (below(2)) {
        p->values[v].next = v;
        return true;
    }
    for (int i = 0; i < p->blocks[MT_EPILOGUE].ninstrs; i++) {
        struct mt_instr *update = at(p, MT_EPILOGUE, i);
        if (!is_update(p, update, v)) continue;
        int *gradient = &update->in[p->graph->ops[update->gop].kind == MT_OP_adamw ? 3 : 2];
        int other = (int)below(p->nvalues);
        if (other == *gradient || p->values[other].layout != p->values[*gradient].layout ||
            p->values[other].type != p->values[*gradient].type || !made_before(p, other, MT_EPILOGUE, i))
            return false;
        *gradient = other;
        return true;
    }
    return false;
}

/* The AllReduce of this block that makes a value, with the place of the value in it; or null. */
static inline const struct mt_instr *all_reduce_of(struct mt_program *p, int block, int value, int *place) {
    for (int i = 0; i < p->blocks[block].ninstrs; i++)
        for (int k = 0; k < at(p, block, i)->nout && at(p, block, i)->kind == MT_INSTR_COLLECTIVE; k++)
            if (at(p, block, i)->out[k] == value && at(p, block, i)->coll == MT_ALL_REDUCE) {
                *place = k;
                return at(p, block, i);
            }
    return NULL;
}

/* x + AllReduce(part) becomes AllReduce(x + part). */
static inline bool residual_per_rank(struct mt_program *p) {
    int block, instr, place;
    struct mt_instr *i = draw_instr(p, MT_INSTR_OP, &block, &instr);
    if (!i || p->graph->ops[i->gop].kind != MT_OP_add || !strstr(p->graph->ops[i->gop].name, ".residual")) return false;
    const struct mt_instr *found = all_reduce_of(p, block, i->in[1], &place);
    if (!found) return false;
    struct mt_instr sum = *found;
    const struct mt_pvalue part = p->values[found->in[place]];
    int whole = i->out[0];
    int added = mt_program_value(p, p->values[whole].gvalue, part.layout, part.type, (enum mt_block_kind)block);
    p->values[added].covers = p->values[whole].covers;
    i->in[1] = found->in[place], i->out[0] = added;
    sum.nin = sum.nout = 1, sum.in = &added, sum.out = &whole;
    insert_instr(p, block, instr + 1, sum);
    return true;
}

static inline bool is_of_keys(const struct mt_program *p, int value) {
    const char *name = p->graph->values[p->values[value].gvalue].name;
    return strstr(name, ".k_") || strstr(name, ".v_") || strstr(name, "self_attn.kv") ||
           strstr(name, "self_attn/grad_q.kv");
}

static inline bool other_keys(struct mt_program *p) {
    int block, instr, members = 0, left = 0;
    struct mt_instr *i = draw_instr(p, MT_INSTR_COLLECTIVE, &block, &instr);
    bool keys = false;
    for (int k = 0; i && k < i->nin; k++) keys |= is_of_keys(p, i->in[k]);
    if (!keys) return false;
    int group = i->group[below(p->nranks)];
    for (int r = 0; r < p->nranks; r++) members += i->group[r] == group;
    for (int r = 0; r < p->nranks; r++)
        if (i->group[r] == group && left < members - 1 && below(2)) i->group[r] = p->nranks + 1, left++;
    renumber(i->group, p->nranks);
    return left > 0;
}

static inline bool damage_llama(struct mt_program *p, int i) {
    return i == 0 ? untrained_gain(p) : i == 1 ? residual_per_rank(p) : other_keys(p);
}

/* In most programs the branch of a residual is a sum of parts, by the rule of the last operator of heads or of ffn, and
 * the residual is added to it where it is whole. */
static inline void add_up_branches(const struct mt_graph *g, struct mt_choice *choice) {
    if (below(4) == 0) return;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        bool heads = strstr(op->name, "o_proj"), last = heads || strstr(op->name, "down_proj");
        struct mt_rule *rule = &choice->rules[o];
        if (op->role != MT_ROLE_FORWARD || !rule || rule->inner) continue;
        if (strstr(op->name, ".residual")) *rule = (struct mt_rule){.kind = MT_RULE_REPLICATE};
        for (int i = 0; i < op->nindices && last && !choice->mesh.nnodes; i++)
            if (!strcmp(g->labels[op->index_label[i]].name, heads ? "heads" : "ffn"))
                *rule =
                    (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = &choice->splits[op->index_label[i]]};
    }
}

static const char *const llama_class_names[] = {"an untrained gain", "a residual once per rank",
                                                "other keys or values"};
static const struct family llamas = {random_llama, 3, llama_class_names, damage_llama, add_up_branches};

#endif
