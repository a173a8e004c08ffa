/* motley launch: start a plan on real hosts: its files, mpirun, restarts; or a script for Slurm. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/commands/command.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/output.h"
#include "launcher/launch/job.h"
#include "launcher/launch/slurm.h"

enum {
    KEY_OUT = 'o',
    KEY_EXPORT = 'x',
    KEY_HOSTS = 0x2000,
    KEY_SLURM,
    KEY_SLURM_JOB,
    KEY_CLUSTER,
    KEY_DESCRIBED,
    KEY_DRY_RUN,
    KEY_JSON,
    KEY_RESTART,
    KEY_AGENT,
    KEY_MCA,
    KEY_ANSWER,
    KEY_START,
    KEY_END,
    KEY_PARTITION,
    KEY_ACCOUNT,
    KEY_TIME,
    KEY_STOP,
    KEY_REQUEUE,
};

static const struct argp_option flag_table[] = {
    {0, 0, 0, 0, "Where:", 1},
    {"hosts", KEY_HOSTS, "FILE", 0, "a hostfile as mpirun's: a line for each host, as \"node1 slots=4\"", 1},
    {"slurm", KEY_SLURM, 0, 0, "write a script for sbatch instead of starting the job", 1},
    {"cluster", KEY_CLUSTER, "FILE", 0,
     "what `motley profile` says of the hosts: a described plan's nodes are matched with them, ranks are bound to the "
     "cores that it saw, and a restart plans again for it",
     1},
    {"described", KEY_DESCRIBED, "CLUSTER", 0,
     "the cluster that the plan was made for, a file or a description: then links are compared too", 1},
    {0, 0, 0, 0, "How:", 2},
    {"out", KEY_OUT, "DIR", 0, "folder for hostfile, rankfile, plan and mpirun.sh [launch]", 2},
    {"dry-run", KEY_DRY_RUN, 0, 0, "only write the files and print who goes where; no host is asked", 2},
    MT_OPTION_JSON(KEY_JSON, 2),
    {"agent", KEY_AGENT, "PROGRAM", 0,
     "what runs a command on a host: PROGRAM HOST COMMAND [$OMPI_MCA_plm_rsh_agent; else ssh]", 2},
    {"export", KEY_EXPORT, "NAME[=VALUE]", 0,
     "a variable for all ranks; may be repeated [those of MOTLEY_, NCCL_, CUDA_ (but CUDA_VISIBLE_DEVICES), "
     "OMP_ and LD_LIBRARY_PATH that are set]",
     2},
    {"mca", KEY_MCA, "NAME=VALUE", 0, "a parameter of Open MPI, as btl_tcp_if_include=eth0; may be repeated", 2},
    {0, 0, 0, 0, "Failures:", 3},
    {"restart", KEY_RESTART, "N", 0,
     "after a death: find who is there, plan again for what is left, go on from the last checkpoint; at most N times "
     "[0]",
     3},
    {"answer-deadline", KEY_ANSWER, "S", 0, "a host that does not answer within S seconds is not there [30]", 3},
    {"daemon-deadline", KEY_START, "S", 0,
     "mpirun is ended if no rank has started S seconds after it, and the hosts are named whose daemon has not reached "
     "it [300]",
     3},
    {"end-deadline", KEY_END, "S", 0, "mpirun is killed if it has not ended S seconds after its job [60]", 3},
    {0, 0, 0, 0, "Slurm:", 4},
    {"partition", KEY_PARTITION, "NAME", 0, "the script's --partition", 4},
    {"account", KEY_ACCOUNT, "NAME", 0, "the script's --account", 4},
    {"time", KEY_TIME, "TIME", 0, "the script's --time, as 4:00:00", 4},
    {"stop-before", KEY_STOP, "S", 0, "write a checkpoint and stop S seconds before the end of the time [120]", 4},
    {"slurm-job", KEY_SLURM_JOB, 0, 0,
     "within a job of Slurm: its nodes are the hosts, and a run that has a checkpoint goes on from it", 4},
    {"requeue", KEY_REQUEUE, 0, 0,
     "within a job of Slurm: have it queued again if SIGUSR2 stops it before its last step", 4},
    {0}};

struct launch_flags {
    struct mt_err *err;
    struct mt_arena arena;
    struct mt_job_options job;
    struct mt_slurm_options slurm;
    struct mt_output output;
    struct mt_tables doc;
    bool to_slurm;
    const char *slurm_flag; /* the first flag of the script alone */
    const char *ssh_flag;   /* the first flag about hosts that Slurm does not answer for */
    int mca_capacity, exports_capacity;
};

