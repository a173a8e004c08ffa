/* States in random layouts are saved, and loaded in other layouts, by another number of ranks, in another precision:
 * every element must be what its global index says. ranks: 1 2 3 5 */
#include <mpi.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/number/hash.h"
#include "launcher/checkpoint/checkpoint.h"
#include "tests/check.h"
#include "tests/synth/layout/random_layout.h"
#include "synth/ops/ops.h"

/* Under sanitizers a round takes long: one of each precision. */
#ifdef MOTLEY_SANITIZE
enum { ROUNDS = 2 };
#else
enum { ROUNDS = 4 };
#endif
enum { NSTATES = 7, SEED = 20261121 };

static int rank, n;
static char folder[64] = "motley-states-XXXXXX";

/* A graph with nothing but states: two parameters with grouped axes, their optimizer states, a vector, a scalar. */
static struct mt_graph *make_graph(enum mt_type type) {
    static const struct {
        const char *name, *axes;
        int owner;
    } states[NSTATES] = {{"wte.weight", "vocab,embed", -1}, {"h.0.attn.weight", "embed,three heads size", -1},
                         {"m.wte.weight", "", 0},           {"m.h.0.attn.weight", "", 1},
                         {"ln.weight", "embed", -1},        {"gain", "", -1},
                         {"large", "large,embed", -1}};
    struct mt_graph *g = mt_graph_new(type);
    struct mt_err err = MT_ERR_INIT;
    int label, ids[NSTATES];
    CHECK_OK(mt_graph_label(g, "vocab", 37, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "embed", 20, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "three", 3, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "heads", 5, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "size", 4, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "large", 53000, 1, &label, &err), err); /* more than a piece */
    for (int s = 0; s < NSTATES; s++) {
        if (states[s].owner < 0) {
            mt_graph_param(g, states[s].name, states[s].axes, MT_INIT_ZERO, 0);
            ids[s] = mt_graph_find_value(g, states[s].name);
            continue;
        }
        struct mt_value owner = g->values[ids[states[s].owner]];
        ids[s] = mt_graph_value(g, states[s].name, MT_VALUE_STATE, g->acc, owner.naxes, owner.label);
        g->values[ids[s]].owner = ids[states[s].owner];
    }
    return g;
}

/* A program that holds the graph's states, each in a random layout of one part. */
static void make_program(struct dice *dice, const struct mt_graph *g, int nranks, struct mt_program *p) {
    mt_program_init(p, g, nranks);
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        int64_t extent[MT_MAX_AXES];
        for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
        int layout;
        do layout = random_layout(dice, &p->layouts, g->values[v].naxes, extent, MT_SUM);
        while (p->layouts.items[layout].nparts > 1);
        int value = mt_program_value(p, v, layout, g->values[v].type, MT_PROLOGUE);
        p->values[value].input = true;
    }
}

struct memory { /* one rank's boxes */
    const struct mt_program *program;
    void *box[64];
};

static enum mt_status get(void *context, int gvalue, int64_t at, int64_t size_bytes, void *to, struct mt_err *err) {
    (void)err;
    memcpy(to, (char *)((struct memory *)context)->box[gvalue] + at, (size_t)size_bytes);
    return MT_OK;
}

static enum mt_status set(void *context, int gvalue, int64_t at, int64_t size_bytes, const void *from,
                          struct mt_err *err) {
    (void)err;
    memcpy((char *)((struct memory *)context)->box[gvalue] + at, from, (size_t)size_bytes);
    return MT_OK;
}

static enum mt_status refuse(void *context, int gvalue, int64_t at, int64_t size_bytes, void *to, struct mt_err *err) {
    (void)gvalue, (void)at;
    memset(to, 0, (size_t)size_bytes);
    return *(int *)context == rank ? mt_fail(err, MT_ESYSTEM, "no copy from the device") : MT_OK;
}

/* What an element must be: exact in every type that is used. */
static double element(const char *name, int64_t index, int salt) {
    int64_t key = (int64_t)(mt_hash64(name, strlen(name), 0) % 4099);
    return (double)((index * 31 + key + salt) % 4096) / 64;
}

