/* Streams, events, errors, times, memory and the cache of compiled kernels of a GPU. The work is the module's own
 * operators: fill, add, cast and sgd. */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/kernels/cuda/device/work.h"

enum { SKIPPED = 77, SMALL = 1000 };

static void queue(struct mt_stream *on, const struct work *work, double *seconds) {
    const struct mt_backend *backend = mt_device_backend(device, &work->call);
    mt_stream_op(on, backend, &work->call, seconds);
}

/* All of an array on the device is `want`. */
static void check_all(const void *memory, int64_t count, float want) {
    float *host = malloc((size_t)count * sizeof *host);
    CHECK_OK(mt_device_copy_out(device, host, memory, count * (int64_t)sizeof *host, &err), err);
    for (int64_t i = 0; i < count; i++)
        CHECK(host[i] == want, "element %lld is %g, not %g", (long long)i, (double)host[i], (double)want);
    free(host);
}

/* Two streams add to and double one array in turn, through events that are recorded again and again. What is queued
 * late must not run early, so the first piece of work is long. */
static void test_order(void) {
    enum { TURNS = 22, LARGE = 1 << 26 };
    float *x = memory_of(LARGE * 4), *one = memory_of(LARGE * 4);
    static const double clocks_s = 2e-3; /* apart at most, where the host is busy: the order is proven by values */
    static struct work begin, ones, plus, twice;
    static double seconds[2 * TURNS][2];
    make_fill(&begin, x, LARGE, 0);
    make_fill(&ones, one, LARGE, 1);
    make_add(&plus, x, one, x, LARGE);
    make_add(&twice, x, x, x, LARGE);
    queue(stream[0], &plus, NULL); /* kernels are made at their first calls */
    queue(stream[0], &twice, NULL);
    finish(0);
    mt_stream_wait(stream[0], event[1]); /* never recorded: passes */
    queue(stream[0], &begin, NULL);
    queue(stream[0], &ones, NULL);
    double start_s = mt_now_s();
    for (int i = 0; i < 2 * TURNS; i++) {
        int s = i % 2;
        if (i) mt_stream_wait(stream[s], event[!s]);
        queue(stream[s], s ? &twice : &plus, seconds[i]);
        mt_event_record(event[s], stream[s]);
    }
    finish(0);
    finish(1);
    double end_s = mt_now_s();
    check_all(x, LARGE, 0x1p23f - 2); /* x' = 2 (x + 1), 22 times: exact */
    for (int i = 0; i < 2 * TURNS; i++) {
        double *t = seconds[i], before_s = i ? seconds[i - 1][1] : start_s;
        CHECK(t[0] < t[1] && t[1] - t[0] < 0.1, "call %d took %g s", i, t[1] - t[0]);
        CHECK(t[0] > before_s - clocks_s, "call %d begins %g s before the end of the one before", i, before_s - t[0]);
        CHECK(t[1] < end_s + clocks_s, "call %d ends %g s after all", i, t[1] - end_s);
    }
    mt_device_free(device, x);
    mt_device_free(device, one);
}

/* A wait is for the record before it, not for later ones: stream 1 adds before the second record is made. */
static void test_tickets(void) {
    float *x = memory_of(SMALL * 4);
    static struct work first, plus;
    make_fill(&first, x, SMALL, 3);
    make_add(&plus, x, x, x, SMALL);
    queue(stream[0], &first, NULL);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    queue(stream[1], &plus, NULL);
    mt_event_record(event[1], stream[1]);
    mt_stream_wait(stream[0], event[1]);
    queue(stream[0], &plus, NULL);
    mt_event_record(event[0], stream[0]);
    finish(0);
    check_all(x, SMALL, 12);
    finish(1);
    mt_device_free(device, x);
}

/* After an error nothing runs on this stream and on one that waits for it, until both have reported it. */
static void test_error(void) {
    float *x = memory_of(SMALL * 4);
    static struct work before, after, bad, good;
    make_fill(&before, x, SMALL, 1);
    make_fill(&after, x, SMALL, 2);
    make_fill(&good, x, SMALL, 3);
    bad = before;
    bad.tensors[0].type = bad.tensors[1].type = bad.attr.to = MT_F64; /* what a GPU is not asked for */
    bad.call.attr = &bad.attr, bad.call.in = bad.tensors, bad.call.out = bad.tensors + 1;
    bad.call.what = "fill.bad";
    CHECK(!mt_device_backend(device, &bad.call)->supports(&bad.call));
    queue(stream[0], &before, NULL);
    queue(stream[0], &bad, NULL);
    queue(stream[0], &after, NULL);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    queue(stream[1], &after, NULL);
    for (int s = 1; s >= 0; s--) {
        err = (struct mt_err)MT_ERR_INIT;
        CHECK_EQ(mt_stream_sync(stream[s], 30, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, "fill.bad: ", 10), "%s", err.text);
        check_all(x, SMALL, 1);
    }
    err = (struct mt_err)MT_ERR_INIT;
    queue(stream[0], &good, NULL);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    finish(1);
    finish(0);
    check_all(x, SMALL, 3);
    mt_device_free(device, x);
}