static void add(struct launch_flags *f, const char ***list, int *n, int *capacity, const char *text) {
    mt_arena_grow(&f->arena, list, *n, capacity, sizeof **list);
    (*list)[(*n)++] = text;
}

static enum mt_status take_mca(struct launch_flags *f, const char *text) {
    struct mt_mpirun_options *o = &f->job.start;
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (!name || text[name] != '=') return mt_fail(f->err, MT_EINPUT, "--mca: must be NAME=VALUE, not \"%.60s\"", text);
    add(f, &o->mca, &o->nmca, &f->mca_capacity, text);
    return MT_OK;
}

static enum mt_status take_export(struct launch_flags *f, const char *text) {
    struct mt_mpirun_options *o = &f->job.start;
    if (!*text || *text == '=')
        return mt_fail(f->err, MT_EINPUT, "--export: must be NAME or NAME=VALUE, not \"%.60s\"", text);
    const char *value = strchr(text, '=') ? "" : getenv(text);
    if (!value) return mt_fail(f->err, MT_EINPUT, "--export: %.60s is not set", text);
    add(f, &o->exports, &o->nexports, &f->exports_capacity,
        strchr(text, '=') ? text : mt_arena_printf(&f->arena, "%s=%s", text, value));
    return MT_OK;
}

static enum mt_status take_slurm(struct launch_flags *f, const char *flag, const char *text, const char **value) {
    if (!f->slurm_flag) f->slurm_flag = flag;
    return mt_flag_path(flag, text, value, f->err);
}

