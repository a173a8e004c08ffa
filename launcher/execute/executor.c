/* Preparing lowered programs: every operand gets its address and every instruction that another stream waits for gets
 * an event. replay.c runs them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device/in_place.h"
#include "kernels/device/window.h"
#include "launcher/execute/internal.h"
#include "launcher/execute/merge.h"

/* ---- preparation ---- */

static void *address(const struct mt_executor *ex, const struct mt_lowered *low, int value) {
    if (value < 0 || low->values[value].offset_bytes < 0) return NULL;
    return ex->arena + low->values[value].offset_bytes;
}

static struct mt_piece *resolve_pieces(struct mt_executor *ex, const struct mt_lowered *low, const struct mt_linstr *c,
                                       bool unpack, const struct mt_piece *pieces, const int *of, int count) {
    struct mt_piece *resolved = mt_arena_memdup(&ex->host, pieces, (size_t)count * sizeof *pieces);
    for (int i = 0; i < count; i++)
        resolved[i].data = ex->arena + mt_linstr_piece_at(low, c, unpack, &pieces[i], of[i]);
    return resolved;
}

static void prepare_operator(struct mt_executor *ex, struct replay *run, int i) {
    const struct mt_linstr *c = &run->low->instrs[i];
    struct mt_tensor *tensors = mt_arena_memdup(&ex->host, c->tensor, (size_t)(c->nin + c->nout) * sizeof *tensors);
    run->tensors[i] = tensors;
    for (int k = 0; k < c->nin + c->nout; k++) {
        int value = k < c->nin ? c->in[k] : c->out[k - c->nin];
        tensors[k].data = mt_tensor_count(&tensors[k]) > 0 ? address(ex, run->low, value) : NULL;
    }
    run->calls[i] = mt_linstr_call(c, tensors);
    run->calls[i].clock = &ex->clock;
    run->calls[i].scratch = address(ex, run->low, c->scratch);
    run->backends[i] = mt_device_backend(ex->device, &run->calls[i]);
}

static void prepare_message(struct mt_executor *ex, struct replay *run, int i) {
    const struct mt_linstr *c = &run->low->instrs[i];
    run->messages[i] =
        (struct mt_coll_call){.problem = c->problem,
                              .schedule = c->schedule,
                              .comm = ex->comm,
                              .group = c->group,
                              .deadline_s = ex->deadline_s,
                              .npack = c->npack,
                              .nunpack = c->nunpack,
                              .pack = resolve_pieces(ex, run->low, c, false, c->pack, c->pack_of, c->npack),
                              .unpack = resolve_pieces(ex, run->low, c, true, c->unpack, c->unpack_of, c->nunpack),
                              .zero = c->zero,
                              .what = c->name};
    for (int b = 0; b < 2; b++) {
        run->messages[i].message[b] = address(ex, run->low, c->message[b]);
        run->messages[i].message_count[b] = c->message_count[b];
        run->messages[i].nin_place[b] = c->nin_place[b];
        run->messages[i].in_place[b] =
            resolve_pieces(ex, run->low, c, b, c->in_place[b], c->in_place_of[b], c->nin_place[b]);
    }
    mt_coll_call_locate(&run->messages[i], ex->arena, &ex->host);
}

static enum mt_status prepare_overlap(struct mt_executor *ex, struct replay *run, int i, struct mt_err *err) {
    const struct mt_linstr *c = &run->low->instrs[i];
    const struct mt_loverlap *o = c->overlap;
    /* The backend of a GEMM like the tiles'. */
    struct mt_tensor tensors[3] = {c->tensor[0], c->tensor[1], c->tensor[2]};
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .out_acc = true, .tf32 = o->problem.tf32};
    for (int k = 0; k < 3; k++) tensors[k] = (struct mt_tensor){.type = o->problem.type, .naxes = 2, .extent = {1, 1}};
    tensors[2].type = mt_type_acc(o->problem.type);
    struct mt_call tile = {
        .kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2, .what = c->name};
    run->overlaps[i] = (struct mt_overlap_call){.problem = &o->problem,
                                                .schedule = o->schedule,
                                                .window = ex->window,
                                                .base = run->window_base + o->window_at,
                                                .comm = ex->comm,
                                                .epoch = &run->epochs[o->region],
                                                .operands = {.a = address(ex, run->low, c->in[0]),
                                                             .b = address(ex, run->low, c->in[1]),
                                                             .trans_a = o->trans_a,
                                                             .trans_b = o->trans_b,
                                                             .trans_out = o->trans_out,
                                                             .whole = address(ex, run->low, mt_linstr_whole(c)),
                                                             .out = address(ex, run->low, c->out[0]),
                                                             .epilogue = c->attr.epilogue,
                                                             .extra = address(ex, run->low, mt_linstr_extra(c)),
                                                             .pre = address(ex, run->low, mt_linstr_pre(c)),
                                                             .matmul = mt_device_backend(ex->device, &tile),
                                                             .ops = &mt_backend_c,
                                                             .scratch = address(ex, run->low, c->scratch),
                                                             .ranks = c->group,
                                                             .names = ex->comm->names,
                                                             .what = c->name}};
    /* A communicator that queues reaches all ranks that there are. */
    enum mt_status st = ex->comm->class->queue
                            ? mt_device_window_has(ex->window, c->group, o->problem.n, ex->comm->names, err)
                            : mt_device_window_reaches(ex->window, c->group, o->problem.n, ex->comm->names, err);
    return st ? mt_err_context(err, "%s", c->name) : MT_OK;
}

