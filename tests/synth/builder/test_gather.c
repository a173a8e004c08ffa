/* Memory of programs that gather weights for each layer and reduce gradients after each micro-batch, from the lifetimes
 * of their lowered programs: gathered weights take two buckets, accumulators the shares that are stored. */
#include "synth/check/check.h"
#include "synth/lower/lower.h"
#include "tests/synth/random_program.h"

enum { RANKS = 4, LAYERS = 6, EMBED = 16, LAYER_BYTES = 12 * EMBED * EMBED * 8 };

/* Even shares of everything; optimizer state in shares; `micro` samples at once. What has no samples (the embedding of
 * positions) is computed by all. */
static void sharded(struct mt_arena *arena, const struct mt_graph *g, int64_t micro, struct mt_choice *c) {
    random_choice(arena, g, RANKS, false, c);
    c->decisions.sync = MT_SYNC_REDUCE_SCATTER;
    c->decisions.bucket_bytes = LAYER_BYTES;
    for (int s = 0; s < c->nsplits; s++) {
        struct mt_split *split = (struct mt_split *)(uintptr_t)&c->splits[s];
        for (int r = 0; r < RANKS; r++) {
            split->sizes[r] = g->labels[split->label].extent / RANKS;
            split->starts[r + 1] = split->starts[r] + split->sizes[r];
        }
        split->sizes[0] += split->starts[0] + g->labels[split->label].extent - split->starts[RANKS];
        for (int r = 0; r < RANKS; r++) split->starts[r + 1] = split->starts[r] + split->sizes[r];
    }
    for (int r = 0; r < RANKS; r++) c->micro[r] = micro;
    for (int o = 0; o < g->nops; o++) {
        struct mt_rule rules[MOST_RULES];
        int n = all_rules(&g->ops[o], c->splits, c->nsplits, rules);
        unsigned sets[MT_MAX_IN];
        bool samples = c->rules[o].kind == MT_RULE_SPLIT && c->rules[o].split->label == g->batch;
        if (g->ops[o].role == MT_ROLE_FORWARD && !samples) c->rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
        bool sum = g->ops[o].role == MT_ROLE_BACKWARD && mt_op_linear_sets(&g->ops[o], sets) > 0;
        for (int i = 0; i < g->ops[o].nindices; i++) sum &= g->ops[o].index_label[i] != g->batch;
        for (int r = n - 1; r > 0; r--) {
            if (g->ops[o].role == MT_ROLE_UPDATE && rules[r].kind == MT_RULE_SPLIT) c->rules[o] = rules[r];
            if (sum && rules[r].kind == MT_RULE_LINEAR) c->rules[o] = rules[r];
        }
    }
}

static bool is_gather(const struct mt_linstr *c, const struct mt_graph *g, const struct mt_program *p) {
    return c->what == MT_LOWERED_COLLECTIVE && c->problem.kind == MT_ALL_GATHER &&
           g->values[p->values[c->in[0]].gvalue].kind == MT_VALUE_STATE;
}

/* The most bytes of gathered weights that are live at once, in the order of the instructions; and all of them. */
static int64_t gathered_bytes(const struct mt_lowered *low, int64_t *all_bytes) {
    const struct mt_program *p = low->program;
    int64_t *change = calloc((size_t)low->ninstrs + 1, sizeof *change), live = 0, most = 0;
    *all_bytes = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        for (int o = 0; o < c->nout && is_gather(c, p->graph, p); o++) {
            int last = i;
            for (int j = i; j < low->ninstrs; j++)
                for (int k = 0; k < low->instrs[j].nin; k++)
                    if (low->instrs[j].in[k] == c->out[o]) last = j;
            CHECK(last > i, "%s is used", c->name);
            change[i] += low->values[c->out[o]].size_bytes;
            change[last + 1] -= low->values[c->out[o]].size_bytes;
            *all_bytes += low->values[c->out[o]].size_bytes;
        }
    }
    for (int i = 0; i < low->ninstrs; i++) {
        live += change[i];
        if (live > most) most = live;
    }
    free(change);
    return most;
}

static int find_value(const struct mt_graph *g, const char *name) {
    int v = 0;
    while (strcmp(g->values[v].name, name)) v++;
    return v;
}

static int64_t accumulator_bytes(const struct mt_lowered *low) {
    int64_t bytes = 0;
    for (int i = low->block_begin[MT_PROLOGUE]; i < low->block_begin[MT_PROLOGUE + 1]; i++)
        if (low->instrs[i].what == MT_LOWERED_OP && low->instrs[i].kind == MT_OP_fill)
            bytes += low->values[low->instrs[i].out[0]].size_bytes;
    return bytes;
}

