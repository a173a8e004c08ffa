/* Jobs from lines. */
#include "planner/buy/catalogue/jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/text/units.h"
#include "synth/models/config/config.h"
#include "synth/models/model.h"

enum { MOST_BYTES = 1 << 20 };

struct taking {
    struct mt_buy_jobs *jobs;
    struct mt_purchase_job *job;
    bool *automatic, *recompute;
    const char *where;
    struct mt_err *err;
};

static enum mt_status refuse(struct taking *t, const char *key, const char *value, const char *must) {
    return mt_fail(t->err, MT_EINPUT, "%s: %s: must be %s, not \"%.60s\"", t->where, key, must, value);
}

static enum mt_status take_model(struct taking *t, const char *key, const char *value) {
    struct mt_config config;
    (void)key;
    t->job->model = value;
    if (!mt_config_is_path(value)) return MT_OK;
    enum mt_status st = mt_config_read(value, &t->jobs->arena, &config, t->err);
    if (st) return mt_err_context(t->err, "%s", t->where);
    t->job->model = config.model;
    if (config.dropout >= 0) t->job->job.dropout = config.dropout;
    return MT_OK;
}

static enum mt_status take_count(struct taking *t, const char *key, const char *value, int64_t *count) {
    if (!mt_units_parse_int(value, count) || *count < 1 || *count > INT32_MAX)
        return refuse(t, key, value, "a whole number above 0");
    return MT_OK;
}
static enum mt_status take_batch(struct taking *t, const char *key, const char *value) {
    return take_count(t, key, value, &t->job->job.batch);
}
static enum mt_status take_seq(struct taking *t, const char *key, const char *value) {
    return take_count(t, key, value, &t->job->job.seq);
}

static enum mt_status take_large(struct taking *t, const char *key, const char *value, double *count) {
    if (!mt_units_parse_count(value, count) || *count < 1 || *count > 1e16)
        return refuse(t, key, value, "a number from 1 to 1e16, as 300G");
    return MT_OK;
}
static enum mt_status take_tokens(struct taking *t, const char *key, const char *value) {
    return take_large(t, key, value, &t->job->tokens);
}
static enum mt_status take_steps(struct taking *t, const char *key, const char *value) {
    return take_large(t, key, value, &t->job->steps);
}

static enum mt_status take_deadline(struct taking *t, const char *key, const char *value) {
    double *seconds = &t->job->deadline_s;
    if (!mt_units_parse_seconds(value, seconds) || !(*seconds > 0) || *seconds > 1e12)
        return refuse(t, key, value, "a time, as 30d or 12h");
    return MT_OK;
}

static enum mt_status take_precision(struct taking *t, const char *key, const char *value) {
    *t->automatic = !strcmp(value, "auto");
    if (*t->automatic || mt_job_set_precision(&t->job->job, value)) return MT_OK;
    return refuse(t, key, value, "auto, " MT_PRECISIONS);
}

static enum mt_status take_optimizer(struct taking *t, const char *key, const char *value) {
    struct mt_optimizer *o = &t->job->job.optimizer;
    for (int k = 0; k < MT_NOPTIMIZERS; k++) {
        if (strcmp(mt_optimizer_names[k], value)) continue;
        o->kind = (enum mt_optimizer_kind)k;
        return MT_OK;
    }
    return refuse(t, key, value, "adamw or sgd");
}

static enum mt_status take_recompute(struct taking *t, const char *key, const char *value) {
    for (int k = 0; k < MT_NRECOMPUTE; k++) {
        if (strcmp(mt_recompute_names[k], value)) continue;
        t->job->job.recompute = (enum mt_recompute)k;
        *t->recompute = true;
        return MT_OK;
    }
    return refuse(t, key, value, "a kind of recomputation, as none");
}

static const struct {
    const char *name;
    enum mt_status (*take)(struct taking *t, const char *key, const char *value);
} keys[] = {{"model", take_model},         {"batch", take_batch},         {"seq", take_seq},
            {"tokens", take_tokens},       {"steps", take_steps},         {"deadline", take_deadline},
            {"precision", take_precision}, {"optimizer", take_optimizer}, {"recompute", take_recompute}};
enum { NKEYS = sizeof keys / sizeof keys[0] };

void mt_buy_job_scale(struct mt_job *job) {
    bool scaled = job->precision == MT_F16;
    job->loss_scale = scaled ? MT_LOSS_SCALE : 0;
    job->loss_scale_interval = scaled ? MT_LOSS_SCALE_INTERVAL : 0;
}

