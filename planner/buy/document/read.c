/* Read and check a purchase document. */
#include <string.h>

#include "kernels/base/text/json.h"
#include "planner/buy/document/members.h"

enum { MOST_KEYS = 32 };

/* The members of an object, which may have the `others` too (ends with null). */
static enum mt_status take(struct mt_json at, enum members_of of, const char *const *others, void *object,
                           struct mt_arena *arena, struct mt_err *err) {
    const char *keys[MOST_KEYS] = {0};
    const struct members *members = &mt_purchase_members[of];
    int n = 0;
    for (int i = 0; i < members->count; i++) keys[n++] = members->items[i].key;
    while (others && *others) keys[n++] = *others++;
    enum mt_status st = mt_json_only(at, keys, err);
    for (int i = 0; i < members->count && !st; i++) {
        const struct member *m = &members->items[i];
        void *to = (char *)object + m->at;
        int64_t number = 0;
        switch (m->type) {
        case MEMBER_TEXT: st = mt_json_text(at, m->key, arena, to, err); break;
        case MEMBER_REAL: st = mt_json_real(at, m->key, m->least, MT_PURCHASE_MOST, to, err); break;
        case MEMBER_INT:
            st = mt_json_int(at, m->key, (int64_t)m->least, INT32_MAX, &number, err);
            *(int *)to = (int)number;
            break;
        case MEMBER_INT64: st = mt_json_int(at, m->key, (int64_t)m->least, (int64_t)MT_PURCHASE_MOST, to, err); break;
        case MEMBER_BOOL: st = mt_json_bool(at, m->key, to, err); break;
        }
    }
    return st;
}

struct reading {
    struct mt_purchase *purchase;
    struct mt_purchase_row *row; /* of which jobs are read */
};

static enum mt_status read_item(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct mt_purchase *p = ((struct reading *)context)->purchase;
    return take(at, OF_ITEM, NULL, &p->items[index], &p->arena, err);
}

static enum mt_status read_excluded(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct mt_purchase *p = ((struct reading *)context)->purchase;
    return take(at, OF_EXCLUDED, NULL, &p->excluded[index], &p->arena, err);
}

static enum mt_status read_job(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const others[] = {"job", NULL};
    struct mt_purchase *p = ((struct reading *)context)->purchase;
    struct mt_json job;
    enum mt_status st;
    if ((st = take(at, OF_JOB, others, &p->jobs[index], &p->arena, err)) || (st = mt_json_get(at, "job", &job, err)))
        return st;
    return mt_job_read(job, &p->jobs[index].job, err);
}

static enum mt_status read_job_row(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct reading *reading = context;
    return take(at, OF_JOB_ROW, NULL, &reading->row->jobs[index], &reading->purchase->arena, err);
}

static enum mt_status take_row(struct reading *reading, struct mt_json at, struct mt_purchase_row *row,
                               struct mt_err *err) {
    static const char *const others[] = {"counts", "jobs", NULL};
    static const struct mt_json_rows jobs = {"jobs", MT_PURCHASE_MOST_JOBS, sizeof *row->jobs, read_job_row};
    struct mt_purchase *p = reading->purchase;
    int njobs;
    reading->row = row;
    row->counts = mt_new(&p->arena, int64_t, p->nitems);
    enum mt_status st = take(at, OF_ROW, others, row, &p->arena, err);
    if (st || (st = mt_json_ints(at, "counts", 0, MT_PURCHASE_MOST_DEVICES, p->nitems, row->counts, err)) ||
        (st = mt_json_list(at, &jobs, reading, &p->arena, &row->jobs, &njobs, err)))
        return st;
    return njobs == p->njobs ? MT_OK : mt_json_fail(at, err, "jobs: has %d, but there are %d jobs", njobs, p->njobs);
}

static enum mt_status read_row(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct reading *reading = context;
    return take_row(reading, at, &reading->purchase->rows[index], err);
}

