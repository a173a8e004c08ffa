/* What cannot run a job: architectures, precisions and mixed kinds of the devices that take part. */
#include "planner/make/make.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

static void expect(const char *cluster, const char *precision, const char *part, const char *want) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_cluster *c;
    struct mt_job job;
    bool takes_part[8];
    mt_job_default(&job);
    CHECK(mt_job_set_precision(&job, precision), "%s", precision);
    CHECK_OK(mt_cluster_describe(cluster, NULL, &c, &err), err);
    for (int d = 0; part && d < c->ndevices; d++) takes_part[d] = part[d] == 'x';
    const char *why = mt_job_cannot_run(c, &job, part ? takes_part : NULL, &arena);
    CHECK(*want ? strstr(why, want) != NULL : !*why, "%s in %s: \"%s\", not \"%s\"", cluster, precision, why, want);
    mt_arena_release(&arena);
    mt_cluster_free(c);
}

int main(void) {
    expect("v100:1x2 + t4:1x2", "f16", NULL, "v100: has compute capability 7.0, and kernels need 7.5 (sm_75)");
    expect("v100:1x2 + t4:1x2", "f16", "--xx", "");
    expect("v100:1x2 + t4:1x2", "bf16", "--xx", "t4: has compute capability 7.5, and bf16 needs 8.0");
    expect("v100:1x2 + t4:1x2", "bf16", NULL,
           "v100: has compute capability 7.0, and kernels need 7.5 (sm_75); t4: has");
    expect("p100 + v100-16 + v100", "f32", NULL, "(sm_75); v100: has");
    expect("a10 + h100", "tf32", NULL, "");
    expect("a10 + h100", "f64", NULL, "a10: f64 runs on CPUs only; h100: f64");
    expect("a10 + cpu:1x2", "f32", NULL,
           "cpu is of kind cpu, but a10 of kind cuda: CPUs and GPUs do not train together");
    expect("a10 + cpu:1x2", "f32", "x--", "");
    expect("a10 + cpu:1x2", "f64", "-xx", "");
    return 0;
}
