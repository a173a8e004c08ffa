/* The bottleneck that `motley explain` names, on clusters and models of usual sizes: how much more of the step another
 * resource saves, by solving again independently (tests/planner/review/explain_cases.h).
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_explain */
#include <math.h>

#include "tests/planner/review/explain_cases.h"

int main(void) {
    static const char *const clusters[] = {"h100:1",
                                           "h200:1",
                                           "h100:1x8",
                                           "h100:2x8 net=100G",
                                           "a10:1 net=1G + h100:1 + l4:1",
                                           "a100-80:1x2 net=25G + t4:1x8",
                                           "a100-80:1x2 net=35G + v100:1x4 + t4:1x8",
                                           "a100-80:1x2 net=110G + v100:1x4 + t4:1x8"};
    double worst = 0;
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        char what[200];
        double regret = explain_regret(clusters[i], "gpt2:355m", 128, what);
        printf("%-42s %-36s %.3f%% of the step\n", clusters[i], what, 100 * regret);
        fflush(stdout);
        worst = fmax(worst, regret);
    }
    printf("worst %.3f%%\n", 100 * worst);
    return worst > 0.001;
}
