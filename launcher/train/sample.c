/* Generating tokens with forward programs of one rank, for growing sequence lengths. */
#include "launcher/train/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/checkpoint/weights.h"
#include "launcher/execute/executor.h"
#include "planner/plan/planned.h"
#include "synth/models/config/config.h"

#define DEADLINE_S 600.0
enum { SHORTEST = 16 };

struct mt_sampler {
    struct mt_safetensors *file; /* stays open: weights are read again for every length */
    struct mt_model model;
    struct mt_token_ids ends;
    struct mt_device *device;
    struct mt_comm *comm;
    enum mt_type type;
    int64_t context, vocab, seq; /* seq: of the current program; 0: none */
    struct mt_arena arena;       /* of the current program's choice */
    struct mt_graph *graph;
    struct mt_program program;
    struct mt_lowered *lowered;
    struct mt_executor *executor;
    bool one_window; /* the model predicts one token, from a whole context */
    int32_t *window; /* [context]: what is fed */
};

static void drop_program(struct mt_sampler *s) {
    mt_executor_free(s->executor);
    mt_lowered_free(s->lowered);
    if (s->program.graph) mt_program_release(&s->program);
    mt_graph_free(s->graph);
    mt_arena_release(&s->arena);
    s->executor = NULL, s->lowered = NULL, s->graph = NULL;
    memset(&s->program, 0, sizeof s->program);
    s->seq = 0;
}

void mt_sampler_free(struct mt_sampler *s) {
    if (!s) return;
    drop_program(s);
    mt_comm_free(s->comm);
    mt_device_close(s->device);
    mt_safetensors_close(s->file);
    free(s->window);
    free(s);
}

/* f64 if the file's weights are f64, else f32. */
static enum mt_type activation_type(const struct mt_safetensors *file) {
    for (int i = 0; i < file->ntensors; i++)
        if (file->tensors[i].readable && file->tensors[i].type == MT_F64) return MT_F64;
    return MT_F32;
}

/* A checkpoint says its model itself; a Hugging Face folder in its config.json. */
static enum mt_status open_checkpoint(struct mt_sampler *s, const char *path, struct mt_err *err) {
    struct mt_checkpoint_about about;
    enum mt_status st;
    if ((st = mt_checkpoint_open_weights(path, &s->file, err)) || (st = mt_checkpoint_about(s->file, &about, err)))
        return st;
    st = mt_model_parse(about.model, &s->model, err);
    return st ? mt_err_context(err, "%s", s->file->path) : MT_OK;
}

static enum mt_status open_folder(struct mt_sampler *s, const char *folder, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_config config;
    enum mt_status st = mt_config_read(folder, &arena, &config, err);
    if (!st) st = mt_model_parse(config.model, &s->model, err);
    if (!st) st = mt_weights_open(folder, &s->file, err);
    mt_arena_release(&arena);
    return st;
}

/* A checkpoint needs no config.json. Where there is none that can be read, no token ends a text. */
static struct mt_token_ids read_ends(const char *checkpoint) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_config config;
    struct mt_err ignored = MT_ERR_INIT;
    struct mt_token_ids ends = {0};
    if (!mt_config_read(mt_folder_of(checkpoint, &arena), &arena, &config, &ignored))
        ends = config.tokens[MT_TOKEN_EOS];
    mt_arena_release(&arena);
    return ends;
}

static bool is_model_folder(const char *path) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err ignored = MT_ERR_INIT;
    int checkpoints = 0;
    bool folder = mt_is_folder(path) && !access(mt_arena_printf(&arena, "%s/" MT_CONFIG_NAME, path), F_OK) &&
                  !mt_checkpoint_count(path, &checkpoints, &ignored) && !checkpoints;
    mt_arena_release(&arena);
    return folder;
}

