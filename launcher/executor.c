/* Replay: at the start every operand gets its address and every awaited instruction its event; a run queues calls,
 * waits and records in the order of the sequence. Only BODY's operators change between iterations, so an iteration's
 * calls are queued when the one before has ended. */
#include "launcher/executor.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/merge.h"

/* One lowered program with all pointers in place. */
struct replay {
    const struct mt_lowered *low;
    struct mt_call *calls;         /* [ninstrs]: operators */
    struct mt_coll_call *messages; /* [ninstrs]: collectives and copies */
    const struct mt_backend **backends;
    int *many;                /* [ninstrs]: of operators, how many calls from this one on are done by it; 0: by another */
    struct mt_event **events; /* [ninstrs]: where somebody waits for it; else null */
    double (*seconds)[2];     /* [ninstrs]: start and end */
    struct mt_tensor *values; /* [low->nvalues] */
};

struct mt_executor {
    struct mt_arena host; /* everything but the device's memory */
    struct mt_device *device;
    struct mt_comm *comm;
    double deadline_s;
    char *arena;
    int64_t arena_bytes, state_bytes;
    struct mt_stream *streams[MT_NSTREAMS];
    struct replay runs[MT_NRUNS];
    struct mt_clock clock;
    struct mt_run_times times;
    mt_trace *trace;
    void *trace_context;
    void *row, *part; /* a whole row of an input, and this rank's part of it */
    bool broken;      /* a stall: the streams cannot be waited for any more */
};

/* ---- preparation ---- */

static void *address(const struct mt_executor *ex, const struct mt_lowered *low, int value) {
    if (value < 0 || low->values[value].offset_bytes < 0) return NULL;
    return ex->arena + low->values[value].offset_bytes;
}

static struct mt_piece *place_pieces(struct mt_executor *ex, const struct mt_piece *pieces, int count) {
    struct mt_piece *placed = mt_arena_memdup(&ex->host, pieces, (size_t)count * sizeof *pieces);
    for (int i = 0; i < count; i++) placed[i].data = ex->arena + (uintptr_t)pieces[i].data;
    return placed;
}

static void prepare_operator(struct mt_executor *ex, struct replay *run, int i) {
    const struct mt_linstr *c = &run->low->instrs[i];
    struct mt_tensor *tensors = mt_arena_memdup(&ex->host, c->tensor, (size_t)(c->nin + c->nout) * sizeof *tensors);
    for (int k = 0; k < c->nin + c->nout; k++) {
        int value = k < c->nin ? c->in[k] : c->out[k - c->nin];
        tensors[k].data = mt_tensor_count(&tensors[k]) > 0 ? address(ex, run->low, value) : NULL;
    }
    run->calls[i] = (struct mt_call){.kind = c->kind,
                                     .attr = &c->attr,
                                     .nin = c->nin,
                                     .nout = c->nout,
                                     .in = tensors,
                                     .out = tensors + c->nin,
                                     .clock = &ex->clock,
                                     .scratch = address(ex, run->low, c->scratch),
                                     .what = c->name};
    run->backends[i] = mt_device_backend(ex->device, &run->calls[i]);
}

static void prepare_message(struct mt_executor *ex, struct replay *run, int i) {
    const struct mt_linstr *c = &run->low->instrs[i];
    run->messages[i] = (struct mt_coll_call){.problem = c->problem,
                                             .schedule = c->schedule,
                                             .comm = ex->comm,
                                             .group = c->group,
                                             .tag = c->tag,
                                             .deadline_s = ex->deadline_s,
                                             .npack = c->npack,
                                             .nunpack = c->nunpack,
                                             .pack = place_pieces(ex, c->pack, c->npack),
                                             .unpack = place_pieces(ex, c->unpack, c->nunpack),
                                             .zero = c->zero,
                                             .what = c->name};
    for (int b = 0; b < 2; b++) {
        run->messages[i].message[b] = address(ex, run->low, c->message[b]);
        run->messages[i].message_count[b] = c->message_count[b];
    }
}

/* What the compute stream runs, in its order, is merged as far as nothing waits in between. Not what changes from
 * iteration to iteration of BODY. */
