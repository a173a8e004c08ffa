/* motley train: run a plan, under mpirun or alone. */
#include <argp.h>
#include <errno.h>

#include "launcher/commands/command.h"
#include "launcher/flags/data_flags.h"
#include "launcher/flags/flags.h"
#include "launcher/session/rank_device.h"
#include "launcher/launch/attempt.h"
#include "launcher/session/session.h"
#include "launcher/watch/signals.h"
#include "launcher/train/train.h"

enum {
    KEY_OUT = 'o',
    KEY_STEPS = 0x2000,
    KEY_RESUME,
    KEY_INIT,
    KEY_CHECKPOINT_EVERY,
    KEY_CHECKPOINT_MINUTES,
    KEY_NO_OUT,
    KEY_KEEP,
    KEY_EVAL_EVERY,
    KEY_EVAL_ONLY,
    KEY_LOG_EVERY,
    KEY_HASH_EVERY,
    KEY_TRACE,
    KEY_CLUSTER,
    KEY_DEADLINE,
    KEY_HEARTBEAT,
    KEY_START_DEADLINE,
    KEY_DEVICE,
    KEY_EMULATE,
};

struct train_flags {
    struct mt_err *err;
    struct mt_arena arena; /* of --emulate's lists */
    struct mt_train_options options;
    struct mt_data_flags data;
    bool keep, minutes; /* given */
};

static const struct argp_option flag_table[] = {
    {0, 0, 0, 0, "Start and end:", 2},
    {"steps", KEY_STEPS, "N", 0, "stop after step N, without changing the learning rate's schedule [the plan's steps]",
     2},
    {"resume", KEY_RESUME, "DIR", 0, "go on from the newest undamaged checkpoint of a folder, or from a file", 2},
    {"init", KEY_INIT, "PATH", 0,
     "start from the weights of a Hugging Face folder, a run's folder or a safetensors file", 2},
    {"eval-only", KEY_EVAL_ONLY, 0, 0, "only compute the loss over the validation data", 2},
    {0, 0, 0, 0, "Output:", 3},
    {"out", KEY_OUT, "DIR", 0,
     "folder for checkpoints, run.json and metrics [that of --resume; else the first free of run, run-2, ...]", 3},
    {"no-out", KEY_NO_OUT, 0, 0, "write no checkpoints, no run.json and no metrics", 3},
    {"checkpoint-every", KEY_CHECKPOINT_EVERY, "N", 0, "steps between checkpoints; 0: only by time and at the end [0]",
     3},
    {"checkpoint-minutes", KEY_CHECKPOINT_MINUTES, "M", 0, "minutes between checkpoints; 0: not by time [10]", 3},
    {"keep", KEY_KEEP, "K", 0, "how many checkpoints to keep [2]", 3},
    {"eval-every", KEY_EVAL_EVERY, "N", 0, "steps between validation losses; 0: at the end only [0]", 3},
    {"log-every", KEY_LOG_EVERY, "N", 0, "steps between lines of progress [10]", 3},
    {"trace", KEY_TRACE, "FILE", 0,
     "write a timeline of all ranks in three early steps, for Perfetto or chrome://tracing", 3},
    {"cluster", KEY_CLUSTER, "FILE", 0,
     "with --trace: the cluster that the plan was made for, to write the predicted step beside the last one", 3},
    {0, 0, 0, 0, "Failures:", 4},
    {"hash-every", KEY_HASH_EVERY, "N", 0, "steps between comparisons of replicas; 0: at the end only [0]", 4},
    MT_OPTION_DEADLINE(KEY_DEADLINE, "300; ten times that for files", 4),
    MT_OPTION_HEARTBEAT(KEY_HEARTBEAT, 4),
    MT_OPTION_START_DEADLINE(KEY_START_DEADLINE, 4),
    {0, 0, 0, 0, "Devices:", 5},
    MT_OPTION_DEVICE(KEY_DEVICE, "the plan's", 5),
    MT_OPTION_EMULATE(KEY_EMULATE, 5),
    {0}};

static enum mt_status take_count(struct train_flags *f, const char *flag, const char *text, int64_t least,
                                 int64_t *value) {
    return mt_flag_int(flag, text, least, INT64_C(1) << 40, value, f->err);
}

