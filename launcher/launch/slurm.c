/* Scripts for sbatch, and scontrol. */
#include "launcher/launch/slurm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text/printed.h"
#include "launcher/launch/files.h"
#include "launcher/launch/question.h"
#include "launcher/run/run.h"

/* ---- the script ---- */

struct node_kind {
    int ranks, count;
    const char *feature; /* of its ranks' classes, "a100-40" or "a100-40&a10" */
};

struct shape {
    int nnodes, most_ranks, least_ranks, nkinds;
    struct node_kind *kinds;
};

/* "h100", or "h100&a10": the classes of a host's ranks, each once. */
static const char *feature_of(const struct mt_plan *plan, const int *host_of, int host, struct mt_arena *arena) {
    const char *text = "";
    for (int r = 0; r < plan->nranks; r++) {
        bool seen = host_of[r] != host || !plan->ranks[r].class[0];
        for (int q = 0; q < r && !seen; q++)
            seen = host_of[q] == host && !strcmp(plan->ranks[q].class, plan->ranks[r].class);
        if (!seen) text = mt_arena_printf(arena, "%s%s%s", text, *text ? "&" : "", plan->ranks[r].class);
    }
    return text;
}

static struct shape shape_of(const struct mt_plan *plan, struct mt_arena *arena) {
    struct shape shape = {.least_ranks = plan->nranks};
    int *host_of = mt_plan_hosts(plan, arena, &shape.nnodes);
    shape.kinds = mt_new(arena, struct node_kind, shape.nnodes);
    for (int h = 0; h < shape.nnodes; h++) {
        struct node_kind kind = {.count = 1, .feature = feature_of(plan, host_of, h, arena)};
        for (int r = 0; r < plan->nranks; r++) kind.ranks += host_of[r] == h;
        if (kind.ranks > shape.most_ranks) shape.most_ranks = kind.ranks;
        if (kind.ranks < shape.least_ranks) shape.least_ranks = kind.ranks;
        int k = 0;
        while (k < shape.nkinds && strcmp(shape.kinds[k].feature, kind.feature)) k++;
        if (k < shape.nkinds)
            shape.kinds[k].count++;
        else
            shape.kinds[shape.nkinds++] = kind;
    }
    return shape;
}

static void print_nodes(const struct mt_slurm_options *o, const struct mt_plan *plan, const struct shape *shape,
                        FILE *f) {
    fprintf(f, "#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=%d\n#SBATCH --exclusive\n#SBATCH --mem=0\n",
            shape->nnodes, shape->most_ranks);
    if (!strcmp(plan->device, "cuda")) {
        if (shape->most_ranks > shape->least_ranks)
            fprintf(f, "# nodes have from %d to %d ranks: --exclusive gives the job all GPUs of each\n",
                    shape->least_ranks, shape->most_ranks);
        fprintf(f, "#SBATCH --gres=gpu:%d\n", shape->least_ranks);
    }
    if (o->names) {
        fprintf(f, "#SBATCH --nodelist=");
        for (int i = 0; o->names[i]; i++) fprintf(f, "%s%s", i ? "," : "", o->names[i]);
        fprintf(f, "\n");
    } else if (shape->nkinds > 1) {
        fprintf(f, "#SBATCH --constraint=\"[");
        for (int k = 0; k < shape->nkinds; k++) {
            const char *both = strchr(shape->kinds[k].feature, '&');
            fprintf(f, "%s%s%s%s*%d", k ? "&" : "", both ? "(" : "", shape->kinds[k].feature, both ? ")" : "",
                    shape->kinds[k].count);
        }
        fprintf(f, "]\"\n");
    }
}

/* What goes into a line of #SBATCH has no blanks and no quotes; '%' begins a pattern of Slurm's. */
static bool fits_line(const char *text) {
    return !text[strcspn(text, " \t\r\n\"'\\#%")];
}

