/* A plan is opened only by those who build the graph and the program that it was made from; variants keep its shape. */
#include "planner/plan/planned.h"

#include "planner/make/make.h"
#include "launcher/verify/proxy_plan.h"
#include "tests/check.h"

static struct mt_plan *make(const char *model, const double *speeds) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_storage_row storage = {.pattern = "*", .state = MT_STATE_SPLIT};
    struct mt_plan_request request = {
        .model = model, .nranks = 3, .speeds = speeds, .fixed = {.decisions = mt_decisions_unset}};
    request.fixed.decisions.nstorage = 1, request.fixed.decisions.storage = &storage;
    request.fixed.decisions.bucket_bytes = 0;
    struct mt_plan *plan;
    mt_job_default(&request.job);
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    return plan;
}

static void test_open(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_planned planned;
    struct mt_plan *plan = make("gpt2:layers=1,heads=2,embed=16,context=8,vocab=40", (const double[]){3, 1, 0});
    CHECK_OK(mt_planned_open(plan, &planned, &err), err);
    CHECK_EQ(planned.program.nranks, 3);
    CHECK_EQ(planned.program.batch_size[0], 6);
    CHECK_EQ(plan->parameters, 40 * 16 + 8 * 16 + 12 * 16 * 16 + 15 * 16);
    CHECK(plan->memory[0].arena_bytes > plan->memory[1].arena_bytes, "the larger share needs more");
    mt_planned_release(&planned);

    plan->model_hash[3] ^= 1;
    CHECK_EQ(mt_planned_open(plan, &planned, &err), MT_EINPUT);
    CHECK(!strncmp(err.text, "model_hash: the plan was made for another graph of gpt2:", 56), "%s", err.text);
    plan->model_hash[3] ^= 1;
    plan->program_hash[3] ^= 1;
    CHECK_EQ(mt_planned_open(plan, &planned, &err), MT_EINPUT);
    CHECK(!strncmp(err.text, "program_hash: the plan stands for another program", 49), "%s", err.text);
    plan->program_hash[3] ^= 1;
    plan->splits[0].sizes[0]--, plan->splits[0].sizes[2]++, plan->micro[2]++;
    CHECK_EQ(mt_planned_open(plan, &planned, &err), MT_EINPUT); /* another division is another program */
    CHECK(!strncmp(err.text, "program_hash: ", 14), "%s", err.text);
    mt_plan_free(plan);
}

/* The ranks of `plan` at places of a plan with two more, which are idle. */
static struct mt_plan *scatter(const struct mt_plan *plan, const int *order) {
    struct mt_plan *p = mt_plan_new(plan->nranks + 2);
    p->made_by = plan->made_by, p->model = plan->model, p->job = plan->job;
    p->decisions = mt_decisions_copy(&plan->decisions, &p->arena);
    p->nplaces = plan->nranks;
    memcpy(p->order, order, (size_t)p->nplaces * sizeof *order);
    p->splits = mt_arena_memdup(&p->arena, plan->splits, (size_t)plan->nsplits * sizeof *p->splits);
    p->nsplits = plan->nsplits;
    for (int s = 0; s < p->nsplits; s++) {
        p->splits[s].sizes = mt_new(&p->arena, int64_t, p->nranks);
        for (int i = 0; i < p->nplaces; i++) p->splits[s].sizes[order[i]] = plan->splits[s].sizes[i];
    }
    for (int i = 0; i < p->nplaces; i++) p->micro[order[i]] = plan->micro[i];
    return p;
}

