/* A hash table of what the file had and what this process kept. */
#include "kernels/cuda/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/hash.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"

enum { NBUCKETS = 1024, MOST_ENTRIES = 1 << 20, VERSION = 1 };
static const char format[] = "motley-tuning";

struct entry {
    const char *key, *value;
    double time_s;
    struct entry *next; /* in its bucket */
};

static struct {
    pthread_mutex_t lock;
    struct mt_arena arena;
    struct entry *buckets[NBUCKETS];
    bool loaded;
    bool told; /* that the file cannot be used; once is enough */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct entry **bucket_of(const char *key) {
    return &table.buckets[mt_hash64(key, strlen(key), 0) % NBUCKETS];
}

static struct entry *find(const char *key) {
    struct entry *e = *bucket_of(key);
    while (e && strcmp(e->key, key)) e = e->next;
    return e;
}

static struct entry *put(const char *key, const char *value, double time_s) {
    struct entry *e = find(key);
    if (!e) {
        struct entry **bucket = bucket_of(key);
        e = mt_new(&table.arena, struct entry, 1);
        e->key = mt_arena_strdup(&table.arena, key);
        e->next = *bucket;
        *bucket = e;
    }
    if (!e->value || strcmp(e->value, value)) e->value = mt_arena_strdup(&table.arena, value);
    e->time_s = time_s;
    return e;
}

/* The file's path, and its folder made; false where there can be none. */
static bool file_path(char path[PATH_MAX]) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"MOTLEY_CACHE", ""}, {"XDG_CACHE_HOME", "/motley"}, {"HOME", "/.cache/motley"}};
    const char *root = NULL, *below = "";
    for (size_t i = 0; i < sizeof places / sizeof *places && (!root || !*root); i++)
        root = getenv(places[i].variable), below = places[i].below;
    if (!root || !*root) return false;
    int n = snprintf(path, PATH_MAX, "%s%s/tuning.json", root, below);
    if (n < 0 || n >= PATH_MAX - 8) return false; /* ".lock" must fit too */
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int made = mkdir(path, 0777);
        *slash = '/';
        if (made && errno != EEXIST) return false;
    }
    return true;
}

static void tell(const char *text) {
    if (!table.told) mt_log(MT_LOG_WARN, "%s; measured choices of kernels last as long as this process", text);
    table.told = true;
}

/* Checks every entry, or puts them into the table. */
static enum mt_status walk(struct mt_json entries, bool take, struct mt_err *err) {
    int count;
    enum mt_status st = mt_json_members(entries, MOST_ENTRIES, &count, err);
    for (int i = 0; !st && i < count; i++) {
        const char *key, *value;
        double time_s;
        struct mt_json entry;
        if ((st = mt_json_member(entries, i, &key, &entry, err)) ||
            (st = mt_json_string(entry, "value", &value, err)) ||
            (st = mt_json_real(entry, "time_s", 0, DBL_MAX, &time_s, err)))
            break;
        if (take) put(key, value, time_s);
    }
    return st;
}

/* All of the file, or nothing of it. */
static void load(const char *path) {
    struct mt_json_doc doc;
    struct mt_json entries;
    struct mt_err err = MT_ERR_INIT;
    if (access(path, F_OK)) return;
    enum mt_status st = mt_json_load(path, &doc, &err);
    if (!st) {
        if (!(st = mt_json_format(doc.root, format, VERSION, &err)) &&
            !(st = mt_json_get(doc.root, "entries", &entries, &err)) && !(st = walk(entries, false, &err)))
            st = walk(entries, true, &err);
        mt_json_release(&doc);
    }
    if (st) mt_log(MT_LOG_WARN, "the tuning file is ignored: %s", err.text);
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(struct entry *const *)a)->key, (*(struct entry *const *)b)->key);
}

static void store(const char *path) {
    struct entry **sorted = NULL;
    size_t count = 0, capacity = 0;
    for (int b = 0; b < NBUCKETS; b++)
        for (struct entry *e = table.buckets[b]; e; e = e->next) {
            if (count == capacity) sorted = mt_realloc(sorted, (capacity = capacity * 2 + 64) * sizeof *sorted);
            sorted[count++] = e;
        }
    if (count) qsort(sorted, count, sizeof *sorted, by_key);
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "format", format);
    mt_json_put_int(&out, "version", VERSION);
    mt_json_open(&out, "entries", '{');
    for (size_t i = 0; i < count; i++) {
        mt_json_open_inline(&out, sorted[i]->key, '{');
        mt_json_put_string(&out, "value", sorted[i]->value);
        mt_json_put_real(&out, "time_s", sorted[i]->time_s);
        mt_json_close(&out);
    }
    mt_json_close(&out);
    mt_json_close(&out);
    struct mt_err err = MT_ERR_INIT;
    if (mt_file_replace(path, out.text, out.length, &err)) tell(err.text);
    mt_json_out_release(&out);
    free(sorted);
}

/* Where locks are not to be had (some network folders), two writers may lose an entry, which is measured again. */
static int lock_beside(const char *path) {
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR)
        ;
    return fd;
}

const char *tune_find(const char *key) {
    char path[PATH_MAX];
    pthread_mutex_lock(&table.lock);
    if (!table.loaded && file_path(path)) load(path);
    table.loaded = true;
    const struct entry *e = find(key);
    const char *value = e ? e->value : NULL;
    pthread_mutex_unlock(&table.lock);
    return value;
}

const char *tune_keep(const char *key, const char *value, double time_s, const char *wrong) {
    char path[PATH_MAX];
    pthread_mutex_lock(&table.lock);
    bool on_disk = file_path(path);
    int fd = on_disk ? lock_beside(path) : -1;
    if (on_disk) load(path);
    table.loaded = true;
    struct entry *e = find(key);
    if (!e || (wrong && !strcmp(e->value, wrong))) {
        e = put(key, value, time_s);
        if (on_disk)
            store(path);
        else
            tell("there is no cache folder ($MOTLEY_CACHE names one)");
    }
    const char *kept = e->value;
    if (fd >= 0) close(fd); /* and unlocks */
    pthread_mutex_unlock(&table.lock);
    return kept;
}
