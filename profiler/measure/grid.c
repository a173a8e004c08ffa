/* Cases: the rows of grid.def, for each of their sizes and types. */
#include "profiler/measure/grid.h"

#include <assert.h>
#include <string.h>

enum { MOST_DIMS = 6, MOST_ROWS = 5 };

/* [0]: for CPUs, [1]: for GPUs, which have few shapes of GEMMs, since tuning takes a good part of a second for each.
 * For the minor type of the kind of device only the first two dims are measured: on CPUs f64, which is for
 * verification, on GPUs f32. Lists end with 0. */
struct sizes {
    int64_t dim[MOST_DIMS + 1][2], rows[MOST_ROWS + 1];
};
static const struct sizes
    gemms[2] = {{{{256, 256}, {1024, 256}, {256, 1024}, {1024, 1024}, {4096, 1024}}, {16, 128, 1024, 4096}},
                {{{768, 768}, {4096, 4096}, {3072, 768}, {50304, 768}}, {256, 4096, 32768}}},
    fused_gemms[2] = {{{{256, 256}, {1024, 256}, {4096, 1024}}, {16, 256, 4096}},
                      {{{3072, 768}, {4096, 4096}}, {1024, 32768}}},
    attentions[2] = {{{{64, 32}, {256, 64}, {1024, 64}}, {1, 4, 16}},
                     {{{256, 64}, {1024, 64}, {1024, 128}}, {12, 96, 384}}},
    norms[2] = {{{{256, 1}, {1024, 1}}, {64, 1024, 8192}}, {{{768, 1}, {1600, 1}}, {1024, 8192, 32768}}},
    logits[2] = {{{{256, 1}, {8192, 1}}, {64, 512, 4096}}, {{{256, 1}, {50304, 1}}, {512, 2048, 8192}}},
    tables[2] = {{{{256, 256}, {8192, 512}}, {256, 8192}}, {{{1024, 768}, {50304, 768}}, {1024, 32768}}},
    elements[2] = {{{{1, 1}}, {1 << 13, 1 << 17, 1 << 20, 1 << 23}},
                   {{{1, 1}}, {1 << 13, 1 << 20, 1 << 23, 3 << 23, 3 << 25}}},
    sums[2] = {{{{256, 1}, {1024, 1}}, {128, 8192}}, {{{768, 1}, {3072, 1}}, {1024, 32768}}};

const enum mt_type mt_grid_types[] = {MT_F32, MT_BF16, MT_F64};
const int mt_grid_ntypes = sizeof mt_grid_types / sizeof *mt_grid_types;

static const struct row {
    enum mt_op_kind kind;
    const struct sizes *sizes;
    const char *in, *out;
    struct mt_attr attr;
} rows[] = {
#define MT_GRID(kind, sizes, in, out, ...) {MT_OP_##kind, sizes, in, out, {__VA_ARGS__}},
#include "profiler/measure/grid.def"
#undef MT_GRID
};
enum { NROWS = sizeof rows / sizeof *rows };

static int64_t extent_of(char letter, const int64_t sizes[3]) {
    switch (letter) {
    case 'r': return sizes[0];
    case 'x': return sizes[1];
    case 'y': return sizes[2];
    default: assert(letter == '3' || letter == '4'); return letter - '0';
    }
}

static struct mt_tensor operand(const char *text, size_t length, enum mt_type type, const int64_t sizes[3]) {
    struct mt_tensor t = {.type = text[0] == 'T' ? type : text[0] == 'A' ? mt_type_acc(type) : MT_I32};
    t.naxes = (int)length - 1;
    for (int a = 0; a < t.naxes; a++) t.extent[a] = t.global[a] = extent_of(text[1 + a], sizes);
    return t;
}

static int operands(const char *text, enum mt_type type, const int64_t sizes[3], struct mt_tensor *tensors) {
    int n = 0;
    for (; *text; n++) {
        size_t length = strcspn(text, " ");
        tensors[n] = operand(text, length, type, sizes);
        text += length;
        text += strspn(text, " ");
    }
    return n;
}

struct mt_call mt_grid_call(const struct mt_grid_case *c, const struct mt_tensor *tensors) {
    return (struct mt_call){
        .kind = c->kind, .attr = &c->attr, .nin = c->nin, .nout = c->nout, .in = tensors, .out = tensors + c->nin};
}

void mt_grid_make(enum mt_op_kind kind, const struct mt_attr *attr, const char *in, const char *out, enum mt_type type,
                  const int64_t sizes[3], struct mt_grid_case *c) {
    *c = (struct mt_grid_case){.kind = kind, .attr = *attr};
    c->nin = operands(in, type, sizes, c->tensors);
    c->nout = operands(out, type, sizes, c->tensors + c->nin);
    c->attr.to = c->tensors[c->nin].type; /* cast and fill */
    if (strchr(in, 'I')) c->ids_below = sizes[1];
    struct mt_call call = mt_grid_call(c, c->tensors);
    mt_op_shape(&call, &c->shape);
}

/* Whether to measure a row for this type. On a GPU operators that are not GEMMs run near memory bandwidth, and each
 * kernel has to be compiled: for the minor type they are left to the estimate from bandwidth. */
static bool wanted(const struct row *row, bool gpu, enum mt_type type, enum mt_type minor) {
    bool gemm = row->kind == MT_OP_matmul || row->kind == MT_OP_fused_matmul;
    if (gpu && type == minor && !gemm && strchr(row->in, 'T')) return false;
    if (mt_type_acc(type) != type && !strchr(row->in, 'T') && !strchr(row->out, 'T')) return false;
    return row->kind != MT_OP_cast || type != mt_type_acc(type);
}

struct mt_grid_case *mt_grid_cases(struct mt_arena *arena, bool gpu, int *ncases) {
    struct mt_grid_case *cases = NULL;
    enum mt_type minor = gpu ? MT_F32 : MT_F64;
    int capacity = 0;
    *ncases = 0;
    for (int t = 0; t < mt_grid_ntypes; t++)
        for (int i = 0; i < NROWS; i++) {
            const struct sizes *sizes = &rows[i].sizes[gpu];
            enum mt_type type = mt_grid_types[t];
            int ndims = 0;
            while (ndims < (type == minor ? 2 : MOST_DIMS) && sizes->dim[ndims][0]) ndims++;
            for (int d = 0; d < ndims && wanted(&rows[i], gpu, type, minor); d++)
                for (int k = 0; sizes->rows[k]; k++) {
                    mt_arena_grow(arena, &cases, *ncases, &capacity, sizeof *cases);
                    mt_grid_make(rows[i].kind, &rows[i].attr, rows[i].in, rows[i].out, type,
                                 (int64_t[3]){sizes->rows[k], sizes->dim[d][0], sizes->dim[d][1]}, &cases[*ncases]);
                    cases[(*ncases)++].first = d == 0 && k == 0;
                }
        }
    return cases;
}
