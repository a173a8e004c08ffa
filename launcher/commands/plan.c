/* motley plan: make a plan; or check an edited plan and sign it; or replan from what a run has seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/commands/command.h"
#include "launcher/plan/modes.h"
#include "planner/plan/overlapped.h"

/* "-" is standard output, where nothing else is printed then. */
static enum mt_status write_plan(struct mt_plan *plan, const char *out, struct mt_err *err) {
    if (strcmp(out, "-")) return mt_plan_write(plan, out, err);
    size_t length;
    char *text = mt_plan_text(plan, &length);
    enum mt_status st = MT_OK;
    if (fwrite(text, 1, length, stdout) != length || fflush(stdout)) st = mt_fail_errno(err, "standard output");
    free(text);
    return st;
}

/* The line of the file that was written, then the remarks. */
static enum mt_status tell(const struct mt_plan_flags *flags, const struct mt_plan *plan, struct mt_tables *remarks,
                           struct mt_err *err) {
    struct mt_tables written = MT_TABLES_INIT;
    bool text = !flags->output.json;
    mt_tables_say(&written, "%s: %d rank%s, %s", flags->out, plan->nranks, plan->nranks == 1 ? "" : "s", plan->hash);
    if (text) mt_tables_write(&written, MT_TABLES_TEXT, stdout);
    mt_tables_release(&written);
    struct mt_table *t = mt_tables_add_values(remarks, "written");
    mt_table_put_text(t, "file", "%s", flags->out);
    mt_table_put_text(t, "hash", "%s", plan->hash);
    mt_table_put_real(t, "ranks", MT_UNIT_COUNT, plan->nranks);
    mt_table_put_real(t, "ranks_that_work", MT_UNIT_COUNT, plan->nplaces);
    return mt_output_end(&flags->output, remarks, err);
}

static void leave_out_idle(struct mt_plan *plan, struct mt_tables *remarks) {
    int idle = plan->nranks - plan->nplaces;
    if (idle)
        mt_tables_say(remarks, "left out   %d idle rank%s: start it with `mpirun -n %d`%s", idle, idle == 1 ? "" : "s",
                      plan->nplaces, plan->ranks[0].host[0] ? " on the hosts that it names" : "");
    else
        mt_tables_say(remarks, "left out   nothing: no rank is idle");
    mt_plan_drop_idle(plan);
}

int mt_command_plan(int argc, char **argv) {
    static enum mt_status (*const modes[])(struct mt_plan_flags *, struct mt_plan **, struct mt_tables *,
                                           struct mt_err *) = {[MT_PLAN_BY_SPEEDS] = mt_plan_by_speeds,
                                                               [MT_PLAN_FOR_CLUSTER] = mt_plan_for_cluster,
                                                               [MT_PLAN_CHECK] = mt_plan_check_edited,
                                                               [MT_PLAN_REPLAN] = mt_plan_replan};
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_flags flags;
    struct mt_plan *plan = NULL;
    struct mt_tables remarks = MT_TABLES_INIT;
    mt_plan_flags_init(&flags, &err);
    enum mt_status st = mt_plan_flags_parse(&flags, argc, argv);
    if (!st) st = modes[flags.mode](&flags, &plan, &remarks, &err);
    if (!st) st = mt_overlapped_remark(plan, &remarks, &err);
    if (!st && flags.without_idle) leave_out_idle(plan, &remarks);
    if (!st) st = write_plan(plan, flags.out, &err);
    if (!st && strcmp(flags.out, "-")) st = tell(&flags, plan, &remarks, &err);
    mt_tables_release(&remarks);
    mt_plan_free(plan);
    mt_plan_flags_release(&flags);
    return st ? mt_command_fail(&err) : 0;
}
