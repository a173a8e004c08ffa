/* The plan document: a round trip by bytes, edits that are seen, refusals by name, and matching processes to ranks.
 *
 * Longer than other tests: the tables of edits and of what is printed are of the same few plans. */
#include "planner/plan/tables.h"

#include <unistd.h>

#include "tests/edited.h"

static void add_prediction(struct mt_plan *p) {
    memset(p->cluster_hash, 'c', 32);
    struct mt_plan_prediction *f = p->prediction = mt_new(&p->arena, struct mt_plan_prediction, 1);
    *f = (struct mt_plan_prediction){
        .step_s = 0.2125, .error = 0.04, .error_below = 0.03125, .bound_s = 0.2, .nominal = true, .nrejected = 3};
    f->times = mt_new(&p->arena, struct mt_plan_time, 3);
    f->times[0] = (struct mt_plan_time){0.2, 0.0125, 0};
    f->times[1] = (struct mt_plan_time){0.1, 0.02, 0.0925};
    f->times[2] = (struct mt_plan_time){1. / 7, 0, 1e-9};
    f->rejected = mt_new(&p->arena, struct mt_plan_rejected, 3);
    f->rejected[0] = (struct mt_plan_rejected){"proportional shares", "slower", 0.25};
    f->rejected[1] = (struct mt_plan_rejected){"even shares", "slower", 0.425};
    f->rejected[2] = (struct mt_plan_rejected){"replicated state", "does not fit: rank 2 lacks 1.20 GiB", 0};
}

/* Three ranks, written by hand. */
static struct mt_plan *make_plan(void) {
    struct mt_plan *p = mt_plan_new(3);
    p->made_by = "motley test";
    p->model = "gpt2:layers=2";
    memset(p->model_hash, 'a', 32);
    memset(p->program_hash, '0', 32);
    p->job.batch = 10;
    p->job.seq = 64;
    static const char *const hosts[] = {"big", "big", "small.cluster"};
    static const double speeds[] = {1, 0.7, 0.3};
    static int64_t batch[] = {5, 4, 1}, vocab[] = {128, 0, 129}, micro[] = {2, 4, 1};
    for (int r = 0; r < 3; r++) {
        p->ranks[r] = (struct mt_plan_rank){hosts[r], r ? "xeon-2t" : "", speeds[r], r == 2 ? 1 << 30 : 0, 0};
        p->memory[r] = (struct mt_plan_memory){.state_bytes = 1000 + r, .arena_bytes = 2000 + r, .window_bytes = 4096};
    }
    memcpy(p->micro, micro, sizeof micro);
    p->nsplits = 2;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 2);
    p->splits[0] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = batch};
    p->splits[1] = (struct mt_plan_split){.name = "storage:vocab", .label = "vocab", .align = 8, .sizes = vocab};
    struct mt_rule_row rules[] = {{.pattern = "lm_head*", .operators = MT_OPERATORS_REPLICATE, .split = ""},
                                  {.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = "batch"}};
    struct mt_storage_row storage[] = {{.pattern = "*.ln_?.*", .state = MT_STATE_REPLICATED},
                                       {.pattern = "*", .state = MT_STATE_SPLIT}};
    struct mt_algorithm_row algorithms[] = {{MT_REDUCE_SCATTER, "ring", 0},
                                            {MT_ALL_GATHER, "bruck", 4096},
                                            {MT_ALL_GATHER, "direct", 65536},
                                            {MT_ALL_GATHER, "auto", 0}};
    p->decisions = mt_decisions_copy(&(struct mt_decisions){.nrules = 2,
                                                            .nstorage = 2,
                                                            .nalgorithms = 4,
                                                            .rules = rules,
                                                            .storage = storage,
                                                            .algorithms = algorithms,
                                                            .sync = MT_SYNC_REDUCE_SCATTER,
                                                            .start = MT_START_FULL,
                                                            .bucket_bytes = 4 << 20,
                                                            .gradient_wire = MT_BF16},
                                     &p->arena);
    add_prediction(p);
    p->flops_per_step = 1.5e12;
    p->parameters = 124439808;
    return p;
}