/* Visit this rank's boxes, of parameters or of other states: fill them, or compare. */
static void visit_some(struct memory *memory, int salt, bool fill, bool params) {
    const struct mt_program *p = memory->program;
    for (int i = 0; i < p->nvalues; i++) {
        const struct mt_value *v = &p->graph->values[p->values[i].gvalue];
        if ((v->owner < 0) != params) continue;
        const struct mt_box *box = mt_pvalue_box(p, i, rank);
        int64_t count = mt_box_count(box, v->naxes), at[MT_MAX_AXES];
        void **data = &memory->box[p->values[i].gvalue];
        if (!*data) *data = mt_calloc((size_t)count + 1, 8);
        memcpy(at, box->lo, sizeof at);
        for (int64_t e = 0; e < count; e++) {
            int64_t index = 0;
            for (int a = 0; a < v->naxes; a++)
                index = index * mt_value_extent(p->graph, p->values[i].gvalue, a) + at[a];
            double want = element(v->name, index, salt);
            if (fill)
                mt_type_store(v->type, *data, e, want);
            else
                CHECK_NEAR(mt_type_load(v->type, *data, e), want, 0);
            for (int a = v->naxes - 1; a >= 0 && ++at[a] == box->hi[a]; a--) at[a] = box->lo[a];
        }
    }
}

static void visit(struct memory *memory, int salt, bool fill) {
    visit_some(memory, salt, fill, true);
    visit_some(memory, salt, fill, false);
}

static void release(struct memory *memory) {
    for (int i = 0; i < 64; i++) free(memory->box[i]);
    *memory = (struct memory){0};
}

static enum mt_status save(const struct mt_program *p, struct memory *memory, const char *path, struct mt_err *err) {
    struct mt_checkpoint_about about = {3, 24, 7, "test", "{}", "0", "1"};
    struct mt_states states;
    mt_states_init(&states, MPI_COMM_WORLD, p, (struct mt_state_memory){memory, get, set});
    return mt_checkpoint_save(&states, path, &about, err);
}

/* Load into new boxes under `p` over the ranks of `comm`. */
static enum mt_status load(MPI_Comm comm, const struct mt_program *p, struct memory *memory, const char *path,
                           enum mt_load what, struct mt_err *err) {
    struct mt_safetensors *file = NULL;
    if (!rank) CHECK_OK(mt_checkpoint_open_pair(path, &file, err), *err);
    memory->program = p;
    visit(memory, 999, true);
    struct mt_states states;
    mt_states_init(&states, comm, p, (struct mt_state_memory){memory, get, set});
    enum mt_status st = mt_checkpoint_load(&states, file, what, err);
    mt_safetensors_close(file);
    return st;
}

/* Layouts of round `round`; loaded by all ranks, and by rank 0 alone as another precision. */
static void test_round(int round) {
    struct dice dice = {SEED + (uint64_t)round, 0};
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = make_graph(round % 2 ? MT_F64 : MT_F32), *other = make_graph(round % 2 ? MT_BF16 : MT_F64);
    struct mt_program from, to, alone;
    make_program(&dice, g, n, &from);
    make_program(&dice, g, n, &to);
    make_program(&dice, other, 1, &alone);
    struct memory memory = {.program = &from};
    char path[128];
    snprintf(path, sizeof path, "%s/step-%08d.safetensors", folder, round);
    visit(&memory, round, true);
    CHECK_OK(save(&from, &memory, path, &err), err);
    visit(&memory, round, false);
    release(&memory);
    CHECK_OK(load(MPI_COMM_WORLD, &to, &memory, path, MT_LOAD_ALL, &err), err);
    visit(&memory, round, false);
    release(&memory);
    if (!rank) {
        CHECK_OK(load(MPI_COMM_SELF, &alone, &memory, path, MT_LOAD_ALL, &err), err);
        visit(&memory, round, false);
        release(&memory);
    }
    mt_program_release(&from);
    mt_program_release(&to);
    mt_program_release(&alone);
    mt_graph_free(g);
    mt_graph_free(other);
}