static void note_ssh(struct launch_flags *f, const char *flag) {
    if (!f->ssh_flag) f->ssh_flag = flag;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct launch_flags *f = state->input;
    struct mt_job_options *o = &f->job;
    enum mt_status st = MT_OK;
    int64_t count;
    switch (key) {
    case KEY_OUT:
        st = mt_flag_path("--out", text, &o->folder, f->err);
        if (text[0] == '-') o->folder = mt_arena_printf(&f->arena, "./%s", text); /* for sh, mpirun and train */
        break;
    case KEY_EXPORT: st = take_export(f, text); break;
    case KEY_HOSTS: st = mt_flag_path("--hosts", text, &o->hosts, f->err); break;
    case KEY_SLURM: f->to_slurm = true; break;
    case KEY_SLURM_JOB: o->start.in_slurm = true; break;
    case KEY_CLUSTER: st = mt_flag_path("--cluster", text, &o->cluster, f->err); break;
    case KEY_DESCRIBED: st = mt_flag_path("--described", text, &o->described, f->err); break;
    case KEY_DRY_RUN: o->dry_run = true; break;
    case KEY_JSON: st = mt_output_flag(text, state, NULL, &f->output, f->err); break;
    case KEY_RESTART:
        if (!(st = mt_flag_int("--restart", text, 0, 1000000, &count, f->err))) o->restarts = (int)count;
        break;
    case KEY_AGENT:
        o->start.agent_given = true;
        note_ssh(f, "--agent");
        st = mt_flag_path("--agent", text, &o->start.agent, f->err);
        break;
    case KEY_MCA: st = take_mca(f, text); break;
    case KEY_ANSWER:
        note_ssh(f, "--answer-deadline");
        st = mt_flag_seconds("--answer-deadline", text, &o->answer_s, f->err);
        break;
    case KEY_START: st = mt_flag_seconds("--daemon-deadline", text, &o->start_s, f->err); break;
    case KEY_END: st = mt_flag_seconds("--end-deadline", text, &o->end_s, f->err); break;
    case KEY_PARTITION: st = take_slurm(f, "--partition", text, &f->slurm.partition); break;
    case KEY_ACCOUNT: st = take_slurm(f, "--account", text, &f->slurm.account); break;
    case KEY_TIME: st = take_slurm(f, "--time", text, &f->slurm.time); break;
    case KEY_STOP:
        if (!f->slurm_flag) f->slurm_flag = "--stop-before";
        st = mt_flag_int("--stop-before", text, 1, 65535, &f->slurm.stop_s, f->err); /* Slurm's most */
        break;
    case KEY_REQUEUE: o->requeue = true; break;
    case ARGP_KEY_ARG: st = mt_flag_operand("plan", text, &o->plan, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

/* Of the files in the folder only the hostfile can be one that a person has written. */
static enum mt_status check_files(const struct launch_flags *f) {
    const struct mt_job_options *o = &f->job;
    struct mt_files files = {0};
    mt_files_reads(&files, NULL, o->plan);
    mt_files_reads(&files, "--hosts", o->hosts);
    mt_files_reads(&files, "--cluster", o->cluster);
    mt_files_reads(&files, "--described", o->described);
    const char *hostfile = mt_arena_printf(&files.arena, "%s/hostfile", o->folder);
    mt_files_writes(&files, "--out", access(hostfile, F_OK) ? NULL : hostfile, NULL);
    mt_files_writes(&files, "--json", f->output.path, MT_TABLES_FORMAT);
    return mt_files_check(&files, f->err);
}

static enum mt_status validate(const struct launch_flags *f) {
    const struct mt_job_options *o = &f->job;
    if (!o->plan) {
        mt_fail(f->err, MT_EINPUT, "launch what? Name a plan");
        return mt_err_hint(f->err, "`motley plan` makes one");
    }
    if (f->to_slurm && o->start.in_slurm)
        return mt_fail(f->err, MT_EINPUT,
                       "--slurm and --slurm-job exclude each other: one writes the script, the other "
                       "is in it");
    if (f->slurm_flag && !f->to_slurm)
        return mt_fail(f->err, MT_EINPUT, "%s: has no use without --slurm", f->slurm_flag);
    if (f->ssh_flag && (f->to_slurm || o->start.in_slurm))
        return mt_fail(f->err, MT_EINPUT, "%s: has no use with Slurm, which knows its nodes and starts the daemons",
                       f->ssh_flag);
    if (o->requeue && !o->start.in_slurm)
        return mt_fail(f->err, MT_EINPUT, "--requeue: has no use without --slurm-job");
    if (o->described && !o->cluster) return mt_fail(f->err, MT_EINPUT, "--described: has no use without --cluster");
    if ((f->output.json || f->output.path) && !o->dry_run)
        return mt_fail(f->err, MT_EINPUT, "--json: has no use without --dry-run");
    if (o->dry_run && f->to_slurm)
        return mt_fail(f->err, MT_EINPUT, "--dry-run: has no use with --slurm, which only writes");
    if (o->dry_run && o->restarts) return mt_fail(f->err, MT_EINPUT, "--restart: has no use with --dry-run");
    if (o->hosts && o->start.in_slurm)
        return mt_fail(f->err, MT_EINPUT, "--hosts: the nodes of the Slurm job are the hosts");
    if (o->start.in_slurm && !o->slurm) {
        mt_fail(f->err, MT_EINPUT, "--slurm-job: this is no job of Slurm: SLURM_JOB_NODELIST is not set");
        return mt_err_hint(f->err, "`motley launch --slurm` writes a script for sbatch in which it is");
    }
    if (o->hosts || f->to_slurm || o->start.in_slurm) return check_files(f);
    mt_fail(f->err, MT_EINPUT, "launch where? --hosts FILE or --slurm is missing");
    return mt_err_hint(f->err, "a hostfile has a line for each host, as \"node1 slots=4\"");
}

/* This program's path, which is to be the same on every host. */
static enum mt_status find_program(struct launch_flags *f) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return mt_fail_errno(f->err, "/proc/self/exe");
    path[length] = 0;
    f->job.start.program = f->slurm.program = mt_arena_strdup(&f->arena, path);
    return MT_OK;
}

/* The words of the script's last line: what was said here, but for what the script itself says. */
static char **script_words(struct launch_flags *f) {
    const struct mt_job_options *o = &f->job;
    const struct mt_mpirun_options *start = &o->start;
    struct mt_arena *arena = &f->arena;
    int ntrain = 0, n = 0;
    while (o->words[ntrain]) ntrain++;
    char **words = mt_new(arena, char *, ntrain + start->nmca + start->nexports + 17);
    words[n++] = "launch";
    words[n++] = mt_arena_printf(arena, "%s/plan.json", o->folder);
    words[n++] = "--slurm-job";
    words[n++] = "--requeue";
    words[n++] = mt_arena_printf(arena, "--out=%s/job", o->folder);
    words[n++] = mt_arena_printf(arena, "--daemon-deadline=%g", o->start_s);
    words[n++] = mt_arena_printf(arena, "--end-deadline=%g", o->end_s);
    if (o->cluster) words[n++] = mt_arena_printf(arena, "--cluster=%s", o->cluster);
    if (o->described) words[n++] = mt_arena_printf(arena, "--described=%s", o->described);
    if (o->restarts) words[n++] = mt_arena_printf(arena, "--restart=%d", o->restarts);
    for (int i = 0; i < start->nmca; i++) words[n++] = mt_arena_printf(arena, "--mca=%s", start->mca[i]);
    for (int i = 0; i < start->nexports; i++) words[n++] = mt_arena_printf(arena, "--export=%s", start->exports[i]);
    words[n++] = "--";
    for (int i = 0; i < ntrain; i++) words[n++] = o->words[i];
    if (o->out) words[n++] = mt_arena_printf(arena, "--out=%s", o->out);
    if (o->resume) words[n++] = mt_arena_printf(arena, "--resume=%s", o->resume);
    if (o->init) words[n++] = mt_arena_printf(arena, "--init=%s", o->init);
    return words;
}

/* Where the run writes: a restart, and Slurm, have to know it. */
static enum mt_status take_train(struct launch_flags *f, int argc, char **argv) {
    struct mt_job_options *o = &f->job;
    struct mt_train_words words;
    enum mt_status st = mt_train_words(argc, argv, &f->arena, &words, f->err);
    if (st) return mt_err_context(f->err, "the flags of train, after --");
    o->words = words.words, o->out = words.out, o->resume = words.resume, o->init = words.init;
    if (!o->out && !words.writes_nothing)
        o->out = o->resume && mt_is_folder(o->resume) ? o->resume : mt_arena_printf(&f->arena, "%s/run", o->folder);
    if (o->out || !(o->restarts || o->start.in_slurm)) return MT_OK;
    return mt_fail(f->err, MT_EINPUT, "%s: a run that writes nothing cannot be gone on with",
                   o->restarts ? "--restart" : "--slurm-job");
}

static enum mt_status launch(struct launch_flags *f, int ntrain, char **train, int *code) {
    struct mt_job_options *o = &f->job;
    const char *agent = getenv("OMPI_MCA_plm_rsh_agent");
    if (o->start.in_slurm) o->slurm = getenv("SLURM_JOB_NODELIST");
    if (!o->start.agent) o->start.agent = agent && *agent ? agent : "ssh";
    enum mt_status st;
    if ((st = validate(f)) || (st = find_program(f)) || (st = take_train(f, ntrain, train))) return st;
    if (!o->start.nexports) o->start.nexports = mt_job_exports(&f->arena, &o->start.exports);
    o->doc = &f->doc;
    if (!f->to_slurm) {
        st = mt_job_launch(o, code, f->err);
        return st || !o->dry_run ? st : mt_output_end(&f->output, &f->doc, f->err);
    }
    f->slurm.folder = o->folder;
    f->slurm.words = script_words(f);
    return mt_job_write_slurm(o, &f->slurm, f->err);
}

int mt_command_launch(int argc, char **argv) {
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "PLAN --hosts FILE -- FLAGS OF TRAIN",
        .doc =
            "Start a plan on real hosts: `motley launch plan.json --hosts hostfile -- --data text.txt`.\v"
            "What follows -- are flags of `motley train`; without --out among them the run's folder is run in that of "
            "launch. The plan, the data and the run's folder must be there on all hosts, by the same paths. The files "
            "that are written are for people too: `sh launch/mpirun.sh` starts the same job.\n\n"
            "Ctrl-C, SIGTERM, SIGUSR2 and SIGHUP have the job write a checkpoint and end with 0; SIGHUP, as when the "
            "terminal is closed, is ignored where it was (under nohup). SIGUSR1 has it write a checkpoint. A second "
            "Ctrl-C ends the job at once. Between two attempts, while hosts are asked or the job is planned again, "
            "one Ctrl-C ends launch.\n\n"
            "Variables that --export names, else those of its families that are set, are the same for all ranks. "
            "CUDA_VISIBLE_DEVICES of this host is not passed on, since another host has other GPUs: each keeps its "
            "own, but where the profile of --cluster says that ranks take other GPUs of a host than its first ones, "
            "launch sets it there, with CUDA_DEVICE_ORDER=PCI_BUS_ID.\n\n"
            "Exit codes are those of train: 4 if a rank or host was lost and no restart was left."};
    struct mt_err err = MT_ERR_INIT;
    struct launch_flags flags = {.err = &err, .job = {.folder = "launch", .answer_s = 30, .start_s = 300, .end_s = 60}};
    flags.slurm.stop_s = 120;
    int mine = 1, code = 0;
    while (mine < argc && strcmp(argv[mine], "--")) mine++;
    char **train = mt_new(&flags.arena, char *, argc - mine + 2);
    int ntrain = 1;
    train[0] = "motley train";
    for (int i = mine + 1; i < argc; i++) train[ntrain++] = argv[i];
    enum mt_status st = mt_flags_parse(&argp, mine, argv, &flags, &err);
    if (st && mine == argc && !strncmp(err.hint, "`motley launch --help`", 22))
        mt_err_hint(&err, "flags of `motley train` come after --: motley launch PLAN --hosts FILE -- --data FILE");
    if (!st) st = launch(&flags, ntrain, train, &code);
    mt_tables_release(&flags.doc);
    mt_arena_release(&flags.arena);
    return st ? mt_command_fail(&err) : code;
}
