/* Every strategy's plan of small GPT-2s and Llamas agrees with one rank in fp64, in the form that its name says: as the
 * search finds it on unlike nodes, and with other shares (ragged, some of them zero), micro-batches, gathers,
 * reductions and recomputation: every strategy in each of these variants, in each setting in two of them, which take
 * turns. The plans are those of `motley plan --strategy`. */
#include <string.h>

#include "synth/ops/ops.h"
#include "tests/planner/divide/agree.h"

enum { BATCH = 12, MOST_RANKS = 4 };
/* On nodes of several ranks each, all strategies are different. */
static const struct setting {
    const char *cluster, *model;
} settings[] = {
    {"cpu:1x2 + cpu-4t:1x2", "gpt2:layers=2,heads=5,embed=20,context=7,vocab=37"},
    {"cpu:1x2 net=1G + cpu-4t:1", "gpt2:layers=3,heads=3,embed=24,context=5,vocab=41"},
    {"cpu:2x2 net=100M", "gpt2:layers=2,heads=4,embed=24,context=6,vocab=32,tied=0"},
    {"cpu:1x3", "gpt2:layers=4,heads=5,embed=20,context=6,vocab=29,bias=0"},
    /* heads of keys: fewer than ranks, so that each serves query heads of several; some of several query heads, and
     * as many as query heads */
    {"cpu:1x3", "llama:layers=3,heads=5,kv_heads=1,embed=20,headsize=4,ffn=120,context=6,vocab=29,tied=1,qkv_bias=1"},
    {"cpu:1x2 + cpu-4t:1x2",
     "llama:layers=2,heads=9,kv_heads=3,embed=24,headsize=2,ffn=160,context=7,vocab=37,window=3"},
    {"cpu:1x2 net=1G + cpu-4t:1", "llama:layers=3,heads=5,embed=20,ffn=120,context=5,vocab=41,rope_factor=4"},
};
enum { NSETTINGS = sizeof settings / sizeof *settings };

/* What operators and weights that the forms are told by are called. */
static const struct names {
    const char *class, *table, *up, *up_weight, *down, *attention, *qkv_weight;
    const char *heads[2]; /* labels of query heads */
} all_names[] = {
    {"gpt2",
     "wte",
     "h.0.mlp.c_fc",
     "h.0.mlp.c_fc.weight",
     "h.0.mlp.c_proj",
     "h.0.attn",
     "h.0.attn.c_attn.weight",
     {"heads", "heads"}},
    {"llama",
     "model.embed_tokens",
     "model.layers.0.mlp.up_proj",
     "model.layers.0.mlp.up_proj.weight",
     "model.layers.0.mlp.down_proj",
     "model.layers.0.self_attn",
     "model.layers.0.self_attn.q_proj.weight",
     {"heads", "queries"}},
};

/* Other decisions for the same rules. */
static const struct variant {
    int64_t count; /* of micro-batches; 0: another on each rank, where they exchange nothing in one */
    enum mt_gather gather;
    enum mt_reduced reduced;
    enum mt_sync sync;
    enum mt_recompute recompute;
    int64_t bucket_bytes;
} variants[] = {
    {1, MT_GATHER_STEP, MT_REDUCED_STEP, MT_SYNC_REDUCE_SCATTER, MT_RECOMPUTE_NONE, 0},
    {2, MT_GATHER_LAYER, MT_REDUCED_NODE, MT_SYNC_REDUCE_SCATTER, MT_RECOMPUTE_POINTWISE, 3000},
    {3, MT_GATHER_STEP, MT_REDUCED_MICRO_BATCH, MT_SYNC_ALL_REDUCE, MT_RECOMPUTE_SEGMENTS, 3000},
    {2, MT_GATHER_LAYER, MT_REDUCED_MICRO_BATCH, MT_SYNC_REDUCE_SCATTER, MT_RECOMPUTE_SEGMENTS, 0},
    {4, MT_GATHER_STEP, MT_REDUCED_NODE, MT_SYNC_REDUCE_SCATTER, MT_RECOMPUTE_NONE, 8000},
    {0, MT_GATHER_STEP, MT_REDUCED_STEP, MT_SYNC_REDUCE_SCATTER, MT_RECOMPUTE_NONE, 3000},
};
enum { NVARIANTS = sizeof variants / sizeof *variants };

/* ---- forms ---- */

/* How often each parameter that has a storage axis is stored, by the ranks of a node (-1: by all): the same for all of
 * them, else -1. */
