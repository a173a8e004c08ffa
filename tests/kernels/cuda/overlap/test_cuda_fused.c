/* Overlapped GEMMs in one kernel, of several ranks on one GPU, against fp64: each form, ragged and empty shares, odd
 * extents, types, transposes and tiles; gathers with epilogues too, sums with a bias; ten epochs with equal bits,
 * results and staging poisoned; as graphs; and without a peer, which ends by the deadline and names the flag. It is
 * long for its list of problems.
 *
 *     test_cuda_fused [I | I/OF]     // one problem; or each OF-th from I on, as most of the time is that of compilers
 */
#include "tests/kernels/cuda/overlap/one_gpu.h"

static const uint64_t seed = 20261123;

struct job {
    const char *name;
    enum mt_overlap_form form;
    int n;
    int64_t m, cols, k, rows[MOST_GPU_RANKS], shares[MOST_GPU_RANKS];
    enum mt_type type, out, wire;
    int64_t tile[2], chunk;
    int mix, slabs;
    bool direct, keep, trans_a, trans_b, joint;
    enum mt_op_kind epilogue;
};

static const struct job jobs[] = {
    {"one rank",
     MT_OVERLAP_GATHER,
     1,
     300,
     264,
     200,
     {300},
     {264},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 128},
    {"even",
     MT_OVERLAP_GATHER,
     2,
     512,
     512,
     256,
     {256, 256},
     {256, 256},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 128},
    {"ragged",
     MT_OVERLAP_GATHER,
     3,
     1001,
     840,
     328,
     {500, 1, 500},
     {200, 584, 56},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 100,
     .trans_b = true},
    {"kept",
     MT_OVERLAP_GATHER,
     3,
     777,
     264,
     1032,
     {77, 0, 700},
     {256, 8, 0},
     MT_F16,
     MT_F32,
     MT_F16,
     {128, 128},
     .chunk = 64,
     .keep = true},
    {"large",
     MT_OVERLAP_GATHER,
     2,
     2500,
     3000,
     1096,
     {1000, 1500},
     {1800, 1200},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {256, 128},
     .chunk = 512},
    {"slabs",
     MT_OVERLAP_GATHER,
     2,
     512,
     512,
     512,
     {256, 256},
     {256, 256},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 128,
     .slabs = 4},
    {"ragged slabs, kept",
     MT_OVERLAP_GATHER,
     3,
     1001,
     840,
     1032,
     {500, 1, 500},
     {200, 584, 56},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 128},
     .chunk = 100,
     .slabs = 3,
     .keep = true,
     .trans_b = true},
    {"slabs of less than a step",
     MT_OVERLAP_GATHER,
     2,
     300,
     520,
     272,
     {220, 80},
     {264, 256},
     MT_F16,
     MT_F32,
     MT_F16,
     {128, 256},
     .chunk = 64,
     .slabs = 17},
    {"pairs of one slab, odd rows of tiles",
     MT_OVERLAP_GATHER,
     2,
     2500,
     4800,
     64,
     {1600, 900},
     {2400, 2400},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 512},
    {"pairs with slabs",
     MT_OVERLAP_GATHER,
     2,
     2500,
     3000,
     1096,
     {1600, 900},
     {1800, 1200},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1024,
     .slabs = 4,
     .trans_b = true},
    {"tiles without pairs",
     MT_OVERLAP_GATHER,
     2,
     160,
     10240,
     136,
     {100, 60},
     {5120, 5120},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 64},
    {"added as they are stored",
     MT_OVERLAP_SCATTER,
     2,
     2048,
     1024,
     768,
     {1024, 1024},
     {384, 384},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .mix = 1},
    {"added, ragged",
     MT_OVERLAP_SCATTER,
     2,
     2600,
     1336,
     1168,
     {1000, 1600},
     {1080, 88},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .mix = 2,
     .trans_b = true},
    {"added, of 192 columns, many tiles a block",
     MT_OVERLAP_SCATTER,
     2,
     6144,
     3080,
     192,
     {3000, 3144},
     {64, 128},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 192},
     .mix = 1},
    {"added, all of one rank",
     MT_OVERLAP_SCATTER,
     2,
     700,
     520,
     256,
     {0, 700},
     {128, 128},
     MT_F16,
     MT_F16,
     MT_F16,
     {256, 128},
     .chunk = 64},
    {"small tiles",
     MT_OVERLAP_GATHER,
     2,
     260,
     272,
     64,
     {200, 60},
     {136, 136},
     MT_BF16,
     MT_F32,
     MT_BF16,
     {64, 64},
     .chunk = 32},
    {"even",
     MT_OVERLAP_SCATTER,
     2,
     512,
     512,
     512,
     {256, 256},
     {256, 256},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1},
    {"one rank", MT_OVERLAP_SCATTER, 1, 300, 264, 200, {300}, {200}, MT_BF16, MT_BF16, MT_BF16, {128, 256}, .chunk = 1},
    {"ragged",
     MT_OVERLAP_SCATTER,
     3,
     1000,
     840,
     808,
     {500, 1, 499},
     {400, 8, 400},
     MT_BF16,
     MT_F32,
     MT_BF16,
     {128, 256},
     .chunk = 1,
     .mix = 2},
    {"f32 wire",
     MT_OVERLAP_SCATTER,
     2,
     648,
     520,
     640,
     {304, 344},
     {512, 128},
     MT_F16,
     MT_F32,
     MT_F32,
     {128, 192},
     .chunk = 1,
     .trans_a = true,
     .trans_b = true},
    {"empty shares",
     MT_OVERLAP_SCATTER,
     3,
     520,
     264,
     640,
     {0, 416, 104},
     {256, 0, 384},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 128},
     .chunk = 1,
     .trans_a = true},
    {"large",
     MT_OVERLAP_SCATTER,
     2,
     3000,
     2504,
     1608,
     {1700, 1300},
     {800, 808},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1,
     .mix = 3},
    {"even",
     MT_OVERLAP_REDUCE,
     2,
     512,
     512,
     512,
     {256, 256},
     {256, 256},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1},
    {"added as they are stored",
     MT_OVERLAP_REDUCE,
     2,
     2048,
     1024,
     768,
     {1024, 1024},
     {384, 384},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1,
     .mix = 1},
    {"added, ragged",
     MT_OVERLAP_REDUCE,
     2,
     2600,
     1336,
     1168,
     {1000, 1600},
     {1080, 88},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1,
     .mix = 2,
     .trans_b = true},
    {"added, of 192 columns, many tiles a block",
     MT_OVERLAP_REDUCE,
     2,
     6144,
     3080,
     192,
     {3000, 3144},
     {64, 128},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 192},
     .chunk = 1,
     .mix = 1},
    {"added, all of one rank",
     MT_OVERLAP_REDUCE,
     2,
     700,
     520,
     256,
     {0, 700},
     {128, 128},
     MT_F16,
     MT_F16,
     MT_F16,
     {256, 128},
     .chunk = 64},
    {"ragged",
     MT_OVERLAP_REDUCE,
     3,
     1000,
     840,
     808,
     {500, 1, 499},
     {400, 8, 400},
     MT_BF16,
     MT_F32,
     MT_BF16,
     {64, 256},
     .chunk = 1,
     .mix = 1},
    {"ragged, in pairs",
     MT_OVERLAP_REDUCE,
     3,
     1000,
     840,
     808,
     {500, 1, 499},
     {400, 8, 400},
     MT_BF16,
     MT_F32,
     MT_BF16,
     {128, 256},
     .chunk = 1,
     .mix = 1},
    {"f32 wire",
     MT_OVERLAP_REDUCE,
     2,
     304,
     520,
     640,
     {4, 300},
     {512, 128},
     MT_F16,
     MT_F16,
     MT_F32,
     {128, 64},
     .chunk = 1},
    {"direct",
     MT_OVERLAP_REDUCE,
     2,
     1000,
     520,
     640,
     {500, 500},
     {312, 328},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 256},
     .chunk = 1,
     .direct = true},
    {"direct, empty shares",
     MT_OVERLAP_REDUCE,
     3,
     200,
     520,
     640,
     {100, 100, 0},
     {0, 312, 328},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {64, 128},
     .chunk = 1,
     .direct = true},
    {"few rows",
     MT_OVERLAP_GATHER,
     2,
     16,
     512,
     256,
     {8, 8},
     {256, 256},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {16, 64},
     .chunk = 8,
     .joint = true},
    {"few rows, ragged",
     MT_OVERLAP_GATHER,
     3,
     101,
     840,
     328,
     {60, 1, 40},
     {200, 584, 56},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {101, 64},
     .chunk = 17,
     .joint = true,
     .trans_b = true},
    {"few rows, wide tiles",
     MT_OVERLAP_GATHER,
     2,
     256,
     1000,
     1032,
     {156, 100},
     {600, 400},
     MT_F16,
     MT_F16,
     MT_F16,
     {256, 128},
     .chunk = 156,
     .joint = true},
    {"few rows, more tiles than blocks",
     MT_OVERLAP_GATHER,
     2,
     72,
     17000,
     264,
     {36, 36},
     {8600, 8400},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {72, 64},
     .chunk = 36,
     .joint = true},
    {"few rows, K in eight parts",
     MT_OVERLAP_GATHER,
     1,
     100,
     512,
     4104,
     {100},
     {512},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {100, 64},
     .chunk = 2,
     .joint = true},
    {"few rows, K in four parts",
     MT_OVERLAP_REDUCE,
     1,
     33,
     1240,
     2056,
     {33},
     {2056},
     MT_F16,
     MT_F16,
     MT_F16,
     {33, 64},
     .chunk = 1,
     .direct = true,
     .trans_b = true},
    {"few rows",
     MT_OVERLAP_REDUCE,
     2,
     16,
     520,
     640,
     {8, 8},
     {312, 328},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {16, 64},
     .chunk = 1,
     .direct = true},
    {"few rows, wide tiles, ragged",
     MT_OVERLAP_REDUCE,
     3,
     201,
     840,
     648,
     {1, 100, 100},
     {216, 8, 424},
     MT_F16,
     MT_F16,
     MT_F16,
     {201, 128},
     .chunk = 1,
     .direct = true},
    {"few rows, turned",
     MT_OVERLAP_REDUCE,
     4,
     128,
     1032,
     4096,
     {32, 32, 32, 32},
     {1024, 1024, 1024, 1024},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {128, 64},
     .chunk = 1,
     .direct = true,
     .trans_b = true},
    {"few rows, more tiles than blocks",
     MT_OVERLAP_REDUCE,
     2,
     250,
     9000,
     512,
     {125, 125},
     {256, 256},
     MT_BF16,
     MT_BF16,
     MT_BF16,
     {250, 64},
     .chunk = 1,
     .direct = true},
};

