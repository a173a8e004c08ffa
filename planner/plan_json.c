/* The plan as a document. Its hash is over the canonical text without the hash, so that only meaning counts and not
 * how the file is spaced. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/hash.h"
#include "planner/plan.h"

#define MOST_ROWS 10000

static void write_ranks(const struct mt_plan *p, struct mt_json_out *out) {
    mt_json_open(out, "ranks", '[');
    for (int r = 0; r < p->nranks; r++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "host", p->ranks[r].host);
        mt_json_put_string(out, "class", p->ranks[r].class);
        mt_json_put_real(out, "speed", p->ranks[r].speed);
        mt_json_put_int(out, "memory_bytes", p->ranks[r].memory_bytes);
        mt_json_put_int(out, "state_bytes", p->memory[r].state_bytes);
        mt_json_put_int(out, "arena_bytes", p->memory[r].arena_bytes);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_splits(const struct mt_plan *p, struct mt_json_out *out) {
    mt_json_open(out, "splits", '[');
    for (int s = 0; s < p->nsplits; s++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "name", p->splits[s].name);
        mt_json_put_string(out, "label", p->splits[s].label);
        mt_json_put_int(out, "align", p->splits[s].align);
        mt_json_put_ints(out, "sizes", p->splits[s].sizes, p->nranks);
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_put_ints(out, "micro_batch", p->micro, p->nranks);
}

static void write_rows(const struct mt_plan *p, struct mt_json_out *out) {
    mt_json_open(out, "rules", '[');
    for (int i = 0; i < p->nrules; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "pattern", p->rules[i].pattern);
        mt_json_put_string(out, "rule", p->rules[i].rule);
        if (p->rules[i].split[0]) mt_json_put_string(out, "split", p->rules[i].split);
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_open(out, "storage", '[');
    for (int i = 0; i < p->nstorage; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "pattern", p->storage[i].pattern);
        mt_json_put_string(out, "layout", p->storage[i].layout);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static bool reduces(enum mt_coll_kind kind) {
    return kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER;
}

static void write_collectives(const struct mt_plan *p, struct mt_json_out *out) {
    mt_json_open(out, "gradients", '{');
    mt_json_put_string(out, "sync", p->sync);
    mt_json_put_int(out, "bucket_bytes", p->bucket_bytes);
    mt_json_close(out);
    mt_json_open(out, "collectives", '[');
    for (int i = 0; i < p->ncollectives; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "kind", mt_coll_name(p->collectives[i].kind));
        mt_json_put_string(out, "algorithm", p->collectives[i].algorithm);
        if (reduces(p->collectives[i].kind)) {
            mt_json_put_string(out, "wire", mt_type_name(p->collectives[i].wire));
            mt_json_put_string(out, "acc", mt_type_name(p->collectives[i].acc));
        }
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_plan(const struct mt_plan *p, const char *hash, struct mt_json_out *out) {
    mt_json_out_init(out);
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "format", MT_PLAN_FORMAT);
    mt_json_put_int(out, "version", MT_PLAN_VERSION);
    if (hash) mt_json_put_string(out, "hash", hash);
    mt_json_put_string(out, "made_by", p->made_by);
    mt_json_put_string(out, "model", p->model);
    mt_json_put_string(out, "model_hash", p->model_hash);
    mt_json_put_string(out, "program_hash", p->program_hash);
    mt_json_put_string(out, "cluster_hash", p->cluster_hash);
    mt_json_put_int(out, "parameters", p->parameters);
    mt_json_put_real(out, "flops_per_step", p->flops_per_step);
    mt_job_write(&p->job, "job", out);
    write_ranks(p, out);
    write_splits(p, out);
    write_rows(p, out);
    write_collectives(p, out);
    mt_json_close(out);
}

static void hash_plan(const struct mt_plan *plan, char hash[33]) {
    struct mt_json_out out;
    write_plan(plan, NULL, &out);
    mt_hash_text(out.text, out.length, hash);
    mt_json_out_release(&out);
}

char *mt_plan_text(struct mt_plan *plan, size_t *length) {
    struct mt_json_out out;
    hash_plan(plan, plan->hash);
    write_plan(plan, plan->hash, &out);
    *length = out.length;
    return out.text;
}

enum mt_status mt_plan_write(struct mt_plan *plan, const char *path, struct mt_err *err) {
    size_t length;
    char *text = mt_plan_text(plan, &length);
    enum mt_status st = mt_file_replace(path, text, length, err);
    free(text);
    return st;
}

/* A string that outlives the document, and does nothing to a terminal. */
static enum mt_status take_string(struct mt_plan *p, struct mt_json at, const char *key, const char **value,
                                  struct mt_err *err) {
    enum mt_status st = mt_json_string(at, key, value, err);
    if (st) return st;
    *value = mt_arena_strdup(&p->arena, *value);
    for (const char *c = *value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) return mt_json_fail(at, err, "%s: has a control character", key);
    return MT_OK;
}