/* A folder that is not there, a device that fails on one rank: the same status everywhere, and no file. */
static void test_failures(void) {
    struct dice dice = {SEED, 0};
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = make_graph(MT_F32);
    struct mt_program p;
    make_program(&dice, g, n, &p);
    struct memory memory = {.program = &p};
    visit(&memory, 0, true);
    CHECK_EQ(save(&p, &memory, "nonexistent/step-00000001.safetensors", &err), MT_ESYSTEM);
    if (!rank) CHECK(strstr(err.text, "No such file"), "%s", err.text);
    char path[128];
    snprintf(path, sizeof path, "%s/step-77777777.safetensors", folder);
    struct mt_checkpoint_about about = {3, 24, 7, "test", "{}", "0", "1"};
    int failing = 0; /* the first that has something of the first state is asked for it */
    while (mt_box_count(mt_pvalue_box(&p, 0, failing), 2) == 0) failing++;
    struct mt_states states;
    mt_states_init(&states, MPI_COMM_WORLD, &p, (struct mt_state_memory){&failing, refuse, set});
    CHECK_EQ(mt_checkpoint_save(&states, path, &about, &err), MT_ESYSTEM);
    if (!rank) CHECK(strstr(err.text, "no copy"), "%s", err.text);
    CHECK(access(path, F_OK), "a failed save left a file");
    release(&memory);
    mt_program_release(&p);
    mt_graph_free(g);
}

/* One element of a state that is not finite: no save replaces a good file by it, no hash is of it; nor is it loaded. */
static void test_not_finite(void) {
    struct dice dice = {SEED, 0};
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = make_graph(MT_F64), *narrow = make_graph(MT_F32);
    struct mt_program p, alone;
    make_program(&dice, g, n, &p);
    make_program(&dice, narrow, 1, &alone);
    struct memory memory = {.program = &p}, mine = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/step-00000001.safetensors", folder);
    visit(&memory, 1, true);
    CHECK_OK(save(&p, &memory, path, &err), err);
    for (int i = 0; i < p.nvalues; i++) { /* in every state, the last element of whichever ranks have it */
        const struct mt_value *v = &g->values[p.values[i].gvalue];
        const struct mt_box *box = mt_pvalue_box(&p, i, rank);
        int64_t count = mt_box_count(box, v->naxes), whole = mt_value_count(g, p.values[i].gvalue);
        double *data = memory.box[p.values[i].gvalue];
        bool last = count > 0;
        for (int a = 0; a < v->naxes; a++) last = last && box->hi[a] == mt_value_extent(g, p.values[i].gvalue, a);
        if (last) data[count - 1] = i % 2 ? NAN : -INFINITY;
        CHECK_EQ(save(&p, &memory, path, &err), MT_EDIVERGED);
        char text[64];
        snprintf(text, sizeof text, "%s: element %lld is", v->name, (long long)whole - 1);
        if (!rank) CHECK(strstr(err.text, text), "%s, not %s", err.text, text);
        struct mt_states states;
        uint64_t hash;
        mt_states_init(&states, MPI_COMM_WORLD, &p, (struct mt_state_memory){&memory, get, set});
        CHECK_EQ(mt_states_hash(&states, &hash, &err), v->owner < 0 ? MT_EDIVERGED : MT_OK);
        if (last) data[count - 1] = 1e300; /* more than fp32 has */
        if (i == 0) CHECK_OK(save(&p, &memory, path, &err), err);
        if (i == 0 && !rank) {
            CHECK_EQ(load(MPI_COMM_SELF, &alone, &mine, path, MT_LOAD_ALL, &err), MT_EINPUT);
            CHECK(strstr(err.text, "is inf as f32"), "%s", err.text);
            release(&mine);
        }
        visit(&memory, 1, true);
        if (i == 0) CHECK_OK(save(&p, &memory, path, &err), err);
    }
    release(&memory);
    CHECK_OK(load(MPI_COMM_WORLD, &p, &memory, path, MT_LOAD_ALL, &err), err);
    visit(&memory, 1, false);
    release(&memory);
    mt_program_release(&p);
    mt_program_release(&alone);
    mt_graph_free(g);
    mt_graph_free(narrow);
}