/* Bytes of the parameters that a rank stores. */
static int64_t parameter_shares(const struct mt_program *p, int rank) {
    int64_t bytes = 0;
    for (int k = 0; k < p->nvalues; k++) {
        const struct mt_value *v = &p->graph->values[p->values[k].gvalue];
        if (p->values[k].input && v->param) bytes += 8 * mt_box_count(mt_pvalue_box(p, k, rank), v->naxes);
    }
    return bytes;
}

static struct mt_lowered *lowered(const struct mt_program *p, int rank) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_lowered *low;
    struct mt_lower_options options = {.fuse = true, .latency_s = 1e-5, .bandwidth_Bps = 1e9};
    CHECK_OK(mt_lower(p, rank, &options, &low, &err), err);
    return low;
}

/* Two micro-batches. */
static void test_memory(const struct mt_graph *g) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_program p;
    int64_t parameters = 0, largest = 0, arena_bytes[2][2], all, most;
    for (int v = 0; v < g->nvalues; v++) {
        int64_t bytes = g->values[v].param ? 8 * mt_value_count(g, v) : 0;
        parameters += bytes;
        if (bytes > largest) largest = bytes;
    }
    sharded(&arena, g, 1, &choice);
    for (int layer = 0; layer < 2; layer++)
        for (int each = 0; each < 2; each++) {
            choice.decisions.gather = layer ? MT_GATHER_LAYER : MT_GATHER_STEP;
            choice.decisions.reduced = each ? MT_REDUCED_MICRO_BATCH : MT_REDUCED_STEP;
            CHECK_OK(mt_build(g, &choice, &p, &err), err);
            CHECK_OK(mt_check_program(&p, NULL, &err), err);
            struct mt_lowered *low = lowered(&p, 1);
            arena_bytes[layer][each] = low->arena_bytes;
            most = gathered_bytes(low, &all);
            printf("gather %s, reduce %s: arena %lld, gathered %lld of %lld bytes, accumulators %lld\n",
                   mt_gather_names[choice.decisions.gather], mt_reduced_names[choice.decisions.reduced],
                   (long long)low->arena_bytes, (long long)most, (long long)all, (long long)accumulator_bytes(low));
            if (layer) {
                CHECK_EQ(most, 2 * (LAYER_BYTES + 13 * EMBED * 8)); /* two buckets, with norms and biases */
                CHECK(all > 3 * parameters, "forward and, but for the last layers and biases, backward, twice");
            } else {
                CHECK_EQ(most, parameters - 8 * mt_value_count(g, find_value(g, "wpe.weight"))); /* used at once */
                CHECK_EQ(all, parameters);
            }
            /* the head's and the embedding's of one weight are accumulated apart, and joined where each is reduced */
            int64_t shares = parameter_shares(&p, 1);
            int64_t reports = 16, tied = 8 * mt_value_count(g, find_value(g, "wte.weight"));
            CHECK_EQ(accumulator_bytes(low), (each ? shares : parameters + tied) + reports);
            mt_lowered_free(low);
            mt_program_release(&p);
        }
    /* What is not gathered at once, and not accumulated whole, is not in the arena. */
    int64_t message = LAYER_BYTES + largest;
    CHECK(arena_bytes[0][0] - arena_bytes[1][0] >= parameters - 2 * message - message, "weights");
    CHECK(arena_bytes[1][0] - arena_bytes[1][1] >= parameters * 3 / 4 - 2 * message, "accumulators");
    mt_arena_release(&arena);
}

/* One micro-batch: gradients are reduced when they are complete, whatever `reduce` says. */
static void test_one_micro_batch(const struct mt_graph *g) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    char hash[MT_NREDUCED][33];
    sharded(&arena, g, 2, &choice);
    for (int how = 0; how < MT_NREDUCED; how++) {
        struct mt_program p;
        choice.decisions.reduced = (enum mt_reduced)how;
        CHECK_OK(mt_build(g, &choice, &p, &err), err);
        mt_program_hash(&p, hash[how]);
        CHECK(!strcmp(hash[how], hash[0]), "%s", mt_reduced_names[how]);
        mt_program_release(&p);
    }
    mt_arena_release(&arena);
}

/* The order: each layer's gather stands before the first operator that uses a weight of the layer before. */
static void test_prefetch(const struct mt_graph *g) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_program p;
    sharded(&arena, g, 2, &choice);
    choice.decisions.gather = MT_GATHER_LAYER;
    CHECK_OK(mt_build(g, &choice, &p, &err), err);
    CHECK_EQ(p.blocks[MT_BODY].ninstrs, 0);
    const struct mt_block *last = &p.blocks[MT_LAST];
    int before = -1, ngathers = 0;
    for (int i = 0; i < last->ninstrs; i++) {
        const struct mt_instr *gather = &last->instrs[i];
        if (gather->kind != MT_INSTR_COLLECTIVE || gather->coll != MT_ALL_GATHER) continue;
        int use = last->ninstrs;
        for (int j = i; j < use; j++)
            for (int k = 0; k < last->instrs[j].nin; k++)
                for (int o = 0; o < gather->nout && j < use; o++)
                    if (last->instrs[j].in[k] == gather->out[o]) use = j;
        CHECK(use < last->ninstrs, "it is used");
        if (ngathers >= 2) CHECK_EQ(last->instrs[i + 1].kind, MT_INSTR_OP);
        CHECK(before < 0 || before > i, "gather %d at %d, but the layer before begins at %d", ngathers, i, before);
        if (ngathers >= 2 && ngathers < LAYERS) CHECK_EQ(before, i + 1);
        before = use;
        ngathers++;
    }
    CHECK(ngathers >= 2 * LAYERS - 2, "%d gathers", ngathers);
    mt_program_release(&p);
    mt_arena_release(&arena);
}