static enum mt_status open_model(struct mt_sampler *s, const char *checkpoint, struct mt_err *err) {
    enum mt_status st =
        is_model_folder(checkpoint) ? open_folder(s, checkpoint, err) : open_checkpoint(s, checkpoint, err);
    if (st) return st;
    s->context = mt_model_get(&s->model, "context"), s->vocab = mt_model_get(&s->model, "vocab");
    s->type = activation_type(s->file);
    s->ends = read_ends(checkpoint);
    s->window = mt_calloc((size_t)s->context, sizeof *s->window);
    mt_comm_local_new(1, &s->comm);
    struct mt_graph *graph;
    if ((st = mt_model_graph(&s->model, s->type, 1, s->context, 0, &graph, err))) return st;
    s->one_window = graph->values[graph->logits].naxes < 3;
    st = mt_checkpoint_check(graph, s->file, MT_LOAD_PARAMS, err);
    mt_graph_free(graph);
    return st ? st : mt_device_open("cpu", &s->device, err);
}

enum mt_status mt_sampler_open(const char *checkpoint, struct mt_sampler **sampler, struct mt_err *err) {
    struct mt_sampler *s = mt_calloc(1, sizeof *s);
    enum mt_status st = open_model(s, checkpoint, err);
    if (st)
        mt_sampler_free(s);
    else
        *sampler = s;
    return st;
}

int64_t mt_sampler_vocab(const struct mt_sampler *s) {
    return s->vocab;
}

bool mt_sampler_ends(const struct mt_sampler *s, int32_t token) {
    for (int i = 0; i < s->ends.count; i++)
        if (s->ends.ids[i] == token) return true;
    return false;
}

/* Everything is replicated: there is one rank. */
static struct mt_choice one_rank(struct mt_sampler *s) {
    struct mt_choice choice = {.nranks = 1, .decisions = {.gradient_wire = s->graph->acc}};
    choice.micro = mt_new(&s->arena, int64_t, 1);
    choice.micro[0] = 1;
    choice.rules = mt_new(&s->arena, struct mt_rule, s->graph->nops);
    for (int o = 0; o < s->graph->nops; o++) choice.rules[o].kind = MT_RULE_REPLICATE;
    return choice;
}

static enum mt_status load_weights(struct mt_sampler *s, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int v = 0; v < s->graph->nvalues && !st; v++) {
        const struct mt_value *value = &s->graph->values[v];
        if (value->kind != MT_VALUE_STATE) continue;
        const struct mt_saved *tensor = mt_weights_find(s->file, value->name); /* it is there: see open_model */
        void *numbers = mt_malloc((size_t)(tensor->count * mt_type_size(value->type)));
        st = mt_safetensors_read_as(s->file, tensor, value->type, numbers, err);
        if (!st) st = mt_executor_set_state(s->executor, v, numbers, err);
        free(numbers);
    }
    return st;
}

static void fill_positions(void *context, int64_t sample, void *row) {
    const struct mt_sampler *s = context;
    (void)sample;
    for (int64_t i = 0; i < s->seq; i++) ((int32_t *)row)[i] = (int32_t)i;
}

static void fill_window(void *context, int64_t sample, void *row) {
    const struct mt_sampler *s = context;
    (void)sample;
    memcpy(row, s->window, (size_t)s->seq * sizeof *s->window);
}

/* No targets. */
static void fill_targets(void *context, int64_t sample, void *row) {
    const struct mt_sampler *s = context;
    const struct mt_value *targets = &s->graph->values[mt_graph_find_value(s->graph, "targets")];
    (void)sample;
    for (int64_t i = 0; i < (targets->naxes > 1 ? s->seq : 1); i++) ((int32_t *)row)[i] = -1;
}