static void test_round_trip(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *p = make_plan(), *back;
    size_t length, again;
    CHECK_OK(mt_plan_check(p, &err), err);
    char *text = mt_plan_text(p, &length);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_TEXT(back->hash, p->hash);
    CHECK_EQ(back->nranks, 3);
    CHECK_TEXT(back->ranks[2].host, "small.cluster");
    CHECK_NEAR(back->ranks[1].speed, 0.7, 0);
    CHECK_EQ(back->splits[1].sizes[2], 129);
    CHECK_EQ(back->decisions.gradient_wire, MT_BF16);
    CHECK_EQ(back->memory[2].arena_bytes, 2002);
    CHECK_TEXT(back->ranks[1].class, "xeon-2t");
    CHECK_TEXT(back->decisions.algorithms[2].algorithm, "direct");
    CHECK(back->decisions.algorithms[2].up_to_bytes == 65536 && back->decisions.algorithms[3].up_to_bytes == 0);
    const struct mt_plan_prediction *f = back->prediction;
    CHECK(f && f->step_s == 0.2125 && f->error == 0.04 && f->error_below == 0.03125 && f->bound_s == 0.2 && f->nominal);
    CHECK(f->times[2].compute_s == 1. / 7 && f->times[1].exposed_s == 0.02 && f->times[1].idle_s == 0.0925);
    CHECK_EQ(f->nrejected, 3);
    CHECK_TEXT(f->rejected[2].why, "does not fit: rank 2 lacks 1.20 GiB");
    CHECK(f->rejected[1].step_s == 0.425 && f->rejected[2].step_s == 0);
    CHECK_EQ(mt_plan_split_named(back, "storage:vocab")->align, 8);
    CHECK(!mt_plan_split_named(back, "vocab"), "no such split");
    CHECK(!mt_plan_stored_split(back, "h.3.ln_1.weight") && mt_plan_stored_split(back, "h.3.ln_10.weight"), "globs");
    char *second = mt_plan_text(back, &again);
    CHECK_TEXT(second, text);

    /* Spaces do not matter to the hash, a sign of life does. */
    char *spaced = edited(text, "\"version\": 1", "\"version\"   :\n1");
    mt_plan_free(back);
    CHECK_OK(mt_plan_parse("p", spaced, strlen(spaced), &back, &err), err);
    char *changed = edited(text, "\"steps\": 1000", "\"steps\": 1001");
    mt_plan_free(back);
    CHECK_EQ(mt_plan_parse("p", changed, strlen(changed), &back, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "p: hash: does not fit: the plan was changed after it was made");
    CHECK(strstr(err.hint, "motley plan --check p -o p"), "%s", err.hint);

    struct mt_plan *copy;
    CHECK_OK(mt_plan_copy(p, &copy, &err), err);
    CHECK_TEXT(copy->hash, p->hash);
    CHECK(copy->splits[0].sizes != p->splits[0].sizes && copy->prediction->times != p->prediction->times, "shared");
    mt_plan_free(copy);
    p->prediction->step_s = -1;
    CHECK_EQ(mt_plan_copy(p, &copy, &err), MT_EINPUT);
    p->prediction->step_s = 0.2125;

    char path[] = "/tmp/motley-test-plan-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, changed, strlen(changed)) == (ssize_t)strlen(changed), "%s", path);
    close(fd);
    CHECK_OK(mt_plan_read_edited(path, &back, &err), err);
    CHECK_EQ(back->job.steps, 1001);
    CHECK_OK(mt_plan_write(back, path, &err), err);
    mt_plan_free(back);
    CHECK_OK(mt_plan_read(path, &back, &err), err);
    unlink(path);

    mt_plan_free(back);
    mt_plan_free(p);
    free(text), free(second), free(spaced), free(changed);
}

/* Rank 1 is idle, and rank 2 has the first place of the program. */
static struct mt_plan *make_idle(void) {
    struct mt_plan *p = make_plan();
    p->nplaces = 2;
    p->order[0] = 2, p->order[1] = 0;
    static int64_t batch[] = {9, 0, 1};
    p->splits[0].sizes = batch;
    p->micro[1] = 0;
    p->prediction->nidle = 1;
    p->prediction->idle = mt_new(&p->arena, struct mt_plan_idle, 1);
    p->prediction->idle[0] = (struct mt_plan_idle){1, "its link slows all", 0.5};
    return p;
}

struct edit {
    const char *from, *to, *message;
};

/* Takes the plan. Cut anywhere, it is refused too, and nothing leaks. */
static void check_refused(struct mt_plan *p, const struct edit *edits, size_t nedits) {
    struct mt_plan *back;
    size_t length;
    char *text = mt_plan_text(p, &length);
    for (size_t i = 0; i < nedits; i++) {
        struct mt_err err = MT_ERR_INIT;
        char *wrong = edited(text, edits[i].from, edits[i].to);
        CHECK_EQ(mt_plan_parse("p", wrong, strlen(wrong), &back, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, edits[i].message, strlen(edits[i].message)), "\"%s\", not \"%s\"", err.text,
              edits[i].message);
        free(wrong);
    }
    for (size_t cut = 0; cut + 2 < length; cut += 7) {
        struct mt_err err = MT_ERR_INIT;
        CHECK_EQ(mt_plan_parse("p", text, cut, &back, &err), MT_EINPUT);
    }
    free(text);
    mt_plan_free(p);
}

static void test_refused_order(void) {
    static const struct edit edits[] = {
        {"[2, 0]", "[]", "p: order: lists 0 ranks, but must list from 1 to 3: those that take part"},
        {"[2, 0]", "[2, 0, 1, 2]", "p: order: lists 4 ranks, but must list from 1 to 3"},
        {"[2, 0]", "[2, 2]", "p: order[1]: is 2, which order[0] is already: a rank has one place"},
        {"[2, 0]", "[2, 3]", "p: order[1]: is 3"},
        {"[2, 0]", "[-1, 0]", "p: order[0]: is -1"},
        {"[2, 0]", "[2, 0.5]", "p: order[1]: "},
        {"[2, 0]", "2", "p: order: "},
        {"[2, 0]", "[2]", "p: splits[0].sizes[0]: is 9, but must be 0: rank 0 is not in \"order\", so it is idle"},
        {"[2, 0]", "[1, 0]", "p: splits[0].sizes[2]: is 1, but must be 0: rank 2 is not in \"order\""},
        {"[128, 0, 129]", "[120, 8, 129]", "p: splits[1].sizes[1]: is 8, but must be 0: rank 1 is not in"},
        {"[2, 0, 1]", "[2, 1, 1]", "p: micro_batch[1]: is 1, but must be from 0 to the rank's share of the batch, 0"},
        {"\"rank\": 1", "\"rank\": 0", "p: prediction.idle[0].rank: is 0, which is no idle rank"},
        {"\"rank\": 1", "\"rank\": 3", "p: prediction.idle[0].rank: is 3"},
        {"its link slows all", "", "p: prediction.idle[0].why: must not be empty"},
        {"\"step_s\": 0.5", "\"step_s\": -0.5", "p: prediction.idle[0].step_s: is -0.5"},
        {"\"why\": \"its", "\"reason\": \"its", "p: prediction.idle[0]: unknown key \"reason\""}};
    check_refused(make_idle(), edits, sizeof edits / sizeof edits[0]);
}

static void test_refusals(void) {
    static const struct edit edits[] = {
        {"[5, 4, 1]", "[5, 4, 2]", "p: splits[0].sizes: sums to 11, but the job's global batch is 10"},
        {"[5, 4, 1]", "[5, 5]", "p: splits[0].sizes: has 2 numbers, but must have 3"},
        {"[5, 4, 1]", "[11, -1, 0]", "p: splits[0].sizes[1]: is -1"},
        {"[128, 0, 129]", "[127, 1, 129]", "p: splits[1].sizes: all but one must be multiples of the align of 8"},
        {"[128, 0, 129]", "[9223372036854775807, 1, 0]", "p: splits[1].sizes: the sum is out of range"},
        {"\"name\": \"storage:vocab\"", "\"name\": \"batch\"", "p: splits[1].name: \"batch\" is there already"},
        {"\"name\": \"batch\"", "\"name\": \"botch\"", "p: splits: has none with the name \"batch\""},
        {"\"label\": \"vocab\"", "\"label\": \"embed\"", "p: splits[1].label: is \"embed\", but the split"},
        {"[2, 4, 1]", "[0, 4, 1]", "p: micro_batch[0]: is 0, but must be from 1 to the rank's share of the batch, 5"},
        {"[2, 4, 1]", "[2, 4, 3]", "p: micro_batch[2]: is 3, but must be from 1 to the rank's share of the batch, 1"},
        {"\"rule\": \"replicate\"", "\"rule\": \"sometimes\"", "p: rules[0].rule: \"sometimes\" is not known"},
        {"\"split\": \"batch\"", "\"split\": \"bach\"", "p: rules[1].split: no split has the name \"bach\""},
        {"\"layout\": \"split\"", "\"layout\": \"spilt\"", "p: storage[1].layout: \"spilt\" is not known"},
        {"\"sync\": \"reduce_scatter\"", "\"sync\": \"hope\"", "p: gradients.sync: \"hope\" is not known"},
        {"\"sync\": \"reduce_scatter\"", "\"sync\": \"reduce_scatter\", \"start\": \"now\"",
         "p: gradients.start: \"now\" is not known"},
        {"\"algorithm\": \"ring\"", "\"algorithm\": \"rong\"", "p: collectives[0].algorithm: ReduceScatter has no"},
        {"\"wire\": \"bf16\"", "\"wire\": \"f64\"", "p: collectives[0].wire: is f64, but must be f32 or bf16"},
        {"\"acc\": \"f32\"", "\"acc\": \"f64\"", "p: collectives[0].acc: is f64, but a job in f32 accumulates in f32"},
        {"\"kind\": \"AllGather\"", "\"kind\": \"AllGarther\"", "p: collectives[1].kind: \"AllGarther\" is not known"},
        {"\"host\": \"small.cluster\"", "\"host\": \"\"", "p: ranks[2].host: either all ranks have a host, or none"},
        {"\"speed\": 0.7", "\"speed\": -1", "p: ranks[1].speed: is -1"},
        {"\"algorithm\": \"direct\", \"up_to_bytes\": 65536",
         "\"algorithm\": \"direct\"}, {\"kind\": \"AllReduce\", \"algorithm\": \"ring\", \"wire\": \"f32\", \"acc\": "
         "\"f32\"",
         "p: collectives[3].wire: is f32, but bf16 in the rows before"},
        {"65536", "4096", "p: collectives[2].up_to_bytes: must be more than in the row of AllGather before"},
        {", \"up_to_bytes\": 65536", "", "p: collectives[3].kind: AllGather of any size is there already"},
        {"\"up_to_bytes\": 65536", "\"up_to_bytes\": 0", "p: collectives[2].up_to_bytes: is 0"},
        {"\"algorithm\": \"auto\"", "\"algorithm\": \"auto\", \"up_to_bytes\": 99999",
         "p: collectives[1]: there is no row of AllGather for any size"},
        {"\"step_s\": 0.2125", "\"step_s\": 0", "p: prediction.step_s: is 0"},
        {"\"step_s\": 0.2125", "\"step_s\": 0.199", "p: prediction.bound_s: is 0.2, but must be from 0 to the step's"},
        {"\"error\": 0.04", "\"error\": -1", "p: prediction.error: is -1"},
        {"\"error_below\": 0.03125", "\"error_below\": 1.5", "p: prediction.error_below: is 1.5"},
        {"\"error\": 0.04", "\"mistake\": 0.04", "p: prediction: unknown key \"mistake\""},
        {"\"exposed_s\": 0.02", "\"exposed_s\": -0.02", "p: prediction.times[1].exposed_s: is -0.02"},
        {"{\"compute_s\": 0.2, \"exposed_s\": 0.0125, \"idle_s\": 0},", "",
         "p: prediction: times: has 2 rows, but there are 3 ranks"},
        {"\"step_s\": 0.25", "\"step_s\": 0.5", "p: prediction.rejected[1]: rows must be in the order of step_s"},
        {", \"step_s\": 0.25", "", "p: prediction.rejected[1]: rows must be in the order of step_s"},
        {"\"why\": \"slower\"", "\"why\": \"\"", "p: prediction.rejected[0]: what and why must not be empty"},
        {"\"cluster_hash\": \"cccccccccccccccccccccccccccccccc\"", "\"cluster_hash\": \"\"",
         "p: prediction: there is one, but no cluster_hash"},
        {"\"version\": 1", "\"version\": 2", "p: version: is 2, but this motley knows version 1 only"},
        {"motley-plan", "motley-plum", "p: is a \"motley-plum\", not a \"motley-plan\""},
        {"\"parameters\"", "\"paramters\"", "p: unknown key \"paramters\""},
        {"\"model_hash\": \"a", "\"model_hash\": \"A", "p: model_hash: must be 32 hexadecimal digits"},
        {"\"model_hash\": \"a", "\"model_hash\": \"aa", "p: model_hash: must be 32 hexadecimal digits"},
        {"gpt2:layers=2", "gpt2:\\u001b[2J", "p: model: has a control character"},
        {"\"batch\": 10", "\"batch\": 11", "p: splits[0].sizes: sums to 10, but the job's global batch is 11"}};
    check_refused(make_plan(), edits, sizeof edits / sizeof edits[0]);
}

static void test_order(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_plan *p = make_plan(), *back;
    size_t length;
    char *text = mt_plan_text(p, &length);
    CHECK(!strstr(text, "\"order\"") && !strstr(text, "\"idle\""), "says nothing new: %s", text);
    CHECK(mt_plan_in_order(p), "all take part");
    /* Listed in full, the order is what it is without: not written, and not in the hash. */
    char *listed = edited(text, "\"splits\": [", "\"order\": [0, 1, 2],\n  \"splits\": [");
    CHECK_OK(mt_plan_parse("p", listed, strlen(listed), &back, &err), err);
    mt_plan_free(back), mt_plan_free(p), free(text), free(listed);

    p = make_idle();
    CHECK_OK(mt_plan_check(p, &err), err);
    text = mt_plan_text(p, &length);
    CHECK(strstr(text, "\"order\": [2, 0]"), "%s", text);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_EQ(back->nplaces, 2);
    CHECK(back->order[0] == 2 && back->order[1] == 0 && !mt_plan_in_order(back), "order");
    CHECK(mt_plan_place(back, 0) == 1 && mt_plan_place(back, 1) == -1 && mt_plan_place(back, 2) == 0, "places");
    int *place = mt_plan_places(back, &arena);
    CHECK(place[0] == 1 && place[1] == -1 && place[2] == 0, "places");
    int64_t *sizes = mt_plan_at_places(back, back->splits[0].sizes, &arena);
    CHECK(sizes[0] == 1 && sizes[1] == 9, "sizes");
    CHECK_EQ(back->prediction->nidle, 1);
    CHECK(back->prediction->idle[0].rank == 1 && back->prediction->idle[0].step_s == 0.5, "idle");
    CHECK_TEXT(back->prediction->idle[0].why, "its link slows all");
    char *again = mt_plan_text(back, &length);
    CHECK_TEXT(again, text);
    mt_plan_free(back);

    /* An edit that gives it a place makes the reason stale. */
    char path[] = "/tmp/motley-test-plan-XXXXXX";
    char *changed = edited(text, "[2, 0]", "[2, 1, 0]");
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, changed, strlen(changed)) == (ssize_t)strlen(changed), "%s", path);
    close(fd);
    CHECK_OK(mt_plan_read_edited(path, &back, &err), err);
    CHECK(back->nplaces == 3 && back->prediction->nidle == 0, "%d", back->prediction->nidle);
    unlink(path);
    free(text), free(again), free(changed), mt_arena_release(&arena);
    mt_plan_free(back), mt_plan_free(p);
}

