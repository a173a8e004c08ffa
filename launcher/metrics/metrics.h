/* The metrics of a run, one row a step, in files that other programs read while it trains: metrics.csv, and an event
 * file for TensorBoard (`tensorboard --logdir FOLDER`).
 *
 *     if ((st = mt_metrics_open("run", 200, &metrics, err))) return st;
 *     mt_metrics_step(metrics, &row); mt_metrics_validation(metrics, row.step, 2.31); ...
 *     mt_metrics_close(metrics);
 *
 * A step's row is written when the next one begins, since a validation loss may still belong to it; or at
 * mt_metrics_flush. A file that cannot be written is named in one warning, and training goes on. */
#ifndef MT_LAUNCHER_METRICS_METRICS_H
#define MT_LAUNCHER_METRICS_METRICS_H

#include <stdint.h>

#include "kernels/base/err.h"

#define MT_METRICS_CSV "metrics.csv"

struct mt_metrics_row {
    int64_t step, tokens;                                              /* tokens seen so far */
    double loss, validation_loss, learning_rate, step_s, tokens_per_s; /* NaN: not known */
};

struct mt_metrics;

/* Begin in `folder`, or go on there after `after_step`: rows of later steps, which will be made again, are dropped from
 * the CSV file, and a new event file says that those of earlier ones count no more. MT_EINPUT if a file is not ours. */
enum mt_status mt_metrics_open(const char *folder, int64_t after_step, struct mt_metrics **metrics, struct mt_err *err);
/* Null does nothing. A row's validation loss is NaN; it is given after the row, before it is written: that of a step
 * that this run has not taken is not kept. */
void mt_metrics_step(struct mt_metrics *metrics, const struct mt_metrics_row *row);
void mt_metrics_validation(struct mt_metrics *metrics, int64_t step, double loss);
void mt_metrics_flush(struct mt_metrics *metrics);
void mt_metrics_close(struct mt_metrics *metrics); /* flushes, and frees */

#endif
