/* Puts of a gather in fused.cu: one thread of a block moves rows to peers by bulk copies through shared memory, another
 * tells them.
 *
 * Stores that a link has no room for fill the queues that loads go through too. So one is under way at a time: between
 * two H200s 4 KiB of each multiprocessor fill the link (363 GB/s) while loads go on at 7.2 TB/s; stores of warps, which
 * nothing holds back, leave them 0.4 TB/s. */
#ifndef MT_KERNELS_CUDA_OVERLAP_PUTTER_CUH
#define MT_KERNELS_CUDA_OVERLAP_PUTTER_CUH

#include "kernels/cuda/overlap/fused/call.cuh"

constexpr int PUT_BYTES = 4096, PUT_SLOTS = 8, SAYINGS = 4;

enum { NONE = -1 };
/* A box of which a piece is done, or will be. */
struct put_box {
    int box, pieces, first_signal, nsignals; /* box: or NONE */
};
/* Rows, or a part of one, of at most PUT_BYTES. */
struct put_unit {
    char *to;
    int rows, bytes; /* bytes: of a row */
    put_box ends;    /* of which it ends a piece */
};
/* Units on their way through shared memory, and what is said of pieces. */
struct putting {
    u64 full[PUT_SLOTS], said[SAYINGS], heard[SAYINGS];
    put_unit unit[PUT_SLOTS];
    put_box box[SAYINGS];
};
__device__ inline void init_putting(putting &p) {
    for (int s = 0; s < PUT_SLOTS; s++) barrier_init(shared_address(&p.full[s]), 1);
    for (int s = 0; s < SAYINGS; s++) {
        barrier_init(shared_address(&p.said[s]), 1);
        barrier_init(shared_address(&p.heard[s]), 1);
    }
}

/* Bytes from a row of the operand to the next, here and there. */
__device__ inline i64 pitch(const run &r) {
    return (i64)r.c.k * (i64)sizeof(TYPE);
}
/* The pieces that a block takes from the counter, unit by unit. What comes next is found out meanwhile, a step with
 * each unit, for each takes as long as a load. */
struct pieces_walk {
    const char *from;
    char *to;
    put_box box;
    int rows, row_bytes, row, at; /* rows that lie one after the other are one */
    int steps, next;
    piece_row coming;
    box_row coming_box;

    __device__ inline void step(const call &c) {
        if (steps == 0) next = (int)atomicAdd(c.work + PUTS, 1);
        if (steps == 1 && next < c.nputs) coming = c.pieces[next];
        if (steps == 2 && next < c.nputs) coming_box = c.boxes[coming.box];
        steps++;
    }
    /* False: there is none, or someone has given up. A piece without bytes has one unit without any: it has a flag. */
    __device__ inline bool begin(const run &r) {
        const call &c = r.c;
        while (steps < 3) step(c);
        const box_row &b = coming_box;
        if (next >= c.nputs || !await_all(r, b.first_wait, b.nwaits)) return false;
        from = (const char *)(c.a + (i64)(b.from_row + coming.row) * c.k + b.column);
        to = (char *)((TYPE *)(c.part[b.peer] + c.staged[r.copy]) + (i64)(b.row + coming.row) * c.k + b.column);
        box = {coming.box, b.pieces, b.first_signal, b.nsignals};
        rows = coming.rows, row_bytes = b.columns * (int)sizeof(TYPE);
        if (b.columns == c.k || !rows) row_bytes *= rows, rows = 1;
        row = at = steps = 0;
        return true;
    }
    __device__ inline put_unit unit() const {
        int bytes = min(PUT_BYTES, row_bytes - at);
        return {to + at, bytes == row_bytes ? min(PUT_BYTES / max(bytes, 1), rows - row) : 1, bytes, {NONE}};
    }
    /* Go on after a unit; returns whether it ends the piece. */
    __device__ inline bool pass(const run &r, const put_unit &u) {
        step(r.c);
        if ((at += u.bytes) < row_bytes) return false;
        at = 0;
        from += u.rows * pitch(r), to += u.rows * pitch(r);
        return (row += u.rows) >= rows;
    }
};

/* A unit's rows, which lie side by side in shared memory. */
__device__ inline void load_unit(u32 to, const char *from, i64 pitch, const put_unit &u, u32 barrier) {
    barrier_expect(barrier, (u32)(u.rows * u.bytes));
    for (int row = 0; row < u.rows && u.bytes; row++)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         to + (u32)(row * u.bytes)),
                     "l"(from + row * pitch), "r"(u.bytes), "r"(barrier)
                     : "memory");
}
__device__ inline void store_unit(u32 from, i64 pitch, const put_unit &u) {
    for (int row = 0; row < u.rows && u.bytes; row++)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(u.to + row * pitch),
                     "r"(from + (u32)(row * u.bytes)), "r"(u.bytes)
                     : "memory");
    stores_commit();
}

/* Piece number `count` that is done, of this box; NONE: there are no more. */
__device__ inline void say(putting &p, int count, const put_box &box) {
    int slot = count % SAYINGS;
    barrier_wait(shared_address(&p.heard[slot]), (u32)(count / SAYINGS & 1) ^ 1);
    p.box[slot] = box;
    proxy_fence();
    barrier_arrive(shared_address(&p.said[slot]));
}
/* One thread. `room`: shared memory of PUT_SLOTS units. */
__device__ inline void put_pieces(const run &r, putting &p, u32 room) {
    pieces_walk walk = {};
    int loaded = 0, sent = 0, count = 0;
    put_box done = {NONE}; /* said when the last store has its effect */
    bool more = walk.begin(r);
    for (;; sent++) {
        for (; more && loaded - sent < PUT_SLOTS - 1; loaded++) {
            int slot = loaded % PUT_SLOTS;
            put_unit u = walk.unit();
            load_unit(room + (u32)(slot * PUT_BYTES), walk.from + walk.at, pitch(r), u, shared_address(&p.full[slot]));
            if (walk.pass(r, u)) u.ends = walk.box, more = walk.begin(r);
            p.unit[slot] = u;
        }
        if (sent == loaded) break;
        int slot = sent % PUT_SLOTS;
        const put_unit u = p.unit[slot];
        barrier_wait(shared_address(&p.full[slot]), (u32)(sent / PUT_SLOTS & 1));
        stores_done();
        if (done.box != NONE) say(p, count++, done);
        store_unit(room + (u32)(slot * PUT_BYTES), pitch(r), u);
        done = u.ends;
    }
    stores_done();
    if (done.box != NONE) say(p, count++, done);
    say(p, count, {NONE});
}
/* Another: who has put the last piece of a box raises its flags. */
__device__ inline void tell_pieces(const run &r, putting &p) {
    for (int count = 0;; count++) {
        int slot = count % SAYINGS;
        barrier_wait(shared_address(&p.said[slot]), (u32)(count / SAYINGS & 1));
        put_box box = p.box[slot];
        barrier_arrive(shared_address(&p.heard[slot]));
        if (box.box == NONE) return;
        if (is_last(r.c.work + DONE + box.box, (u32)box.pieces)) raise_all(r, box.first_signal, box.nsignals);
    }
}

#endif