static void print_script(const struct mt_slurm_options *o, const struct mt_plan *plan, struct mt_arena *arena,
                         FILE *f) {
    const struct shape shape = shape_of(plan, arena);
    char *here = getcwd(NULL, 0);
    fprintf(f, "#!/bin/sh\n# plan %s, %d rank%s on %d node%s\n#SBATCH --job-name=motley\n", plan->hash, plan->nranks,
            plan->nranks == 1 ? "" : "s", shape.nnodes, shape.nnodes == 1 ? "" : "s");
    print_nodes(o, plan, &shape, f);
    if (o->partition) fprintf(f, "#SBATCH --partition=%s\n", o->partition);
    if (o->account) fprintf(f, "#SBATCH --account=%s\n", o->account);
    if (o->time) fprintf(f, "#SBATCH --time=%s\n", o->time);
    fprintf(f, "# before the end of its time the job writes a checkpoint, ends, and is queued again\n");
    fprintf(f, "#SBATCH --signal=B:USR2@%lld\n#SBATCH --requeue\n#SBATCH --open-mode=append\n", (long long)o->stop_s);
    bool from_here = here && o->folder[0] != '/' && fits_line(here); /* else from where sbatch is called */
    fprintf(f, "#SBATCH --output=%s%s%s/job-%%j.out\n", from_here ? here : "", from_here ? "/" : "", o->folder);
    if (here) fprintf(f, "cd %s || exit 1\n", mt_shell_word(here, arena));
    free(here);
    fprintf(f, "export SLURM_WHOLE=1 # mpirun's daemons get whole nodes\nexec %s", mt_shell_word(o->program, arena));
    for (char **word = o->words; *word; word++) fprintf(f, " %s", mt_shell_word(*word, arena));
    fprintf(f, "\n");
}

static enum mt_status check_word(const char *flag, const char *text, struct mt_err *err) {
    if (!text || fits_line(text)) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: \"%.60s\" has characters that a line of #SBATCH cannot have", flag, text);
}

/* Seconds of a time as sbatch takes it: [DAYS-]HOURS[:MINUTES[:SECONDS]], or MINUTES[:SECONDS] or three numbers without
 * days; -1: it is none of these. */
static int64_t seconds_of(const char *text) {
    enum { MOST_DIGITS = 9 };
    int64_t days = 0, numbers[3] = {0};
    const char *dash = strchr(text, '-');
    int n = 0;
    for (const char *at = text; n < 3; at++) {
        size_t digits = strspn(at, "0123456789");
        if (!digits || digits > MOST_DIGITS) return -1;
        int64_t number = strtoll(at, NULL, 10);
        at += digits;
        if (at == dash && !n && !days)
            days = number + 1; /* as 0 is a day too */
        else if (numbers[n++] = number, !*at)
            break;
        else if (*at != ':' || n == 3)
            return -1;
    }
    if (days) return (days - 1) * 86400 + numbers[0] * 3600 + numbers[1] * 60 + numbers[2];
    return n == 3 ? numbers[0] * 3600 + numbers[1] * 60 + numbers[2] : numbers[0] * 60 + numbers[1];
}

static enum mt_status check_time(const struct mt_slurm_options *o, struct mt_err *err) {
    static const char *const without[] = {"UNLIMITED", "INFINITE", "0"};
    for (int i = 0; i < 3; i++)
        if (!o->time || !strcmp(o->time, without[i])) return MT_OK;
    int64_t seconds = seconds_of(o->time);
    if (seconds < 0) {
        mt_fail(err, MT_EINPUT, "--time: \"%.60s\" is no time of Slurm", o->time);
        return mt_err_hint(err, "minutes, hours:minutes:seconds, days-hours or days-hours:minutes:seconds, as 4:00:00");
    }
    if (seconds > o->stop_s) return MT_OK;
    mt_fail(err, MT_EINPUT, "--time %s: the job would be asked to stop %lld s before the end of its %lld s", o->time,
            (long long)o->stop_s, (long long)seconds);
    return mt_err_hint(err, "ask for more time, or name less with --stop-before SECONDS");
}

enum mt_status mt_slurm_check(const struct mt_slurm_options *o, struct mt_err *err) {
    enum mt_status st;
    if ((st = check_word("--partition", o->partition, err)) || (st = check_word("--account", o->account, err)) ||
        (st = check_word("--time", o->time, err)) || (st = check_word("--out", o->folder, err)))
        return st;
    return check_time(o, err);
}

