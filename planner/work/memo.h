/* Works and memory of pairs that were found before, shared by the searches of one job on different ranks.
 *
 *     struct mt_work_memo *memo = mt_work_memo_new();
 *     struct mt_search search = {..., .works = memo};
 *     mt_work_memo_free(memo);
 *
 * Answers are those of mt_work_open and mt_work_memory for equal arguments, so a search finds the same with it as
 * without. The job's graphs must be equal, and the options of lowering. Several threads may ask at the same time. */
#ifndef MT_PLANNER_WORK_MEMO_H
#define MT_PLANNER_WORK_MEMO_H

#include "planner/work/work.h"

struct mt_work_memo;

struct mt_work_memo *mt_work_memo_new(void);
/* Null is allowed. */
void mt_work_memo_free(struct mt_work_memo *memo);

/* mt_work_open: the work is the memo's. */
enum mt_status mt_work_memo_open(struct mt_work_memo *memo, const struct mt_graph *graph, const struct mt_plan *plan,
                                 bool body, const struct mt_lower_options *options, const struct mt_work **work,
                                 struct mt_err *err);
/* mt_work_memory; memo may be null. */
enum mt_status mt_work_memo_memory(struct mt_work_memo *memo, const struct mt_graph *graph, const struct mt_plan *plan,
                                   int64_t samples, int64_t micro, const struct mt_lower_options *options,
                                   struct mt_plan_memory *memory, struct mt_err *err);

#endif
