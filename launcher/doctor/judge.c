/* Judging: one function per finding, in the order of the table at the end. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/text/units.h"
#include "launcher/doctor/internal.h"
#include "launcher/watch/watch.h"
#include "planner/plan/planned.h"

void mt_doctor_say(struct doctor_finding *f, enum doctor_level level, const char *remedy, const char *format, ...) {
    size_t used = level > f->level ? 0 : strlen(f->text);
    if (level < f->level) return;
    va_list args;
    va_start(args, format);
    if (used && used + 2 < DOCTOR_SAID) used += (size_t)snprintf(f->text + used, DOCTOR_SAID - used, "; ");
    vsnprintf(f->text + used, DOCTOR_SAID - used, format, args);
    va_end(args);
    f->level = level;
    snprintf(f->remedy, DOCTOR_SAID, "%s", remedy ? remedy : "");
}

bool mt_doctor_is_first(const struct mt_doctor *d, int r) {
    for (int q = 0; q < r; q++)
        if (!strcmp(d->ranks[q].host, d->ranks[r].host)) return false;
    return true;
}

int mt_doctor_count_on_host(const struct mt_doctor *d, int r) {
    int n = 0;
    for (int q = 0; q < d->nranks; q++) n += !strcmp(d->ranks[q].host, d->ranks[r].host);
    return n;
}

int mt_doctor_count_hosts(const struct mt_doctor *d) {
    int n = 0;
    for (int r = 0; r < d->nranks; r++) n += mt_doctor_is_first(d, r);
    return n;
}

/* ---- versions and modules ---- */

static void judge_versions(const struct mt_doctor *d, struct doctor_finding *f) {
    const struct mt_doctor_rank *first = &d->ranks[0];
    mt_doctor_say(f, DOCTOR_OK, NULL, "motley %s, %s on %d rank%s, %d host%s", first->motley, first->mpi, d->nranks,
                  d->nranks == 1 ? "" : "s", mt_doctor_count_hosts(d), mt_doctor_count_hosts(d) == 1 ? "" : "s");
    for (int r = 1; r < d->nranks; r++) {
        if (strcmp(d->ranks[r].motley, first->motley))
            mt_doctor_say(f, DOCTOR_FAILURE, "install one version of Motley on all hosts",
                          "rank %d on %s has motley %s, rank 0 %s", r, d->ranks[r].host, d->ranks[r].motley,
                          first->motley);
        if (strcmp(d->ranks[r].mpi, first->mpi))
            mt_doctor_say(f, DOCTOR_FAILURE, "install one version of Open MPI on all hosts",
                          "rank %d on %s has %s, rank 0 %s", r, d->ranks[r].host, d->ranks[r].mpi, first->mpi);
    }
}

static void judge_onednn(const struct mt_doctor *d, struct doctor_finding *f) {
    mt_doctor_say(f, DOCTOR_OK, NULL, "oneDNN is used on all ranks");
    for (int r = 0; r < d->nranks; r++)
        if (d->ranks[r].onednn[0] && mt_doctor_is_first(d, r))
            mt_doctor_say(f, DOCTOR_WARNING,
                          "install libdnnl-dev, build again, or set MOTLEY_MODULES; mpirun -x passes variables on",
                          "on %s GEMMs are plain C, and slow: %s", d->ranks[r].host, d->ranks[r].onednn);
}

static void judge_glpk(const struct mt_doctor *d, struct doctor_finding *f) {
    if (d->ranks[0].glpk[0])
        mt_doctor_say(f, DOCTOR_WARNING,
                      "install libglpk-dev and build again, or plan elsewhere: training does not need it",
                      "`motley plan` cannot solve for shares on %s: %s", d->ranks[0].host, d->ranks[0].glpk);
    else
        mt_doctor_say(f, DOCTOR_OK, NULL, "GLPK solves for shares on %s", d->ranks[0].host);
}

/* ---- cores, memory, limits ---- */

