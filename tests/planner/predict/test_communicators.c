/* NCCL's communicators as a program needs them: their number on each rank is that of the groups in the lists of calls
 * that the ranks make (kernels/coll/nccl_nodes.h); their memory counts with the arena's against the device's. */
#include <math.h>
#include <string.h>

#include "kernels/coll/nccl_nodes.h"
#include "planner/plan/planned.h"
#include "planner/predict/communicators.h"
#include "synth/program/message.h"
#include "tests/planner/divide/classics.h"

static struct mt_err err = MT_ERR_INIT;
static const char *const model = "gpt2:layers=2,heads=8,embed=256,context=128,vocab=512";
enum { MOST_RANKS = 16, MOST_GROUPS = 256 };

static struct mt_job the_job(void) {
    struct mt_job job;
    mt_job_default(&job);
    job.batch = 32;
    job.recompute = MT_RECOMPUTE_NONE;
    return job;
}

static const struct mt_strategy *strategy_named(const char *name) {
    for (int i = 0; i < MT_NSTRATEGIES; i++)
        if (!strcmp(mt_strategies[i].name, name)) return &mt_strategies[i];
    CHECK(false, "%s", name);
    return NULL;
}

/* Sets of ranks, in order. */
struct sets {
    int n;
    uint32_t members[MOST_GROUPS];
};

static void add(struct sets *s, uint32_t members) {
    for (int i = 0; i < s->n; i++)
        if (s->members[i] == members) return;
    CHECK(s->n < MOST_GROUPS);
    s->members[s->n++] = members;
}

/* All that rank `r` joins, by the calls that it makes. */
static void list_joined(const struct mt_program *p, int r, struct sets *s) {
    add(s, (1u << p->nranks) - 1);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            struct mt_arena arena = MT_ARENA_INIT;
            struct mt_message m;
            if (instr->kind != MT_INSTR_COLLECTIVE || instr->coll == MT_ALL_TO_ALL) continue;
            CHECK_OK(mt_message_make(p, instr, r, NULL, &arena, &m, &err), err);
            uint32_t whole = 0;
            for (int k = 0; k < m.problem.n; k++) whole |= 1u << m.group[k];
            const struct mt_coll_algorithm *algorithm = mt_coll_find(instr->coll, instr->algorithm);
            if (algorithm && algorithm->by_node && mt_nccl_by_node(&m.problem)) {
                struct mt_nccl_list list;
                mt_nccl_list(&m.problem, &list);
                for (int g = 0; g < list.ngroups; g++) {
                    uint32_t part = 0;
                    for (int k = 0; k < list.groups[g].n; k++) part |= 1u << m.group[list.groups[g].places[k]];
                    if (part >> r & 1 && list.groups[g].n > 1) add(s, part);
                }
                mt_nccl_list_release(&list);
            } else if (m.problem.n > 1) {
                add(s, whole);
            }
            mt_arena_release(&arena);
        }
}

/* A strategy's program on a described cluster. Returns whether some rank has several communicators. */
static bool test_counts(const char *text, const char *strategy) {
    struct mt_job job = the_job();
    struct mt_plan *plan = classic_plan(text, model, &job, strategy_named(strategy));
    struct mt_cluster *cluster;
    struct mt_planned planned;
    struct mt_communicators of[MOST_RANKS];
    int device[MOST_RANKS], most = 0;
    CHECK_OK(mt_cluster_describe(text, NULL, &cluster, &err), err);
    CHECK_OK(mt_planned_open(plan, &planned, &err), err);
    for (int i = 0; i < plan->nplaces; i++) device[i] = plan->order[i];
    struct mt_costs costs = {.cluster = cluster, .nranks = plan->nplaces, .device = device};
    mt_communicators_of(&planned.program, &costs, of);
    for (int i = 0; i < plan->nplaces; i++) {
        struct sets joined = {0};
        list_joined(&planned.program, i, &joined);
        CHECK(of[i].count == joined.n, "%s, %s, rank %d: %d communicators, not %d", text, strategy, i, of[i].count,
              joined.n);
        CHECK_EQ(plan->memory[device[i]].communicator_bytes, of[i].bytes);
        CHECK(of[i].bytes >= joined.n * (INT64_C(40) << 20), "of at least two channels");
        if (joined.n > most) most = joined.n;
    }
    printf("%-34s %-8s %d communicators, %.0f MB\n", text, strategy, of[0].count, (double)of[0].bytes * 1e-6);
    mt_planned_release(&planned);
    mt_cluster_free(cluster);
    mt_plan_free(plan);
    return most > 1;
}

