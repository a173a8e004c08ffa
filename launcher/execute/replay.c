/* Running a prepared program: calls, waits and records are queued in the program's order. Only BODY's operators change
 * between iterations. Eagerly, an iteration is queued when the one before it has ended, and each call is timed.
 * Captured, all iterations are one launch, with events between them where streams wait for each other. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/window/window.h"
#include "launcher/execute/internal.h"

/* Queue a block's instructions; without `work` only their waits and records. */
static void queue_block(struct mt_executor *ex, struct replay *run, enum mt_block_kind block, bool work, bool timed) {
    const struct mt_lowered *low = run->low;
    for (int i = low->block_begin[block]; i < low->block_begin[block + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        struct mt_stream *stream = ex->streams[c->stream];
        double *seconds = timed ? run->seconds[i] : NULL;
        if (c->what == MT_LOWERED_ALIAS) continue;
        for (int w = 0; w < c->nwaits; w++) mt_stream_wait(stream, run->events[c->waits[w]]);
        if (work && c->what == MT_LOWERED_OP && run->many[i] && !c->kept)
            mt_stream_op(stream, run->backends[i], &run->calls[i], seconds);
        else if (work && c->what == MT_LOWERED_OVERLAP)
            mt_stream_overlap(stream, &run->overlaps[i], seconds);
        else if (work && c->what != MT_LOWERED_OP)
            mt_stream_coll(stream, &run->messages[i], seconds);
        if (run->events[i]) mt_event_record(run->events[i], stream);
    }
}

/* Queue what is kept from step to step, before a step that does not find it in its place. */
static void queue_kept(struct mt_executor *ex, struct replay *run) {
    const int *begin = run->low->block_begin;
    for (int i = begin[MT_PROLOGUE]; i < begin[MT_PROLOGUE + 1]; i++)
        if (run->low->instrs[i].kept && run->many[i])
            mt_stream_op(ex->streams[MT_STREAM_COMPUTE], run->backends[i], &run->calls[i], NULL);
}

/* Point BODY's operators at an iteration's samples. */
static void advance(struct replay *run, int64_t iteration) {
    const struct mt_lowered *low = run->low;
    for (int i = low->block_begin[MT_BODY]; i < low->block_begin[MT_BODY + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        struct mt_tensor *tensors = run->tensors[i];
        for (int a = 0; a < c->nadvances; a++) {
            const struct mt_ladvance *step = &c->advances[a];
            struct mt_tensor *t = &tensors[step->operand];
            int value = step->operand < c->nin ? c->in[step->operand] : c->out[step->operand - c->nin];
            t->offset[step->axis] = c->tensor[step->operand].offset[step->axis] + iteration * step->offset;
            if (step->bytes) t->data = (char *)run->values[value].data + iteration * step->bytes;
        }
    }
}

/* ---- eagerly ---- */

/* The instruction that a stream started last, or -1. */
static int last_started(const struct replay *run, int stream) {
    int last = -1;
    for (int i = 0; i < run->low->ninstrs; i++)
        if (run->low->instrs[i].stream == stream && run->seconds[i][0] > 0 &&
            (last < 0 || run->seconds[i][0] > run->seconds[last][0]))
            last = i;
    return last;
}

/* Longer than the communicator's own deadline: it knows which rank it waits for, and should report first. */
double mt_executor_patience_s(const struct mt_executor *ex) {
    return 1.25 * ex->deadline_s + 2;
}

static enum mt_status sync_stream(struct mt_executor *ex, const struct replay *run, int stream, struct mt_err *err) {
    enum mt_status st = mt_stream_sync(ex->streams[stream], mt_executor_patience_s(ex), err);
    if (st != MT_ESTALL) return st;
    ex->broken = true;
    for (int s = 0; s < ex->nstreams; s++) {
        int i = last_started(run, s);
        if (i >= 0 && run->seconds[i][1] < run->seconds[i][0])
            mt_err_context(err, "instruction %d, %s, is running", i, run->low->instrs[i].name);
    }
    return st;
}

static enum mt_status sync_all(struct mt_executor *ex, const struct replay *run, struct mt_err *err) {
    enum mt_status first = MT_OK;
    for (int s = 0; s < ex->nstreams && !ex->broken; s++) {
        struct mt_err later = MT_ERR_INIT;
        enum mt_status st = sync_stream(ex, run, s, first ? &later : err);
        if (!first) first = st;
    }
    return first;
}

static double operand_bytes(const struct mt_linstr *c) {
    int64_t bytes = 0;
    for (int k = 0; k < c->nin + c->nout; k++) bytes += mt_tensor_bytes(&c->tensor[k]);
    return (double)bytes;
}

/* The next operator that an earlier call performs. */
static int next_merged(const struct replay *run, int i) {
    do i++;
    while (run->low->instrs[i].what != MT_LOWERED_OP || run->many[i]);
    return i;
}

/* Divide a merged call's time among its operators, in proportion to their operands' bytes. */
static void trace_merged(struct mt_executor *ex, const struct replay *run, int first, int64_t iteration) {
    const struct mt_lowered *low = run->low;
    const double start_s = run->seconds[first][0], all_s = run->seconds[first][1] - start_s;
    int n = run->many[first];
    double all = 0, before = 0;
    for (int k = 0, i = first; k < n; i = ++k < n ? next_merged(run, i) : i) all += operand_bytes(&low->instrs[i]);
    double byte_s = all > 0 ? all_s / all : 0;
    for (int k = 0, i = first; k < n; i = ++k < n ? next_merged(run, i) : i) {
        double bytes = operand_bytes(&low->instrs[i]);
        ex->trace(ex->trace_context, low, i, iteration, start_s + before * byte_s, start_s + (before + bytes) * byte_s);
        before += bytes;
    }
}

static void record_times(struct mt_executor *ex, const struct replay *run, struct mt_run_times *times, int begin,
                         int end, int64_t iteration) {
    for (int i = begin; i < end; i++) {
        const double *t = run->seconds[i];
        if (t[0] == 0) continue;
        times->stream_s[run->low->instrs[i].stream] += t[1] - t[0];
        if (ex->trace && run->many[i] > 1)
            trace_merged(ex, run, i, iteration);
        else if (ex->trace)
            ex->trace(ex->trace_context, run->low, i, iteration, t[0], t[1]);
    }
    memset(run->seconds[begin], 0, (size_t)(end - begin) * sizeof *run->seconds);
}

/* Calls hold one iteration's operands at a time: the next iteration is queued when the compute stream is done with
 * them. */
static enum mt_status run_body(struct mt_executor *ex, struct replay *run, struct mt_run_times *times,
                               struct mt_err *err) {
    const struct mt_lowered *low = run->low;
    int begin = low->block_begin[MT_BODY], end = low->block_begin[MT_BODY + 1];
    if (begin == end) return MT_OK;
    for (int64_t it = 0; it < low->body_count; it++) {
        enum mt_status st = MT_OK;
        if (it > 0) {
            st = low->body_barrier ? sync_all(ex, run, err) : sync_stream(ex, run, MT_STREAM_COMPUTE, err);
            if (st) return st;
            record_times(ex, run, times, begin, end, it - 1);
        }
        advance(run, it);
        queue_block(ex, run, MT_BODY, true, true);
    }
    if (low->body_count == 0) queue_block(ex, run, MT_BODY, false, false);
    return low->body_barrier ? sync_all(ex, run, err) : MT_OK;
}

static enum mt_status run_eagerly(struct mt_executor *ex, struct slot *slot, struct mt_err *err) {
    struct replay *run = &ex->runs[slot->run];
    struct mt_run_times *times = &slot->times;
    double start_s = mt_now_s();
    memset(run->seconds, 0, (size_t)run->low->ninstrs * sizeof *run->seconds);
    mt_executor_queue_inputs(ex, slot->run, true);
    queue_block(ex, run, MT_PROLOGUE, true, true);
    enum mt_status st = run_body(ex, run, times, err);
    if (!st) {
        queue_block(ex, run, MT_LAST, true, true);
        queue_block(ex, run, MT_EPILOGUE, true, true);
    }
    struct mt_err later = MT_ERR_INIT;
    enum mt_status end = ex->broken ? MT_OK : sync_all(ex, run, st ? &later : err);
    if (!st) st = end;
    if (st) return st;
    const int *begin = run->low->block_begin;
    record_times(ex, run, times, begin[MT_PROLOGUE], begin[MT_BODY], 0);
    record_times(ex, run, times, begin[MT_BODY], begin[MT_LAST], run->low->body_count - 1);
    record_times(ex, run, times, begin[MT_LAST], begin[MT_NBLOCKS], 0);
    st = mt_executor_fetch_results(ex, slot, err);
    times->end_s = mt_now_s();
    times->wall_s = times->end_s - start_s;
    return st;
}

/* ---- captured ---- */

/* Order all later work on any stream after all earlier work on every stream. */
static void join_streams(struct mt_executor *ex) {
    for (int s = 0; s < ex->nstreams; s++) mt_event_record(ex->tails[s], ex->streams[s]);
    for (int s = 0; s < ex->nstreams; s++)
        for (int other = 0; other < ex->nstreams; other++)
            if (other != s) mt_stream_wait(ex->streams[s], ex->tails[other]);
}

static void queue_all(struct mt_executor *ex, struct replay *run) {
    const struct mt_lowered *low = run->low;
    bool body = low->block_begin[MT_BODY] < low->block_begin[MT_BODY + 1];
    queue_block(ex, run, MT_PROLOGUE, true, false);
    for (int64_t it = 0; body && it < low->body_count; it++) {
        if (it > 0 && low->body_barrier) join_streams(ex);
        advance(run, it);
        queue_block(ex, run, MT_BODY, true, false);
    }
    if (body && low->body_count == 0) queue_block(ex, run, MT_BODY, false, false);
    if (body && low->body_barrier) join_streams(ex);
    queue_block(ex, run, MT_LAST, true, false);
    queue_block(ex, run, MT_EPILOGUE, true, false);
}

/* Capture a run; of a program with overlapped instructions also the one after it, whose epochs have the other parity.
 */
static enum mt_status capture_runs(struct mt_executor *ex, struct replay *run, struct mt_err *err) {
    const int nregions = run->low->nregions;
    int64_t *epochs = mt_arena_memdup(&ex->host, run->epochs, (size_t)(nregions + 1) * sizeof *epochs);
    enum mt_status st = MT_OK;
    run->captured_at = run->count;
    for (int c = 0; c < (nregions ? 2 : 1) && !st; c++) {
        if ((st = mt_capture_begin(ex->streams, ex->nstreams, &run->captures[c], err))) break;
        queue_all(ex, run);
        if (!(st = mt_capture_end(run->captures[c], err))) run->ncaptures++;
        for (int r = 0; r < nregions && !c; r++) run->epochs_of_run[r] = run->epochs[r] - epochs[r];
    }
    memcpy(run->epochs, epochs, (size_t)nregions * sizeof *epochs); /* nothing ran */
    while (st && run->ncaptures) mt_capture_free(run->captures[--run->ncaptures]);
    return st;
}

/* Capture a program that has run once. One that cannot be captured goes on running eagerly. */
static void capture(struct mt_executor *ex, enum mt_run which) {
    static const char *const names[MT_NRUNS] = {"training step", "forward pass"};
    struct replay *run = &ex->runs[which];
    struct mt_err err = MT_ERR_INIT;
    double start_s = mt_now_s();
    if (run->ncaptures || run->uncapturable || !run->ran || ex->trace || !mt_device_captures(ex->device)) return;
    if (!capture_runs(ex, run, &err)) {
        mt_log(MT_LOG_DEBUG, "the %s is captured: %lld instructions, %.3f s", names[which],
               (long long)run->low->ninstrs, mt_now_s() - start_s);
        return;
    }
    run->uncapturable = true;
    mt_log(MT_LOG_WARN, "the %s cannot be captured, and runs slower: %s", names[which], err.text);
}

/* The capture for the parity of the epochs. */
static struct mt_capture *next_capture(struct replay *run) {
    struct mt_capture *next = run->captures[(run->count - run->captured_at) % run->ncaptures];
    for (int r = 0; r < run->low->nregions; r++) run->epochs[r] += run->epochs_of_run[r];
    return next;
}

static enum mt_status launch(struct mt_executor *ex, struct slot *slot, struct mt_err *err) {
    struct replay *run = &ex->runs[slot->run];
    mt_executor_queue_inputs(ex, slot->run, false);
    struct mt_capture *next = next_capture(run);
    enum mt_status st = mt_capture_launch(next, &ex->clock, &slot->launch, err);
    if (st) return st;
    mt_executor_queue_results(ex, slot);
    mt_event_record(slot->done, ex->streams[MT_STREAM_COMPUTE]);
    slot->launched = next;
    return MT_OK;
}

/* ---- runs ---- */

enum mt_status mt_executor_submit(struct mt_executor *ex, enum mt_run which, const struct mt_clock *clock,
                                  struct mt_err *err) {
    struct replay *run = &ex->runs[which];
    struct slot *slot = &ex->slots[executor_slot_of(ex, ex->submitted)];
    assert(run->low && !ex->broken && mt_executor_in_flight(ex) < ex->nslots);
    ex->clock = *clock;
    capture(ex, which);
    *slot = (struct slot){.memory = slot->memory, .run = which, .done = slot->done, .submitted_s = mt_now_s()};
    if (!ex->kept) queue_kept(ex, run);
    ex->kept = false;
    enum mt_status st = run->ncaptures && !ex->trace ? launch(ex, slot, err) : run_eagerly(ex, slot, err);
    if (st && ex->window && !ex->broken) mt_window_abort(ex->window, err->text);
    if (st && ex->messages && !ex->broken) mt_window_abort(ex->messages, err->text);
    if (st) return st;
    run->ran = true;
    run->count++;
    ex->kept = which == MT_RUN_TRAIN; /* another program may have used the memory */
    ex->submitted++;
    return MT_OK;
}

static enum mt_status wait_for_launch(struct mt_executor *ex, struct slot *slot, struct mt_err *err) {
    enum mt_status st = mt_event_sync(slot->done, mt_executor_patience_s(ex), err);
    ex->broken = ex->broken || st == MT_ESTALL;
    if (st) return st;
    slot->times.end_s = mt_now_s();
    slot->times.wall_s = slot->times.end_s - fmax(slot->submitted_s, ex->times.end_s);
    mt_capture_times(slot->launched, slot->launch, slot->times.stream_s);
    return MT_OK;
}

enum mt_status mt_executor_finish(struct mt_executor *ex, struct mt_err *err) {
    struct slot *slot = &ex->slots[executor_slot_of(ex, ex->finished)];
    assert(mt_executor_in_flight(ex));
    enum mt_status st = slot->launched ? wait_for_launch(ex, slot, err) : MT_OK;
    ex->finished++;
    if (st) return st;
    mt_executor_read_results(ex, slot);
    /* An emulated stream may end some microseconds ahead. */
    slot->times.wait_s = fmax(slot->times.wall_s - slot->times.stream_s[MT_STREAM_COMPUTE], 0);
    ex->times = slot->times;
    return MT_OK;
}

enum mt_status mt_executor_run(struct mt_executor *ex, enum mt_run which, const struct mt_clock *clock,
                               struct mt_err *err) {
    assert(!mt_executor_in_flight(ex));
    enum mt_status st = mt_executor_submit(ex, which, clock, err);
    return st ? st : mt_executor_finish(ex, err);
}

struct mt_run_times mt_executor_times(const struct mt_executor *ex) {
    return ex->times;
}

void mt_executor_trace(struct mt_executor *ex, mt_trace *trace, void *context) {
    ex->trace = trace;
    ex->trace_context = context;
}