/* A plan stands for the program of its places: idle ranks are not in it. */
static void test_idle(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_planned planned;
    static const int orders[][3] = {{0, 1, 2}, {1, 2, 3}, {4, 0, 2}};
    struct mt_plan *plan = make("gpt2:layers=1,heads=2,embed=16,context=8,vocab=40", (const double[]){3, 1, 2});
    for (int k = 0; k < 3; k++) {
        struct mt_plan *idle = scatter(plan, orders[k]);
        CHECK_OK(mt_plan_edited(idle, &err), err);
        CHECK_TEXT(idle->program_hash, plan->program_hash);
        int64_t all = 0;
        for (int r = 0; r < idle->nranks; r++) all += idle->memory[r].arena_bytes;
        for (int i = 0; i < 3; i++) {
            const struct mt_plan_memory *memory = &idle->memory[orders[k][i]];
            CHECK_EQ(memory->arena_bytes, plan->memory[i].arena_bytes);
            CHECK_EQ(memory->state_bytes, plan->memory[i].state_bytes);
            all -= memory->arena_bytes;
        }
        CHECK_EQ(all, 0);
        CHECK_OK(mt_planned_open(idle, &planned, &err), err);
        CHECK_EQ(planned.program.nranks, 3);
        mt_planned_release(&planned);
        mt_plan_free(idle);
    }
    mt_plan_free(plan);
}

static void test_small(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *plan = make("gpt2:355m", (const double[]){1, 0, 1}), *small, *alone;
    CHECK_OK(mt_proxy_plan_small(plan, &small, &err), err);
    CHECK_TEXT(small->model, "gpt2:layers=2,heads=2,embed=32,context=32,vocab=256,ffn=128,bias=1,tied=1");
    CHECK_EQ(small->job.seq, 32);
    CHECK_EQ(mt_plan_split_named(small, "batch")->sizes[0], 4);
    for (int s = 0; s < small->nsplits; s++) {
        const int64_t *sizes = small->splits[s].sizes;
        CHECK(sizes[0] > 0 && sizes[1] == 0 && sizes[2] > 0, "%s", small->splits[s].name);
    }
    CHECK_EQ(mt_plan_split_named(small, "storage:vocab")->sizes[2], 128);
    alone = mt_proxy_plan_one_rank(small);
    CHECK_EQ(alone->nranks, 1);
    CHECK_EQ(alone->nsplits, 1); /* it has everything */
    CHECK_EQ(alone->splits[0].sizes[0], plan->job.batch);
    CHECK(mt_plan_is_flat(alone) && !mt_decisions_shard_state(&alone->decisions), "one rank");
    CHECK_EQ(mt_plan_split_named(plan, "storage:vocab")->sizes[0] +
                 mt_plan_split_named(plan, "storage:vocab")->sizes[2],
             50257);
    mt_plan_free(alone);
    mt_plan_free(small);
    mt_plan_free(plan);
}

/* What mt_lower_fold promises of two ranks of one class (lower.h). */
static bool same_class(const struct mt_program *program, int a, int b) {
    if (program->body_count[a] != program->body_count[b]) return false;
    for (int v = 0; v < program->nvalues; v++) {
        const struct mt_box *x = mt_pvalue_box(program, v, a), *y = mt_pvalue_box(program, v, b);
        for (int i = 0; i < program->layouts.items[program->values[v].layout].naxes; i++)
            if (x->hi[i] - x->lo[i] != y->hi[i] - y->lo[i]) return false;
    }
    for (int k = 0; k < MT_NBLOCKS; k++)
        for (int i = 0; i < program->blocks[k].ninstrs; i++) {
            const struct mt_instr *instr = &program->blocks[k].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            if (instr->coll == MT_ALL_TO_ALL || instr->group[a] != instr->group[b]) return false;
        }
    return true;
}