static void merge_calls(struct mt_executor *ex, struct replay *run) {
    const struct mt_lowered *low = run->low;
    struct mt_call *calls = mt_new(&ex->host, struct mt_call, low->ninstrs);
    bool *apart = mt_new(&ex->host, bool, low->ninstrs), merges[MT_NOPS];
    int *instr = mt_new(&ex->host, int, low->ninstrs), *many = mt_new(&ex->host, int, low->ninstrs), n = 0;
    for (int k = 0; k < MT_NOPS; k++) merges[k] = mt_device_merges(ex->device, (enum mt_op_kind)k);
    run->many = mt_new(&ex->host, int, low->ninstrs);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b], before = -1; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            if (c->stream != MT_STREAM_COMPUTE || c->what == MT_LOWERED_ALIAS) continue;
            apart[n] = before < 0 || c->wait >= 0 || run->events[before] || c->nadvances || low->instrs[before].nadvances;
            calls[n] = run->calls[i];
            instr[n++] = before = i;
        }
    mt_merge_calls(calls, merges, apart, n, &ex->host, many);
    for (int k = 0; k < n; k++) run->calls[instr[k]] = calls[k], run->many[instr[k]] = many[k];
}

static enum mt_status prepare(struct mt_executor *ex, struct replay *run, const struct mt_lowered *low,
                              struct mt_err *err) {
    run->low = low;
    run->calls = mt_new(&ex->host, struct mt_call, low->ninstrs);
    run->messages = mt_new(&ex->host, struct mt_coll_call, low->ninstrs);
    run->backends = mt_new(&ex->host, const struct mt_backend *, low->ninstrs);
    run->events = mt_new(&ex->host, struct mt_event *, low->ninstrs);
    run->seconds = (double(*)[2])mt_new(&ex->host, double, 2 * low->ninstrs);
    run->values = mt_new(&ex->host, struct mt_tensor, low->nvalues);
    for (int v = 0; v < low->nvalues; v++) {
        run->values[v] = low->values[v].tensor;
        run->values[v].data = address(ex, low, v);
    }
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what == MT_LOWERED_OP) prepare_operator(ex, run, i);
        if (c->what == MT_LOWERED_OP && !run->backends[i]->supports(&run->calls[i]))
            return mt_fail(err, MT_EINPUT, "%s: this device has no %s of %s", c->name, mt_op_info[c->kind].name,
                           mt_type_name(c->tensor[0].type));
        if (c->what == MT_LOWERED_COLLECTIVE || c->what == MT_LOWERED_COPY) prepare_message(ex, run, i);
        if (c->wait < 0 || run->events[c->wait]) continue;
        enum mt_status st = mt_event_new(ex->device, &run->events[c->wait], err);
        if (st) return st;
    }
    merge_calls(ex, run);
    return MT_OK;
}

/* Room for the largest input's row. */
static void prepare_rows(struct mt_executor *ex) {
    int64_t most = 1;
    for (int r = 0; r < MT_NRUNS; r++) {
        const struct mt_lowered *low = ex->runs[r].low;
        for (int i = 0; low && i < low->ninputs; i++) {
            const struct mt_tensor *t = &low->values[low->inputs[i].value].tensor;
            int64_t bytes = mt_type_size(t->type);
            for (int a = low->inputs[i].rows ? 1 : 0; a < t->naxes; a++) bytes *= t->global[a];
            if (bytes > most) most = bytes;
        }
    }
    ex->row = mt_arena_alloc(&ex->host, (size_t)most);
    ex->part = mt_arena_alloc(&ex->host, (size_t)most);
}

enum mt_status mt_executor_new(struct mt_device *device, struct mt_comm *comm, const struct mt_lowered *train,
                               const struct mt_lowered *forward, double deadline_s, struct mt_executor **executor,
                               struct mt_err *err) {
    static const char *const names[MT_NSTREAMS] = {"compute", "comm"};
    const struct mt_lowered *lowered[MT_NRUNS] = {train, forward};
    struct mt_executor *ex = mt_calloc(1, sizeof *ex);
    enum mt_status st = MT_OK;
    ex->device = device;
    ex->comm = comm;
    ex->deadline_s = deadline_s;
    for (int r = 0; r < MT_NRUNS; r++) {
        if (!lowered[r]) continue;
        assert(!train || lowered[r]->state_bytes == train->state_bytes);
        if (lowered[r]->arena_bytes > ex->arena_bytes) ex->arena_bytes = lowered[r]->arena_bytes;
        ex->state_bytes = lowered[r]->state_bytes;
    }
    void *memory = NULL;
    if ((st = mt_device_alloc(device, ex->arena_bytes, &memory, err))) goto out;
    ex->arena = memory;
    for (int s = 0; s < MT_NSTREAMS; s++)
        if ((st = mt_stream_new(device, names[s], &ex->streams[s], err))) goto out;
    for (int r = 0; r < MT_NRUNS; r++)
        if (lowered[r] && (st = prepare(ex, &ex->runs[r], lowered[r], err))) goto out;
    prepare_rows(ex);
out:
    if (st) {
        mt_executor_free(ex);
        ex = NULL;
    }
    *executor = ex;
    return st;
}

