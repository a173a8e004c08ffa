/* rotary: pairs (x[i], x[i + half]) of each head turned by an angle in proportion to the position. Memory-bound.
 *
 *   TYPE     the activation type
 *   VECTOR   elements of one access: divides `half`
 *   ROWS     heads, of one or several samples, that a thread turns by the same angles
 *
 * An angle is counted in turns, as a fraction of 64 bits: that of a position is the product of integers, of which the
 * whole turns fall off. So it is as exact far from the first position as near to it, where an f32 would keep no more
 * than a digit after the point. Its first 32 bits are enough for a sine; for half types, whose last digit is 2^-11, so
 * are the sines of the special function units, which are within 2^-20. */
using T = TYPE;
constexpr int V = VECTOR;

/* As in rotary.c. A launch turns the pairs [begin, begin + pairs) of each head. */
struct shape {
    i64 positions, first, rows, heads; /* rows: heads of all samples */
    int half, begin, pairs;
};
enum { MOST_PAIRS = 256 };
struct turns {
    u64 of[MOST_PAIRS]; /* by one position, in 2^-64 */
};

__device__ inline i64 quotient(i64 a, i64 b) {
    return (u64)(a | b) >> 32 ? a / b : (i64)((u32)a / (u32)b);
}

/* In one access: the compiler cuts plain stores of 16 bytes into four here. */
__device__ inline void store(const vec<T, V> &x, T *to) {
    if constexpr (vec<T, V>::bytes == 16)
        __stcg((uint4 *)to, make_uint4(x.w[0], x.w[1], x.w[2], x.w[3]));
    else
        x.write(to);
}

/* y may be x: a thread writes only what it has read. */
extern "C" __global__ void rotary(const __grid_constant__ shape g, const __grid_constant__ turns by, const T *x, T *y) {
    __shared__ u64 turn[MOST_PAIRS];
    for (int i = threadIdx.x; i < g.pairs; i += blockDim.x) turn[i] = by.of[i];
    __syncthreads();
    i64 item = (i64)blockIdx.x * blockDim.x + threadIdx.x, lanes = g.pairs / V, each = (g.rows + ROWS - 1) / ROWS;
    i64 above = quotient(item, lanes), at = quotient(above, each), first = above - at * each;
    int pair = (int)(item - above * lanes) * V;
    if (at >= g.positions) return;

    vec<T, V> low[ROWS], high[ROWS];
    i64 place[ROWS];
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        i64 row = first + u * each, sample = quotient(row, g.heads), head = row - sample * g.heads;
        place[u] = ((sample * g.positions + at) * g.heads + head) * 2 * g.half + g.begin + pair;
        if (row < g.rows) low[u].read(x + place[u]), high[u].read(x + place[u] + g.half);
    }
    float cosine[V], sine[V];
    u64 position = (u64)(g.first + at);
#pragma unroll
    for (int v = 0; v < V; v++) {
        float angle = (float)(int)(position * turn[pair + v] >> 32) * 0x1p-31f; /* of pi, between -1 and 1 */
        if constexpr (sizeof(T) < sizeof(float))
            sine[v] = __sinf(angle * 3.14159265f), cosine[v] = __cosf(angle * 3.14159265f);
        else
            sincospif(angle, &sine[v], &cosine[v]);
    }
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        if (first + u * each >= g.rows) continue;
        float a[V], b[V];
        low[u].get(a), high[u].get(b);
#pragma unroll
        for (int v = 0; v < V; v++) {
            float turned = a[v] * cosine[v] - b[v] * sine[v];
            b[v] = b[v] * cosine[v] + a[v] * sine[v];
            a[v] = turned;
        }
        low[u].set(a), high[u].set(b);
        store(low[u], y + place[u]), store(high[u], y + place[u] + g.half);
    }
}
