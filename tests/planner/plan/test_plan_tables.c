/* What people see of a plan: its prediction, idle ranks and why they are, and many equal ranks as one line. */
#include "tests/planner/plan/plans.h"

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

int main(void) {
    test_print();
    test_print_idle();
    test_print_reasons();
    test_print_many();
    return 0;
}