void mt_executor_free(struct mt_executor *ex) {
    if (!ex) return;
    for (int s = 0; s < MT_NSTREAMS; s++) mt_stream_free(ex->streams[s]);
    for (int r = 0; r < MT_NRUNS; r++)
        for (int i = 0; ex->runs[r].events && i < ex->runs[r].low->ninstrs; i++) mt_event_free(ex->runs[r].events[i]);
    if (ex->arena) mt_device_free(ex->device, ex->arena);
    mt_arena_release(&ex->host);
    free(ex);
}

/* ---- states, inputs, results ---- */

static int64_t tensor_bytes(const struct mt_tensor *t) {
    return mt_tensor_count(t) * mt_type_size(t->type);
}

const struct mt_tensor *mt_executor_state(const struct mt_executor *ex, int gvalue) {
    for (int r = 0; r < MT_NRUNS; r++) {
        const struct mt_lowered *low = ex->runs[r].low;
        if (low && low->state_at[gvalue] >= 0) return &ex->runs[r].values[low->state_at[gvalue]];
    }
    return NULL;
}

enum mt_status mt_executor_set_state(struct mt_executor *ex, int gvalue, const void *box, struct mt_err *err) {
    const struct mt_tensor *t = mt_executor_state(ex, gvalue);
    assert(t);
    return mt_device_copy_in(ex->device, t->data, box, tensor_bytes(t), err);
}

enum mt_status mt_executor_get_state(struct mt_executor *ex, int gvalue, void *box, struct mt_err *err) {
    const struct mt_tensor *t = mt_executor_state(ex, gvalue);
    assert(t);
    return mt_device_copy_out(ex->device, box, t->data, tensor_bytes(t), err);
}

/* Cut from a dense whole (its axes from `axis` on) this rank's box. Returns its bytes. */
static int64_t cut(const struct mt_tensor *t, int axis, const char *whole, char *part) {
    int64_t size = mt_type_size(t->type), bytes = size, stride = size;
    if (axis == t->naxes) {
        memcpy(part, whole, (size_t)size);
        return size;
    }
    for (int a = axis + 1; a < t->naxes; a++) stride *= t->global[a], bytes *= t->extent[a];
    for (int64_t i = 0; i < t->extent[axis]; i++) {
        const char *from = whole + (t->offset[axis] + i) * stride;
        if (axis + 1 == t->naxes)
            memcpy(part + i * bytes, from, (size_t)size);
        else
            cut(t, axis + 1, from, part + i * bytes);
    }
    return t->extent[axis] * bytes;
}

enum mt_status mt_executor_feed(struct mt_executor *ex, enum mt_run run, int gvalue, mt_fill *fill, void *context,
                                struct mt_err *err) {
    const struct mt_lowered *low = ex->runs[run].low;
    for (int i = 0; i < low->ninputs; i++) {
        const struct mt_linput *input = &low->inputs[i];
        if (input->gvalue != gvalue) continue;
        const struct mt_tensor *t = &ex->runs[run].values[input->value];
        char *to = t->data;
        int64_t rows = input->rows ? input->nrows : 1;
        for (int64_t r = 0; r < rows; r++) {
            fill(context, input->rows ? input->rows[r] : -1, ex->row);
            int64_t bytes = cut(t, input->rows ? 1 : 0, ex->row, ex->part);
            enum mt_status st = mt_device_copy_in(ex->device, to, ex->part, bytes, err);
            if (st) return st;
            to += bytes;
        }
    }
    return MT_OK;
}

const struct mt_tensor *mt_executor_output(const struct mt_executor *ex, enum mt_run run, int gvalue) {
    const struct mt_lowered *low = ex->runs[run].low;
    if (!low || gvalue < 0 || low->output_at[gvalue] < 0) return NULL;
    return &ex->runs[run].values[low->output_at[gvalue]];
}

