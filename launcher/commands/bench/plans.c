/* motley bench plans: plans of one job against each other. */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "launcher/bench/plans.h"
#include "launcher/commands/command.h"
#include "launcher/flags/data_flags.h"
#include "launcher/flags/document.h"
#include "launcher/flags/flags.h"
#include "launcher/session/session.h"
#include "planner/plan/plan.h"

enum {
    KEY_DEVICE = 0x2000,
    KEY_EMULATE,
    KEY_JSON,
    KEY_REPETITIONS,
    KEY_STEPS,
    KEY_WARMUP,
    KEY_DEADLINE,
    KEY_ALONE,
};

struct plans_flags {
    struct mt_err *err;
    struct mt_arena arena;
    struct mt_bench_plans_options options;
    int capacity;
    struct mt_data_flags data;
};

static const struct argp_option flag_table[] = {
    {"repetitions", KEY_REPETITIONS, "N", 0, "turns of each plan, which begin with another plan each time [5]", 1},
    {"steps", KEY_STEPS, "N", 0, "steps of a turn that count [20]", 1},
    {"warmup", KEY_WARMUP, "N", 0, "steps before them [3]", 1},
    {"alone", KEY_ALONE, 0, 0, "give a plan's memory back after each turn [where they do not all fit]", 1},
    MT_OPTION_JSON(KEY_JSON, 1),
    MT_OPTION_DEVICE(KEY_DEVICE, "the plans'", 2),
    MT_OPTION_EMULATE(KEY_EMULATE, 2),
    MT_OPTION_DEADLINE(KEY_DEADLINE, "120", 2),
    {0}};

/* A document, or a run's folder: of those that are no plans it is said when they are read, but for earlier JSON. */
static bool is_document(const char *word) {
    struct mt_err ignored = MT_ERR_INIT;
    char format[64];
    if (mt_is_folder(word)) return true;
    return !mt_document_format(word, format, &ignored) && strcmp(format, MT_TABLES_FORMAT);
}

static void add_path(struct plans_flags *f, const char *text) {
    struct mt_bench_plans_options *o = &f->options;
    mt_arena_grow(&f->arena, &o->paths, o->npaths, &f->capacity, sizeof *o->paths);
    o->paths[o->npaths++] = text;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct plans_flags *f = state->input;
    struct mt_bench_plans_options *o = &f->options;
    enum mt_status st = MT_OK;
    int64_t count;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->data; break;
    case KEY_REPETITIONS:
        if (!(st = mt_flag_int("--repetitions", text, 1, 10000, &count, f->err))) o->repetitions = (int)count;
        break;
    case KEY_STEPS: st = mt_flag_int("--steps", text, 1, 1000000, &o->steps, f->err); break;
    case KEY_WARMUP: st = mt_flag_int("--warmup", text, 0, 1000000, &o->warmup, f->err); break;
    case KEY_JSON: st = mt_output_flag(text, state, is_document, &o->output, f->err); break;
    case KEY_DEVICE: st = mt_flag_device(text, &o->device, f->err); break;
    case KEY_EMULATE: st = mt_emulation_parse(text, &f->arena, &o->emulation, f->err); break;
    case KEY_DEADLINE: st = mt_flag_seconds("--deadline", text, &o->deadline_s, f->err); break;
    case KEY_ALONE: o->alone = true; break;
    case ARGP_KEY_ARG: add_path(f, text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

int mt_command_bench_plans(int argc, char **argv) {
    const struct argp_child children[] = {{mt_data_argp(), 0, "Data [random tokens]:", 3}, {0}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .children = children,
        .args_doc = "PLAN...",
        .doc = "Measure plans of one model and job against each other, in turn, in one run: "
               "`mpirun -n RANKS motley bench plans a.json b.json`.\v"
               "Steps are those of `motley train`, from the initial states in each turn. Ratios are taken within a "
               "repetition."};
    struct mt_err err = MT_ERR_INIT;
    struct plans_flags f = {.err = &err, .options = {.repetitions = 5, .steps = 20, .warmup = 3, .deadline_s = 120}};
    mt_data_flags_init(&f.data, &err);
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    mt_data_flags_find_tokenizer(&f.data, NULL, 0);
    if (!st) st = mt_data_flags_check(&f.data, &err);
    if (f.data.files.ndata) f.options.data = &f.data.files;
    if (!st && !f.options.npaths) {
        st = mt_fail(&err, MT_EINPUT, "measure what? Name plans");
        mt_err_hint(&err, "`motley plan` makes them");
    }
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = f.options.deadline_s};
    st = mt_session_begin(&watch, st, &err);
    if (!st) st = mt_bench_plans(&f.options, &err);
    int code = mt_session_end(st, 0, &err);
    mt_data_flags_release(&f.data);
    mt_arena_release(&f.arena);
    return code;
}
