/* motley doctor: whether a job can run here. */
#include <errno.h>

#include "launcher/commands/command.h"
#include "launcher/doctor/doctor.h"
#include "launcher/flags/data_flags.h"
#include "launcher/flags/flags.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"

enum { KEY_OUT = 'o', KEY_JSON = 0x2000, KEY_START_DEADLINE, KEY_DEVICE };

struct doctor_flags {
    struct mt_err *err;
    struct mt_doctor_options options;
    struct mt_data_flags data;
    double start_s;
};

static const struct argp_option flag_table[] = {
    {"out", KEY_OUT, "DIR", 0,
     "the folder for checkpoints, which must be writable and have room [a new one in this folder]", 1},
    MT_OPTION_DEVICE(KEY_DEVICE, "cpu", 1),
    MT_OPTION_START_DEADLINE(KEY_START_DEADLINE, 1),
    MT_OPTION_JSON(KEY_JSON, 1),
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct doctor_flags *f = state->input;
    enum mt_status st = MT_OK;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->data; break;
    case KEY_OUT: st = mt_flag_path("--out", text, &f->options.out, f->err); break;
    case KEY_DEVICE: st = mt_flag_device(text, &f->options.device, f->err); break;
    case KEY_JSON: st = mt_output_flag(text, state, NULL, &f->options.output, f->err); break;
    case KEY_START_DEADLINE: st = mt_flag_seconds("--start-deadline", text, &f->start_s, f->err); break;
    case ARGP_KEY_ARG: st = mt_flag_operand("plan", text, &f->options.plan, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

int mt_command_doctor(int argc, char **argv) {
    const struct argp_child children[] = {
        {mt_data_val_argp(), 0, "The job's data, which must be the same on every rank:", 2}, {0}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .children = children,
        .args_doc = "[PLAN]",
        .doc = "Check hosts, network and files before a job: run `mpirun -n RANKS motley doctor PLAN --data FILE --out "
               "DIR` with the job's mpirun and flags.\v"
               "Every line says ok, warning or FAILURE, and what to do. Exits with 1 when a check fails."};
    struct mt_err err = MT_ERR_INIT;
    struct doctor_flags f = {.err = &err, .options.device = "cpu"};
    struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 60};
    int failures = 0;
    mt_data_flags_init(&f.data, &err);
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    mt_data_flags_find_tokenizer(&f.data, NULL, 0);
    if (!st) st = mt_data_flags_check(&f.data, &err);
    f.options.data = &f.data.files;
    watch.start_s = f.start_s;
    st = mt_session_start(&watch, st, &err);
    if (!st) st = mt_doctor_run(&f.options, &failures, &err); /* differences between ranks are findings */
    int code = mt_session_end(st, failures ? MT_EXIT_UNFIT : MT_EXIT_OK, &err);
    mt_data_flags_release(&f.data);
    return code;
}
