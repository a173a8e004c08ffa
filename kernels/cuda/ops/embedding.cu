/* embedding and its gradient.
 *
 * The gradient sorts (token, row of dout) by token, stably, by digits from the lowest: per pass, blocks count their
 * rows' digits (digit_count), counts become offsets (digit_scan), and rows are moved there (digit_scatter). Then one
 * block sums each CHUNK of the sorted list (sum_runs), in the order of the rows, however the tokens are distributed. A
 * run of equal tokens within a chunk is added to the table; the ends of a run over several chunks are stored in
 * `parts`, and join_runs sums those. So bits are the same every time, and 2/CHUNK of dout's rows are written and read
 * once more.
 *
 * Tokens outside of this rank's rows of the table have the key V: they are sorted last, and left out. */
typedef TYPE T;

/* ---- forward: rows are copied as UNIT (the widest of uint4, uint2, u32, u16 that fits), a warp a row ---- */

extern "C" __global__ void embedding(const UNIT *table, const int *ids, UNIT *y, i64 n, i64 V, i64 units, i64 offset) {
    i64 i = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= n) return;
    i64 row = ids[i] - offset;
    bool here = row >= 0 && row < V;
#pragma unroll 4
    for (i64 u = threadIdx.x % 32; u < units; u += 32) y[i * units + u] = here ? table[row * units + u] : UNIT();
}

/* ---- sorting: a block sorts WARPS * ITEMS * 32 rows; counts[digit][block] ---- */

#define BINS (1 << BITS)

struct keys {
    const int *ids; /* the first pass reads these, later ones key and row */
    i64 offset;
    int V;
    const int *key, *row;
    int n;
};

__device__ inline int key_at(const keys &k, int i) {
    if (!k.ids) return k.key[i];
    i64 id = k.ids[i] - k.offset;
    return id >= 0 && id < k.V ? (int)id : k.V;
}

/* The row of this lane in item `item` of its warp. */
__device__ inline int item_at(int item) {
    return ((blockIdx.x * WARPS + threadIdx.x / 32) * ITEMS + item) * 32 + threadIdx.x % 32;
}

extern "C" __global__ void digit_count(keys k, int shift, int *counts) {
    __shared__ int count[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) count[b] = 0;
    __syncthreads();
    for (int item = 0; item < ITEMS; item++) {
        int i = item_at(item);
        if (i < k.n) atomicAdd(&count[key_at(k, i) >> shift & (BINS - 1)], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) counts[(i64)b * gridDim.x + blockIdx.x] = count[b];
}

/* The sum of x over the threads before this one; *total: over all. */
__device__ inline int sum_before(int x, int *part, int *total) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = x;
    for (int d = 1; d < 32; d *= 2) {
        int below = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= d) sum += below;
    }
    __syncthreads();
    if (lane == 31) part[warp] = sum;
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < WARPS; w++) {
        if (w < warp) before += part[w];
        all += part[w];
    }
    *total = all;
    return before + sum - x;
}

/* A block a digit: each block's count becomes the sum of the counts before it. */
extern "C" __global__ void digit_scan(int *counts, int *totals, int nblocks) {
    __shared__ int part[WARPS];
    int *count = counts + (i64)blockIdx.x * nblocks, carry = 0;
    for (int first = 0; first < nblocks; first += blockDim.x) {
        int b = first + threadIdx.x, total;
        int before = sum_before(b < nblocks ? count[b] : 0, part, &total);
        if (b < nblocks) count[b] = carry + before;
        carry += total;
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = carry;
}

extern "C" __global__ void digit_scatter(keys k, int shift, const int *counts, const int *totals, int *to_key,
                                         int *to_row) {
    __shared__ int part[WARPS], base[BINS]; /* the place of the block's first row of a digit */
    __shared__ u16 seen[WARPS][BINS];       /* rows of a digit: of this warp so far; then of the warps before it */
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, carry = 0;
    for (int first = 0; first < BINS; first += blockDim.x) {
        int b = first + threadIdx.x, total;
        int before = sum_before(b < BINS ? totals[b] : 0, part, &total);
        if (b < BINS) base[b] = carry + before + counts[(i64)b * gridDim.x + blockIdx.x];
        carry += total;
    }
    for (int b = lane; b < BINS; b += 32) seen[warp][b] = 0;
    __syncwarp();
    int key[ITEMS], rank[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        int i = item_at(item);
        bool there = i < k.n;
        key[item] = there ? key_at(k, i) : -1;
        int digit = there ? key[item] >> shift & (BINS - 1) : -1;
        u32 equal = __match_any_sync(0xffffffffu, digit), below = equal & ((1u << lane) - 1);
        int before = there ? seen[warp][digit] : 0;
        rank[item] = before + __popc(below);
        __syncwarp();
        if (there && !below) seen[warp][digit] = (u16)(before + __popc(equal));
        __syncwarp();
    }
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
        int sum = 0;
        for (int w = 0; w < WARPS; w++) {
            int count = seen[w][b];
            seen[w][b] = (u16)sum;
            sum += count;
        }
    }
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        int i = item_at(item);
        if (i >= k.n) continue;
        int digit = key[item] >> shift & (BINS - 1), place = base[digit] + seen[warp][digit] + rank[item];
        to_key[place] = key[item];
        to_row[place] = k.ids ? i : k.row[i];
    }
}

