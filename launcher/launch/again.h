/* Planning again for what is left: the same job, on the devices of hosts that answer. */
#ifndef MT_LAUNCHER_LAUNCH_AGAIN_H
#define MT_LAUNCHER_LAUNCH_AGAIN_H

#include "launcher/launch/place.h"

/* plan, places: the last ones; a plan whose ranks have the names of their hosts. lost[nranks]: ranks that are not
 * started again, even if their host answers.
 *
 * With a cluster (the profile that places.device refers to) the search plans for its devices on hosts of the list that
 * answer, but those of lost ranks; *left becomes that cluster, and rank r of *again is its device r. Without, or where
 * no solver is, the shares of ranks that are gone are divided among those that are left, in proportion, and *left is
 * null. MT_EPEER: nothing is left. The caller frees both. */
enum mt_status mt_again(const struct mt_plan *plan, const struct mt_hosts *hosts, const struct mt_places *places,
                        const bool *lost, const struct mt_cluster *cluster, struct mt_plan **again,
                        struct mt_cluster **left, struct mt_err *err);

#endif