/* The ranks of one host: equal affinity masks are divided among them, others must not overlap. */
static void judge_host_cores(const struct mt_doctor *d, int first, struct doctor_finding *f) {
    const struct mt_doctor_rank *a = &d->ranks[first];
    int n = mt_doctor_count_on_host(d, first), used;
    cpu_set_t all = a->mask, both;
    bool same = true, meet = false;
    for (int r = first + 1; r < d->nranks; r++) {
        if (strcmp(d->ranks[r].host, a->host)) continue;
        same = same && CPU_EQUAL(&d->ranks[r].mask, &a->mask);
        CPU_OR(&all, &all, &d->ranks[r].mask);
        for (int q = first; q < r; q++) {
            if (strcmp(d->ranks[q].host, a->host)) continue;
            CPU_AND(&both, &d->ranks[q].mask, &d->ranks[r].mask);
            meet = meet || CPU_COUNT(&both);
        }
    }
    used = CPU_COUNT(&all);
    if (n > used)
        mt_doctor_say(f, DOCTOR_WARNING, "start fewer ranks there", "%s: %d ranks share %d core%s", a->host, n, used,
                      used == 1 ? "" : "s");
    else if (n > 1 && !same && meet)
        mt_doctor_say(f, DOCTOR_WARNING, "--bind-to core --map-by slot:PE=CORES gives every rank cores of its own",
                      "%s: ranks are bound to cores that overlap", a->host);
    if (used < a->host_cores)
        mt_doctor_say(f, DOCTOR_WARNING, "with --bind-to none the ranks divide all cores",
                      "%s: its ranks are bound to %d of its %d cores", a->host, used, a->host_cores);
    mt_doctor_say(f, DOCTOR_OK, NULL, "%s: %d rank%s on %d core%s", a->host, n, n == 1 ? "" : "s", used,
                  used == 1 ? "" : "s");
}

static void judge_cores(const struct mt_doctor *d, struct doctor_finding *f) {
    for (int r = 0; r < d->nranks; r++)
        if (mt_doctor_is_first(d, r)) judge_host_cores(d, r, f);
}

static void judge_threads(const struct mt_doctor *d, struct doctor_finding *f) {
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_doctor_rank *a = &d->ranks[r];
        if (a->omp_threads > a->cores)
            mt_doctor_say(f, DOCTOR_WARNING, "unset OMP_NUM_THREADS: ranks take as many threads as they have cores",
                          "rank %d on %s: OMP_NUM_THREADS is %d, but it has %d core%s", r, a->host, a->omp_threads,
                          a->cores, a->cores == 1 ? "" : "s");
    }
    mt_doctor_say(f, DOCTOR_OK, NULL, d->ranks[0].omp_threads ? "OMP_NUM_THREADS is %d on rank 0" : "as many as cores",
                  d->ranks[0].omp_threads);
}

static void judge_memory(const struct mt_doctor *d, struct doctor_finding *f) {
    char has[MT_UNITS_TEXT], needs[MT_UNITS_TEXT];
    bool planned = d->plan_rank;
    for (int r = 0; r < d->nranks; r++) {
        if (!mt_doctor_is_first(d, r)) continue;
        int64_t wants = 0;
        for (int q = r; q < d->nranks && planned; q++)
            if (!strcmp(d->ranks[q].host, d->ranks[r].host)) wants += d->plan->memory[d->plan_rank[q]].arena_bytes;
        mt_units_bytes((double)d->ranks[r].room_bytes, has);
        mt_units_bytes((double)wants, needs);
        if (wants > d->ranks[r].room_bytes)
            mt_doctor_say(f, DOCTOR_FAILURE, "plan with a smaller --micro or --batch, or with --storage split",
                          "%s: its ranks need %s, and %s are free", d->ranks[r].host, needs, has);
        else
            mt_doctor_say(f, DOCTOR_OK, NULL, planned ? "%s: %s are free, the plan needs %s" : "%s: %s are free",
                          d->ranks[r].host, has, needs);
    }
}

/* Needed in /dev/shm by each rank of a host. NCCL keeps buffers of some MiB there for each channel between ranks
 * without peer access. */
static const int64_t mpi_shared_bytes = 8 << 20, nccl_shared_bytes = 64 << 20;

