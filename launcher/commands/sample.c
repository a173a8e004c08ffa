/* motley sample: text from a trained model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "kernels/base/number/rng.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/tokenizer/tokenizer.h"
#include "launcher/train/sample.h"

enum { KEY_PROMPT = 'p', KEY_TOKENS = 'n', KEY_TEMPERATURE = 0x2000, KEY_TOP_K, KEY_SEED, KEY_TOKENIZER };

enum { BYTES = 256 }; /* the vocabulary of a model whose tokens are bytes */

struct sample_flags {
    struct mt_err *err;
    const char *checkpoint, *prompt, *tokenizer;
    int64_t tokens, top_k, seed;
    double temperature;
};

static const struct argp_option flag_table[] = {
    {"prompt", KEY_PROMPT, "TEXT", 0,
     "the beginning: text, or comma-separated token numbers if there is no tokenizer and the vocabulary is not 256 [a "
     "new "
     "line, or 0]",
     1},
    {"tokenizer", KEY_TOKENIZER, "PATH", 0,
     "a tokenizer.json, or a folder with one [that beside the checkpoint, if there is one]", 1},
    {"tokens", KEY_TOKENS, "N", 0, "how many tokens to generate, if the text does not end before [200]", 1},
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
    case KEY_TOKENIZER: st = mt_flag_path("--tokenizer", text, &f->tokenizer, f->err); break;
    case KEY_SEED: st = mt_flag_int("--seed", text, 0, INT64_MAX, &f->seed, f->err); break;
    case ARGP_KEY_ARG:
        if (f->checkpoint) return refuse_extra(f, text);
        st = mt_flag_operand("checkpoint", text, &f->checkpoint, f->err);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

/* What stands between tokens and people: a tokenizer, or bytes, or numbers. */
struct wording {
    int64_t vocab;
    struct mt_tokenizer *tokenizer; /* or null */
    struct mt_token_stream stream;
};

/* The tokenizer that is named, or that lies beside the checkpoint, where `motley train` puts it. */
static enum mt_status open_tokenizer(const struct sample_flags *f, struct wording *w) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *path = f->tokenizer;
    enum mt_status st = MT_OK;
    if (!path) path = mt_arena_printf(&arena, "%s/tokenizer.json", mt_folder_of(f->checkpoint, &arena));
    if (f->tokenizer || !access(path, F_OK)) st = mt_tokenizer_open(path, &w->tokenizer, f->err);
    w->stream.tokenizer = w->tokenizer;
    mt_arena_release(&arena);
    return st;
}

static enum mt_status encode_prompt(const struct sample_flags *f, const struct wording *w, struct mt_tokens *tokens) {
    const char *prompt = f->prompt ? f->prompt : "";
    enum mt_status st = mt_tokenizer_encode(w->tokenizer, prompt, strlen(prompt), tokens, f->err);
    if (!st && !tokens->count) st = mt_tokenizer_encode(w->tokenizer, "\n", 1, tokens, f->err);
    if (st) return mt_err_context(f->err, "--prompt");
    for (int64_t i = 0; i < tokens->count; i++)
        if (tokens->ids[i] >= w->vocab) {
            mt_fail(f->err, MT_EINPUT, "--prompt: token %d of the tokenizer, but the model's vocabulary has %lld",
                    tokens->ids[i], (long long)w->vocab);
            return mt_err_hint(f->err, "--tokenizer names the one that the model was trained with");
        }
    return tokens->count ? MT_OK : mt_fail(f->err, MT_EINPUT, "--prompt: has no tokens");
}

static enum mt_status read_prompt(const struct sample_flags *f, const struct wording *w, struct mt_tokens *tokens) {
    if (w->tokenizer) return encode_prompt(f, w, tokens);
    const char *prompt = f->prompt && *f->prompt ? f->prompt : w->vocab == BYTES ? "\n" : "0";
    if (w->vocab == BYTES) {
        for (const char *c = prompt; *c; c++) mt_tokens_add(tokens, (unsigned char)*c);
        return MT_OK;
    }
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t *numbers;
    int n;
    enum mt_status st = mt_flag_ints("--prompt", prompt, 0, w->vocab - 1, &arena, &numbers, &n, f->err);
    if (st)
        mt_err_hint(f->err, "this model's tokens are numbers from 0 to %lld; --tokenizer names what makes them of text",
                    (long long)w->vocab - 1);
    for (int i = 0; i < n && !st; i++) mt_tokens_add(tokens, (int32_t)numbers[i]);
    mt_arena_release(&arena);
    return st;
}

static void print_token(struct wording *w, int32_t token) {
    if (w->tokenizer) {
        const char *text = mt_token_stream_add(&w->stream, token);
        fwrite(text, 1, w->stream.length, stdout);
    } else if (w->vocab == BYTES)
        putchar(token);
    else
        printf("%d ", token);
    fflush(stdout);
}

static enum mt_status sample(const struct sample_flags *f, struct mt_sampler *sampler) {
    struct wording w = {.vocab = mt_sampler_vocab(sampler)};
    struct mt_tokens tokens = {0};
    double *logits = mt_malloc((size_t)w.vocab * sizeof *logits);
    enum mt_status st = open_tokenizer(f, &w);
    if (!st) st = read_prompt(f, &w, &tokens);
    for (int64_t i = 0; i < tokens.count && !st; i++) print_token(&w, tokens.ids[i]);
    for (int64_t i = 0; i < f->tokens && !st; i++) {
        if ((st = mt_sampler_logits(sampler, tokens.ids, tokens.count, logits, f->err))) break;
        double uniform = mt_random_uniform((uint64_t)f->seed, 0, (uint64_t)i);
        int32_t token = mt_sample_pick(logits, w.vocab, f->temperature, f->top_k, uniform);
        if (mt_sampler_ends(sampler, token)) break;
        mt_tokens_add(&tokens, token);
        print_token(&w, token);
    }
    if (!st && w.tokenizer) {
        const char *rest = mt_token_stream_end(&w.stream);
        fwrite(rest, 1, w.stream.length, stdout);
    }
    if (!st) putchar('\n');
    mt_token_stream_free(&w.stream);
    mt_tokenizer_free(w.tokenizer);
    free(tokens.ids);
    free(logits);
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
