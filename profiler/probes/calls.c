/* Inputs are in three regions, one for each type that a case needs: activations, accumulations and ids. Each call takes
 * the next part of each region. An output that may be in place takes its input's memory, as in training; the others are
 * in a fourth region, so that inputs keep their values. */
#include "profiler/probes/calls.h"

#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 256,
    LEAST_BYTES = 8 << 20,
    MOST_BYTES = 64 << 20,
    MOST_GPU_BYTES = 256 << 20,
    MOST_ID_BYTES = 16 << 20,
    PATTERN = 1 << 16
};
enum region { ACTIVATIONS, ACCUMULATIONS, IDS, OUTPUTS, NREGIONS };

struct mt_calls {
    struct mt_device *device;
    bool gpu;
    char *memory[NREGIONS];
    int64_t region_bytes[NREGIONS], at[NREGIONS];
    enum mt_type type; /* the activation type with which the first two regions are filled; MT_I32: none yet */
    int64_t ids_below;
    void *scratch;
    int64_t scratch_bytes;
    struct mt_clock clock;
    int count;
    const struct mt_grid_case *kase;
    struct mt_call calls[MT_MOST_CALLS];
    struct mt_tensor tensors[MT_MOST_CALLS][MT_MAX_IN + MT_MAX_OUT];
    double seconds[MT_MOST_CALLS][2];
    struct mt_grid_case plug; /* see queue_plug */
    struct mt_call plug_call;
};

enum mt_status mt_calls_new(struct mt_device *device, int64_t room_bytes, struct mt_calls **calls, struct mt_err *err) {
    struct mt_calls *c = mt_calloc(1, sizeof *c);
    *calls = c;
    c->device = device;
    c->type = MT_I32;
    c->clock = (struct mt_clock){.step = 1, .seed = 1, .lr = 1e-4};
    c->gpu = !strcmp(mt_device_kind(device), "cuda");
    int64_t most_bytes = c->gpu ? MOST_GPU_BYTES : MOST_BYTES;
    int64_t region_bytes = room_bytes / 16 < LEAST_BYTES ? LEAST_BYTES : room_bytes / 16;
    if (region_bytes > most_bytes) region_bytes = most_bytes;
    for (int r = 0; r < NREGIONS; r++) {
        static const char zeros[1 << 20];
        bool few = c->gpu && r == IDS && region_bytes > MOST_ID_BYTES; /* they are rewritten for each size of a table */
        c->region_bytes[r] = few ? MOST_ID_BYTES : region_bytes;
        enum mt_status st = mt_device_alloc(device, c->region_bytes[r], (void **)&c->memory[r], err);
        if (!st) st = mt_device_repeat(device, c->memory[r], c->region_bytes[r], zeros, sizeof zeros, err);
        if (st) return mt_err_context(err, "operands for measurements");
    }
    const int64_t sizes[3] = {region_bytes / 4, 1, 1};
    mt_grid_make(MT_OP_fill, &(struct mt_attr){0}, "Tr", "Tr", MT_F32, sizes, &c->plug);
    return MT_OK;
}

void mt_calls_free(struct mt_calls *c) {
    if (!c) return;
    for (int r = 0; r < NREGIONS; r++) mt_device_free(c->device, c->memory[r]);
    mt_device_free(c->device, c->scratch);
    free(c);
}

/* Fill a region with a repeated pattern: numbers in [1/4, 1), which keep every operator finite; or ids. */
static enum mt_status fill(const struct mt_calls *c, enum region region, enum mt_type type, int64_t below,
                           struct mt_err *err) {
    int64_t pattern_bytes = PATTERN * mt_type_size(type);
    char *pattern = mt_malloc((size_t)pattern_bytes);
    bool ids = type == MT_I32;
    mt_type_noise(type, pattern, PATTERN, ids ? 0 : 0.25, ids ? (double)below : 0.75);
    enum mt_status st =
        mt_device_repeat(c->device, c->memory[region], c->region_bytes[region], pattern, pattern_bytes, err);
    free(pattern);
    return st;
}

static enum mt_type activation_type(const struct mt_grid_case *k) {
    for (int i = 0; i < k->nin + k->nout; i++)
        if (mt_type_is_half(k->tensors[i].type) || k->tensors[i].type == MT_F64) return k->tensors[i].type;
    return MT_F32;
}

static enum mt_status prepare(struct mt_calls *c, const struct mt_grid_case *k, struct mt_err *err) {
    enum mt_type type = activation_type(k);
    enum mt_status st = MT_OK;
    if (type != c->type) {
        if ((st = fill(c, ACTIVATIONS, type, 0, err)) || (st = fill(c, ACCUMULATIONS, mt_type_acc(type), 0, err)))
            return st;
        c->type = type;
    }
    if (k->ids_below && k->ids_below != c->ids_below) {
        st = fill(c, IDS, MT_I32, k->ids_below, err);
        c->ids_below = k->ids_below;
    }
    return st;
}

