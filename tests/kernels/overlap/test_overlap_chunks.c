/* Schedules in chunks: every tile and every put is in one chunk, in the place that the schedule gives it, after all
 * that it awaits; and ranks that run chunks in order, cut in unlike ways, finish; with GEMMs that add, too. */
#include <stdlib.h>

#include "kernels/overlap/chunk.h"
#include "tests/kernels/overlap/job.h"

static const uint64_t seed = 20261125;

/* ---- one rank's chunks against its schedule ---- */

static bool inside(const struct mt_overlap_tile *t, const struct mt_overlap_tile *box) {
    return t->kind == box->kind && t->from == box->from && t->to == box->to && t->row >= box->row &&
           t->row + t->rows <= box->row + box->rows && t->col >= box->col && t->col + t->cols <= box->col + box->cols &&
           t->from_row - t->row == box->from_row - box->row;
}

/* Before the chunk, whatever position in K a tile's wait has. */
static bool has_wait(const struct mt_overlap_chunks *c, int first, int count, const struct mt_overlap_wait *wait) {
    struct mt_overlap_wait whole = *wait;
    whole.k = 0;
    for (int w = first; w < first + count; w++)
        if (!memcmp(&c->waits[w], &whole, sizeof whole)) return true;
    return false;
}

static bool has_put(const struct mt_overlap_chunks *c, const struct mt_overlap_schedule *s, int first, int count,
                    const struct mt_overlap_put *put) {
    for (int m = first; m < first + count; m++) {
        const struct mt_overlap_move *move = &c->puts[m];
        bool raises = false;
        for (int f = move->first_flag; f < move->first_flag + move->nflags; f++) raises |= c->flags[f] == put->flag;
        if (!raises || move->box.peer != put->peer) continue;
        for (int w = put->first_wait; w < put->first_wait + put->nwaits; w++)
            CHECK(has_wait(c, move->box.first_wait, move->box.nwaits, &s->waits[w]), "a put's wait is lost");
        return put->rows ? move->box.from == put->from && move->box.to == put->to && put->to_row >= move->box.to_row &&
                               put->to_row + put->rows <= move->box.to_row + move->box.rows &&
                               put->col >= move->box.col && put->col + put->cols <= move->box.col + move->box.cols &&
                               put->to_row - put->from_row == move->box.to_row - move->box.from_row
                         : !move->box.rows;
    }
    return false;
}

static void test_cover(const struct mt_overlap_schedule *s, const struct mt_overlap_chunks *c, int64_t most_rows) {
    int64_t tiles = 0, chunks = 0, boxes = 0, moved = 0;
    int flags = 0;
    for (int k = 0; k < c->nchunks; k++) {
        const struct mt_overlap_tile *box = &c->chunks[k].box;
        chunks += box->rows * box->cols;
        bool one = false;
        for (int t = 0; t < s->ntiles; t++) one |= inside(&s->tiles[t], box) && s->tiles[t].rows == box->rows;
        CHECK(box->rows <= most_rows || one, "%lld rows", (long long)box->rows);
    }
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        int of = 0;
        while (of < c->nchunks && !inside(tile, &c->chunks[of].box)) of++;
        CHECK(of < c->nchunks, "tile %d is in no chunk", t);
        const struct mt_overlap_chunk *chunk = &c->chunks[of];
        for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++)
            CHECK(has_wait(c, chunk->box.first_wait, chunk->box.nwaits, &s->waits[w]), "tile %d: a wait is lost", t);
        for (int j = 0; j < s->nputs; j++)
            if (s->puts[j].tile == t)
                CHECK(has_put(c, s, chunk->first_put, chunk->nputs, &s->puts[j]), "put %d is lost", j);
        tiles += tile->rows * tile->cols;
    }
    CHECK_EQ(tiles, chunks); /* each tile in one chunk: so much is computed once */
    for (int j = 0; j < s->nputs; j++) {
        boxes += s->puts[j].rows * s->puts[j].cols;
        if (s->puts[j].tile < 0) CHECK(has_put(c, s, 0, c->nstart, &s->puts[j]), "put %d of the start is lost", j);
    }
    for (int m = 0; m < c->nputs; m++) {
        moved += c->puts[m].box.rows * c->puts[m].box.cols;
        flags += c->puts[m].nflags;
        CHECK(c->puts[m].nflags <= c->most_flags);
    }
    CHECK_EQ(boxes, moved);
    CHECK_EQ(flags, s->nputs);
}