/* Published: 544 MB in a pair and 688 MB in more than two of A100s joined by NVLink. Those that were there when memory
 * was measured are in it already; CPUs have none. */
static void test_bytes(void) {
    static const struct {
        const char *cluster;
        int64_t bytes;
    } cases[] = {{"a100-80:1x2 nvlink=300G", 544000000}, {"a100-80:1x4 nvlink=300G", 688000000}, {"cpu:1x4", 0}};
    for (int measured = 0; measured < 2; measured++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct mt_cluster *cluster;
            struct mt_job job = the_job();
            struct mt_plan *plan = classic_plan(cases[i].cluster, model, &job, strategy_named("data"));
            struct mt_planned planned;
            struct mt_communicators of[MOST_RANKS];
            int device[MOST_RANKS];
            CHECK_OK(mt_cluster_describe(cases[i].cluster, NULL, &cluster, &err), err);
            CHECK_OK(mt_planned_open(plan, &planned, &err), err);
            for (int r = 0; r < plan->nplaces; r++) {
                device[r] = r;
                if (measured) cluster->devices[r].gpu = mt_new(&cluster->arena, struct mt_cluster_gpu, 1);
            }
            struct mt_costs costs = {.cluster = cluster, .nranks = plan->nplaces, .device = device};
            mt_communicators_of(&planned.program, &costs, of);
            CHECK_EQ(of[0].bytes, measured ? 0 : cases[i].bytes);
            mt_planned_release(&planned);
            mt_cluster_free(cluster);
            mt_plan_free(plan);
        }
}

/* Memory that the best plan's arena fits into, but not its communicators too: another plan, which fits with them. */
static void test_limit(void) {
    struct mt_cluster *cluster;
    struct mt_plan_found found;
    struct mt_plan_request request = {.model = "gpt2:124m",
                                      .job = the_job(),
                                      .fixed = {.decisions = mt_decisions_unset, .use = MT_USE_ALL},
                                      .limit_s = 600};
    CHECK_OK(mt_cluster_describe("a100-80:1x2 nvlink=300G", NULL, &cluster, &err), err);
    CHECK_OK(mt_plan_fastest(cluster, &request, &found, &err), err);
    int64_t arena = found.plan->memory[0].arena_bytes;
    CHECK(found.plan->memory[0].communicator_bytes > 100 << 20, "communicators take memory");
    mt_plan_found_release(&found);
    for (int d = 0; d < 2; d++) cluster->devices[d].memory_bytes = arena + (100 << 20);
    CHECK_OK(mt_plan_fastest(cluster, &request, &found, &err), err);
    for (int r = 0; r < 2; r++)
        CHECK(mt_plan_needs_bytes(found.plan, r) <= cluster->devices[r].memory_bytes, "rank %d: %lld of %lld", r,
              (long long)mt_plan_needs_bytes(found.plan, r), (long long)cluster->devices[r].memory_bytes);
    CHECK(found.plan->memory[0].arena_bytes < arena, "the arena is smaller");
    mt_plan_found_release(&found);
    mt_cluster_free(cluster);
}

int main(void) {
    bool several = false;
    several |= test_counts("h100:2x4 net=100G", "data");
    several |= test_counts("h100:2x4 net=100G", "hybrid");
    several |= test_counts("h100:2x4 net=100G", "tensor");
    several |= test_counts("a100-40:1x4 net=100G + a10:1x2", "zero1");
    several |= test_counts("a100-40:1x4 net=100G + a10:1x3", "mesh");
    several |= test_counts("h100:1x8", "zero3");
    CHECK(several, "every program has one communicator");
    test_bytes();
    test_limit();
    return 0;
}