/* Takes the plan. Its tables have these lines; spaces count as one. */
static void check_printed(struct mt_plan *p, const char *const *lines, size_t nlines) {
    char *text, *squeezed;
    size_t length, n = 0;
    FILE *file = open_memstream(&text, &length);
    struct mt_tables doc = MT_TABLES_INIT;
    mt_plan_tables(p, &doc);
    mt_tables_write(&doc, MT_TABLES_TEXT, file);
    mt_tables_release(&doc);
    fclose(file);
    squeezed = malloc(length + 1);
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' || (n && squeezed[n - 1] != ' ')) squeezed[n++] = text[i];
    squeezed[n] = 0;
    for (size_t i = 0; i < nlines; i++) CHECK(strstr(squeezed, lines[i]), "no \"%s\" in:\n%s", lines[i], text);
    free(text), free(squeezed);
    mt_plan_free(p);
}

static void test_print_idle(void) {
    static const char *const lines[] = {"\n 1 big xeon-2t 0.7 0 0.0% idle ",
                                        "\n 2 small.cluster xeon-2t 0.3 1 10.0% 1 x 1 ",
                                        "\nidle rank 1: its link slows all (+135.3%)\n",
                                        "\n order of the ranks in the program: 2 0\n",
                                        "\nidle ranks (they join no message of the step)\n",
                                        "\n 1 its link slows all 500 ms +135.3%\n",
                                        "\n 1 idle\n"};
    check_printed(make_idle(), lines, sizeof lines / sizeof *lines);
}