/* ---- all ranks ---- */

struct rank {
    struct mt_overlap_schedule schedule;
    struct mt_overlap_chunks chunks;
    int64_t *flags; /* [flags of the problem]: raised so far */
    int chunk, epoch, start;
};

static bool ready(const struct rank *r, int first, int count) {
    for (int w = first; w < first + count; w++) {
        const struct mt_overlap_wait *wait = &r->chunks.waits[w];
        if (r->flags[wait->flag] < (int64_t)(r->epoch - wait->lag) * wait->count) return false;
    }
    return true;
}

static void raise_flags(struct rank *ranks, const struct rank *r, const struct mt_overlap_move *put) {
    for (int f = put->first_flag; f < put->first_flag + put->nflags; f++)
        ranks[put->box.peer].flags[r->chunks.flags[f]]++;
}

/* One step of a rank, if it can: a put of the start, or a chunk with its puts. */
static bool step(struct rank *ranks, struct rank *r, int epochs) {
    if (r->epoch > epochs) return false;
    if (r->start < r->chunks.nstart) {
        const struct mt_overlap_move *put = &r->chunks.puts[r->start];
        if (!ready(r, put->box.first_wait, put->box.nwaits)) return false;
        raise_flags(ranks, r, put);
        r->start++;
        return true;
    }
    if (r->chunk < r->chunks.nchunks) {
        const struct mt_overlap_chunk *chunk = &r->chunks.chunks[r->chunk];
        if (!ready(r, chunk->box.first_wait, chunk->box.nwaits)) return false;
        for (int m = chunk->first_put; m < chunk->first_put + chunk->nputs; m++) {
            const struct mt_overlap_move *put = &r->chunks.puts[m];
            if (!ready(r, put->box.first_wait, put->box.nwaits)) return false; /* tried again as a whole: none ran */
        }
        for (int m = chunk->first_put; m < chunk->first_put + chunk->nputs; m++)
            raise_flags(ranks, r, &r->chunks.puts[m]);
        r->chunk++;
        return true;
    }
    r->epoch++, r->start = r->chunk = 0;
    return true;
}

/* ---- GEMMs of chunks as calls ---- */

/* The largest power of two, up to 16, at which the first elements of a box's rows lie. */
static int64_t alignment_of(int64_t at, int64_t row_bytes, int64_t rows) {
    int64_t bits = 16 | at;
    for (int64_t i = 0; i < rows; i++) bits |= at + i * row_bytes;
    return bits & -bits;
}