static enum mt_status take_hash(struct mt_json at, const char *key, char hash[33], struct mt_err *err) {
    const char *text;
    enum mt_status st = mt_json_string(at, key, &text, err);
    if (st) return st;
    if (strlen(text) > 32) return mt_json_fail(at, err, "%s: must be 32 hexadecimal digits", key);
    strcpy(hash, text);
    return MT_OK;
}

static enum mt_status read_rank(struct mt_plan *p, struct mt_json at, int r, struct mt_err *err) {
    static const char *const keys[] = {"host", "class", "speed", "memory_bytes", "state_bytes", "arena_bytes", NULL};
    struct mt_plan_rank *rank = &p->ranks[r];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = take_string(p, at, "host", &rank->host, err)) ||
        (st = take_string(p, at, "class", &rank->class, err)) ||
        (st = mt_json_real(at, "speed", 0, DBL_MAX, &rank->speed, err)) ||
        (st = mt_json_int(at, "memory_bytes", 0, INT64_MAX, &rank->memory_bytes, err)) ||
        (st = mt_json_int(at, "state_bytes", 0, INT64_MAX, &p->memory[r].state_bytes, err)))
        return st;
    return mt_json_int(at, "arena_bytes", 0, INT64_MAX, &p->memory[r].arena_bytes, err);
}

static enum mt_status read_split(struct mt_plan *p, struct mt_json at, int i, struct mt_err *err) {
    static const char *const keys[] = {"name", "label", "align", "sizes", NULL};
    struct mt_plan_split *split = &p->splits[i];
    enum mt_status st;
    split->sizes = mt_new(&p->arena, int64_t, p->nranks);
    if ((st = mt_json_only(at, keys, err)) || (st = take_string(p, at, "name", &split->name, err)) ||
        (st = take_string(p, at, "label", &split->label, err)) ||
        (st = mt_json_int(at, "align", 1, INT64_MAX, &split->align, err)))
        return st;
    return mt_json_ints(at, "sizes", 0, INT64_MAX, p->nranks, split->sizes, err);
}

static enum mt_status read_rule(struct mt_plan *p, struct mt_json at, int i, struct mt_err *err) {
    static const char *const keys[] = {"pattern", "rule", "split", NULL};
    struct mt_plan_rule *row = &p->rules[i];
    enum mt_status st;
    row->split = "";
    if ((st = mt_json_only(at, keys, err)) || (st = take_string(p, at, "pattern", &row->pattern, err)) ||
        (st = take_string(p, at, "rule", &row->rule, err)))
        return st;
    return mt_json_has(at, "split") ? take_string(p, at, "split", &row->split, err) : MT_OK;
}

static enum mt_status read_storage(struct mt_plan *p, struct mt_json at, int i, struct mt_err *err) {
    static const char *const keys[] = {"pattern", "layout", NULL};
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = take_string(p, at, "pattern", &p->storage[i].pattern, err)))
        return st;
    return take_string(p, at, "layout", &p->storage[i].layout, err);
}