static enum mt_status take_minutes(struct train_flags *f, const char *text) {
    double *minutes = &f->options.checkpoint_minutes;
    f->minutes = true;
    enum mt_status st = mt_flag_real("--checkpoint-minutes", text, minutes, f->err);
    if (st || *minutes >= 0) return st;
    return mt_fail(f->err, MT_EINPUT, "--checkpoint-minutes: must not be negative");
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct train_flags *f = state->input;
    struct mt_train_options *o = &f->options;
    enum mt_status st = MT_OK;
    int64_t keep;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->data; break;
    case KEY_STEPS: st = take_count(f, "--steps", text, 0, &o->steps); break;
    case KEY_RESUME: st = mt_flag_path("--resume", text, &o->resume, f->err); break;
    case KEY_INIT: st = mt_flag_path("--init", text, &o->init, f->err); break;
    case KEY_EVAL_ONLY: o->eval_only = true; break;
    case KEY_OUT: st = mt_flag_path("--out", text, &o->out, f->err); break;
    case KEY_CHECKPOINT_EVERY: st = take_count(f, "--checkpoint-every", text, 0, &o->checkpoint_every); break;
    case KEY_CHECKPOINT_MINUTES: st = take_minutes(f, text); break;
    case KEY_NO_OUT: o->no_out = true; break;
    case KEY_KEEP:
        f->keep = true;
        if (!(st = mt_flag_int("--keep", text, 1, 1000000, &keep, f->err))) o->keep = (int)keep;
        break;
    case KEY_EVAL_EVERY: st = take_count(f, "--eval-every", text, 0, &o->eval_every); break;
    case KEY_LOG_EVERY: st = take_count(f, "--log-every", text, 1, &o->log_every); break;
    case KEY_CLUSTER: st = mt_flag_path("--cluster", text, &o->cluster, f->err); break;
    case KEY_TRACE: st = mt_flag_path("--trace", text, &o->trace, f->err); break;
    case KEY_HASH_EVERY: st = take_count(f, "--hash-every", text, 0, &o->hash_every); break;
    case KEY_DEADLINE: st = mt_flag_seconds("--deadline", text, &o->deadline_s, f->err); break;
    case KEY_START_DEADLINE: st = mt_flag_seconds("--start-deadline", text, &o->start_s, f->err); break;
    case KEY_HEARTBEAT: st = mt_flag_heartbeat(text, &o->heartbeat_s, f->err); break;
    case KEY_DEVICE: st = mt_flag_device(text, &o->device, f->err); break;
    case KEY_EMULATE: st = mt_emulation_parse(text, &f->arena, &o->emulation, f->err); break;
    case ARGP_KEY_ARG: st = mt_flag_operand("plan", text, &o->plan, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

static enum mt_status validate(const struct train_flags *f) {
    const struct mt_train_options *o = &f->options;
    if (!o->plan) {
        mt_fail(f->err, MT_EINPUT, "train what? Name a plan");
        return mt_err_hint(f->err, "`motley plan` makes one");
    }
    if (!f->data.files.ndata) return mt_fail(f->err, MT_EINPUT, "--data is missing: name the file to train on");
    if (o->resume && o->init)
        return mt_fail(f->err, MT_EINPUT, "--resume and --init exclude each other: a checkpoint has its own weights");
    if (o->eval_only && (o->out || o->trace || o->steps >= 0))
        return mt_fail(f->err, MT_EINPUT,
                       "--eval-only: writes nothing and takes no steps: leave out --out, --trace, --steps");
    if (o->eval_only && (f->keep || f->minutes || o->checkpoint_every || o->eval_every || o->hash_every))
        return mt_fail(f->err, MT_EINPUT,
                       "--eval-only: takes no steps: leave out --keep, --checkpoint-every, --checkpoint-minutes, "
                       "--eval-every, --hash-every");
    if (o->cluster && !o->trace)
        return mt_fail(f->err, MT_EINPUT, "--cluster: is for the predicted step of a trace: say --trace FILE, too");
    if (o->no_out && (o->out || f->keep || f->minutes || o->checkpoint_every))
        return mt_fail(f->err, MT_EINPUT,
                       "--no-out: there is no folder for checkpoints: leave out --out, --keep, --checkpoint-every, "
                       "--checkpoint-minutes");
    return mt_data_flags_check(&f->data, f->err);
}

/* ---- for those who start it ---- */

static const char *name_of(int key) {
    const struct argp_option *tables[] = {flag_table, mt_data_val_argp()->options};
    for (int t = 0; t < 2; t++)
        for (const struct argp_option *o = tables[t]; o->name || o->doc; o++)
            if (o->key && o->key == key) return o->name;
    return NULL;
}

static error_t take_word(int key, char *text, struct argp_state *state) {
    struct mt_train_words *w = state->input;
    const char *name = name_of(key);
    if (key == ARGP_KEY_INIT && state->child_inputs) state->child_inputs[0] = w;
    if (key == ARGP_KEY_ARG) {
        mt_fail(w->err, MT_EINPUT, "\"%.60s\": after -- are flags of train alone; the plan is named before it", text);
        return EINVAL;
    }
    if (!name) return ARGP_ERR_UNKNOWN;
    const struct {
        int key;
        const char **value;
    } taken[] = {{KEY_OUT, &w->out}, {KEY_RESUME, &w->resume}, {KEY_INIT, &w->init}};
    for (int i = 0; i < 3; i++)
        if (key == taken[i].key) return *taken[i].value = text, 0;
    w->writes_nothing |= key == KEY_NO_OUT || key == KEY_EVAL_ONLY;
    w->words[w->n++] =
        text ? mt_arena_printf(w->arena, "--%s=%s", name, text) : mt_arena_printf(w->arena, "--%s", name);
    return 0;
}

enum mt_status mt_train_words(int argc, char **argv, struct mt_arena *arena, struct mt_train_words *words,
                              struct mt_err *err) {
    const struct argp data = {.options = mt_data_val_argp()->options, .parser = take_word};
    const struct argp_child children[] = {{&data, 0, 0, 0}, {0}},
                            data_children[] = {{mt_data_val_argp(), 0, 0, 0}, {0}};
    const struct argp split = {.options = flag_table, .parser = take_word, .children = children};
    const struct argp check = {.options = flag_table, .parser = parse, .children = data_children};
    char **copy = mt_new(arena, char *, argc + 1);
    struct train_flags flags = {.err = err};
    mt_train_defaults(&flags.options);
    mt_data_flags_init(&flags.data, err);
    for (int i = 0; i < argc; i++) copy[i] = argv[i]; /* argp reorders it */
    enum mt_status st = mt_flags_parse(&check, argc, copy, &flags, err);
    if (!st && !flags.options.plan) {
        flags.options.plan = "";
        st = validate(&flags);
    }
    mt_data_flags_release(&flags.data);
    mt_arena_release(&flags.arena);
    *words = (struct mt_train_words){.arena = arena, .err = err, .words = mt_new(arena, char *, argc + 1)};
    for (int i = 0; i < argc; i++) copy[i] = argv[i];
    return st ? st : mt_flags_parse(&split, argc, copy, words, err);
}

int mt_command_train(int argc, char **argv) {
    const struct argp_child children[] = {{mt_data_val_argp(), 0, "Data:", 1}, {0}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .children = children,
        .args_doc = "PLAN --data FILE",
        .doc =
            "Train by a plan: `mpirun -n RANKS motley train plan.json --data FILE --out DIR`.\v"
            "SIGUSR1, to any rank or to mpirun, writes a checkpoint and goes on; SIGUSR2 writes one and exits with "
            "0; so "
            "does SIGTERM to a rank, or SIGINT (Ctrl-C), of which a second one ends it at once; no file is left half "
            "written. Ctrl-C or SIGTERM to mpirun does the same if a step and a checkpoint take less than two seconds "
            "(twice what --mca odls_base_sigkill_timeout says): then mpirun kills the ranks, and it ends with 1 in any "
            "case. `motley launch` has no such limit. When a rank is lost or makes no progress, all "
            "processes exit with 4; mpirun itself exits with 4, or with 137 if a rank was killed. Ranks that the "
            "plan leaves "
            "out are started too, and wait; the first of the others reads and writes the files."};
    struct mt_err err = MT_ERR_INIT;
    struct train_flags flags = {.err = &err};
    mt_train_defaults(&flags.options);
    mt_data_flags_init(&flags.data, &err);
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &flags, &err);
    const char *const weights[] = {flags.options.init, flags.options.resume};
    mt_data_flags_find_tokenizer(&flags.data, weights, 2);
    if (!st) st = validate(&flags);
    flags.options.data = &flags.data.files, flags.options.val_fraction = flags.data.val_fraction;
    const struct mt_watch_options watch = mt_train_watch(&flags.options);
    mt_attempt_say_started();
    mt_signals_install(); /* requests during the set-up are answered after the first steps */
    st = mt_session_begin(&watch, st, &err);
    if (!st) st = mt_train(&flags.options, &err);
    mt_signals_restore();
    int code = mt_session_end(st, 0, &err);
    mt_data_flags_release(&flags.data);
    mt_arena_release(&flags.arena);
    return code;
}