/* ---- two nodes of two ranks ---- */

static int count_of(const struct mt_program *p, enum mt_block_kind block, enum mt_coll_kind kind, const int *group) {
    int n = 0;
    for (int i = 0; i < p->blocks[block].ninstrs; i++) {
        const struct mt_instr *instr = &p->blocks[block].instrs[i];
        bool scalar = instr->kind != MT_INSTR_COLLECTIVE || !p->graph->values[p->values[instr->in[0]].gvalue].naxes;
        n += !scalar && instr->coll == kind && !memcmp(instr->group, group, RANKS * sizeof *group);
    }
    return n;
}

static int exchanges(const struct mt_program *p) {
    int n = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            n += instr->kind == MT_INSTR_COLLECTIVE && instr->coll == MT_ALL_TO_ALL;
        }
    return n;
}

/* Shares within nodes, the same on each: gradients are scattered within nodes and reduced over them, where "node" says
 * so only once; weights are gathered within nodes. */
static void test_nodes(const struct mt_graph *g) {
    static const int node[RANKS] = {0, 0, 1, 1}, within[RANKS] = {0, 0, 1, 1}, over[RANKS] = {0, 1, 0, 1};
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    sharded(&arena, g, 1, &choice);
    choice.mesh = (struct mt_mesh){RANKS, 2, node};
    for (int s = 0; s < choice.nsplits; s++) {
        struct mt_split *split = (struct mt_split *)(uintptr_t)&choice.splits[s];
        if (split->label == g->batch) continue;
        split->axis = MT_AXIS_DEVICE;
        for (int r = 0; r < RANKS; r++) {
            int64_t extent = g->labels[split->label].extent;
            split->sizes[r] = r % 2 ? extent - extent / 2 : extent / 2;
            split->starts[r] = r % 2 ? extent / 2 : 0;
        }
    }
    for (int how = 0; how < MT_NREDUCED; how++) {
        struct mt_program p;
        choice.decisions.gather = MT_GATHER_LAYER;
        choice.decisions.reduced = (enum mt_reduced)how;
        CHECK_OK(mt_build(g, &choice, &p, &err), err);
        CHECK_OK(mt_check_program(&p, NULL, &err), err);
        bool step = how == MT_REDUCED_STEP, each = how == MT_REDUCED_MICRO_BATCH;
        CHECK_EQ(exchanges(&p), 0);
        CHECK((count_of(&p, MT_BODY, MT_REDUCE_SCATTER, within) == 0) == step, "within nodes each time");
        CHECK((count_of(&p, MT_BODY, MT_ALL_REDUCE, over) == 0) != each, "over nodes each time");
        CHECK(count_of(&p, MT_LAST, MT_REDUCE_SCATTER, within) > 0, "within nodes");
        CHECK(count_of(&p, MT_LAST, MT_ALL_REDUCE, over) + count_of(&p, MT_EPILOGUE, MT_ALL_REDUCE, over) > 0, "over");
        CHECK(count_of(&p, MT_BODY, MT_ALL_GATHER, within) > LAYERS, "gathered within nodes");
        struct mt_lowered *low = lowered(&p, 1);
        int64_t whole = 16, shares = 16 + parameter_shares(&p, 1); /* loss and count */
        for (int v = 0; v < g->nvalues; v++)
            if (g->values[v].param) whole += 8 * mt_value_count(g, v);
        whole += 8 * mt_value_count(g, find_value(g, "wte.weight"));
        CHECK_EQ(accumulator_bytes(low), step ? whole : shares);
        mt_lowered_free(low);
        mt_program_release(&p);
    }
    mt_arena_release(&arena);
}

int main(void) {
    setbuf(stdout, NULL);
    printf("seed %d\n", SEED);
    struct mt_graph *g =
        training_graph("gpt2:layers=6,heads=4,embed=16,context=4,vocab=64,bias=1,tied=1", 2 * RANKS, 0);
    test_memory(g);
    test_one_micro_batch(g);
    test_prefetch(g);
    test_nodes(g);
    mt_graph_free(g);
    return 0;
}
