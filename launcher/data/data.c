/* Sources of tokens, and the order in which training reads them. */
#include "launcher/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/number/rng.h"
#include "kernels/base/text/units.h"
#include "launcher/data/documents.h"

/* Random streams of an epoch; they do not collide with those of dropout and initialisation. */
#define STREAM_OFFSET UINT64_C(0x6461746100000000)
#define STREAM_ORDER UINT64_C(0x6f72646500000000)
#define STREAM_PHASE UINT64_C(0x7068617300000000)
#define STREAM_SOURCE UINT64_C(0x0000000100000000) /* between a source and the next */

/* ---- opening sources ---- */

/* A hint for a file that does not exist: what stands before its colon may have been meant as a format. */
static enum mt_status hint_formats(const struct mt_data_spec *spec, struct mt_err *err) {
    char known[200] = "";
    if (spec->format != MT_DATA_BY_NAME || !strchr(spec->text, ':') || access(spec->files[0], F_OK) == 0)
        return err->status;
    for (int f = 0; f < MT_DATA_NFORMATS; f++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", f ? ", " : "", mt_data_format_name((enum mt_data_format)f));
    }
    return mt_err_hint(err, "formats, before a colon, are %s", known);
}

static enum mt_status open_source(const char *flag, const char *text, int64_t vocab, struct mt_documents *documents,
                                  struct mt_arena *arena, struct mt_data_source *source, struct mt_err *err) {
    struct mt_data_spec *spec = &source->spec;
    enum mt_status st = mt_data_spec_parse(flag, text, arena, spec, err);
    if (st) return st;
    source->files = mt_new(arena, struct mt_data_file, spec->nfiles);
    source->start = mt_new(arena, int64_t, spec->nfiles + 1);
    for (int i = 0; i < spec->nfiles; i++) {
        struct mt_data_file *file = &source->files[i];
        if ((st = mt_data_file_open(spec->files[i], spec->format, documents, spec->nfiles > 1, file, err)) ||
            (st = mt_data_file_check(spec->files[i], file, vocab, err)))
            return hint_formats(spec, err);
        source->start[i + 1] = source->start[i] + file->count;
    }
    return MT_OK;
}

static enum mt_status open_sources(const struct mt_data_options *o, struct mt_data *d, struct mt_err *err) {
    const struct mt_data_files *files = o->files;
    struct mt_documents documents;
    enum mt_status st = mt_documents_open(&files->reading, &documents, err);
    if (st) return st;
    for (int s = 0; s < files->ndata && !st; s++)
        st = open_source("--data", files->data[s], o->vocab, &documents, &d->arena, &d->sources[s], err);
    for (int s = 0; s < files->nval && !st; s++)
        st = open_source("--val", files->val[s], o->vocab, &documents, &d->arena, &d->vals[s], err);
    mt_documents_close(&documents);
    return st;
}

struct named {
    const char *name;
    dev_t device;
    ino_t inode;
};

static int by_place(const void *left, const void *right) {
    const struct named *a = left, *b = right;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return (a->inode > b->inode) - (a->inode < b->inode);
}

/* By where a file lies: it may have several names. */
static enum mt_status refuse_twice(const char *flag, const struct mt_data_source *sources, int n,
                                   struct mt_arena *arena, struct mt_err *err) {
    int count = 0, at = 0;
    for (int s = 0; s < n; s++) count += sources[s].spec.nfiles;
    struct named *files = mt_new(arena, struct named, count);
    for (int s = 0; s < n; s++)
        for (int i = 0; i < sources[s].spec.nfiles; i++) {
            struct stat about;
            const char *name = sources[s].spec.files[i];
            if (stat(name, &about)) return mt_fail_errno(err, "%s", name);
            files[at++] = (struct named){name, about.st_dev, about.st_ino};
        }
    qsort(files, (size_t)count, sizeof *files, by_place);
    for (int i = 1; i < count; i++) {
        const char *name = files[i - 1].name, *again = files[i].name;
        if (by_place(&files[i - 1], &files[i])) continue;
        if (strcmp(name, again) != 0)
            mt_fail(err, MT_EINPUT, "%s: %s and %s are one file, given twice", flag, name, again);
        else
            mt_fail(err, MT_EINPUT, "%s: %s is given twice", flag, name);
        if (!strcmp(flag, "--val")) return mt_err_hint(err, "leave one of them out");
        return mt_err_hint(err, "to have more samples of it, give it a weight: \"%.200s=2\"", name);
    }
    return MT_OK;
}

