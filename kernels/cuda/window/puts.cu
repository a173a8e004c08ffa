/* Puts between GPUs, to be timed: by stores and by bulk copies, from so many blocks with so many bytes in flight; and
 * messages with signals, back and forth.
 *
 * THREADS, UNROLL: of a block, and accesses of 16 bytes that each thread has in flight.
 * STAGES, CHUNK: of a block's ring in shared memory, and bytes of one of its bulk copies.
 * LEVEL: of a message. */
#include "kernels/cuda/window/window.cuh"

/* to[bytes] = from[bytes], `repeats` times; bytes a multiple of 16 THREADS UNROLL. */
extern "C" __global__ void __launch_bounds__(THREADS) put_stores(uint4 *to, const uint4 *from, i64 bytes, i64 repeats) {
    i64 step = (i64)THREADS * UNROLL, count = bytes / 16;
    for (i64 r = 0; r < repeats; r++)
        for (i64 at = blockIdx.x * step + threadIdx.x; at < count; at += gridDim.x * step) {
            uint4 word[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; i++) word[i] = from[at + i * THREADS];
#pragma unroll
            for (int i = 0; i < UNROLL; i++) to[at + i * THREADS] = word[i];
        }
}

#if __CUDA_ARCH__ >= 900
/* The same by one thread of each block; bytes a multiple of CHUNK. Loads run AHEAD of stores by half of the ring. */
extern "C" __global__ void put_bulk(char *to, const char *from, i64 bytes, i64 repeats) {
    constexpr int AHEAD = STAGES / 2;
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 there[STAGES];
    if (threadIdx.x) return;
    for (int s = 0; s < STAGES; s++) bytes_init(&there[s]);
    proxy_fence();
    i64 chunks = bytes / CHUNK, mine = (chunks - (i64)blockIdx.x + gridDim.x - 1) / gridDim.x, total = mine * repeats;
    for (i64 t = 0; t < total + AHEAD; t++) {
        if (t < total) {
            int stage = (int)(t % STAGES);
            if (t >= STAGES) bulk_read<STAGES - 1 - AHEAD>();
            bytes_expect(&there[stage], CHUNK);
            bulk_get(ring + stage * CHUNK, from + (blockIdx.x + t % mine * gridDim.x) * CHUNK, CHUNK, &there[stage]);
        }
        i64 u = t - AHEAD;
        if (u < 0) continue;
        int stage = (int)(u % STAGES);
        while (!bytes_there(&there[stage], (u32)(u / STAGES & 1))) {}
        bulk_put(to + (blockIdx.x + u % mine * gridDim.x) * CHUNK, ring + stage * CHUNK, CHUNK);
        bulk_commit();
    }
    bulk_quiet();
}
#endif

/* What a message of a round has at word i. */
__device__ inline u64 message_word(i64 round, i64 i) {
    return ((u64)round << 32) + (u64)i;
}

/* Two ranks send a message of `bytes` back and forth, `rounds` times, by one block each; then they meet at a barrier, and
 * each gets its last message back. Part of a window, on both: signal, abort word, [3] stall, errors; at ARRIVED words of
 * the barrier, at SOURCE what is sent, then what comes, doubled by parity. */
enum { ARRIVED = 64, SOURCE = 256 };
extern "C" __global__ void message_turns(char *mine, char *peer, i64 bytes, i64 rounds, int leads, u64 deadline_ns) {
    u64 *words = (u64 *)mine, *source = (u64 *)(mine + SOURCE), wrong = 0;
    watch w = {words + 1, words + 2, deadline_ns};
    char *parts[2] = {leads ? mine : peer, leads ? peer : mine};
    if (LEVEL != BLOCK && threadIdx.x >= (LEVEL == WARP ? 32 : 1)) return;
    i64 staging = SOURCE + bytes;
    for (i64 turn = 0; turn < 2 * rounds; turn++) {
        i64 round = turn / 2 + 1, at = staging + round % 2 * bytes;
        if ((turn % 2 == 0) == (leads != 0)) {
            for (i64 i = lane<LEVEL>(); i < bytes / 8; i += lanes<LEVEL>()) source[i] = message_word(round, i);
            join<LEVEL>();
            put_signal<LEVEL>(peer + at, source, bytes, (u64 *)peer, (u64)round, SET);
        } else {
            if (!wait<LEVEL>(words, (u64)round, w)) return;
            const u64 *message = (const u64 *)(mine + at);
            for (i64 i = lane<LEVEL>(); i < bytes / 8; i += lanes<LEVEL>()) wrong += message[i] != message_word(round, i);
        }
    }
    if (!barrier<LEVEL>(parts, ARRIVED, !leads, 2, 1, w)) return;
    get<LEVEL>(source, peer + staging + rounds % 2 * bytes, bytes);
    for (i64 i = lane<LEVEL>(); i < bytes / 8; i += lanes<LEVEL>()) wrong += source[i] != message_word(rounds, i);
    wrong += !test(words, (u64)rounds);
    if (wrong) atomicAdd(words + 5, wrong);
}