enum mt_status mt_executor_result(struct mt_executor *ex, enum mt_run run, int gvalue, double *data,
                                  struct mt_err *err) {
    const struct mt_tensor *t = mt_executor_output(ex, run, gvalue);
    if (!t) return mt_fail(err, MT_EBUG, "the program reports no such value");
    int64_t count = mt_tensor_count(t);
    void *copy = mt_malloc((size_t)tensor_bytes(t) + 1);
    enum mt_status st = mt_device_copy_out(ex->device, copy, t->data, tensor_bytes(t), err);
    for (int64_t i = 0; i < count && !st; i++) data[i] = mt_type_load(t->type, copy, i);
    free(copy);
    return st;
}

enum mt_status mt_executor_poison(struct mt_executor *ex, struct mt_err *err) {
    char bytes[4096];
    memset(bytes, 0xff, sizeof bytes);
    for (int64_t at = ex->state_bytes; at < ex->arena_bytes; at += (int64_t)sizeof bytes) {
        int64_t left = ex->arena_bytes - at, count = left < (int64_t)sizeof bytes ? left : (int64_t)sizeof bytes;
        enum mt_status st = mt_device_copy_in(ex->device, ex->arena + at, bytes, count, err);
        if (st) return st;
    }
    return MT_OK;
}

/* ---- running ---- */

