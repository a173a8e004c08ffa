/* GEMMs by our own kernel (gemm_tiles.cu): of half types, on sm_90. Which tiles: a few of the best by an estimate,
 * which counts waves of blocks; they are then measured beside the library's algorithms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/tile.h"
#include "kernels/cuda/jit/shape.h"

enum { CHUNK_BYTES = 64 * GEMM_ROW_BYTES, MOST_STAGES = 8, LEAST_STAGES = 3, MOST_PARTS = 8 };

/* As in gemm_tiles.cu; as in gemm_parts.cu. */
struct tiles {
    int rows, columns, parts, slabs, slabs_each;
};
struct few {
    int m, n, columns, slabs, slabs_each;
};

/* A choice's numbers: gemm_choice.algo.data. */
struct form {
    uint64_t rows, columns, share, parts;
};
/* What blocks of a cluster share: nothing, as there are none; b; a; a tile, of which each multiplies a part of k. */
enum { SHARE_NONE, SHARE_B, SHARE_A, SHARE_TILE, NSHARES };

static const struct gemm_tile kinds[] = {
#define MT_WGMMA_TILE(rows, columns, together, slower) {rows, columns, together, slower},
#include "kernels/overlap/tiles.def"
#undef MT_WGMMA_TILE
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

const struct gemm_tile *gemm_tile_of(int64_t rows, int64_t columns) {
    for (int k = 0; k < NKINDS; k++)
        if (rows == kinds[k].rows && columns == kinds[k].columns) return &kinds[k];
    return NULL;
}

static const struct gemm_tile *kind_of(const struct form *f) {
    return gemm_tile_of((int64_t)f->rows, (int64_t)f->columns);
}

static struct form form_of(const struct gemm_choice *choice) {
    const uint64_t *d = choice->algo.data;
    return (struct form){d[0], d[1], d[2], d[3]};
}

static bool aligned(int64_t extent, enum mt_type type) {
    return extent * mt_type_size(type) % 16 == 0;
}

/* TMA wants rows that begin at multiples of 16 bytes, and extents of 32 bits. y in half precision cannot be added to
 * without rounding twice; what comes before a GEMM as a pass is added to as well. */
bool gemm_tiles_possible(const struct cuda *cuda, const struct gemm_shape *s) {
    bool half = mt_type_is_half((enum mt_type)s->in), adds = s->accumulate && s->out != MT_F32;
    bool passes = s->epilogue != EPILOGUE_NONE && s->epilogue < EPILOGUE_GELU_GRAD;
    int64_t a_row = s->trans_a ? s->m : s->k, b_row = s->trans_b ? s->k : s->n;
    return cuda->sm == 90 && half && !adds && !passes && s->align >= 16 && aligned(a_row, s->in) &&
           aligned(b_row, s->in) && aligned(s->n, s->out) && s->m < INT32_MAX / 2 && s->n < INT32_MAX / 2 &&
           s->k < INT32_MAX / 2;
}

static int64_t store_bytes_of(const struct gemm_tile *tile) {
    return 2 * CHUNK_BYTES * (tile->together ? 2 : 4);
}

int gemm_tile_stages(const struct cuda *cuda, const struct gemm_tile *tile, int64_t beside_bytes) {
    int64_t stage = (int64_t)(tile->rows + tile->columns) * GEMM_ROW_BYTES;
    int64_t room = cuda->shared_bytes - 2048 - store_bytes_of(tile) - beside_bytes; /* alignment and barriers */
    int64_t stages = least(room / stage, MOST_STAGES);
    return stages < LEAST_STAGES ? 0 : (int)stages;
}

int gemm_tile_shared_bytes(const struct cuda *cuda, const struct gemm_tile *tile, int64_t beside_bytes) {
    return 1024 + (int)beside_bytes +
           gemm_tile_stages(cuda, tile, beside_bytes) * (tile->rows + tile->columns) * GEMM_ROW_BYTES +
           (int)store_bytes_of(tile);
}

static struct tiles tiles_of(const struct gemm_shape *s, const struct form *f) {
    struct tiles t = {.rows = (int)divide_up(s->m, (int64_t)f->rows),
                      .columns = (int)divide_up(s->n, (int64_t)f->columns),
                      .parts = (int)f->parts,
                      .slabs = (int)divide_up(s->k, GEMM_SLAB)};
    t.slabs_each = (int)divide_up(t.slabs, t.parts);
    return t;
}

static int64_t items_of(const struct tiles *t, const struct form *f) {
    int64_t down = f->share == SHARE_B ? 2 : 1, across = f->share == SHARE_A ? 2 : 1;
    return divide_up(t->rows, down) * divide_up(t->columns, across) * t->parts;
}

/* The parts' kernel stores nothing through shared memory, and adds in the room of its stages. Its groups have halves of
 * the rows, or one has all. */
static int part_stages(const struct cuda *cuda, const struct form *f) {
    return (int)least((cuda->shared_bytes - 2048) / ((int64_t)(f->rows + f->columns) * GEMM_ROW_BYTES), MOST_STAGES);
}

static bool parts_possible(const struct cuda *cuda, const struct form *f) {
    bool power = f->parts == 2 || f->parts == 4 || f->parts == 8; /* columns of a tile are divided by them */
    return power && f->rows <= 128 && f->columns != 192 && part_stages(cuda, f) >= LEAST_STAGES;
}

static bool is_possible(const struct cuda *cuda, const struct gemm_shape *s, const struct form *f) {
    if (!kind_of(f) || f->share >= NSHARES || !f->parts || f->parts > MOST_PARTS) return false;
    struct tiles t = tiles_of(s, f);
    bool full = (t.parts - 1) * t.slabs_each < t.slabs; /* no part is empty */
    if (f->share == SHARE_TILE) return full && parts_possible(cuda, f) && (int64_t)t.rows * t.columns < INT32_MAX / 8;
    int64_t sums_bytes = t.parts * s->m * s->n * (int64_t)sizeof(float);
    bool sums = t.parts == 1 || (sums_bytes <= GEMM_WORKSPACE_BYTES && s->n % 4 == 0);
    bool pairs = f->share == SHARE_B ? t.rows > 1 : f->share == SHARE_A ? t.columns > 1 : true;
    return full && sums && pairs && gemm_tile_stages(cuda, kind_of(f), 0);
}

bool gemm_tiles_usable(const struct cuda *cuda, const struct gemm_shape *s, const struct gemm_choice *choice) {
    struct form f = form_of(choice);
    return gemm_tiles_possible(cuda, s) && is_possible(cuda, s, &f);
}

/* ---- candidates ---- */

struct estimate {
    struct form form;
    double time_us;
};

static int by_time(const void *a, const void *b) {
    double x = ((const struct estimate *)a)->time_us, y = ((const struct estimate *)b)->time_us;
    return (x > y) - (x < y);
}

static int computing(const struct cuda *cuda, const struct gemm_shape *s) {
    return s->nsm ? s->nsm : cuda->nsm;
}

/* The time of a block for a slab: the longer of the multiplication and the load. A box that reaches beyond the rows of
 * a loads slowly. */
static double slab_us(const struct gemm_shape *s, const struct form *f) {
    static const double largest_tile = 0.8, load_bytes = 75e3; /* us; bytes a us into one multiprocessor */
    static const double shared[NSHARES] = {1, 1.012, 1.01, 1};
    double multiply =
        largest_tile * (double)(f->rows * f->columns) / (128 * 256) * kind_of(f)->slower * shared[f->share];
    double load = (double)((f->rows + f->columns) * GEMM_ROW_BYTES) / load_bytes;
    double outside = s->m < (int64_t)f->rows ? 0.25 + 0.0037 * (double)((int64_t)f->rows - s->m) : 0;
    return fmax(fmax(multiply, load), outside);
}

/* An estimate, with constants measured on an H200. Tiles run in waves, each as long as its slabs and its store, where
 * that is not hidden; all together take at least as long as the blocks need to read a and b; then parts are added, in a
 * cluster or by a pass. Large clusters do not use all multiprocessors. */
static double time_of(const struct cuda *cuda, const struct gemm_shape *s, const struct form *f) {
    static const double launch = 2, fill = 2, store = 4, store_late = 0.6, cluster_add = 1, pass = 3.3;
    static const double memory_bytes = 3.95e6, cache_bytes = 4e6; /* a us */
    enum { READERS = 64 };                                        /* this many multiprocessors read as fast as all */
    struct tiles t = tiles_of(s, f);
    bool whole_tile = f->share == SHARE_TILE, together = kind_of(f)->together;
    int64_t each = whole_tile ? t.parts : f->share ? 2 : 1, nsm = computing(cuda, s);
    int64_t clusters = largest(nsm / each * (each > 2 ? 3 : 4) / 4, 1),
            items = items_of(&t, f) / (whole_tile ? each : 1);
    double waves = (double)divide_up(items, clusters), readers = (double)least(least(items * each, nsm), READERS);
    double late = s->out != MT_F32 && t.parts == 1 ? store_late : store;
    double stores = whole_tile ? waves * store : together ? waves * late : store;
    double read = (double)((s->m + s->n) * s->k * 2) / memory_bytes * READERS / readers;
    double summed = (double)(t.parts * s->m * s->n) * 2 * sizeof(float) / cache_bytes;
    double add = t.parts == 1 ? 0 : whole_tile ? cluster_add : pass + summed;
    return launch + fmax(waves * t.slabs_each * slab_us(s, f) + stores, fill + read) + add;
}

bool gemm_tiles_form(const char *text, uint16_t form[4]) {
    int end = 0, n = sscanf(text, "%hux%hu/%hu/%hu%n", &form[0], &form[1], &form[2], &form[3], &end);
    bool known = false;
    for (int k = 0; k < NKINDS; k++) known |= form[0] == kinds[k].rows && form[1] == kinds[k].columns;
    return n == 4 && !text[end] && known && form[2] < NSHARES && form[3] && form[3] <= MOST_PARTS;
}

/* Whether these are the tiles that are asked for. */
static bool is_wanted(const struct gemm_shape *s, const struct form *f) {
    const uint16_t *w = s->form;
    return !w[0] || (f->rows == w[0] && f->columns == w[1] && f->share == w[2] && f->parts == w[3]);
}

/* Those of the same tile and parts differ little. */
static bool has_alike(const struct estimate *chosen, int count, const struct form *f) {
    enum { ALIKE = 2 };
    int alike = 0;
    for (int i = 0; i < count; i++) {
        const struct form *c = &chosen[i].form;
        alike += c->rows == f->rows && c->columns == f->columns && c->parts == f->parts;
    }
    return alike >= ALIKE;
}

void gemm_tiles_offered(const struct cuda *cuda, const struct gemm_shape *s, struct gemm_list *list) {
    enum { MOST = 8, ALL = NKINDS * NSHARES * MOST_PARTS };
    struct estimate all[ALL], chosen[MOST];
    int n = 0, count = 0;
    if (!gemm_tiles_possible(cuda, s)) return;
    for (int k = 0; k < NKINDS; k++)
        for (uint64_t share = 0; share < NSHARES; share++)
            for (uint64_t parts = 1; parts <= MOST_PARTS; parts++) {
                struct form f = {(uint64_t)kinds[k].rows, (uint64_t)kinds[k].columns, share, parts};
                if (is_wanted(s, &f) && is_possible(cuda, s, &f)) all[n++] = (struct estimate){f, time_of(cuda, s, &f)};
            }
    qsort(all, (size_t)n, sizeof *all, by_time);
    for (int i = 0; i < n && count < MOST; i++) {
        struct gemm_choice c = {.impl = GEMM_TILES};
        if (has_alike(chosen, count, &all[i].form)) continue;
        chosen[count++] = all[i];
        memcpy(c.algo.data, &all[i].form, sizeof all[i].form);
        gemm_list_add(list, &c);
    }
}

/* ---- running ---- */

enum mt_status gemm_map(CUtensorMap *to, const struct gemm_matrix *x, int64_t box_columns, int64_t box_rows,
                        struct mt_err *err) {
    static const CUtensorMapDataType types[MT_NTYPES] = {[MT_F32] = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                                         [MT_BF16] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                                         [MT_F16] = CU_TENSOR_MAP_DATA_TYPE_FLOAT16};
    const cuuint64_t row_bytes = (cuuint64_t)(x->columns * mt_type_size(x->type));
    const cuuint64_t extents[3] = {(cuuint64_t)x->columns, (cuuint64_t)x->rows, (cuuint64_t)x->parts},
                     distances[2] = {row_bytes, row_bytes * (cuuint64_t)x->rows};
    const cuuint32_t box[3] = {(cuuint32_t)box_columns, (cuuint32_t)box_rows, 1}, steps[3] = {1, 1, 1};
    CUDA_TRY(cuTensorMapEncodeTiled(to, types[x->type], x->parts ? 3 : 2, (void *)(uintptr_t)x->data, extents,
                                    distances, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
             err, "cuTensorMapEncodeTiled");
    return MT_OK;
}

/* The maps of a and b. A slab of an operand is a box of 64 terms of its rows; or, turned, of 64 columns of terms. */
static enum mt_status map_operands(const struct gemm_shape *s, const struct form *f, const struct gemm_data *data,
                                   CUtensorMap maps[2], struct mt_err *err) {
    enum mt_type in = (enum mt_type)s->in;
    int64_t half_a = f->share == SHARE_A ? 2 : 1, half_b = f->share == SHARE_B ? 2 : 1;
    const struct gemm_matrix a = {in, data->a, s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k, 0};
    const struct gemm_matrix b = {in, data->b, s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, 0};
    enum mt_status st = gemm_map(&maps[0], &a, 64, (s->trans_a ? GEMM_SLAB : (int64_t)f->rows) / half_a, err);
    return st ? st : gemm_map(&maps[1], &b, 64, (s->trans_b ? (int64_t)f->columns : GEMM_SLAB) / half_b, err);
}

/* Definitions of mainloop.cuh. */
struct definitions {
    char text[300];
};
static struct definitions define(const struct cuda *cuda, const struct gemm_shape *s, const struct form *f,
                                 enum mt_type out, int stages, bool together, bool accumulate) {
    bool pairs = f->share == SHARE_A || f->share == SHARE_B, parts = f->share == SHARE_TILE;
    bool streamed = !parts && !accumulate && gemm_streams(cuda, (int64_t)f->parts * s->m * s->n * mt_type_size(out));
    struct definitions d;
    snprintf(d.text, sizeof d.text,
             "-DTYPE=%s -DHALF=%s -DOUT=%s -DTURN_A=%d -DTURN_B=%d -DROWS=%d -DCOLUMNS=%d -DTOGETHER=%d -DSTAGES=%d "
             "-DSHARE=%d -DSPREAD=%d -DSTREAMED=%d -DACCUMULATE=%d",
             cuda_type((enum mt_type)s->in), cuda_type((enum mt_type)s->in), cuda_type(out), s->trans_a, !s->trans_b,
             (int)f->rows, (int)f->columns, together, stages, pairs ? (int)f->share : 0, !parts, streamed, accumulate);
    return d;
}

static enum mt_status add_parts(const struct cuda_queue *queue, const struct gemm_shape *s, int parts,
                                const struct gemm_data *data, struct mt_err *err) {
    enum { ADDERS = 256, EACH = 4 };
    char definitions[200];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions,
             "-DTYPE=%s -DHALF=bf16 -DOUT=%s -DTURN_A=0 -DTURN_B=0 -DROWS=64 -DCOLUMNS=64 -DTOGETHER=0 -DSTAGES=3 "
             "-DSHARE=0 -DSPREAD=0 -DSTREAMED=0 -DACCUMULATE=0 -DADD_PARTS=%d",
             cuda_type((enum mt_type)s->in), cuda_type((enum mt_type)s->out), s->accumulate);
    enum mt_status st = cuda_kernel(queue->cuda, "gemm_tiles", definitions, "gemm_add_parts", 0, &kernel, err);
    int64_t n = s->m * s->n;
    const void *sums = data->scratch;
    void *y = data->y;
    return st ? st
              : cuda_launch(queue, kernel, divide_up(n, ADDERS * EACH), ADDERS, 0, (void *[]){&sums, &y, &n, &parts},
                            err);
}

/* Parts of k by the blocks of a cluster. */
static enum mt_status run_parts(const struct cuda_queue *queue, const struct gemm_shape *s, const struct form *f,
                                const struct gemm_data *data, struct mt_err *err) {
    struct tiles t = tiles_of(s, f);
    struct few few = {(int)s->m, (int)s->n, t.columns, t.slabs, t.slabs_each};
    int stages = part_stages(queue->cuda, f);
    int shared_bytes = 1024 + stages * (int)(f->rows + f->columns) * GEMM_ROW_BYTES;
    struct definitions d = define(queue->cuda, s, f, (enum mt_type)s->out, stages, f->rows == 128, s->accumulate);
    size_t used = strlen(d.text);
    snprintf(d.text + used, sizeof d.text - used, " -DPARTS=%d", t.parts);
    CUtensorMap maps[2];
    CUfunction kernel;
    enum mt_status st = map_operands(s, f, data, maps, err);
    if (!st) st = cuda_kernel(queue->cuda, "gemm_parts", d.text, "gemm_parts", shared_bytes, &kernel, err);
    void *y = data->y;
    return st ? st
              : cuda_launch(queue, kernel, (int64_t)t.rows * t.columns * t.parts, GEMM_TILE_THREADS, shared_bytes,
                            (void *[]){&maps[0], &maps[1], &y, &few}, err);
}

enum mt_status gemm_tiles_run(const struct cuda_queue *queue, const struct gemm_shape *s,
                              const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err) {
    const struct form f = form_of(choice);
    struct cuda *cuda = queue->cuda;
    struct tiles t = tiles_of(s, &f);
    if (f.share == SHARE_TILE) return run_parts(queue, s, &f, data, err);
    bool whole = t.parts == 1;
    enum mt_type out = whole ? (enum mt_type)s->out : MT_F32;
    const struct gemm_matrix y = {out, whole ? data->y : data->scratch, s->m, s->n, t.parts};
    int shared_bytes = gemm_tile_shared_bytes(cuda, kind_of(&f), 0), stages = gemm_tile_stages(cuda, kind_of(&f), 0);
    struct definitions d = define(cuda, s, &f, out, stages, kind_of(&f)->together, s->accumulate && whole);
    CUtensorMap maps[3];
    CUfunction kernel;
    enum mt_status st = map_operands(s, &f, data, maps, err);
    if (!st) st = gemm_map(&maps[2], &y, GEMM_ROW_BYTES / mt_type_size(out), 64, err);
    if (!st) st = cuda_kernel(cuda, "gemm_tiles", d.text, "gemm_tiles", shared_bytes, &kernel, err);
    if (st) return st;
    int64_t each = f.share ? 2 : 1, blocks = least(items_of(&t, &f), largest(computing(cuda, s) / each, 1)) * each;
    st = cuda_launch(queue, kernel, blocks, GEMM_TILE_THREADS, shared_bytes,
                     (void *[]){&maps[0], &maps[1], &maps[2], &t}, err);
    return st || whole ? st : add_parts(queue, s, t.parts, data, err);
}
