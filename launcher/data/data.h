/* Training data: sources of tokens, their training and validation parts, and which window of which source a sample is.
 *
 *     struct mt_data data;
 *     if ((st = mt_data_open(&options, &data, err))) return st;
 *     for (int64_t i = 0; i < share; i++)
 *         mt_data_train(&data, counter + start + i, tokens + i * seq, targets + i * seq);
 *     mt_data_close(&data);
 *
 * A source is what one --data names (spec.h): files whose tokens follow one another, in the formats of formats.def. All
 * are read once, to check that every token is below the model's vocabulary, and to hash them.
 *
 * Sample n of a run, counted from 0 over all ranks and epochs, belongs to the source that the weights give it, as
 * evenly as they can: of the first n samples each source has its part, rounded. A source's samples are windows of seq +
 * 1 tokens: an epoch divides its training part into windows from a random offset on, and visits them in a keyed random
 * order. All are functions of (seed, n), computed in O(sources), so the order does not depend on the ranks, and a run
 * can go on from the counter. */
#ifndef MT_LAUNCHER_DATA_DATA_H
#define MT_LAUNCHER_DATA_DATA_H

#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "launcher/data/file.h"

/* What flags say of data (launcher/flags/data_flags.h). */
struct mt_data_files {
    const char **data, **val; /* [ndata], [nval]: as given to --data, to --val */
    int ndata, nval;
    struct mt_data_reading reading;
};

struct mt_data_options {
    const struct mt_data_files *files;
    double val_fraction; /* without --val: the last fraction of each source; in [0, 1) */
    int64_t seq, vocab;
    uint64_t seed;
};

/* Files whose tokens follow one another. */
struct mt_data_source {
    struct mt_data_spec spec;
    struct mt_data_file *files; /* [spec.nfiles] */
    int64_t *start;             /* [spec.nfiles + 1]: the first token of each; last the number of all */
};

/* Tokens [first, first + count) of a source. */
struct mt_data_part {
    const struct mt_data_source *source;
    int64_t first, count, windows;
    int64_t offsets;        /* of training: the number of possible offsets */
    uint64_t share;         /* of training: the part of the samples that earlier sources leave, times 2^32 */
    uint32_t phase;         /* of training: where its samples begin, times 2^32 */
    int64_t windows_before; /* of validation: in earlier parts */
};

struct mt_data {
    struct mt_arena arena;
    int nsources, nvals; /* nvals: of --val */
    struct mt_data_source *sources, *vals;
    struct mt_data_part *train;          /* [nsources] */
    struct mt_data_part *val;            /* [nval_parts] */
    int nval_parts;                      /* 0: no validation */
    int64_t seq, val_windows, val_count; /* val_count: tokens of validation */
    uint64_t seed, hash;                 /* hash: of all tokens, of where they are divided, and of the weights */
};

/* MT_EINPUT for files that are refused (file.h), too short for one window, or given twice, for weights of some sources
 * only, and for a token that the model lacks (the message gives its position). On failure there is nothing to close. */
enum mt_status mt_data_open(const struct mt_data_options *options, struct mt_data *data, struct mt_err *err);
void mt_data_close(struct mt_data *data);

/* Warn, at one rank, of lines that were skipped; and, of data that are trained on, of validation on the same files. */
void mt_data_warn(const struct mt_data *data, bool trains);

/* The position in its source of the first token of the run's sample number `sample`; *source: which one. */
int64_t mt_data_position(const struct mt_data *data, int64_t sample, int *source);

/* One sample: tokens[seq], and the token after each, targets[seq]. */
void mt_data_train(const struct mt_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/* Window `window` of the validation parts, in order: each token of a part after its first is a target once. Past a
 * part's end tokens are 0 and targets -1, which are not counted. */
void mt_data_val(const struct mt_data *data, int64_t window, int32_t *tokens, int32_t *targets);

#endif