static void judge_shared_memory(const struct mt_doctor *d, struct doctor_finding *f) {
    for (int r = 0; r < d->nranks; r++) {
        int n = mt_doctor_count_on_host(d, r);
        char has[MT_UNITS_TEXT];
        if (!mt_doctor_is_first(d, r)) continue;
        if (d->ranks[r].shared_bytes < 0 && n > 1)
            mt_doctor_say(f, DOCTOR_WARNING, "mount a tmpfs there",
                          "%s has no /dev/shm, through which ranks of a host communicate", d->ranks[r].host);
        else if (n > 1 && d->ranks[r].shared_bytes < n * (doctor_on_gpus(d) ? nccl_shared_bytes : mpi_shared_bytes))
            mt_doctor_say(f, DOCTOR_WARNING, "mount -o remount,size=1G /dev/shm, or --shm-size for a container",
                          "%s: /dev/shm has %s left for %d ranks", d->ranks[r].host,
                          mt_units_bytes((double)d->ranks[r].shared_bytes, has), n);
    }
    mt_doctor_say(f, DOCTOR_OK, NULL, "enough space in /dev/shm");
}

static void judge_files(const struct mt_doctor *d, struct doctor_finding *f) {
    if (d->ranks[0].files < d->nranks + 64)
        mt_doctor_say(f, DOCTOR_FAILURE, "raise the limit on open files (ulimit -Hn)",
                      "rank 0 on %s may open %lld files, for %d ranks", d->ranks[0].host, (long long)d->ranks[0].files,
                      d->nranks);
    else
        mt_doctor_say(f, DOCTOR_OK, NULL, "rank 0 may open a connection to every rank");
}

/* ---- between hosts ---- */

static void judge_network(const struct mt_doctor *d, struct doctor_finding *f) {
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_doctor_rank *a = &d->ranks[r];
        for (int u = 0; u < a->nunreached && u < MT_DOCTOR_MOST_UNREACHED; u++)
            mt_doctor_say(f, DOCTOR_FAILURE,
                          "open TCP ports above 1023 between the hosts, and check `ip addr` and `ip route` there",
                          "rank %d on %s reaches rank %d on %s at none of its addresses", r, a->host, a->unreached[u],
                          d->ranks[a->unreached[u]].host);
    }
    mt_doctor_say(f, DOCTOR_OK, NULL,
                  d->nranks == 1 ? "one rank, which needs no network" : "ranks reach each other over TCP");
}

static void judge_clocks(const struct mt_doctor *d, struct doctor_finding *f) {
    double most_s = 0;
    for (int r = 1; r < d->nranks; r++) {
        const struct mt_doctor_rank *a = &d->ranks[r];
        double ahead_s = fabs(a->clock_s) - a->clock_error_s;
        if (ahead_s > most_s) most_s = ahead_s;
        if (ahead_s > 1)
            mt_doctor_say(f, DOCTOR_WARNING,
                          "run a time service (chrony, ntpd): logs and files of these hosts cannot be compared",
                          "the clock of %s is %.1f s %s that of %s", a->host, fabs(a->clock_s),
                          a->clock_s > 0 ? "ahead of" : "behind", d->ranks[0].host);
    }
    char text[MT_UNITS_TEXT];
    mt_doctor_say(f, DOCTOR_OK, NULL, "clocks differ by less than %s", mt_units_seconds(most_s + 0.001, text));
}

/* ---- the job ---- */

/* A file that every rank must read, but for those that are `spared`, and that must be the same: the member of struct
 * mt_doctor_rank at `at`. */
static void judge_copies(const struct mt_doctor *d, size_t at, bool (*spared)(const struct mt_doctor *, int),
                         const char *remedy, struct doctor_finding *f) {
    const struct mt_doctor_file *first = NULL;
    int first_rank = 0;
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_doctor_file *file = (const void *)((const char *)&d->ranks[r] + at);
        if (spared(d, r)) continue;
        if (!first) first = file, first_rank = r;
        if (!file->read)
            mt_doctor_say(f, DOCTOR_FAILURE, "copy it to every host, or use a folder that all share",
                          "rank %d on %s: %s", r, d->ranks[r].host, file->text);
        else if (first->read && strcmp(file->text, first->text))
            mt_doctor_say(f, DOCTOR_FAILURE, remedy, "rank %d on %s has %s, rank %d %s", r, d->ranks[r].host,
                          file->text, first_rank, first->text);
    }
}

