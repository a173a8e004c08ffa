/* The files that a command's flags name, checked together before the command works: what it writes destroys nothing
 * that it reads, that it writes too, or that is a document of another kind.
 *
 *     struct mt_files files = {0};
 *     mt_files_reads(&files, "--cluster", f->cluster);
 *     mt_files_writes(&files, "--out", f->out, MT_PLAN_FORMAT);
 *     mt_files_writes(&files, "--json", f->output.path, MT_TABLES_FORMAT);
 *     if ((st = mt_files_check(&files, err))) return st;
 *
 * What is null is not named. Texts are kept, not copied. Under mpirun the rank that writes asks. */
#ifndef MT_LAUNCHER_FLAGS_FILES_H
#define MT_LAUNCHER_FLAGS_FILES_H

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

struct mt_files {
    struct mt_arena arena;
    struct mt_files_read *reads;
    struct mt_files_written *writes;
    int nreads, nwrites, reads_capacity, writes_capacity;
};

/* A file that is read, the folder of a run, or a description in place of a file. flag: null for an operand. */
void mt_files_reads(struct mt_files *files, const char *flag, const char *path);
/* The same of a document that may be written anew in its own place. */
void mt_files_edits(struct mt_files *files, const char *flag, const char *path, const char *format);

/* A file that is written. format: the document's, as "motley-plan"; null: it is none, as a page or a CSV file. */
void mt_files_writes(struct mt_files *files, const char *flag, const char *path, const char *format);
/* The same of a cluster that is described, not measured. */
void mt_files_describes(struct mt_files *files, const char *flag, const char *path);

/* Refuse two outputs, or an input and an output, that are one file; an output that cannot be written; and one that
 * would replace a document of another kind, a measured cluster by a described one, or, by a document, what is none. A
 * document is replaced by one of its kind; what is empty or no regular file (a device, a pipe) is written to. MT_EINPUT
 * and mt_file_writable's errors. Releases `files` in any case. */
enum mt_status mt_files_check(struct mt_files *files, struct mt_err *err);

#endif
