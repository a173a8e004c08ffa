/* motley plan: make a plan; or check an edited plan and sign it; or replan from what a run has seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/printed.h"
#include "launcher/commands/command.h"
#include "launcher/plan/modes.h"

/* "-" is standard output, where nothing else is printed then. */
static enum mt_status write_plan(struct mt_plan *plan, const char *out, struct mt_err *err) {
    if (strcmp(out, "-")) {
        enum mt_status st = mt_plan_write(plan, out, err);
        if (!st) printf("%s: %d rank%s, %s\n", out, plan->nranks, plan->nranks == 1 ? "" : "s", plan->hash);
        return st;
    }
    size_t length;
    char *text = mt_plan_text(plan, &length);
    enum mt_status st = MT_OK;
    if (fwrite(text, 1, length, stdout) != length || fflush(stdout)) st = mt_fail_errno(err, "standard output");
    free(text);
    return st;
}

static void leave_out_idle(struct mt_plan *plan, FILE *remarks) {
    int idle = plan->nranks - plan->nplaces;
    if (idle)
        fprintf(remarks, "left out   %d idle rank%s: start it with `mpirun -n %d`%s\n", idle, idle == 1 ? "" : "s",
                plan->nplaces, plan->ranks[0].host[0] ? " on the hosts that it names" : "");
    else
        fprintf(remarks, "left out   nothing: no rank is idle\n");
    mt_plan_drop_idle(plan);
}

int mt_command_plan(int argc, char **argv) {
    static enum mt_status (*const modes[])(struct mt_plan_flags *, struct mt_plan **, FILE *,
                                           struct mt_err *) = {[MT_PLAN_BY_SPEEDS] = mt_plan_by_speeds,
                                                               [MT_PLAN_FOR_CLUSTER] = mt_plan_for_cluster,
                                                               [MT_PLAN_CHECK] = mt_plan_check_edited,
                                                               [MT_PLAN_REPLAN] = mt_plan_replan};
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_flags flags;
    struct mt_plan *plan = NULL;
    struct mt_printed printed;
    char *remarks = NULL;
    mt_plan_flags_init(&flags, &err);
    enum mt_status st = mt_plan_flags_parse(&flags, argc, argv);
    if (!st) {
        FILE *file = mt_printed_begin(&printed);
        st = modes[flags.mode](&flags, &plan, file, &err);
        if (!st && flags.without_idle) leave_out_idle(plan, file);
        remarks = mt_printed_end(&printed);
    }
    if (!st) st = write_plan(plan, flags.out, &err);
    if (!st && strcmp(flags.out, "-")) fputs(remarks, stdout);
    free(remarks);
    mt_plan_free(plan);
    mt_plan_flags_release(&flags);
    return st ? mt_command_fail(&err) : 0;
}
