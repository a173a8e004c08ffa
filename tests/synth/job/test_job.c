/* The job: learning rates worked out by hand, a round trip, and refusals by name. */
#include "synth/job/job.h"

#include "tests/check.h"

static void test_rates(void) {
    struct mt_job job;
    mt_job_default(&job);
    job.steps = 110;
    job.optimizer.lr = 1;
    job.optimizer.lr_min = 0.1;
    job.optimizer.warmup = 10;
    const struct {
        enum mt_schedule_kind schedule;
        int64_t step;
        double rate;
    } known[] = {{MT_LR_COSINE, 1, 0.1},   {MT_LR_COSINE, 10, 1},
                 {MT_LR_COSINE, 60, 0.55}, {MT_LR_COSINE, 35, 0.86819805153394638}, /* 0.1 + 0.45 (1 + sqrt 1/2) */
                 {MT_LR_COSINE, 110, 0.1}, {MT_LR_COSINE, 500, 0.1},
                 {MT_LR_LINEAR, 5, 0.5},   {MT_LR_LINEAR, 60, 0.55},
                 {MT_LR_LINEAR, 110, 0.1}, {MT_LR_CONSTANT, 5, 0.5},
                 {MT_LR_CONSTANT, 60, 1},  {MT_LR_CONSTANT, 500, 1}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        job.optimizer.schedule = known[i].schedule;
        CHECK_NEAR(mt_job_lr(&job, known[i].step), known[i].rate, 1e-14);
    }
    job.optimizer.warmup = job.steps; /* nothing but warm-up */
    job.optimizer.schedule = MT_LR_COSINE;
    CHECK_NEAR(mt_job_lr(&job, 55), 0.5, 1e-15);
    job.optimizer.warmup = 0;
    job.steps = 1;
    CHECK_NEAR(mt_job_lr(&job, 1), 0.1, 0);
}

static enum mt_status read_text(const char *text, struct mt_job *job, struct mt_err *err) {
    struct mt_json_doc doc;
    struct mt_json at;
    CHECK_OK(mt_json_parse("p", text, strlen(text), &doc, err), *err);
    CHECK_OK(mt_json_get(doc.root, "job", &at, err), *err);
    enum mt_status st = mt_job_read(at, job, err);
    mt_json_release(&doc);
    return st;
}

static void round_trip(const struct mt_job *job, char *text, size_t size) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_job_write(job, "job", &out);
    mt_json_close(&out);
    CHECK(out.length < size, "room");
    memcpy(text, out.text, out.length + 1);
    mt_json_out_release(&out);
}

static void test_round_trip(void) {
    char first[2000], second[2000];
    struct mt_err err = MT_ERR_INIT;
    for (int kind = 0; kind < MT_NOPTIMIZERS; kind++)
        for (int schedule = 0; schedule < MT_NSCHEDULES; schedule++) {
            struct mt_job job, back;
            mt_job_default(&job);
            job.batch = 120, job.seq = 64, job.steps = 7, job.precision = MT_BF16, job.dropout = 0.1;
            job.seed = INT64_MAX;
            job.optimizer.kind = (enum mt_optimizer_kind)kind;
            job.optimizer.schedule = (enum mt_schedule_kind)schedule;
            job.optimizer.beta2 = 0.99, job.optimizer.nesterov = true, job.optimizer.lr = 6e-4;
            round_trip(&job, first, sizeof first);
            CHECK_OK(read_text(first, &back, &err), err);
            CHECK_EQ(back.seed, job.seed);
            CHECK_EQ(back.optimizer.kind, kind);
            CHECK_EQ(back.optimizer.schedule, schedule);
            round_trip(&back, second, sizeof second);
            CHECK_TEXT(second, first);
        }
}

/* Every precision comes back; f16 has a scale for its loss, the others may. */
static void test_precisions(void) {
    static const char *const names[] = {"f64", "f32", "tf32", "bf16", "f16"};
    static const enum mt_type types[] = {MT_F64, MT_F32, MT_F32, MT_BF16, MT_F16};
    for (int p = 0; p < 5; p++)
        for (int scaled = p == 4; scaled < 2; scaled++) {
            char text[2000];
            struct mt_job job, back;
            struct mt_err err = MT_ERR_INIT;
            mt_job_default(&job);
            CHECK(mt_job_set_precision(&job, names[p]), "%s", names[p]);
            if (scaled) job.loss_scale = 0x1p-3, job.loss_scale_interval = 17;
            round_trip(&job, text, sizeof text);
            CHECK_OK(read_text(text, &back, &err), err);
            CHECK(back.precision == types[p] && back.tf32 == (p == 2), "%s", names[p]);
            CHECK_TEXT(mt_job_precision(&back), names[p]);
            CHECK(back.loss_scale == job.loss_scale && back.loss_scale_interval == job.loss_scale_interval, "%s", text);
            CHECK(!!strstr(text, "loss_scale") == scaled, "%s", text);
        }
    struct mt_job job;
    mt_job_default(&job);
    CHECK(!mt_job_set_precision(&job, "i32") && !mt_job_set_precision(&job, "fp16"));
}

