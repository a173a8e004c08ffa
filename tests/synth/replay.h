/* Lowered programs replayed with the timing chosen by the test: within what lower.h promises about order, one stream
 * runs as far ahead of the others as it can. Ranks are threads that talk through memory; operators are the plain C
 * ones.
 */
#ifndef MT_TESTS_SYNTH_REPLAY_H
#define MT_TESTS_SYNTH_REPLAY_H

#include <omp.h>
#include <pthread.h>

#include "kernels/cpu/internal.h"
#include "kernels/device/in_place.h"
#include "kernels/window/window.h"
#include "tests/synth/run_program.h"

/* For the options of mt_lower: of the operators that replays run. */
static inline int64_t replay_scratch_bytes(void *context, const struct mt_call *call) {
    (void)context;
    return mt_backend_c.scratch_bytes(call);
}

enum timing { COMPUTE_AHEAD, COMM_AHEAD, IN_TURN, NTIMINGS };

struct event {
    int instr;
    int64_t iteration;
    bool work, done;
    int nwaits, waits[MT_MOST_STREAMS]; /* earlier events */
    int after;                          /* all events before this one must be done: a barrier */
};

struct replay {
    const struct mt_lowered *low;
    const struct mt_interp *begin; /* states before the first step */
    struct mt_comm *comm;
    struct mt_window *window; /* or null */
    int64_t *epochs;          /* [low->nregions] */
    enum timing timing;
    char *arena;
    struct event *events;
    int nevents;
    struct mt_clock clock;
    struct mt_err err;
    double loss;
    double **states; /* [graph values]: whole; this rank's boxes are written */
    pthread_t thread;
};

static inline void *replay_address(const struct replay *r, int lvalue) {
    return lvalue < 0 || r->low->values[lvalue].offset_bytes < 0 ? NULL
                                                                 : r->arena + r->low->values[lvalue].offset_bytes;
}

static inline void replay_operator(struct replay *r, const struct event *e) {
    const struct mt_linstr *l = &r->low->instrs[e->instr];
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
    for (int k = 0; k < l->nin + l->nout; k++) {
        tensors[k] = l->tensor[k];
        tensors[k].data = replay_address(r, k < l->nin ? l->in[k] : l->out[k - l->nin]);
        if (!mt_tensor_count(&tensors[k])) tensors[k].data = NULL;
    }
    for (int a = 0; a < l->nadvances; a++) {
        struct mt_tensor *t = &tensors[l->advances[a].operand];
        t->offset[l->advances[a].axis] += e->iteration * l->advances[a].offset;
        if (l->advances[a].bytes) t->data = (char *)t->data + e->iteration * l->advances[a].bytes;
    }
    struct mt_call call = mt_linstr_call(l, tensors);
    call.clock = &r->clock, call.scratch = replay_address(r, l->scratch);
    mt_backend_c.run(&call, &r->err);
}

static inline void replay_message(struct replay *r, const struct event *e) {
    const struct mt_linstr *l = &r->low->instrs[e->instr];
    struct mt_piece *pieces[2];
    for (int side = 0; side < 2; side++) {
        int n = side ? l->nunpack : l->npack;
        pieces[side] = malloc(((size_t)n + 1) * sizeof **pieces);
        for (int i = 0; i < n; i++) {
            pieces[side][i] = side ? l->unpack[i] : l->pack[i];
            pieces[side][i].data =
                r->arena + mt_linstr_piece_at(r->low, l, side, &pieces[side][i], (side ? l->unpack_of : l->pack_of)[i]);
        }
    }
    struct mt_coll_call call = {.problem = l->problem,
                                .schedule = l->schedule,
                                .comm = r->comm,
                                .group = l->group,
                                .deadline_s = 30,
                                .npack = l->npack,
                                .nunpack = l->nunpack,
                                .pack = pieces[0],
                                .unpack = pieces[1],
                                .zero = l->zero,
                                .what = l->name};
    struct mt_arena arena = MT_ARENA_INIT;
    for (int b = 0; b < 2; b++) {
        struct mt_piece *in_place = mt_arena_memdup(&arena, l->in_place[b], (size_t)l->nin_place[b] * sizeof *in_place);
        for (int i = 0; i < l->nin_place[b]; i++)
            in_place[i].data = r->arena + mt_linstr_piece_at(r->low, l, b, &in_place[i], l->in_place_of[b][i]);
        call.message[b] = replay_address(r, l->message[b]);
        call.message_count[b] = l->message_count[b];
        call.nin_place[b] = l->nin_place[b];
        call.in_place[b] = in_place;
    }
    mt_coll_call_locate(&call, r->arena, &arena);
    mt_cpu_coll(&call, &r->err);
    mt_arena_release(&arena);
    free(pieces[0]);
    free(pieces[1]);
}

