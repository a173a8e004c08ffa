/* Generating text with a trained model, one token after another, on one device.
 *
 *     struct mt_sampler *sampler;
 *     if ((st = mt_sampler_open("run", &sampler, err))) return st;
 *     while (...) {
 *         if ((st = mt_sampler_logits(sampler, tokens, count, logits, err))) break;
 *         tokens[count++] = mt_sample_pick(logits, vocab, 0.8, 40, mt_random_uniform(seed, 0, i));
 *     }
 *     mt_sampler_free(sampler); */
#ifndef MT_LAUNCHER_TRAIN_SAMPLE_H
#define MT_LAUNCHER_TRAIN_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_sampler;

/* Open the model and weights of a checkpoint, as for mt_checkpoint_open_weights, or of a Hugging Face folder. */
enum mt_status mt_sampler_open(const char *checkpoint, struct mt_sampler **sampler, struct mt_err *err);
void mt_sampler_free(struct mt_sampler *sampler);

int64_t mt_sampler_vocab(const struct mt_sampler *sampler);
/* Whether a text ends with this token: eos_token_id of the config.json in the checkpoint's folder, if there is one. */
bool mt_sampler_ends(const struct mt_sampler *sampler, int32_t token);

/* Scores of the token after tokens[count], count at least 1: logits[vocab]. Only the last tokens that fit the model's
 * context count. The program's length is a power of two from 16 on, or the context; it is rebuilt as the text grows. */
enum mt_status mt_sampler_logits(struct mt_sampler *sampler, const int32_t *tokens, int64_t count, double *logits,
                                 struct mt_err *err);

/* Sample a token from softmax(logits / temperature) among the top_k likeliest (0: all), by `uniform` in [0, 1).
 * Temperature 0: the likeliest token, the first of equals. */
int32_t mt_sample_pick(const double *logits, int64_t vocab, double temperature, int64_t top_k, double uniform);

#endif
