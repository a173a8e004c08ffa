/* motley profile: measure a cluster, or describe one. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>

#include "launcher/commands/command.h"
#include "launcher/profile/describe_cluster.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/job_flags.h"
#include "launcher/profile/cluster.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"
#include "profiler/describe/describe.h"

enum {
    KEY_OUT = 'o',
    KEY_MODEL = 'm',
    KEY_BUDGET = 0x2000,
    KEY_RAW,
    KEY_DEVICE,
    KEY_EMULATE,
    KEY_DEADLINE,
    KEY_HEARTBEAT,
    KEY_START_DEADLINE,
    KEY_DESCRIBE,
    KEY_MEASURED,
    KEY_HARDWARE,
    KEY_JSON
};

struct profile_flags {
    struct mt_err *err;
    struct mt_arena arena;
    struct mt_profile_cluster_options profile;
    struct mt_job_flags job;
    int models_capacity;
    bool measures; /* a flag for measuring was given */
    bool hardware;
    const char *describe, *measured;
};

static const struct argp_option flag_table[] = {
    {"out", KEY_OUT, "FILE", 0, "the cluster document to write [cluster.json]", 1},
    {0, 0, 0, 0, "Measuring:", 2},
    {"budget", KEY_BUDGET, "SECONDS", 0, "time to measure, about; less makes error bands wider [60]", 2},
    {"raw", KEY_RAW, "FILE", 0, "write all samples as CSV too", 2},
    MT_OPTION_DEADLINE(KEY_DEADLINE, "60", 2),
    MT_OPTION_HEARTBEAT(KEY_HEARTBEAT, 2),
    MT_OPTION_START_DEADLINE(KEY_START_DEADLINE, 2),
    MT_OPTION_DEVICE(KEY_DEVICE, "cpu", 2),
    MT_OPTION_EMULATE(KEY_EMULATE, 2),
    {0, 0, 0, 0, "Layers of jobs that will run here, for more accurate plans:", 3},
    {"model", KEY_MODEL, "TEXT", 0, "measure this model's layers too; may be repeated; " MT_MODEL_HELP, 3},
    {0, 0, 0, 0, "Describing a cluster instead of measuring:", 5},
    {"describe", KEY_DESCRIBE, "TEXT", 0, "as \"a100-40:2x8 nvlink=300G net=25G + a10:1x4 egress=1G\"", 5},
    {"measured", KEY_MEASURED, "FILE", 0,
     "a measured cluster, whose classes can be named, and by which public figures are calibrated", 5},
    {"hardware", KEY_HARDWARE, 0, 0, "list the known hardware", 5},
    MT_OPTION_JSON(KEY_JSON, 6),
    {0}};

