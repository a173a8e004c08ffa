/* What is saved under the plan of one strategy is loaded under that of every other, and saved again as the same file,
 * bit for bit: all ordered pairs, over two unlike hosts of two ranks each. ranks: 4 */
#include <mpi.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/number/hash.h"
#include "launcher/checkpoint/checkpoint.h"
#include "planner/plan/planned.h"
#include "tests/planner/divide/classics.h"

enum { SEED = 20261123 };

static const char *const cluster = "cpu:1x2 + cpu-4t:1x2";
static const char *const model = "gpt2:layers=1,heads=5,embed=20,context=7,vocab=37";
static struct mt_err err = MT_ERR_INIT;
static int rank;
static char folder[64] = "motley-strategies-XXXXXX";

/* A strategy's program, and this rank's boxes. */
struct classic {
    const char *name;
    struct mt_plan *plan;
    struct mt_planned planned;
    char **box; /* [graph's values], or null */
};

/* Rank 0 plans, and all have its document. */
static void open_classic(const struct mt_strategy *strategy, struct classic *c) {
    struct mt_job job;
    size_t length = 0;
    char *text = NULL;
    mt_job_default(&job);
    job.batch = 12;
    job.recompute = MT_RECOMPUTE_NONE;
    if (!rank) {
        struct mt_plan *plan = classic_plan(cluster, model, &job, strategy);
        text = mt_plan_text(plan, &length);
        mt_plan_free(plan);
    }
    MPI_Bcast(&length, sizeof length, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank) text = malloc(length + 1);
    MPI_Bcast(text, (int)length, MPI_BYTE, 0, MPI_COMM_WORLD);
    c->name = strategy->name;
    CHECK_OK(mt_plan_parse(c->name, text, length, &c->plan, &err), err);
    CHECK_OK(mt_planned_open(c->plan, &c->planned, &err), err);
    const struct mt_program *p = &c->planned.program;
    c->box = calloc((size_t)p->graph->nvalues, sizeof *c->box);
    for (int v = 0; v < p->nvalues; v++) {
        int g = p->values[v].gvalue;
        if (!p->values[v].input || !mt_is_state(p->graph, g)) continue;
        c->box[g] = malloc((size_t)(mt_value_count(p->graph, g) * mt_type_size(p->values[v].type)) + 1);
    }
    free(text);
}

static void close_classic(struct classic *c) {
    for (int g = 0; g < c->planned.graph->nvalues; g++) free(c->box[g]);
    free(c->box);
    mt_planned_release(&c->planned);
    mt_plan_free(c->plan);
}

static enum mt_status get(void *context, int gvalue, int64_t at, int64_t size_bytes, void *to, struct mt_err *e) {
    (void)e;
    memcpy(to, ((struct classic *)context)->box[gvalue] + at, (size_t)size_bytes);
    return MT_OK;
}

static enum mt_status set(void *context, int gvalue, int64_t at, int64_t size_bytes, const void *from,
                          struct mt_err *e) {
    (void)e;
    memcpy(((struct classic *)context)->box[gvalue] + at, from, (size_t)size_bytes);
    return MT_OK;
}

static struct mt_states states_of(struct classic *c) {
    struct mt_states states;
    mt_states_init(&states, MPI_COMM_WORLD, &c->planned.program, (struct mt_state_memory){c, get, set});
    return states;
}

