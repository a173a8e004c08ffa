/* Writing what starts a job. Ranks are numbered host by host, and as the plan numbers them within a host; train finds
 * its rank by that. */
#include "launcher/launch/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text/printed.h"
#include "launcher/launch/attempt.h"

extern char **environ;

const char *mt_shell_word(const char *word, struct mt_arena *arena) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    if (*word && !word[strspn(word, plain)]) return word;
    size_t quotes = 0;
    for (const char *c = word; *c; c++) quotes += *c == '\'';
    char *quoted = mt_arena_alloc(arena, strlen(word) + 3 * quotes + 3), *to = quoted;
    *to++ = '\'';
    for (const char *c = word; *c; c++) {
        if (*c == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else {
            *to++ = *c;
        }
    }
    *to = '\'';
    return quoted;
}

int mt_job_exports(struct mt_arena *arena, const char ***exports) {
    static const char visible[] = "CUDA_VISIBLE_DEVICES="; /* of this host: another one has other devices */
    static const char *const families[] = {"MOTLEY_", "NCCL_", "CUDA_", "OMP_", "LD_LIBRARY_PATH=", "XDG_CACHE_HOME="};
    int n = 0, capacity = 0;
    *exports = NULL;
    for (char **at = environ; *at; at++)
        for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
            if (strncmp(*at, families[f], strlen(families[f])) || !strncmp(*at, visible, sizeof visible - 1)) continue;
            mt_arena_grow(arena, exports, n, &capacity, sizeof **exports);
            (*exports)[n++] = mt_arena_strdup(arena, *at);
            break;
        }
    return n;
}

static int ranks_on(const struct mt_job_files *s, int host) {
    int n = 0;
    for (int r = 0; r < s->plan->nranks; r++) n += s->places->host[r] == host;
    return n;
}

static bool all_are_bound(const struct mt_job_files *s) {
    for (int r = 0; r < s->plan->nranks; r++)
        if (!s->places->cores[r][0]) return false;
    return true;
}

/* The GPUs of a host that its ranks take, "0,2"; null: the first ones, or not known. */
static const char *visible_gpus(const struct mt_job_files *s, int host, struct mt_arena *arena) {
    const char *text = "";
    bool first = true;
    int next = 0;
    for (int r = 0; r < s->plan->nranks; r++) {
        if (s->places->host[r] != host) continue;
        int gpu = s->places->gpu[r];
        if (gpu < 0) return NULL;
        first &= gpu == next++;
        text = mt_arena_printf(arena, "%s%s%d", text, *text ? "," : "", gpu);
    }
    return first ? NULL : text;
}

static bool needs_contexts(const struct mt_job_files *s, struct mt_arena *arena) {
    for (int h = 0; h < s->hosts->n; h++)
        if (ranks_on(s, h) && visible_gpus(s, h, arena)) return true;
    return false;
}

static const char *path_in(const struct mt_job_files *s, const char *name, struct mt_arena *arena) {
    return mt_arena_printf(arena, "%s/%s", s->folder, name);
}

static void print_hostfile(const struct mt_job_files *s, FILE *f) {
    for (int h = 0; h < s->hosts->n; h++)
        if (ranks_on(s, h)) fprintf(f, "%s slots=%d\n", s->hosts->hosts[h].name, ranks_on(s, h));
}

static void print_rankfile(const struct mt_job_files *s, FILE *f) {
    int number = 0;
    for (int h = 0; h < s->hosts->n; h++)
        for (int r = 0; r < s->plan->nranks; r++)
            if (s->places->host[r] == h)
                fprintf(f, "rank %d=%s slot=%s\n", number++, s->hosts->hosts[h].name, s->places->cores[r]);
}

static void print_command(const struct mt_job_files *s, struct mt_arena *arena, FILE *f) {
    fprintf(f, "  %s train %s", mt_shell_word(s->options->program, arena),
            mt_shell_word(path_in(s, "plan.json", arena), arena));
    for (char **word = s->words; *word; word++) fprintf(f, " \\\n    %s", mt_shell_word(*word, arena));
}

static void print_mca(const char *setting, struct mt_arena *arena, FILE *f) {
    size_t name = strcspn(setting, "=");
    fprintf(f, "  --mca %.*s %s \\\n", (int)name, setting,
            mt_shell_word(setting[name] ? setting + name + 1 : "", arena));
}