/* Seconds, at most a day. */
static enum mt_status take_seconds(const char *flag, const char *text, double *value, struct mt_err *err) {
    static const double most = 86400;
    enum mt_status st = mt_flag_real(flag, text, value, err);
    if (st || (*value > 0 && *value <= most)) return st;
    return mt_fail(err, MT_EINPUT, "%s: is %g, but must be above 0 and at most %g", flag, *value, most);
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct profile_flags *f = state->input;
    struct mt_profile_cluster_options *p = &f->profile;
    enum mt_status st = MT_OK;
    f->measures = f->measures || key == KEY_MODEL || (key >= KEY_BUDGET && key <= KEY_START_DEADLINE);
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->job; break;
    case KEY_MODEL:
        mt_arena_grow(&f->arena, &p->models, p->nmodels, &f->models_capacity, sizeof *p->models);
        st = mt_job_flags_model(&f->job, text, &p->models[p->nmodels++]);
        break;
    case KEY_OUT: st = mt_flag_path("--out", text, &p->out, f->err); break;
    case KEY_BUDGET: st = take_seconds("--budget", text, &p->budget_s, f->err); break;
    case KEY_RAW: st = mt_flag_path("--raw", text, &p->raw, f->err); break;
    case KEY_DEADLINE: st = take_seconds("--deadline", text, &p->deadline_s, f->err); break;
    case KEY_HEARTBEAT: st = mt_flag_heartbeat(text, &p->heartbeat_s, f->err); break;
    case KEY_START_DEADLINE: st = mt_flag_seconds("--start-deadline", text, &p->start_s, f->err); break;
    case KEY_DEVICE: st = mt_flag_device(text, &p->device, f->err); break;
    case KEY_EMULATE: st = mt_emulation_parse(text, &f->arena, &p->emulation, f->err); break;
    case KEY_DESCRIBE: f->describe = text; break;
    case KEY_MEASURED: st = mt_flag_path("--measured", text, &f->measured, f->err); break;
    case KEY_HARDWARE: f->hardware = true; break;
    case KEY_JSON: st = mt_output_flag(text, state, NULL, &p->output, f->err); break;
    case ARGP_KEY_ARG:
        mt_flag_no_operand(text, f->err);
        st = mt_err_hint(f->err, "-o names the file to write; --describe describes a cluster");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

static enum mt_status resolve(struct profile_flags *f) {
    if ((f->describe || f->hardware) && f->measures)
        return mt_fail(f->err, MT_EINPUT,
                       "%s measures nothing: leave out --budget, --raw, --deadline, --heartbeat, "
                       "--start-deadline, --device, --emulate and --model",
                       f->describe ? "--describe" : "--hardware");
    if (f->measured && !f->describe) return mt_fail(f->err, MT_EINPUT, "--measured: has no use without --describe");
    if (f->describe && f->hardware) return mt_fail(f->err, MT_EINPUT, "--describe and --hardware exclude each other");
    if (f->job.given && !f->profile.nmodels)
        return mt_fail(f->err, MT_EINPUT, "the job's flags have no use without --model");
    enum mt_status st = mt_job_flags_resolve(&f->job, f->err);
    f->profile.job = f->job.job;
    return st;
}

/* --describe and --hardware, which need no MPI. */
static int describe_only(struct profile_flags *f) {
    struct mt_tables doc = MT_TABLES_INIT;
    struct mt_files files = {0};
    mt_files_reads(&files, "--measured", f->measured);
    mt_files_describes(&files, "--out", f->hardware ? NULL : f->profile.out);
    mt_files_writes(&files, "--json", f->profile.output.path, MT_TABLES_FORMAT);
    enum mt_status st = mt_files_check(&files, f->err);
    if (st) return mt_command_fail(f->err);
    if (f->hardware)
        mt_hardware_tables(&doc);
    else
        st = mt_describe_cluster(f->describe, f->measured, f->profile.out, &doc, f->err);
    if (!st) st = mt_output_end(&f->profile.output, &doc, f->err);
    mt_tables_release(&doc);
    return st ? mt_command_fail(f->err) : 0;
}

int mt_command_profile(int argc, char **argv) {
    const struct argp_child children[] = {{mt_job_argp(), 0, "The job, with --model:", 4}, {0}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .children = children,
        .doc =
            "Measure the cluster that `mpirun -n RANKS motley profile` runs on: devices, links and collectives; or "
            "describe a cluster by public figures.\v"
            "All ranks measure at the same time, as they would train: run nothing else on the machines. A CPU rank's "
            "device is the cores that mpirun binds it to; ranks of one host that are not bound (--bind-to none) "
            "divide its cores. With --device cuda it is the GPU of the rank's number on the host.\n\n"
            "A description is NAME[:NODES[xDEVICES]] [LINK=RATE ...], joined by \" + \": h100:2x8 is 2 nodes of 8, "
            "h100:8 "
            "are 8 nodes of one, h100 is one device. NAME is a row of --hardware, in small letters or capitals; LINK "
            "is "
            "net between nodes (bits a second, as 400G or 50GB/s), egress or ingress of a node, and nvlink, pcie or "
            "memory within it (bytes a second). At most 4096 devices."};
    struct mt_err err = MT_ERR_INIT;
    struct profile_flags f = {.err = &err,
                              .profile = {.out = "cluster.json",
                                          .device = "cpu",
                                          .budget_s = 60,
                                          .deadline_s = 60,
                                          .heartbeat_s = MT_WATCH_HEARTBEAT_S}};
    mt_job_flags_init(&f.job, &err);
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    int code;
    if (!st) st = resolve(&f);
    if (!st && (f.describe || f.hardware)) {
        code = describe_only(&f);
    } else {
        const struct mt_watch_options watch = {
            .heartbeat_s = f.profile.heartbeat_s, .start_s = f.profile.start_s, .deadline_s = f.profile.deadline_s};
        st = mt_session_begin(&watch, st, &err);
        if (!st) st = mt_profile_cluster(&f.profile, &err);
        code = mt_session_end(st, 0, &err);
    }
    mt_job_flags_release(&f.job);
    mt_arena_release(&f.arena);
    return code;
}
