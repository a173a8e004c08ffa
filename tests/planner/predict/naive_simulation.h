/* A step of all ranks in small steps of time, by the rules that lower.h states: without a heap, without classes of
 * ranks, without rates that are kept. Slow, plain, and independent of the prediction that it is compared with. */
#ifndef MT_TESTS_PLANNER_PREDICT_NAIVE_SIMULATION_H
#define MT_TESTS_PLANNER_PREDICT_NAIVE_SIMULATION_H

#include "kernels/coll/nccl_unequal.h"
#include "kernels/device/piece.h"
#include "planner/predict/predict.h"
#include "tests/check.h"

struct node {
    int instr, iteration;
    int before, nwaits, waits[MT_MOST_STREAMS]; /* nodes of this rank that must have ended, or -1 */
    int barrier;                                /* all nodes before this one must have ended; 0: no */
    double own_s, transfer_s, unpack_s;
    int kernels; /* of a collective */
    const struct mt_linstr *c;
    enum mt_block_kind block;
};

struct naive_stream {
    int next, current; /* nodes; current -1: idle */
    int part;          /* -1 waits for multiprocessors, 0 own, 1 waits for the group, 2 transfer, 3 unpacking */
    double done_s, spare_s, came_s;
};

struct naive_rank {
    struct mt_lowered *low;
    struct node *nodes;
    int nnodes, step;
    bool *ended;
    struct naive_stream streams[2];
    bool gpu;
    double copy_rate, compute_slowdown, comm_slowdown, kernel_s; /* kernel_s: mean rest of a running kernel */
};

static inline const struct mt_cluster_class *naive_class(const struct mt_costs *costs, int rank) {
    return &costs->cluster->classes[costs->cluster->devices[costs->device[rank]].class];
}

static inline double naive_pieces_s(const struct mt_costs *costs, int rank, const struct mt_linstr *c,
                                    const struct mt_piece *pieces, int npieces) {
    double bytes = 0;
    const struct mt_coll *problem = &c->problem;
    bool arrays = c->what == MT_LOWERED_COLLECTIVE && problem->n > 1 && problem->same_pieces &&
                  problem->wire == problem->acc && !strcmp(naive_class(costs, rank)->kind, "cuda");
    for (int r = 1; r < problem->n && arrays && problem->kind != MT_ALL_REDUCE; r++)
        if (problem->counts[r] != problem->counts[0]) arrays = mt_nccl_impl_choose(problem) == MT_NCCL_ROOTED;
    int ncopies = 0;
    for (int i = 0; i < npieces; i++) {
        if (arrays && pieces[i].type == c->problem.acc && mt_piece_rows(&pieces[i]).naxes == 0) continue;
        bytes += (double)mt_piece_elements(&pieces[i]) *
                 (double)(mt_type_size(pieces[i].type) + mt_type_size(c->problem.acc)) / 2;
        ncopies++;
    }
    return mt_cost_copy_s(costs, rank, (int64_t)bytes, ncopies);
}

static inline void naive_price(const struct mt_costs *costs, int rank, struct node *n) {
    const struct mt_linstr *c = n->c;
    if (c->what == MT_LOWERED_OP) {
        struct mt_call call = mt_linstr_call(c, c->tensor);
        struct mt_op_shape shape;
        mt_op_shape(&call, &shape);
        n->own_s = mt_cost_op(costs, rank, &shape).s;
        return;
    }
    n->own_s = naive_pieces_s(costs, rank, c, c->pack, c->npack);
    if (c->zero) n->own_s += mt_cost_copy_s(costs, rank, c->message_count[0] * mt_type_size(c->problem.acc) / 2, 0);
    n->unpack_s = naive_pieces_s(costs, rank, c, c->unpack, c->nunpack);
    n->kernels = 1 + (n->own_s > 0) + (n->unpack_s > 0);
    n->own_s += naive_class(costs, rank)->overhead_s;
    n->transfer_s = -1;
    if (c->what == MT_LOWERED_COLLECTIVE && c->schedule)
        n->transfer_s = mt_cost_coll(costs, &c->problem, c->group, c->algorithm).s;
}