static int64_t padded_bytes(const struct mt_tensor *t) {
    return (mt_tensor_bytes(t) + ALIGN - 1) / ALIGN * ALIGN;
}

static enum region region_of(const struct mt_grid_case *k, int operand) {
    enum mt_type type = k->tensors[operand].type;
    if (operand >= k->nin) return OUTPUTS;
    return type == MT_I32 ? IDS : type == activation_type(k) ? ACTIVATIONS : ACCUMULATIONS;
}

bool mt_calls_fit(const struct mt_calls *c, const struct mt_grid_case *k) {
    int64_t needs[NREGIONS] = {0};
    for (int i = 0; i < k->nin + k->nout; i++) needs[region_of(k, i)] += padded_bytes(&k->tensors[i]);
    for (int r = 0; r < NREGIONS; r++)
        if (needs[r] > c->region_bytes[r]) return false;
    return true;
}

static void *place(struct mt_calls *c, enum region region, const struct mt_tensor *tensor) {
    int64_t size_bytes = padded_bytes(tensor);
    if (c->at[region] + size_bytes > c->region_bytes[region]) c->at[region] = 0;
    void *data = c->memory[region] + c->at[region];
    c->at[region] += size_bytes;
    return data;
}

static enum mt_status want_scratch(struct mt_calls *c, int64_t size_bytes, struct mt_err *err) {
    if (size_bytes <= c->scratch_bytes) return MT_OK;
    mt_device_free(c->device, c->scratch);
    c->scratch = NULL, c->scratch_bytes = 0;
    enum mt_status st = mt_device_alloc(c->device, size_bytes, &c->scratch, err);
    if (!st) c->scratch_bytes = size_bytes;
    return st;
}

static int64_t scratch_bytes(const struct mt_backend *backend, const struct mt_call *call) {
    return backend->scratch_bytes ? backend->scratch_bytes(call) : 0;
}

bool mt_calls_serve(const struct mt_calls *c, const struct mt_grid_case *k) {
    struct mt_call call = mt_grid_call(k, k->tensors);
    const struct mt_backend *backend = mt_device_backend(c->device, &call);
    return backend && (!backend->supports || backend->supports(&call));
}

/* Launching a GPU's calls one by one takes longer than short calls run, while in a captured step they run back to back.
 * So that they do here too, they are queued behind something long: fills of the output region. */
static void queue_plug(struct mt_calls *c, struct mt_stream *stream, int count) {
    enum { CALLS_A_FILL = 4 }; /* a fill of 256 MB takes a GPU at least 0.05 ms */
    for (int i = 0; i < 2; i++) c->plug.tensors[i].data = c->memory[OUTPUTS];
    c->plug_call = mt_grid_call(&c->plug, c->plug.tensors);
    const struct mt_backend *backend = mt_device_backend(c->device, &c->plug_call);
    for (int i = 0; i <= count / CALLS_A_FILL; i++) mt_stream_op(stream, backend, &c->plug_call, NULL);
}

enum mt_status mt_calls_queue(struct mt_calls *c, struct mt_stream *stream, const struct mt_grid_case *k, int count,
                              struct mt_err *err) {
    const struct mt_backend *backend = NULL;
    enum mt_status st = prepare(c, k, err);
    if (st) return st;
    for (int n = 0; n < count; n++) {
        struct mt_tensor *tensors = c->tensors[n];
        memcpy(tensors, k->tensors, sizeof k->tensors);
        for (int i = 0; i < k->nin; i++) tensors[i].data = place(c, region_of(k, i), &tensors[i]);
        for (int o = 0; o < k->nout; o++) {
            int from = mt_op_info[k->kind].in_place[o];
            struct mt_tensor *out = &tensors[k->nin + o];
            out->data = from >= 0 ? tensors[from].data : place(c, OUTPUTS, out);
        }
        c->calls[n] = mt_grid_call(k, tensors);
        c->calls[n].clock = &c->clock;
        if (!n) {
            backend = mt_device_backend(c->device, &c->calls[0]);
            if ((st = want_scratch(c, scratch_bytes(backend, &c->calls[0]), err))) return st;
        }
        c->calls[n].scratch = scratch_bytes(backend, &c->calls[n]) ? c->scratch : NULL;
    }
    c->count = count;
    if (c->gpu && count > 1) queue_plug(c, stream, count);
    for (int n = 0; n < count; n++) mt_stream_op(stream, backend, &c->calls[n], c->seconds[n]);
    return MT_OK;
}

enum mt_status mt_calls_wait(struct mt_calls *c, struct mt_stream *stream, double *times_s, struct mt_err *err) {
    enum mt_status st = mt_stream_sync(stream, 120, err);
    for (int n = 0; n < c->count && !st; n++)
        times_s[n] = (n + 1 < c->count ? c->seconds[n + 1][0] : c->seconds[n][1]) - c->seconds[n][0];
    return st;
}

const double (*mt_calls_seconds(const struct mt_calls *c))[2] {
    return (const double(*)[2])c->seconds;
}