/* The model's canonical text, the sequence, and tokens and steps from each other. */
static enum mt_status complete(struct taking *t) {
    struct mt_purchase_job *job = t->job;
    struct mt_model model;
    enum mt_status st;
    if (!job->model) return mt_fail(t->err, MT_EINPUT, "%s: has no model", t->where);
    if ((st = mt_model_parse(job->model, &model, t->err))) return mt_err_context(t->err, "%s", t->where);
    job->model = mt_model_text(&model, &t->jobs->arena);
    if (!job->job.seq) job->job.seq = mt_model_get(&model, "context");
    if ((job->tokens > 0) == (job->steps > 0))
        return mt_fail(t->err, MT_EINPUT, "%s: must have either tokens or steps", t->where);
    double each = (double)job->job.batch * (double)job->job.seq;
    if (!(job->steps > 0)) job->steps = ceil(job->tokens / each);
    job->tokens = job->steps * each;
    mt_buy_job_scale(&job->job);
    if ((st = mt_job_check(&job->job, t->err))) return mt_err_context(t->err, "%s", t->where);
    return MT_OK;
}

static enum mt_status take_line(const char *line, const char *where, struct mt_buy_jobs *jobs, struct mt_err *err) {
    if (jobs->count == MT_PURCHASE_MOST_JOBS)
        return mt_fail(err, MT_EINPUT, "%s: there are at most %d jobs", where, MT_PURCHASE_MOST_JOBS);
    struct mt_purchase_job *job = &jobs->items[jobs->count];
    struct taking t = {jobs, job, &jobs->automatic[jobs->count], &jobs->recompute[jobs->count], where, err};
    bool given[NKEYS] = {false};
    *job = (struct mt_purchase_job){.model = NULL};
    mt_job_default(&job->job);
    job->job.recompute = MT_RECOMPUTE_NONE;
    *t.automatic = true, *t.recompute = false;
    char *next = mt_arena_strdup(&jobs->arena, line), *word;
    while ((word = strsep(&next, " \t"))) {
        char *value = strchr(word, '=');
        int k = 0;
        if (!*word) continue;
        if (value) *value++ = 0;
        while (k < NKEYS && (!value || strcmp(keys[k].name, word))) k++;
        if (k == NKEYS) {
            mt_fail(err, MT_EINPUT, "%s: \"%.60s\" must be KEY=VALUE", where, word);
            return mt_err_hint(err,
                               "keys: model, batch, seq, tokens or steps, deadline, precision, optimizer, recompute");
        }
        if (given[k]) return mt_fail(err, MT_EINPUT, "%s: has two of %s", where, word);
        given[k] = true;
        enum mt_status st = keys[k].take(&t, keys[k].name, value);
        if (st) return st;
    }
    enum mt_status st = complete(&t);
    if (!st) jobs->count++;
    return st;
}

static enum mt_status check_characters(const char *line, const char *where, struct mt_err *err) {
    for (const char *at = line; *at; at++)
        if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f)
            return mt_fail(err, MT_EINPUT, "%s: has a control character", where);
    return MT_OK;
}

enum mt_status mt_buy_jobs_line(const char *line, struct mt_buy_jobs *jobs, struct mt_err *err) {
    enum mt_status st = check_characters(line, "a job", err);
    if (st) return st;
    return take_line(line, mt_arena_printf(&jobs->arena, "job \"%.200s\"", line), jobs, err);
}

enum mt_status mt_buy_jobs_read(const char *path, struct mt_buy_jobs *jobs, struct mt_err *err) {
    char *data, *line;
    size_t length;
    enum mt_status st = mt_file_read(path, MOST_BYTES, &data, &length, err);
    if (st) return st;
    if (strlen(data) != length) st = mt_fail(err, MT_EINPUT, "%s: is no text: it has zero bytes", path);
    char *at = mt_arena_strdup(&jobs->arena, data);
    free(data);
    int before = jobs->count;
    for (int n = 1; !st && (line = strsep(&at, "\n")); n++) {
        const char *where = mt_arena_printf(&jobs->arena, "%s:%d", path, n);
        size_t end = strcspn(line, "#");
        line[end] = 0;
        if (end && line[end - 1] == '\r') line[end - 1] = 0;
        if (line[strspn(line, " \t")] && !(st = check_characters(line, where, err)))
            st = take_line(line, where, jobs, err);
    }
    if (!st && jobs->count == before) st = mt_fail(err, MT_EINPUT, "%s: has no job", path);
    return st;
}

void mt_buy_jobs_release(struct mt_buy_jobs *jobs) {
    mt_arena_release(&jobs->arena);
    *jobs = (struct mt_buy_jobs){.count = 0};
}