/* Together they multiply what the tiles do; their operands fit; and no address is better aligned than rows are. */
static void test_gemms(const struct mt_overlap *p, int me, const struct mt_overlap_schedule *s,
                       const struct mt_overlap_chunks *c) {
    const int64_t at[5] = {256, 256, 256, 256, 256};
    int64_t k = p->form == MT_OVERLAP_GATHER ? p->k : p->shares[me], size = mt_type_size(p->type);
    for (int t = 0; t < 8; t++) {
        const bool transposed[3] = {t & 1, t & 2, t & 4};
        double multiplied = 0, wanted = 0;
        for (int i = 0; i < s->ntiles; i++)
            if (s->tiles[i].kind == MT_TILE_MATMUL)
                wanted += (double)s->tiles[i].rows * (double)s->tiles[i].cols * (double)k;
        for (int i = 0; i < c->nchunks; i++) {
            const struct mt_overlap_tile *box = &c->chunks[i].box;
            struct mt_overlap_gemm g;
            if (!mt_overlap_chunk_gemm(p, me, transposed, 0, at, &c->chunks[i], &g)) continue;
            const struct mt_tensor *a = &g.in[0], *b = &g.in[1], *y = &g.out[0];
            CHECK(g.call.attr == &g.attr && g.call.in == a && g.call.out == y, "pointers of another");
            CHECK_EQ(a->extent[!g.attr.trans_a], k);
            CHECK_EQ(b->extent[g.attr.trans_b], k);
            CHECK_EQ(a->extent[g.attr.trans_a], y->extent[0]);
            CHECK_EQ(b->extent[!g.attr.trans_b], y->extent[1]);
            bool turned = y->extent[0] != box->rows || y->extent[1] != box->cols;
            CHECK(!turned || (transposed[2] && box->to == MT_OVERLAP_OUT && y->extent[0] == box->cols), "its result");
            CHECK(y->type == MT_F32 || y->type == p->type, "a type that no GEMM writes");
            multiplied += (double)(y->extent[0] * y->extent[1] * k);
            int64_t bits = (int64_t)(uintptr_t)a->data, mine = bits & -bits;
            bool stored = box->from == MT_OVERLAP_A && transposed[0];
            int64_t extent[2];
            mt_overlap_extent(p, me, box->from, extent);
            int64_t rows = stored ? alignment_of(box->from_row * size, p->m * size, k)
                                  : alignment_of(box->from_row * extent[1] * size, extent[1] * size, box->rows);
            CHECK(mine <= rows || (rows == 16 && mine >= 16), "%lld, not %lld", (long long)mine, (long long)rows);
        }
        CHECK_NEAR(multiplied, wanted, 0);
    }
}

/* With an epilogue a gather's are calls of fused_matmul on the same operands; what it reads and writes counts for the
 * alignment, a bias from its begin, others from the chunk's rows. Those of sums are the same without. */
static void test_epilogues(const struct mt_overlap *p, int me, const struct mt_overlap_chunks *c) {
    const bool straight[3] = {false, false, false};
    struct mt_err err = MT_ERR_INIT;
    int64_t size = mt_type_size(p->type);
    for (int i = 0; i < c->nchunks; i++)
        for (int e = 0; e < JOB_NEPILOGUES; e++)
            for (int moved = 0; moved < 3; moved++) {
                const struct mt_overlap_tile *box = &c->chunks[i].box;
                const struct mt_op_epilogue *info = mt_op_epilogue(job_epilogues[e]);
                int64_t by[2] = {moved == 1 ? size : 0, moved == 2 && info->nout > 1 ? size : 0};
                const int64_t at[5] = {256, 256, 256, 256 + by[0], info->nout > 1 ? 256 + by[1] : 0};
                struct mt_overlap_gemm g, plain;
                if (!mt_overlap_takes_epilogue(p, false, info->kind)) continue;
                if (!mt_overlap_chunk_gemm(p, me, straight, info->kind, at, &c->chunks[i], &g)) continue;
                CHECK(mt_overlap_chunk_gemm(p, me, straight, 0, at, &c->chunks[i], &plain), "without");
                if (p->form != MT_OVERLAP_GATHER) {
                    CHECK_EQ(info->kind, MT_OP_add);
                    CHECK_EQ(g.call.kind, MT_OP_matmul);
                    CHECK_EQ(g.call.nin, 2);
                    CHECK_EQ(g.attr.epilogue, 0);
                    CHECK(g.in[0].data == plain.in[0].data, "a bias is none of its operands");
                    continue;
                }
                CHECK_EQ(g.call.kind, MT_OP_fused_matmul);
                CHECK_EQ(g.call.nin, info->nin);
                CHECK_EQ(g.call.nout, info->nout);
                CHECK_EQ(g.attr.epilogue, info->kind);
                CHECK_OK(mt_call_check(&g.call, &err), err);
                CHECK(!memcmp(g.out[0].extent, plain.out[0].extent, sizeof g.out[0].extent), "other extents");
                uintptr_t bits = (uintptr_t)plain.call.in[0].data, extra = (uintptr_t)by[0];
                uintptr_t row = (uintptr_t)(p->shares[me] * size), first = (uintptr_t)box->row * row;
                if (!info->bias) extra = (extra + first) | row;
                if (info->nout > 1) extra |= ((uintptr_t)by[1] + first) | row;
                bits |= extra;
                uintptr_t mine = (uintptr_t)g.call.in[0].data;
                CHECK_EQ(mine & -mine, bits & -bits);
            }
}

