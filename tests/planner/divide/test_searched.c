/* The plan that the whole search finds for small Llamas, with nothing said of its form, agrees with one rank in fp64:
 * few samples on many ranks, so that something else than samples must be divided, like and unlike ranks, one and
 * several nodes, query heads that share heads of keys, and not. */
#include "tests/planner/divide/agree.h"

#define HEADS_OF_TWO "llama:layers=2,heads=6,kv_heads=2,embed=48,headsize=8,ffn=144,context=16,vocab=61,window=5"
#define HEADS_OF_ONE "llama:layers=2,heads=5,embed=40,ffn=104,context=13,vocab=47,qkv_bias=1,tied=1"
#define ONE_OF_KEYS "llama:layers=1,heads=7,kv_heads=1,embed=56,ffn=96,context=16,vocab=53,tied=1,rope_factor=8"

static const struct job {
    const char *cluster, *model;
    int64_t batch;
} jobs[] = {
    {"cpu:1x4", HEADS_OF_TWO, 1},
    {"cpu:1x4", HEADS_OF_ONE, 3},
    {"cpu:1x3", ONE_OF_KEYS, 2},
    {"cpu-4t:1x5", HEADS_OF_TWO, 1},
    {"cpu-4t:1x5", ONE_OF_KEYS, 3},
    {"cpu:2x3 net=100G", HEADS_OF_TWO, 1},
    {"cpu:2x3 net=100G", HEADS_OF_ONE, 2},
    {"cpu:2x3 net=100G", HEADS_OF_TWO, 7},
    {"cpu:1x3 + cpu-4t:1x2", HEADS_OF_ONE, 7},
    {"cpu-4t:1x2 net=100G + cpu:1x3", ONE_OF_KEYS, 3},
};
enum { NJOBS = sizeof jobs / sizeof *jobs };

static bool divides_samples_alone(const struct mt_planned *planned) {
    const struct mt_graph *g = planned->graph;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_rule *rule = &planned->choice.rules[o], *within = rule->inner ? &rule->inner[0] : rule;
        bool samples = false;
        for (int i = 0; i < g->ops[o].nindices; i++) samples |= g->ops[o].index_label[i] == g->batch;
        if (samples && within->kind == MT_RULE_SPLIT && within->split->label != g->batch) return false;
    }
    return true;
}

int main(int argc, char **argv) {
    int alone = 0, made = 0;
    for (int i = 0; i < NJOBS; i++) {
        if (argc > 1 && atoi(argv[1]) != i) continue;
#ifdef MOTLEY_SANITIZE
        if (argc < 2 && i % 3 != 2) continue; /* the search is slow under sanitizers */
#endif
        struct mt_job job = job_of(jobs[i].batch);
        struct reference ref;
        struct opened o;
        make_reference(jobs[i].model, &job, &ref);
        struct mt_plan *plan = classic_plan(jobs[i].cluster, jobs[i].model, &job, NULL);
        open_plan(plan, jobs[i].cluster, &o);
        bool samples = divides_samples_alone(&o.planned);
        double worst = agree_with(&ref, &o, jobs[i].cluster);
        printf("%-30s batch %d: %s  %s, %.2g of what is allowed\n", jobs[i].cluster, (int)jobs[i].batch, o.hash,
               samples ? "samples alone" : "other labels", worst);
        alone += samples, made++;
        mt_planned_release(&o.planned);
        mt_plan_free(plan);
        free_reference(&ref);
    }
    CHECK(argc > 1 || 2 * alone <= made, "%d of %d plans divide samples alone", alone, made);
    return 0;
}
