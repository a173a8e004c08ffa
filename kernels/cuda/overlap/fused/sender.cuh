/* Tiles of fused.cu on their way from the warp that loads to consumers, and to a thread beside that sends what these have
 * made: partial sums to their owners, and sums to the peer that wants them too. */
#ifndef MT_KERNELS_CUDA_OVERLAP_SENDER_CUH
#define MT_KERNELS_CUDA_OVERLAP_SENDER_CUH

#include "kernels/cuda/overlap/fused/call.cuh"

/* Tiles handed to consumers, one of which may still be stored; turns of barriers of tiles, more than are handed; rows
 * that are sent at a time: 2 KiB of each multiprocessor fill the link between two H200s. */
enum { SLOTS = 4, TURNS = 8, SEND_ROWS = 16 };

/* Tiles on their way to consumers, and after. */
struct hand {
    tile_row tile[SLOTS];
    u64 full[SLOTS], empty[SLOTS];
    u64 ready[TURNS];                                       /* of tiles that add: what they add is there */
    u64 added[CONSUMERS][CHUNKS];                           /* it, or where a slope is taken, is in a chunk's memory */
    u64 passed[CONSUMERS][CHUNKS], read[CONSUMERS][CHUNKS]; /* chunks that are to be sent; whose memory is free again */
    volatile int lost; /* 1: a wait has failed: this block neither sends nor tells any more */
};
struct place_of_hand {
    int slot;
    u32 parity;
    __device__ inline void next() {
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
};

/* ---- sending ---- */

/* As outlet (mainloop.cuh), but a thread beside stores the chunks, in its own way. */
struct outbox {
    u32 room;
    hand &h;
    int group, count;
    __device__ inline u32 at(int chunk) const {
        return room + (u32)(chunk % CHUNKS * CHUNK_BYTES);
    }
    __device__ inline void await_room(int chunk) const {
        barrier_wait(shared_address(&h.read[group][chunk % CHUNKS]), (u32)(chunk / CHUNKS & 1) ^ 1);
    }
    /* The group has written its next chunk. */
    __device__ inline void pass_written() {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
        if (threadIdx.x % 128 == 0) barrier_arrive(shared_address(&h.passed[group][count % CHUNKS]));
        count++;
    }
    template <class C, class F> __device__ __forceinline__ void pass(const C &c, int n, F) {
        await_room(count);
        chunk_write(c, n, at(count));
        pass_written();
    }
};

/* SEND_ROWS of a chunk to a rank; to a peer one store at a time. */
__device__ inline void send_rows(const run &r, const tensor_map *map, int rank, u32 from, int x, int y) {
    if (rank != r.c.me) stores_done();
    store_box(from, map, x, y, 0);
    stores_commit();
}
__device__ inline void send_chunk(const run &r, const maps &maps, const tile_row &t, u32 chunk, int x, int y) {
    if (SHARE && t.more == EMPTY) return;
    if (ADDS && t.adds) {
        store_box(chunk, &maps.out, x, y, 0);
        stores_commit();
        if (!t.nsignals) return;
    }
#pragma unroll 1
    for (int row = 0; row < 64; row += SEND_ROWS) {
        u32 from = chunk + (u32)(row * ROW_BYTES);
        if (ADDS && t.adds) {
            send_rows(r, &maps.peer_sums[r.copy], 1 - r.c.me, from, x, y + row);
            continue;
        }
        if (t.to != ALL) send_rows(r, &maps.to[r.copy][t.to], t.to, from, x, y + row);
#pragma unroll
        for (int q = 0; q < RANKS; q++)
            if (t.to == ALL) send_rows(r, &maps.to[r.copy][q], q, from, x, y + row);
    }
}
/* One thread beside: all tiles, chunk by chunk, and their flags. What is not sent, since someone has given up, is taken
 * all the same. */
__device__ inline void send_tiles(const run &r, const maps &maps, hand &h, u32 room) {
    place_of_hand from = {0, 0};
    int count[CONSUMERS] = {};
    for (int turn = 0;; turn++, from.next()) {
        barrier_wait(shared_address(&h.full[from.slot]), from.parity);
        const tile_row t = h.tile[from.slot];
        barrier_arrive(shared_address(&h.empty[from.slot]));
        if (!t.more) break;
        if (!(ADDS && t.adds) && !await_all(r, t.first_ready, t.nready)) h.lost = 1;
#pragma unroll 1
        for (int i = 0; i < TILE_CHUNKS; i++)
#pragma unroll
            for (int g = 0; g < CONSUMERS; g++) {
                if (!TOGETHER && turn % CONSUMERS != g) continue;
                int slot = count[g] % CHUNKS, y = t.row + TOGETHER * g * EACH + chunk_row(i);
                barrier_wait(shared_address(&h.passed[g][slot]), (u32)(count[g] / CHUNKS & 1));
                u32 chunk = room + (u32)((g * CHUNKS + slot) * CHUNK_BYTES);
                if (!h.lost) send_chunk(r, maps, t, chunk, t.column + chunk_column(i), y);
                stores_read<0>();
                barrier_arrive(shared_address(&h.read[g][slot]));
                count[g]++;
            }
        if (!t.nsignals) continue;
        stores_done();
        proxy_fence();
        if (!h.lost) raise_all(r, t.first_signal, t.nsignals);
    }
    stores_done();
}

/* Another thread, or sends would stop while it acquires a flag, which takes as long as a message: what a tile adds is
 * there. */
__device__ inline void keep_ready(const run &r, hand &h) {
    place_of_hand from = {0, 0};
    for (int adding = 0;; from.next()) {
        barrier_wait(shared_address(&h.full[from.slot]), from.parity);
        const tile_row t = h.tile[from.slot];
        barrier_arrive(shared_address(&h.empty[from.slot]));
        if (!t.more) return;
        if (!t.adds) continue;
        if (!await_all(r, t.first_ready, t.nready)) h.lost = 1;
        barrier_arrive(shared_address(&h.ready[adding++ % TURNS]));
    }
}

#endif