/* Whether the next instruction may overlap this one's end, which no other stream waits for. */
static bool overlaps_next(const struct replay *run, int i) {
    return i + 1 < run->low->ninstrs && run->low->instrs[i + 1].ahead && !run->events[i];
}

/* Chunks that may overlap, and those that another stream waits for. */
static void pipeline_chunks(struct replay *run) {
    for (int i = 0; i < run->low->ninstrs; i++) {
        run->messages[i].more = overlaps_next(run, i);
        run->messages[i].ahead = i > 0 && run->messages[i - 1].more;
    }
}

/* Merge consecutive calls of the compute stream where no event lies between them. Calls whose operands advance with
 * BODY's iterations stay separate. */
static void merge_calls(struct mt_executor *ex, struct replay *run) {
    const struct mt_lowered *low = run->low;
    struct mt_call *calls = mt_new(&ex->host, struct mt_call, low->ninstrs);
    bool *separate = mt_new(&ex->host, bool, low->ninstrs), merges[MT_NOPS];
    int *instr = mt_new(&ex->host, int, low->ninstrs), *many = mt_new(&ex->host, int, low->ninstrs), n = 0;
    for (int k = 0; k < MT_NOPS; k++) merges[k] = mt_device_merges(ex->device, (enum mt_op_kind)k);
    run->many = mt_new(&ex->host, int, low->ninstrs);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b], before = -1; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            if (c->stream != MT_STREAM_COMPUTE || c->what == MT_LOWERED_ALIAS) continue;
            separate[n] = before < 0 || c->nwaits || c->kept != low->instrs[before].kept || run->events[before] ||
                          c->nadvances || low->instrs[before].nadvances;
            calls[n] = run->calls[i];
            instr[n++] = before = i;
        }
    mt_merge_calls(calls, merges, separate, n, &ex->host, many);
    for (int k = 0; k < n; k++) run->calls[instr[k]] = calls[k], run->many[instr[k]] = many[k];
}

static enum mt_status refuse_operator(const struct mt_linstr *c, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s: this device has no %s of %s", c->name, mt_op_info[c->kind].name,
            c->attr.tf32 ? "tf32" : mt_type_name(c->tensor[0].type));
    return mt_err_hint(err, "plan with a --precision that all devices have: f16 where one lacks bf16, else f32");
}

static enum mt_status prepare(struct mt_executor *ex, struct replay *run, const struct mt_lowered *low,
                              struct mt_err *err) {
    run->low = low;
    run->calls = mt_new(&ex->host, struct mt_call, low->ninstrs);
    run->tensors = mt_new(&ex->host, struct mt_tensor *, low->ninstrs);
    run->messages = mt_new(&ex->host, struct mt_coll_call, low->ninstrs);
    run->overlaps = low->nregions ? mt_new(&ex->host, struct mt_overlap_call, low->ninstrs) : NULL;
    run->epochs = mt_new(&ex->host, int64_t, low->nregions + 1);
    run->epochs_of_run = mt_new(&ex->host, int64_t, low->nregions + 1);
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
        enum mt_status st = MT_OK;
        if (c->what == MT_LOWERED_OP) prepare_operator(ex, run, i);
        if (c->what == MT_LOWERED_OP && !run->backends[i]->supports(&run->calls[i])) return refuse_operator(c, err);
        if (c->what == MT_LOWERED_COLLECTIVE || c->what == MT_LOWERED_COPY) prepare_message(ex, run, i);
        if (c->what == MT_LOWERED_OVERLAP && (st = prepare_overlap(ex, run, i, err))) return st;
        for (int w = 0; w < c->nwaits && !st; w++) {
            struct mt_event **event = &run->events[c->waits[w]];
            if (!*event) st = mt_event_new(ex->device, event, err);
        }
        if (st) return st;
    }
    pipeline_chunks(run);
    merge_calls(ex, run);
    return MT_OK;
}

