/* The tiles that our kernels offer for a GEMM (kernels/cuda/gemm/tiles.c), without a GPU: those that were measured to
 * be the fastest, or within 3% of it, are among them; each offer can run, and none comes twice. */
#include <stdio.h>

#include "kernels/base/arena.h"
#include "tests/check.h"

#ifndef MOTLEY_CUDA
int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}
#else
#include "kernels/cuda/gemm/gemm.h"

/* ---- what stands in for the device: nothing runs ---- */

enum mt_status cuda_kernel(struct cuda *cuda, const char *source, const char *definitions, const char *name,
                           int shared_bytes, CUfunction *kernel, struct mt_err *err) {
    (void)cuda, (void)definitions, (void)name, (void)shared_bytes, (void)kernel;
    return mt_fail(err, MT_EBUG, "%s: nothing runs here", source);
}
enum mt_status cuda_launch(const struct cuda_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                           int shared_bytes, void **arguments, struct mt_err *err) {
    (void)queue, (void)kernel, (void)blocks, (void)threads, (void)shared_bytes, (void)arguments;
    return mt_fail(err, MT_EBUG, "nothing runs here");
}
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t axes, void *address,
                                const cuuint64_t *extents, const cuuint64_t *distances, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    (void)map, (void)type, (void)axes, (void)address, (void)extents, (void)distances, (void)box, (void)steps;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    return CUDA_ERROR_NOT_SUPPORTED;
}
enum mt_status cuda_fail(struct mt_err *err, CUresult result, const char *what) {
    return mt_fail(err, MT_ESYSTEM, "%s: %d", what, (int)result);
}
const char *cuda_type(enum mt_type type) {
    return mt_type_name(type);
}
void gemm_list_add(struct gemm_list *list, const struct gemm_choice *choice) {
    for (int i = 0; i < list->count; i++)
        CHECK(memcmp(&list->choices[i], choice, sizeof *choice), "offer %d comes twice", i);
    list->choices = mt_realloc(list->choices, (size_t)(list->count + 1) * sizeof *choice);
    list->choices[list->count++] = *choice;
}

/* ---- offers ---- */

/* The fastest of all tiles, as measured on an H200, of [m, k] by [k, n] in bf16; of gradients a is transposed, and y is
 * f32. */
static const struct {
    int64_t m, n, k;
    bool gradient;
    const char *best[3];
} measured[] = {{16, 4096, 8192, false, {"64x256/0/4", "64x128/0/4", "64x256/3/4"}},
                {32, 4096, 8192, false, {"64x128/0/4", "64x256/0/4", "64x256/3/4"}},
                {64, 4096, 8192, false, {"64x64/3/2"}},
                {128, 4096, 8192, false, {"64x256/0/4", "128x128/0/4", "128x128/3/2"}},
                {128, 8192, 4096, false, {"128x128/3/2"}},
                {256, 4096, 8192, false, {"128x128/3/2", "128x128/0/2"}},
                {8192, 8192, 512, false, {"128x256/0/1", "128x128/2/1"}},
                {8192, 8192, 1024, false, {"128x256/0/1", "128x128/2/1"}},
                {8192, 512, 8192, false, {"128x256/0/1", "128x128/2/1"}},
                {4096, 12288, 6144, false, {"128x256/0/1", "128x256/2/1"}},
                {4096, 7168, 4096, true, {"128x128/1/1", "128x128/2/1", "128x128/0/1"}},
                {12288, 6144, 4096, true, {"128x128/1/1", "128x128/2/1", "128x128/0/1"}}};
enum { NMEASURED = sizeof measured / sizeof *measured };

static const struct cuda h200 = {.sm = 90, .nsm = 132, .shared_bytes = 232448};

static bool is(const struct gemm_choice *choice, const char *text) {
    uint16_t form[4];
    if (!text) return false;
    CHECK(gemm_tiles_form(text, form), "%s", text);
    for (int i = 0; i < 4; i++)
        if (choice->algo.data[i] != form[i]) return false;
    return true;
}

static void offers(int i) {
    struct gemm_list list = {0};
    struct gemm_shape shape = {.m = measured[i].m,
                               .n = measured[i].n,
                               .k = measured[i].k,
                               .align = 16,
                               .in = MT_BF16,
                               .out = measured[i].gradient ? MT_F32 : MT_BF16,
                               .trans_a = measured[i].gradient,
                               .accumulate = measured[i].gradient};
    gemm_tiles_offered(&h200, &shape, &list);
    CHECK(list.count > 1);
    bool found = false;
    for (int c = 0; c < list.count; c++) {
        const struct gemm_choice *choice = &list.choices[c];
        CHECK(choice->impl == GEMM_TILES && gemm_tiles_usable(&h200, &shape, choice), "offer %d", c);
        for (int b = 0; b < 3; b++) found |= is(choice, measured[i].best[b]);
    }
    if (!found)
        for (int c = 0; c < list.count; c++)
            fprintf(stderr, "offered: %dx%d/%d/%d\n", (int)list.choices[c].algo.data[0],
                    (int)list.choices[c].algo.data[1], (int)list.choices[c].algo.data[2],
                    (int)list.choices[c].algo.data[3]);
    CHECK(found, "m=%lld n=%lld k=%lld: none of the fastest", (long long)shape.m, (long long)shape.n,
          (long long)shape.k);
    free(list.choices);
}

/* What cannot run is refused where it is asked for by name, and not offered. */
static void refusals(void) {
    static const struct {
        const char *form;
        int64_t m, n, k;
        bool runs;
    } asked[] = {{"128x256/1/1", 128, 512, 512, false}, /* one row of tiles: nobody to share b with */
                 {"128x256/1/1", 256, 512, 512, true},    {"128x256/2/1", 128, 256, 512, false},
                 {"128x128/3/3", 128, 128, 512, false}, /* columns are divided by 2, 4 and 8 */
                 {"128x128/3/4", 128, 128, 512, true},    {"128x128/3/4", 128, 128, 128, false}, /* empty parts */
                 {"256x128/3/2", 256, 128, 512, false},   {"128x192/3/2", 128, 192, 512, false},
                 {"128x128/0/8", 4096, 4096, 512, false}, /* sums beyond the workspace */
                 {"128x128/3/8", 4096, 4096, 512, true}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct gemm_list list = {0};
        struct gemm_shape shape = {
            .m = asked[i].m, .n = asked[i].n, .k = asked[i].k, .align = 16, .in = MT_BF16, .out = MT_BF16};
        CHECK(gemm_tiles_form(asked[i].form, shape.form), "%s", asked[i].form);
        gemm_tiles_offered(&h200, &shape, &list);
        CHECK_EQ(list.count, asked[i].runs);
        if (list.count) CHECK(is(&list.choices[0], asked[i].form), "%s", asked[i].form);
        free(list.choices);
    }
    uint16_t form[4];
    CHECK(!gemm_tiles_form("128x256/4/1", form) && !gemm_tiles_form("128x256/0/9", form) &&
          !gemm_tiles_form("96x256/0/1", form) && !gemm_tiles_form("128x256/0/1 ", form));
}

int main(void) {
    for (int i = 0; i < NMEASURED; i++) offers(i);
    refusals();
    return 0;
}
#endif
