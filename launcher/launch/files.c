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
    static const char *const families[] = {"MOTLEY_", "NCCL_", "CUDA_", "OMP_", "LD_LIBRARY_PATH=", "XDG_CACHE_HOME="};
    int n = 0, capacity = 0;
    *exports = NULL;
    for (char **at = environ; *at; at++)
        for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
            if (strncmp(*at, families[f], strlen(families[f]))) continue;
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

static bool needs_appfile(const struct mt_job_files *s, struct mt_arena *arena) {
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
    fputc('\n', f);
}

/* Open MPI splits a line of an appfile as a shell does, but takes double quotes alone: words that need quotes have
 * none of these in them. */
static void print_app_word(const char *word, FILE *f) {
    if (strpbrk(word, " \t'"))
        fprintf(f, " \"%s\"", word);
    else
        fprintf(f, " %s", word);
}

static void print_appfile(const struct mt_job_files *s, struct mt_arena *arena, FILE *f) {
    for (int h = 0; h < s->hosts->n; h++) {
        int n = ranks_on(s, h);
        const char *gpus = n ? visible_gpus(s, h, arena) : NULL, *name = s->hosts->hosts[h].name;
        if (!n) continue;
        fprintf(f, "-n %d --host %s:%d", n, name, n);
        for (int i = 0; i < s->options->nexports; i++)
            if (!gpus || strncmp(s->options->exports[i], "CUDA_VISIBLE_DEVICES=", 21)) {
                fprintf(f, " -x");
                print_app_word(s->options->exports[i], f);
            }
        if (gpus) fprintf(f, " -x CUDA_DEVICE_ORDER=PCI_BUS_ID -x CUDA_VISIBLE_DEVICES=%s", gpus);
        print_app_word(s->options->program, f);
        fprintf(f, " train");
        print_app_word(path_in(s, "plan.json", arena), f);
        for (char **word = s->words; *word; word++) print_app_word(*word, f);
        fputc('\n', f);
    }
}

static void print_mca(const char *setting, struct mt_arena *arena, FILE *f) {
    size_t name = strcspn(setting, "=");
    fprintf(f, "  --mca %.*s %s \\\n", (int)name, setting,
            mt_shell_word(setting[name] ? setting + name + 1 : "", arena));
}

static void print_script(const struct mt_job_files *s, const char *hash, bool bound, bool apps, struct mt_arena *arena,
                         FILE *f) {
    const struct mt_mpirun_options *o = s->options;
    const char *folder = mt_shell_word(s->folder, arena);
    char *here = getcwd(NULL, 0);
    fprintf(f, "#!/bin/sh\n# plan %s, %d rank%s\n", hash, s->plan->nranks, s->plan->nranks == 1 ? "" : "s");
    if (here) fprintf(f, "cd %s || exit 1\n", mt_shell_word(here, arena));
    free(here);
    fprintf(f, "exec mpirun \\\n");
    if (!apps) fprintf(f, "  -n %d --hostfile %s/hostfile \\\n", s->plan->nranks, folder);
    if (bound)
        fprintf(f, "  --rankfile %s/rankfile --mca rmaps_rank_file_physical 1 \\\n", folder);
    else
        fprintf(f, "  --map-by slot --bind-to none \\\n");
    if (o->agent_given) print_mca(mt_arena_printf(arena, "plm_rsh_agent=%s", o->agent), arena, f);
    for (int i = 0; i < o->nmca; i++) print_mca(o->mca[i], arena, f);
    for (int i = 0; i < o->nexports && !apps; i++) fprintf(f, "  -x %s \\\n", mt_shell_word(o->exports[i], arena));
    if (apps)
        fprintf(f, "  --app %s/appfile\n", folder);
    else
        print_command(s, arena, f);
}

static enum mt_status replace(const struct mt_job_files *s, const char *name, struct mt_printed *printed,
                              struct mt_arena *arena, struct mt_err *err) {
    char *text = mt_printed_end(printed);
    enum mt_status st = mt_file_replace(path_in(s, name, arena), text, printed->length, err);
    free(text);
    return st;
}

static enum mt_status make_folder(const char *folder, struct mt_err *err) {
    if (!mkdir(folder, 0777) || (errno == EEXIST && mt_is_folder(folder))) return MT_OK;
    mt_fail_errno(err, "%s: the folder cannot be made", folder);
    return err->status = MT_EINPUT;
}

/* An appfile has no way to quote these. */
static enum mt_status check_app_words(const struct mt_job_files *s, struct mt_err *err) {
    for (char **word = s->words; *word; word++)
        if (strpbrk(*word, "\"\n\\"))
            return mt_fail(err, MT_EINPUT, "\"%.60s\": quotes and backslashes cannot be passed through an appfile",
                           *word);
    return MT_OK;
}

enum mt_status mt_job_files_write(const struct mt_job_files *s, struct mt_arena *arena, struct mt_err *err) {
    struct mt_printed printed;
    struct mt_plan *plan;
    bool apps = needs_appfile(s, arena), bound = !apps && all_are_bound(s);
    enum mt_status st;
    if ((apps && (st = check_app_words(s, err))) || (st = make_folder(s->folder, err)) ||
        (st = mt_plan_copy(s->plan, &plan, err)))
        return st;
    if ((st = mt_plan_write(plan, path_in(s, "plan.json", arena), err))) goto out;
    print_hostfile(s, mt_printed_begin(&printed));
    if ((st = replace(s, "hostfile", &printed, arena, err))) goto out;
    unlink(path_in(s, "rankfile", arena));
    unlink(path_in(s, "appfile", arena));
    if (bound) {
        print_rankfile(s, mt_printed_begin(&printed));
        if ((st = replace(s, "rankfile", &printed, arena, err))) goto out;
    }
    if (apps) {
        print_appfile(s, arena, mt_printed_begin(&printed));
        if ((st = replace(s, "appfile", &printed, arena, err))) goto out;
    }
    print_script(s, plan->hash, bound, apps, arena, mt_printed_begin(&printed));
    st = replace(s, "mpirun.sh", &printed, arena, err);
out:
    mt_plan_free(plan);
    return st;
}
