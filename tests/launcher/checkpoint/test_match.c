/* Weights and the model that they are for. A tensor that is missing, of another shape, or too many is refused by name;
 * the constants of old checkpoints are not. */
#include <unistd.h>

#include "kernels/base/number/rng.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/checkpoint/internal.h"
#include "synth/models/model.h"
#include "tests/check.h"

enum { SEED = 20261124, MOST = 128 };

static char folder[] = "motley-match-XXXXXX";
static struct mt_arena arena;

static struct mt_graph *graph_of(const char *text) {
    struct mt_model model;
    struct mt_graph *graph;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, MT_F32, 2, 0, 0, &graph, &err), err);
    return graph;
}

/* A tensor's numbers follow from its name, or from that of the tensor that it is a copy of. */
struct extra {
    const char *name, *repeats;
    int ndims;
    int64_t dims[4];
};

static void append(struct mt_safetensors_writer *w, const char *name, int64_t count, bool one_other) {
    struct mt_err err = MT_ERR_INIT;
    for (int64_t i = 0; i < count; i++) {
        float x = (float)mt_random_uniform(SEED, (uint64_t)strlen(name), (uint64_t)i);
        if (one_other && i == count - 1) x += 1;
        CHECK_OK(mt_safetensors_append(w, &x, sizeof x, &err), err);
    }
}

/* The file has the graph's parameters, except `without`, and others besides. */
static struct mt_safetensors *file_of(const struct mt_graph *graph, const char *without, const struct extra *extra,
                                      bool one_other, bool of_motley) {
    static const struct mt_saved_note note = {"motley.version", "1"};
    struct mt_saved tensors[MOST];
    struct mt_safetensors_writer *w;
    struct mt_safetensors *file;
    struct mt_err err = MT_ERR_INIT;
    int n = 0;
    const char *path = mt_arena_printf(&arena, "%s/model.safetensors", folder);
    for (int v = 0; v < graph->nvalues; v++)
        if (graph->values[v].param && (!without || strcmp(graph->values[v].name, without) != 0)) {
            CHECK(n < MOST - 1);
            tensors[n++] = mt_saved_of(graph, v);
        }
    if (extra) {
        tensors[n] = (struct mt_saved){.name = extra->name, .type = MT_F32, .ndims = extra->ndims, .count = 1};
        for (int d = 0; d < extra->ndims; d++) tensors[n].count *= tensors[n].dims[d] = extra->dims[d];
        n++;
    }
    CHECK_OK(mt_safetensors_create(path, tensors, n, &note, of_motley, &w, &err), err);
    for (int t = 0; t < n; t++) {
        bool last = extra && t == n - 1;
        append(w, last && extra->repeats ? extra->repeats : tensors[t].name, tensors[t].count, last && one_other);
    }
    CHECK_OK(mt_safetensors_commit(w, NULL, &err), err);
    CHECK_OK(mt_safetensors_open(path, &file, &err), err);
    return file;
}

static const char llama[] = "llama:layers=2,heads=2,kv_heads=1,embed=8,ffn=12,context=4,vocab=16";
static const char gpt2[] = "gpt2:layers=2,heads=2,embed=8,context=4,vocab=16";

static void test_fits(void) {
    static const struct {
        const char *model;
        struct extra extra;
    } cases[] = {
        {gpt2, {"h.1.attn.bias", NULL, 4, {1, 1, 4, 4}}},
        {gpt2, {"transformer.h.1.attn.masked_bias", NULL, 0, {0}}},
        {gpt2, {"lm_head.weight", "wte.weight", 2, {16, 8}}},
        {llama, {"model.layers.1.self_attn.rotary_emb.inv_freq", NULL, 1, {2}}},
        {"llama:layers=2,heads=2,embed=8,ffn=12,context=4,vocab=16,tied=1",
         {"lm_head.weight", "model.embed_tokens.weight", 2, {16, 8}}},
    };
    struct mt_err err = MT_ERR_INIT;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        struct mt_graph *graph = graph_of(cases[i].model);
        struct mt_safetensors *file = file_of(graph, NULL, NULL, false, false);
        CHECK_OK(mt_checkpoint_check(graph, file, MT_LOAD_PARAMS, &err), err);
        mt_safetensors_close(file);
        file = file_of(graph, NULL, &cases[i].extra, false, false);
        CHECK_OK(mt_checkpoint_check(graph, file, MT_LOAD_PARAMS, &err), err);
        mt_safetensors_close(file);
        mt_graph_free(graph);
    }
}

static void refused(const char *model, const char *without, const struct extra *extra, bool one_other, bool of_motley,
                    const char *text, const char *hint) {
    struct mt_graph *graph = graph_of(model);
    struct mt_safetensors *file = file_of(graph, without, extra, one_other, of_motley);
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_checkpoint_check(graph, file, MT_LOAD_PARAMS, &err), MT_EINPUT);
    CHECK(strstr(err.text, text), "%s, not %s", err.text, text);
    CHECK(strstr(err.hint, hint), "%s, not %s", err.hint, hint);
    mt_safetensors_close(file);
    mt_graph_free(graph);
}

static void test_refused(void) {
    static const struct extra extras[] = {
        {"model.layers.1.self_attn.q_proj.bias", NULL, 1, {8}}, /* of Qwen2 */
        {"model.layers.1.self_attn.q_norm.weight", NULL, 1, {4}},
        {"model.layers.2.input_layernorm.weight", NULL, 1, {8}},
        {"h.1.attn.bias", NULL, 1, {8}}, /* is no mask */
        {"adamw.m.wte.weight", NULL, 2, {16, 8}},
    };
    for (int i = 0; i < (int)(sizeof extras / sizeof *extras); i++)
        refused(i < 3 ? llama : gpt2, NULL, &extras[i], false, false,
                mt_arena_printf(&arena, "model.safetensors: tensor %s is no weight of the model", extras[i].name),
                "plan with --model of the folder");
    /* The last one is not refused in a checkpoint of Motley, of which it is optimizer state. */
    struct mt_graph *graph = graph_of(gpt2);
    struct mt_safetensors *file = file_of(graph, NULL, &extras[4], false, true);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_checkpoint_check(graph, file, MT_LOAD_PARAMS, &err), err);
    mt_safetensors_close(file);
    mt_graph_free(graph);

    static const struct extra head = {"lm_head.weight", "wte.weight", 2, {16, 8}};
    static const struct extra short_head = {"lm_head.weight", "wte.weight", 2, {15, 8}};
    refused(gpt2, NULL, &head, true, false, "tensor lm_head.weight is not wte.weight, but", "tied=0");
    refused(gpt2, NULL, &short_head, false, false, "tensor lm_head.weight is not wte.weight, but", "tied=0");
    refused(llama, "lm_head.weight", NULL, false, false, "has no tensor lm_head.weight", "another model");
    static const struct extra flat = {"model.norm.weight", NULL, 2, {1, 8}};
    refused(llama, "model.norm.weight", &flat, false, false, "tensor model.norm.weight is 1 x 8, but the model has 8",
            "another model");
}

int main(void) {
    CHECK(mkdtemp(folder));
    test_fits();
    test_refused();
    CHECK(!unlink(mt_arena_printf(&arena, "%s/model.safetensors", folder)) && !rmdir(folder));
    mt_arena_release(&arena);
    return 0;
}