/* One step's nodes in order, BODY unrolled. */
static inline void naive_unroll(const struct mt_costs *costs, int rank, struct naive_rank *r) {
    const struct mt_lowered *low = r->low;
    int body = low->block_begin[MT_LAST] - low->block_begin[MT_BODY], last[2] = {-1, -1};
    int64_t most = low->ninstrs + low->body_count * body;
    int *latest = calloc((size_t)low->ninstrs + 1, sizeof *latest);
    for (int i = 0; i < low->ninstrs; i++) latest[i] = -1;
    r->nodes = calloc((size_t)most + 1, sizeof *r->nodes);
    r->ended = calloc((size_t)most + 1, sizeof *r->ended);
    int barrier = 0;
    for (int b = 0; b < MT_NBLOCKS; b++) {
        int64_t times = b == MT_BODY && low->body_count > 0 ? low->body_count : 1;
        for (int64_t it = 0; it < times; it++) {
            if (low->body_barrier && ((b == MT_BODY && it > 0) || (b == MT_LAST))) barrier = r->nnodes;
            for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
                const struct mt_linstr *c = &low->instrs[i];
                if (c->what == MT_LOWERED_ALIAS) continue;
                struct node *n = &r->nodes[r->nnodes];
                *n = (struct node){.instr = i,
                                   .iteration = (int)it,
                                   .before = last[c->stream],
                                   .nwaits = c->nwaits,
                                   .barrier = barrier,
                                   .transfer_s = -1,
                                   .block = (enum mt_block_kind)b,
                                   .c = c};
                for (int w = 0; w < c->nwaits; w++) n->waits[w] = latest[c->waits[w]];
                if (b != MT_BODY || low->body_count > 0) naive_price(costs, rank, n);
                last[c->stream] = latest[i] = r->nnodes++;
            }
        }
    }
    free(latest);
    double all_s = 0; /* at a random time within operators, half of the operator is left on average */
    for (int i = 0; i < r->nnodes; i++) all_s += r->nodes[i].c->what == MT_LOWERED_OP ? r->nodes[i].own_s : 0;
    for (int i = 0; i < r->nnodes && r->gpu && all_s > 0; i++)
        if (r->nodes[i].c->what == MT_LOWERED_OP) r->kernel_s += r->nodes[i].own_s / all_s * r->nodes[i].own_s / 2;
}

struct naive {
    const struct mt_program *program;
    const struct mt_costs *costs;
    int nranks, nsteps;
    struct naive_rank *ranks;
    double *ends_s, now_s;
};

/* Whether rank b is in the same collective of the same step as rank a, and has reached its rendezvous. */
static inline bool naive_same(const struct naive *n, int a, int b) {
    const struct naive_rank *x = &n->ranks[a], *y = &n->ranks[b];
    if (y->step != x->step || y->streams[1].current < 0) return false;
    const struct node *mine = &x->nodes[x->streams[1].current], *theirs = &y->nodes[y->streams[1].current];
    return mine->block == theirs->block && mine->iteration == theirs->iteration &&
           mine->c->sources[0] == theirs->c->sources[0] && mine->c->chunk_index == theirs->c->chunk_index &&
           theirs->transfer_s >= 0 && y->streams[1].part >= 1;
}

static inline void naive_begin(struct naive_rank *r, int s) {
    struct naive_stream *stream = &r->streams[s];
    while (stream->current < 0 && stream->next < r->nnodes) {
        const struct node *node = &r->nodes[stream->next];
        if (node->c->stream != s) {
            stream->next++;
            continue;
        }
        if (node->before >= 0 && !r->ended[node->before]) return;
        for (int w = 0; w < node->nwaits; w++)
            if (node->waits[w] >= 0 && !r->ended[node->waits[w]]) return;
        for (int i = 0; i < node->barrier; i++)
            if (!r->ended[i]) return;
        stream->current = stream->next++;
        stream->part = r->gpu && node->transfer_s >= 0 ? -1 : 0;
        stream->done_s = stream->spare_s;
        stream->spare_s = 0;
    }
}

/* The end of a part; whether anything changed. */
static inline bool naive_end(struct naive *n, int rank, int s) {
    struct naive_rank *r = &n->ranks[rank];
    struct naive_stream *stream = &r->streams[s];
    if (stream->current < 0) return false;
    const struct node *node = &r->nodes[stream->current];
    if (stream->part < 0) {
        naive_begin(r, 0);
        bool alone = r->streams[0].current < 0;
        if (!alone && stream->done_s < node->kernels * r->kernel_s) return false;
        stream->done_s = alone ? 0 : stream->done_s - node->kernels * r->kernel_s;
        stream->part = 0;
        return true;
    }
    if (stream->part == 0 && stream->done_s >= node->own_s) {
        stream->done_s -= node->own_s;
        stream->part = node->transfer_s >= 0 ? 1 : 3;
        if (stream->part == 1) stream->done_s = 0, stream->came_s = n->now_s;
        return true;
    }
    if (stream->part == 1) {
        for (int i = 0; i < node->c->problem.n; i++)
            if (!naive_same(n, rank, node->c->group[i])) return false;
        double first_s = n->now_s;
        bool waiting_computes = false;
        for (int i = 0; i < node->c->problem.n; i++) {
            const struct naive_rank *other = &n->ranks[node->c->group[i]];
            first_s = fmin(first_s, other->streams[s].came_s);
            waiting_computes |= other->streams[s].came_s < n->now_s && other->streams[0].current >= 0;
        }
        /* the first to arrive sleeps for half of it on average */
        double nap_s = r->gpu ? 0 : mt_comm_backoff_s(n->now_s - first_s, waiting_computes);
        for (int i = 0; i < node->c->problem.n; i++) {
            n->ranks[node->c->group[i]].streams[s].part = 2;
            n->ranks[node->c->group[i]].streams[s].done_s = -nap_s / 2;
        }
        return true;
    }
    if (stream->part == 2 && stream->done_s >= node->transfer_s) {
        stream->done_s -= node->transfer_s;
        stream->part = 3;
        return true;
    }
    if (stream->part == 3 && stream->done_s >= node->unpack_s) {
        stream->spare_s = stream->done_s - node->unpack_s;
        r->ended[stream->current] = true;
        stream->current = -1;
        return true;
    }
    return false;
}

