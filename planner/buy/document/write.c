/* Write a purchase document. Its hash is over the canonical text without the hash. */
#include "kernels/base/text/document.h"
#include "kernels/base/text/json.h"
#include "planner/buy/document/members.h"

static void put(const void *object, enum members_of of, struct mt_json_out *out) {
    for (int i = 0; i < mt_purchase_members[of].count; i++) {
        const struct member *m = &mt_purchase_members[of].items[i];
        const void *at = (const char *)object + m->at;
        switch (m->type) {
        case MEMBER_TEXT: mt_json_put_string(out, m->key, *(const char *const *)at); break;
        case MEMBER_REAL: mt_json_put_real(out, m->key, *(const double *)at); break;
        case MEMBER_INT: mt_json_put_int(out, m->key, *(const int *)at); break;
        case MEMBER_INT64: mt_json_put_int(out, m->key, *(const int64_t *)at); break;
        case MEMBER_BOOL: mt_json_put_bool(out, m->key, *(const bool *)at); break;
        }
    }
}

static void put_inline(const char *key, const void *object, enum members_of of, struct mt_json_out *out) {
    mt_json_open_inline(out, key, '{');
    put(object, of, out);
    mt_json_close(out);
}

static void put_row(const char *key, const struct mt_purchase *p, const struct mt_purchase_row *row,
                    struct mt_json_out *out) {
    mt_json_open(out, key, '{');
    put(row, OF_ROW, out);
    mt_json_put_ints(out, "counts", row->counts, p->nitems);
    mt_json_open(out, "jobs", '[');
    for (int j = 0; j < p->njobs; j++) put_inline(NULL, &row->jobs[j], OF_JOB_ROW, out);
    mt_json_close(out);
    mt_json_close(out);
}

static void put_lists(const struct mt_purchase *p, struct mt_json_out *out) {
    mt_json_open(out, "items", '[');
    for (int i = 0; i < p->nitems; i++) put_inline(NULL, &p->items[i], OF_ITEM, out);
    mt_json_close(out);
    mt_json_open(out, "excluded", '[');
    for (int i = 0; i < p->nexcluded; i++) put_inline(NULL, &p->excluded[i], OF_EXCLUDED, out);
    mt_json_close(out);
    mt_json_open(out, "jobs", '[');
    for (int j = 0; j < p->njobs; j++) {
        mt_json_open(out, NULL, '{');
        put(&p->jobs[j], OF_JOB, out);
        mt_job_write(&p->jobs[j].job, "job", out);
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_open(out, "rows", '[');
    for (int i = 0; i < p->nrows; i++) put_row(NULL, p, &p->rows[i], out);
    mt_json_close(out);
    mt_json_open(out, "next", '[');
    for (int i = 0; i < p->nnext; i++) {
        mt_json_open(out, NULL, '{');
        put(&p->next[i], OF_NEXT, out);
        put_row("row", p, &p->next[i].row, out);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_purchase(const void *document, const char *hash, struct mt_json_out *out) {
    const struct mt_purchase *p = document;
    mt_json_out_init(out);
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "format", MT_PURCHASE_FORMAT);
    mt_json_put_int(out, "version", MT_PURCHASE_VERSION);
    if (hash) mt_json_put_string(out, "hash", hash);
    put(p, OF_PURCHASE, out);
    put_inline("owned", &p->owned, OF_OWNED, out);
    put_inline("limits", &p->limits, OF_LIMITS, out);
    put_lists(p, out);
    mt_json_close(out);
}

void mt_purchase_hash(const struct mt_purchase *purchase, char hash[33]) {
    mt_document_hash(purchase, write_purchase, hash);
}

char *mt_purchase_text(struct mt_purchase *purchase, size_t *length) {
    return mt_document_text(purchase, write_purchase, purchase->hash, length);
}

enum mt_status mt_purchase_write(struct mt_purchase *purchase, const char *path, struct mt_err *err) {
    return mt_document_write(purchase, write_purchase, purchase->hash, path, err);
}
