/* The slots of the pipeline: inputs to the device, results back to the host. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/execute/internal.h"

enum { SLOT_ALIGN = 64 };

static int64_t take(int64_t *top_bytes, int64_t size_bytes) {
    int64_t at = *top_bytes;
    *top_bytes += (size_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
    return at;
}

static int64_t input_bytes(const struct mt_lowered *low, const struct mt_linput *input) {
    int64_t bytes = mt_type_size(low->values[input->value].tensor.type);
    const struct mt_tensor *t = &low->values[input->value].tensor;
    for (int a = input->rows ? 1 : 0; a < t->naxes; a++) bytes *= t->extent[a];
    return input->rows ? bytes * input->nrows : bytes;
}

/* A program's inputs and reported scalars, from *top_bytes of a slot on. */
static void lay_out(struct mt_executor *ex, struct replay *run, int64_t *top_bytes) {
    const struct mt_lowered *low = run->low;
    int nvalues = low->program->graph->nvalues;
    run->fed = mt_new(&ex->host, struct fed, low->ninputs);
    run->reported = mt_new(&ex->host, struct reported, nvalues);
    for (int i = 0; i < low->ninputs; i++) {
        int64_t size_bytes = input_bytes(low, &low->inputs[i]);
        run->fed[i] = (struct fed){.at_bytes = take(top_bytes, size_bytes), .size_bytes = size_bytes, .slot = -1};
    }
    for (int g = 0; g < nvalues; g++) {
        if (low->output_at[g] < 0 || mt_tensor_count(&run->values[low->output_at[g]]) != 1) continue;
        int64_t size_bytes = mt_tensor_bytes(&run->values[low->output_at[g]]);
        run->reported[run->nreported++] = (struct reported){.gvalue = g, .at_bytes = take(top_bytes, size_bytes)};
    }
}

/* Room for the largest input's row. */
static void prepare_row(struct mt_executor *ex) {
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
}

enum mt_status mt_executor_alloc_slots(struct mt_executor *ex, struct mt_err *err) {
    int64_t size_bytes = 0;
    int depth = mt_device_depth(ex->device);
    prepare_row(ex);
    for (int r = 0; r < MT_NRUNS; r++)
        if (ex->runs[r].low) lay_out(ex, &ex->runs[r], &size_bytes);
    ex->loaded = MT_NRUNS;
    ex->nslots = depth < MT_EXECUTOR_DEPTH ? depth : MT_EXECUTOR_DEPTH;
    for (int p = 0; p < ex->nslots; p++) {
        void *memory;
        enum mt_status st = mt_device_host_alloc(ex->device, size_bytes, &memory, err);
        if (st) return st;
        ex->slots[p].memory = memory;
        if ((st = mt_event_new(ex->device, &ex->slots[p].done, err))) return st;
    }
    return MT_OK;
}

int mt_executor_in_flight(const struct mt_executor *ex) {
    return (int)(ex->submitted - ex->finished);
}

int mt_executor_depth(const struct mt_executor *ex) {
    return ex->nslots;
}

/* ---- inputs ---- */

/* Copy this rank's box out of a dense whole, from `axis` on. Returns the box's bytes. */
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

enum mt_status mt_executor_feed(struct mt_executor *ex, enum mt_run which, int gvalue, mt_fill *fill, void *context,
                                struct mt_err *err) {
    struct replay *run = &ex->runs[which];
    int slot = executor_slot_of(ex, ex->submitted);
    if (mt_executor_in_flight(ex) == ex->nslots)
        return mt_fail(err, MT_EBUG, "inputs are fed while %d runs are in flight", ex->nslots);
    for (int i = 0; i < run->low->ninputs; i++) {
        const struct mt_linput *input = &run->low->inputs[i];
        if (input->gvalue != gvalue) continue;
        char *to = ex->slots[slot].memory + run->fed[i].at_bytes;
        int64_t rows = input->rows ? input->nrows : 1;
        for (int64_t r = 0; r < rows; r++) {
            fill(context, input->rows ? input->rows[r] : -1, ex->row);
            to += cut(&run->values[input->value], input->rows ? 1 : 0, ex->row, to);
        }
        run->fed[i].slot = slot;
        run->fed[i].fresh = true;
    }
    return MT_OK;
}

/* Move an input that was fed for an earlier run to this run's slot: the other program's inputs have overwritten it on
 * the device. */
