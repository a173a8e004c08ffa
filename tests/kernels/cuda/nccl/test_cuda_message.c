/* Collective calls without a schedule on the GPU, against the same calls on the CPU, bit by bit: many random pieces a
 * call, which meet each other in the tensors, so that their order shows; and large ones. */
#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/check.h"

enum { POOL = 6000, MOST_PIECES = 40, LARGE = 3 << 20 };

static const uint64_t seed = 78;
static uint64_t draws;
static int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(seed, 1, draws++, (uint64_t)bound);
}

static struct mt_err err = MT_ERR_INIT;

/* A device, and what a call works on there: tensors in one pool, and two messages. */
struct side {
    struct mt_device *device;
    struct mt_stream *stream;
    char *pool, *message[2];
};
static struct side cpu, gpu;

static void open_side(struct side *side, const char *kind, int64_t room_bytes) {
    void *memory[3];
    for (int i = 0; i < 3; i++) CHECK_OK(mt_device_alloc(side->device, room_bytes, &memory[i], &err), err);
    side->pool = memory[0], side->message[0] = memory[1], side->message[1] = memory[2];
    CHECK_OK(mt_stream_new(side->device, kind, &side->stream, &err), err);
}

static void close_side(struct side *side) {
    mt_stream_free(side->stream);
    mt_device_free(side->device, side->pool);
    for (int b = 0; b < 2; b++) mt_device_free(side->device, side->message[b]);
    mt_device_close(side->device);
}

/* A random box of a random dense tensor somewhere in the pool; data: its offset in the pool, in bytes. */
static struct mt_piece random_piece(enum mt_type type, int64_t room, int64_t *count) {
    struct mt_piece piece = {.naxes = (int)below(MT_MAX_AXES + 1), .type = type};
    int64_t first = 0, stride = 1;
    *count = 1;
    for (int a = piece.naxes - 1; a >= 0; a--) {
        int64_t most = room / stride < 12 ? room / stride : 12, extent = below(3) ? 1 + below(most) : most / 4 * 4;
        if (extent < 1) extent = 1;
        int64_t from = below(3) ? 0 : below(extent), size = below(2) ? extent - from : below(extent - from + 1);
        piece.extent[a] = size, piece.stride[a] = stride;
        first += from * stride;
        stride *= extent;
        *count *= size;
    }
    first += below(2) ? 0 : below(room - stride + 1); /* the tensor's own place */
    piece.data = (void *)(uintptr_t)(first * mt_type_size(type));
    return piece;
}

static void random_values(enum mt_type type, void *data, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        mt_type_store(type, data, i, (double)(below(20000) - 10000) / (type == MT_I32 ? 1 : 64));
}

/* Run a call whose pieces have offsets for data; pool and messages are copied from the CPU's side before. */
static void run_on(struct side *side, struct mt_coll_call call, int64_t pool_bytes, int64_t message_bytes) {
    struct mt_piece pieces[2][MOST_PIECES];
    for (int i = 0; i < call.npack + call.nunpack; i++) {
        bool out = i >= call.npack;
        struct mt_piece *piece = &pieces[out][out ? i - call.npack : i];
        *piece = out ? call.unpack[i - call.npack] : call.pack[i];
        piece->data = side->pool + (uintptr_t)piece->data;
    }
    call.pack = pieces[0], call.unpack = pieces[1];
    for (int b = 0; b < 2; b++) call.message[b] = side->message[b];
    if (side != &cpu) {
        CHECK_OK(mt_device_copy_in(side->device, side->pool, cpu.pool, pool_bytes, &err), err);
        for (int b = 0; b < 2; b++)
            CHECK_OK(mt_device_copy_in(side->device, side->message[b], cpu.message[b], message_bytes, &err), err);
    }
    mt_stream_coll(side->stream, &call, NULL);
    CHECK_OK(mt_stream_sync(side->stream, 60, &err), err);
}

static void compare(const struct mt_coll_call *call, const char *what, const void *on_gpu, const void *want,
                    enum mt_type type, int64_t count) {
    int64_t size_bytes = mt_type_size(type);
    void *got = malloc((size_t)(count * size_bytes));
    CHECK_OK(mt_device_copy_out(gpu.device, got, on_gpu, count * size_bytes, &err), err);
    for (int64_t i = 0; i < count; i++)
        CHECK(
            !memcmp((char *)got + i * size_bytes, (const char *)want + i * size_bytes, (size_t)size_bytes),
            "%s of %s in a call \"%s\" with messages of %s, %d pieces packed, %d unpacked: element %lld is %g, not %g",
            what, mt_type_name(type), call->what, mt_type_name(call->problem.acc), call->npack, call->nunpack,
            (long long)i, mt_type_load(type, got, i), mt_type_load(type, want, i));
    free(got);
}

/* The same on both sides. The GPU first: the CPU's side holds what both begin with. */
static void run_and_compare(const struct mt_coll_call *call, enum mt_type type, int64_t pool, int64_t message) {
    int64_t pool_bytes = pool * mt_type_size(type), message_bytes = message * mt_type_size(call->problem.acc);
    run_on(&gpu, *call, pool_bytes, message_bytes);
    run_on(&cpu, *call, pool_bytes, message_bytes);
    for (int b = 0; b < 2; b++)
        compare(call, b ? "message 1" : "message 0", gpu.message[b], cpu.message[b], call->problem.acc, message);
    compare(call, "tensors", gpu.pool, cpu.pool, type, pool);
}

