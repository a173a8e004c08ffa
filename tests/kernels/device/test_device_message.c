/* Collective calls on streams: random strided pieces in and out of messages, against loops over elements; and three
 * ranks that reduce blocks of columns of tensors. */
#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/check.h"

static const uint64_t seed = 77;
static uint64_t draws;
static int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(seed, 1, draws++, (uint64_t)bound);
}

static struct mt_device *device;
static struct mt_stream *stream;
static struct mt_err err = MT_ERR_INIT;

enum { TENSOR = 4000 };

/* A random box of a random dense tensor of at most TENSOR elements. */
static struct mt_piece random_piece(enum mt_type type, void *data, int64_t *count) {
    struct mt_piece piece = {.naxes = (int)below(5), .type = type};
    int64_t first = 0, stride = 1;
    *count = 1;
    for (int a = piece.naxes - 1; a >= 0; a--) {
        int64_t extent = 1 + below(7), from = below(3) ? 0 : below(extent),
                size = below(2) ? extent - from : below(extent - from + 1);
        piece.extent[a] = size, piece.stride[a] = stride;
        first += from * stride;
        stride *= extent;
        *count *= size;
    }
    piece.data = (char *)data + first * mt_type_size(type);
    return piece;
}

/* Where element i of a piece, in row-major order, lies from piece->data. */
static int64_t element(const struct mt_piece *piece, int64_t i) {
    int64_t place = 0;
    for (int a = piece->naxes - 1; a >= 0; a--) {
        place += i % piece->extent[a] * piece->stride[a];
        i /= piece->extent[a];
    }
    return place;
}

static void fill(enum mt_type type, void *data, int64_t count) {
    for (int64_t i = 0; i < count; i++) mt_type_store(type, data, i, (double)(below(200) - 100)); /* exact in bf16 */
}

/* One piece out of a tensor into a message and on into another tensor, by a call without a schedule. */
static void test_piece(enum mt_type type, enum mt_type acc, enum mt_reduce reduce) {
    static double from[TENSOR], to[TENSOR], want[TENSOR], message[TENSOR + 10];
    fill(type, from, TENSOR);
    fill(type, to, TENSOR);
    memcpy(want, to, sizeof want);
    int64_t count, at = below(10);
    struct mt_piece in = random_piece(type, from, &count), out = in;
    in.at = out.at = at;
    out.reduce = reduce;
    out.data = (char *)to + ((char *)in.data - (char *)from);
    if (below(4) == 0) out.at = -1;
    for (int64_t i = 0; i < count; i++) {
        double x = mt_type_load(type, in.data, element(&in, i)), y = mt_type_load(type, out.data, element(&in, i));
        double result = reduce == MT_SUM ? x + y : reduce == MT_MAX && y > x ? y : x;
        if (out.at < 0) result = reduce == MT_MAX ? -INFINITY : 0;
        mt_type_store(type, (char *)want + ((char *)in.data - (char *)from), element(&in, i), result);
    }
    struct mt_coll_call call = {.problem = {.acc = acc, .wire = acc, .reduce = MT_SUM},
                                .npack = 1,
                                .nunpack = 1,
                                .pack = &in,
                                .unpack = &out,
                                .message = {message, NULL},
                                .message_count = {at + count, 0},
                                .zero = true,
                                .what = "pieces"};
    memset(message, 0xff, sizeof message);
    mt_stream_coll(stream, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 30, &err), err);
    for (int64_t i = 0; i < at; i++) CHECK_EQ(mt_type_load(acc, message, i), 0);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(mt_type_load(acc, message, at + i), mt_type_load(type, in.data, element(&in, i)));
    CHECK(!memcmp(to, want, sizeof to), "%s in %s, reduce %d", mt_type_name(type), mt_type_name(acc), (int)reduce);
}

