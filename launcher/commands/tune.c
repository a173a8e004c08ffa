/* motley tune: compile and measure the kernels of a plan ahead of time. */
#include <errno.h>

#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/output.h"
#include "launcher/session/agree.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"
#include "launcher/tune/tune_job.h"

enum { KEY_DEVICE = 0x2000, KEY_EMULATE, KEY_JSON };

struct tune_flags {
    struct mt_err *err;
    struct mt_arena arena;
    struct mt_tune_options options;
    struct mt_output output;
};

static const struct argp_option flag_table[] = {
    MT_OPTION_DEVICE(KEY_DEVICE, "cuda", 1), MT_OPTION_EMULATE(KEY_EMULATE, 1), MT_OPTION_JSON(KEY_JSON, 1), {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct tune_flags *f = state->input;
    enum mt_status st;
    switch (key) {
    case KEY_DEVICE: st = mt_flag_device(text, &f->options.device, f->err); break;
    case KEY_EMULATE: st = mt_emulation_parse(text, &f->arena, &f->options.emulation, f->err); break;
    case KEY_JSON: st = mt_output_flag(text, state, NULL, &f->output, f->err); break;
    case ARGP_KEY_ARG: st = mt_flag_operand("plan", text, &f->options.plan, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

static enum mt_status check_output(const struct tune_flags *f) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    enum mt_status st = rank ? MT_OK : mt_output_check(&f->output, &f->options.plan, 1, f->err);
    return mt_agree_rank0(MPI_COMM_WORLD, st, f->err);
}

int mt_command_tune(int argc, char **argv) {
    static const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "PLAN",
        .doc =
            "Compile and measure the kernels of a plan's programs, as training does at its start: `mpirun -n RANKS "
            "motley tune plan.json`, with the job's mpirun, or alone for one kind of GPU.\v"
            "Results are kept in tuning.json in the cache folder ($MOTLEY_CACHE, else $XDG_CACHE_HOME/motley), where "
            "training finds them. Processes with the same kind of GPU share the work."};
    struct mt_err err = MT_ERR_INIT;
    struct tune_flags f = {.err = &err, .options = {.device = "cuda"}};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st && !f.options.plan) {
        st = mt_fail(&err, MT_EINPUT, "tune what? Name a plan");
        mt_err_hint(&err, "`motley plan` makes one");
    }
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 60};
    st = mt_session_begin(&watch, st, &err);
    if (!st) st = check_output(&f);
    struct mt_tables doc = MT_TABLES_INIT;
    if (!st) st = mt_tune_job(&f.options, &doc, &err);
    if (!st && doc.count) st = mt_output_end(&f.output, &doc, &err);
    mt_tables_release(&doc);
    int code = mt_session_end(st, 0, &err);
    mt_arena_release(&f.arena);
    return code;
}
