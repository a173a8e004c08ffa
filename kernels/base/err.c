/* Status codes and messages. */
#include "kernels/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/color.h"
#include "kernels/base/working.h"

enum mt_status mt_fail(struct mt_err *err, enum mt_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->hint[0] = 0;
    return err->status = status;
}

enum mt_status mt_fail_errno(struct mt_err *err, const char *format, ...) {
    const char *why = strerror(errno);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", why);
    err->hint[0] = 0;
    return err->status = MT_ESYSTEM;
}

enum mt_status mt_err_context(struct mt_err *err, const char *format, ...) {
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", old);
    return err->status;
}

enum mt_status mt_err_hint(struct mt_err *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
    return err->status;
}

void mt_err_print(const struct mt_err *err) {
    mt_working_clear();
    fprintf(stderr, "%smotley:%s %s\n", mt_color_begin(stderr, MT_STYLE_ERROR), mt_color_end(stderr, MT_STYLE_ERROR),
            err->text);
    if (err->hint[0]) fprintf(stderr, "  hint: %s\n", err->hint);
}

int mt_exit_code(enum mt_status status) {
    static const enum mt_exit codes[] = {[MT_OK] = MT_EXIT_OK,         [MT_EINPUT] = MT_EXIT_INPUT,
                                         [MT_ESYSTEM] = MT_EXIT_FAULT, [MT_EMISSING] = MT_EXIT_MISSING,
                                         [MT_ESTALL] = MT_EXIT_LOST,   [MT_EPEER] = MT_EXIT_LOST,
                                         [MT_EPROOF] = MT_EXIT_PROOF,  [MT_EDIVERGED] = MT_EXIT_DIVERGED,
                                         [MT_EBUG] = MT_EXIT_FAULT};
    return codes[status];
}
