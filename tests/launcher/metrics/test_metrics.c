/* metrics.csv and the event file, read by readers of the test's own; going on after a step; a folder that is not ours.
 */
#include <dirent.h>
#include <stdint.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/metrics/events.h"
#include "launcher/metrics/metrics.h"
#include "tests/check.h"

static char folder[64] = "motley-metrics-XXXXXX";

/* ---- a reader of event files: table-driven checksums, a walk over protobuf's wire format ---- */

static uint32_t table[256];

static uint32_t crc(const uint8_t *data, size_t size) {
    uint32_t c = 0xffffffff;
    while (size--) c = table[(c ^ *data++) & 255] ^ c >> 8;
    c ^= 0xffffffff;
    return (c >> 15 | c << 17) + 0xa282ead8;
}

struct event {
    double wall_s;
    int64_t step;
    char version[32];
    int status; /* of a session log */
    int count;
    char tag[8][32];
    float value[8];
};

static uint64_t varint(const uint8_t **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

static void read_value(const uint8_t *at, const uint8_t *end, struct event *e) {
    int i = e->count++;
    while (at < end) {
        uint64_t key = varint(&at);
        if (key == (1 << 3 | 2)) {
            size_t n = (size_t)varint(&at);
            CHECK(n < sizeof e->tag[i]);
            memcpy(e->tag[i], at, n);
            at += n;
        } else {
            CHECK_EQ(key, 2 << 3 | 5);
            memcpy(&e->value[i], at, 4);
            at += 4;
        }
    }
    CHECK(at == end);
}

static struct event read_event(const uint8_t *at, const uint8_t *end) {
    struct event e = {0};
    while (at < end) {
        uint64_t key = varint(&at), field = key >> 3, wire = key & 7;
        if (field == 1 && wire == 1) {
            memcpy(&e.wall_s, at, 8);
            at += 8;
        } else if (field == 2 && wire == 0) {
            e.step = (int64_t)varint(&at);
        } else {
            CHECK_EQ(wire, 2);
            size_t n = (size_t)varint(&at);
            const uint8_t *inner = at, *stop = at += n;
            if (field == 3) memcpy(e.version, inner, n);
            if (field == 7) {
                CHECK_EQ(varint(&inner), 1 << 3);
                e.status = (int)varint(&inner);
            }
            while (field == 5 && inner < stop) {
                CHECK_EQ(varint(&inner), 1 << 3 | 2);
                size_t size = (size_t)varint(&inner);
                read_value(inner, inner + size, &e);
                inner += size;
            }
        }
    }
    CHECK(at == end);
    return e;
}

/* All events of the folder's `index`-th file of events by age; returns their number. */
static int read_events(int index, struct event *events, int most) {
    char paths[4][512] = {""}, *data;
    int found = 0, count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *d; (d = readdir(dir));)
        if (strstr(d->d_name, "tfevents")) snprintf(paths[found++], sizeof *paths, "%s/%s", folder, d->d_name);
    closedir(dir);
    qsort(paths, (size_t)found, sizeof *paths, (int (*)(const void *, const void *))strcmp);
    CHECK(index < found, "%d", found);
    struct mt_err err = MT_ERR_INIT;
    size_t length, at = 0;
    CHECK_OK(mt_file_read(paths[index], 1 << 20, &data, &length, &err), err);
    const uint8_t *bytes = (const uint8_t *)data;
    while (at < length) {
        uint64_t size;
        uint32_t of_length, of_data;
        CHECK(at + 12 <= length);
        memcpy(&size, bytes + at, 8);
        memcpy(&of_length, bytes + at + 8, 4);
        CHECK_EQ(of_length, crc(bytes + at, 8));
        CHECK(at + 16 + size <= length);
        memcpy(&of_data, bytes + at + 12 + size, 4);
        CHECK_EQ(of_data, crc(bytes + at + 12, size));
        CHECK(count < most);
        events[count++] = read_event(bytes + at + 12, bytes + at + 12 + size);
        at += 16 + size;
    }
    free(data);
    return count;
}

static float scalar(const struct event *e, const char *tag) {
    for (int i = 0; i < e->count; i++)
        if (!strcmp(e->tag[i], tag)) return e->value[i];
    return NAN;
}

/* ---- the tests ---- */

/* The vectors of RFC 3720, B.4. */
static void test_crc(void) {
    uint8_t zeros[32] = {0}, ones[32], up[32];
    memset(ones, 255, sizeof ones);
    for (int i = 0; i < 32; i++) up[i] = (uint8_t)i;
    CHECK_EQ(mt_crc32c(zeros, 32), 0x8a9136aa);
    CHECK_EQ(mt_crc32c(ones, 32), 0x62a8ab43);
    CHECK_EQ(mt_crc32c(up, 32), 0x46dd794e);
    CHECK_EQ(mt_crc32c("123456789", 9), 0xe3069283);
    CHECK_EQ(mt_crc32c_masked("123456789", 9), crc((const uint8_t *)"123456789", 9));
}

