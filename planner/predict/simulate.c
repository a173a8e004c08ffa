/* Discrete-event simulation. Streams and collectives are tasks; a task's rate changes when another task of its rank
 * begins or ends. A heap holds the times at which tasks end: a task whose rate changes is pushed again, and its old
 * entry is ignored because its version is older. Cost: O(instructions * (log actors + members of collectives)). */
#include "planner/predict/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "planner/predict/record.h"

enum doing {
    IDLE,       /* the next item may not begin yet, or the step is done */
    LOCAL,      /* an operator, a copy; a collective's packing */
    YIELDING,   /* a collective's kernels wait for multiprocessors */
    RENDEZVOUS, /* packed, waits for the other ranks */
    TRANSFER,   /* the collective's task runs */
    UNPACKING,
};

struct task {
    double left_s, rate, since_s; /* left_s: at rate 1, as of since_s */
    int version;
    bool running;
};

struct stream {
    enum doing doing;
    int at;         /* the item */
    double since_s; /* doing that */
    struct task task;
};

struct actor {
    struct stream streams[MT_MOST_STREAMS];
    int step, phase;
    int *ended;          /* [instrs]: how often, in this step */
    int last_ended;      /* an instruction */
    double counted_s;    /* compute_s, comm_s and hidden_s are counted up to here */
    bool disturbs, done; /* disturbs: counted in `computing` of its collective */
};

struct rendezvous {
    struct task task;
    int here, computing; /* members that have arrived; during the transfer: members that compute */
    double first_s;      /* when the first member arrived */
};

struct event {
    double at_s;
    int task, version; /* task: actor * nstreams + stream; nactors * nstreams + rendezvous */
};

struct engine {
    struct mt_sim *sim;
    struct actor *actors;
    struct rendezvous *rendezvous;
    struct event *heap;
    size_t nheap, heap_capacity;
    double now_s, *ends_s;
    int nsteps, running; /* actors that are not done */
};

/* ---- the heap ---- */

static void push(struct engine *e, struct event event) {
    if (e->nheap == e->heap_capacity) {
        e->heap_capacity = e->heap_capacity ? 2 * e->heap_capacity : 1024;
        e->heap = mt_realloc(e->heap, e->heap_capacity * sizeof *e->heap);
    }
    size_t i = e->nheap++;
    for (; i > 0 && e->heap[(i - 1) / 2].at_s > event.at_s; i = (i - 1) / 2) e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = event;
}