static struct mt_overlap problem_of(const struct job *j) {
    return (struct mt_overlap){.form = j->form,
                               .n = j->n,
                               .m = j->m,
                               .cols = j->cols,
                               .k = j->k,
                               .rows = j->rows,
                               .shares = j->shares,
                               .type = j->type,
                               .out = j->out,
                               .wire = j->wire,
                               .tile = {j->tile[0], j->tile[1]},
                               .chunk = j->chunk,
                               .mix = j->mix,
                               .slabs = j->slabs,
                               .direct = j->direct,
                               .keep = j->keep,
                               .joint = j->joint};
}

/* ---- the reference: A and B as rounded to the type, the product, and the magnitudes of what is rounded ---- */

struct reference {
    double *a, *b, *y, *error;       /* error: what rounding may add up to */
    double *extra, *pre, *pre_error; /* of an epilogue: its input; before the activation */
};

static bool activates(const struct job *j) {
    return j->epilogue == MT_OP_gelu || j->epilogue == MT_OP_relu;
}

static bool takes_slope(const struct job *j) {
    return j->epilogue == MT_OP_gelu_grad || j->epilogue == MT_OP_relu_grad;
}

static int64_t start_of(const int64_t *shares, int r) {
    int64_t start = 0;
    for (int q = 0; q < r; q++) start += shares[q];
    return start;
}

