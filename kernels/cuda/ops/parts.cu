/* separate and join: rows of a whole value to those of a part, or back. WORD: what an access moves. */
extern "C" __global__ void copy_rows(i64 rows, i64 run, i64 from_pitch, i64 to_pitch, const WORD *from, WORD *to) {
    i64 n = rows * run, step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        i64 row = i / run, at = i - row * run;
        to[row * to_pitch + at] = from[row * from_pitch + at];
    }
}
