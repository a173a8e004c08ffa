/* Training data: a file of tokens, its training and validation parts, and which window a sample is.
 *
 *     struct mt_data data;
 *     if ((st = mt_data_open(&options, &data, err))) return st;
 *     for (int64_t i = 0; i < share; i++) mt_data_train(&data, counter + start + i, tokens + i * seq, targets + i *
 * seq); mt_data_close(&data);
 *
 * A file is raw text, a byte a token, or llm.c's .bin: 256 int32 (20240520, 1, the count), then uint16 tokens. It is
 * mapped, and read through once: every token must be below the model's vocabulary, and the hash of it all is kept.
 *
 * Sample number n of a run, counted from 0 over all ranks and epochs, is a window of seq + 1 tokens: an epoch cuts the
 * training part at a random offset into windows, and takes them in a keyed random order. Both are functions of
 * (seed, n) alone, found in O(1), so the order is independent of the ranks and a run goes on from the counter. */
#ifndef MT_LAUNCHER_TRAIN_DATA_H
#define MT_LAUNCHER_TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_data_options {
    const char *path;
    const char *val_path; /* a file of its own for validation, or null */
    double val_fraction;  /* without it: this last part of `path`; in [0, 1) */
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
    const struct mt_data_file *val; /* where validation tokens are */
    int64_t train_count;            /* tokens for training: the file's first */
    int64_t val_start, val_count;   /* in *val; count 0: no validation */
    int64_t seq, windows, offsets;  /* of training: windows an epoch, and offsets to choose from */
    int64_t val_windows;
    uint64_t seed, hash; /* hash: of all bytes of both files and where they are divided */
};

/* Refuses what is too short for one window, not what its header says, or has a token that the model lacks (by
 * position). On failure there is nothing to close. */
enum mt_status mt_data_open(const struct mt_data_options *options, struct mt_data *data, struct mt_err *err);
void mt_data_close(struct mt_data *data);

/* The samples that the run's sample number `sample` stands for: the position in the file of its first token. */
int64_t mt_data_position(const struct mt_data *data, int64_t sample);

/* One sample: tokens[seq] and what follows each, targets[seq]. */
void mt_data_train(const struct mt_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/* Window `window` of the validation part, whole and in order: each token after the first is a target once. Past the end
 * tokens are 0 and targets -1, which are not counted. */
void mt_data_val(const struct mt_data *data, int64_t window, int32_t *tokens, int32_t *targets);

/* What a file's content is, for a reader that has it in memory: data.c's own check, open to the fuzzer. */
enum mt_status mt_data_parse(const char *name, const void *content, size_t size_bytes, struct mt_data_file *file,
                             struct mt_err *err);

#endif