/* Every element is a number of its own, by its state's name and its place in the whole; all bits of it count. */
static void fill(struct classic *c) {
    const struct mt_program *p = &c->planned.program;
    for (int v = 0; v < p->nvalues; v++) {
        int g = p->values[v].gvalue;
        if (!p->values[v].input || !c->box[g]) continue;
        const struct mt_value *value = &p->graph->values[g];
        const struct mt_box *box = mt_pvalue_box(p, v, rank);
        int64_t count = mt_box_count(box, value->naxes), at[MT_MAX_AXES];
        memcpy(at, box->lo, sizeof at);
        CHECK(value->type == MT_F32, "%s", value->name);
        for (int64_t e = 0; e < count; e++) {
            int64_t index = 0;
            for (int a = 0; a < value->naxes; a++) index = index * mt_value_extent(p->graph, g, a) + at[a];
            uint64_t bits = mt_hash64(&index, sizeof index, mt_hash64(value->name, strlen(value->name), SEED));
            ((float *)c->box[g])[e] = (float)(int32_t)(uint32_t)bits * 0x1p-31f;
            for (int a = value->naxes - 1; a >= 0 && ++at[a] == box->hi[a]; a--) at[a] = box->lo[a];
        }
    }
}

static void spoil(struct classic *c) {
    const struct mt_program *p = &c->planned.program;
    for (int v = 0; v < p->nvalues; v++) {
        int g = p->values[v].gvalue;
        if (p->values[v].input && c->box[g])
            memset(c->box[g], 0x7f, (size_t)(mt_box_count(mt_pvalue_box(p, v, rank), p->graph->values[g].naxes) * 4));
    }
}

static void save(struct classic *c, const char *path) {
    struct mt_checkpoint_about about = {3, 36, 7, model, "{}", "0", "1"};
    struct mt_states states = states_of(c);
    mt_checkpoint_save(&states, path, &about, &err);
    CHECK(!err.status, "%s: %s", c->name, err.text);
}

static char *whole_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file && !fseek(file, 0, SEEK_END), "%s", path);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    CHECK(fread(data, 1, *size, file) == *size, "%s", path);
    fclose(file);
    return data;
}

static void test_pair(struct classic *from, struct classic *to) {
    char first[128], again[128];
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_safetensors *file = NULL;
    snprintf(first, sizeof first, "%s/%s.safetensors", folder, from->name);
    snprintf(again, sizeof again, "%s/again/%s.safetensors", folder, from->name);
    spoil(to);
    if (!rank) CHECK_OK(mt_checkpoint_open_pair(first, &file, &err), err);
    struct mt_states states = states_of(to);
    mt_checkpoint_load(&states, file, MT_LOAD_ALL, &err);
    CHECK(!err.status, "%s under %s: %s", from->name, to->name, err.text);
    mt_safetensors_close(file);
    states = states_of(to);
    CHECK_OK(mt_states_compare(&states, &err), err);
    save(to, again);
    if (rank) return;
    for (int f = 0; f < 2; f++) {
        size_t sizes[2];
        char *a = whole_file(f ? mt_checkpoint_optimizer_path(first, &arena) : first, &sizes[0]);
        char *b = whole_file(f ? mt_checkpoint_optimizer_path(again, &arena) : again, &sizes[1]);
        CHECK(sizes[0] == sizes[1] && !memcmp(a, b, sizes[0]), "%s under %s: another file", from->name, to->name);
        free(a), free(b);
    }
    mt_arena_release(&arena);
}

int main(int argc, char **argv) {
    struct classic classics[MT_NSTRATEGIES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!rank) CHECK(mkdtemp(folder));
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    char path[128];
    snprintf(path, sizeof path, "%s/again", folder);
    if (!rank) CHECK(!mkdir(path, 0700), "%s", path);
    for (int i = 0; i < MT_NSTRATEGIES; i++) {
        open_classic(&mt_strategies[i], &classics[i]);
        snprintf(path, sizeof path, "%s/%s.safetensors", folder, classics[i].name);
        fill(&classics[i]);
        save(&classics[i], path);
        if (i) test_pair(&classics[i], &classics[i]);
    }
    for (int i = 0; i < MT_NSTRATEGIES; i++)
        for (int k = 0; k < MT_NSTRATEGIES; k++)
            if (k != i) test_pair(&classics[i], &classics[k]);
    for (int i = 0; i < MT_NSTRATEGIES; i++) close_classic(&classics[i]);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (!rank) CHECK(!system(command));
    MPI_Finalize();
    return 0;
}
