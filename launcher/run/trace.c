/* Each rank formats its events as JSON text; rank 0 concatenates the texts in order of ranks. */
#include "launcher/run/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "kernels/base/text/json.h"
#include "kernels/device/device.h"
#include "launcher/run/internal.h"
#include "launcher/session/agree.h"

enum { TAG_CLOCK = 81, TAG_TEXT, ROUND_TRIPS = 16 };

/* Rank 0's side: answer with the time. */
static void answer(MPI_Comm comm, int rank) {
    for (int i = 0; i < ROUND_TRIPS; i++) {
        MPI_Recv(NULL, 0, MPI_BYTE, rank, TAG_CLOCK, comm, MPI_STATUS_IGNORE);
        double now_s = mt_now_s();
        MPI_Send(&now_s, 1, MPI_DOUBLE, rank, TAG_CLOCK, comm);
    }
}

double mt_trace_clock(MPI_Comm comm) {
    int rank, n;
    double best_s = 1e9, add_s = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    for (int r = 1; r < n && !rank; r++) answer(comm, r);
    for (int i = 0; i < ROUND_TRIPS && rank; i++) {
        double theirs_s, start_s = mt_now_s();
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_CLOCK, comm);
        MPI_Recv(&theirs_s, 1, MPI_DOUBLE, 0, TAG_CLOCK, comm, MPI_STATUS_IGNORE);
        double end_s = mt_now_s();
        if (end_s - start_s >= best_s) continue;
        best_s = end_s - start_s;
        add_s = theirs_s - (start_s + end_s) / 2;
    }
    return add_s;
}

void mt_trace_put_name(struct mt_json_out *out, const char *what, int rank, int stream, const char *name) {
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "name", what);
    mt_json_put_string(out, "ph", "M");
    mt_json_put_int(out, "pid", rank);
    if (stream >= 0) mt_json_put_int(out, "tid", stream);
    mt_json_open(out, "args", '{');
    mt_json_put_string(out, "name", name);
    mt_json_close(out);
    mt_json_close(out);
}

static double microseconds(double s) {
    return (double)(int64_t)(s * 1e9 + 0.5) / 1e3;
}

void mt_trace_put_event(struct mt_json_out *out, int rank, const struct mt_trace_event *event, double shift_s) {
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "name", event->name);
    mt_json_put_string(out, "ph", "X");
    mt_json_put_int(out, "pid", rank);
    mt_json_put_int(out, "tid", event->stream);
    mt_json_put_real(out, "ts", microseconds(event->start_s + shift_s));
    mt_json_put_real(out, "dur", microseconds(event->end_s - event->start_s));
    mt_json_open(out, "args", '{');
    mt_json_put_int(out, "step", event->step);
    mt_json_close(out);
    mt_json_close(out);
}

static void make_text(int rank, const struct mt_trace_mine *m, double shift_s, struct mt_json_out *out) {
    char name[320];
    snprintf(name, sizeof name, "rank %d on %s", rank, mt_agree_host());
    mt_json_out_init(out);
    mt_json_open(out, NULL, '[');
    mt_trace_put_name(out, "process_name", rank, -1, name);
    for (int s = 0; s < m->nstreams; s++) mt_trace_put_name(out, "thread_name", rank, s, m->streams[s]);
    for (int64_t e = 0; e < m->count; e++) mt_trace_put_event(out, rank, &m->events[e], shift_s);
    mt_json_close(out);
}

struct whole {
    char *text;
    size_t length;
};

static void append(struct whole *whole, const char *text, size_t length) {
    whole->text = mt_realloc(whole->text, whole->length + length + 1);
    memcpy(whole->text + whole->length, text, length);
    whole->length += length;
}

static void append_items(struct whole *whole, const char *array, size_t length) {
    while (length && array[length - 1] != ']') length--; /* the writer ends in "\n]\n" */
    while (length > 1 && array[length - 2] == '\n') length--;
    if (whole->length > 1) append(whole, ",", 1);
    append(whole, array + 1, length - 2);
}

static enum mt_status collect(MPI_Comm comm, const struct mt_json_out *mine, const char *predicted, const char *path,
                              struct mt_err *err) {
    int n;
    MPI_Comm_size(comm, &n);
    struct whole whole = {NULL, 0};
    append(&whole, "[", 1);
    append_items(&whole, mine->text, mine->length);
    for (int r = 1; r < n; r++) {
        MPI_Status status;
        int length;
        MPI_Probe(r, TAG_TEXT, comm, &status);
        MPI_Get_count(&status, MPI_CHAR, &length);
        char *text = mt_malloc((size_t)length);
        MPI_Recv(text, length, MPI_CHAR, r, TAG_TEXT, comm, MPI_STATUS_IGNORE);
        append_items(&whole, text, (size_t)length);
        free(text);
    }
    if (predicted) append_items(&whole, predicted, strlen(predicted));
    append(&whole, "\n]\n", 3);
    enum mt_status st = mt_file_replace(path, whole.text, whole.length, err);
    free(whole.text);
    return st;
}

/* When the last step begins, and which it is. */
static double last_start_s(const struct mt_trace_event *events, int64_t count, int64_t *step) {
    double start_s = 0;
    *step = 0;
    for (int64_t e = 0; e < count; e++) {
        if (events[e].step > *step) *step = events[e].step, start_s = events[e].start_s;
        if (events[e].step == *step && events[e].start_s < start_s) start_s = events[e].start_s;
    }
    return start_s;
}

enum mt_status mt_trace_write(MPI_Comm comm, const char *path, const struct mt_trace_mine *m,
                              const struct mt_trace_predicted *predicted, struct mt_err *err) {
    int rank;
    int64_t step;
    MPI_Comm_rank(comm, &rank);
    double first_s = 1e300, all_s, last_s = last_start_s(m->events, m->count, &step);
    for (int64_t e = 0; e < m->count; e++)
        if (m->events[e].start_s + m->clock_s < first_s) first_s = m->events[e].start_s + m->clock_s;
    MPI_Allreduce(&first_s, &all_s, 1, MPI_DOUBLE, MPI_MIN, comm);
    struct mt_json_out mine;
    make_text(mt_agree_rank_name(comm, rank), m, m->clock_s - all_s, &mine);
    enum mt_status st = MT_OK;
    if (rank) {
        MPI_Send(mine.text, (int)mine.length, MPI_CHAR, 0, TAG_TEXT, comm);
    } else {
        char *text = predicted ? mt_trace_predicted_text(predicted, last_s + m->clock_s - all_s, step) : NULL;
        st = collect(comm, &mine, text, path, err);
        free(text);
    }
    mt_json_out_release(&mine);
    return mt_agree_rank0(comm, st, err);
}