/* ---- GEMMs that add ---- */

static const struct mt_overlap_chunk *sum_of(const struct mt_overlap_chunks *chunks,
                                             const struct mt_overlap_tile *box) {
    for (int c = 0; c < chunks->nchunks; c++) {
        const struct mt_overlap_tile *sum = &chunks->chunks[c].box;
        if (sum->kind == MT_TILE_ADD && sum->row == box->row && sum->rows == box->rows && sum->col == box->col &&
            sum->cols == box->cols)
            return &chunks->chunks[c];
    }
    return NULL;
}

/* `before`: the chunks with sums; `after`: with GEMMs that add. Each of these has the place and the puts of a sum,
 * the rows of A of this rank, and those that the peer sent; it awaits the peer; and no GEMM of the peer's rows
 * comes after. Returns how many there are. */
static int test_adding(const struct mt_overlap *p, int me, const struct mt_overlap_chunks *before,
                       const struct mt_overlap_chunks *after) {
    int64_t first, owned = mt_overlap_owned(p, me, &first), rows = 0;
    int adding = 0, sums = 0, own = 0;
    for (int c = 0; c < before->nchunks; c++) sums += before->chunks[c].box.kind == MT_TILE_ADD;
    for (int c = 0; c < after->nchunks; c++) {
        const struct mt_overlap_chunk *chunk = &after->chunks[c];
        const struct mt_overlap_tile *box = &chunk->box;
        CHECK(!chunk->adds || box->kind == MT_TILE_MATMUL, "chunk %d", c);
        if (!chunk->adds) {
            CHECK(!adding || box->kind != MT_TILE_MATMUL, "chunk %d comes late", c);
            own += box->kind == MT_TILE_MATMUL && box->to == MT_OVERLAP_SLOTS;
            continue;
        }
        const struct mt_overlap_chunk *sum = sum_of(before, box);
        CHECK(sum && sum->box.to == box->to, "chunk %d: another place", c);
        CHECK(chunk->first_put == sum->first_put && chunk->nputs == sum->nputs, "chunk %d: other puts", c);
        CHECK(box->from == MT_OVERLAP_A && box->from_row == first + sum->box.from_row, "chunk %d: other rows of A", c);
        CHECK_EQ(chunk->added_row, (1 - me) * owned + sum->box.from_row);
        int awaited = 0;
        for (int w = sum->box.first_wait; w < sum->box.first_wait + sum->box.nwaits; w++) {
            const struct mt_overlap_wait *wait = &before->waits[w];
            if (wait->from == me) continue;
            CHECK(has_wait(after, box->first_wait, box->nwaits, wait), "chunk %d: a wait is lost", c);
            awaited++;
        }
        CHECK(awaited == box->nwaits && awaited > 0, "chunk %d: %d waits, not %d", c, box->nwaits, awaited);
        rows += box->rows * box->cols, adding++;
    }
    CHECK(!adding || (adding == sums && !own && rows == owned * p->cols), "%d of %d sums", adding, sums);
    CHECK(adding == sums || !mt_overlap_gemms_add(p), "none adds");
    return adding;
}

/* All ranks' chunks, to the end of some epochs. */
static void run_all(const struct mt_overlap *p, struct rank *ranks, int number) {
    enum { EPOCHS = 4 };
    bool any = true;
    for (int r = 0; r < p->n; r++) {
        memset(ranks[r].flags, 0, (size_t)mt_overlap_nflags(p) * sizeof *ranks[r].flags);
        ranks[r].epoch = 1, ranks[r].start = ranks[r].chunk = 0;
    }
    while (any) {
        any = false;
        for (int r = 0; r < p->n; r++) any |= step(ranks, &ranks[r], EPOCHS);
    }
    for (int r = 0; r < p->n; r++)
        CHECK(ranks[r].epoch > EPOCHS, "job %d: rank %d of %d stands in chunk %d of epoch %d", number, r, p->n,
              ranks[r].chunk, ranks[r].epoch);
}

static int adding; /* of all jobs */