static void test_pieces(enum mt_type type, enum mt_type acc, int most_pieces) {
    struct mt_piece pack[MOST_PIECES], unpack[MOST_PIECES];
    struct mt_coll_call call = {.problem = {.acc = acc, .wire = acc}, .pack = pack, .unpack = unpack};
    bool reduces = type != MT_I32;
    call.problem.reduce = reduces && below(2) ? MT_MAX : MT_SUM;
    call.zero = below(2);
    call.what = call.zero ? "fill, pieces" : "pieces";
    call.npack = (int)below(most_pieces + 1), call.nunpack = (int)below(most_pieces + 1);
    random_values(type, cpu.pool, POOL);
    int64_t at[2] = {below(8), below(8)}, count;
    for (int b = 0; b < 2; b++) random_values(acc, cpu.message[b], POOL);
    for (int i = 0; i < call.npack; i++) { /* one after the other in the messages, with gaps */
        do pack[i] = random_piece(type, 500, &count);
        while (count > POOL / MOST_PIECES);
        pack[i].buffer = (int)below(2);
        pack[i].at = at[pack[i].buffer];
        at[pack[i].buffer] += below(2) ? count : count + below(8) * (POOL / MOST_PIECES - count) / 8;
    }
    call.message_count[0] = at[0] > POOL ? POOL : at[0];
    call.message_count[1] = POOL;
    enum mt_reduce reduce = MT_REDUCE_NONE;
    for (int i = 0; i < call.nunpack; i++) {
        unpack[i] = random_piece(type, below(2) ? POOL : 200, &count);
        unpack[i].buffer = (int)below(2);
        unpack[i].at = below(8) ? below(POOL - count + 1) : -1;
        if (reduces && below(3) == 0) reduce = (enum mt_reduce)below(3); /* often as the one before */
        unpack[i].reduce = reduce;
    }
    run_and_compare(&call, type, POOL, POOL);
}

/* Boxes that tile a matrix in turn, as an AllToAll's do, and the matrix as a whole. */
static void test_large(enum mt_type type, enum mt_type acc, int64_t columns, int64_t skew) {
    enum { PARTS = 20 };
    int64_t rows = LARGE / columns, width = columns / PARTS, at = 0;
    struct mt_piece pieces[PARTS];
    for (int i = 0; i < PARTS; i++) {
        int64_t from = i * width, size = i == PARTS - 1 ? columns - from : width;
        pieces[i] = (struct mt_piece){.at = at,
                                      .naxes = 3,
                                      .extent = {2, rows / 2, size},
                                      .stride = {rows / 2 * columns, columns, 1},
                                      .data = (void *)(uintptr_t)((from + skew) * mt_type_size(type)),
                                      .type = type};
        at += rows / 2 * 2 * size;
    }
    struct mt_piece whole = {.naxes = 1,
                             .extent = {at},
                             .stride = {1},
                             .data = (void *)(uintptr_t)(skew * mt_type_size(type)),
                             .type = type};
    struct mt_coll_call call = {.problem = {.acc = acc, .wire = acc, .reduce = MT_SUM},
                                .npack = PARTS,
                                .nunpack = 1,
                                .pack = pieces,
                                .unpack = &whole,
                                .message_count = {at, 0},
                                .what = "columns, then all"};
    random_values(type, cpu.pool, LARGE + skew);
    run_and_compare(&call, type, LARGE, LARGE);
    whole.reduce = MT_SUM;
    struct mt_piece packed = whole;
    packed.reduce = MT_REDUCE_NONE;
    for (int i = 0; i < PARTS; i++) pieces[i].reduce = MT_SUM;
    call.npack = 1, call.pack = &packed, call.nunpack = PARTS, call.unpack = pieces, call.what = "all, then columns";
    run_and_compare(&call, type, LARGE, LARGE);
}

int main(void) {
    if (mt_device_open("cuda:0", &gpu.device, &err)) {
        printf("skipped: %s\n", err.text);
        return err.status == MT_EMISSING || err.status == MT_EINPUT ? 77 : 1;
    }
    CHECK_OK(mt_device_open("cpu", &cpu.device, &err), err);
    open_side(&cpu, "cpu", (LARGE + 64) * 4);
    open_side(&gpu, "gpu", (LARGE + 64) * 4);
    memset(cpu.pool, 0, (LARGE + 64) * 4);
    for (int b = 0; b < 2; b++) memset(cpu.message[b], 0, (LARGE + 64) * 4);
    enum { NTYPES = 8 };
    static const enum mt_type types[NTYPES][2] = {{MT_F32, MT_F32},  {MT_BF16, MT_F32}, {MT_BF16, MT_BF16},
                                                  {MT_F32, MT_BF16}, {MT_F16, MT_F32},  {MT_F16, MT_F16},
                                                  {MT_F32, MT_F16},  {MT_I32, MT_I32}};
    for (int t = 0; t < NTYPES; t++) {
        for (int round = 0; round < 100; round++) test_pieces(types[t][0], types[t][1], 1);
        for (int round = 0; round < 100; round++) test_pieces(types[t][0], types[t][1], MOST_PIECES);
    }
    for (int t = 0; t < NTYPES - 1; t++)
        for (int64_t skew = 0; skew < 2; skew++) {
            test_large(types[t][0], types[t][1], 1280, skew);
            test_large(types[t][0], types[t][1], 1001, skew);
        }
    close_side(&gpu);
    close_side(&cpu);
    return 0;
}
