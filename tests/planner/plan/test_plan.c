/* The plan document: a round trip by bytes, edits that are seen, orders and meshes of ranks, the largest plan, and
 * matching processes to ranks. */
#include <unistd.h>

#include "tests/planner/plan/plans.h"

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

/* Plans for GPUs say so; a plan that names no device is for CPUs. */
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
    test_mesh();
    test_largest();
    test_match();
    return 0;
}