static inline void replay_overlap(struct replay *r, const struct event *e) {
    const struct mt_linstr *l = &r->low->instrs[e->instr];
    const struct mt_loverlap *o = l->overlap;
    struct mt_overlap_call call = {.problem = &o->problem,
                                   .schedule = o->schedule,
                                   .window = r->window,
                                   .base = o->window_at,
                                   .epoch = &r->epochs[o->region],
                                   .operands = {.a = replay_address(r, l->in[0]),
                                                .b = replay_address(r, l->in[1]),
                                                .trans_a = o->trans_a,
                                                .trans_b = o->trans_b,
                                                .trans_out = o->trans_out,
                                                .whole = replay_address(r, mt_linstr_whole(l)),
                                                .out = replay_address(r, l->out[0]),
                                                .epilogue = l->attr.epilogue,
                                                .extra = replay_address(r, mt_linstr_extra(l)),
                                                .pre = replay_address(r, mt_linstr_pre(l)),
                                                .matmul = &mt_backend_c,
                                                .ops = &mt_backend_c,
                                                .scratch = replay_address(r, l->scratch),
                                                .ranks = l->group,
                                                .what = l->name}};
    mt_overlap_call_run(&call, &r->err);
}

/* ---- the order ---- */

static inline void add_events(struct replay *r, enum mt_block_kind block, int64_t iteration, bool work, int after) {
    for (int i = r->low->block_begin[block]; i < r->low->block_begin[block + 1]; i++) {
        struct event e = {.instr = i, .iteration = iteration, .work = work, .after = after};
        if (r->low->instrs[i].what == MT_LOWERED_ALIAS) continue;
        for (int w = 0; w < r->low->instrs[i].nwaits; w++)
            for (int p = r->nevents - 1; p >= 0; p--) /* its last run */
                if (r->events[p].instr == r->low->instrs[i].waits[w]) {
                    e.waits[e.nwaits++] = p;
                    break;
                }
        r->events[r->nevents++] = e;
    }
}

static inline void list_events(struct replay *r) {
    int64_t count = r->low->body_count;
    int after = 0;
    r->nevents = 0;
    for (int64_t i = 0; i < (count ? count : 1); i++) {
        if (i == 0) add_events(r, MT_PROLOGUE, 0, true, 0);
        add_events(r, MT_BODY, i, count > 0, after);
        if (r->low->body_barrier) after = r->nevents;
    }
    add_events(r, MT_LAST, 0, true, after);
    add_events(r, MT_EPILOGUE, 0, true, after);
}

/* The next event of a stream, if it may run now; -1 if not, -2 if the stream has no more. */
static inline int next_event(const struct replay *r, int stream) {
    for (int i = 0; i < r->nevents; i++) {
        const struct event *e = &r->events[i];
        if (e->done || r->low->instrs[e->instr].stream != stream) continue;
        for (int w = 0; w < e->nwaits; w++)
            if (!r->events[e->waits[w]].done) return -1;
        for (int p = 0; p < e->after; p++)
            if (!r->events[p].done) return -1;
        return i;
    }
    return -2;
}

static inline void replay_step(struct replay *r) {
    list_events(r);
    for (int turn = 0;; turn++) {
        int n = r->low->nstreams,
            first = r->timing == COMM_AHEAD ? n - 1
                    : r->timing == IN_TURN  ? turn % n
                                            : 0,
            at = -1;
        for (int k = 0; k < n && at < 0; k++) at = next_event(r, r->timing == COMM_AHEAD ? first - k : (first + k) % n);
        if (at < 0) break;
        struct event *e = &r->events[at];
        e->done = true;
        if (!e->work || r->err.status) continue;
        if (r->low->instrs[e->instr].what == MT_LOWERED_OP)
            replay_operator(r, e);
        else if (r->low->instrs[e->instr].what == MT_LOWERED_OVERLAP)
            replay_overlap(r, e);
        else
            replay_message(r, e);
    }
    for (int s = 0; s < r->low->nstreams; s++)
        CHECK(next_event(r, s) == -2, "the streams do not wait for each other for ever");
}

/* ---- states and inputs ---- */

/* Copy this rank's box between memory and a whole value, both doubles. */
static inline void move_state(const struct mt_tensor *t, double *box, double *whole, bool in) {
    for (int64_t i = 0; i < mt_tensor_count(t); i++) {
        int64_t rest = i, place = 0, stride = 1;
        for (int a = t->naxes - 1; a >= 0; a--) {
            place += (t->offset[a] + rest % t->extent[a]) * stride;
            rest /= t->extent[a];
            stride *= t->global[a];
        }
        if (in)
            box[i] = whole[place];
        else
            whole[place] = box[i];
    }
}

static inline void move_states(struct replay *r, bool in) {
    const struct mt_graph *g = r->low->program->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (r->low->state_at[v] < 0) continue;
        struct mt_tensor t = r->low->values[r->low->state_at[v]].tensor;
        move_state(&t, replay_address(r, r->low->state_at[v]), r->states[v], in);
    }
}

