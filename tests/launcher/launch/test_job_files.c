/* The files of a start, by what mpirun makes of them: ranks, arguments and environment as a script in the place of
 * motley sees them. */
#include "launcher/launch/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "planner/make/make.h"
#include "tests/check.h"

static const char *folder;

static struct mt_plan *make_plan(int nranks) {
    struct mt_plan *plan;
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request request = {.model = "mlp:layers=2,hidden=16", .nranks = nranks};
    mt_job_default(&request.job);
    request.job.batch = 6;
    request.fixed.decisions = mt_decisions_unset;
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    return plan;
}

static const char *read_all(struct mt_arena *arena, FILE *f) {
    char *text = mt_arena_alloc(arena, 1 << 16);
    text[fread(text, 1, (1 << 16) - 1, f)] = 0;
    return text;
}

/* "RANK GPUS X ARGUMENTS" of each rank, by rank. */
static const char *started(struct mt_arena *arena) {
    FILE *f = popen(mt_arena_printf(arena, "sh %s/launch/mpirun.sh 2>%s/errors | sort", folder, folder), "r");
    const char *text = read_all(arena, f);
    CHECK(!pclose(f), "%s", text);
    FILE *errors = fopen(mt_arena_printf(arena, "%s/errors", folder), "r");
    if (!*text) fprintf(stderr, "%s", read_all(arena, errors));
    fclose(errors);
    return text;
}

/* Three ranks: the second on the second host, if there are two. */
static void test_start(const char *names, const int *gpus, const char *const *cores, const char *want) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_hosts hosts;
    struct mt_plan *plan = make_plan(3);
    CHECK_OK(mt_hosts_parse("hosts", names, &arena, &hosts, &err), err);
    int host[] = {0, hosts.n - 1, 0}, device[] = {-1, -1, -1}, gpu[] = {gpus[0], gpus[1], gpus[2]};
    const char *bound[] = {cores[0], cores[1], cores[2]};
    struct mt_places places = {.host = host, .device = device, .gpu = gpu, .cores = bound};
    char *words[] = {"--data=a b.txt", "--out=it's", NULL};
    const char *exports[] = {"X=one two", "CUDA_VISIBLE_DEVICES=7"};
    const char *mca[] = {"btl_tcp_if_include=lo", "oob_tcp_if_include=lo"};
    const struct mt_mpirun_options options = {.program = mt_arena_printf(&arena, "%s/program", folder),
                                              .agent = mt_arena_printf(&arena, "%s/agent", folder),
                                              .agent_given = true,
                                              .nmca = 2,
                                              .mca = mca,
                                              .nexports = 2,
                                              .exports = exports};
    const struct mt_job_files files = {&options, plan, &hosts, &places, mt_arena_printf(&arena, "%s/launch", folder),
                                       words};
    CHECK_OK(mt_job_files_write(&files, &arena, &err), err);
    CHECK_TEXT(started(&arena), want);
    mt_plan_free(plan);
    mt_arena_release(&arena);
}

/* A program of the test's folder. */
static void write_program(const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\n%s", text);
    fclose(f);
    chmod(path, 0755);
}

int main(void) {
    static const char *const unbound[] = {"", "", ""}, *const core0[] = {"0", "0", "0"}, *const some[] = {"0", "", "0"};
    char name[] = "/tmp/test_job_files.XXXXXX", command[64];
    folder = mkdtemp(name);
    write_program("program",
                  "rank=$OMPI_COMM_WORLD_RANK gpus=$CUDA_VISIBLE_DEVICES x=$X; shift 2\n"
                  "cores=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status); [ \"$cores\" = 0 ] || cores=more\n"
                  "echo \"$rank on $cores sees $gpus: $x, $*, $#\"\n");
    write_program("agent",
                  "host=$1; shift\nexec unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$*\"' \"$host\" \"$@\"\n");
#define RANK(number, cores, gpus) number " on " cores " sees " gpus ": one two, --data=a b.txt --out=it's, 2\n"
#define RANKS(cores, gpus) RANK("0", cores, gpus) RANK("1", cores, gpus) RANK("2", cores, gpus)
    bool one_core = sysconf(_SC_NPROCESSORS_ONLN) == 1;
    test_start("localhost", (const int[]){-1, -1, -1}, unbound, one_core ? RANKS("0", "7") : RANKS("more", "7"));
    test_start("localhost", (const int[]){0, 1, 2}, unbound, one_core ? RANKS("0", "7") : RANKS("more", "7"));
    test_start("localhost", (const int[]){0, 2, 3}, unbound, one_core ? RANKS("0", "0,2,3") : RANKS("more", "0,2,3"));
    test_start("localhost", (const int[]){-1, -1, -1}, some, one_core ? RANKS("0", "7") : RANKS("more", "7"));
    test_start("localhost", (const int[]){-1, -1, -1}, core0, RANKS("0", "7"));
    if (!one_core && !system("unshare --uts true 2>/dev/null")) { /* two hosts, each with GPUs of its own */
        test_start("ha\nhb", (const int[]){1, 2, 3}, unbound,
                   RANK("0", "more", "1,3") RANK("1", "more", "1,3") RANK("2", "more", "2"));
        test_start("ha\nhb", (const int[]){0, 2, 1}, unbound,
                   RANK("0", "more", "7") RANK("1", "more", "7") RANK("2", "more", "2"));
    }
    snprintf(command, sizeof command, "rm -r %s", name);
    return system(command);
}
