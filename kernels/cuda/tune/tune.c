/* A hash table of the entries of the file and of this process. */
#include "kernels/cuda/tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "kernels/base/cache.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/text/json.h"
#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "kernels/cuda/jit/jit.h"

enum { NBUCKETS = 1024, MOST_ENTRIES = 1 << 20, VERSION = 2 };
static const char format[] = "motley-tuning";

struct entry {
    const char *key, *value;
    struct tune_facts facts;
    uint64_t import;    /* the last one that gave it */
    struct entry *next; /* in its bucket */
};

static struct {
    pthread_mutex_t lock;
    struct mt_arena arena;
    struct entry *buckets[NBUCKETS];
    unsigned epoch;   /* values that were changed, and keys that imports added */
    uint64_t changes; /* and those that are new */
    uint64_t imports;
    bool loaded;
    bool warned; /* that the file cannot be used */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct entry **bucket_of(const char *key) {
    return &table.buckets[mt_hash64(key, strlen(key), 0) % NBUCKETS];
}

static struct entry *find(const char *key) {
    struct entry *e = *bucket_of(key);
    while (e && strcmp(e->key, key)) e = e->next;
    return e;
}

static struct entry *put(const char *key, const char *value, const struct tune_facts *facts) {
    struct entry *e = find(key);
    if (!e) {
        struct entry **bucket = bucket_of(key);
        e = mt_new(&table.arena, struct entry, 1);
        e->key = mt_arena_strdup(&table.arena, key);
        e->next = *bucket;
        *bucket = e;
    }
    if (e->value && strcmp(e->value, value)) table.epoch++;
    if (!e->value || strcmp(e->value, value)) table.changes++;
    if (!e->value || strcmp(e->value, value)) e->value = mt_arena_strdup(&table.arena, value);
    e->facts = *facts;
    return e;
}

/* The file's path, in a folder that is there; false where there can be none. */
static bool file_path(char path[PATH_MAX]) {
    static const char name[] = "/tuning.json";
    if (!mt_cache_folder(path)) return false;
    size_t used = strlen(path);
    if (used + sizeof name + 8 > PATH_MAX) return false; /* ".lock" must fit too */
    memcpy(path + used, name, sizeof name);
    return true;
}

static void warn_once(const char *text) {
    if (!table.warned) mt_log(MT_LOG_WARN, "%s; measured choices of kernels last as long as this process", text);
    table.warned = true;
}

/* The numbers of an entry; all but the first may be missing. */
static const struct {
    const char *key;
    size_t at;
} fields[] = {{"time_s", offsetof(struct tune_facts, time_s)},
              {"default_s", offsetof(struct tune_facts, default_s)},
              {"vendor_s", offsetof(struct tune_facts, vendor_s)},
              {"error", offsetof(struct tune_facts, error)}};
enum { NFIELDS = sizeof fields / sizeof *fields };

static enum mt_status read_entry(struct mt_json entry, const char **value, struct tune_facts *facts,
                                 struct mt_err *err) {
    static const char *const known[] = {"value", "time_s", "default_s", "vendor_s", "error", NULL};
    enum mt_status st;
    *facts = (struct tune_facts){0};
    if ((st = mt_json_only(entry, known, err)) || (st = mt_json_string(entry, "value", value, err))) return st;
    for (int i = 0; i < NFIELDS && !st; i++)
        if (!i || mt_json_has(entry, fields[i].key))
            st = mt_json_real(entry, fields[i].key, 0, DBL_MAX, (double *)((char *)facts + fields[i].at), err);
    return st;
}

/* In an import, the first text that has a key wins; its value stays for this process, whatever the file says later. */
static void take_entry(const char *key, const char *value, const struct tune_facts *facts, bool import) {
    struct entry *e = find(key);
    if (e && e->import && (!import || e->import == table.imports)) return;
    if (!e && import) table.epoch++; /* what was not found before may be here now */
    e = put(key, value, facts);
    if (import) e->import = table.imports;
}

enum walk { CHECK, LOAD, IMPORT };

/* Check every entry, or put them into the table. */
static enum mt_status walk(struct mt_json entries, const char *prefix, enum walk why, struct mt_err *err) {
    int count;
    enum mt_status st = mt_json_members(entries, MOST_ENTRIES, &count, err);
    for (int i = 0; !st && i < count; i++) {
        const char *key, *value;
        struct tune_facts facts;
        struct mt_json entry;
        if ((st = mt_json_member(entries, i, &key, &entry, err)) || (st = read_entry(entry, &value, &facts, err)))
            break;
        if (strncmp(key, prefix, strlen(prefix)))
            st = mt_json_fail(entry, err, "is of another device, or of other versions");
        else if (why != CHECK)
            take_entry(key, value, &facts, why == IMPORT);
    }
    return st;
}

static enum mt_status check_all(struct mt_json root, const char *prefix, struct mt_err *err) {
    struct mt_json entries;
    enum mt_status st;
    if ((st = mt_json_format(root, format, VERSION, err)) || (st = mt_json_get(root, "entries", &entries, err)))
        return st;
    return walk(entries, prefix, CHECK, err);
}

/* Of a document that was checked. */
static enum mt_status take_all(struct mt_json root, enum walk why, struct mt_err *err) {
    struct mt_json entries;
    enum mt_status st = mt_json_get(root, "entries", &entries, err);
    return st ? st : walk(entries, "", why, err);
}

static void load(const char *path) {
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    if (access(path, F_OK)) return;
    enum mt_status st = mt_json_load(path, &doc, &err);
    if (!st) {
        if (!(st = check_all(doc.root, "", &err))) st = take_all(doc.root, LOAD, &err);
        mt_json_release(&doc);
    }
    if (st) mt_log(MT_LOG_WARN, "the tuning file is ignored: %s", err.text);
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(struct entry *const *)a)->key, (*(struct entry *const *)b)->key);
}

