/* motley explain: what a plan does on its cluster, why that and not a classic, and its bottlenecks. */
#include <errno.h>
#include <stdio.h>

#include "launcher/commands/command.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/output.h"
#include "launcher/run/trace.h"
#include "launcher/show/show.h"
#include "planner/make/planning.h"
#include "planner/predict/timeline.h"
#include "planner/review/explain.h"
#include "profiler/describe/describe.h"

enum { KEY_CLUSTER = 'c', KEY_TRACE = 0x2000, KEY_JSON };

struct explain_flags {
    struct mt_err *err;
    const char *path, *cluster, *trace;
    struct mt_output output;
};

static const struct argp_option flag_table[] = {
    {"cluster", KEY_CLUSTER, "FILE", 0, "the profile or description of the cluster that the plan was made for", 1},
    MT_OPTION_JSON(KEY_JSON, 1),
    {"trace", KEY_TRACE, "FILE", 0,
     "write the predicted step as a timeline, too, for Perfetto or chrome://tracing; that of `motley train --trace` "
     "opens "
     "beside it",
     1},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct explain_flags *f = state->input;
    if (key == KEY_CLUSTER) return mt_flag_path("--cluster", text, &f->cluster, f->err) ? EINVAL : 0;
    if (key == KEY_JSON) return mt_output_flag(text, state, NULL, &f->output, f->err) ? EINVAL : 0;
    if (key == KEY_TRACE) return mt_flag_path("--trace", text, &f->trace, f->err) ? EINVAL : 0;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    return mt_flag_operand("plan", text, &f->path, f->err) ? EINVAL : 0;
}

static enum mt_status validate(const struct explain_flags *f) {
    if (!f->path) return mt_fail(f->err, MT_EINPUT, "explain what? Name a plan");
    struct mt_files files = {0};
    mt_files_reads(&files, NULL, f->path);
    mt_files_reads(&files, "--cluster", f->cluster);
    mt_files_writes(&files, "--trace", f->trace, NULL);
    mt_files_writes(&files, "--json", f->output.path, MT_TABLES_FORMAT);
    if (f->cluster) return mt_files_check(&files, f->err);
    mt_arena_release(&files.arena);
    mt_fail(f->err, MT_EINPUT, "--cluster is missing: a plan is explained on its cluster");
    return mt_err_hint(f->err, "as --cluster cluster.json, the cluster that the plan was made for");
}

static enum mt_status tell(const struct explain_flags *f, const struct mt_plan *plan,
                           const struct mt_explained *explained, const struct mt_planned *planned) {
    struct mt_tables doc = MT_TABLES_INIT;
    if (plan->hypothetical[0])
        mt_tables_say_styled(&doc, MT_STYLE_WARNING, "The plan is hypothetical: it cannot run here: %s.",
                             plan->hypothetical);
    mt_explained_tables(explained, planned, &doc);
    enum mt_status st = mt_output_end(&f->output, &doc, f->err);
    mt_tables_release(&doc);
    return st;
}

static enum mt_status write_trace(const struct explain_flags *f, const struct mt_plan *plan,
                                  const struct mt_planned *planned, const struct mt_cluster *cluster) {
    struct mt_timeline timeline;
    enum mt_status st = mt_planning_timeline(plan, &planned->program, cluster, &timeline, f->err);
    if (st) return st;
    st = mt_trace_predicted_write(&(struct mt_trace_predicted){plan, &timeline}, f->trace, f->err);
    mt_timeline_release(&timeline);
    return st ? mt_err_context(f->err, "--trace") : MT_OK;
}

static enum mt_status explain(const struct explain_flags *f) {
    struct mt_plan *plan;
    struct mt_cluster *cluster;
    struct mt_explained explained;
    struct mt_planned planned;
    enum mt_status st = mt_plan_read(f->path, &plan, f->err);
    if (st) return st;
    if (!(st = mt_cluster_open(f->cluster, &cluster, f->err))) {
        if (!(st = mt_planning_same(plan, f->path, cluster, f->cluster, f->err)) &&
            !(st = mt_planned_open(plan, &planned, f->err))) {
            if (f->trace) st = write_trace(f, plan, &planned, cluster);
            if (!st && !(st = mt_explain(plan, cluster, &explained, f->err))) {
                st = tell(f, plan, &explained, &planned);
                mt_explained_release(&explained);
            }
            mt_planned_release(&planned);
        }
        mt_cluster_free(cluster);
    }
    mt_plan_free(plan);
    return st;
}

int mt_command_explain(int argc, char **argv) {
    static const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "PLAN --cluster FILE",
        .doc =
            "Say what a plan's program does, by kind of layer: what is divided over what, which collectives move what, "
            "where state is; what the best plan of each classic strategy takes beside it, and why. Name the "
            "bottlenecks on the cluster that it was made for: ranks, memory, links; and predict the step with each "
            "class of devices 10% faster, each link twice as fast, each memory a quarter larger."};
    struct mt_err err = MT_ERR_INIT;
    struct explain_flags f = {.err = &err};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st) st = validate(&f);
    if (!st) st = explain(&f);
    return st ? mt_command_fail(&err) : 0;
}
