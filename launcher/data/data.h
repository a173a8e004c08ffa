/* Training data: a file of tokens, its training and validation parts, and which window a sample is.
 *
 *     struct mt_data data;
 *     if ((st = mt_data_open(&options, &data, err))) return st;
 *     for (int64_t i = 0; i < share; i++)
 *         mt_data_train(&data, counter + start + i, tokens + i * seq, targets + i * seq);
 *     mt_data_close(&data);
 *
 * A file is raw text, one token per byte, or llm.c's .bin: 256 int32 (20240520, 1, the count), then uint16 tokens. It
 * is mapped and read once, to check that every token is below the model's vocabulary, and to hash it.
 *
 * Sample n of a run, counted from 0 over all ranks and epochs, is a window of seq + 1 tokens: an epoch divides the
 * training part into windows from a random offset on, and visits them in a keyed random order. Both are functions of
 * (seed, n), computed in O(1), so the order does not depend on the ranks, and a run can go on from the counter. */
#ifndef MT_LAUNCHER_DATA_DATA_H
#define MT_LAUNCHER_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_data_options {
    const char *path;
    const char *val_path; /* a separate file for validation, or null */
    double val_fraction;  /* without val_path: the last fraction of `path`; in [0, 1) */
    int64_t seq, vocab;
    uint64_t seed;
};

struct mt_data_file {
    void *map;
    size_t size_bytes;
    const uint8_t *bytes;  /* text; else null */
    const uint16_t *words; /* .bin; else null */
    int64_t count;         /* tokens */
};

struct mt_data {
    struct mt_data_file file, val_file;
    const struct mt_data_file *val; /* the file with the validation tokens */
    int64_t train_count;            /* the file's first tokens, for training */
    int64_t val_start, val_count;   /* in *val; count 0: no validation */
    int64_t seq, windows, offsets;  /* of training: windows per epoch; the number of possible offsets */
    int64_t val_windows;
    uint64_t seed, hash; /* hash: of both files and of where they are divided */
};

/* MT_EINPUT for a file that is too short for one window, contradicts its header, or has a token that the model lacks
 * (the message gives its position). On failure there is nothing to close. */
enum mt_status mt_data_open(const struct mt_data_options *options, struct mt_data *data, struct mt_err *err);
void mt_data_close(struct mt_data *data);

/* The position in the file of the first token of the run's sample number `sample`. */
int64_t mt_data_position(const struct mt_data *data, int64_t sample);

/* One sample: tokens[seq], and the token after each, targets[seq]. */
void mt_data_train(const struct mt_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/* Window `window` of the validation part, in order: each token after the first is a target once. Past the end tokens
 * are 0 and targets -1, which are not counted. */
void mt_data_val(const struct mt_data *data, int64_t window, int32_t *tokens, int32_t *targets);

/* Parse a file's content in memory; for mt_data_open and the fuzzer. */
enum mt_status mt_data_parse(const char *name, const void *content, size_t size_bytes, struct mt_data_file *file,
                             struct mt_err *err);

#endif