static bool none_is_spared(const struct mt_doctor *d, int r) {
    (void)d, (void)r;
    return false;
}

/* Whether ranks that the plan's program takes for alike are, as training demands. */
static void judge_alike(const struct mt_doctor *d, struct doctor_finding *f) {
    const struct mt_plan *plan = d->plan;
    struct mt_planned planned;
    struct mt_err err = MT_ERR_INIT;
    int one, other;
    if (strcmp(plan->device, d->options->device)) return;
    mt_watch_phase(MT_WATCH_SLOW, "building the plan's program");
    if (mt_planned_open(plan, &planned, &err)) {
        mt_doctor_say(f, DOCTOR_FAILURE, err.hint, "%s", err.text);
        return;
    }
    const char **texts = mt_calloc((size_t)plan->nplaces, sizeof *texts);
    bool seen = true;
    for (int r = 0; r < d->nranks; r++) {
        int place = mt_plan_place(plan, d->plan_rank[r]);
        if (place < 0) continue;
        texts[place] = d->ranks[r].device;
        seen = seen && d->ranks[r].device[0];
    }
    if (seen && mt_alike_differ(&planned.program, texts, &one, &other)) {
        mt_alike_refuse(texts, one, other, plan->order[one], plan->order[other], &err);
        mt_doctor_say(f, DOCTOR_FAILURE, err.hint, "%s", err.text);
    }
    free(texts);
    mt_planned_release(&planned);
}

static void judge_plan(const struct mt_doctor *d, struct doctor_finding *f) {
    if (!d->options->plan) {
        mt_doctor_say(f, DOCTOR_OK, NULL, "none was given");
        return;
    }
    judge_copies(d, offsetof(struct mt_doctor_rank, plan), none_is_spared, "copy one plan to every host", f);
    if (!d->plan || f->level) return;
    if (d->plan->hypothetical[0]) {
        mt_doctor_say(f, DOCTOR_FAILURE, "plan without --hypothetical, for devices that run the job",
                      "%s is hypothetical and cannot run here: %s", d->plan->hash, d->plan->hypothetical);
        return;
    }
    const char **hosts = mt_malloc((size_t)d->nranks * sizeof *hosts);
    int *rank_of = mt_malloc((size_t)d->nranks * sizeof *rank_of);
    struct mt_err err = MT_ERR_INIT;
    for (int r = 0; r < d->nranks; r++) hosts[r] = d->ranks[r].host;
    if (mt_plan_match(d->plan, d->nranks, hosts, rank_of, &err))
        mt_doctor_say(f, DOCTOR_FAILURE, err.hint, "%s", err.text);
    else
        judge_alike(d, f);
    if (!f->level && d->plan->nplaces < d->nranks)
        mt_doctor_say(f, DOCTOR_OK, NULL, "%s fits the ranks and hosts, and leaves %d of %d ranks idle", d->plan->hash,
                      d->nranks - d->plan->nplaces, d->nranks);
    else if (!f->level)
        mt_doctor_say(f, DOCTOR_OK, NULL, "%s fits the ranks and hosts", d->plan->hash);
    if (!strcmp(d->plan->device, "cuda") && strcmp(d->options->device, "cuda"))
        mt_doctor_say(f, DOCTOR_WARNING, "give --device cuda, unless it will be trained with --device cpu",
                      "it is for GPUs, which were not checked");
    free(hosts);
    free(rank_of);
}

static void judge_data(const struct mt_doctor *d, struct doctor_finding *f) {
    if (!d->options->data->ndata) {
        mt_doctor_say(f, DOCTOR_OK, NULL, "none was given");
        return;
    }
    judge_copies(d, offsetof(struct mt_doctor_rank, data), doctor_is_idle, "copy one file to every host", f);
    mt_doctor_say(f, DOCTOR_OK, NULL, "%s on every rank%s", d->ranks[d->leader].data.text,
                  d->plan_rank && d->plan->nplaces < d->nranks ? " that takes part" : "");
}

