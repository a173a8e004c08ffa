/* Pieces of tensors into messages and out of them: up to PIECES in one launch, a piece for each blockIdx.y.
 *
 * A piece is rows of contiguous elements in the tensor, packed one after the other in the message. `lanes` neighbouring
 * threads copy a segment of a row at a time, WIDTH elements each, UNROLL times: the offset of the row is computed once
 * for all of them. TENSOR and MESSAGE are the types; integers are moved as floats of the same bits. */
enum work { PACK, OVERWRITE, SUM, MAXIMUM, ZERO, LOWEST }; /* WORK is one of them */
enum { UNROLL = 4 };

/* As in pieces.c. */
struct piece {
    TENSOR *tensor;
    MESSAGE *message;
    i64 rows, row;
    i64 extent[6], stride[6];
    i64 naxes;
};
struct piece_batch {
    piece pieces[PIECES];
};

struct __align__(WIDTH * sizeof(TENSOR)) in_tensor {
    TENSOR x[WIDTH];
};
struct __align__(WIDTH * sizeof(MESSAGE)) in_message {
    MESSAGE x[WIDTH];
};

/* Without conversion, bits are kept. */
template <class type> __device__ inline void move(type *to, type x) {
    *to = x;
}
template <class to_type, class type> __device__ inline void move(to_type *to, type x) {
    store(to, load(x));
}

/* A NaN wins over numbers, +0 over -0, as in coll/reduce.h. */
__device__ inline float maximum(float a, float b) {
    if (a != a) return a;
    if (a == b) return __uint_as_float(__float_as_uint(a) & __float_as_uint(b));
    return a > b ? a : b;
}

__device__ inline void join(TENSOR *to, MESSAGE x) {
    if (WORK == OVERWRITE) move(to, x);
    if (WORK == SUM) store(to, load(*to) + load(x));
    if (WORK == MAXIMUM) store(to, maximum(load(*to), load(x)));
    if (WORK == ZERO) store(to, 0);
    if (WORK == LOWEST) store(to, __int_as_float(0xff800000));
}

__device__ inline TENSOR *row_of(const piece &p, i64 row) {
    TENSOR *place = p.tensor;
    for (int a = 0; a < p.naxes; a++) { /* axis 0 is the innermost */
        i64 outer = row / p.extent[a];
        place += (row - outer * p.extent[a]) * p.stride[a];
        row = outer;
    }
    return place;
}

extern "C" __global__ void move_pieces(const __grid_constant__ piece_batch batch, int lanes) {
    const piece &p = batch.pieces[blockIdx.y];
    int groups = blockDim.x / lanes, step = lanes * WIDTH;
    i64 lane = threadIdx.x % lanes * WIDTH, segments = (p.row + UNROLL * step - 1) / (UNROLL * step);
    for (i64 task = (i64)blockIdx.x * groups + threadIdx.x / lanes; task < p.rows * segments;
         task += (i64)gridDim.x * groups) {
        i64 row = task / segments, first = (task - row * segments) * UNROLL * step + lane;
        TENSOR *tensor = row_of(p, row);
        MESSAGE *message = p.message + row * p.row;
        in_tensor t[UNROLL];
        in_message m[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            i64 i = first + u * step;
            if (i >= p.row) continue;
            if (WORK == PACK || WORK == SUM || WORK == MAXIMUM) t[u] = *(const in_tensor *)(tensor + i);
            if (WORK == OVERWRITE || WORK == SUM || WORK == MAXIMUM) m[u] = *(const in_message *)(message + i);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            i64 i = first + u * step;
            if (i >= p.row) continue;
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                if (WORK == PACK)
                    move(&m[u].x[k], t[u].x[k]);
                else
                    join(&t[u].x[k], m[u].x[k]);
            }
            if (WORK == PACK)
                *(in_message *)(message + i) = m[u];
            else
                *(in_tensor *)(tensor + i) = t[u];
        }
    }
}