/* Queue a block's instructions; without `work` only their order. */
static void queue_block(struct mt_executor *ex, struct replay *run, enum mt_block_kind block, bool work) {
    const struct mt_lowered *low = run->low;
    for (int i = low->block_begin[block]; i < low->block_begin[block + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        struct mt_stream *stream = ex->streams[c->stream];
        if (c->what == MT_LOWERED_ALIAS) continue;
        if (c->wait >= 0) mt_stream_wait(stream, run->events[c->wait]);
        if (work && c->what == MT_LOWERED_OP && run->many[i])
            mt_stream_op(stream, run->backends[i], &run->calls[i], run->seconds[i]);
        else if (work && c->what != MT_LOWERED_OP)
            mt_stream_coll(stream, &run->messages[i], run->seconds[i]);
        if (run->events[i]) mt_event_record(run->events[i], stream);
    }
}

/* The instruction that a stream started last, or -1. */
static int last_started(const struct replay *run, int stream) {
    int last = -1;
    for (int i = 0; i < run->low->ninstrs; i++)
        if (run->low->instrs[i].stream == stream && run->seconds[i][0] > 0 &&
            (last < 0 || run->seconds[i][0] > run->seconds[last][0]))
            last = i;
    return last;
}

/* Wait for a stream. The communicator has a deadline of its own and knows whom it waits for: give it time to say so. */
static enum mt_status sync_stream(struct mt_executor *ex, const struct replay *run, int stream, struct mt_err *err) {
    enum mt_status st = mt_stream_sync(ex->streams[stream], 1.25 * ex->deadline_s + 2, err);
    if (st != MT_ESTALL) return st;
    ex->broken = true;
    for (int s = 0; s < MT_NSTREAMS; s++) {
        int i = last_started(run, s);
        if (i >= 0 && run->seconds[i][1] < run->seconds[i][0])
            mt_err_context(err, "instruction %d, %s, is running", i, run->low->instrs[i].name);
    }
    return st;
}

static enum mt_status sync_all(struct mt_executor *ex, const struct replay *run, struct mt_err *err) {
    enum mt_status first = MT_OK;
    for (int s = 0; s < MT_NSTREAMS && !ex->broken; s++) {
        struct mt_err later = MT_ERR_INIT;
        enum mt_status st = sync_stream(ex, run, s, first ? &later : err);
        if (!first) first = st;
    }
    return first;
}

static double operand_bytes(const struct mt_linstr *c) {
    double bytes = 0;
    for (int k = 0; k < c->nin + c->nout; k++) bytes += (double)tensor_bytes(&c->tensor[k]);
    return bytes;
}

/* The next call that is done by an earlier one. */
static int next_merged(const struct replay *run, int i) {
    do i++;
    while (run->low->instrs[i].what != MT_LOWERED_OP || run->many[i]);
    return i;
}

/* The time of calls that were done as one is theirs by their bytes. */
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

static void account(struct mt_executor *ex, const struct replay *run, int begin, int end, int64_t iteration) {
    for (int i = begin; i < end; i++) {
        const double *t = run->seconds[i];
        if (t[0] == 0) continue;
        ex->times.stream_s[run->low->instrs[i].stream] += t[1] - t[0];
        if (ex->trace && run->many[i] > 1)
            trace_merged(ex, run, i, iteration);
        else if (ex->trace)
            ex->trace(ex->trace_context, run->low, i, iteration, t[0], t[1]);
    }
    memset(run->seconds[begin], 0, (size_t)(end - begin) * sizeof *run->seconds);
}

/* Point BODY's operators at an iteration's samples. */
static void advance(struct replay *run, int64_t iteration) {
    const struct mt_lowered *low = run->low;
    for (int i = low->block_begin[MT_BODY]; i < low->block_begin[MT_BODY + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        struct mt_tensor *tensors = (struct mt_tensor *)run->calls[i].in;
        for (int a = 0; a < c->nadvances; a++) {
            const struct mt_ladvance *step = &c->advances[a];
            struct mt_tensor *t = &tensors[step->operand];
            int value = step->operand < c->nin ? c->in[step->operand] : c->out[step->operand - c->nin];
            t->offset[step->axis] = c->tensor[step->operand].offset[step->axis] + iteration * step->offset;
            if (step->bytes) t->data = (char *)run->values[value].data + iteration * step->bytes;
        }
    }
}

/* Calls belong to one iteration at a time: the next waits until this one is done with them. */
static enum mt_status run_body(struct mt_executor *ex, struct replay *run, struct mt_err *err) {
    const struct mt_lowered *low = run->low;
    int begin = low->block_begin[MT_BODY], end = low->block_begin[MT_BODY + 1];
    if (begin == end) return MT_OK;
    for (int64_t it = 0; it < low->body_count; it++) {
        enum mt_status st = MT_OK;
        if (it > 0) {
            st = low->body_barrier ? sync_all(ex, run, err) : sync_stream(ex, run, MT_STREAM_COMPUTE, err);
            if (st) return st;
            account(ex, run, begin, end, it - 1);
        }
        advance(run, it);
        queue_block(ex, run, MT_BODY, true);
    }
    if (low->body_count == 0) queue_block(ex, run, MT_BODY, false);
    return low->body_barrier ? sync_all(ex, run, err) : MT_OK;
}

enum mt_status mt_executor_run(struct mt_executor *ex, enum mt_run which, const struct mt_clock *clock,
                               struct mt_err *err) {
    struct replay *run = &ex->runs[which];
    assert(run->low && !ex->broken);
    double start_s = mt_now_s();
    ex->clock = *clock;
    ex->times = (struct mt_run_times){0};
    memset(run->seconds, 0, (size_t)run->low->ninstrs * sizeof *run->seconds);
    queue_block(ex, run, MT_PROLOGUE, true);
    enum mt_status st = run_body(ex, run, err);
    if (!st) {
        queue_block(ex, run, MT_LAST, true);
        queue_block(ex, run, MT_EPILOGUE, true);
    }
    struct mt_err later = MT_ERR_INIT;
    enum mt_status end = ex->broken ? MT_OK : sync_all(ex, run, st ? &later : err);
    if (!st) st = end;
    if (st) return st;
    const int *begin = run->low->block_begin;
    account(ex, run, begin[MT_PROLOGUE], begin[MT_BODY], 0);
    account(ex, run, begin[MT_BODY], begin[MT_LAST], run->low->body_count - 1);
    account(ex, run, begin[MT_LAST], begin[MT_NBLOCKS], 0);
    ex->times.wall_s = mt_now_s() - start_s;
    /* An emulated stream may end some microseconds ahead. */
    ex->times.wait_s = fmax(ex->times.wall_s - ex->times.stream_s[MT_STREAM_COMPUTE], 0);
    return MT_OK;
}

struct mt_run_times mt_executor_times(const struct mt_executor *ex) {
    return ex->times;
}

void mt_executor_trace(struct mt_executor *ex, mt_trace *trace, void *context) {
    ex->trace = trace;
    ex->trace_context = context;
}

void mt_executor_look(struct mt_executor *ex, struct mt_executor_sight *sight) {
    bool computes = false, communicates = false;
    *sight = (struct mt_executor_sight){.text = ""};
    for (int s = 0; s < MT_NSTREAMS; s++) {
        struct mt_stream_sight stream = mt_stream_look(ex->streams[s]);
        size_t used = strlen(sight->text);
        sight->completed += stream.completed;
        if (!stream.what) continue;
        snprintf(sight->text + used, sizeof sight->text - used, "%s%s", used ? ", beside " : "", stream.what);
        communicates = communicates || stream.collective;
        computes = computes || !stream.collective;
    }
    sight->waits = communicates && !computes;
}