static void move(const char *from, const char *to) {
    CHECK(!rename(from, to), "%s to %s", from, to);
}

static void refuse_pair(const char *path, const char *reason, const char *hint) {
    struct mt_safetensors *file;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_checkpoint_open(path, &file, &err), MT_EINPUT);
    CHECK(strstr(err.text, reason) && strstr(err.hint, hint), "\"%s\" (%s), not \"%s\"", err.text, err.hint, reason);
}

/* The weights' file has the parameters and nothing else, so that others read it; and neither file is taken without the
 * other, nor with that of another step, nor is a folder's newest checkpoint whose other file is not there. */
static void test_pairs(void) {
    struct dice dice = {SEED + 50, 0};
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = make_graph(MT_F32);
    struct mt_program p;
    make_program(&dice, g, n, &p);
    struct memory memory = {.program = &p};
    struct mt_arena arena = MT_ARENA_INIT;
    char pairs[96];
    snprintf(pairs, sizeof pairs, "%s/pairs", folder);
    if (!rank) CHECK(!mkdir(pairs, 0700), "%s", pairs);
    MPI_Barrier(MPI_COMM_WORLD);
    const char *path[2], *other[2];
    for (int i = 0; i < 2; i++) {
        path[i] = mt_checkpoint_path(pairs, i + 1, &arena);
        other[i] = mt_checkpoint_optimizer_path(path[i], &arena);
        visit(&memory, i, true);
        CHECK_OK(save(&p, &memory, path[i], &err), err);
    }
    if (!rank) {
        struct mt_safetensors *file;
        const char *kept = mt_arena_printf(&arena, "%s/kept", pairs);
        CHECK_OK(mt_safetensors_open(path[0], &file, &err), err);
        CHECK_EQ(file->ntensors, 5);
        for (int t = 0; t < 5; t++) CHECK(strncmp(file->tensors[t].name, "m.", 2), "%s", file->tensors[t].name);
        mt_safetensors_close(file);
        CHECK_OK(mt_checkpoint_open(path[0], &file, &err), err);
        CHECK(file->ntensors == NSTATES && mt_safetensors_find(file, "m.wte.weight"), "%d tensors", file->ntensors);
        mt_safetensors_close(file);
        refuse_pair(other[1], "is the optimizer state of a checkpoint", "name its weights, step-00000002.safetensors");
        move(other[0], kept);
        refuse_pair(path[0], "optimizer-00000001.safetensors: No such file", "--init starts anew");
        CHECK(!link(other[1], other[0]), "%s", other[0]);
        refuse_pair(path[0], "is damaged, or of another checkpoint than", "");
        move(kept, other[0]);
        move(other[1], kept);
        CHECK_OK(mt_checkpoint_open(pairs, &file, &err), err); /* the one before */
        CHECK_TEXT(file->path, path[0]);
        mt_safetensors_close(file);
        CHECK_OK(mt_checkpoint_open_weights(pairs, &file, &err), err); /* which are whole */
        CHECK_TEXT(file->path, path[1]);
        mt_safetensors_close(file);
        move(kept, other[1]);
        CHECK_OK(mt_checkpoint_prune(pairs, 1, &err), err);
        CHECK(access(path[0], F_OK) && access(other[0], F_OK), "the older pair is still there");
        CHECK(!access(path[1], F_OK) && !access(other[1], F_OK), "the newer pair is gone");
        CHECK_OK(mt_checkpoint_set_aside(pairs, 1, &err), err);
        CHECK(access(path[1], F_OK) && access(other[1], F_OK), "a pair that was set aside is still there");
    }
    release(&memory);
    mt_program_release(&p);
    mt_graph_free(g);
    mt_arena_release(&arena);
}

/* Weights alone from a file that has other things too, and with names that start with "transformer."; files that do not
 * fit. */