static double epsilon(enum mt_type type) {
    return type == MT_BF16 ? 0x1p-8 : type == MT_F16 ? 0x1p-11 : 0x1p-23;
}

static double *random_matrix(const struct job *j, int64_t count, uint64_t stream) {
    double *x = mt_malloc((size_t)count * sizeof *x);
    char element[8];
    for (int64_t i = 0; i < count; i++) {
        mt_type_store(j->type, element, 0, 2 * mt_random_uniform(seed, stream, (uint64_t)i) - 1);
        x[i] = mt_type_load(j->type, element, 0);
    }
    return x;
}

/* GELU's tanh form, and its slope, which is nowhere steeper than STEEPEST. */
#define STEEPEST 1.13
static double gelu(double x, double *slope) {
    const double c = 0.79788456080286536, cubic = 0.044715;
    double t = tanh(c * (x + cubic * x * x * x));
    *slope = (1 + t) / 2 + x * (1 - t * t) / 2 * c * (1 + 3 * cubic * x * x);
    return x * (1 + t) / 2;
}

/* A row of sums gets its epilogue. What is activated, or multiplied by a slope, has been rounded. */
static void apply_epilogue(const struct job *j, const struct reference *want, int64_t row) {
    for (int64_t c = 0; c < j->cols && j->epilogue; c++) {
        int64_t at = row * j->cols + c;
        double *y = &want->y[at], *error = &want->error[at], slope;
        double extra = want->extra[takes_slope(j) ? at : c];
        if (!takes_slope(j))
            *y += extra, *error += (j->form == MT_OVERLAP_GATHER ? 1 : 3) * epsilon(j->out) * fabs(extra);
        double before = *y;
        want->pre[at] = before, want->pre_error[at] = *error;
        switch (j->epilogue) {
        case MT_OP_gelu: *y = gelu(before, &slope); break;
        case MT_OP_relu: *y = fmax(before, 0); break;
        case MT_OP_gelu_grad: gelu(extra, &slope), *y = before * slope; break;
        case MT_OP_relu_grad: *y = extra > 0 ? before : 0; break;
        default: continue;
        }
        *error = STEEPEST * *error + epsilon(j->out) * fabs(*y) + 1e-5 * fabs(before);
    }
}

