/* The rows of inputs: windows of the data, and the tokens after them. */
#include "launcher/data/feed.h"

#include <stdlib.h>
#include <string.h>

/* The source of input rows: samples of the data. */
struct feed {
    const struct mt_data *data;
    bool validation;
    int64_t first; /* number of the batch's first sample or window */
    int64_t seq;
    int32_t *tokens, *targets; /* scratch of [seq] */
};

static void fetch(struct feed *f, int64_t sample) {
    if (f->validation)
        mt_data_val(f->data, f->first + sample, f->tokens, f->targets);
    else
        mt_data_train(f->data, f->first + sample, f->tokens, f->targets);
}

static void fill_tokens(void *context, int64_t sample, void *row) {
    struct feed *f = context;
    fetch(f, sample);
    memcpy(row, f->tokens, (size_t)f->seq * sizeof(int32_t));
}

static void fill_targets(void *context, int64_t sample, void *row) {
    struct feed *f = context;
    fetch(f, sample);
    memcpy(row, f->targets, (size_t)f->seq * sizeof(int32_t));
}

/* One target per sample: the token after the window. */
static void fill_last_target(void *context, int64_t sample, void *row) {
    struct feed *f = context;
    fetch(f, sample);
    memcpy(row, f->targets + f->seq - 1, sizeof(int32_t));
}

static void fill_positions(void *context, int64_t sample, void *row) {
    const struct feed *f = context;
    (void)sample;
    for (int64_t i = 0; i < f->seq; i++) ((int32_t *)row)[i] = (int32_t)i;
}

enum mt_status mt_feed_data(struct mt_executor *executor, const struct mt_graph *g, const struct mt_data *data,
                            enum mt_run run, int64_t first, bool with_positions, struct mt_err *err) {
    int tokens = mt_graph_find_value(g, "tokens"), targets = mt_graph_find_value(g, "targets");
    int positions = mt_graph_find_value(g, "positions");
    int64_t seq = mt_value_extent(g, tokens, 1);
    int32_t *scratch = mt_malloc(2 * (size_t)seq * sizeof *scratch);
    struct feed f = {data, run == MT_RUN_FORWARD, first, seq, scratch, scratch + seq};
    mt_fill *fill = g->values[targets].naxes == 1 ? fill_last_target : fill_targets;
    enum mt_status st;
    if (!(st = mt_executor_feed(executor, run, tokens, fill_tokens, &f, err)))
        st = mt_executor_feed(executor, run, targets, fill, &f, err);
    if (!st && positions >= 0 && with_positions)
        st = mt_executor_feed(executor, run, positions, fill_positions, &f, err);
    free(scratch);
    return st;
}