static void test_weights(void) {
    struct dice dice = {SEED, 0};
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = make_graph(MT_F32);
    struct mt_program p;
    make_program(&dice, g, n, &p);
    char path[128];
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    if (!rank) {
        struct mt_saved tensors[] = {
            {.name = "transformer.wte.weight", .type = MT_F32, .ndims = 2, .dims = {37, 20}},
            {.name = "h.0.attn.weight", .type = MT_F32, .ndims = 2, .dims = {20, 60}},
            {.name = "h.0.attn.bias", .type = MT_F32, .ndims = 4, .dims = {1, 1, 4, 4}},
            {.name = "transformer.ln.weight", .type = MT_F32, .ndims = 1, .dims = {20}},
            {.name = "gain", .type = MT_F32, .ndims = 0},
            {.name = "large", .type = MT_F32, .ndims = 2, .dims = {53000, 20}},
        };
        struct mt_safetensors_writer *w;
        CHECK_OK(mt_safetensors_create(path, tensors, 6, NULL, 0, &w, &err), err);
        const char *names[] = {"wte.weight", "h.0.attn.weight", NULL, "ln.weight", "gain", "large"};
        const int64_t counts[] = {37 * 20, 20 * 60, 16, 20, 1, 53000 * 20};
        for (int t = 0; t < 6; t++)
            for (int64_t i = 0; i < counts[t]; i++) {
                float x = names[t] ? (float)element(names[t], i, 5) : 0;
                CHECK_OK(mt_safetensors_append(w, &x, sizeof x, &err), err);
            }
        CHECK_OK(mt_safetensors_commit(w, NULL, &err), err);
    }
    struct memory memory = {0};
    CHECK_OK(load(MPI_COMM_WORLD, &p, &memory, path, MT_LOAD_PARAMS, &err), err);
    visit_some(&memory, 5, false, true);    /* parameters are the file's */
    visit_some(&memory, 999, false, false); /* the optimizer's states are as they were */
    release(&memory);
    CHECK_EQ(load(MPI_COMM_WORLD, &p, &memory, path, MT_LOAD_ALL, &err), MT_EINPUT);
    if (!rank) CHECK(strstr(err.text, "wte.weight"), "%s", err.text);
    release(&memory);
    mt_program_release(&p);
    mt_graph_free(g);
}

/* Replicas that differ in one bit on one rank are found; the hash of the parameters is that of their whole numbers. */
static void test_compare(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = make_graph(MT_F32);
    uint64_t hash, first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct dice dice = {SEED + 100 + (uint64_t)round, 0};
        struct mt_program p;
        make_program(&dice, g, n, &p);
        struct memory memory = {.program = &p};
        visit(&memory, 3, true);
        struct mt_states states;
        struct mt_state_memory access = {&memory, get, set};
        mt_states_init(&states, MPI_COMM_WORLD, &p, access);
        CHECK_OK(mt_states_compare(&states, &err), err);
        CHECK_OK(mt_states_hash(&states, &hash, &err), err);
        if (!round) first = hash;
        if (!rank) CHECK(hash == first);
        for (int i = 0; i < p.nvalues; i++) { /* spoil the last rank's first number of one state */
            const struct mt_box *box = mt_pvalue_box(&p, i, n - 1);
            bool replica = false;
            for (int r = 0; r < n - 1; r++) replica = replica || !memcmp(mt_pvalue_box(&p, i, r), box, sizeof *box);
            const struct mt_value *v = &g->values[p.values[i].gvalue];
            if (!mt_box_count(box, v->naxes)) continue;
            char *bit = memory.box[p.values[i].gvalue];
            *bit ^= rank == n - 1;
            mt_states_init(&states, MPI_COMM_WORLD, &p, access);
            CHECK_EQ(mt_states_compare(&states, &err), replica ? MT_EBUG : MT_OK);
            if (replica && !rank) CHECK(strstr(err.text, v->name), "%s", err.text);
            *bit ^= rank == n - 1;
        }
        release(&memory);
        mt_program_release(&p);
    }
    mt_graph_free(g);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (!rank) {
        CHECK(mkdtemp(folder));
        printf("seed %d\n", SEED);
    }
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) test_round(round);
    test_failures();
    test_weights();
    test_pairs();
    test_not_finite();
    test_compare();
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (!rank) CHECK(!system(command));
    MPI_Finalize();
    return 0;
}
