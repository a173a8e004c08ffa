/* One conversion between two random layouts, lowered with little memory for messages and run by threads in this
 * process: every element of the new layout is compared with the layouts' definition, and messages are as small as
 * promised. */
#ifndef MT_TESTS_SYNTH_RESHARD_H
#define MT_TESTS_SYNTH_RESHARD_H

#include "synth/check/check.h"
#include "tests/synth/parts.h"
#include "tests/synth/replay.h"

enum { RESHARD_RANKS = 6 };

struct reshard {
    struct mt_graph *graph;
    struct mt_program program;
    int in, by, out;
    enum mt_conversion conversion;
    struct mt_lowered *lowered[RESHARD_RANKS];
    char what[1024];
};

/* Extents whose product is at most `elements`, and close to it. */
static inline int random_extents(struct dice *dice, int64_t elements, int64_t *extent) {
    int naxes = 1 + (int)roll(dice, 3);
    for (int a = 0; a < naxes; a++) extent[a] = 1;
    for (int a = 0; a + 1 < naxes; a++) {
        int64_t most = roll(dice, 2) ? 40 : 1500;
        extent[a] = 1 + roll(dice, elements < most ? elements : most);
        elements /= extent[a];
    }
    int64_t last = extent[naxes - 1] = elements;
    int swap = (int)roll(dice, naxes);
    extent[naxes - 1] = extent[swap];
    extent[swap] = last;
    return naxes;
}

/* Two states of one shape: the source and the destination. */
static inline void reshard_program(struct reshard *r, int nranks, int naxes, const int64_t *extent, enum mt_type type) {
    static const char *const names[] = {"a", "b", "c"};
    struct mt_err err = MT_ERR_INIT;
    int labels[3];
    *r = (struct reshard){.graph = mt_graph_new(MT_F32)};
    for (int a = 0; a < naxes; a++) CHECK_OK(mt_graph_label(r->graph, names[a], extent[a], 1, &labels[a], &err), err);
    mt_graph_value(r->graph, "x", MT_VALUE_STATE, type, naxes, labels);
    mt_graph_value(r->graph, "y", MT_VALUE_STATE, type, naxes, labels);
    mt_program_init(&r->program, r->graph, nranks);
}

/* Add a conversion of `value`; returns the new value, or -1 where it is none of a collective. */
static inline int reshard_convert(struct reshard *r, int value, int to) {
    struct mt_program *p = &r->program;
    int from = p->values[value].layout, group[RESHARD_RANKS];
    enum mt_type type = r->graph->values[0].type;
    r->conversion = mt_layout_groups(&p->layouts, from, to, group);
    if (r->conversion <= MT_CONVERT_SLICE) return -1;
    bool sums = mt_coll_reduces(mt_conversion_coll[r->conversion]);
    int out = mt_program_value(p, 1, to, type, MT_LAST);
    struct mt_instr instr = {.kind = MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = 1,
                             .nout = 1,
                             .in = &value,
                             .out = &out,
                             .coll = mt_conversion_coll[r->conversion],
                             .wire = sums ? MT_F32 : type,
                             .acc = sums ? MT_F32 : type,
                             .reduce = p->layouts.items[from].reduce,
                             .group = group,
                             .algorithm = "auto"};
    mt_program_add(p, MT_LAST, &instr);
    return out;
}

static inline int reshard_state(struct reshard *r, int gvalue, int layout) {
    int v = mt_program_value(&r->program, gvalue, layout, r->graph->values[gvalue].type, MT_PROLOGUE);
    r->program.values[v].input = true;
    return v;
}

/* From one layout to another, perhaps by way of a third (-1: none). False where a conversion needs no collective. */
static inline bool reshard_between(struct reshard *r, int from, int by, int to) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layouts *layouts = &r->program.layouts;
    int value = r->in = reshard_state(r, 0, from), y = reshard_state(r, 1, to);
    if (by >= 0) value = r->by = reshard_convert(r, value, by);
    if (value >= 0) value = reshard_convert(r, value, to);
    if (value < 0) return false;
    r->out = r->program.values[y].next = value;
    snprintf(r->what, sizeof r->what, "%s: %s -> %s", conversion_names[r->conversion],
             mt_layout_text(layouts, from, &arena), mt_layout_text(layouts, to, &arena));
    mt_arena_release(&arena);
    return true;
}

/* A random pair of layouts of a value of about `bytes`, for which a collective is needed. */
static inline void reshard_random(struct dice *dice, struct reshard *r, int nranks, int64_t bytes) {
    do {
        int64_t extent[3];
        enum mt_reduce reduce = roll(dice, 3) ? MT_SUM : MT_MAX, other = roll(dice, 5) ? reduce : MT_SUM;
        int naxes = random_extents(dice, bytes / 4, extent);
        reshard_program(r, nranks, naxes, extent, MT_F32);
        int from = random_layout(dice, &r->program.layouts, naxes, extent, reduce);
        int to = random_layout(dice, &r->program.layouts, naxes, extent, other);
        if (reshard_between(r, from, -1, to)) return;
        mt_program_release(&r->program);
        mt_graph_free(r->graph);
    } while (true);
}

