/* The recorded step against the prediction that it belongs to: the same step and busy times, streams in order, waits
 * that end with what they wait for, rendezvous that end for all together; live bytes against those counted from the
 * lowered program and the spans alone. */
#include "planner/predict/timeline.h"

#include "tests/planner/predict/unequal_programs.h"

enum { ROUNDS = 12 };

static const struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};

/* ---- spans ---- */

static double ended_at(const struct mt_timeline_class *c, int instr, double before_s) {
    double at_s = -INFINITY;
    for (int i = 0; i < c->nspans; i++)
        if (c->spans[i].instr == instr && !mt_span_waits(c->spans[i].kind) && c->spans[i].end_s <= before_s + 1e-12)
            at_s = fmax(at_s, c->spans[i].end_s);
    return at_s;
}

static void check_streams(const struct mt_timeline *t, const struct mt_timeline_class *c) {
    double end_s[MT_MOST_STREAMS];
    for (int s = 0; s < MT_MOST_STREAMS; s++) end_s[s] = -INFINITY;
    for (int i = 0; i < c->nspans; i++) {
        const struct mt_span *span = &c->spans[i];
        CHECK(span->end_s > span->start_s);
        CHECK(span->start_s >= end_s[span->stream] - 1e-12, "%g before %g", span->start_s, end_s[span->stream]);
        CHECK(span->start_s >= t->first_s - 1e-15 && span->end_s <= t->step_s + 1e-12);
        CHECK(span->instr >= 0 && span->instr < c->ninstrs && c->names[span->instr][0]);
        end_s[span->stream] = span->end_s;
        /* what takes no time has no span: then nothing is known of its end */
        double at_s =
            span->kind == MT_SPAN_WAIT && span->other >= 0 ? ended_at(c, span->other, span->end_s) : -INFINITY;
        if (isfinite(at_s))
            CHECK(at_s >= span->start_s - 1e-12, "waited for what had ended %g s before", span->start_s - at_s);
    }
}

static void check_sums(const struct mt_timeline *t, const struct mt_prediction *f) {
    for (int r = 0; r < f->nranks; r++) {
        const struct mt_timeline_class *c = &t->classes[t->class_of[r]];
        double compute_s = 0, comm_s = 0;
        for (int i = 0; i < c->nspans; i++) {
            double s = c->spans[i].end_s - c->spans[i].start_s;
            if (c->spans[i].kind == MT_SPAN_COMPUTE) compute_s += s;
            if (c->spans[i].stream == MT_STREAM_COMM && !mt_span_waits(c->spans[i].kind)) comm_s += s;
        }
        CHECK_NEAR(compute_s, f->ranks[r].compute_s, 1e-9 * t->step_s);
        CHECK_NEAR(comm_s, f->ranks[r].comm_s, 1e-9 * t->step_s);
        CHECK_EQ(c->arena_bytes, f->ranks[r].arena_bytes);
    }
}

/* ---- memory ---- */

struct use {
    double from_s, to_s;
    int64_t from, to;
};

/* When an instruction runs, over all its times; false: never for any time. */
static bool runs(const struct mt_timeline_class *c, int instr, double *from_s, double *to_s) {
    *from_s = INFINITY, *to_s = -INFINITY;
    for (int i = 0; i < c->nspans; i++)
        if (c->spans[i].instr == instr && c->spans[i].kind != MT_SPAN_WAIT && c->spans[i].kind != MT_SPAN_YIELD) {
            *from_s = fmin(*from_s, c->spans[i].start_s);
            *to_s = fmax(*to_s, c->spans[i].end_s);
        }
    return isfinite(*from_s);
}

static int by_from(const void *a, const void *b) {
    int64_t x = ((const struct use *)a)->from, y = ((const struct use *)b)->from;
    return (x > y) - (x < y);
}

/* Bytes that are live at a time, counted anew. */
static int64_t live_at(const struct use *uses, int n, int64_t state_bytes, double at_s) {
    int64_t bytes = state_bytes, end = state_bytes;
    for (int i = 0; i < n; i++) {
        if (!(uses[i].from_s < at_s && at_s < uses[i].to_s) || uses[i].to <= end) continue;
        bytes += uses[i].to - (uses[i].from > end ? uses[i].from : end);
        end = uses[i].to;
    }
    return bytes;
}