static struct mt_metrics_row row(int64_t step) {
    return (struct mt_metrics_row){step, 96 * step, 5 - 0.25 * (double)step, NAN, 1e-3, 0.5, 192};
}

static void expect_csv(const char *want) {
    char path[128], *text;
    size_t length;
    struct mt_err err = MT_ERR_INIT;
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    CHECK_OK(mt_file_read(path, 1 << 20, &text, &length, &err), err);
    CHECK_TEXT(text, want);
    free(text);
}

#define HEADER "step,tokens,loss,validation_loss,learning_rate,step_s,tokens_per_s\n"
#define FIRST HEADER "1,96,4.75,,0.001,0.5,192\n2,192,4.5,4.625,0.001,0.5,192\n"

static void test_begin(void) {
    struct mt_metrics *m;
    struct mt_err err = MT_ERR_INIT;
    struct event e[8];
    CHECK_OK(mt_metrics_open(folder, 0, &m, &err), err);
    expect_csv(HEADER);
    for (int64_t step = 1; step <= 3; step++) {
        struct mt_metrics_row r = row(step);
        mt_metrics_step(m, &r);
        mt_metrics_validation(m, 2, 4.625); /* of the second step alone */
    }
    expect_csv(FIRST);
    mt_metrics_flush(m);
    expect_csv(FIRST "3,288,4.25,,0.001,0.5,192\n");
    struct mt_metrics_row last = row(300);
    last.loss = INFINITY;
    mt_metrics_step(m, &last);
    mt_metrics_close(m);
    expect_csv(FIRST "3,288,4.25,,0.001,0.5,192\n300,28800,inf,,0.001,0.5,192\n");
    CHECK_EQ(read_events(0, e, 8), 5);
    CHECK_TEXT(e[0].version, "brain.Event:2");
    CHECK(e[0].wall_s > 1.7e9 && e[4].wall_s >= e[0].wall_s);
    CHECK_EQ(e[2].step, 2);
    CHECK_EQ(e[2].count, 5);
    CHECK_NEAR(scalar(&e[2], "loss"), 4.5, 0);
    CHECK_NEAR(scalar(&e[2], "validation_loss"), 4.625, 0);
    CHECK_NEAR(scalar(&e[2], "learning_rate"), 1e-3f, 0);
    CHECK_NEAR(scalar(&e[2], "step_s"), 0.5, 0);
    CHECK_NEAR(scalar(&e[2], "tokens_per_s"), 192, 0);
    CHECK_EQ(e[3].count, 4);
    CHECK_EQ(e[4].step, 300);
    CHECK(isinf(scalar(&e[4], "loss")));
}

/* After step 2: later rows go, and so does one that a kill has cut off. */
static void test_go_on(void) {
    struct mt_metrics *m;
    struct mt_err err = MT_ERR_INIT;
    struct event e[8];
    char path[128];
    sleep(1); /* files are in the order of their names, which have seconds */
    CHECK_OK(mt_metrics_open(folder, 2, &m, &err), err);
    expect_csv(FIRST);
    struct mt_metrics_row r = row(3);
    mt_metrics_step(m, &r);
    mt_metrics_close(m);
    expect_csv(FIRST "3,288,4.25,,0.001,0.5,192\n");
    CHECK_EQ(read_events(1, e, 8), 3);
    CHECK_EQ(e[1].status, 1);
    CHECK_EQ(e[1].step, 3);
    CHECK_EQ(e[2].step, 3);
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    CHECK_OK(mt_file_replace(path, FIRST "3,28", strlen(FIRST "3,28"), &err), err);
    CHECK_OK(mt_metrics_open(folder, 5, &m, &err), err);
    mt_metrics_close(m);
    expect_csv(FIRST);
}

static void test_refused(void) {
    struct mt_metrics *m;
    struct mt_err err = MT_ERR_INIT;
    char path[128];
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    CHECK_OK(mt_file_replace(path, "a,b\n1,2\n", 8, &err), err);
    CHECK_EQ(mt_metrics_open(folder, 0, &m, &err), MT_EINPUT);
    CHECK(strstr(err.text, "has other columns") && strstr(err.hint, "move it"), "%s", err.text);
    expect_csv("a,b\n1,2\n");
    CHECK(mt_metrics_open("no/folder", 0, &m, &err));
    mt_metrics_step(NULL, NULL);
    mt_metrics_validation(NULL, 1, 1);
    mt_metrics_close(NULL);
}

int main(void) {
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++) table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82f63b78 : table[i] >> 1;
    }
    CHECK(mkdtemp(folder));
    test_crc();
    test_begin();
    test_go_on();
    test_refused();
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(!system(command));
    return 0;
}