/* Ranks that are idle for different reasons are not said to be so for one. */
static void test_print_reasons(void) {
    static const char *const lines[] = {"\nidle ranks 0-1 4: slower with it (+10.0%)\n",
                                        "\nidle rank 2: left out by --use\n", "\nidle rank 5\n"};
    static struct mt_plan_idle idle[] = {{0, "slower with it", 1.1},
                                         {1, "slower with it", 1.1},
                                         {2, "left out by --use", 0},
                                         {4, "slower with it", 1.1}};
    struct mt_plan *p = mt_plan_new(6);
    p->model = "mlp";
    p->nplaces = 1, p->order[0] = 3;
    p->job.batch = 8;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 1);
    p->splits[p->nsplits++] =
        (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = mt_new(&p->arena, int64_t, 6)};
    p->splits[0].sizes[3] = p->micro[3] = 8;
    p->prediction = mt_new(&p->arena, struct mt_plan_prediction, 1);
    *p->prediction = (struct mt_plan_prediction){.step_s = 1, .idle = idle, .nidle = 4};
    p->prediction->times = mt_new(&p->arena, struct mt_plan_time, 6);
    check_printed(p, lines, sizeof lines / sizeof *lines);
}

/* What people see of the prediction. */
static void test_print(void) {
    static const char *const lines[] = {
        "predicted 212 ms a step (206 ms to 221 ms, -3% +4%), 3.01 k tokens/s; nominal: it rests on public figures",
        "bound 200 ms, the gap is 6.2%: no plan for this model, batch, precision and recomputation that divides the "
        "samples",
        "\n 1 100 ms 47% 20.0 ms 9% 92.5 ms 44%\n",
        "proportional shares 250 ms +17.6% slower\n",
        "even shares 425 ms +100.0% slower\n",
        "replicated state - does not fit: rank 2 lacks 1.20 GiB\n",
        "ReduceScatter of any size ring gradients as bf16, summed in f32\n",
        "AllGather up to 4.00 KiB bruck values in their own type\n",
        "AllGather larger auto values in their own type\n"};
    check_printed(make_plan(), lines, sizeof lines / sizeof *lines);
}