/* ---- sums: a thread sums COLUMNS neighbouring columns of chunk blockIdx.x ---- */

struct __align__(sizeof(T) * COLUMNS) several {
    T x[COLUMNS];
};

struct __align__(COLUMNS < 4 ? 4 * COLUMNS : 16) sums {
    float x[COLUMNS];
};

__device__ inline void add(sums *to, const sums &more) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) to->x[c] += more.x[c];
}

__device__ inline void put(float *table, sums sum) {
    if (ACCUMULATE) add(&sum, *(sums *)table);
    *(sums *)table = sum;
}

/* parts[chunk][0]: the end of a run that began in an earlier chunk; [1]: the beginning of one that continues in the
 * next. */
extern "C" __global__ void sum_runs(const T *dout, const int *key, const int *row, float *table, float *parts, int n,
                                    int V, i64 C) {
    enum { UNROLL = 8 };
    __shared__ int keys[CHUNK + 2], rows[CHUNK]; /* keys: also of the place before and of the one after */
    i64 first = (i64)blockIdx.x * CHUNK, column = ((i64)blockIdx.y * blockDim.x + threadIdx.x) * COLUMNS;
    int count = n - first < CHUNK ? (int)(n - first) : CHUNK;
    for (int i = threadIdx.x; i < count + 2; i += blockDim.x) {
        i64 at = first + i - 1;
        keys[i] = at >= 0 && at < n ? key[at] : -1;
        if (i > 0 && i <= count) rows[i - 1] = row[at];
    }
    __syncthreads();
    if (column >= C) return;
    sums sum = {};
    bool begins_here = keys[0] != keys[1];
    for (int i = 0; i < count; i += UNROLL) {
        several x[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u < count && keys[i + u + 1] < V) x[u] = *(const several *)(dout + rows[i + u] * C + column);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (i + u >= count) break;
            int here = keys[i + u + 1], next = keys[i + u + 2];
            if (here >= V) return; /* and so are all that follow */
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) sum.x[c] += load(x[u].x[c]);
            bool last = here != next;
            if (!last && i + u + 1 < count) continue;
            if (last && begins_here)
                put(table + here * C + column, sum);
            else
                *(sums *)(parts + (2 * (i64)blockIdx.x + begins_here) * C + column) = sum;
            sum = {};
            begins_here = true;
        }
    }
}

/* The runs that begin in chunk blockIdx.x and go on in others. */
extern "C" __global__ void join_runs(const int *key, float *table, const float *parts, int n, int V, i64 C) {
    i64 chunk = blockIdx.x, first = chunk * CHUNK, end = first + CHUNK;
    i64 column = ((i64)blockIdx.y * blockDim.x + threadIdx.x) * COLUMNS;
    if (end >= n || column >= C) return;
    int run = key[end - 1];
    bool begins_before = key[first] == run && first > 0 && key[first - 1] == run;
    if (run >= V || key[end] != run || begins_before) return;
    sums sum = *(const sums *)(parts + (2 * chunk + 1) * C + column);
    for (bool more = true; more;) {
        chunk++;
        end = (chunk + 1) * CHUNK;
        add(&sum, *(const sums *)(parts + 2 * chunk * C + column));
        more = end < n && key[end - 1] == run && key[end] == run;
    }
    put(table + run * C + column, sum);
}