/* Where no body runs several times: each value from its first use to its last, parts with their wholes. */
static void check_memory(const struct mt_program *p, const struct mt_timeline *t, int class) {
    struct mt_err err = MT_ERR_INIT;
    const struct mt_timeline_class *c = &t->classes[class];
    struct mt_lowered *low;
    CHECK_OK(mt_lower(p, c->ranks[0], &options, &low, &err), err);
    CHECK(c->most_live_bytes <= c->arena_bytes && c->most_live_bytes >= c->state_bytes);
    if (low->body_count == 0) {
        struct use *uses = calloc((size_t)low->nvalues + 1, sizeof *uses);
        int *whole = calloc((size_t)low->nvalues + 1, sizeof *whole), checked = 0;
        for (int v = 0; v < low->nvalues; v++) whole[v] = v, uses[v] = (struct use){INFINITY, -INFINITY, 0, 0};
        for (int i = 0; i < low->ninstrs; i++) {
            const struct mt_linstr *k = &low->instrs[i];
            double from_s, to_s;
            if (k->what == MT_LOWERED_ALIAS) {
                whole[k->out[0]] = whole[k->in[0]];
                continue;
            }
            if (!runs(c, i, &from_s, &to_s)) continue; /* it takes no time */
            int more[] = {k->what == MT_LOWERED_OP ? k->scratch : k->message[0],
                          k->what == MT_LOWERED_OP ? -1 : k->message[1]};
            for (int o = 0; o < k->nin + k->nout + 2; o++) {
                int v = o < k->nin ? k->in[o] : o < k->nin + k->nout ? k->out[o - k->nin] : more[o - k->nin - k->nout];
                if (v < 0 || low->values[v].offset_bytes < low->state_bytes) continue;
                struct use *use = &uses[whole[v]];
                if (low->values[whole[v]].offset_bytes < low->state_bytes) continue;
                use->from_s = fmin(use->from_s, from_s), use->to_s = fmax(use->to_s, to_s);
                use->from = low->values[whole[v]].offset_bytes, use->to = use->from + low->values[whole[v]].size_bytes;
            }
        }
        for (int i = 0; i < low->ninputs; i++) uses[whole[low->inputs[i].value]].from_s = -INFINITY;
        qsort(uses, (size_t)low->nvalues, sizeof *uses, by_from);
        for (int i = 0; i + 1 < c->nmemory; i++) {
            double at_s = (c->memory[i].at_s + c->memory[i + 1].at_s) / 2;
            if (c->memory[i + 1].at_s - c->memory[i].at_s < 1e-12) continue;
            CHECK_EQ(c->memory[i].bytes, live_at(uses, low->nvalues, low->state_bytes, at_s));
            checked++;
        }
        CHECK(checked > 5, "%d", checked);
        free(uses), free(whole);
    }
    mt_lowered_free(low);
}

static void check_program(const struct mt_program *p, const struct mt_costs *costs) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_prediction plain, recorded;
    struct mt_timeline t;
    CHECK_OK(mt_predict(p, costs, &options, &plain, &err), err);
    CHECK_OK(mt_predict_timeline(p, costs, &options, &recorded, &t, &err), err);
    CHECK_NEAR(t.step_s, plain.step_s, 1e-9 * plain.step_s);
    CHECK_NEAR(recorded.step_s, plain.step_s, 1e-9 * plain.step_s);
    check_sums(&t, &plain);
    int nranks = 0;
    for (int c = 0; c < t.nclasses; c++) {
        nranks += t.classes[c].nranks;
        check_streams(&t, &t.classes[c]);
        check_memory(p, &t, c);
    }
    CHECK_EQ(nranks, p->nranks);
    mt_timeline_release(&t);
    mt_arena_release(&plain.arena);
    mt_arena_release(&recorded.arena);
}

int main(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    static const char *const model = "gpt2:layers=1,heads=2,embed=8,context=6,vocab=11,bias=1,tied=1";
    struct mt_graph *five = training_graph(model, 5, 0), *six = training_graph(model, 6, 0);
    printf("seed %d\n", SEED);
    for (int round = 0; round < ROUNDS; round++) {
        struct mt_program p;
        make_program(&arena, round % 5 == 4 ? six : five, round, &p);
        struct small_cluster *s = unequal_cluster(p.nranks);
        check_program(&p, &s->costs);
        mt_program_release(&p);
        free(s);
    }
    mt_graph_free(five);
    mt_graph_free(six);
    mt_arena_release(&arena);
    return 0;
}
