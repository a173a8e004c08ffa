/* run.json comes back as it was written; what contradicts itself is refused. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/run/run.h"
#include "tests/check.h"
#include "tests/lines.h"

static char path[] = "/tmp/motley-run-XXXXXX";

static void fill(struct mt_run_doc *run) {
    mt_run_init(run, 2);
    run->plan_hash = "0123", run->model = "gpt2:layers=1", run->ended = "finished", run->first_step = 11;
    run->tokens_per_step = 96, run->train_s = 1.25, run->tokens_per_s = 307.2, run->flops_per_s = 1e12;
    run->step_s = 0.2125, run->predicted_step_s = 0.25, run->predicted_error = 0.125,
    run->predicted_error_below = 0.0625;
    run->ranks[0] = (struct mt_run_rank){"a",    "cpu, 2 threads", 5,   0.5,     0.25,    0.125,   1,  0.2, 0.0625,
                                         0.0125, 0.1875,           0.5, 1 << 20, 1 << 22, 1 << 21, 64, 132, false};
    run->ranks[1] = (struct mt_run_rank){
        "b", "cpu, 1 thread", 3, 0.1, 1. / 3, 1e-9, 0.5, 0.1, 0.02, 0.1125, 0.1, 0.15, 7, 8, 9, 0, 0, false};
    for (int i = 0; i < 100; i++) mt_run_add_loss(run, 5.5 / (1 + i));
    mt_run_add_val(run, 10, 5.6);
    mt_run_add_val(run, 110, 2.25);
}

static void test_round_trip(void) {
    struct mt_run_doc run, back;
    struct mt_err err = MT_ERR_INIT;
    fill(&run);
    CHECK_OK(mt_run_write(&run, path, &err), err);
    CHECK_OK(mt_run_read(path, &back, &err), err);
    CHECK_TEXT(back.plan_hash, "0123");
    CHECK_TEXT(back.model, "gpt2:layers=1");
    CHECK_TEXT(back.ended, "finished");
    CHECK_TEXT(back.parameter_hash, "");
    CHECK(back.first_step == 11 && back.tokens_per_step == 96 && back.nranks == 2 && back.nvals == 2);
    CHECK(back.train_s == 1.25 && back.tokens_per_s == 307.2 && back.flops_per_s == 1e12);
    CHECK_TEXT(back.ranks[1].device, "cpu, 1 thread");
    CHECK(back.step_s == 0.2125 && back.predicted_step_s == 0.25 && back.predicted_error == 0.125);
    CHECK(back.predicted_error_below == 0.0625);
    CHECK(back.ranks[0].step_compute_s == 0.2 && back.ranks[0].step_comm_s == 0.0625);
    CHECK(back.ranks[1].step_wait_s == 0.1125 && back.ranks[1].predicted_compute_s == 0.1);
    CHECK(back.ranks[1].predicted_wait_s == 0.15);
    CHECK(back.ranks[1].comm_s == 1. / 3 && back.ranks[1].wait_s == 1e-9 && back.ranks[1].peak_rss_bytes == 8);
    CHECK(back.ranks[0].emulated == 1 && back.ranks[1].emulated == 0.5);
    CHECK(back.ranks[0].multiprocessors == 64 && back.ranks[0].all_multiprocessors == 132);
    CHECK(back.ranks[0].samples == 5 && back.ranks[0].compute_s == 0.5 && back.ranks[0].start_rss_bytes == 1 << 21);
    CHECK(back.vals[1].step == 110 && back.vals[1].loss == 2.25);
    CHECK_EQ(back.nlosses, 100);
    for (int i = 0; i < 100; i++) CHECK_NEAR(back.losses[i], 5.5 / (1 + i), 0);
    mt_run_release(&back);
    /* A rank that the plan leaves out. */
    run.nranks = 1;
    mt_run_idle(&run, 0, "c");
    CHECK_OK(mt_run_write(&run, path, &err), err);
    CHECK_OK(mt_run_read(path, &back, &err), err);
    CHECK(back.nranks == 1 && back.ranks[0].idle && back.ranks[0].samples == 5, "idle");
    CHECK_TEXT(back.ranks[0].host, "c");
    mt_run_release(&back);
    run.nranks = 2;
    run.ranks[0].idle = false;
    /* A run that diverged still has a document. */
    run.losses[3] = NAN;
    run.vals[1].loss = INFINITY;
    CHECK_OK(mt_run_write(&run, path, &err), err);
    CHECK_OK(mt_run_read(path, &back, &err), err);
    CHECK(isnan(back.losses[3]) && isnan(back.vals[1].loss) && back.losses[4] == run.losses[4]);
    mt_run_release(&back);
    run.ranks[1].emulated = 1.5;
    CHECK_OK(mt_run_write(&run, path, &err), err);
    CHECK_EQ(mt_run_read(path, &back, &err), MT_EINPUT);
    CHECK(strstr(err.text, "ranks[1].emulated"), "%s", err.text);
    run.ranks[1].emulated = 1;
    run.vals[1].step = 112;
    CHECK_OK(mt_run_write(&run, path, &err), err);
    CHECK_EQ(mt_run_read(path, &back, &err), MT_EINPUT);
    CHECK(strstr(err.text, "validation[1].step"), "%s", err.text);
    run.first_step = INT64_MAX - 50; /* its last step would overflow */
    CHECK_OK(mt_run_write(&run, path, &err), err);
    CHECK_EQ(mt_run_read(path, &back, &err), MT_EINPUT);
    CHECK(strstr(err.text, "first_step: is 92233"), "%s", err.text);
    CHECK(mt_run_read("no-such-folder/run.json", &back, &err) != MT_OK); /* nothing is left to release */
    mt_run_release(&run);
}

