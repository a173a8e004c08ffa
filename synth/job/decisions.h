/* Decisions of a plan that the builder of programs carries out. */
#ifndef MT_SYNTH_JOB_DECISIONS_H
#define MT_SYNTH_JOB_DECISIONS_H

#include <stdint.h>

#include "kernels/base/number/type.h"
#include "kernels/coll/coll.h"

/* How messages travel: of a kind's rows the first that is for messages of that size; sizes rise, and each kind that is
 * used has a row for any size, its last. Sums (AllReduce, ReduceScatter) of gradients travel as `wire` and add up in
 * `acc`, the job's accumulation type, in all rows; few and small sums that decide something travel as `acc`. All else
 * travels in its own type, and both are the job's precision here. */
struct mt_plan_collective {
    enum mt_coll_kind kind;
    const char *algorithm; /* or "auto" */
    enum mt_type wire, acc;
    int64_t up_to_bytes; /* of messages of at most so many bytes (mt_message_bytes of synth); 0: of any size */
};

#endif
