/* Plans with one edit that makes them wrong: each is refused, and the message names the place and the reason. */
#include "tests/planner/plan/plans.h"

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

int main(void) {
    test_refusals();
    test_refused_order();
    test_refused_mesh();
    return 0;
}
