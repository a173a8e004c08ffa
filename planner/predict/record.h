/* Inside the prediction: what the simulation tells while it runs its last step, and what timeline.c makes of it. */
#ifndef MT_PLANNER_PREDICT_RECORD_H
#define MT_PLANNER_PREDICT_RECORD_H

#include "planner/predict/timeline.h"

struct mt_recording;

void mt_recording_begin(struct mt_timeline *timeline, int nranks);
/* The next actor, whose first rank is low->rank. */
void mt_recording_actor(struct mt_timeline *timeline, const struct mt_lowered *low);
/* The actor of each rank is known. */
void mt_recording_ranks(struct mt_timeline *timeline, const int *actor_of);
/* Of the last step: a span that has ended; an instruction begins, or has ended. */
void mt_recording_span(struct mt_timeline *timeline, int actor, struct mt_span span);
void mt_recording_touch(struct mt_timeline *timeline, int actor, int instr, bool ends, double now_s);
/* Times count from begin_s. */
void mt_recording_end(struct mt_timeline *timeline, double begin_s, double end_s);

#endif