static inline void naive_progress(struct naive *n) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int k = 0; k < n->nranks; k++) {
            struct naive_rank *r = &n->ranks[k];
            for (int s = 0; s < 2; s++) {
                naive_begin(r, s);
                while (naive_end(n, k, s)) changed = true;
            }
            bool all = r->step < n->nsteps;
            for (int i = 0; i < r->nnodes && all; i++) all = r->ended[i];
            if (!all) continue;
            n->ends_s[r->step] = fmax(n->ends_s[r->step], n->now_s);
            r->step++;
            changed = true;
            if (r->step == n->nsteps) continue;
            memset(r->ended, 0, (size_t)r->nnodes * sizeof *r->ended);
            for (int s = 0; s < 2; s++) r->streams[s].next = 0;
        }
    }
    for (int k = 0; k < n->nranks; k++) n->ranks[k].streams[0].spare_s = n->ranks[k].streams[1].spare_s = 0;
}

static inline void naive_advance(struct naive *n, double tick_s) {
    for (int k = 0; k < n->nranks; k++) {
        struct naive_rank *r = &n->ranks[k];
        struct naive_stream *compute = &r->streams[0], *comm = &r->streams[1];
        bool computes = compute->current >= 0, transferring = comm->current >= 0 && comm->part == 2;
        bool copies = comm->current >= 0 && (comm->part == 0 || comm->part == 3);
        bool disturbed = false, spins = comm->current >= 0 && comm->part == 1 && r->gpu;
        for (int i = 0; transferring && i < r->nodes[comm->current].c->problem.n; i++)
            disturbed |= n->ranks[r->nodes[comm->current].c->group[i]].streams[0].current >= 0;
        if (computes)
            compute->done_s += tick_s * (copies                  ? r->copy_rate
                                         : transferring || spins ? 1 / (1 + r->compute_slowdown)
                                                                 : 1);
        if (comm->current < 0 || comm->part == 1) continue;
        comm->done_s += tick_s * (copies && computes          ? r->copy_rate
                                  : transferring && disturbed ? 1 / (1 + r->comm_slowdown)
                                                              : 1);
    }
}

/* The time between the ends of the last two of three steps, in ticks of tick_s. */
static inline double naive_step_s(const struct mt_program *program, const struct mt_costs *costs, double tick_s) {
    enum { STEPS = 3 };
    struct mt_err err = MT_ERR_INIT;
    struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    double ends_s[STEPS] = {0};
    struct naive n = {program, costs, program->nranks, STEPS, NULL, ends_s, 0};
    n.ranks = mt_calloc((size_t)n.nranks, sizeof *n.ranks);
    int all[64];
    for (int k = 0; k < n.nranks; k++) all[k] = k;
    int link = mt_cost_link(costs, all, n.nranks);
    for (int k = 0; k < n.nranks; k++) {
        struct naive_rank *r = &n.ranks[k];
        const struct mt_cluster_class *class = naive_class(costs, k);
        r->gpu = !strcmp(class->kind, "cuda");
        r->copy_rate = r->gpu ? 1 : class->threads / (class->threads + 1.0);
        if (link >= 0) r->compute_slowdown = costs->cluster->links[link].compute_slowdown;
        if (link >= 0) r->comm_slowdown = costs->cluster->links[link].comm_slowdown;
        r->streams[0].current = r->streams[1].current = -1;
        CHECK_OK(mt_lower(program, k, &options, &r->low, &err), err);
        naive_unroll(costs, k, r);
    }
    for (bool more = true; more; n.now_s += tick_s) {
        naive_progress(&n);
        naive_advance(&n, tick_s);
        more = false;
        for (int k = 0; k < n.nranks; k++) more |= n.ranks[k].step < STEPS;
    }
    for (int k = 0; k < n.nranks; k++) {
        mt_lowered_free(n.ranks[k].low);
        free(n.ranks[k].nodes);
        free(n.ranks[k].ended);
    }
    free(n.ranks);
    return ends_s[STEPS - 1] - ends_s[STEPS - 2];
}

#endif