static inline void reshard_lower(struct reshard *r, int64_t staging_bytes) {
    struct mt_err err = MT_ERR_INIT;
    r->program.staging_bytes = staging_bytes;
    for (int rank = 0; rank < r->program.nranks; rank++)
        CHECK_OK(mt_lower(&r->program, rank, &(struct mt_lower_options){.latency_s = 1e-5, .bandwidth_Bps = 1e9},
                          &r->lowered[rank], &err),
                 err);
}

static inline void reshard_release(struct reshard *r) {
    for (int rank = 0; rank < r->program.nranks; rank++) mt_lowered_free(r->lowered[rank]);
    mt_program_release(&r->program);
    mt_graph_free(r->graph);
}

/* What a rank's memory has besides the states: the value in its two layouts. */
static inline int64_t reshard_staging(const struct reshard *r, int rank) {
    return r->lowered[rank]->arena_bytes - r->lowered[rank]->state_bytes;
}

static inline void *reshard_thread(void *argument) {
    struct replay *r = argument;
    list_events(r);
    for (int i = 0; i < r->nevents; i++) {
        CHECK(r->low->instrs[r->events[i].instr].what != MT_LOWERED_OP, "conversions compute nothing");
        if (!r->err.status) replay_message(r, &r->events[i]);
    }
    return NULL;
}

/* Give an interpreter what the ranks have. */
static inline void reshard_install(struct mt_interp *interp, const struct reshard *r, struct replay *ranks) {
    for (int rank = 0; rank < r->program.nranks; rank++) {
        int64_t size = r->lowered[rank]->values[r->out].size_bytes;
        void *buffer = mt_interp_alloc(&r->program, r->out, rank);
        if (size) memcpy(buffer, replay_address(&ranks[rank], r->out), (size_t)size);
        mt_interp_install(interp, r->out, rank, buffer);
    }
}

/* Run on random whole numbers, which are exact in any order, and compare with the definition of layouts. */
static inline void reshard_run(struct dice *dice, struct reshard *r) {
    struct replay ranks[RESHARD_RANKS];
    struct mt_comm *comms[RESHARD_RANKS];
    const int nranks = r->program.nranks;
    const int64_t count = value_count(mt_pvalue_layout(&r->program, r->in));
    double *truth = malloc((size_t)count * sizeof *truth);
    for (int64_t e = 0; e < count; e++) truth[e] = (double)(roll(dice, 201) - 100);
    struct mt_interp *interp = mt_interp_new(&r->program);
    feed_value(dice, interp, r->in, truth);
    mt_comm_local_new(nranks, comms);
    for (int rank = 0; rank < nranks; rank++) {
        const struct mt_lowered *low = r->lowered[rank];
        ranks[rank] = (struct replay){.low = low, .comm = comms[rank], .err = MT_ERR_INIT};
        ranks[rank].arena = aligned_alloc(64, (size_t)low->arena_bytes / 64 * 64 + 128);
        ranks[rank].events = malloc(((size_t)low->ninstrs + 1) * sizeof *ranks[rank].events);
        memset(ranks[rank].arena, 0xff, (size_t)low->arena_bytes);
        if (low->values[r->in].size_bytes)
            memcpy(replay_address(&ranks[rank], r->in), *mt_interp_buffer(interp, r->in, rank),
                   (size_t)low->values[r->in].size_bytes);
        CHECK_EQ(pthread_create(&ranks[rank].thread, NULL, reshard_thread, &ranks[rank]), 0);
    }
    for (int rank = 0; rank < nranks; rank++) pthread_join(ranks[rank].thread, NULL);
    for (int rank = 0; rank < nranks; rank++) CHECK_OK(ranks[rank].err.status, ranks[rank].err);
    reshard_install(interp, r, ranks);
    check_value(interp, r->out, truth, 0, r->what);
    for (int rank = 0; rank < nranks; rank++) {
        mt_comm_free(comms[rank]);
        free(ranks[rank].arena);
        free(ranks[rank].events);
    }
    mt_interp_free(interp);
    free(truth);
}

/* The whole test of one random pair: proof, values, memory. Returns the number of chunks. */
static inline int reshard_test(struct dice *dice, int nranks, int64_t bytes, int64_t staging_bytes,
                               enum mt_conversion *conversion) {
    struct reshard r;
    struct mt_err err = MT_ERR_INIT;
    reshard_random(dice, &r, nranks, bytes);
    reshard_lower(&r, staging_bytes);
    CHECK_OK(mt_check_lowered(&r.program, (const struct mt_lowered *const *)r.lowered,
                              &(struct mt_lower_options){.latency_s = 1e-5}, NULL, &err),
             err);
    reshard_run(dice, &r);
    for (int rank = 0; rank < nranks; rank++)
        CHECK(reshard_staging(&r, rank) <= staging_bytes, "%s: rank %d stages %lld bytes", r.what, rank,
              (long long)reshard_staging(&r, rank));
    int chunks = r.lowered[0]->ninstrs;
    *conversion = r.conversion;
    reshard_release(&r);
    return chunks;
}

#endif