/* A stream that is still busy at the deadline is named, with what it does; what it does then still ends well. */
static void test_deadline(void) {
    enum { FILLS = 100 };
    int64_t count = (int64_t)1 << 29;
    if (mt_device_memory_bytes(device) < 6 * count) {
        printf("no room to be slow in: the deadline is not tested\n");
        return;
    }
    float *x = memory_of(4 * count);
    static struct work slow;
    make_fill(&slow, x, count, 5);
    slow.call.what = "fill.slow";
    slow.call.attr = &slow.attr;
    queue(stream[0], &slow, NULL);
    finish(0); /* compiled */
    for (int i = 0; i < FILLS; i++) queue(stream[0], &slow, NULL);
    struct mt_stream_progress sight = mt_stream_query(stream[0]);
    CHECK(sight.what && !strcmp(sight.what, "fill.slow") && !sight.collective, "%s", sight.what ? sight.what : "none");
    CHECK_EQ(mt_stream_sync(stream[0], 0.5e-3, &err), MT_ESTALL);
    CHECK(strstr(err.text, "\"compute\"") && strstr(err.text, "fill.slow"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_OK(mt_stream_sync(stream[0], INFINITY, &err), err);
    struct mt_stream_progress end = mt_stream_query(stream[0]);
    CHECK(!end.what && end.completed >= sight.completed + FILLS - 16 && end.completed > 0, "%llu after %llu",
          (unsigned long long)end.completed, (unsigned long long)sight.completed);
    check_all(x, SMALL, 5);
    mt_device_free(device, x);
}

/* The host runs ahead, and times do not stretch over what it does: they add up to what the work took. */
static void test_seconds(void) {
    enum { FILLS = 64, COUNT = 1 << 26 };
    float *x = memory_of(COUNT * 4);
    static struct work work;
    static double seconds[FILLS][2];
    make_fill(&work, x, COUNT, 1);
    queue(stream[0], &work, NULL);
    finish(0);
    double start_s = mt_now_s(), sum_s = 0;
    for (int i = 0; i < FILLS; i++) queue(stream[0], &work, seconds[i]);
    double queued_s = mt_now_s() - start_s;
    CHECK_EQ(seconds[FILLS - 1][1], 0); /* not yet */
    finish(0);
    double wall_s = mt_now_s() - start_s;
    for (int i = 0; i < FILLS; i++) sum_s += seconds[i][1] - seconds[i][0];
    CHECK(sum_s <= wall_s + 100e-6, "%g s of work in %g s", sum_s, wall_s);
    CHECK(sum_s > 0.5 * wall_s, "%g s of work in %g s, queued in %g s", sum_s, wall_s, queued_s);
    mt_sleep_s(1.2); /* the clocks are tied anew */
    finish(0);
    for (int i = 0; i < 2; i++) {
        double before_s = mt_now_s();
        queue(stream[0], &work, seconds[0]);
        finish(0);
        double after_s = mt_now_s();
        CHECK(seconds[0][0] > before_s - 100e-6 && seconds[0][1] < after_s + 100e-6, "%g s after %g s before",
              seconds[0][0] - before_s, after_s - seconds[0][1]);
    }
    mt_device_free(device, x);
}

/* Each launch sees the clock that its call was queued with, whatever the host does to it afterwards. */
static void test_clock(void) {
    enum { STEPS = 200 };
    float *w = memory_of(SMALL * 4), *m = memory_of(SMALL * 4), *g = memory_of(SMALL * 4), *scale = memory_of(4);
    static struct work fills[4], step;
    struct mt_clock clock = {.seed = 7};
    make_fill(&fills[0], w, SMALL, 0);
    make_fill(&fills[1], m, SMALL, 0);
    make_fill(&fills[2], g, SMALL, -1);
    make_fill(&fills[3], scale, 1, 1);
    for (int i = 0; i < 4; i++) queue(stream[0], &fills[i], NULL);
    step = (struct work){.attr = {.lr_scale = 1}};
    float *in[4] = {w, m, g, scale}, *out[2] = {w, m};
    for (int i = 0; i < 4; i++) step.tensors[i] = tensor_of(in[i], i < 3 ? SMALL : 1);
    for (int i = 0; i < 2; i++) step.tensors[4 + i] = tensor_of(out[i], SMALL);
    step.call = (struct mt_call){.kind = MT_OP_sgd,
                                 .attr = &step.attr,
                                 .nin = 4,
                                 .nout = 2,
                                 .in = step.tensors,
                                 .out = step.tensors + 4,
                                 .clock = &clock};
    float want = 0;
    for (int i = 1; i <= STEPS; i++) {
        clock.step = i, clock.lr = i;
        queue(stream[i / 3 % 2], &step, NULL); /* three on each in turn: streams have clocks of their own */
        mt_event_record(event[i / 3 % 2], stream[i / 3 % 2]);
        if (i % 3 == 2) mt_stream_wait(stream[(i + 1) / 3 % 2], event[i / 3 % 2]);
        want += (float)i;
    }
    clock.lr = 1e9;
    finish(0);
    finish(1);
    check_all(w, SMALL, want);
    for (int i = 0; i < 4; i++) mt_device_free(device, in[i]);
}

/* Copies come after what was queued before them, on all streams, without a sync. */
static void test_copies(void) {
    enum { COUNT = 1 << 26 };
    float *x = memory_of(COUNT * 4), *y = memory_of(COUNT * 4), got;
    static struct work fill, add;
    make_fill(&fill, x, COUNT, 4);
    make_add(&add, x, x, y, COUNT);
    for (int i = 0; i < 20; i++) queue(stream[1], &fill, NULL);
    CHECK_OK(mt_device_copy_out(device, &got, x + COUNT - 1, 4, &err), err);
    CHECK_EQ(got, 4);
    for (int i = 0; i < 20; i++) queue(stream[0], &add, NULL);
    float nine = 9;
    CHECK_OK(mt_device_copy_in(device, x + COUNT - 1, &nine, 4, &err), err); /* not what the sums see */
    CHECK_OK(mt_device_copy_out(device, &got, y + COUNT - 1, 4, &err), err);
    CHECK_EQ(got, 8);
    queue(stream[0], &add, NULL); /* this one does */
    CHECK_OK(mt_device_copy_out(device, &got, y + COUNT - 1, 4, &err), err);
    CHECK_EQ(got, 18);
    mt_device_free(device, x);
    mt_device_free(device, y);
}

static void test_memory(void) {
    static const int64_t sizes[] = {0, 1, 4097, 3 << 20, 100 << 20};
    void *memory[5];
    for (int i = 0; i < 5; i++) {
        memory[i] = memory_of(sizes[i]);
        CHECK_EQ((uintptr_t)memory[i] % 256, 0);
        if (sizes[i] < 2) continue;
        char first = 7, last = 9, back[2];
        CHECK_OK(mt_device_copy_in(device, memory[i], &first, 1, &err), err);
        CHECK_OK(mt_device_copy_in(device, (char *)memory[i] + sizes[i] - 1, &last, 1, &err), err);
        CHECK_OK(mt_device_copy_out(device, back, memory[i], 1, &err), err);
        CHECK_OK(mt_device_copy_out(device, back + 1, (char *)memory[i] + sizes[i] - 1, 1, &err), err);
        CHECK(back[0] == 7 && back[1] == 9);
    }
    for (int i = 0; i < 5; i++) mt_device_free(device, memory[i]);
    mt_device_free(device, NULL);
    void *none;
    CHECK_EQ(mt_device_alloc(device, INT64_MAX / 4, &none, &err), MT_ESYSTEM);
    CHECK(strstr(err.text, "can be had"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    int64_t available = mt_device_memory_bytes(device);
    CHECK(available > 1 << 20 && available < (int64_t)1 << 50, "%lld", (long long)available);
}

static void *fill_in_thread(void *memory) {
    static struct work work;
    make_fill(&work, memory, SMALL, 6);
    queue(stream[1], &work, NULL);
    finish(1);
    return NULL;
}

/* A thread that has not seen the GPU may use it. */
static void test_thread(void) {
    float *x = memory_of(SMALL * 4);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fill_in_thread, x), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_all(x, SMALL, 6);
    mt_device_free(device, x);
}

static void open_all(int nsm) {
    static const char *const names[2] = {"compute", "communication that has a long name"};
    CHECK_OK(mt_device_open("cuda", &device, &err), err);
    if (nsm) CHECK_OK(mt_device_emulate_sms(device, nsm, &err), err);
    for (int s = 0; s < 2; s++) {
        CHECK_OK(mt_stream_new(device, names[s], &stream[s], &err), err);
        CHECK_OK(mt_event_new(device, &event[s], &err), err);
    }
}

static void close_all(void) {
    for (int s = 0; s < 2; s++) {
        mt_stream_free(stream[s]);
        mt_event_free(event[s]);
    }
    mt_device_close(device);
}

/* The folder's only file is damaged, and what is then computed is right and the file as it was. */
static void test_cache(void) {
    char folder[] = "/tmp/motley-cache-XXXXXX", path[512] = "", byte;
    CHECK(mkdtemp(folder));
    setenv("MOTLEY_CACHE", folder, 1);
    long size = 0;
    for (int round = 0; round < 3; round++) { /* fresh, kept, damaged */
        open_all(0);
        float *x = memory_of(SMALL * 4);
        static struct work work, twice;
        make_fill(&work, x, SMALL, round);
        make_add(&twice, x, x, x, SMALL);
        queue(stream[0], &work, NULL);
        queue(stream[0], &twice, NULL);
        finish(0);
        check_all(x, SMALL, 2 * (float)round);
        mt_device_free(device, x);
        close_all();
        int nfiles = 0;
        DIR *entries = opendir(folder);
        CHECK(entries);
        for (struct dirent *entry; (entry = readdir(entries));)
            if (entry->d_name[0] != '.') nfiles++, snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        closedir(entries);
        CHECK_EQ(nfiles, 1);
        FILE *file = fopen(path, "r+");
        CHECK(file && !fseek(file, 0, SEEK_END));
        if (round)
            CHECK_EQ(ftell(file), size);
        else
            size = ftell(file);
        CHECK(size > 1000 && !fseek(file, size / 2, SEEK_SET) && fread(&byte, 1, 1, file) == 1);
        static char whole;
        if (round == 0) whole = byte;
        CHECK_EQ(byte, whole); /* as it was, also after the damage */
        byte = (char)~byte;
        if (round == 1) CHECK(!fseek(file, size / 2, SEEK_SET) && fwrite(&byte, 1, 1, file) == 1);
        CHECK_EQ(fclose(file), 0);
    }
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(folder), 0);
    unsetenv("MOTLEY_CACHE");
}

/* What an eighth of the multiprocessors does takes longer, and events pass between its stream and others. */
static void test_emulate(void) {
    enum { COUNT = 1 << 26, RUNS = 20 };
    double took_s[2];
    for (int part = 0; part < 2; part++) {
        CHECK_OK(mt_device_open("cuda", &device, &err), err);
        int nsm = 0;
        const char *text = strchr(mt_device_describe(device), ',');
        CHECK(text && sscanf(text, ", %d multiprocessors", &nsm) == 1 && nsm > 1, "%s", mt_device_describe(device));
        CHECK_EQ(mt_device_emulate_sms(device, nsm + 1, &err), MT_EINPUT);
        CHECK_EQ(mt_device_emulate_sms(device, 0, &err), MT_EINPUT);
        err = (struct mt_err)MT_ERR_INIT;
        mt_device_close(device);
        open_all(part ? nsm / 8 : 0);
        CHECK(!part == !strstr(mt_device_describe(device), "emulated"), "%s", mt_device_describe(device));
        printf("%s\n", mt_device_describe(device));
        float *x = memory_of(COUNT * 4), *y = memory_of(COUNT * 4);
        static struct work fill, add;
        static double seconds[RUNS][2];
        make_fill(&fill, x, COUNT, 2);
        make_add(&add, x, x, y, COUNT);
        queue(stream[0], &fill, NULL);
        queue(stream[0], &add, NULL);
        finish(0);
        for (int i = 0; i < RUNS; i++) queue(stream[0], &add, seconds[i]);
        mt_event_record(event[0], stream[0]); /* over the border between the two contexts */
        mt_stream_wait(stream[1], event[0]);
        queue(stream[1], &add, NULL);
        finish(1);
        finish(0);
        check_all(y, COUNT, 4);
        took_s[part] = 0;
        for (int i = 0; i < RUNS; i++) took_s[part] += seconds[i][1] - seconds[i][0];
        mt_device_free(device, x);
        mt_device_free(device, y);
        close_all();
    }
    printf("additions on an eighth of the multiprocessors take %.2f times as long\n", took_s[1] / took_s[0]);
    CHECK(took_s[1] > 1.3 * took_s[0], "%g s and %g s", took_s[1], took_s[0]);
}

int main(void) {
    CHECK_EQ(mt_device_open("cuda:x", &device, &err), MT_EINPUT);
    CHECK_EQ(mt_device_open("cuda:", &device, &err), MT_EINPUT);
    err = (struct mt_err)MT_ERR_INIT;
    if (mt_device_open("cuda", &device, &err)) {
        CHECK_EQ(err.status, MT_EMISSING);
        printf("%s\n", err.text);
        return SKIPPED;
    }
    CHECK_EQ(mt_device_threads(device), 1);
    mt_device_close(device);
    CHECK_EQ(mt_device_open("cuda:99", &device, &err), MT_EMISSING);
    CHECK(strstr(err.text, "cuda:99"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    open_all(0);
    test_order();
    test_tickets();
    test_error();
    test_deadline();
    test_seconds();
    test_clock();
    test_copies();
    test_memory();
    test_thread();
    close_all();
    test_cache();
    test_emulate();
    return 0;
}