/* Bytes of a checkpoint, with every state once: the sum over ranks if states are sharded, else the largest rank's. */
static int64_t checkpoint_bytes(const struct mt_doctor *d) {
    int64_t most = 0, sum = 0;
    for (int r = 0; d->plan && r < d->plan->nranks; r++) {
        sum += d->plan->memory[r].state_bytes;
        if (d->plan->memory[r].state_bytes > most) most = d->plan->memory[r].state_bytes;
    }
    return d->plan && d->plan->decisions.nstorage ? sum : most;
}

static bool is_full(int why) {
    return why == ENOSPC || why == EDQUOT;
}

/* Of a folder that cannot be written, by errno. */
static const char *remedy_of(int why) {
    if (why == ENOENT || why == ENOTDIR) return "make the folder, or choose another one with --out";
    if (is_full(why)) return "make room, or choose a folder elsewhere with --out";
    if (why == EROFS) return "choose a folder on a file system that is not read-only with --out";
    return "choose a folder that may be written to with --out";
}

static void judge_out(const struct mt_doctor *d, struct doctor_finding *f) {
    const char *folder = d->options->out ? d->options->out : "run, run-2, ... in this folder, without --out";
    struct mt_arena arena = MT_ARENA_INIT;
    char has[MT_UNITS_TEXT], one[MT_UNITS_TEXT];
    int64_t needs = checkpoint_bytes(d);
    mt_units_bytes((double)d->out.free_bytes, has);
    mt_units_bytes((double)needs, one);
    bool shared = true;
    for (int r = 0; r < d->nranks; r++) shared = shared && d->ranks[r].sees_out;
    bool small = needs && d->out.free_bytes < 3 * needs;
    bool fits = needs && !small && d->out.refused == ENOSPC; /* what the trial file did not */
    const char *kept = small ? mt_arena_printf(&arena,
                                               "%s are free, and up to three checkpoints of about %s are kept "
                                               "at a time",
                                               has, one)
                             : mt_arena_printf(&arena, "%s are free", has);
    if (d->out.refused && !fits)
        mt_doctor_say(f, DOCTOR_FAILURE, remedy_of(d->out.refused), "%s: cannot be written: %s%s%s", folder,
                      strerror(d->out.refused), is_full(d->out.refused) ? "; " : "",
                      is_full(d->out.refused) ? kept : "");
    else if (small)
        mt_doctor_say(f, DOCTOR_FAILURE, "make room, or keep fewer checkpoints (--keep 1 needs two at a time)",
                      "%s: %s", folder, kept);
    if (d->out.lock[0])
        mt_doctor_say(f, DOCTOR_WARNING, "make sure that no two runs write there", "%s: cannot be locked: %s", folder,
                      d->out.lock);
    mt_doctor_say(
        f, DOCTOR_OK, NULL, "%s: writable, %s free, %.0f MB/s, %s", folder, has, d->out.write_Bps / 1e6,
        shared ? "seen by all ranks"
               : mt_arena_printf(&arena, "rank %d's own, which is enough: checkpoints go through it", d->leader));
    mt_arena_release(&arena);
}

static const double slurm_kill_s = 30;

static void judge_signals(const struct mt_doctor *d, struct doctor_finding *f) {
    double grace_s = d->ranks[0].grace_s;
    double save_s = d->out.write_Bps > 0 ? (double)checkpoint_bytes(d) / d->out.write_Bps : 0;
    if (d->ranks[0].slurm)
        mt_doctor_say(f, save_s > slurm_kill_s ? DOCTOR_WARNING : DOCTOR_OK,
                      save_s > slurm_kill_s
                          ? "sbatch --signal=USR2@SECONDS requests a checkpoint so long before the time limit"
                          : NULL,
                      "Slurm kills %g s after SIGTERM, unless the site sets KillWait%s", slurm_kill_s,
                      save_s > slurm_kill_s ? ", and a checkpoint takes longer" : "");
    if (grace_s < 0)
        mt_doctor_say(f, DOCTOR_OK, NULL, "not under mpirun: SIGTERM writes a checkpoint and ends the run");
    else if (save_s > grace_s)
        mt_doctor_say(f, DOCTOR_WARNING, "end a run with SIGUSR2, or give --mca odls_base_sigkill_timeout SECONDS",
                      "mpirun kills ranks %g s after SIGTERM, and a checkpoint takes about %.0f s", grace_s,
                      ceil(save_s));
    else
        mt_doctor_say(f, DOCTOR_OK, NULL, "mpirun kills ranks %g s after SIGTERM; SIGUSR2 has no such limit", grace_s);
}