static enum mt_status read_collective(struct mt_plan *p, struct mt_json at, int i, struct mt_err *err) {
    static const char *const sum_keys[] = {"kind", "algorithm", "wire", "acc", NULL};
    static const char *const move_keys[] = {"kind", "algorithm", NULL};
    struct mt_plan_collective *row = &p->collectives[i];
    const char *kinds[MT_NCOLLS], *types[MT_I32];
    for (int k = 0; k < MT_NCOLLS; k++) kinds[k] = mt_coll_name((enum mt_coll_kind)k);
    for (int t = 0; t < MT_I32; t++) types[t] = mt_type_name((enum mt_type)t);
    int kind, wire = p->job.precision, acc = p->job.precision;
    enum mt_status st;
    if ((st = mt_json_enum(at, "kind", kinds, MT_NCOLLS, &kind, err)) ||
        (st = mt_json_only(at, reduces((enum mt_coll_kind)kind) ? sum_keys : move_keys, err)) ||
        (st = take_string(p, at, "algorithm", &row->algorithm, err)))
        return st;
    if (reduces((enum mt_coll_kind)kind) && ((st = mt_json_enum(at, "wire", types, MT_I32, &wire, err)) ||
                                             (st = mt_json_enum(at, "acc", types, MT_I32, &acc, err))))
        return st;
    row->kind = (enum mt_coll_kind)kind;
    row->wire = (enum mt_type)wire;
    row->acc = (enum mt_type)acc;
    return MT_OK;
}

typedef enum mt_status read_row(struct mt_plan *p, struct mt_json at, int i, struct mt_err *err);

/* A list of rows, each read by `read` into its place in the vector that `rows` points to, made here. */
static enum mt_status read_list(struct mt_plan *p, struct mt_json root, const char *key, void *rows, size_t row_bytes,
                                int *count, read_row *read, struct mt_err *err) {
    struct mt_json list, item;
    enum mt_status st;
    if ((st = mt_json_get(root, key, &list, err)) || (st = mt_json_length(list, MOST_ROWS, count, err))) return st;
    void *memory = mt_arena_alloc(&p->arena, (size_t)*count * row_bytes);
    memcpy(rows, &memory, sizeof memory);
    for (int i = 0; i < *count; i++)
        if ((st = mt_json_item(list, i, &item, err)) || (st = read(p, item, i, err))) return st;
    return MT_OK;
}

static enum mt_status read_gradients(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    static const char *const keys[] = {"sync", "bucket_bytes", NULL};
    struct mt_json at;
    enum mt_status st;
    if ((st = mt_json_get(root, "gradients", &at, err)) || (st = mt_json_only(at, keys, err)) ||
        (st = take_string(p, at, "sync", &p->sync, err)))
        return st;
    return mt_json_int(at, "bucket_bytes", 0, INT64_MAX, &p->bucket_bytes, err);
}