static double copies_stored(const struct opened *o, int node) {
    const struct mt_program *p = &o->planned.program;
    double copies = -1;
    for (int v = 0; v < p->nvalues; v++) {
        int gvalue = p->values[v].gvalue;
        if (!p->values[v].input || !p->graph->values[gvalue].param || mt_sharding_axis(p->graph, gvalue) < 0) continue;
        int64_t sum = 0, whole = mt_value_count(p->graph, gvalue);
        for (int r = 0; r < p->nranks; r++)
            if (node < 0 || p->node[r] == node)
                sum += mt_box_count(mt_pvalue_box(p, v, r), p->graph->values[gvalue].naxes);
        double here = (double)sum / (double)whole;
        if (copies >= 0 && here != copies) return -1;
        copies = here;
    }
    return copies;
}

/* Operators on samples whose work within nodes, or among all ranks, is divided by a kind of label. */
static int divided_by(const struct opened *o, enum mt_label_kind kind) {
    const struct mt_graph *g = o->planned.graph;
    enum mt_label_kind *kinds = calloc((size_t)g->nlabels, sizeof *kinds);
    int n = 0;
    mt_label_kinds(g, kinds);
    for (int i = 0; i < g->nops; i++) {
        const struct mt_rule *rule = &o->planned.choice.rules[i], *within = rule->inner ? &rule->inner[0] : rule;
        bool samples = false;
        for (int k = 0; k < g->ops[i].nindices; k++) samples |= g->ops[i].index_label[k] == g->batch;
        n += samples && within->kind == MT_RULE_SPLIT && kinds[within->split->label] == kind;
    }
    free(kinds);
    return n;
}

/* Whether the work of an operator, within nodes or among all ranks, is divided by a label. */
static bool is_divided_by(const struct opened *o, const char *operator, const char * label) {
    const struct mt_graph *g = o->planned.graph;
    int op = 0;
    while (op < g->nops && strcmp(g->ops[op].name, operator)) op++;
    CHECK(op < g->nops, "no operator %s", operator);
    const struct mt_rule *rule = &o->planned.choice.rules[op], *within = rule->inner ? &rule->inner[0] : rule;
    return within->kind == MT_RULE_SPLIT && !strcmp(g->labels[within->split->label].name, label);
}

/* Whether ranks send anything. */
static bool is_message(const struct mt_program *p, const struct mt_instr *instr) {
    bool together = false;
    for (int r = 1; r < p->nranks && instr->kind == MT_INSTR_COLLECTIVE; r++)
        for (int q = 0; q < r; q++) together |= instr->group[q] == instr->group[r];
    return together;
}

/* How many weights (null: any) messages of a block gather. */
static int gathers_of(const struct opened *o, const char *weight, enum mt_block_kind block) {
    const struct mt_program *p = &o->planned.program;
    int n = 0;
    for (int i = 0; i < p->blocks[block].ninstrs; i++) {
        const struct mt_instr *instr = &p->blocks[block].instrs[i];
        if (!is_message(p, instr) || mt_coll_reduces(instr->coll)) continue;
        for (int k = 0; k < instr->nin; k++) {
            const struct mt_pvalue *from = &p->values[instr->in[k]];
            const struct mt_value *v = &p->graph->values[from->gvalue];
            n += from->input && v->param && (!weight || !strcmp(v->name, weight));
        }
    }
    return n;
}

static int gathers(const struct opened *o, enum mt_block_kind block) {
    return gathers_of(o, NULL, block);
}

static int reductions(const struct opened *o, enum mt_block_kind block) {
    const struct mt_program *p = &o->planned.program;
    int n = 0;
    for (int i = 0; i < p->blocks[block].ninstrs; i++) {
        const struct mt_instr *instr = &p->blocks[block].instrs[i];
        n += is_message(p, instr) && mt_coll_reduces(instr->coll);
    }
    return n;
}

static const struct names *names_of(const struct opened *o) {
    const struct names *n = all_names;
    while (strcmp(n->class, o->planned.model.class->name)) n++;
    return n;
}

/* "NAME/grad_w" */
static bool gradient_is_divided_by(const struct opened *o, const char *operator, const char * label) {
    char name[96];
    snprintf(name, sizeof name, "%s/grad_w", operator);
    return is_divided_by(o, name, label);
}