static struct reference make_reference(const struct job *j) {
    struct reference want = {
        random_matrix(j, j->m * j->k, 1), random_matrix(j, j->k * j->cols, 2), NULL, NULL, NULL, NULL, NULL};
    want.extra = random_matrix(j, takes_slope(j) ? j->m * j->cols : j->cols, 3);
    want.pre = mt_calloc((size_t)(j->m * j->cols), sizeof *want.pre);
    want.pre_error = mt_calloc((size_t)(j->m * j->cols), sizeof *want.pre_error);
    want.y = mt_calloc((size_t)(j->m * j->cols), sizeof *want.y);
    want.error = mt_calloc((size_t)(j->m * j->cols), sizeof *want.error);
    bool sums = j->form != MT_OVERLAP_GATHER;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < j->m; i++) {
        double *y = want.y + i * j->cols, *error = want.error + i * j->cols;
        double *line = mt_malloc((size_t)j->cols * sizeof *line);
        for (int s = 0; s < (sums ? j->n : 1); s++) {
            int64_t begin = sums ? start_of(j->shares, s) : 0, end = sums ? begin + j->shares[s] : j->k;
            memset(line, 0, (size_t)j->cols * sizeof *line);
            for (int64_t k = begin; k < end; k++)
                for (int64_t c = 0; c < j->cols; c++) line[c] += want.a[i * j->k + k] * want.b[k * j->cols + c];
            for (int64_t c = 0; c < j->cols; c++) {
                y[c] += line[c];
                error[c] += sums ? epsilon(j->wire) * fabs(line[c]) : 0;
            }
        }
        for (int64_t c = 0; c < j->cols; c++) {
            bool twice = j->form == MT_OVERLAP_REDUCE && !j->direct; /* the sum goes over the wire as well */
            error[c] += (epsilon(j->out) + (twice ? 2 * epsilon(j->wire) : 0)) * fabs(y[c]) + 1e-5 * sqrt((double)j->k);
        }
        apply_epilogue(j, &want, i);
        free(line);
    }
    return want;
}

/* Rows and columns of `from`, which is `stride` wide, as the type; `turned`: transposed. */
static void upload(const struct job *j, void *to, const double *from, int64_t stride, const int64_t box[4],
                   bool turned) {
    int64_t rows = box[1], cols = box[3], bytes = rows * cols * mt_type_size(j->type);
    char *host = mt_malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++)
            mt_type_store(j->type, host, turned ? c * rows + i : i * cols + c,
                          from[(box[0] + i) * stride + box[2] + c]);
    if (bytes) CHECK_OK(mt_device_copy_in(device, to, host, bytes, &err), err);
    free(host);
}