/* ---- all of it ---- */

enum where { EVERYWHERE, ON_CPUS, ON_GPUS };
static const struct {
    const char *what;
    enum where where;
    void (*judge)(const struct mt_doctor *, struct doctor_finding *);
} findings[] = {
    {"versions", EVERYWHERE, judge_versions},
    {"products", ON_CPUS, judge_onednn},
    {"solver", EVERYWHERE, judge_glpk},
    {"driver", ON_GPUS, mt_doctor_judge_driver},
    {"libraries", ON_GPUS, mt_doctor_judge_libraries},
    {"gpus", ON_GPUS, mt_doctor_judge_gpus},
    {"precision", ON_GPUS, mt_doctor_judge_precision},
    {"memory", ON_GPUS, mt_doctor_judge_gpu_memory},
    {"peers", ON_GPUS, mt_doctor_judge_peers},
    {"nccl", ON_GPUS, mt_doctor_judge_interfaces},
    {"cores", EVERYWHERE, judge_cores},
    {"threads", ON_CPUS, judge_threads},
    {"memory", ON_CPUS, judge_memory},
    {"shm", EVERYWHERE, judge_shared_memory},
    {"files", EVERYWHERE, judge_files},
    {"network", EVERYWHERE, judge_network},
    {"clocks", EVERYWHERE, judge_clocks},
    {"plan", EVERYWHERE, judge_plan},
    {"data", EVERYWHERE, judge_data},
    {"out", EVERYWHERE, judge_out},
    {"signals", EVERYWHERE, judge_signals},
};

static const struct {
    const char *text, *word; /* for people, for machines */
    enum mt_style style;
} levels[] = {[DOCTOR_OK] = {"ok", "ok", MT_STYLE_PLAIN},
              [DOCTOR_WARNING] = {"warning", "warning", MT_STYLE_WARNING},
              [DOCTOR_FAILURE] = {"FAILURE", "failure", MT_STYLE_ERROR}};

static struct mt_table *begin_findings(struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "findings", "findings", "");
    t->machines_only = true;
    mt_table_columns(t, {"what", "what", MT_UNIT_TEXT}, {"level", "level", MT_UNIT_TEXT},
                     {"text", "text", MT_UNIT_TEXT}, {"remedy", "remedy", MT_UNIT_TEXT});
    return t;
}

void mt_doctor_judge(struct mt_doctor *d, struct mt_tables *out) {
    struct mt_table *t = begin_findings(out);
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++) {
        struct doctor_finding f = {DOCTOR_OK, "", ""};
        if (findings[i].where == (doctor_on_gpus(d) ? ON_CPUS : ON_GPUS)) continue;
        findings[i].judge(d, &f);
        d->warnings += f.level == DOCTOR_WARNING;
        d->failures += f.level == DOCTOR_FAILURE;
        mt_table_row(t);
        mt_cell_text(t, "%s", findings[i].what);
        mt_cell_text(t, "%s", levels[f.level].word);
        mt_cell_text(t, "%s", f.text);
        mt_cell_text(t, "%s", f.remedy);
        mt_tables_say_styled(out, levels[f.level].style, "%-8s %-9s %s", levels[f.level].text, findings[i].what,
                             f.text);
        if (f.remedy[0]) mt_tables_say(out, "%-8s %-9s remedy: %s", "", "", f.remedy);
    }
    mt_tables_say(out, "%d failure%s, %d warning%s", d->failures, d->failures == 1 ? "" : "s", d->warnings,
                  d->warnings == 1 ? "" : "s");
    t = mt_tables_add_values(out, "counts");
    mt_table_put_real(t, "failures", MT_UNIT_COUNT, d->failures);
    mt_table_put_real(t, "warnings", MT_UNIT_COUNT, d->warnings);
}
