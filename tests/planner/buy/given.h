/* Purchases to search: a catalogue, jobs and limits, from texts. */
#ifndef MT_TESTS_PLANNER_BUY_GIVEN_H
#define MT_TESTS_PLANNER_BUY_GIVEN_H

#include <stdlib.h>

#include "planner/buy/buy.h"
#include "planner/buy/catalogue/jobs.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

struct given {
    struct mt_catalogue catalogue;
    struct mt_buy_jobs jobs;
    struct mt_cluster *owned;
    struct mt_buy buy;
};

/* items, jobs: end with null. own: a line, or null. */
static inline void given_init(struct given *g, const char *const *items, const char *const *jobs, const char *own) {
    struct mt_err err = MT_ERR_INIT;
    *g = (struct given){.owned = NULL};
    for (; *items; items++) CHECK_OK(mt_catalogue_line(*items, &g->catalogue, &err), err);
    for (; *jobs; jobs++) CHECK_OK(mt_buy_jobs_line(*jobs, &g->jobs, &err), err);
    if (own) CHECK_OK(mt_cluster_describe(own, NULL, &g->owned, &err), err);
    for (int j = 0; j < g->jobs.count; j++)
        if (g->jobs.automatic[j]) g->jobs.items[j].job.precision = MT_F32;
    g->buy = (struct mt_buy){.items = g->catalogue.items,
                             .nitems = g->catalogue.count,
                             .owned = g->owned,
                             .owned_what = own,
                             .jobs = g->jobs.items,
                             .njobs = g->jobs.count,
                             .recompute = g->jobs.recompute,
                             .rows = 10,
                             .threads = 2};
}

static inline void given_release(struct given *g) {
    mt_cluster_free(g->owned);
    mt_catalogue_release(&g->catalogue);
    mt_buy_jobs_release(&g->jobs);
}

/* Without GLPK there is nothing to test. */
static inline void skip_without_glpk(enum mt_status st, const struct mt_err *err) {
    if (st != MT_EMISSING) return;
    printf("skipped: %s\n", err->text);
    exit(77);
}

#endif