static void upload_all(const struct job *j, struct gpu_ranks *g, const struct reference *want) {
    bool gather = j->form == MT_OVERLAP_GATHER;
    for (int r = 0; r < j->n; r++) {
        int64_t share = start_of(j->shares, r), width = j->shares[r];
        int64_t a[4] = {gather ? start_of(j->rows, r) : 0, gather ? j->rows[r] : j->m, gather ? 0 : share,
                        gather ? j->k : width};
        int64_t b[4] = {gather ? 0 : share, gather ? j->k : width, gather ? share : 0, gather ? width : j->cols};
        upload(j, g->rank[r].a, want->a, j->k, a, j->trans_a);
        upload(j, g->rank[r].b, want->b, j->cols, b, j->trans_b);
        const int64_t extra[4] = {0, takes_slope(j) ? j->m : 1, gather ? share : 0, gather ? width : j->cols};
        if (j->epilogue) upload(j, g->rank[r].extra, want->extra, j->cols, extra, false);
        g->rank[r].operands.epilogue = j->epilogue;
    }
}

/* ---- runs ---- */

static void poison(struct gpu_ranks *g) {
    for (int r = 0; r < g->problem->n; r++) {
        gpu_fill(g->rank[r].out, 0xff, g->rank[r].bytes[MT_OVERLAP_OUT]);
        gpu_fill(g->rank[r].pre, 0xff, g->rank[r].bytes[MT_OVERLAP_OUT]);
        gpu_fill(g->rank[r].whole, 0xff, g->rank[r].bytes[MT_OVERLAP_WHOLE]);
    }
    GPU(gpu.context_sync());
}

static void sync_all(struct gpu_ranks *g) {
    for (int r = 0; r < g->problem->n; r++) {
        uint64_t words[5];
        GPU(gpu.stream_sync(g->rank[r].queue.stream));
        CHECK_OK(mt_device_copy_out(device, words, (void *)g->rank[r].words, sizeof words, &err), err);
        CHECK(!words[0], "rank %d gave up: flag at byte %lld of its window is %llu, %llu was awaited", r,
              (long long)(words[1] - (uint64_t)g->rank[r].window), (unsigned long long)words[2],
              (unsigned long long)words[3]);
    }
}

/* All that a rank has got: its result, then A where it is kept, and what is before an activation, else poison. To be
 * freed. */
static char *results_of(const struct gpu_rank *rank, int64_t *bytes) {
    int64_t out = rank->bytes[MT_OVERLAP_OUT], whole = rank->bytes[MT_OVERLAP_WHOLE];
    char *host = mt_malloc((size_t)(*bytes = 2 * out + whole) + 1);
    if (out) CHECK_OK(mt_device_copy_out(device, host + out + whole, rank->pre, out, &err), err);
    if (out) CHECK_OK(mt_device_copy_out(device, host, rank->out, out, &err), err);
    if (whole) CHECK_OK(mt_device_copy_out(device, host + out, rank->whole, whole, &err), err);
    return host;
}

/* Elements of a rank's result, or of what is before its activation, that are not as wanted. */
static int wrong_results(const struct job *j, int r, const char *got, const double *want, const double *error) {
    bool gather = j->form == MT_OVERLAP_GATHER, all = gather || j->form == MT_OVERLAP_REDUCE;
    int64_t first = all ? 0 : start_of(j->rows, r), rows = all ? j->m : j->rows[r];
    int64_t col = gather ? start_of(j->shares, r) : 0, cols = gather ? j->shares[r] : j->cols;
    int wrong = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) {
            double y = mt_type_load(j->out, got, i * cols + c);
            int64_t at = (first + i) * j->cols + col + c;
            if (fabs(y - want[at]) <= error[at]) continue;
            if (!wrong++)
                fprintf(stderr, "%s, %s: rank %d [%lld, %lld] is %g, not %g +- %g\n", mt_overlap_name(j->form), j->name,
                        r, (long long)i, (long long)c, y, want[at], error[at]);
        }
    return wrong;
}