/* Said only where it is allowed, so that plans of old read as they did. */
static void test_any_order(void) {
    for (int any = 0; any < 2; any++) {
        char text[2000];
        struct mt_job job, back;
        struct mt_err err = MT_ERR_INIT;
        mt_job_default(&job);
        CHECK(!job.any_order);
        job.any_order = any;
        round_trip(&job, text, sizeof text);
        CHECK(!!strstr(text, "\"any_order\": true") == any && !!strstr(text, "any_order") == any, "%s", text);
        CHECK_OK(read_text(text, &back, &err), err);
        CHECK_EQ(back.any_order, any);
    }
}

static void replace(char *text, const char *from, const char *to) {
    char *at = strstr(text, from);
    CHECK(at, "%s", from);
    char rest[2000];
    strcpy(rest, at + strlen(from));
    strcpy(at, to);
    strcat(at, rest);
}

static void test_refusals(void) {
    static const struct {
        const char *from, *to, *message;
    } edits[] = {
        {"\"batch\": 8", "\"batch\": 0", "p: job.batch: is 0, but must be from 1"},
        {"\"steps\": 1000", "\"steps\": 2.5", "p: job.steps: must be a whole number, not 2.5"},
        {"\"precision\": \"f32\"", "\"precision\": \"i32\"", "p: job.precision: \"i32\" is not known here"},
        {"\"precision\": \"f32\"", "\"precision\": \"f16\"", "p: job: loss_scale: is none, but f16"},
        {"\"seed\"", "\"loss_scale\": 3, \"loss_scale_interval\": 5, \"seed\"",
         "loss_scale: is 3, but must be a power"},
        {"\"seed\"", "\"loss_scale\": 33554432, \"loss_scale_interval\": 5, \"seed\"", "from 2^-14 to 2^24"},
        {"\"seed\"", "\"loss_scale\": 2, \"loss_scale_interval\": 0, \"seed\"", "loss_scale_interval: is 0"},
        {"\"seed\"", "\"loss_scale\": 2, \"seed\"", "has no \"loss_scale_interval\""},
        {"\"seed\"", "\"any_order\": 1, \"seed\"", "p: job.any_order: must be true or false"},
        {"\"dropout\": 0", "\"dropout\": 1", "p: job: dropout: is 1, but must be at least 0 and below 1"},
        {"\"lr\": 0.001", "\"lr\": 0", "p: job: optimizer.lr: is 0, but must be from 1.18e-38"},
        {"\"lr\": 0.001", "\"lr\": 1e39", "lr: is 1e+39, but must be from 1.18e-38 to 3.4e+38, the range of f32"},
        {"\"eps\": 1e-08", "\"eps\": 1e-50", "optimizer.eps: is 1e-50, but must be from 1.18e-38"},
        {"\"weight_decay\": 0.1", "\"weight_decay\": 1e39", "optimizer.weight_decay: is 1e+39, but must be 0, or"},
        {"\"clip\": 1", "\"clip\": 1e300", "optimizer.clip: is 1e+300, but must be 0, or from"},
        {"\"lr_min\": 0.0001", "\"lr_min\": 0.1", "p: job: optimizer.lr_min: is 0.1, above the learning rate"},
        {"\"warmup\": 0", "\"warmup\": 1001", "p: job: optimizer.warmup: is 1001, but must be from 0 to 1000"},
        {"\"beta2\": 0.95", "\"beta2\": 1", "optimizer.beta2: is 1"},
        {"\"kind\": \"adamw\"", "\"kind\": \"sgd\"", "p: job.optimizer: has no \"momentum\""},
        {"\"schedule\": \"cosine\"", "\"schedule\": \"constant\"", "p: job.optimizer: unknown key \"lr_min\""},
        {"\"seed\": 1337", "\"seed\": -1", "p: job.seed: is -1"},
        {"\"clip\": 1", "\"clip\": 1, \"clap\": 1", "p: job.optimizer: unknown key \"clap\""}};
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char text[2100];
        struct mt_job job;
        struct mt_err err = MT_ERR_INIT;
        mt_job_default(&job);
        round_trip(&job, text, 2000);
        replace(text, edits[i].from, edits[i].to);
        CHECK_EQ(read_text(text, &job, &err), MT_EINPUT);
        CHECK(strstr(err.text, edits[i].message), "\"%s\", not \"%s\"", err.text, edits[i].message);
    }
}

/* A rate must be in the range of the type that updates are computed in. */
static void test_range(void) {
    static const struct {
        const char *precision;
        double lr;
        bool taken;
    } cases[] = {{"f32", 3e38, true},   {"f32", 1e39, false}, {"tf32", 1e39, false}, {"bf16", 1e39, false},
                 {"f16", 1e39, false},  {"f64", 1e39, true},  {"f64", 1e308, true},  {"f64", INFINITY, false},
                 {"f32", 1e-45, false}, {"f64", 1e-45, true}, {"f64", NAN, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_job job;
        struct mt_err err = MT_ERR_INIT;
        mt_job_default(&job);
        CHECK(mt_job_set_precision(&job, cases[i].precision), "%s", cases[i].precision);
        if (job.precision == MT_F16) job.loss_scale = MT_LOSS_SCALE, job.loss_scale_interval = 1;
        job.optimizer.schedule = MT_LR_CONSTANT;
        job.optimizer.lr = cases[i].lr;
        CHECK_EQ(mt_job_check(&job, &err), cases[i].taken ? MT_OK : MT_EINPUT);
    }
}

int main(void) {
    test_range();
    test_rates();
    test_round_trip();
    test_precisions();
    test_any_order();
    test_refusals();
    return 0;
}