/* Going on from step 60 of steps 11 to 110. */
static void test_continue(void) {
    struct mt_run_doc before, run;
    fill(&before);
    for (int64_t step = 0; step <= 120; step += 10) {
        mt_run_init(&run, 1);
        run.first_step = step + 1;
        int64_t lost = mt_run_continue(&run, &before, step);
        bool taken = step > 10;
        CHECK_EQ(lost, step > 110 ? step - 110 : 0);
        CHECK_EQ(run.nlosses, taken ? step - 10 : 0);
        CHECK_EQ(run.first_step, taken ? 11 : step + 1);
        CHECK_EQ(run.nvals, !taken ? 0 : step >= 110 ? 2 : 1);
        for (int i = 0; i < run.nlosses; i++)
            CHECK(i < 100 ? run.losses[i] == before.losses[i] : isnan(run.losses[i]), "%d: %g", i, run.losses[i]);
        mt_run_release(&run);
    }
    mt_run_release(&before);
}

static void test_refusals(void) {
    static const struct {
        const char *text, *reason;
    } cases[] = {{"{}", "format"},
                 {"{\"format\": \"motley-plan\", \"version\": 1}", "motley-plan"},
                 {"{\"format\": \"motley-run\", \"version\": 1}", "version: is 1, but this motley knows version 3"},
                 {"{\"format\": \"motley-run\", \"version\": 3, \"speed\": 3}", "speed"},
                 {"[]", "object"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_run_doc run;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_file_replace(path, cases[i].text, strlen(cases[i].text), &err), err);
        CHECK_EQ(mt_run_read(path, &run, &err), MT_EINPUT);
        CHECK(strstr(err.text, cases[i].reason), "%s", err.text);
    }
}

/* What people see; spaces count as one. */
static void test_print(void) {
    struct mt_run_doc run;
    fill(&run);
    CHECK_TEXT(mt_run_step_text(&run, &run.arena),
               "step 212 ms, predicted 250 ms (-15.0%, below the band of -6% +12%)");
    struct mt_tables doc = MT_TABLES_INIT;
    mt_run_tables(&run, &doc);
    static const char *const lines[] = {"run finished, by", "steps 11 to 110 of 96 tokens", "loss 5.5000 to 0.0550",
                                        "validation 5.6000 after step 10\n 2.2500 after step 110\n",
                                        " 0 a cpu, 2 threads 5 200 ms 188 ms 12.5 ms 500 ms 62.5 ms 2.00 MiB 1.00 MiB"};
    check_lines(&doc, lines, sizeof lines / sizeof *lines);
    run.predicted_step_s = 0;
    CHECK_TEXT(mt_run_step_text(&run, &run.arena), "step 212 ms");
    mt_run_release(&run);
}

int main(void) {
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_round_trip();
    test_continue();
    test_refusals();
    test_print();
    return unlink(path);
}