static enum mt_status read_members(struct mt_plan *p, struct mt_json root, struct mt_err *err) {
    static const char *const keys[] = {"format",     "version",      "hash",         "made_by",     "model",
                                       "model_hash", "program_hash", "cluster_hash", "parameters",  "flops_per_step",
                                       "job",        "ranks",        "splits",       "micro_batch", "rules",
                                       "storage",    "gradients",    "collectives",  NULL};
    struct mt_json job;
    enum mt_status st;
    int nranks;
    if ((st = mt_json_only(root, keys, err)) || (st = take_hash(root, "hash", p->hash, err)) ||
        (st = take_string(p, root, "made_by", &p->made_by, err)) ||
        (st = take_string(p, root, "model", &p->model, err)) ||
        (st = take_hash(root, "model_hash", p->model_hash, err)) ||
        (st = take_hash(root, "program_hash", p->program_hash, err)) ||
        (st = take_hash(root, "cluster_hash", p->cluster_hash, err)) ||
        (st = mt_json_int(root, "parameters", 0, INT64_MAX, &p->parameters, err)) ||
        (st = mt_json_real(root, "flops_per_step", 0, DBL_MAX, &p->flops_per_step, err)) ||
        (st = mt_json_get(root, "job", &job, err)) || (st = mt_job_read(job, &p->job, err)))
        return st;
    if ((st = read_list(p, root, "ranks", &p->ranks, sizeof *p->ranks, &nranks, read_rank, err)) ||
        (st = read_list(p, root, "splits", &p->splits, sizeof *p->splits, &p->nsplits, read_split, err)) ||
        (st = mt_json_ints(root, "micro_batch", 0, INT64_MAX, p->nranks, p->micro, err)) ||
        (st = read_list(p, root, "rules", &p->rules, sizeof *p->rules, &p->nrules, read_rule, err)) ||
        (st = read_list(p, root, "storage", &p->storage, sizeof *p->storage, &p->nstorage, read_storage, err)) ||
        (st = read_gradients(p, root, err)))
        return st;
    return read_list(p, root, "collectives", &p->collectives, sizeof *p->collectives, &p->ncollectives, read_collective,
                     err);
}

static enum mt_status check_format(struct mt_json root, struct mt_err *err) {
    const char *format;
    int64_t version;
    enum mt_status st = mt_json_string(root, "format", &format, err);
    if (st) return st;
    if (strcmp(format, MT_PLAN_FORMAT))
        return mt_json_fail(root, err, "is a \"%.60s\", not a \"%s\"", format, MT_PLAN_FORMAT);
    if ((st = mt_json_int(root, "version", 1, INT64_MAX, &version, err))) return st;
    if (version == MT_PLAN_VERSION) return MT_OK;
    return mt_json_fail(root, err, "version: is %lld, but this motley knows version %d only", (long long)version,
                        MT_PLAN_VERSION);
}

static enum mt_status read_document(struct mt_json_doc *doc, bool edited, struct mt_plan **plan, struct mt_err *err) {
    struct mt_json ranks;
    struct mt_plan *p = NULL;
    enum mt_status st;
    int nranks;
    if ((st = check_format(doc->root, err)) || (st = mt_json_get(doc->root, "ranks", &ranks, err)) ||
        (st = mt_json_length(ranks, MT_PLAN_MOST_RANKS, &nranks, err)))
        goto out;
    if (!nranks) {
        st = mt_json_fail(ranks, err, "is empty");
        goto out;
    }
    p = mt_plan_new(nranks);
    if ((st = read_members(p, doc->root, err))) goto out;
    if ((st = mt_plan_check(p, err))) {
        mt_err_context(err, "%s", doc->name);
        goto out;
    }
    char hash[33];
    hash_plan(p, hash);
    if (!edited && strcmp(hash, p->hash)) {
        st = mt_fail(err, MT_EINPUT, "%s: hash: does not fit: the plan was changed after it was made", doc->name);
        mt_err_hint(err, "to check an edited plan and sign it: motley plan --check %s -o %s", doc->name, doc->name);
    }
    memcpy(p->hash, hash, sizeof hash);
out:
    if (st)
        mt_plan_free(p);
    else
        *plan = p;
    mt_json_release(doc);
    return st;
}

enum mt_status mt_plan_parse(const char *name, const char *text, size_t length, struct mt_plan **plan,
                             struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    return st ? st : read_document(&doc, false, plan, err);
}

enum mt_status mt_plan_read(const char *path, struct mt_plan **plan, struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_load(path, &doc, err);
    return st ? st : read_document(&doc, false, plan, err);
}

enum mt_status mt_plan_read_edited(const char *path, struct mt_plan **plan, struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_load(path, &doc, err);
    return st ? st : read_document(&doc, true, plan, err);
}