static void print_exports(const struct mt_job_files *s, const char *gpus, struct mt_arena *arena, FILE *f) {
    static const char visible[] = "CUDA_VISIBLE_DEVICES=";
    for (int i = 0; i < s->options->nexports; i++)
        if (!gpus || strncmp(s->options->exports[i], visible, sizeof visible - 1))
            fprintf(f, "  -x %s \\\n", mt_shell_word(s->options->exports[i], arena));
    fprintf(f, "  -x " MT_ATTEMPT_VARIABLE "=1 \\\n");
    if (gpus) fprintf(f, "  -x CUDA_DEVICE_ORDER=PCI_BUS_ID -x %s%s \\\n", visible, gpus);
}

/* A context of mpirun for each host: its ranks have an environment of their own. */
static void print_contexts(const struct mt_job_files *s, struct mt_arena *arena, FILE *f) {
    for (int h = 0, printed = 0; h < s->hosts->n; h++) {
        int n = ranks_on(s, h);
        if (!n) continue;
        if (printed++) fprintf(f, " : \\\n");
        fprintf(f, "  -n %d --host %s:%d \\\n", n, s->hosts->hosts[h].name, n);
        print_exports(s, visible_gpus(s, h, arena), arena, f);
        print_command(s, arena, f);
    }
}

static void print_script(const struct mt_job_files *s, const char *hash, bool bound, bool contexts,
                         struct mt_arena *arena, FILE *f) {
    const struct mt_mpirun_options *o = s->options;
    const char *folder = mt_shell_word(s->folder, arena);
    char *here = getcwd(NULL, 0);
    fprintf(f, "#!/bin/sh\n# plan %s, %d rank%s\n", hash, s->plan->nranks, s->plan->nranks == 1 ? "" : "s");
    if (here) fprintf(f, "cd %s || exit 1\n", mt_shell_word(here, arena));
    free(here);
    fprintf(f, "exec mpirun \\\n");
    if (bound)
        fprintf(f, "  --rankfile %s/rankfile --mca rmaps_rank_file_physical 1 \\\n", folder);
    else
        fprintf(f, "  --map-by slot --bind-to none \\\n");
    if (o->agent_given) print_mca(mt_arena_printf(arena, "plm_rsh_agent=%s", o->agent), arena, f);
    for (int i = 0; i < o->nmca; i++) print_mca(o->mca[i], arena, f);
    if (contexts) {
        print_contexts(s, arena, f);
    } else {
        fprintf(f, "  -n %d --hostfile %s/hostfile \\\n", s->plan->nranks, folder);
        print_exports(s, NULL, arena, f);
        print_command(s, arena, f);
    }
    fprintf(f, "\n");
}

static enum mt_status replace(const struct mt_job_files *s, const char *name, struct mt_printed *printed,
                              struct mt_arena *arena, struct mt_err *err) {
    char *text = mt_printed_end(printed);
    enum mt_status st = mt_file_replace(path_in(s, name, arena), text, printed->length, err);
    free(text);
    return st;
}

enum mt_status mt_job_folder_make(const char *folder, struct mt_err *err) {
    if (!mkdir(folder, 0777) || (errno == EEXIST && mt_is_folder(folder))) return MT_OK;
    mt_fail_errno(err, "%s: the folder cannot be made", folder);
    return err->status = MT_EINPUT;
}

enum mt_status mt_job_files_write(const struct mt_job_files *s, struct mt_arena *arena, struct mt_err *err) {
    struct mt_printed printed;
    struct mt_plan *plan;
    bool contexts = needs_contexts(s, arena), bound = !contexts && all_are_bound(s);
    enum mt_status st;
    if ((st = mt_job_folder_make(s->folder, err)) || (st = mt_plan_copy(s->plan, &plan, err))) return st;
    if ((st = mt_plan_write(plan, path_in(s, "plan.json", arena), err))) goto out;
    print_hostfile(s, mt_printed_begin(&printed));
    if ((st = replace(s, "hostfile", &printed, arena, err))) goto out;
    unlink(path_in(s, "rankfile", arena));
    if (bound) {
        print_rankfile(s, mt_printed_begin(&printed));
        if ((st = replace(s, "rankfile", &printed, arena, err))) goto out;
    }
    print_script(s, plan->hash, bound, contexts, arena, mt_printed_begin(&printed));
    st = replace(s, "mpirun.sh", &printed, arena, err);
out:
    mt_plan_free(plan);
    return st;
}