static void check_form(const struct mt_strategy *s, const struct opened *o) {
    const struct mt_program *p = &o->planned.program;
    const struct names *name = names_of(o);
    int nranks = p->nranks, nnodes = p->node ? 2 : 1;
    bool factors = s->factors != MT_FACTORS_NEVER;
    if (!s->widths && !factors) CHECK_EQ(divided_by(o, MT_LABEL_WIDTH), 0);
    if (!s->positions) CHECK_EQ(divided_by(o, MT_LABEL_POSITIONS), 0);
    if (!s->samples) CHECK_EQ(divided_by(o, MT_LABEL_SAMPLES), 0);
    switch ((enum mt_strategy_id)(s - mt_strategies)) {
    case MT_STRATEGY_DATA:
        CHECK_EQ(copies_stored(o, -1), nranks);
        CHECK_EQ(gathers(o, MT_PROLOGUE) + gathers(o, MT_LAST), 0);
        break;
    case MT_STRATEGY_ZERO1:
        CHECK_EQ(copies_stored(o, -1), 1);
        CHECK(gathers(o, MT_PROLOGUE) > 0 && !gathers(o, MT_LAST), "weights are gathered once");
        break;
    case MT_STRATEGY_FACTORS:
        CHECK(!gradient_is_divided_by(o, name->up, "batch") && is_divided_by(o, name->up, "batch"), "one sum");
        CHECK(!gradient_is_divided_by(o, name->table, "batch"), "the sum of the embedding's gradient");
        break;
    case MT_STRATEGY_ZERO3:
    case MT_STRATEGY_HYBRID:
        CHECK_EQ(copies_stored(o, -1), s->state == MT_STORE_NODE ? nnodes : 1);
        for (int k = 0; k < nnodes && s->state == MT_STORE_NODE && p->node; k++) CHECK_EQ(copies_stored(o, k), 1);
        CHECK(gathers(o, MT_PROLOGUE) <= 1, "more than wpe, whose rows are the same for all samples");
        CHECK_EQ(gathers_of(o, name->up_weight, MT_LAST), 2); /* forward and backward */
        break;
    case MT_STRATEGY_TENSOR:
        CHECK(is_divided_by(o, name->attention, name->heads[0]) || is_divided_by(o, name->attention, name->heads[1]),
              "ranks have whole heads");
        CHECK(is_divided_by(o, name->up, "ffn") && is_divided_by(o, name->down, "ffn"), "parts of ffn");
        for (int b = 0; b < MT_NBLOCKS; b++) {
            CHECK_EQ(gathers_of(o, name->qkv_weight, (enum mt_block_kind)b), 0);
            CHECK_EQ(gathers_of(o, name->up_weight, (enum mt_block_kind)b), 0);
        }
        break;
    case MT_STRATEGY_TENSOR_SEQUENCE: CHECK(divided_by(o, MT_LABEL_POSITIONS) > 0, "no positions"); break;
    case MT_STRATEGY_FLAT:
    case MT_STRATEGY_MESH:
    case MT_NSTRATEGIES: break;
    }
}

/* ---- other shares and decisions ---- */

/* Units of `align` among the members, the last of which may be ragged. */
static void redraw(int64_t extent, int64_t align, int n, int64_t *sizes) {
    memset(sizes, 0, (size_t)n * sizeof *sizes);
    for (int64_t at = 0; at < extent; at += align) sizes[below(n)] += extent - at < align ? extent - at : align;
}

/* Among the ranks of each host, or among the hosts. */
static void redraw_split(struct mt_plan *p, struct mt_plan_split *split, const int64_t *host_share, int64_t align) {
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts);
    int64_t extent = mt_plan_split_sum(p, split), sizes[MOST_RANKS], of_host[MOST_RANKS] = {0};
    for (int r = 0; r < p->nranks; r++) of_host[host[r]] += split->sizes[r];
    if (split->over == MT_OVER_ALL) redraw(extent, align, p->nranks, split->sizes);
    if (split->over == MT_OVER_HOST) {
        redraw(extent, align, nhosts, sizes);
        for (int r = 0; r < p->nranks; r++) split->sizes[r] = sizes[host[r]];
    }
    for (int h = 0; h < nhosts && split->over == MT_OVER_DEVICE; h++) {
        int n = 0, at = 0;
        for (int r = 0; r < p->nranks; r++) n += host[r] == h;
        int64_t share = of_host[h];
        for (int r = 0; r < p->nranks && host_share; r++)
            if (host[r] == h) share = host_share[r];
        redraw(share, align, n, sizes);
        for (int r = 0; r < p->nranks; r++)
            if (host[r] == h) split->sizes[r] = sizes[at++];
    }
    mt_arena_release(&arena);
}