static int wrong_elements(const struct job *j, int r, const struct gpu_rank *rank, const char *got,
                          const struct reference *want) {
    int wrong = wrong_results(j, r, got, want->y, want->error);
    const char *whole = got + rank->bytes[MT_OVERLAP_OUT], *pre = whole + rank->bytes[MT_OVERLAP_WHOLE];
    if (activates(j)) wrong += wrong_results(j, r, pre, want->pre, want->pre_error);
    for (int64_t i = 0; i < rank->bytes[MT_OVERLAP_OUT] && !activates(j); i++) wrong += pre[i] != (char)0xff;
    for (int64_t i = 0; j->keep && i < j->m * j->k; i++) {
        double a = mt_type_load(j->type, whole, i);
        if (a == want->a[i]) continue;
        if (!wrong++)
            fprintf(stderr, "%s, %s: rank %d: element %lld of A is %g, not %g\n", mt_overlap_name(j->form), j->name, r,
                    (long long)i, a, want->a[i]);
    }
    return wrong;
}

/* The first run against the reference, later ones against the first; ranks of an AllReduce have the same bits. */
static int compare(const struct job *j, struct gpu_ranks *g, const struct reference *want, char **before) {
    int wrong = 0;
    for (int r = 0; r < j->n; r++) {
        int64_t bytes;
        char *got = results_of(&g->rank[r], &bytes);
        if (!before[r]) {
            wrong += wrong_elements(j, r, &g->rank[r], got, want);
            before[r] = got;
            wrong += j->form == MT_OVERLAP_REDUCE && memcmp(got, before[0], (size_t)bytes);
            continue;
        }
        if (memcmp(got, before[r], (size_t)bytes)) {
            fprintf(stderr, "%s, %s: rank %d: other bits in another run\n", mt_overlap_name(j->form), j->name, r);
            wrong++;
        }
        free(got);
    }
    return wrong;
}

/* ---- tests ---- */

static int runs_job(const struct job *j) {
    enum { RUNS = 10, REPLAYS = 3, IN_GRAPH = 3 };
    struct mt_overlap p = problem_of(j);
    struct gpu_ranks g;
    struct reference want = make_reference(j);
    char *before[MOST_GPU_RANKS] = {NULL};
    CUgraphExec exec[MOST_GPU_RANKS];
    int wrong = 0;
    make_ranks(&g, &p, j->trans_a, j->trans_b, 20);
    upload_all(j, &g, &want);
    for (int r = 0; r < j->n; r++) exec[r] = capture_rank(&g.rank[r], IN_GRAPH);
    for (int run = 0; run < RUNS; run++) {
        poison(&g);
        for (int r = 0; r < j->n; r++) queue_rank(&g.rank[(r + run) % j->n]);
        sync_all(&g);
        wrong += compare(j, &g, &want, before);
    }
    for (int run = 0; run < REPLAYS; run++) {
        poison(&g);
        for (int r = 0; r < j->n; r++) GPU(gpu.launch(exec[r], g.rank[r].queue.stream));
        sync_all(&g);
        wrong += compare(j, &g, &want, before);
    }
    for (int r = 0; r < j->n; r++) {
        free(before[r]);
        GPU(gpu.exec_free(exec[r]));
    }
    free_ranks(&g);
    free(want.a), free(want.b), free(want.y), free(want.error);
    free(want.extra), free(want.pre), free(want.pre_error);
    return wrong;
}

/* The job; a gather also with two of the epilogues in turns, a sum with a bias. */
static int runs_all(int i) {
    static const enum mt_op_kind kinds[] = {MT_OP_add, MT_OP_gelu, MT_OP_relu, MT_OP_gelu_grad, MT_OP_relu_grad};
    bool gather = jobs[i].form == MT_OVERLAP_GATHER;
    const enum mt_op_kind epilogues[] = {0, gather ? kinds[i % 5] : MT_OP_add, kinds[(i + 2) % 5]};
    int wrong = 0;
    for (int e = 0; e < (gather ? 3 : 2); e++) {
        struct job j = jobs[i];
        j.epilogue = epilogues[e];
        if (e) j.out = j.type;
        struct mt_overlap p = problem_of(&j);
        if (e && !mt_overlap_takes_epilogue(&p, false, j.epilogue)) continue;
        int more = runs_job(&j);
        if (more)
            fprintf(stderr, "FAILED %s, %s%s%s: %d\n", mt_overlap_name(j.form), j.name, e ? ", " : "",
                    e ? mt_op_info[j.epilogue].name : "", more);
        wrong += more;
    }
    return wrong;
}

