/* Tables to standard output, or as JSON. */
#include "launcher/flags/output.h"

#include <errno.h>
#include <stdlib.h>

#include "kernels/base/file.h"
#include "kernels/base/working.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"

enum mt_status mt_output_flag(const char *text, struct argp_state *state, bool (*is_operand)(const char *word),
                              struct mt_output *output, struct mt_err *err) {
    const char *next = state->next < state->argc ? state->argv[state->next] : "-";
    if (text) return mt_flag_path("--json", text, &output->path, err);
    if (is_operand && next[0] != '-' && !is_operand(next)) {
        mt_fail(err, MT_EINPUT, "--json: \"%.100s\" after it is nothing that this command takes", next);
        return mt_err_hint(err, "--json=%.200s writes it; --json alone prints it", next);
    }
    output->json = true;
    return MT_OK;
}

enum mt_status mt_output_check(const struct mt_output *output, const char *const *paths, int n, struct mt_err *err) {
    struct mt_files files = {0};
    for (int i = 0; i < n; i++) mt_files_reads(&files, NULL, paths[i]);
    mt_files_writes(&files, "--json", output->path, MT_TABLES_FORMAT);
    return mt_files_check(&files, err);
}

void mt_output_tell(const struct mt_output *output, struct mt_tables *doc) {
    mt_working_clear();
    if (!output->json) mt_tables_flush(doc, stdout);
}

static enum mt_status write_file(const char *path, const struct mt_tables *doc, struct mt_err *err) {
    struct mt_printed printed;
    mt_tables_write(doc, MT_TABLES_JSON, mt_printed_begin(&printed));
    char *text = mt_printed_end(&printed);
    enum mt_status st = mt_file_replace(path, text, printed.length, err);
    free(text);
    return st;
}

/* An earlier write's errno is lost, so one more byte asks again; it may find room by now. */
enum mt_status mt_output_flush(struct mt_err *err) {
    if (!fflush(stdout) && !ferror(stdout)) return MT_OK;
    clearerr(stdout);
    bool known = putchar('\n') == EOF || fflush(stdout);
    if (!known) errno = EIO;
    return mt_fail_errno(err, "standard output");
}

enum mt_status mt_output_end(const struct mt_output *output, struct mt_tables *doc, struct mt_err *err) {
    enum mt_status st = output->path ? write_file(output->path, doc, err) : MT_OK;
    if (st) return st;
    mt_output_tell(output, doc);
    if (output->json) mt_tables_write(doc, MT_TABLES_JSON, stdout);
    return mt_output_flush(err);
}