static enum mt_status read_next(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const others[] = {"row", NULL};
    struct reading *reading = context;
    struct mt_purchase *p = reading->purchase;
    struct mt_json row;
    enum mt_status st;
    if ((st = take(at, OF_NEXT, others, &p->next[index], &p->arena, err)) || (st = mt_json_get(at, "row", &row, err)))
        return st;
    return take_row(reading, row, &p->next[index].row, err);
}

static enum mt_status read_members(struct mt_purchase *p, struct mt_json root, struct mt_err *err) {
    static const char *const others[] = {"format",   "version", "hash", "owned", "limits", "items",
                                         "excluded", "jobs",    "rows", "next",  NULL};
    static const struct mt_json_rows items = {"items", MT_PURCHASE_MOST_ITEMS, sizeof *p->items, read_item},
                                     excluded = {"excluded", MT_PURCHASE_MOST_ROWS, sizeof *p->excluded, read_excluded},
                                     jobs = {"jobs", MT_PURCHASE_MOST_JOBS, sizeof *p->jobs, read_job},
                                     rows = {"rows", MT_PURCHASE_MOST_ROWS, sizeof *p->rows, read_row},
                                     next = {"next", MT_PURCHASE_MOST_ROWS, sizeof *p->next, read_next};
    struct reading reading = {.purchase = p};
    struct mt_arena *arena = &p->arena;
    struct mt_json owned, limits;
    const char *hash;
    enum mt_status st;
    if ((st = take(root, OF_PURCHASE, others, p, arena, err)) || (st = mt_json_string(root, "hash", &hash, err)) ||
        (st = mt_json_get(root, "owned", &owned, err)) || (st = take(owned, OF_OWNED, NULL, &p->owned, arena, err)) ||
        (st = mt_json_get(root, "limits", &limits, err)) ||
        (st = take(limits, OF_LIMITS, NULL, &p->limits, arena, err)) ||
        (st = mt_json_list(root, &items, &reading, arena, &p->items, &p->nitems, err)) ||
        (st = mt_json_list(root, &excluded, &reading, arena, &p->excluded, &p->nexcluded, err)) ||
        (st = mt_json_list(root, &jobs, &reading, arena, &p->jobs, &p->njobs, err)) ||
        (st = mt_json_list(root, &rows, &reading, arena, &p->rows, &p->nrows, err)) ||
        (st = mt_json_list(root, &next, &reading, arena, &p->next, &p->nnext, err)))
        return st;
    if (strlen(hash) != 32) return mt_json_fail(root, err, "hash: must be 32 hexadecimal digits");
    memcpy(p->hash, hash, sizeof p->hash);
    return MT_OK;
}

static enum mt_status read_document(struct mt_json_doc *doc, struct mt_purchase **purchase, struct mt_err *err) {
    struct mt_purchase *p = mt_purchase_new();
    char hash[33];
    enum mt_status st = mt_json_format(doc->root, MT_PURCHASE_FORMAT, MT_PURCHASE_VERSION, err);
    if (st || (st = read_members(p, doc->root, err))) goto out;
    if ((st = mt_purchase_check(p, err))) {
        mt_err_context(err, "%s", doc->name);
        goto out;
    }
    mt_purchase_hash(p, hash);
    if (strcmp(hash, p->hash)) {
        st = mt_fail(err, MT_EINPUT, "%s: hash: does not fit: the document was changed after it was made", doc->name);
        mt_err_hint(err, "search again with `motley buy`");
    }
out:
    if (st)
        mt_purchase_free(p);
    else
        *purchase = p;
    mt_json_release(doc);
    return st;
}

enum mt_status mt_purchase_parse(const char *name, const char *text, size_t length, struct mt_purchase **purchase,
                                 struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    return st ? st : read_document(&doc, purchase, err);
}

enum mt_status mt_purchase_read(const char *path, struct mt_purchase **purchase, struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_load(path, &doc, err);
    return st ? st : read_document(&doc, purchase, err);
}