static void move_to_slot(struct mt_executor *ex, struct fed *fed) {
    int here = executor_slot_of(ex, ex->submitted);
    if (fed->slot != here)
        memcpy(ex->slots[here].memory + fed->at_bytes, ex->slots[fed->slot].memory + fed->at_bytes,
               (size_t)fed->size_bytes);
    fed->slot = here;
}

void mt_executor_queue_inputs(struct mt_executor *ex, enum mt_run which, bool all_streams) {
    struct replay *run = &ex->runs[which];
    struct mt_stream *compute = ex->streams[MT_STREAM_COMPUTE];
    bool any = false;
    for (int i = 0; i < run->low->ninputs; i++) {
        struct fed *fed = &run->fed[i];
        if (fed->slot < 0 || (!fed->fresh && ex->loaded == which)) continue;
        move_to_slot(ex, fed);
        mt_stream_copy(compute, MT_COPY_IN, run->values[run->low->inputs[i].value].data,
                       ex->slots[fed->slot].memory + fed->at_bytes, fed->size_bytes);
        fed->fresh = false;
        any = true;
    }
    ex->loaded = which;
    if (!any || !all_streams) return;
    mt_event_record(ex->tails[MT_STREAM_COMPUTE], compute);
    for (int s = 0; s < ex->nstreams; s++)
        if (s != MT_STREAM_COMPUTE) mt_stream_wait(ex->streams[s], ex->tails[MT_STREAM_COMPUTE]);
}

/* ---- results ---- */

const struct mt_tensor *mt_executor_output(const struct mt_executor *ex, enum mt_run run, int gvalue) {
    const struct mt_lowered *low = ex->runs[run].low;
    if (!low || gvalue < 0 || low->output_at[gvalue] < 0) return NULL;
    return &ex->runs[run].values[low->output_at[gvalue]];
}

void mt_executor_queue_results(struct mt_executor *ex, const struct slot *slot) {
    const struct replay *run = &ex->runs[slot->run];
    for (int i = 0; i < run->nreported; i++) {
        const struct mt_tensor *t = mt_executor_output(ex, slot->run, run->reported[i].gvalue);
        mt_stream_copy(ex->streams[MT_STREAM_COMPUTE], MT_COPY_OUT, slot->memory + run->reported[i].at_bytes, t->data,
                       mt_tensor_bytes(t));
    }
}

enum mt_status mt_executor_fetch_results(struct mt_executor *ex, const struct slot *slot, struct mt_err *err) {
    const struct replay *run = &ex->runs[slot->run];
    enum mt_status st = MT_OK;
    for (int i = 0; i < run->nreported && !st; i++) {
        const struct mt_tensor *t = mt_executor_output(ex, slot->run, run->reported[i].gvalue);
        st = mt_device_copy_out(ex->device, slot->memory + run->reported[i].at_bytes, t->data, mt_tensor_bytes(t), err);
    }
    return st;
}

void mt_executor_read_results(struct mt_executor *ex, const struct slot *slot) {
    struct replay *run = &ex->runs[slot->run];
    for (int i = 0; i < run->nreported; i++) {
        struct reported *r = &run->reported[i];
        r->number = mt_type_load(mt_executor_output(ex, slot->run, r->gvalue)->type, slot->memory + r->at_bytes, 0);
    }
}

enum mt_status mt_executor_result(struct mt_executor *ex, enum mt_run which, int gvalue, double *data,
                                  struct mt_err *err) {
    const struct replay *run = &ex->runs[which];
    const struct mt_tensor *t = mt_executor_output(ex, which, gvalue);
    if (!t) return mt_fail(err, MT_EBUG, "the program reports no such value");
    for (int i = 0; i < run->nreported; i++) {
        if (run->reported[i].gvalue != gvalue) continue;
        *data = run->reported[i].number;
        return MT_OK;
    }
    assert(!mt_executor_in_flight(ex));
    void *copy = mt_malloc((size_t)mt_tensor_bytes(t) + 1);
    enum mt_status st = mt_device_copy_out(ex->device, copy, t->data, mt_tensor_bytes(t), err);
    for (int64_t i = 0; i < mt_tensor_count(t) && !st; i++) data[i] = mt_type_load(t->type, copy, i);
    free(copy);
    return st;
}