enum mt_status mt_slurm_write(const struct mt_slurm_options *o, const struct mt_plan *plan, struct mt_arena *arena,
                              struct mt_err *err) {
    struct mt_printed printed;
    enum mt_status st = mt_slurm_check(o, err);
    for (int i = 0; !st && o->names && o->names[i]; i++) st = check_word("the plan's hosts", o->names[i], err);
    for (int r = 0; !st && r < plan->nranks; r++) st = check_word("the plan's classes", plan->ranks[r].class, err);
    if (st) return st;
    print_script(o, plan, arena, mt_printed_begin(&printed));
    char *text = mt_printed_end(&printed);
    st = mt_file_replace(mt_arena_printf(arena, "%s/job.sbatch", o->folder), text, printed.length, err);
    free(text);
    return st;
}

/* ---- within a job ---- */

/* What a command of Slurm prints, through a shell, with words that are quoted; the caller frees it. A controller that
 * is down is awaited by Slurm's own commands for minutes. */
static enum mt_status ask_slurm(char *command, char **text, struct mt_err *err) {
    static const double deadline_s = 60;
    struct mt_question q;
    enum mt_status st = MT_OK;
    mt_question_begin(&q, (char *[]){"sh", "-c", command, NULL});
    mt_questions_end(&q, 1, deadline_s, NULL);
    if (!q.in_time) {
        st = mt_fail(err, MT_ESYSTEM, "%s: no answer for %.0f s", command, deadline_s);
        mt_err_hint(err, "`scontrol ping` says whether Slurm's controller is up");
    } else if (!mt_question_answered(&q)) {
        st = mt_fail(err, MT_ESYSTEM, "%s: ended with %d%s%.*s", command,
                     WIFEXITED(q.status) ? WEXITSTATUS(q.status) : -1, *q.text ? ": " : "", (int)strcspn(q.text, "\n"),
                     q.text);
    }
    *text = q.text;
    return st;
}

/* The nodes' features, by which unlike nodes are told apart; a Slurm that does not say them has none. */
static void ask_features(const char *nodes, struct mt_arena *arena, struct mt_hosts *hosts) {
    char *text, *rest = NULL;
    struct mt_err ignored = MT_ERR_INIT;
    char *command = mt_arena_printf(arena, "sinfo -h -N -n %s -o '%%N %%b'", mt_shell_word(nodes, arena));
    bool failed = ask_slurm(command, &text, &ignored) != MT_OK;
    for (char *line = strtok_r(text, "\n", &rest); line && !failed; line = strtok_r(NULL, "\n", &rest)) {
        char *blank = strchr(line, ' ');
        if (!blank) continue;
        *blank = 0;
        int host = mt_hosts_find(hosts, line);
        if (host >= 0) hosts->hosts[host].features = mt_arena_strdup(arena, blank + 1);
    }
    free(text);
}

enum mt_status mt_slurm_hosts(const char *nodes, struct mt_arena *arena, struct mt_hosts *hosts, struct mt_err *err) {
    char *text;
    char *command = mt_arena_printf(arena, "scontrol show hostnames %s", mt_shell_word(nodes, arena));
    enum mt_status st = ask_slurm(command, &text, err);
    if (!st) st = mt_hosts_parse("SLURM_JOB_NODELIST", text, arena, hosts, err);
    free(text);
    if (st) return st;
    for (int h = 0; h < hosts->n; h++) hosts->hosts[h].answers = true;
    ask_features(nodes, arena, hosts);
    return MT_OK;
}

enum mt_status mt_slurm_requeue(const char *run_folder, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_run_doc run;
    const char *job = getenv("SLURM_JOB_ID");
    enum mt_status st = MT_OK;
    if (!job) st = mt_fail(err, MT_EINPUT, "--requeue: this is no job of Slurm: SLURM_JOB_ID is not set");
    if (!st && run_folder) st = mt_run_read(mt_arena_printf(&arena, "%s/run.json", run_folder), &run, err);
    if (!st && run_folder) {
        bool stopped = !strcmp(run.ended, "stopped by a signal");
        mt_run_release(&run);
        if (stopped) {
            mt_log(MT_LOG_INFO, "launch: job %s goes back into the queue: its run was stopped before its end", job);
            char *said;
            st = ask_slurm(mt_arena_printf(&arena, "scontrol requeue %s", mt_shell_word(job, &arena)), &said, err);
            free(said);
        }
    }
    mt_arena_release(&arena);
    return st;
}
