/* Inputs and outputs of one command, before it works. */
#include "launcher/flags/files.h"

#include <string.h>
#include <sys/stat.h>

#include "kernels/base/file.h"
#include "launcher/flags/document.h"
#include "profiler/cluster/cluster.h"

struct mt_files_read {
    const char *flag, *path;
    const char *edited; /* the format that may replace it, or null */
};

struct mt_files_written {
    const char *flag, *path, *format; /* format: or null */
    bool described;
};

static void add_read(struct mt_files *files, struct mt_files_read read) {
    if (!read.path) return;
    read.path = mt_file_in(read.path, "run.json", &files->arena);
    mt_arena_grow(&files->arena, &files->reads, files->nreads, &files->reads_capacity, sizeof *files->reads);
    files->reads[files->nreads++] = read;
}

static void add_written(struct mt_files *files, struct mt_files_written written) {
    if (!written.path) return;
    mt_arena_grow(&files->arena, &files->writes, files->nwrites, &files->writes_capacity, sizeof *files->writes);
    files->writes[files->nwrites++] = written;
}

void mt_files_reads(struct mt_files *files, const char *flag, const char *path) {
    add_read(files, (struct mt_files_read){flag, path, NULL});
}

void mt_files_edits(struct mt_files *files, const char *flag, const char *path, const char *format) {
    add_read(files, (struct mt_files_read){flag, path, format});
}

void mt_files_writes(struct mt_files *files, const char *flag, const char *path, const char *format) {
    add_written(files, (struct mt_files_written){flag, path, format, false});
}

void mt_files_describes(struct mt_files *files, const char *flag, const char *path) {
    add_written(files, (struct mt_files_written){flag, path, MT_CLUSTER_FORMAT, true});
}

static bool is_measured(const char *path) {
    struct mt_cluster *cluster;
    struct mt_err ignored = MT_ERR_INIT;
    if (mt_cluster_read(path, &cluster, &ignored)) return false;
    bool measured = !strcmp(cluster->source, "measured");
    mt_cluster_free(cluster);
    return measured;
}

/* What is there, and would be lost. */
static enum mt_status check_replaced(const struct mt_files_written *w, struct mt_err *err) {
    char format[64] = "";
    struct mt_err no_document = MT_ERR_INIT;
    bool is_document = !mt_document_format(w->path, format, &no_document);
    bool ours = is_document && (!strncmp(format, "motley-", 7) || !strcmp(format, "safetensors"));
    if (ours && (!w->format || strcmp(format, w->format)))
        mt_fail(err, MT_EINPUT, "%s: %s is a \"%s\", which would be lost", w->flag, w->path, format);
    else if (w->format && !ours)
        mt_fail(err, MT_EINPUT, "%s: %s is no document of Motley's, and would be lost", w->flag, w->path);
    else if (w->described && is_measured(w->path))
        mt_fail(err, MT_EINPUT, "%s: %s is a measured cluster, which a described one would replace", w->flag, w->path);
    else
        return MT_OK;
    return mt_err_hint(err, "name another file, or remove that one first");
}

static enum mt_status check_written(struct mt_files *files, int at, struct mt_err *err) {
    const struct mt_files_written *w = &files->writes[at];
    struct stat about;
    bool there = !stat(w->path, &about);
    for (int i = 0; i < at && (!there || S_ISREG(about.st_mode)); i++) {
        if (!mt_file_same_place(files->writes[i].path, w->path)) continue;
        mt_fail(err, MT_EINPUT, "%s and %s would both write %s", files->writes[i].flag, w->flag, w->path);
        return mt_err_hint(err, "name two files");
    }
    for (int i = 0; i < files->nreads && there && S_ISREG(about.st_mode); i++) {
        const struct mt_files_read *r = &files->reads[i];
        if (!mt_file_same(r->path, w->path) || (r->edited && w->format && !strcmp(r->edited, w->format))) continue;
        mt_fail(err, MT_EINPUT, "%s: %s is what %s, and would be lost", w->flag, w->path,
                r->flag ? mt_arena_printf(&files->arena, "%s names", r->flag) : "is read");
        return mt_err_hint(err, "name another file");
    }
    enum mt_status st = there && S_ISREG(about.st_mode) && about.st_size ? check_replaced(w, err) : MT_OK;
    if (st) return st;
    return mt_file_writable(w->path, err) ? mt_err_context(err, "%s", w->flag) : MT_OK;
}

enum mt_status mt_files_check(struct mt_files *files, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0; i < files->nwrites && !st; i++) st = check_written(files, i, err);
    mt_arena_release(&files->arena);
    *files = (struct mt_files){0};
    return st;
}
