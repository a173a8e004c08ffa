/* Status codes and the message that goes with them.
 *
 *     enum mt_status st = mt_plan_read(path, &plan, &err);
 *     if (st) return mt_err_context(&err, "reading the plan");
 *
 * A function that can fail returns a status and fills the caller's `struct mt_err`. Callers add context and pass the
 * status on; only commands print. A message says what, where and why; the hint says what to do. `err` must not be
 * null. */
#ifndef MT_KERNELS_BASE_ERR_H
#define MT_KERNELS_BASE_ERR_H

#include <stdarg.h>

enum mt_status {
    MT_OK = 0,
    MT_EINPUT,    /* a flag, a document or a file is wrong: the user can correct it */
    MT_ESYSTEM,   /* the system refused: file, memory, network */
    MT_EMISSING,  /* this host lacks something needed: library, device */
    MT_ESTALL,    /* a deadline passed */
    MT_EPEER,     /* another rank failed */
    MT_EPROOF,    /* the checker refused a program */
    MT_EDIVERGED, /* training: a loss, a parameter or optimizer state is not finite */
    MT_EBUG,      /* an error of Motley itself */
};

struct mt_err {
    enum mt_status status;
    char text[1024];
    char hint[512];
};

#define MT_ERR_INIT                                                                                                    \
    {                                                                                                                  \
        MT_OK, {0}, {                                                                                                  \
            0                                                                                                          \
        }                                                                                                              \
    }

/* Set status and text, clear the hint; returns `status`. */
enum mt_status mt_fail(struct mt_err *err, enum mt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As mt_fail with ": " and the text of the current errno added; MT_ESYSTEM. */
enum mt_status mt_fail_errno(struct mt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Put "context: " before the text; returns the status already there. */
enum mt_status mt_err_context(struct mt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Set the hint: what the user can do; returns the status already there. */
enum mt_status mt_err_hint(struct mt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print "motley: text" and the hint to stderr. */
void mt_err_print(const struct mt_err *err);

/* The exit codes, MT_EXIT_OK and so on; exits.def says what they mean. */
enum mt_exit {
#define MT_EXIT(NAME, code, meaning) MT_EXIT_##NAME = code,
#include "kernels/base/exits.def"
#undef MT_EXIT
};

/* The exit code of a command that ends with `status`. */
int mt_exit_code(enum mt_status status);

#endif