static inline void feed_replay(struct replay *r) {
    const struct mt_program *p = r->low->program;
    for (int i = 0; i < r->low->ninputs; i++) {
        const struct mt_linput *input = &r->low->inputs[i];
        const struct mt_tensor *t = &r->low->values[input->value].tensor;
        int32_t *ids = input_ids(p->graph, input->gvalue), *to = replay_address(r, input->value);
        int64_t whole = mt_value_count(p->graph, input->gvalue), count = 1;
        if (input->rows) whole /= p->graph->labels[p->graph->batch].extent;
        for (int a = input->rows != NULL; a < t->naxes; a++) count *= t->extent[a];
        for (int64_t row = 0; row < (input->rows ? input->nrows : 1); row++)
            for (int64_t e = 0; e < count; e++) {
                int64_t rest = e, place = 0, stride = 1;
                for (int a = t->naxes - 1; a >= (input->rows != NULL); a--) {
                    place += (t->offset[a] + rest % t->extent[a]) * stride;
                    rest /= t->extent[a];
                    stride *= t->global[a];
                }
                *to++ = ids[(input->rows ? input->rows[row] : 0) * whole + place];
            }
        free(ids);
    }
}

static inline void *replay_thread(void *argument) {
    struct replay *r = argument;
    omp_set_num_threads(1);
    r->arena = aligned_alloc(64, (size_t)r->low->arena_bytes / 64 * 64 + 128);
    r->events = malloc(((size_t)r->low->ninstrs * (size_t)(r->low->body_count + 2) + 1) * sizeof *r->events);
    r->err = (struct mt_err)MT_ERR_INIT;
    r->epochs = calloc((size_t)r->low->nregions + 1, sizeof *r->epochs);
    r->clock = (struct mt_clock){.seed = SEED, .lr = 0.01};
    memset(r->arena, 0xff, (size_t)r->low->arena_bytes);
    move_states(r, true);
    for (r->clock.step = 1; r->clock.step <= STEPS && !r->err.status; r->clock.step++) {
        memset(r->arena + r->low->state_bytes, 0xff, (size_t)(r->low->arena_bytes - r->low->state_bytes));
        feed_replay(r);
        replay_step(r);
    }
    int loss = r->low->output_at[r->low->program->graph->loss_sum];
    r->loss = loss >= 0 ? *(double *)replay_address(r, loss) : NAN;
    move_states(r, false);
    free(r->arena);
    free(r->events);
    free(r->epochs);
    return NULL;
}

/* Run all ranks from the initial states; the largest relative difference of a state or the loss from `want`; infinite
 * after an error. Every state is compared as each rank has it. */
static inline double replay_difference(const struct mt_program *p, struct mt_lowered *const *lowered,
                                       enum timing timing, struct mt_interp *want, double loss, double *const *begin) {
    const struct mt_graph *g = p->graph;
    struct replay ranks[8];
    struct mt_comm *comms[8];
    struct mt_window *windows[8] = {NULL};
    double worst = 0;
    mt_comm_local_new(p->nranks, comms);
    if (lowered[0]->window_bytes) mt_window_local_new(p->nranks, lowered[0]->window_bytes, 30, windows);
    for (int r = 0; r < p->nranks; r++) {
        ranks[r] = (struct replay){.low = lowered[r], .comm = comms[r], .window = windows[r], .timing = timing};
        ranks[r].states = calloc((size_t)g->nvalues, sizeof(double *));
        for (int v = 0; v < g->nvalues; v++) {
            if (g->values[v].kind != MT_VALUE_STATE) continue;
            ranks[r].states[v] = malloc((size_t)mt_value_count(g, v) * sizeof(double));
            memcpy(ranks[r].states[v], begin[v], (size_t)mt_value_count(g, v) * sizeof(double));
        }
        CHECK_EQ(pthread_create(&ranks[r].thread, NULL, replay_thread, &ranks[r]), 0);
    }
    for (int r = 0; r < p->nranks; r++) pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < p->nranks; r++) {
        if (ranks[r].err.status || !(fabs(ranks[r].loss - loss) <= 1e-10 * fabs(loss))) worst = INFINITY;
        for (int v = 0; v < g->nvalues; v++) {
            int at = lowered[r]->state_at[v];
            if (!ranks[r].states[v]) continue;
            int64_t n = mt_value_count(g, v);
            double *truth = malloc((size_t)n * sizeof *truth), *box = malloc((size_t)n * sizeof *box), spread;
            mt_interp_get(want, v, truth, &spread);
            const struct mt_tensor *t = at >= 0 ? &lowered[r]->values[at].tensor : NULL;
            int64_t count = t ? mt_tensor_count(t) : 0;
            double norm = 0, difference = 0;
            if (t) move_state(t, box, ranks[r].states[v], true);
            for (int64_t i = 0; i < count; i++) norm += box[i] * box[i];
            double *mine = malloc((size_t)n * sizeof *mine);
            if (t) memcpy(mine, box, (size_t)count * sizeof *mine), move_state(t, box, truth, true);
            for (int64_t i = 0; i < count; i++) difference += (box[i] - mine[i]) * (box[i] - mine[i]);
            double relative = sqrt(difference) / (sqrt(norm) + 1e-3);
            if (!(relative <= worst)) worst = isnan(relative) ? INFINITY : relative;
            free(truth), free(box), free(mine);
            free(ranks[r].states[v]);
        }
        free(ranks[r].states);
        mt_comm_free(comms[r]);
        mt_window_free(windows[r]);
    }
    return worst;
}

#endif