static enum mt_status make_program(struct mt_sampler *s, int64_t seq, struct mt_err *err) {
    drop_program(s);
    s->seq = seq;
    enum mt_status st = mt_model_graph(&s->model, s->type, 1, seq, 0, &s->graph, err);
    if (st) return st;
    struct mt_choice choice = one_rank(s);
    struct mt_lower_options options = mt_planned_lower_options(s->device);
    if ((st = mt_build_forward(s->graph, &choice, &s->program, err)) ||
        (st = mt_lower(&s->program, 0, &options, &s->lowered, err)) ||
        (st = mt_executor_new(s->device, s->comm, NULL, s->lowered, DEADLINE_S, &s->executor, err)) ||
        (st = load_weights(s, err)))
        return st;
    int positions = mt_graph_find_value(s->graph, "positions"), targets = mt_graph_find_value(s->graph, "targets");
    if (positions >= 0 && (st = mt_executor_feed(s->executor, MT_RUN_FORWARD, positions, fill_positions, s, err)))
        return st;
    return mt_executor_feed(s->executor, MT_RUN_FORWARD, targets, fill_targets, s, err);
}

static int64_t length_for(const struct mt_sampler *s, int64_t count) {
    int64_t seq = s->one_window ? s->context : SHORTEST;
    while (seq < count) seq *= 2;
    return seq < s->context ? seq : s->context;
}

/* Tokens are put at the window's start, so that they have the positions of training; for models with one window, at its
 * end. Returns the position of the last token. */
static int64_t set_window(struct mt_sampler *s, const int32_t *tokens, int64_t count) {
    if (count > s->seq) tokens += count - s->seq, count = s->seq;
    int64_t at = s->one_window ? s->seq - count : 0;
    memset(s->window, 0, (size_t)s->seq * sizeof *s->window);
    memcpy(s->window + at, tokens, (size_t)count * sizeof *tokens);
    return at + count - 1;
}

enum mt_status mt_sampler_logits(struct mt_sampler *s, const int32_t *tokens, int64_t count, double *logits,
                                 struct mt_err *err) {
    int64_t seq = length_for(s, count);
    struct mt_clock clock = {.step = 1};
    enum mt_status st;
    if (seq != s->seq && (st = make_program(s, seq, err))) return st;
    int64_t last = set_window(s, tokens, count);
    int input = mt_graph_find_value(s->graph, "tokens");
    if ((st = mt_executor_feed(s->executor, MT_RUN_FORWARD, input, fill_window, s, err)) ||
        (st = mt_executor_run(s->executor, MT_RUN_FORWARD, &clock, err)))
        return st;
    const struct mt_tensor *out = mt_executor_output(s->executor, MT_RUN_FORWARD, s->graph->logits);
    if (!out) return mt_fail(err, MT_EBUG, "the program reports no logits");
    int64_t row_bytes = s->vocab * mt_type_size(out->type), row = s->one_window ? 0 : last;
    void *scores = mt_malloc((size_t)row_bytes);
    st = mt_device_copy_out(s->device, scores, (const char *)out->data + row * row_bytes, row_bytes, err);
    for (int64_t i = 0; i < s->vocab && !st; i++) logits[i] = mt_type_load(out->type, scores, i);
    free(scores);
    return st;
}

static int descending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a < b) - (a > b);
}

/* The k-th highest score. */
static double threshold(const double *logits, int64_t vocab, int64_t k) {
    if (k <= 0 || k >= vocab) return -INFINITY;
    double *sorted = mt_malloc((size_t)vocab * sizeof *sorted);
    memcpy(sorted, logits, (size_t)vocab * sizeof *sorted);
    qsort(sorted, (size_t)vocab, sizeof *sorted, descending);
    double least = sorted[k - 1];
    free(sorted);
    return least;
}

int32_t mt_sample_pick(const double *logits, int64_t vocab, double temperature, int64_t top_k, double uniform) {
    int64_t best = 0, pick = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    if (temperature <= 0) return (int32_t)best;
    double least = threshold(logits, vocab, top_k), total = 0, sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] >= least) total += exp((logits[i] - logits[best]) / temperature);
    for (int64_t i = 0; i < vocab && sum <= uniform * total; i++) {
        if (logits[i] < least) continue;
        sum += exp((logits[i] - logits[best]) / temperature);
        pick = i;
    }
    return (int32_t)pick;
}
