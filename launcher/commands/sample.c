/* motley sample: text from a trained model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/train/sample.h"

enum { KEY_PROMPT = 'p', KEY_TOKENS = 'n', KEY_TEMPERATURE = 0x2000, KEY_TOP_K, KEY_SEED };

enum { BYTES = 256 }; /* the vocabulary of a model whose tokens are bytes */

struct sample_flags {
    struct mt_err *err;
    const char *checkpoint, *prompt;
    int64_t tokens, top_k, seed;
    double temperature;
};

static const struct argp_option flag_table[] = {
    {"prompt", KEY_PROMPT, "TEXT", 0,
     "the beginning: text, or comma-separated token numbers if the vocabulary is not 256 [a new line, or 0]", 1},
    {"tokens", KEY_TOKENS, "N", 0, "how many tokens to generate [200]", 1},
    {"temperature", KEY_TEMPERATURE, "X", 0, "of the softmax; 0 takes the likeliest token [0.8]", 1},
    {"top-k", KEY_TOP_K, "K", 0, "choose among the K likeliest tokens; 0: all [0]", 1},
    {"seed", KEY_SEED, "S", 0, "for the random choices [1]", 1},
    {0}};

/* `--prompt In the beginning` without quotes. */
static error_t refuse_extra(const struct sample_flags *f, const char *text) {
    mt_fail(f->err, MT_EINPUT, "\"%.60s\" is an extra word: one checkpoint is expected, which is \"%.60s\"", text,
            f->checkpoint);
    mt_err_hint(f->err, "a prompt with spaces needs quotes: --prompt \"In the beginning\"");
    return EINVAL;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct sample_flags *f = state->input;
    enum mt_status st = MT_OK;
    switch (key) {
    case KEY_PROMPT: f->prompt = text; break;
    case KEY_TOKENS: st = mt_flag_int("--tokens", text, 0, 1 << 24, &f->tokens, f->err); break;
    case KEY_TEMPERATURE:
        st = mt_flag_real("--temperature", text, &f->temperature, f->err);
        if (!st && f->temperature < 0) st = mt_fail(f->err, MT_EINPUT, "--temperature: must not be negative");
        break;
    case KEY_TOP_K: st = mt_flag_int("--top-k", text, 0, 1 << 24, &f->top_k, f->err); break;
    case KEY_SEED: st = mt_flag_int("--seed", text, 0, INT64_MAX, &f->seed, f->err); break;
    case ARGP_KEY_ARG:
        if (f->checkpoint) return refuse_extra(f, text);
        st = mt_flag_operand("checkpoint", text, &f->checkpoint, f->err);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

/* The prompt's tokens, with room for those that will be generated. */
static enum mt_status read_prompt(const struct sample_flags *f, int64_t vocab, struct mt_arena *arena, int32_t **tokens,
                                  int64_t *count) {
    const char *prompt = f->prompt && *f->prompt ? f->prompt : vocab == BYTES ? "\n" : "0";
    if (vocab == BYTES) {
        *count = (int64_t)strlen(prompt);
        *tokens = mt_new(arena, int32_t, *count + f->tokens);
        for (int64_t i = 0; i < *count; i++) (*tokens)[i] = (unsigned char)prompt[i];
        return MT_OK;
    }
    int64_t *numbers;
    int n;
    enum mt_status st = mt_flag_ints("--prompt", prompt, 0, vocab - 1, arena, &numbers, &n, f->err);
    if (st) return mt_err_hint(f->err, "this model's tokens are numbers from 0 to %lld", (long long)vocab - 1);
    *count = n;
    *tokens = mt_new(arena, int32_t, n + f->tokens);
    for (int i = 0; i < n; i++) (*tokens)[i] = (int32_t)numbers[i];
    return MT_OK;
}

static void print_token(int64_t vocab, int32_t token) {
    if (vocab == BYTES)
        putchar(token);
    else
        printf("%d ", token);
    fflush(stdout);
}

static enum mt_status sample(const struct sample_flags *f, struct mt_sampler *sampler) {
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t vocab = mt_sampler_vocab(sampler), count = 0;
    int32_t *tokens = NULL;
    double *logits = mt_new(&arena, double, vocab);
    enum mt_status st = read_prompt(f, vocab, &arena, &tokens, &count);
    for (int64_t i = 0; i < count && !st; i++) print_token(vocab, tokens[i]);
    for (int64_t i = 0; i < f->tokens && !st; i++) {
        if ((st = mt_sampler_logits(sampler, tokens, count, logits, f->err))) break;
        double uniform = mt_random_uniform((uint64_t)f->seed, 0, (uint64_t)i);
        tokens[count] = mt_sample_pick(logits, vocab, f->temperature, f->top_k, uniform);
        print_token(vocab, tokens[count++]);
    }
    if (!st) putchar('\n');
    mt_arena_release(&arena);
    return st;
}

int mt_command_sample(int argc, char **argv) {
    static const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "CHECKPOINT",
        .doc = "Generate text with a trained model. CHECKPOINT is a file, or a run's folder, of which the newest "
               "undamaged checkpoint is used, or a Hugging Face folder."};
    struct mt_err err = MT_ERR_INIT;
    struct sample_flags flags = {.err = &err, .tokens = 200, .temperature = 0.8, .seed = 1};
    struct mt_sampler *sampler = NULL;
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &flags, &err);
    if (!st && !flags.checkpoint) {
        st = mt_fail(&err, MT_EINPUT, "sample from what? Name a run's folder or a checkpoint");
        mt_err_hint(&err, "`motley train --out FOLDER` makes one");
    }
    if (!st && (st = mt_sampler_open(flags.checkpoint, &sampler, &err)) && flags.prompt && !err.hint[0])
        mt_err_hint(&err, "\"%.60s\" is taken as the checkpoint; a prompt with spaces needs quotes", flags.checkpoint);
    if (!st) st = sample(&flags, sampler);
    mt_sampler_free(sampler);
    return st ? mt_command_fail(&err) : 0;
}