/* Those whose keys begin with `prefix`, in order; the caller's to free. */
static struct entry **sorted_entries(const char *prefix, size_t *count) {
    struct entry **sorted = NULL;
    size_t capacity = 0, length = strlen(prefix);
    *count = 0;
    for (int b = 0; b < NBUCKETS; b++)
        for (struct entry *e = table.buckets[b]; e; e = e->next) {
            if (strncmp(e->key, prefix, length)) continue;
            if (*count == capacity) sorted = mt_realloc(sorted, (capacity = capacity * 2 + 64) * sizeof *sorted);
            sorted[(*count)++] = e;
        }
    if (*count) qsort(sorted, *count, sizeof *sorted, by_key);
    return sorted;
}

static void print(const char *prefix, struct mt_json_out *out) {
    size_t count;
    struct entry **sorted = sorted_entries(prefix, &count);
    mt_json_out_init(out);
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "format", format);
    mt_json_put_int(out, "version", VERSION);
    mt_json_open(out, "entries", '{');
    for (size_t i = 0; i < count; i++) {
        mt_json_open_inline(out, sorted[i]->key, '{');
        mt_json_put_string(out, "value", sorted[i]->value);
        for (int f = 0; f < NFIELDS; f++) {
            double number = *(const double *)((const char *)&sorted[i]->facts + fields[f].at);
            if (!f || number > 0) mt_json_put_real(out, fields[f].key, number);
        }
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_close(out);
    free(sorted);
}

static void store(const char *path) {
    struct mt_json_out out;
    struct mt_err err = MT_ERR_INIT;
    print("", &out);
    if (mt_file_replace(path, out.text, out.length, &err)) warn_once(err.text);
    mt_json_out_release(&out);
}

/* Without a lock (some network file systems have none; a stopped process may hold it), two writers may lose an entry,
 * which is measured again. */
static int lock_beside(const char *path) {
    static const double patience_s = 10, nap_s = 0.01;
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    double end_s = mt_now_s() + patience_s;
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && (errno == EINTR || errno == EWOULDBLOCK) && mt_now_s() < end_s)
        mt_sleep_s(nap_s);
    return fd;
}

/* The table is locked. */
static void load_once(void) {
    char path[PATH_MAX];
    if (!table.loaded && file_path(path)) load(path);
    table.loaded = true;
}