static struct event pop(struct engine *e) {
    struct event top = e->heap[0], last = e->heap[--e->nheap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->nheap; i = child) {
        if (child + 1 < e->nheap && e->heap[child + 1].at_s < e->heap[child].at_s) child++;
        if (e->heap[child].at_s >= last.at_s) break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return top;
}

/* ---- tasks ---- */

static struct task *task_of(struct engine *e, int task) {
    int n = e->sim->nstreams, all = e->sim->nactors * n;
    return task < all ? &e->actors[task / n].streams[task % n].task : &e->rendezvous[task - all].task;
}

static void start_task(struct engine *e, int task, double s) {
    struct task *t = task_of(e, task);
    *t = (struct task){.left_s = s, .rate = 1, .since_s = e->now_s, .version = t->version + 1, .running = true};
    push(e, (struct event){e->now_s + s, task, t->version});
}

static void set_rate(struct engine *e, int task, double rate) {
    struct task *t = task_of(e, task);
    if (!t->running || t->rate == rate) return;
    /* an infinite rate times 0 s is not a number */
    double done_s = e->now_s > t->since_s ? (e->now_s - t->since_s) * t->rate : 0;
    t->left_s = fmax(t->left_s - done_s, 0);
    t->rate = rate;
    t->since_s = e->now_s;
    push(e, (struct event){e->now_s + t->left_s / rate, task, ++t->version});
}

/* ---- actors ---- */

static const struct mt_sim_item *item_at(const struct engine *e, int a, int s) {
    return &e->sim->actors[a].items[s][e->actors[a].streams[s].at];
}

/* The instruction whose end lets an item begin, as far as it waits for one. */
static int awaited(const struct actor *actor, const struct mt_sim_item *item) {
    for (int w = 0; w < item->nwaits; w++)
        if (item->waits[w].instr == actor->last_ended) return actor->last_ended;
    return item->nwaits ? item->waits[item->nwaits - 1].instr : -1;
}

/* What a stream did until now, in the last step, to the timeline. `last`: the actor that came last to a rendezvous. */
static void record_span(struct engine *e, int a, int s, int last) {
    static const enum mt_span_kind kinds[] = {[IDLE] = MT_SPAN_WAIT,         [LOCAL] = MT_SPAN_COMPUTE,
                                              [YIELDING] = MT_SPAN_YIELD,    [RENDEZVOUS] = MT_SPAN_RENDEZVOUS,
                                              [TRANSFER] = MT_SPAN_TRANSFER, [UNPACKING] = MT_SPAN_UNPACK};
    const struct stream *stream = &e->actors[a].streams[s];
    const struct mt_sim_item *item = item_at(e, a, s);
    struct mt_span span = {.kind = kinds[stream->doing],
                           .stream = s,
                           .instr = item->instr,
                           .other = stream->doing == IDLE ? awaited(&e->actors[a], item) : last,
                           .start_s = stream->since_s,
                           .end_s = e->now_s};
    if (span.kind == MT_SPAN_COMPUTE && s != MT_STREAM_COMPUTE) span.kind = MT_SPAN_PACK;
    if (span.end_s > span.start_s) mt_recording_span(e->sim->timeline, a, span);
}

static bool recorded(const struct engine *e, int a) {
    return e->sim->timeline && e->actors[a].step == e->nsteps - 1;
}

static void set_doing(struct engine *e, int a, int s, enum doing doing, int last) {
    struct stream *stream = &e->actors[a].streams[s];
    if (recorded(e, a)) record_span(e, a, s, last);
    stream->doing = doing;
    stream->since_s = e->now_s;
}

static void record_touch(struct engine *e, int a, int s, bool ends) {
    const struct mt_sim_item *item = item_at(e, a, s);
    if (recorded(e, a) && item->work) mt_recording_touch(e->sim->timeline, a, item->instr, ends, e->now_s);
}

static bool computes(const struct actor *actor) {
    enum doing doing = actor->streams[MT_STREAM_COMPUTE].doing;
    return doing != IDLE && doing != YIELDING && doing != RENDEZVOUS;
}

/* Whether some other stream copies, packs or unpacks. */
static bool copies(const struct engine *e, const struct actor *actor) {
    bool any = false;
    for (int s = MT_STREAM_COMM; s < e->sim->nstreams; s++)
        any |= actor->streams[s].doing == LOCAL || actor->streams[s].doing == UNPACKING;
    return any;
}

/* In the last step: add the time since counted_s to what the actor's streams were doing. */
static void count_time(struct engine *e, int a) {
    struct actor *actor = &e->actors[a];
    struct mt_sim_actor *figures = &e->sim->actors[a];
    double s = e->now_s - actor->counted_s;
    actor->counted_s = e->now_s;
    if (actor->done || actor->step < e->nsteps - 1 || s <= 0) return;
    bool compute = computes(actor);
    bool communicates = copies(e, actor) || actor->streams[MT_STREAM_COMM].doing == TRANSFER;
    if (compute) figures->compute_s += s;
    if (communicates) figures->comm_s += s;
    if (compute && communicates) figures->hidden_s += s;
}

static void update_rates(struct engine *e, int a) {
    struct actor *actor = &e->actors[a];
    const struct mt_sim_actor *figures = &e->sim->actors[a];
    double compute_rate = copies(e, actor) ? figures->copy_rate : 1;
    for (int s = MT_STREAM_COMM; s < e->sim->nstreams; s++) {
        enum doing doing = actor->streams[s].doing;
        double rate = 1;
        if ((doing == LOCAL || doing == UNPACKING) && computes(actor)) rate = figures->copy_rate;
        if (doing == YIELDING && !computes(actor)) rate = INFINITY;
        if (doing == TRANSFER || doing == RENDEZVOUS) {
            const struct mt_sim_rendezvous *m = &e->sim->rendezvous[item_at(e, a, s)->rendezvous];
            if (doing == TRANSFER || m->spins) compute_rate = fmin(compute_rate, 1 / (1 + m->compute_slowdown));
        }
        set_rate(e, a * e->sim->nstreams + s, rate);
    }
    set_rate(e, a * e->sim->nstreams + MT_STREAM_COMPUTE, compute_rate);
}

static void update_rendezvous(struct engine *e, int m) {
    double rate = e->rendezvous[m].computing ? 1 / (1 + e->sim->rendezvous[m].comm_slowdown) : 1;
    set_rate(e, e->sim->nactors * e->sim->nstreams + m, rate);
}

static bool drained(const struct engine *e, int a, int s, int phase) {
    const struct mt_sim_actor *figures = &e->sim->actors[a];
    const struct stream *stream = &e->actors[a].streams[s];
    return stream->at == figures->nitems[s] || figures->items[s][stream->at].phase > phase;
}

/* The host enqueues an iteration when the compute stream has drained the one before; with a barrier, all streams. */
static void open_phases(struct engine *e, int a) {
    const struct mt_sim_actor *figures = &e->sim->actors[a];
    struct actor *actor = &e->actors[a];
    for (; actor->phase < figures->nphases - 1; actor->phase++)
        for (int s = 0; s < (figures->body_barrier ? e->sim->nstreams : MT_STREAM_COMPUTE + 1); s++)
            if (!drained(e, a, s, actor->phase)) return;
}

/* Whether the item that a stream is at may begin. */
static bool may_begin(const struct engine *e, int a, int s) {
    const struct actor *actor = &e->actors[a];
    const struct mt_sim_actor *figures = &e->sim->actors[a];
    if (actor->done || actor->streams[s].doing != IDLE || actor->streams[s].at == figures->nitems[s]) return false;
    const struct mt_sim_item *item = item_at(e, a, s);
    if (item->phase > actor->phase) return false;
    for (int w = 0; w < item->nwaits; w++)
        if (actor->ended[item->waits[w].instr] < item->waits[w].times) return false;
    return true;
}

static void arrive(struct engine *e, int a, int s) {
    int m = item_at(e, a, s)->rendezvous;
    const struct mt_sim_rendezvous *figures = &e->sim->rendezvous[m];
    struct rendezvous *rendezvous = &e->rendezvous[m];
    set_doing(e, a, s, RENDEZVOUS, -1);
    if (++rendezvous->here == 1) rendezvous->first_s = e->now_s;
    if (rendezvous->here < figures->nmembers) return;
    rendezvous->here = rendezvous->computing = 0;
    bool waiting_computes = false;
    for (int i = 0; i < figures->nmembers; i++) {
        count_time(e, figures->members[i]);
        struct actor *member = &e->actors[figures->members[i]];
        waiting_computes |= member->streams[s].since_s < e->now_s && computes(member);
        set_doing(e, figures->members[i], figures->stream, TRANSFER, a);
        member->disturbs = figures->stream != MT_STREAM_COMPUTE && computes(member);
        rendezvous->computing += member->disturbs;
    }
    double asleep_s = figures->naps ? 0.5 * mt_comm_backoff_s(e->now_s - rendezvous->first_s, waiting_computes) : 0;
    start_task(e, e->sim->nactors * e->sim->nstreams + m, asleep_s + figures->alone_s);
    update_rendezvous(e, m);
    for (int i = 0; i < figures->nmembers; i++) update_rates(e, figures->members[i]);
}

static void end_item(struct engine *e, int a, int s) {
    struct actor *actor = &e->actors[a];
    struct stream *stream = &actor->streams[s];
    const struct mt_sim_item *item = item_at(e, a, s);
    set_doing(e, a, s, IDLE, -1);
    record_touch(e, a, s, true);
    stream->at++;
    actor->ended[item->instr]++;
    actor->last_ended = item->instr;
}

static void begin_step(struct engine *e, int a) {
    struct actor *actor = &e->actors[a];
    for (int i = 0; i < e->sim->actors[a].ninstrs; i++) actor->ended[i] = 0;
    actor->phase = 0;
    for (int s = 0; s < e->sim->nstreams; s++) actor->streams[s].at = 0, actor->streams[s].since_s = e->now_s;
}

/* Begin the next step if all streams have ended this one. Whether it was begun. */
static bool next_step(struct engine *e, int a) {
    struct actor *actor = &e->actors[a];
    for (int s = 0; s < e->sim->nstreams; s++)
        if (actor->done || actor->streams[s].doing != IDLE || actor->streams[s].at < e->sim->actors[a].nitems[s])
            return false;
    e->ends_s[actor->step] = fmax(e->ends_s[actor->step], e->now_s);
    if (++actor->step == e->nsteps) {
        actor->done = true;
        e->running--;
        return false;
    }
    begin_step(e, a);
    return true;
}

static void begin_work(struct engine *e, int a, int s) {
    const struct mt_sim_item *item = item_at(e, a, s);
    set_doing(e, a, s, LOCAL, -1);
    record_touch(e, a, s, false);
    if (item->own_s > 0)
        start_task(e, a * e->sim->nstreams + s, item->own_s);
    else if (item->rendezvous >= 0)
        arrive(e, a, s);
    else
        end_item(e, a, s);
}

/* Each kernel of a collective waits for multiprocessors; simulated as one wait at the beginning. */
static double yields_s(const struct engine *e, int a, int s) {
    const struct mt_sim_item *item = item_at(e, a, s);
    return s != MT_STREAM_COMPUTE && item->rendezvous >= 0 && computes(&e->actors[a])
               ? item->kernels * e->sim->actors[a].yield_s
               : 0;
}

/* Begin all items that may begin; those that take no time end at once. */
static void begin_all(struct engine *e, int a) {
    bool changed = true;
    while (changed) {
        changed = false;
        open_phases(e, a);
        for (int s = 0; s < e->sim->nstreams; s++) {
            if (!may_begin(e, a, s)) continue;
            double wait_s = yields_s(e, a, s);
            changed = true;
            if (wait_s > 0) {
                set_doing(e, a, s, YIELDING, -1);
                start_task(e, a * e->sim->nstreams + s, wait_s);
            } else {
                begin_work(e, a, s);
            }
        }
        changed |= next_step(e, a);
    }
}

/* After an event of the actor. */
static void go_on(struct engine *e, int a) {
    struct actor *actor = &e->actors[a];
    begin_all(e, a);
    update_rates(e, a);
    if (actor->streams[MT_STREAM_COMM].doing != TRANSFER || actor->disturbs == computes(actor)) return;
    int m = item_at(e, a, MT_STREAM_COMM)->rendezvous;
    actor->disturbs = !actor->disturbs;
    e->rendezvous[m].computing += actor->disturbs ? 1 : -1;
    update_rendezvous(e, m);
}

/* ---- events ---- */

static void end_local(struct engine *e, int a, int s) {
    struct stream *stream = &e->actors[a].streams[s];
    count_time(e, a);
    stream->task.running = false;
    if (stream->doing == YIELDING)
        begin_work(e, a, s);
    else if (item_at(e, a, s)->rendezvous >= 0 && stream->doing == LOCAL)
        arrive(e, a, s);
    else
        end_item(e, a, s);
    go_on(e, a);
}

static void end_rendezvous(struct engine *e, int m) {
    const struct mt_sim_rendezvous *figures = &e->sim->rendezvous[m];
    e->rendezvous[m].task.running = false;
    for (int i = 0; i < figures->nmembers; i++) {
        int a = figures->members[i];
        const struct mt_sim_item *item = item_at(e, a, figures->stream);
        count_time(e, a);
        set_doing(e, a, figures->stream, UNPACKING, -1);
        if (item->unpack_s > 0)
            start_task(e, a * e->sim->nstreams + figures->stream, item->unpack_s);
        else
            end_item(e, a, figures->stream);
    }
    for (int i = 0; i < figures->nmembers; i++) go_on(e, figures->members[i]);
}

enum mt_status mt_sim_run(struct mt_sim *sim, int nsteps, double *ends_s, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct engine e = {.sim = sim,
                       .actors = mt_new(&arena, struct actor, sim->nactors),
                       .rendezvous = mt_new(&arena, struct rendezvous, sim->nrendezvous),
                       .ends_s = ends_s,
                       .nsteps = nsteps,
                       .running = sim->nactors};
    for (int i = 0; i < nsteps; i++) ends_s[i] = 0;
    for (int a = 0; a < sim->nactors; a++) {
        e.actors[a].ended = mt_new(&arena, int, sim->actors[a].ninstrs);
        begin_step(&e, a);
    }
    for (int a = 0; a < sim->nactors; a++) go_on(&e, a);
    while (e.nheap > 0) {
        struct event event = pop(&e);
        const struct task *task = task_of(&e, event.task);
        if (!task->running || task->version != event.version) continue;
        e.now_s = event.at_s;
        int all = sim->nactors * sim->nstreams;
        if (event.task < all)
            end_local(&e, event.task / sim->nstreams, event.task % sim->nstreams);
        else
            end_rendezvous(&e, event.task - all);
    }
    free(e.heap);
    mt_arena_release(&arena);
    if (!e.running) return MT_OK;
    return mt_fail(err, MT_EBUG, "%d classes of ranks wait for each other in a circle", e.running);
}