static void apply_variant(struct mt_plan *p, const struct variant *v) {
    struct mt_plan_split *batch = NULL;
    bool in_step = v->count > 0;
    for (int s = 0; s < p->nsplits; s++)
        if (!strcmp(p->splits[s].name, "batch")) batch = &p->splits[s];
    redraw_split(p, batch, NULL, in_step ? v->count : 1);
    for (int s = 0; s < p->nsplits; s++) {
        struct mt_plan_split *split = &p->splits[s];
        if (split == batch) continue;
        redraw_split(p, split, !strcmp(split->label, "batch") ? batch->sizes : NULL, split->align);
    }
    for (int r = 0; r < p->nranks; r++)
        p->micro[r] = in_step ? batch->sizes[r] / v->count : batch->sizes[r] ? 1 + below(batch->sizes[r]) : 0;
    p->decisions.gather = v->gather;
    p->decisions.reduced = v->reduced;
    p->decisions.sync = v->sync;
    p->decisions.bucket_bytes = v->bucket_bytes;
    p->decisions.nalgorithms = 0;
    p->job.recompute = v->recompute;
    p->prediction = NULL;
}

static double try_variant(const struct reference *ref, const struct mt_plan *found, const struct mt_strategy *s,
                          int which) {
    const struct variant *v = &variants[which];
    struct mt_plan *p;
    struct opened o;
    char what[64];
    snprintf(what, sizeof what, "%s, variant %d", s->name, which);
    bool exchanges = s->widths || s->positions || s->factors != MT_FACTORS_NEVER || s->among == MT_AMONG_NODES;
    if (!v->count && exchanges) return 0;
    CHECK_OK(mt_plan_copy(found, &p, &err), err);
    apply_variant(p, v);
    mt_plan_edited(p, &err);
    CHECK(!err.status, "%s: %s", what, err.text);
    open_plan(p, what, &o);
    double worst = agree_with(ref, &o, what);
    bool sharded = s->state == MT_STORE_ALL || s->state == MT_STORE_NODE;
    if (sharded && v->gather == MT_GATHER_LAYER && v->count > 1)
        CHECK(gathers(&o, MT_BODY) > 0 && gathers(&o, MT_PROLOGUE) <= 1, "%s: weights are gathered for layers", what);
    if (!s->widths && v->count > 1 && v->reduced == MT_REDUCED_MICRO_BATCH)
        CHECK(reductions(&o, MT_BODY) > 0, "%s: sums are reduced after each micro-batch", what);
    if (!s->widths && v->reduced == MT_REDUCED_STEP) CHECK_EQ(reductions(&o, MT_BODY), 0);
    mt_planned_release(&o.planned);
    mt_plan_free(p);
    return worst;
}

static void test_setting(const struct setting *s, int number) {
    char hashes[MT_NSTRATEGIES][33];
    struct mt_job job = job_of(BATCH);
    struct reference ref;
    make_reference(s->model, &job, &ref);
    for (int i = 0; i < MT_NSTRATEGIES; i++) {
        const struct mt_strategy *strategy = &mt_strategies[i];
        struct mt_plan *plan = classic_plan(s->cluster, s->model, &job, strategy);
        struct opened o;
        open_plan(plan, strategy->name, &o);
        check_form(strategy, &o);
        strcpy(hashes[i], o.hash);
        bool nodes = o.planned.program.node != NULL;
        for (int k = 0; k < i; k++) {
            /* without nodes they are one; and the best of a strategy that holds others may be one of theirs */
            bool same = !nodes && k == MT_STRATEGY_ZERO3 && i == MT_STRATEGY_HYBRID;
            if (mt_strategy_has_samples_alone(&mt_strategies[k]) || mt_strategy_has_samples_alone(strategy)) continue;
            CHECK(!strcmp(hashes[k], hashes[i]) == same, "%s: %s and %s", s->cluster, mt_strategies[k].name,
                  strategy->name);
        }
        double worst = agree_with(&ref, &o, strategy->name);
        mt_planned_release(&o.planned);
        for (int v = 0; v < 2; v++)
            worst = fmax(worst, try_variant(&ref, plan, strategy, (2 * number + i + v) % NVARIANTS));
        printf("%-26s %-16s %s  %.2g of what is allowed\n", s->cluster, strategy->name, hashes[i], worst);
        mt_plan_free(plan);
    }
    free_reference(&ref);
}

/* A setting by its number, or all; under sanitizers, which make them slow, one of each model. */
int main(int argc, char **argv) {
    printf("seed %d\n", SEED);
    for (int i = 0; i < NSETTINGS; i++) {
        bool chosen = argc < 2 || atoi(argv[1]) == i;
#ifdef MOTLEY_SANITIZE
        chosen = chosen && (argc > 1 || i == 0 || i == 4);
#endif
        if (chosen) test_setting(&settings[i], i);
    }
    return 0;
}