/* 128 equal ranks are one line with a count. */
static void test_print_many(void) {
    struct mt_plan *p = mt_plan_new(128);
    int64_t sizes[128];
    p->made_by = "motley test", p->model = "gpt2:layers=2", p->job.batch = 256;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 1);
    p->nsplits = 1;
    p->splits[0] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = sizes};
    for (int r = 0; r < 128; r++) {
        p->ranks[r].host = mt_arena_printf(&p->arena, "n%d", r / 8);
        p->ranks[r].speed = 1;
        sizes[r] = p->micro[r] = 2;
    }
    static const char *const lines[] = {"\n 0 to 127 n0 to n15 1 2 0.8% 1 x 2 0 B 0 B 128\n all 256 "};
    check_printed(p, lines, 1);
}

static void test_match(void) {
    struct mt_plan *p = make_plan();
    struct mt_err err = MT_ERR_INIT;
    int place[3];
    CHECK_OK(mt_plan_match(p, 3, (const char *const[]){"small", "big", "big.cluster"}, place, &err), err);
    CHECK(place[0] == 2 && place[1] == 0 && place[2] == 1, "%d %d %d", place[0], place[1], place[2]);
    CHECK_EQ(mt_plan_match(p, 2, (const char *const[]){"small", "big"}, place, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "the plan is for 3 ranks, but 2 processes were started");
    CHECK_TEXT(err.hint, "start it with `mpirun -n 3`, or make a plan with `--ranks 2`");
    CHECK_EQ(mt_plan_match(p, 3, (const char *const[]){"small", "big", "bigger"}, place, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "process 2 runs on host \"bigger\", which the plan does not have");
    CHECK_TEXT(err.hint, "the plan is for: big, small.cluster; for the hosts at hand, `mpirun -n 3 motley profile -o "
                         "cluster.json` there, then plan with `--cluster cluster.json`");
    CHECK_EQ(mt_plan_match(p, 3, (const char *const[]){"big", "big", "big"}, place, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "3 processes run on host \"big\", but the plan gives it 2 ranks");
    for (int r = 0; r < 3; r++) p->ranks[r].host = "";
    CHECK_OK(mt_plan_match(p, 3, (const char *const[]){"x", "y", "x"}, place, &err), err);
    CHECK(place[0] == 0 && place[1] == 1 && place[2] == 2, "in order");
    mt_plan_free(p);
}

/* ---- over hosts and devices ---- */

/* Samples over the two hosts, heads within them. */
static struct mt_plan *make_mesh(void) {
    static const char *const heads[] = {"heads"}, *const differ[] = {"heads", ""};
    static int64_t batch[] = {8, 8, 2}, sizes[] = {3, 1, 4}, micro[] = {4, 4, 2};
    struct mt_plan *p = make_plan();
    struct mt_plan_split *splits = mt_new(&p->arena, struct mt_plan_split, 3);
    memcpy(splits, p->splits, 2 * sizeof *splits);
    splits[0].sizes = batch, splits[0].over = MT_OVER_HOST;
    splits[2] =
        (struct mt_plan_split){.name = "heads", .label = "heads", .align = 1, .sizes = sizes, .over = MT_OVER_DEVICE};
    p->splits = splits, p->nsplits = 3;
    memcpy(p->micro, micro, sizeof micro);
    struct mt_rule_row rules[] = {{"*.attn*", MT_OPERATORS_SPLIT, "batch", {1, heads, 0, 2}},
                                  {"*.mlp*", MT_OPERATORS_SPLIT, "", {2, differ, 0, 0}},
                                  {"*", MT_OPERATORS_SPLIT, "batch", {0}}};
    struct mt_storage_row storage[] = {{"*.c_attn.*", MT_STATE_SPLIT, "heads", {.occurrence = 2}},
                                       {"*.c_proj.*", MT_STATE_SPLIT, "", {2, differ, 0, 0}},
                                       {"*", MT_STATE_SPLIT, "", {0}}};
    struct mt_decisions d = p->decisions;
    d.nrules = d.nstorage = 3, d.rules = rules, d.storage = storage;
    p->decisions = mt_decisions_copy(&d, &p->arena);
    return p;
}

static void test_mesh(void) {
    static const char *const lines[] = {
        " operators on samples *.attn* split by batch, within hosts by heads (axis 2 of its label)\n",
        " operators on samples *.mlp* split, within hosts by heads, nothing\n",
        " parameters, their state *.c_attn.* split by heads (axis 2 of its label)\n",
        " parameters, their state *.c_proj.* split, within hosts by heads, nothing\n",
        "heads over devices",
        "\n 1 0 0.0% 1 25.0%\n", /* of its host's heads */
        "\n 2 129 50.2% 4 100.0%\n"};
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *p = make_mesh(), *back;
    size_t length, again;
    CHECK_OK(mt_plan_check(p, &err), err);
    CHECK(!mt_plan_is_flat(p), "it is over hosts");
    char *text = mt_plan_text(p, &length);
    CHECK(strstr(text, "\"over\": \"host\", \"sizes\": [8, 2]"), "a number for each host: %s", text);
    CHECK(strstr(text, "\"inner\": [\"heads\", \"\"]"), "%s", text);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK(back->splits[0].sizes[0] == 8 && back->splits[0].sizes[1] == 8 && back->splits[0].sizes[2] == 2, "by rank");
    CHECK_EQ(mt_plan_split_sum(back, &back->splits[0]), 10);
    CHECK(mt_decisions_same_rows(&p->decisions, &back->decisions), "rows");
    back->decisions.rules[1].levels.inner = (const char *const[]){"heads", "heads"};
    CHECK(!mt_decisions_same_rows(&p->decisions, &back->decisions), "another row");
    mt_plan_free(back);
    CHECK_OK(mt_plan_copy(p, &back, &err), err);
    char *second = mt_plan_text(back, &again);
    CHECK_TEXT(second, text);
    mt_plan_free(back);
    struct mt_plan *flat = make_plan();
    CHECK(mt_plan_is_flat(flat), "it is over ranks");
    mt_plan_free(flat);
    free(text), free(second);
    p->prediction = NULL, p->cluster_hash[0] = 0;
    check_printed(p, lines, sizeof lines / sizeof *lines);
}

static void test_refused_mesh(void) {
    static const struct edit edits[] = {
        {"[8, 2]", "[8, 8, 2]", "p: splits[0].sizes: has 3 numbers, but there are 2 hosts: a split over hosts has one"},
        {"[8, 2]", "[8, 3]", "p: splits[0].sizes: sums to 11, but the job's global batch is 10"},
        {"[8, 2]", "[8, -2]", "p: splits[0].sizes[1]: "},
        {"\"over\": \"host\"", "\"over\": \"rack\"", "p: splits[0].over: "},
        {"\"over\": \"host\", \"sizes\": [8, 2]", "\"over\": \"device\", \"sizes\": [8, 2, 10]",
         "p: splits[0].over: samples are divided over all ranks, or over hosts"},
        {"[4, 4, 2]", "[4, 2, 2]", "p: micro_batch[1]: is 2, but rank 0, which has the same samples, has 4"},
        {"\"split\": \"batch\", \"inner\": \"heads\"", "\"split\": \"heads\", \"inner\": \"heads\"",
         "p: rules[0].split: \"heads\" is over devices, but with \"inner\" it must be over hosts"},
        {"\"inner\": \"heads\"", "\"inner\": \"batch\"",
         "p: rules[0].inner: \"batch\" is over hosts, but must be over devices"},
        {"\"inner\": \"heads\"", "\"inner\": \"storage:vocab\"",
         "p: rules[0].inner: \"storage:vocab\" is over all ranks, but must be over devices"},
        {"\"inner\": \"heads\"", "\"inner\": \"tails\"", "p: rules[0].inner: no split has the name \"tails\""},
        {"\"inner\": \"heads\"", "\"inner\": 3", "p: rules[0].inner: "},
        {"\"inner\": \"heads\", ", "", "p: rules[0].inner_occurrence: there is no \"inner\""},
        {"\"inner_occurrence\": 2", "\"inner_occurrence\": 0", "p: rules[0].inner_occurrence: "},
        {"\"inner\": [\"heads\", \"\"]", "\"inner\": [\"heads\", \"\", \"\"]",
         "p: rules[1].inner: lists 3 splits, but must list one for each of 2 hosts, or be one"},
        {"\"layout\": \"split\", \"split\": \"heads\"", "\"layout\": \"replicated\", \"split\": \"heads\"",
         "p: storage[0].split: a replicated parameter has no split"},
        {"\"layout\": \"split\", \"split\": \"heads\"", "\"layout\": \"split\", \"split\": \"batch\"",
         "p: storage[0].split: parameters have no samples"},
        {"\"name\": \"heads\", \"label\": \"heads\"", "\"name\": \"heads\", \"label\": \"batch\"",
         "p: splits[2].sizes: those of host \"big\" sum to 4, but \"batch\" gives it 8 samples"}};
    check_refused(make_mesh(), edits, sizeof edits / sizeof edits[0]);
    struct mt_plan *p = make_mesh();
    struct mt_err err = MT_ERR_INIT;
    for (int r = 0; r < 3; r++) p->ranks[r].host = "";
    CHECK_EQ(mt_plan_check(p, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "splits[0].over: is \"host\", but the plan's ranks have no hosts");
    mt_plan_free(p);
}

/* Plans for GPUs say so; a plan that says nothing is for CPUs, as all were once. */
static void test_devices(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *p = make_plan(), *back;
    size_t length;
    char *text = mt_plan_text(p, &length);
    CHECK(!strstr(text, "\"device\"") && !strstr(text, "reserved_bytes") && !strstr(text, "communicator_bytes"),
          "a plan for CPUs: %s", text);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_TEXT(back->device, "cpu");
    mt_plan_free(back);
    free(text);
    p->device = "cuda";
    p->ranks[1].reserved_bytes = 567869440;
    p->memory[2].communicator_bytes = 544000000;
    text = mt_plan_text(p, &length);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_TEXT(back->device, "cuda");
    CHECK(back->ranks[1].reserved_bytes == 567869440 && !back->ranks[0].reserved_bytes, "reserved");
    CHECK(back->memory[2].communicator_bytes == 544000000 && !back->memory[0].communicator_bytes, "communicators");
    CHECK_EQ(back->memory[1].window_bytes, 4096);
    CHECK_EQ(mt_plan_needs_bytes(back, 2), 544002002 + 4096);
    static const char *const lines[] = {
        "NCCL its communicators take up to 519 MiB beside the arena (rank 2), by public figures\n"};
    struct mt_plan *printed;
    CHECK_OK(mt_plan_copy(back, &printed, &err), err);
    check_printed(printed, lines, sizeof lines / sizeof *lines);
    mt_plan_free(back);
    char *changed = edited(text, "\"device\": \"cuda\"", "\"device\": \"abacus\"");
    CHECK_EQ(mt_plan_parse("p", changed, strlen(changed), &back, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "p: device: \"abacus\" must be \"cpu\" or \"cuda\"");
    free(changed);
    free(text);
    mt_plan_free(p);
}

/* The largest plan that there may be, every other rank idle, reads, writes and prints. */
static void test_largest(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *p = mt_plan_new(MT_PLAN_MOST_RANKS), *back;
    int64_t *sizes = mt_new(&p->arena, int64_t, p->nranks);
    p->made_by = "motley test", p->model = "gpt2:layers=2", p->job.seq = 64;
    memset(p->cluster_hash, 'c', 32);
    memset(p->model_hash, 'a', 32);
    memset(p->program_hash, '0', 32);
    p->job.batch = p->nplaces = p->nranks / 2;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 1);
    p->nsplits = 1;
    p->splits[0] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = sizes};
    p->decisions.nrules = 1, p->decisions.rules = mt_new(&p->arena, struct mt_rule_row, 1);
    p->decisions.rules[0] = (struct mt_rule_row){.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = "batch"};
    p->prediction = mt_new(&p->arena, struct mt_plan_prediction, 1);
    *p->prediction =
        (struct mt_plan_prediction){.step_s = 1, .times = mt_new(&p->arena, struct mt_plan_time, p->nranks)};
    for (int r = 0; r < p->nranks; r++) {
        p->ranks[r].host = mt_arena_printf(&p->arena, "n%d", r / 8);
        sizes[r] = p->micro[r] = r % 2;
        if (r % 2) p->order[r / 2] = p->nranks - r;
    }
    for (int r = 0; r < p->nplaces / 2; r++) { /* in any order */
        int other = p->order[r];
        p->order[r] = p->order[p->nplaces - 1 - r], p->order[p->nplaces - 1 - r] = other;
    }
    for (int i = 0; i + 1 < p->nplaces; i += 2) {
        int other = p->order[i];
        p->order[i] = p->order[i + 1], p->order[i + 1] = other;
    }
    mt_plan_explain_idle(p, NULL, "slower with it");
    size_t length;
    CHECK_OK(mt_plan_check(p, &err), err);
    char *text = mt_plan_text(p, &length);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_TEXT(back->hash, p->hash);
    CHECK_EQ(back->prediction->nidle, p->nranks / 2);
    mt_plan_drop_idle(back);
    CHECK_OK(mt_plan_check(back, &err), err);
    CHECK(back->nranks == p->nplaces && back->nplaces == p->nplaces, "dropped");
    for (int i = 0; i < back->nplaces; i++) CHECK_EQ(back->order[i], p->order[i] / 2);
    CHECK_TEXT(back->ranks[back->nranks - 1].host, p->ranks[p->nranks - 1].host);
    mt_plan_free(back);
    free(text);
    static const char *const lines[] = {
        "\n 0 .. 16382 n0 .. n2047 0 0 0.0% idle 0 B 0 B 8192\n", "\n 0 .. 16382 slower with it - 8192\n",
        " 27 25 31 29 35 33 39 37 43 41 47 45 51 49 55 53 59 57 63 61 ... (8192 ranks)\n", "\n 0 .. 16382 idle 8192\n"};
    check_printed(p, lines, sizeof lines / sizeof *lines);
}

int main(void) {
    test_round_trip();
    test_devices();
    test_order();
    test_refusals();
    test_refused_order();
    test_mesh();
    test_refused_mesh();
    test_print();
    test_print_idle();
    test_print_reasons();
    test_print_many();
    test_largest();
    test_match();
    return 0;
}
