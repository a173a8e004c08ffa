/* How long a search for a purchase takes: 2 M of money, a catalogue of twelve, three jobs.
 *
 *     build/release/tests/bench_buy [BUDGET [THREADS]]
 *
 * Prices are made up. It prints the time by the clock and of the processors, how many configurations were planned, and
 * what was found. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/base/wait.h"
#include "tests/planner/buy/given.h"

static const char *const items[] = {"name=dgx based_on=h100 devices=8 price=280k net=400G rack_units=8",
                                    "name=l4x4 based_on=l4 devices=4 price=22k net=100G rack_units=2",
                                    "name=a100x8 based_on=a100-80 devices=8 price=120k net=200G",
                                    "name=l40sx8 based_on=l40s devices=8 price=95k net=200G",
                                    "name=h200x8 based_on=h200 devices=8 price=330k net=400G",
                                    "name=a10x4 based_on=a10 devices=4 price=20k net=50G",
                                    "name=rtx4090x4 based_on=rtx4090 devices=4 price=14k net=25G",
                                    "name=a40x4 based_on=a40 devices=4 price=30k net=100G",
                                    "name=t4x8 based_on=t4 devices=8 price=15k net=25G",
                                    "name=b200x8 based_on=b200 devices=8 price=480k net=800G",
                                    "name=h100px4 based_on=h100-pcie devices=4 price=110k net=200G",
                                    "name=a30x4 based_on=a30 devices=4 price=26k net=100G",
                                    NULL};
static const char *const jobs[] = {"model=gpt2:124m batch=512 tokens=300G precision=f16",
                                   "model=gpt2:1558m batch=512 tokens=50G precision=f16",
                                   "model=gpt2:355m batch=256 tokens=100G precision=f16", NULL};

static double processor_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    struct given g;
    struct mt_err err = MT_ERR_INIT;
    struct mt_purchase *p;
    given_init(&g, items, jobs, NULL);
    g.buy.limits.budget = argc > 1 ? atof(argv[1]) : 2e6;
    g.buy.limits.devices = 512;
    g.buy.threads = argc > 2 ? atoi(argv[2]) : 2;
    for (; g.buy.nnext < 3; g.buy.nnext++) g.buy.next[g.buy.nnext] = g.buy.limits.budget * (0.1 + 0.15 * g.buy.nnext);
    double begin_s = mt_now_s(), work_s = processor_s();
    enum mt_status st = mt_buy_search(&g.buy, &p, &err);
    skip_without_glpk(st, &err);
    CHECK_OK(st, err);
    printf(
        "budget %.3g, %d threads: %.1f s by the clock, %.1f s of processors; %lld of %.3g configurations, %lld plans\n",
        g.buy.limits.budget, g.buy.threads, mt_now_s() - begin_s, processor_s() - work_s, (long long)p->judged,
        p->configurations, (long long)p->plans);
    for (int i = 0; i < p->nrows; i++)
        if (i < 3 || p->rows[i].frontier)
            printf("  %-50s price %9.0f  %9.0f s%s\n", p->rows[i].what, p->rows[i].price, p->rows[i].time_s,
                   p->rows[i].frontier ? "  frontier" : "");
    mt_purchase_free(p);
    given_release(&g);
    return 0;
}
