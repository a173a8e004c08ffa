/* Both files are appended to, a row or a record by one write each, so that a reader or a kill finds whole ones. */
#include "launcher/metrics/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "launcher/metrics/events.h"

static const char header[] = "step,tokens,loss,validation_loss,learning_rate,step_s,tokens_per_s\n";
#define MOST_CSV_BYTES ((size_t)16 << 30)
enum { ROW_BYTES = 256 };

struct mt_metrics {
    struct mt_arena arena;
    struct output {
        int fd;
        const char *path;
    } csv, events;
    bool held; /* `row` is not written yet */
    struct mt_metrics_row row;
};

static double wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What cannot be written is given up, so that it is warned of once. */
static void append(struct output *to, const void *data, size_t size) {
    ssize_t n;
    if (to->fd < 0) return;
    do n = write(to->fd, data, size);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)size) return;
    mt_log(MT_LOG_WARN, "%s: %s: later steps are not written to it", to->path, n < 0 ? strerror(errno) : "disk full");
    close(to->fd);
    to->fd = -1;
}

static enum mt_status open_output(struct output *to, struct mt_err *err) {
    to->fd = open(to->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return to->fd < 0 ? mt_fail_errno(err, "%s", to->path) : MT_OK;
}

/* The rows up to a step; *length: what is left of `text`. Rows are in order, and the last one may be cut off. */
static void keep_rows(const char *text, size_t *length, int64_t after_step) {
    size_t kept = sizeof header - 1;
    while (kept < *length) {
        const char *row = text + kept, *newline = memchr(row, '\n', *length - kept);
        char *end;
        long long step = strtoll(row, &end, 10);
        if (!newline || end == row || *end != ',' || step > after_step) break;
        kept += (size_t)(newline - row) + 1;
    }
    *length = kept;
}

static enum mt_status open_csv(struct mt_metrics *m, int64_t after_step, struct mt_err *err) {
    char *text;
    size_t length;
    enum mt_status st = MT_OK;
    if (access(m->csv.path, F_OK)) {
        st = mt_file_replace(m->csv.path, header, sizeof header - 1, err);
        return st ? st : open_output(&m->csv, err);
    }
    if ((st = mt_file_read(m->csv.path, MOST_CSV_BYTES, &text, &length, err))) return st;
    if (strncmp(text, header, sizeof header - 1)) {
        st = mt_fail(err, MT_EINPUT, "%s: is there already, and has other columns than a run's metrics", m->csv.path);
        mt_err_hint(err, "move it elsewhere, or choose another folder");
    }
    if (!st) {
        keep_rows(text, &length, after_step);
        st = mt_file_replace(m->csv.path, text, length, err);
    }
    free(text);
    return st ? st : open_output(&m->csv, err);
}

static enum mt_status open_events(struct mt_metrics *m, const char *folder, int64_t after_step, struct mt_err *err) {
    char host[128] = "", record[MT_EVENT_BYTES];
    double now_s = wall_s();
    gethostname(host, sizeof host - 1);
    m->events.path = mt_arena_printf(&m->arena, "%s/events.out.tfevents.%010lld.%s.%ld", folder, (long long)now_s, host,
                                     (long)getpid());
    enum mt_status st = open_output(&m->events, err);
    if (st) return st;
    append(&m->events, record, mt_event_version(now_s, record));
    if (after_step > 0) append(&m->events, record, mt_event_restart(now_s, after_step + 1, record));
    return MT_OK;
}

enum mt_status mt_metrics_open(const char *folder, int64_t after_step, struct mt_metrics **metrics,
                               struct mt_err *err) {
    struct mt_metrics *m = mt_calloc(1, sizeof *m);
    m->csv.fd = m->events.fd = -1;
    m->csv.path = mt_arena_printf(&m->arena, "%s/" MT_METRICS_CSV, folder);
    enum mt_status st = open_csv(m, after_step, err);
    if (!st) st = open_events(m, folder, after_step, err);
    if (st)
        mt_metrics_close(m);
    else
        *metrics = m;
    return st;
}

/* The numbers after the step and the tokens, in the order of the columns. */
static const struct {
    const char *tag;
    size_t at;
} columns[] = {
    {"loss", offsetof(struct mt_metrics_row, loss)},
    {"validation_loss", offsetof(struct mt_metrics_row, validation_loss)},
    {"learning_rate", offsetof(struct mt_metrics_row, learning_rate)},
    {"step_s", offsetof(struct mt_metrics_row, step_s)},
    {"tokens_per_s", offsetof(struct mt_metrics_row, tokens_per_s)},
};
enum { NCOLUMNS = sizeof columns / sizeof *columns };

void mt_metrics_flush(struct mt_metrics *m) {
    if (!m || !m->held) return;
    m->held = false;
    char text[ROW_BYTES], record[MT_EVENT_BYTES];
    struct mt_event_scalar scalars[NCOLUMNS];
    int n = 0, used = snprintf(text, sizeof text, "%lld,%lld", (long long)m->row.step, (long long)m->row.tokens);
    for (int c = 0; c < NCOLUMNS; c++) {
        double value;
        memcpy(&value, (const char *)&m->row + columns[c].at, sizeof value);
        bool known = !isnan(value);
        used += snprintf(text + used, sizeof text - (size_t)used, known ? ",%.9g" : ",", value);
        if (known) scalars[n++] = (struct mt_event_scalar){columns[c].tag, value};
    }
    text[used++] = '\n';
    append(&m->csv, text, (size_t)used);
    append(&m->events, record, mt_event_scalars(wall_s(), m->row.step, scalars, n, record));
}

void mt_metrics_step(struct mt_metrics *m, const struct mt_metrics_row *row) {
    if (!m) return;
    mt_metrics_flush(m);
    m->row = *row;
    m->held = true;
}

void mt_metrics_validation(struct mt_metrics *m, int64_t step, double loss) {
    if (!m || !m->held || m->row.step != step) return;
    m->row.validation_loss = loss;
    mt_metrics_flush(m);
}

void mt_metrics_close(struct mt_metrics *m) {
    if (!m) return;
    mt_metrics_flush(m);
    if (m->csv.fd >= 0) close(m->csv.fd);
    if (m->events.fd >= 0) close(m->events.fd);
    mt_arena_release(&m->arena);
    free(m);
}