static void test_job(const struct job *job, int number) {
    const struct mt_overlap *p = &job->problem;
    struct rank ranks[JOB_RANKS] = {0};
    for (int r = 0; r < p->n; r++) {
        int64_t most = 1 + (int64_t)mt_random_below(seed, 7, (uint64_t)(number * JOB_RANKS + r), 90);
        mt_overlap_schedule(p, r, &ranks[r].schedule);
        mt_overlap_chunks_make(&ranks[r].schedule, most, &ranks[r].chunks);
        test_cover(&ranks[r].schedule, &ranks[r].chunks, most);
        test_gemms(p, r, &ranks[r].schedule, &ranks[r].chunks);
        test_epilogues(p, r, &ranks[r].chunks);
        ranks[r].flags = calloc((size_t)mt_overlap_nflags(p) + 1, sizeof(int64_t));
    }
    run_all(p, ranks, number);
    for (int r = 0; r < p->n; r++) {
        struct mt_overlap_chunks before = ranks[r].chunks;
        int64_t most = 1 + (int64_t)mt_random_below(seed, 7, (uint64_t)(number * JOB_RANKS + r), 90);
        mt_overlap_chunks_make(&ranks[r].schedule, most, &ranks[r].chunks);
        mt_overlap_chunks_add(p, r, false, &ranks[r].chunks);
        adding += test_adding(p, r, &before, &ranks[r].chunks);
        test_gemms(p, r, &ranks[r].schedule, &ranks[r].chunks);
        mt_overlap_chunks_release(&before);
    }
    run_all(p, ranks, number);
    for (int r = 0; r < p->n; r++) {
        mt_overlap_chunks_release(&ranks[r].chunks);
        mt_overlap_schedule_release(&ranks[r].schedule);
        free(ranks[r].flags);
    }
}

/* Large tiles of an even problem: chunks are few, and puts are whole rows. */
static void test_size(void) {
    static const int64_t half[2] = {4096, 4096}, shares[2] = {1024, 1024};
    struct mt_overlap p = {MT_OVERLAP_SCATTER, 2,       8192, 8192, 2048, half, shares, MT_BF16, MT_BF16, MT_BF16,
                           {128, 256},         .mix = 0};
    struct mt_overlap_schedule s;
    struct mt_overlap_chunks c;
    mt_overlap_schedule(&p, 0, &s);
    CHECK_EQ(mt_overlap_chunk_rows(&p, 0, 132), 1024); /* two waves of 4 by 32 tiles */
    mt_overlap_chunks_make(&s, 1024, &c);
    CHECK_EQ(c.nchunks, 4 + 4 + 4);
    for (int k = 0; k < 4; k++) {
        CHECK_EQ(c.chunks[k].nputs, 1);
        CHECK_EQ(c.puts[c.chunks[k].first_put].box.cols, 8192);
        CHECK_EQ(c.puts[c.chunks[k].first_put].box.rows, 1024);
    }
    mt_overlap_chunks_release(&c);
    mt_overlap_schedule_release(&s);
}

/* Rows of all matrices begin at multiples of 16 bytes. */
static void align(struct job *job) {
    struct mt_overlap *p = &job->problem;
    p->cols *= 8, p->tile[1] *= 8, p->k *= 8;
    for (int r = 0; r < p->n; r++) job->shares[r] *= 8;
}

/* Jobs of each number of ranks, and how many of all must have GEMMs that add: under sanitizers, where they take long,
 * each form with each type. */
#ifdef MOTLEY_SANITIZE
enum { JOBS = JOB_NFORMS * JOB_NTYPES, ADDING = 14 };
#else
enum { JOBS = 60, ADDING = 30 };
#endif

int main(void) {
    for (int n = 1; n <= JOB_RANKS; n++)
        for (int number = 0; number < JOBS; number++) {
            struct job job;
            job_init(&job, n, number, seed);
            test_job(&job, number);
            if (job.problem.form == MT_OVERLAP_GATHER)
                job_join(&job);
            else
                align(&job);
            test_job(&job, number);
        }
    CHECK(adding > ADDING, "%d GEMMs add", adding);
    test_size();
    return 0;
}