/* Each rank reduces columns 2..5 of a 6 x 8 bf16 tensor with the others, in f32, in blocks of rows 1, 0, 5. */
static void test_ranks(void) {
    enum { N = 3, ROWS = 6, COLUMNS = 8, FIRST = 2, WIDTH = 4 };
    const int64_t counts[N] = {WIDTH, 0, (ROWS - 1) * WIDTH};
    const int group[N] = {0, 1, 2};
    struct mt_comm *comms[N];
    struct mt_stream *streams[N];
    struct mt_schedule schedules[N] = {0};
    struct mt_piece pieces[N];
    struct mt_coll_call calls[N];
    static mt_bf16 tensor[N][ROWS * COLUMNS], old[N][ROWS * COLUMNS];
    static float message[N][ROWS * WIDTH];
    double seconds[N][2];
    mt_comm_local_new(N, comms);
    for (int r = 0; r < N; r++) {
        fill(MT_BF16, tensor[r], ROWS * COLUMNS);
        memcpy(old[r], tensor[r], sizeof old[r]);
        pieces[r] = (struct mt_piece){
            .naxes = 2, .extent = {ROWS, WIDTH}, .stride = {COLUMNS, 1}, .data = tensor[r] + FIRST, .type = MT_BF16};
        calls[r] = (struct mt_coll_call){.problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, N, r, 0, counts},
                                         .schedule = &schedules[r],
                                         .comm = comms[r],
                                         .group = group,
                                         .tag = 1,
                                         .deadline_s = 30,
                                         .npack = 1,
                                         .nunpack = 1,
                                         .pack = &pieces[r],
                                         .unpack = &pieces[r],
                                         .message = {message[r], NULL},
                                         .message_count = {ROWS * WIDTH, 0},
                                         .what = "AllReduce x"};
        mt_coll_find(MT_ALL_REDUCE, "ring")->schedule(&calls[r].problem, &schedules[r]);
        CHECK_OK(mt_stream_new(device, "comm", &streams[r], &err), err);
        mt_stream_coll(streams[r], &calls[r], seconds[r]);
    }
    for (int r = 0; r < N; r++) {
        CHECK_OK(mt_stream_sync(streams[r], 30, &err), err);
        CHECK(seconds[r][0] > 0 && seconds[r][0] <= seconds[r][1]);
    }
    for (int r = 0; r < N; r++)
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            bool inside = i % COLUMNS >= FIRST && i % COLUMNS < FIRST + WIDTH;
            float sum = 0;
            for (int p = 0; p < N; p++) sum += inside || p == r ? mt_bf16_to_f32(old[p][i]) : 0;
            CHECK_EQ(mt_bf16_to_f32(tensor[r][i]), mt_bf16_to_f32(mt_bf16_from_f32(sum)));
        }
    /* A rank alone: the stall comes out of sync with the call's name. */
    calls[0].deadline_s = 0.2;
    mt_stream_coll(streams[0], &calls[0], NULL);
    CHECK_EQ(mt_stream_sync(streams[0], 30, &err), MT_ESTALL);
    CHECK(!strncmp(err.text, "AllReduce x: ", 13), "%s", err.text);
    for (int r = 0; r < N; r++) {
        mt_stream_free(streams[r]);
        mt_comm_free(comms[r]);
        mt_schedule_release(&schedules[r]);
    }
}

int main(void) {
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &stream, &err), err);
    static const enum mt_type types[][2] = {{MT_F64, MT_F64},   {MT_F32, MT_F32}, {MT_BF16, MT_F32},
                                            {MT_BF16, MT_BF16}, {MT_F32, MT_F64}, {MT_F32, MT_BF16},
                                            {MT_F16, MT_F32},   {MT_F32, MT_F16}, {MT_F16, MT_F16}};
    for (int round = 0; round < 100; round++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int reduce = MT_REDUCE_NONE; reduce <= MT_MAX; reduce++)
                test_piece(types[t][0], types[t][1], (enum mt_reduce)reduce);
    for (int round = 0; round < 100; round++) test_piece(MT_I32, MT_I32, MT_REDUCE_NONE);
    test_ranks();
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