/* The plan's memory is each rank's own, though of equal ranks only one is lowered. */
static void test_memory(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_storage_row storage[] = {{.pattern = "h.1.*", .state = MT_STATE_REPLICATED},
                                       {.pattern = "*", .state = MT_STATE_SPLIT}};
    static const int64_t micro[] = {2, 2, 2, 2, 2, 2, 1, 12};
    struct mt_plan_request request = {.model = "gpt2:layers=2,heads=2,embed=64,context=8,vocab=64",
                                      .nranks = 8,
                                      .speeds = (const double[]){1, 1, 1, 0, 0, 1, 1, 3},
                                      .fixed = {.micro = micro, .decisions = mt_decisions_unset}};
    request.fixed.decisions.nstorage = 2, request.fixed.decisions.storage = storage;
    request.fixed.decisions.bucket_bytes = 0;
    struct mt_plan *plan;
    struct mt_planned planned;
    struct mt_device *device;
    mt_job_default(&request.job);
    request.job.batch = 32;
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    CHECK_OK(mt_planned_open(plan, &planned, &err), err);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    struct mt_lower_options options = mt_planned_lower_options(device);
    int pairs = 0, like[8];
    mt_lower_fold(&planned.program, NULL, like);
    for (int r = 0; r < plan->nranks; r++) {
        struct mt_lowered *lowered;
        CHECK_OK(mt_lower(&planned.program, r, &options, &lowered, &err), err);
        CHECK_EQ(plan->memory[r].arena_bytes, lowered->arena_bytes);
        CHECK_EQ(plan->memory[r].state_bytes, lowered->state_bytes);
        mt_lowered_free(lowered);
        for (int q = 0; q < r; q++) {
            pairs += same_class(&planned.program, q, r);
            CHECK_EQ(like[q] == like[r], same_class(&planned.program, q, r));
        }
    }
    CHECK_EQ(pairs, 7); /* of ranks 0, 1, 2 and 5; and 3 and 4 */
    CHECK(!same_class(&planned.program, 0, 3), "a share and none");
    CHECK(!same_class(&planned.program, 0, 6), "other micro-batches");
    mt_device_close(device);
    mt_planned_release(&planned);
    mt_plan_free(plan);
}

/* How many GEMMs have `epilogue`; those that plain C would run although the GEMM alone is another's are no
 * good. */
static int count_products(struct mt_device *device, const struct mt_lowered *low, enum mt_op_kind epilogue) {
    int n = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what != MT_LOWERED_OP || c->kind != MT_OP_fused_matmul) continue;
        struct mt_call call = mt_linstr_call(c, c->tensor);
        const struct mt_backend *fused = mt_device_backend(device, &call);
        call.kind = MT_OP_matmul, call.nin = 2, call.nout = 1;
        CHECK(fused != &mt_backend_c || mt_device_backend(device, &call) == &mt_backend_c, "%s", c->name);
        n += c->attr.epilogue == epilogue;
    }
    return n;
}

/* What the CPU's fast GEMMs lack is not fused where they are available, and fused where all is plain C. */
static void test_worth_fusing(void) {
    enum { LAYERS = 2 };
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request request = {.model = "gpt2:layers=2,heads=2,embed=64,context=8,vocab=64,bias=1,tied=1",
                                      .nranks = 1,
                                      .fixed = {.decisions = mt_decisions_unset}};
    struct mt_plan *plan;
    struct mt_planned planned;
    struct mt_device *device;
    struct mt_lowered *lowered;
    mt_job_default(&request.job);
    request.job.batch = 2;
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    CHECK_OK(mt_planned_open(plan, &planned, &err), err);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    struct mt_lower_options options = mt_planned_lower_options(device);
    bool fast = mt_backend_onednn(&err) != NULL;
    for (int all = 0; all < 2; all++) {
        if (all) options.worth_fusing = NULL;
        CHECK_OK(mt_lower(&planned.program, 0, &options, &lowered, &err), err);
        if (!all) CHECK_EQ(count_products(device, lowered, MT_OP_gelu_grad), fast ? 0 : LAYERS);
        if (!all) CHECK_EQ(count_products(device, lowered, MT_OP_sum), fast ? 0 : 2 * LAYERS);
        int fused = 0;
        for (int i = 0; i < lowered->ninstrs; i++) fused += lowered->instrs[i].kind == MT_OP_fused_matmul;
        CHECK_EQ(fused, (all || !fast ? 7 : 4) * LAYERS);
        mt_lowered_free(lowered);
    }
    mt_device_close(device);
    mt_planned_release(&planned);
    mt_plan_free(plan);
}

int main(void) {
    test_open();
    test_idle();
    test_worth_fusing();
    test_memory();
    test_small();
    return 0;
}