/* What the communicator would move messages through. */
static enum mt_status open_messages(struct mt_executor *ex, struct mt_err *err) {
    int64_t size_bytes = 0;
    if (!ex->comm || !ex->comm->class->window_bytes) return MT_OK;
    enum mt_status st = ex->comm->class->window_bytes(ex->comm, &size_bytes, err);
    if (st || !size_bytes) return st;
    st = mt_device_window_new(ex->device, ex->comm, size_bytes, ex->deadline_s, &ex->messages, err);
    return st ? st : ex->comm->class->use_window(ex->comm, ex->messages, err);
}

/* Collective, and first of all: a rank that fails later would leave the others waiting here. */
static enum mt_status open_windows(struct mt_executor *ex, struct mt_err *err) {
    enum mt_status st = MT_OK;
    if (ex->window_bytes)
        st = mt_device_window_new(ex->device, ex->comm, ex->window_bytes, ex->deadline_s, &ex->window, err);
    return st ? st : open_messages(ex, err);
}

/* After a stall a stream may still use them. */
static void close_windows(struct mt_executor *ex) {
    struct mt_err ignored = MT_ERR_INIT;
    if (ex->broken) return;
    if (ex->messages) ex->comm->class->use_window(ex->comm, NULL, &ignored);
    mt_window_free(ex->messages);
    mt_window_free(ex->window);
}

enum mt_status mt_executor_new(struct mt_device *device, struct mt_comm *comm, const struct mt_lowered *train,
                               const struct mt_lowered *forward, double deadline_s, struct mt_executor **executor,
                               struct mt_err *err) {
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
        ex->runs[r].window_base = ex->window_bytes;
        ex->window_bytes += lowered[r]->window_bytes;
        ex->state_bytes = lowered[r]->state_bytes;
        if (lowered[r]->nstreams > ex->nstreams) ex->nstreams = lowered[r]->nstreams;
    }
    void *memory = NULL;
    if ((st = open_windows(ex, err))) goto out;
    if ((st = mt_device_alloc(device, ex->arena_bytes, &memory, err))) goto out;
    ex->arena = memory;
    for (int s = 0; s < ex->nstreams; s++)
        if ((st = mt_stream_new(device, mt_lowered_stream_name(s), &ex->streams[s], err)) ||
            (st = mt_event_new(device, &ex->tails[s], err)))
            goto out;
    for (int r = 0; r < MT_NRUNS; r++)
        if (lowered[r] && (st = prepare(ex, &ex->runs[r], lowered[r], err))) goto out;
    st = mt_executor_alloc_slots(ex, err);
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
    for (int r = 0; r < MT_NRUNS; r++)
        for (int c = 0; c < ex->runs[r].ncaptures; c++) mt_capture_free(ex->runs[r].captures[c]);
    for (int s = 0; s < ex->nstreams; s++) mt_stream_free(ex->streams[s]);
    for (int s = 0; s < ex->nstreams; s++) mt_event_free(ex->tails[s]);
    for (int p = 0; p < ex->nslots; p++) {
        mt_event_free(ex->slots[p].done);
        if (!ex->broken) mt_device_host_free(ex->device, ex->slots[p].memory);
    }
    for (int r = 0; r < MT_NRUNS; r++)
        for (int i = 0; ex->runs[r].events && i < ex->runs[r].low->ninstrs; i++) mt_event_free(ex->runs[r].events[i]);
    close_windows(ex);
    if (ex->arena && !ex->broken) mt_device_free(ex->device, ex->arena);
    mt_arena_release(&ex->host);
    free(ex);
}

/* ---- states ---- */

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
    mt_executor_states_changed(ex);
    return mt_device_copy_in(ex->device, t->data, box, mt_tensor_bytes(t), err);
}

void mt_executor_states_changed(struct mt_executor *ex) {
    ex->kept = false;
}

enum mt_status mt_executor_get_state(struct mt_executor *ex, int gvalue, void *box, struct mt_err *err) {
    const struct mt_tensor *t = mt_executor_state(ex, gvalue);
    assert(t);
    return mt_device_copy_out(ex->device, box, t->data, mt_tensor_bytes(t), err);
}

/* ---- progress ---- */

void mt_executor_query(struct mt_executor *ex, struct mt_executor_progress *progress) {
    bool computes = false, communicates = false;
    *progress = (struct mt_executor_progress){.text = ""};
    for (int s = 0; s < ex->nstreams; s++) {
        struct mt_stream_progress stream = mt_stream_query(ex->streams[s]);
        size_t used = strlen(progress->text);
        progress->completed += stream.completed;
        if (!stream.what) continue;
        snprintf(progress->text + used, sizeof progress->text - used, "%s%s", used ? ", concurrent with " : "",
                 stream.what);
        communicates = communicates || stream.collective;
        computes = computes || !stream.collective;
    }
    progress->waits = communicates && !computes;
}
