/* motley bench: rates on this machine, against its measured peak. */
#include <errno.h>
#include <string.h>

#include "launcher/bench/suite.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/job_flags.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"

enum { KEY_MODEL = 'm', KEY_DEVICE = 0x2000, KEY_JSON, KEY_SECONDS };

struct bench_flags {
    struct mt_err *err;
    struct mt_bench_options options;
    struct mt_job_flags job;
};

static const struct argp_option flag_table[] = {
    MT_OPTION_DEVICE(KEY_DEVICE, "cpu", 1),
    {"model", KEY_MODEL, "TEXT", 0, MT_MODEL_HELP " [gpt2:124m,vocab=50304 on GPUs, gpt2:char on CPUs]", 1},
    MT_OPTION_JSON(KEY_JSON, 1),
    {"seconds", KEY_SECONDS, "S", 0, "time to spend on each result, about [0.1]", 1},
    {0}};

static enum mt_status select_bench(struct bench_flags *f, const char *text) {
    int count = 0, which;
    while (mt_bench_names[count]) count++;
    enum mt_status st = mt_flag_name("benchmark", text, mt_bench_names, count, &which, f->err);
    if (!st) f->options.which |= 1u << which;
    return st;
}

static bool is_bench(const char *word) {
    for (int i = 0; mt_bench_names[i]; i++)
        if (!strcmp(word, mt_bench_names[i])) return true;
    return false;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct bench_flags *f = state->input;
    enum mt_status st = MT_OK;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->job; break;
    case KEY_DEVICE: st = mt_flag_device(text, &f->options.device, f->err); break;
    case KEY_MODEL: st = mt_job_flags_model(&f->job, text, &f->options.model); break;
    case KEY_JSON: st = mt_output_flag(text, state, is_bench, &f->options.output, f->err); break;
    case KEY_SECONDS: st = mt_flag_seconds("--seconds", text, &f->options.seconds, f->err); break;
    case ARGP_KEY_ARG: st = select_bench(f, text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

/* Benchmarks with flags of their own. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} with_flags[] = {{"plans", mt_command_bench_plans}, {"overlap", mt_command_bench_overlap}};

int mt_command_bench(int argc, char **argv) {
    struct mt_arena arena = MT_ARENA_INIT;
    for (size_t i = 0; i < sizeof with_flags / sizeof *with_flags && argc > 1; i++) {
        if (strcmp(argv[1], with_flags[i].name)) continue;
        argv[1] = mt_arena_printf(&arena, "motley bench %s", with_flags[i].name);
        int code = with_flags[i].run(argc - 1, argv + 1);
        mt_arena_release(&arena);
        return code;
    }
    const struct argp_child children[] = {
        {mt_job_argp_with_batch("samples per step, over all ranks [16 for each GPU, 8 for each rank on CPUs]"), 0,
         "The job:", 2},
        {0}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .children = children,
        .args_doc = "[operators] [attention] [collectives] [step]\nplans PLAN...\noverlap --shape M,N,K",
        .doc = "Measure a model's operators and steps on this machine against its measured peak: a large GEMM, a large "
               "copy, the link between two ranks. Runs alone or under mpirun; without a name, all benchmarks run.\v"
               "`motley bench plans` measures plans of one job against each other, `motley bench overlap` GEMMs with "
               "their collectives; they have flags of their own.\n\n"
               "Operands are in no cache."};
    struct mt_err err = MT_ERR_INIT;
    struct bench_flags f = {.err = &err, .options = {.device = "cpu", .seconds = 0.1}};
    mt_job_flags_init(&f.job, &err);
    int64_t default_batch = f.job.job.batch;
    f.job.job.batch = -1;
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    f.options.batch_given = f.job.job.batch >= 0;
    if (!f.options.batch_given) f.job.job.batch = default_batch;
    if (!st) st = mt_job_flags_resolve(&f.job, &err);
    f.options.job = f.job.job;
    if (!f.options.which) f.options.which = MT_BENCH_ALL;
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 120};
    st = mt_session_begin(&watch, st, &err);
    if (!st) st = mt_bench_suite(&f.options, &err);
    int code = mt_session_end(st, 0, &err);
    mt_job_flags_release(&f.job);
    return code;
}