/* A file of --val that lies in --data too, or null. */
static const char *find_shared(const struct mt_data *d) {
    for (int v = 0; v < d->nvals; v++)
        for (int i = 0; i < d->vals[v].spec.nfiles; i++)
            for (int s = 0; s < d->nsources; s++)
                for (int k = 0; k < d->sources[s].spec.nfiles; k++)
                    if (mt_file_same(d->vals[v].spec.files[i], d->sources[s].spec.files[k]))
                        return d->vals[v].spec.files[i];
    return NULL;
}

/* Each source's weight; without any, sources weigh what they hold. */
static enum mt_status weigh(const struct mt_data *d, double *weights, struct mt_err *err) {
    const struct mt_data_source *with = NULL, *without = NULL;
    for (int s = 0; s < d->nsources; s++) {
        const struct mt_data_source *source = &d->sources[s];
        *(source->spec.weight > 0 ? &with : &without) = source;
        weights[s] = source->spec.weight > 0 ? source->spec.weight : (double)d->train[s].count;
    }
    if (!with || !without) return MT_OK;
    mt_fail(err, MT_EINPUT, "--data %.200s: has no weight, but %.200s has one", without->spec.text, with->spec.text);
    return mt_err_hint(err, "give every --data a weight, as \"%.200s=1\", or none: then they weigh what they hold",
                       without->spec.text);
}

/* ---- dividing them ---- */

static enum mt_status divide_train(const struct mt_data *d, struct mt_data_part *part, struct mt_err *err) {
    if (part->count < d->seq + 1) {
        mt_fail(err, MT_EINPUT, "%s: has %lld tokens for training, too few for one window of %lld",
                part->source->spec.text, (long long)part->count, (long long)d->seq + 1);
        return mt_err_hint(err, "use a longer file, or plan with a shorter --seq");
    }
    part->windows = part->count / d->seq - 1;
    if (part->windows < 1) part->windows = 1;
    part->offsets = part->count - part->windows * d->seq;
    if (part->offsets > d->seq) part->offsets = d->seq;
    return MT_OK;
}

static enum mt_status add_val(struct mt_data *d, const struct mt_data_part *part, struct mt_err *err) {
    if (part->count < 2) {
        mt_fail(err, MT_EINPUT, "%s: has %lld tokens for validation, fewer than 2", part->source->spec.text,
                (long long)part->count);
        return mt_err_hint(err, "raise --val-fraction, or set it to 0 for none");
    }
    struct mt_data_part *val = &d->val[d->nval_parts++];
    *val = *part;
    val->windows = (part->count - 1 + d->seq - 1) / d->seq;
    val->windows_before = d->val_windows;
    d->val_windows += val->windows;
    d->val_count += part->count;
    return MT_OK;
}

static struct mt_data_part whole(const struct mt_data_source *source) {
    return (struct mt_data_part){.source = source, .count = source->start[source->spec.nfiles]};
}

static enum mt_status divide(const struct mt_data_options *o, struct mt_data *d, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int s = 0; s < d->nsources && !st; s++) {
        struct mt_data_part all = whole(&d->sources[s]), *train = &d->train[s], rest = all;
        *train = all;
        if (!d->nvals) {
            train->count = (int64_t)((double)all.count * (1 - o->val_fraction));
            rest.first = train->count, rest.count = all.count - train->count;
        }
        st = divide_train(d, train, err);
        if (!st && !d->nvals && o->val_fraction > 0) st = add_val(d, &rest, err);
    }
    for (int s = 0; s < d->nvals && !st; s++) {
        struct mt_data_part all = whole(&d->vals[s]);
        st = add_val(d, &all, err);
    }
    return st;
}

static enum mt_status share(struct mt_data *d, struct mt_err *err) {
    double *weights = mt_new(&d->arena, double, d->nsources), rest = 0;
    enum mt_status st = weigh(d, weights, err);
    for (int s = d->nsources - 1; s >= 0; s--) {
        struct mt_data_part *part = &d->train[s];
        rest += weights[s];
        part->share = (uint64_t)(weights[s] / rest * 0x1p32 + 0.5);
        if (!part->share) part->share = 1;
        part->phase = mt_random_u32(d->seed, STREAM_PHASE, (uint64_t)s);
    }
    return st;
}

/* ---- opening and closing ---- */