/* Only rank 0 of two runs: it gives up, and what it names is one of its flags, which is behind. */
static void lacks_peer(enum mt_overlap_form form) {
    const int64_t rows[] = {300, 212}, shares[] = {256, 256};
    const struct mt_overlap p = {form,   2,       512,     512,     512,        rows,
                                 shares, MT_BF16, MT_BF16, MT_BF16, {128, 256}, .chunk = 128};
    struct gpu_ranks g;
    uint64_t words[5];
    make_ranks(&g, &p, false, false, 0.2);
    gpu_fill(g.rank[0].a, 0, g.rank[0].bytes[MT_OVERLAP_A]);
    gpu_fill(g.rank[0].b, 0, g.rank[0].b_bytes);
    GPU(gpu.context_sync());
    queue_rank(&g.rank[0]);
    GPU(gpu.stream_sync(g.rank[0].queue.stream));
    CHECK_OK(mt_device_copy_out(device, words, (void *)g.rank[0].words, sizeof words, &err), err);
    int64_t place = (int64_t)(words[1] - (uint64_t)g.rank[0].window);
    CHECK_EQ(words[0], 1);
    CHECK(place >= 0 && place < mt_overlap_epoch_place(&p) && place % 8 == 0, "%lld", (long long)place);
    CHECK_EQ(words[2], 0);
    CHECK_EQ(words[3], 1);
    bool peers = false; /* the flag is raised by rank 1 */
    for (int w = 0; w < g.rank[0].schedule.nwaits; w++) {
        const struct mt_overlap_wait *wait = &g.rank[0].schedule.waits[w];
        peers |= mt_overlap_flag_place(&p, wait->flag) == place && wait->from == 1;
    }
    CHECK(peers, "byte %lld", (long long)place);
    /* The next runs are as the first ones. */
    reset_windows(&g);
    CUgraphExec warm = capture_rank(&g.rank[1], 1);
    for (int run = 0; run < 2; run++) {
        for (int r = 0; r < 2; r++) queue_rank(&g.rank[r]);
        for (int r = 0; r < 2; r++) GPU(gpu.stream_sync(g.rank[r].queue.stream));
    }
    CHECK_OK(mt_device_copy_out(device, words, (void *)g.rank[0].words, sizeof words, &err), err);
    CHECK_EQ(words[0], 0);
    GPU(gpu.exec_free(warm));
    free_ranks(&g);
}

/* Columns of a transposed A that begin where TMA cannot: left to others. */
static void refuses_unaligned(void) {
    const int64_t rows[2][2] = {{300, 212}, {304, 208}}, shares[] = {256, 256};
    for (int aligned = 0; aligned < 2; aligned++)
        for (int turned = 0; turned < 2; turned++) {
            const struct mt_overlap p = {MT_OVERLAP_SCATTER, 2,           512,    512,    512,
                                         rows[aligned],      shares,      MT_F16, MT_F16, MT_F16,
                                         {128, 256},         .chunk = 128};
            const struct mt_overlap_operands operands = {.trans_a = turned};
            const struct cuda_overlap overlap = {.problem = &p, .operands = &operands};
            CHECK_EQ(fused->can(&cuda_of(device)->cuda, &overlap), aligned || !turned);
        }
}

int main(int argc, char **argv) {
    if (!open_gpu()) {
        printf("no GPU: %s\n", err.text);
        return 77;
    }
    if (cuda_of(device)->cuda.sm != 90) {
        printf("the kernel is for compute capability 9.0\n");
        return 77;
    }
    int wrong = 0;
    char *of = NULL;
    int64_t chosen = argc > 1 ? strtoll(argv[1], &of, 10) : -1,
            parts = of && *of == '/' ? strtoll(of + 1, NULL, 10) : 0;
    for (int i = 0; i < (int)(sizeof jobs / sizeof *jobs); i++)
        if (argc == 1 || (parts > 0 ? i % parts : i) == chosen) wrong += runs_all(i);
    CHECK_EQ(wrong, 0);
    if (argc > 1 && !(parts > 0 && chosen == 0)) return 0;
    refuses_unaligned();
    for (enum mt_overlap_form form = 0; form < MT_OVERLAP_NFORMS; form++) lacks_peer(form);
    mt_device_close(device);
    return 0;
}