const char *tune_find(const char *key, struct tune_facts *facts) {
    pthread_mutex_lock(&table.lock);
    load_once();
    const struct entry *e = find(key);
    const char *value = e ? e->value : NULL;
    if (e && facts) *facts = e->facts;
    pthread_mutex_unlock(&table.lock);
    return value;
}

/* What is not finite, such as the time of a default that did not run, counts as unknown. */
static struct tune_facts known_facts(const struct tune_facts *facts) {
    struct tune_facts known = *facts;
    for (int f = 0; f < NFIELDS; f++) {
        double *number = (double *)((char *)&known + fields[f].at);
        if (!isfinite(*number)) *number = 0;
    }
    return known;
}

const char *tune_keep(const char *key, const char *value, const struct tune_facts *facts, const char *wrong) {
    char path[PATH_MAX];
    const struct tune_facts known = known_facts(facts);
    pthread_mutex_lock(&table.lock);
    bool on_disk = file_path(path);
    int fd = on_disk ? lock_beside(path) : -1;
    if (on_disk) load(path);
    table.loaded = true;
    struct entry *e = find(key);
    if (!e || (wrong && !strcmp(e->value, wrong))) {
        e = put(key, value, &known);
        if (on_disk)
            store(path);
        else
            warn_once("there is no cache folder ($MOTLEY_CACHE names one)");
    }
    const char *kept = e->value;
    if (fd >= 0) close(fd); /* and unlocks */
    pthread_mutex_unlock(&table.lock);
    return kept;
}

/* ---- between processes ---- */

char *tune_export(const char *prefix, size_t *length) {
    struct mt_json_out out;
    pthread_mutex_lock(&table.lock);
    load_once();
    print(prefix, &out);
    pthread_mutex_unlock(&table.lock);
    *length = out.length;
    return out.text; /* freed as mt_json_out_release would */
}

uint64_t tune_hash(const char *prefix) {
    uint64_t hash = 0;
    size_t count;
    pthread_mutex_lock(&table.lock);
    load_once();
    struct entry **sorted = sorted_entries(prefix, &count);
    for (size_t i = 0; i < count; i++) {
        hash = mt_hash64(sorted[i]->key, strlen(sorted[i]->key) + 1, hash);
        hash = mt_hash64(sorted[i]->value, strlen(sorted[i]->value) + 1, hash);
    }
    pthread_mutex_unlock(&table.lock);
    free(sorted);
    return hash;
}

/* The table is locked. */
static enum mt_status import_checked(struct mt_json_doc *docs, int count, const char *prefix, struct mt_err *err) {
    char path[PATH_MAX];
    bool on_disk = file_path(path);
    int fd = on_disk ? lock_beside(path) : -1;
    enum mt_status st = MT_OK;
    if (on_disk) load(path);
    table.loaded = true;
    uint64_t before = table.changes;
    for (int i = 0; i < count && !st; i++) st = check_all(docs[i].root, prefix, err);
    table.imports++;
    for (int i = 0; i < count && !st; i++) st = take_all(docs[i].root, IMPORT, err);
    if (!st && on_disk && table.changes != before) store(path);
    if (fd >= 0) close(fd); /* and unlocks */
    return st;
}

enum mt_status tune_import(int count, const char *const *texts, const size_t *lengths, const char *prefix,
                           struct mt_err *err) {
    struct mt_json_doc *docs = mt_calloc((size_t)count + 1, sizeof *docs);
    enum mt_status st = MT_OK;
    int parsed = 0;
    for (; parsed < count; parsed++)
        if ((st = mt_json_parse("tuned kernels from another rank", texts[parsed], lengths[parsed], &docs[parsed], err)))
            break;
    pthread_mutex_lock(&table.lock);
    if (!st) st = import_checked(docs, count, prefix, err);
    pthread_mutex_unlock(&table.lock);
    for (int i = 0; i < parsed; i++) mt_json_release(&docs[i]);
    free(docs);
    return st;
}

unsigned tune_epoch(void) {
    pthread_mutex_lock(&table.lock);
    unsigned epoch = table.epoch;
    pthread_mutex_unlock(&table.lock);
    return epoch;
}