/* Of the tokens, wherever they lie. */
static uint64_t hash_files(const struct mt_data_source *source, uint64_t hash) {
    for (int i = 0; i < source->spec.nfiles; i++) {
        const struct mt_data_file *file = &source->files[i];
        const void *tokens = file->bytes   ? (const void *)file->bytes
                             : file->words ? (const void *)file->words
                                           : file->longs;
        size_t width = file->bytes ? sizeof *file->bytes : file->words ? sizeof *file->words : sizeof *file->longs;
        hash = mt_hash64(tokens, (size_t)file->count * width, hash);
    }
    return hash;
}

static void hash_all(struct mt_data *d) {
    d->hash = (uint64_t)d->train[0].count;
    for (int s = 0; s < d->nsources; s++) {
        uint64_t numbers[] = {(uint64_t)d->train[s].count, d->train[s].share};
        if (d->nsources > 1) d->hash = mt_hash64(numbers, sizeof numbers, d->hash);
        d->hash = hash_files(&d->sources[s], d->hash);
    }
    for (int s = 0; s < d->nvals; s++) d->hash = hash_files(&d->vals[s], d->hash);
}

static void log_sources(const struct mt_data *d) {
    char count[MT_UNITS_TEXT];
    double rest = 1;
    for (int s = 0; s < d->nsources && d->nsources > 1; s++) {
        const struct mt_data_part *part = &d->train[s];
        double mine = rest * (double)part->share * 0x1p-32;
        mt_log(MT_LOG_INFO, "data %s: %d file%s, %s tokens for training, %.4g of the samples", part->source->spec.text,
               part->source->spec.nfiles, part->source->spec.nfiles == 1 ? "" : "s",
               mt_units_count((double)part->count, count), mine);
        rest -= mine;
    }
}

static void warn_of_skipped(const struct mt_data_source *sources, int n) {
    for (int s = 0; s < n; s++)
        for (int i = 0; i < sources[s].spec.nfiles; i++) {
            long long skipped = sources[s].files[i].skipped;
            if (skipped)
                mt_log(MT_LOG_WARN, "%s: %lld bad line%s skipped; --bad-lines stop says what is wrong with the first",
                       sources[s].spec.files[i], skipped, skipped == 1 ? "" : "s");
        }
}

void mt_data_warn(const struct mt_data *d, bool trains) {
    const char *shared = trains ? find_shared(d) : NULL;
    warn_of_skipped(d->sources, d->nsources);
    warn_of_skipped(d->vals, d->nvals);
    if (shared)
        mt_log(MT_LOG_WARN,
               "--val %s: is trained on too, so its loss says nothing of new texts; without --val the last part of "
               "--data is kept for validation",
               shared);
}

/* Flags about lines of JSONL, where there are none. */
static enum mt_status refuse_unread(const struct mt_data_reading *reading, const struct mt_data *d,
                                    struct mt_err *err) {
    const char *flag = reading->field ? "--data-field" : reading->skips_bad_lines ? "--bad-lines skip" : NULL;
    bool has_lines = false;
    for (int s = 0; s < d->nsources + d->nvals; s++) {
        const struct mt_data_source *source = s < d->nsources ? &d->sources[s] : &d->vals[s - d->nsources];
        for (int i = 0; i < source->spec.nfiles; i++) has_lines |= source->files[i].format == MT_DATA_jsonl;
    }
    if (!flag || has_lines) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: has no use without JSONL, and no file of --data is that", flag);
    return mt_err_hint(err, "files named .jsonl or .ndjson are; jsonl:FILE says it of another");
}

