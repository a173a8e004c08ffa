/* What is extrapolated from programs with few layers is what the programs with all of them take and hold: every
 * strategy on described clusters, with and without recomputation, against the same strategy searched with all layers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/planner/divide/problem.h"

static const struct setting {
    const char *cluster, *with, *without; /* the model, without its layers */
    enum mt_recompute recompute;
} settings[] = {
    {"h100:1x4", "gpt2:layers=", ",heads=16,embed=1024,context=256,vocab=4096", MT_RECOMPUTE_NONE},
    {"h100:2x2 net=100G", "gpt2:layers=", ",heads=12,embed=768,context=512,vocab=4096", MT_RECOMPUTE_POINTWISE},
    {"a100-80:2x2 net=400G", "llama:layers=", ",heads=8,kv_heads=2,embed=1024,ffn=4096,context=256,vocab=4096",
     MT_RECOMPUTE_NONE},
};
enum { LAYERS = 16, FEW = 3, SOME = 4, BATCH = 32 };

static struct mt_graph *graph_of(const struct setting *s, const struct mt_job *job, int layers, char text[200]) {
    struct mt_model model;
    struct mt_graph *graph;
    snprintf(text, 200, "%s%d%s", s->with, layers, s->without);
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_training_graph(&model, job, &graph, &err), err);
    return graph;
}

struct compared {
    int all, near; /* near: the step within 7% and the memory within 12% */
};

/* The judged figures with few layers beside those with all: of one strategy, found in as many micro-batches. The rules
 * may differ, as other shares are found with all layers. */
static void compare(const struct setting *s, const struct mt_divide_found *found, struct compared *compared) {
    const struct mt_divided *all = NULL, *few = NULL;
    for (int i = 0; i < found->ncandidates && !all; i++)
        if (found->candidates[i]->judged) all = found->candidates[i];
    for (int i = 0; i < found->few->ncandidates; i++)
        if (found->few->candidates[i]->judged && (!few || found->few->candidates[i]->fits))
            few = found->few->candidates[i];
    if (!all || !few || all->count != few->count) return;
    const struct mt_rank_prediction *a = &all->prediction.ranks[0], *b = &few->prediction.ranks[0];
    printf("%-22s %-16s %8.4f s, %8.4f s; %5.0f MiB, %5.0f MiB\n", s->cluster, all->strategy->name,
           few->prediction.step_s, all->prediction.step_s, (double)b->arena_bytes / 0x1p20,
           (double)a->arena_bytes / 0x1p20);
    CHECK(few->few_layers && !all->few_layers, "which is which");
    compared->all++;
    compared->near += fabs(few->prediction.step_s / all->prediction.step_s - 1) < 0.07 &&
                      fabs((double)b->arena_bytes / (double)a->arena_bytes - 1) < 0.12;
}

int main(void) {
    struct compared compared = {0};
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        const struct setting *s = &settings[k];
        struct problem p;
        char text[200];
        snprintf(text, sizeof text, "%s%d%s", s->with, LAYERS, s->without);
        begin(&p, s->cluster, text, BATCH, MT_BF16, 0);
        p.job.recompute = s->recompute;
        struct mt_graph *all = graph_of(s, &p.job, LAYERS, text), *few = graph_of(s, &p.job, FEW, text),
                        *some = graph_of(s, &p.job, SOME, text);
        const struct mt_divide_layers layers = {LAYERS, FEW, SOME, few, some};
        p.plan->job.recompute = s->recompute;
        p.divide.graph = all;
        p.divide.layers = &layers;
        for (int i = 0; i < MT_NSTRATEGIES; i++) {
            struct mt_divide_found found;
            p.divide.only = &mt_strategies[i];
            enum mt_status st = mt_divide_search(&p.divide, &found, &err);
            if (st == MT_EMISSING) {
                printf("skipped: %s\n", err.text);
                return 77;
            }
            if (!st) compare(s, &found, &compared);
            CHECK(!st || st == MT_EINPUT, "%s: %s", mt_strategies[i].name, err.text);
            mt_divide_release(&found);
        }
        mt_graph_free(all), mt_graph_free(few), mt_graph_free(some);
        end(&p);
    }
    CHECK(compared.all >= 20, "only %d strategies were compared", compared.all);
    CHECK(10 * compared.near >= 8 * compared.all, "of %d only %d are near", compared.all, compared.near);
    return 0;
}
