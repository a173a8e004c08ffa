/* Movers of fused.cu: warps that add slots, and copy, piece by piece. */
#ifndef MT_KERNELS_CUDA_OVERLAP_MOVERS_CUH
#define MT_KERNELS_CUDA_OVERLAP_MOVERS_CUH

#include "kernels/cuda/overlap/fused/call.cuh"

constexpr int UNIT = 8;   /* elements that a lane moves at a time */
constexpr int UNITS = 12; /* of sums, that it has on their way: no more registers */
template <class element> struct unit {
    static constexpr int EACH_VEC = 16 / (int)sizeof(element), VECS = UNIT / EACH_VEC;
    vec<element, EACH_VEC> v[VECS];
    __device__ inline void read(const element *from) {
#pragma unroll
        for (int i = 0; i < VECS; i++) {
            uint4 word = __ldcg((const uint4 *)(from + i * EACH_VEC)); /* the L1 cache is small here */
            v[i].w[0] = word.x, v[i].w[1] = word.y, v[i].w[2] = word.z, v[i].w[3] = word.w;
        }
    }
    __device__ inline void write(element *to) const {
#pragma unroll
        for (int i = 0; i < VECS; i++) v[i].write(to + i * EACH_VEC);
    }
    __device__ inline void get(float (&x)[UNIT]) const {
#pragma unroll
        for (int i = 0; i < VECS; i++) v[i].get(x + i * EACH_VEC);
    }
    __device__ inline void set(const float (&x)[UNIT]) {
#pragma unroll
        for (int i = 0; i < VECS; i++) v[i].set(x + i * EACH_VEC);
    }
};

/* For each unit of `rows` by `columns`: read(place) DEEP times, then write(place, what was read); places in a matrix of
 * `stride` columns. */
template <int DEEP, class R, class W>
__device__ inline void move_units(int rows, int columns, int stride, R read, W write) {
    int across = columns / UNIT, n = rows * across;
    for (int i = (int)threadIdx.x % 32; i < n; i += 32 * DEEP) {
        decltype(read(0)) x[DEEP];
        int at[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            int u = min(i + 32 * d, n - 1), row = (int)((u32)u / (u32)across);
            at[d] = row * stride + (u - row * across) * UNIT;
            x[d] = read(at[d]);
        }
#pragma unroll
        for (int d = 0; d < DEEP; d++)
            if (i + 32 * d < n) write(at[d], x[d]);
    }
}

struct slots_unit {
    unit<WIRE> slot[RANKS];
};
/* The sum over ranks in order, and the bias: into the result, or into everyone's window. */
__device__ inline void add_slots(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    i64 first = (i64)(box.from_row + p.row) * c.columns + box.column, size = (i64)c.owned * c.columns;
    i64 to = (i64)(box.row + p.row) * c.columns + box.column;
    const WIRE *slots = (const WIRE *)(c.part[c.me] + c.slots[r.copy]) + first;
    auto read = [&](int at) {
        slots_unit x;
#pragma unroll
        for (int s = 0; s < RANKS; s++)
            if (c.adds >> s & 1) x.slot[s].read(slots + s * size + at);
        return x;
    };
    auto write = [&](int at, const slots_unit &x) {
        float sum[UNIT] = {};
#pragma unroll
        for (int s = 0; s < RANKS; s++) {
            if (!(c.adds >> s & 1)) continue;
            float more[UNIT];
            x.slot[s].get(more);
#pragma unroll
            for (int i = 0; i < UNIT; i++) sum[i] += more[i];
        }
        if (EPILOGUE) {
            unit<TYPE> bias;
            float more[UNIT];
            bias.read(c.bias + box.column + at % c.columns);
            bias.get(more);
#pragma unroll
            for (int i = 0; i < UNIT; i++) sum[i] += more[i];
        }
        if (box.staged) { /* sums of all rows are in windows first */
            unit<WIRE> y;
            y.set(sum);
#pragma unroll
            for (int q = 0; q < RANKS; q++) y.write((WIRE *)(c.part[q] + c.sums[r.copy]) + to + at);
        } else {
            unit<RESULT> y;
            y.set(sum);
            y.write(c.out + to + at);
        }
    };
    move_units<UNITS / (RANKS < 3 ? 3 : RANKS)>(p.rows, box.columns, c.columns, read, write);
}
__device__ inline void copy_sums(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    i64 first = (i64)(box.row + p.row) * c.columns + box.column;
    const WIRE *from = (const WIRE *)(c.part[c.me] + c.sums[r.copy]) + first;
    auto read = [&](int at) {
        unit<WIRE> x;
        x.read(from + at);
        return x;
    };
    auto write = [&](int at, const unit<WIRE> &x) {
        unit<RESULT> y;
        float values[UNIT];
        x.get(values);
        y.set(values);
        y.write(c.out + first + at);
    };
    move_units<8>(p.rows, box.columns, c.columns, read, write);
}
/* Of the operand, to where it is kept. */
__device__ inline void copy_operand(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    const TYPE *operand = box.staged ? (const TYPE *)(c.part[c.me] + c.staged[r.copy]) : c.a;
    const TYPE *from = operand + (i64)(box.from_row + p.row) * c.k + box.column;
    TYPE *to = c.whole + (i64)(box.row + p.row) * c.k + box.column;
    auto read = [&](int at) {
        unit<TYPE> x;
        x.read(from + at);
        return x;
    };
    move_units<8>(p.rows, box.columns, c.k, read, [&](int at, const unit<TYPE> &x) { x.write(to + at); });
}

__device__ inline void move_pieces(const run &r) {
    for (;;) {
        int i = 0;
        if (threadIdx.x % 32 == 0) i = r.c.nputs + (int)atomicAdd(r.c.work + PIECES, 1);
        i = __shfl_sync(~0u, i, 0);
        if (i >= r.c.npieces) return;
        const piece_row p = r.c.pieces[i];
        const box_row box = r.c.boxes[p.box];
        if (!await_together(r, box.first_wait, box.nwaits)) return;
        switch (box.kind) { /* a put of sums has no rows, but flags: what was sent before has been read */
        case SUM: add_slots(r, box, p); break;
        case COPY_SUM: copy_sums(r, box, p); break;
        case COPY_OPERAND: copy_operand(r, box, p); break;
        }
        __syncwarp();
        if (box.nsignals && threadIdx.x % 32 == 0 && is_last(r.c.work + DONE + p.box, (u32)box.pieces))
            raise_all(r, box.first_signal, box.nsignals);
        __syncwarp();
    }
}

#endif
