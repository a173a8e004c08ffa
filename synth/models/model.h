/* Model front-ends: from a text such as "gpt2:124m" or
 * "gpt2:layers=4,heads=4,embed=128,context=64,vocab=256,bias=0,tied=1" to the forward graph with its loss. A front-end
 * is a file in synth/models/ that defines mt_model_class_NAME, and a row in synth/models/models.def.
 *
 *     struct mt_model model;
 *     if ((st = mt_model_parse("gpt2:char,layers=6", &model, err))) return st;
 *     if ((st = mt_model_graph(&model, MT_F32, 12, 0, 0.1, &graph, err))) return st;
 *
 * A text is CLASS[:[NAMED][,OPTION=VALUE]...], or NAMED[,OPTION=VALUE]...: a named size, if any, comes first, and
 * options change it. */
#ifndef MT_SYNTH_MODELS_MODEL_H
#define MT_SYNTH_MODELS_MODEL_H

#include "synth/graph/graph.h"

#define MT_MODEL_OPTIONS 24
struct mt_model_option {
    const char *name;
    int64_t value, least, most, preset; /* booleans are 0 and 1 */
    int64_t per; /* 0: a whole number; else the values count parts, so many to one: eps=1e-5 is 10000 parts of 10^9 */
    const char *help;
};
struct mt_model {
    const struct mt_model_class *class;
    struct mt_model_option options[MT_MODEL_OPTIONS];
    int noptions;
};
struct mt_model_class {
    const char *name, *help;
    /* Named sizes: "124m", "layers=12,heads=12,embed=768"; pairs, ending with a null. */
    const char *const *named;
    const struct mt_model_option *options; /* ends with a null name */
    /* Sets options that follow from others (ffn=0 means 4 embed) and checks relations (embed divisible by heads); null:
     * there are none. */
    enum mt_status (*complete)(struct mt_model *model, struct mt_err *err);
    /* The forward graph up to graph->logits, with inputs "tokens" [batch, seq] and "targets" [batch, seq], or [batch]
     * where a sample has one target (the token after its last). gpt2 has a third input, "positions" [seq]: 0, 1, ... */
    enum mt_status (*build)(const struct mt_model *model, int64_t batch, int64_t seq, double dropout,
                            struct mt_graph *graph, struct mt_err *err);
    double (*flops_per_token)(const struct mt_model *model, int64_t seq);
};

/* Parse; MT_EINPUT names what is unknown or out of range, and the hint lists what there is. Nothing to free. */
enum mt_status mt_model_parse(const char *text, struct mt_model *model, struct mt_err *err);
/* The same without what follows from other options, and without checks of relations. */
enum mt_status mt_model_settings(const char *text, struct mt_model *model, struct mt_err *err);
/* Whether a text begins with a class or is a named size, as "gpt2:layers=2" or "llama3-8b,context=512". */
bool mt_model_is_text(const char *text);
int64_t mt_model_get(const struct mt_model *model, const char *option);
void mt_model_set(struct mt_model *model, const char *option, int64_t value); /* for `complete` */
double mt_model_real(const struct mt_model *model, const char *option);       /* of an option that counts parts */
/* "layers=12": an option with a value of its kind, in `arena`. */
char *mt_model_option_text(const struct mt_model_option *option, int64_t value, struct mt_arena *arena);
/* The canonical text: class and every option in order, in `arena`. Plans and checkpoints record and hash it. */
char *mt_model_text(const struct mt_model *model, struct mt_arena *arena);
/* A new forward graph with loss_sum, token_count and logits; free with mt_graph_free. seq 0: the whole context. */
enum mt_status mt_model_graph(const struct mt_model *model, enum mt_type type, int64_t batch, int64_t seq,
                              double dropout, struct mt_graph **graph, struct mt_err *err);

/* Training flops a token by the formula of reported MFU (as llm.c and nanoGPT): 6 N + 6 L T d, with N the parameters
 * without the position table and with tied embeddings once, L layers, T the sequence, d the width, causal attention. */
double mt_model_flops_per_token(const struct mt_model *model, int64_t seq);
/* All classes, in the order of models.def. */
const struct mt_model_class *const *mt_model_classes(int *count);
/* All classes with their options and named sizes, for `--help`. */
void mt_model_help(FILE *file);

/* For builders: MT_EINPUT if a sequence is longer than the option `context`. */
enum mt_status mt_model_check_seq(const struct mt_model *model, int64_t seq, struct mt_err *err);
/* For builders: x + dropout(branch), whose operators are named after `of`. */
int mt_model_residual(struct mt_graph *graph, const char *of, int x, int branch, double dropout);
/* For builders: logits from x[batch, seq, embed], by the token table where the model is `tied`, else by weights of its
 * own, "lm_head.weight". */
void mt_model_head(const struct mt_model *model, struct mt_graph *graph, int table, int x);

#endif
