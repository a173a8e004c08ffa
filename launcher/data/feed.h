/* A step's inputs from training data. */
#ifndef MT_LAUNCHER_DATA_FEED_H
#define MT_LAUNCHER_DATA_FEED_H

#include "launcher/execute/executor.h"
#include "launcher/data/data.h"

/* Feed tokens and targets: of MT_RUN_TRAIN samples [first, + the batch) of the training part in its order, of
 * MT_RUN_FORWARD windows of the validation part. `positions`: feed them too; they are the same in all steps. */
enum mt_status mt_feed_data(struct mt_executor *executor, const struct mt_graph *graph, const struct mt_data *data,
                            enum mt_run run, int64_t first, bool positions, struct mt_err *err);

#endif
