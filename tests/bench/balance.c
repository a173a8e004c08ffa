/* Processor time of balance: 3, 64 and 1000 ranks. */
#include <time.h>

#include "planner/balance/balance.h"
#include "tests/check.h"
#include "tests/planner/balance/balance_cases.h"

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void) {
    static const struct case_shape shapes[] = {{3, 2, 1, 1, 16, 64, 1, 0},      {3, 3, 2, 3, 16, 64, 1, 0.3},
                                               {64, 5, 1, 2, 16, 512, 1, 0},    {64, 5, 2, 3, 16, 2048, 1, 0.3},
                                               {1000, 8, 1, 3, 16, 8192, 1, 0}, {1000, 8, 2, 3, 16, 50000, 8, 0.3}};
    printf("%6s %7s %6s %6s %7s %12s %12s %9s %s\n", "ranks", "classes", "splits", "stages", "extent", "mean", "worst",
           "gap", "proven");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        double sum_s = 0, worst_s = 0, gap = 0;
        int solved = 0, proven = 0;
        int64_t work = 0;
        for (uint64_t seed = 1; seed <= 10; seed++) {
            struct mt_arena arena = MT_ARENA_INIT;
            struct draws d = {seed, 0};
            struct mt_balance p;
            struct mt_balanced out;
            struct mt_err err = MT_ERR_INIT;
            random_case(&arena, &d, &shapes[i], &p);
            double begin_s = now_s();
            enum mt_status st = mt_balance_solve(&p, &out, &err);
            double took_s = now_s() - begin_s;
            if (st == MT_OK) {
                gap += out.bound_s > 0 ? out.step_s / out.bound_s - 1 : 0;
                solved++, proven += out.exact, work += out.work;
                mt_arena_release(&out.arena);
            } else if (st != MT_EINPUT) {
                mt_err_print(&err);
                return mt_exit_code(st);
            }
            sum_s += took_s, worst_s = took_s > worst_s ? took_s : worst_s;
            mt_arena_release(&arena);
        }
        printf("%6d %7d %6d %6d %7lld %9.3f ms %9.3f ms %8.3f%% %d of %d, %lld looked up\n", shapes[i].nranks,
               shapes[i].nclasses, shapes[i].nsplits, shapes[i].nstages, (long long)shapes[i].extent, sum_s * 100,
               worst_s * 1e3, 100 * gap / (solved ? solved : 1), proven, solved,
               (long long)work / (solved ? solved : 1));
    }
    return 0;
}