enum mt_status mt_data_open(const struct mt_data_options *o, struct mt_data *d, struct mt_err *err) {
    const struct mt_data_files *files = o->files;
    *d = (struct mt_data){0};
    if (!(o->val_fraction >= 0 && o->val_fraction < 1))
        return mt_fail(err, MT_EINPUT, "--val-fraction %g: not in [0, 1)", o->val_fraction);
    *d = (struct mt_data){.seq = o->seq, .seed = o->seed, .nsources = files->ndata, .nvals = files->nval};
    d->sources = mt_new(&d->arena, struct mt_data_source, d->nsources);
    d->vals = mt_new(&d->arena, struct mt_data_source, d->nvals);
    d->train = mt_new(&d->arena, struct mt_data_part, d->nsources);
    d->val = mt_new(&d->arena, struct mt_data_part, d->nsources + d->nvals);
    enum mt_status st;
    if ((st = open_sources(o, d, err)) || (st = refuse_unread(&files->reading, d, err)) ||
        (st = refuse_twice("--data", d->sources, d->nsources, &d->arena, err)) ||
        (st = refuse_twice("--val", d->vals, d->nvals, &d->arena, err)) || (st = divide(o, d, err)) ||
        (st = share(d, err))) {
        mt_data_close(d);
        return st;
    }
    for (int s = 0; s < d->nvals; s++) {
        if (d->vals[s].spec.weight <= 0) continue;
        mt_fail(err, MT_EINPUT, "--val %.200s: has a weight, but each token of it counts once", d->vals[s].spec.text);
        mt_err_hint(err, "leave out the weight");
        mt_data_close(d);
        return err->status;
    }
    hash_all(d);
    log_sources(d);
    return MT_OK;
}

static void close_sources(struct mt_data_source *sources, int n) {
    for (int s = 0; s < n; s++)
        for (int i = 0; i < sources[s].spec.nfiles && sources[s].files; i++) mt_data_file_close(&sources[s].files[i]);
}

void mt_data_close(struct mt_data *d) {
    close_sources(d->sources, d->nsources);
    close_sources(d->vals, d->nvals);
    mt_arena_release(&d->arena);
    *d = (struct mt_data){0};
}

/* ---- the order ---- */

/* How many of a part's first `samples` belong to its source: rounded, so that it grows by 0 or 1 a sample. */
static int64_t taken(const struct mt_data_part *part, int64_t samples) {
    return (int64_t)(((unsigned __int128)samples * part->share + part->phase) >> 32);
}

/* The source of a sample, whose number becomes that within the source. Each source but the last takes its share of what
 * those before it have left. */
static int choose(const struct mt_data *d, int64_t *sample) {
    for (int s = 0; s + 1 < d->nsources; s++) {
        int64_t before = taken(&d->train[s], *sample);
        if (taken(&d->train[s], *sample + 1) > before) {
            *sample = before;
            return s;
        }
        *sample -= before;
    }
    return d->nsources - 1;
}

int64_t mt_data_position(const struct mt_data *d, int64_t sample, int *source) {
    int s = choose(d, &sample);
    const struct mt_data_part *part = &d->train[s];
    uint64_t epoch = (uint64_t)(sample / part->windows), index = (uint64_t)(sample % part->windows);
    uint64_t stream = (uint64_t)s * STREAM_SOURCE;
    uint64_t offset = mt_random_below(d->seed, STREAM_OFFSET + stream, epoch, (uint64_t)part->offsets);
    uint64_t window = mt_random_permute(d->seed, STREAM_ORDER + stream + epoch, index, (uint64_t)part->windows);
    *source = s;
    return (int64_t)offset + (int64_t)window * d->seq;
}

/* Tokens [at, at + count) of a source. */
static void expand(const struct mt_data_source *source, int64_t at, int64_t count, int32_t *to) {
    int low = 0, high = source->spec.nfiles - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (source->start[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    for (int f = low; count > 0; f++) {
        int64_t from = at - source->start[f], here = source->start[f + 1] - at;
        if (here > count) here = count;
        for (int64_t i = 0; i < here; i++) *to++ = (int32_t)mt_data_token(&source->files[f], from + i);
        at += here, count -= here;
    }
}

void mt_data_train(const struct mt_data *d, int64_t sample, int32_t *tokens, int32_t *targets) {
    int source;
    int64_t at = mt_data_position(d, sample, &source);
    expand(&d->sources[source], at, d->seq, tokens);
    expand(&d->sources[source], at + 1, d->seq, targets);
}

void mt_data_val(const struct mt_data *d, int64_t window, int32_t *tokens, int32_t *targets) {
    int64_t count = 0;
    if (window < d->val_windows) {
        int p = 0;
        while (p + 1 < d->nval_parts && d->val[p + 1].windows_before <= window) p++;
        const struct mt_data_part *part = &d->val[p];
        int64_t first = (window - part->windows_before) * d->seq;
        count = part->count - 1 - first;
        if (count > d->seq) count = d->seq;
        expand(part->source, part->first + first, count, tokens);
        expand(part->source, part->first + first + 1, count, targets);
    }
    for (int64_t i = count; i < d->seq; i++) tokens[i] = 0, targets[i] = -1;
}
