/* The flags of `motley plan`: what a person decides, the mode, and the inputs that are named.
 *
 *     struct mt_plan_flags flags;
 *     mt_plan_flags_init(&flags, &err);
 *     if (!(st = mt_plan_flags_parse(&flags, argc, argv))) ... flags.mode, flags.request ...
 *     mt_plan_flags_release(&flags); */
#ifndef MT_LAUNCHER_FLAGS_PLAN_FLAGS_H
#define MT_LAUNCHER_FLAGS_PLAN_FLAGS_H

#include <stdio.h>

#include "launcher/flags/job_flags.h"
#include "launcher/flags/output.h"
#include "planner/make/make.h"

enum { MT_PLAN_MOST_ROWS = 64 }; /* of --storage, of --storage-shares */

enum mt_plan_mode {
    MT_PLAN_BY_SPEEDS,   /* --speeds, --even, --shares */
    MT_PLAN_FOR_CLUSTER, /* --cluster */
    MT_PLAN_CHECK,       /* --check */
    MT_PLAN_REPLAN,      /* --from */
};

struct mt_plan_flags {
    struct mt_err *err;
    struct mt_arena arena;
    enum mt_plan_mode mode;
    struct mt_job_flags job;
    const char *out, *check, *cluster, *from, *cluster_out; /* or null */
    struct mt_cluster *opened;                              /* what `cluster` names, or null */
    struct mt_plan *replaced;                               /* with a cluster: the plan that `out` names, or null */
    double limit_s;
    void (*list)(FILE *);  /* what prints the list that a flag asks for instead of a plan, or null */
    const char *listed_by; /* that flag */
    const char *unlisted;  /* the first flag that asks for none, or null */
    const char *ranks_by;  /* the flag that first said how many ranks there are */
    const char *shares_by; /* the flag that said how the batch is divided */
    int nuse;              /* ranks that --use lists */
    int64_t *use;          /* [nuse] */
    const char *decided;   /* the first flag that decides something of a plan, or null */
    bool limited;          /* --limit was given */
    struct mt_output output;
    bool without_idle; /* write the plan for the ranks that take part */
    struct mt_plan_request request;
    struct mt_storage_shares shares[MT_PLAN_MOST_ROWS];
    struct mt_storage_row storage[MT_PLAN_MOST_ROWS];
    struct mt_algorithm_row algorithms[MT_NCOLLS];
};

void mt_plan_flags_init(struct mt_plan_flags *flags, struct mt_err *err);
void mt_plan_flags_release(struct mt_plan_flags *flags);

/* Parse, refuse contradictions, apply defaults, read the inputs. The error goes to flags->err. */
enum mt_status mt_plan_flags_parse(struct mt_plan_flags *flags, int argc, char **argv);

/* A list or a cluster that says how many ranks there are: the first one fixes it, the others must agree. */
enum mt_status mt_plan_flags_ranks(struct mt_plan_flags *flags, const char *flag, int64_t count);

#endif
