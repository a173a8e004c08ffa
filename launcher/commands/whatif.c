/* motley whatif: predict what other hardware would do for a job, and its cost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "launcher/commands/command.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/job_flags.h"
#include "launcher/flags/output.h"
#include "launcher/plan/planning_line.h"
#include "launcher/show/show.h"
#include "planner/review/whatif.h"
#include "profiler/describe/describe.h"

enum {
    KEY_CLUSTER = 'c',
    KEY_MODEL = 'm',
    KEY_PLAN = 0x2000,
    KEY_ADD,
    KEY_REMOVE,
    KEY_SET,
    KEY_CHANGE,
    KEY_TOKENS,
    KEY_PRICES,
    KEY_JSON,
    KEY_LIMIT,
    KEY_USE
};

enum { MOST_MODELS = 32, MOST_CHANGES = 256, MOST_CLUSTERS = 64 };

struct whatif_flags {
    struct mt_err *err;
    struct mt_job_flags job;
    const char *clusters[MOST_CLUSTERS], *plan, *prices;
    int nclusters;
    struct mt_output output;
    int nmodels, nchanges;
    const char *models[MOST_MODELS];
    struct {
        const char *verb, *what; /* verb null: --change */
    } changes[MOST_CHANGES];
    double tokens, limit_s;
    enum mt_use use;
};

static const struct argp_option flag_table[] = {
    {"cluster", KEY_CLUSTER, "FILE", 0,
     "a cluster's profile, or a description, as \"a100-40:2x8 net=25G\"; others are compared with the first", 1},
    {"model", KEY_MODEL, "TEXT", 0, MT_MODEL_HELP "; may be repeated, for a table each", 1},
    {"plan", KEY_PLAN, "FILE", 0, "take model and job from this plan, instead of --model and the job's flags", 1},
    {"use", KEY_USE, "WHO", 0, "who takes part: auto (ranks that slow the step are left out), or all [auto]", 1},
    {0, 0, 0, 0, "Alternatives, each a row of the table; may be repeated:", 2},
    {"add", KEY_ADD, "[Nx]NAME[@NODE]", 0,
     "devices of a class of the cluster, or of known hardware (motley profile --hardware), in NODE or in a new node",
     2},
    {"remove", KEY_REMOVE, "WHAT", 0, "rank:R, node:NAME, or [Nx]CLASS: the last N of a class", 2},
    {"set", KEY_SET, "WHAT=VALUE", 0,
     "link.net=400G (bits a second; of other links bytes), link.net.latency=5us, node.NAME.egress=100M or "
     "ingress, class.NAME.speed=1.2, class.NAME.memory=32GiB, rank.R.speed=0.5 or rank.R.memory=8GiB",
     2},
    {"change", KEY_CHANGE, "TEXT", 0, "several changes at once, as \"remove node:b, add 2xh100, set link.net=400G\"",
     2},
    {0, 0, 0, 0, "Results:", 3},
    {"tokens", KEY_TOKENS, "N", 0, "also the time to train on N tokens, as 300G", 3},
    {"prices", KEY_PRICES, "FILE", 0, "also the cost: CSV with the columns class,price_per_hour", 3},
    MT_OPTION_JSON(KEY_JSON, 3),
    {"limit", KEY_LIMIT, "S", 0, "time limit of each search in seconds, which ends with the best plan so far [600]", 3},
    {0}};

static enum mt_status add_change(struct whatif_flags *f, const char *verb, const char *what) {
    if (f->nchanges == MOST_CHANGES) return mt_fail(f->err, MT_EINPUT, "at most %d alternatives", MOST_CHANGES);
    f->changes[f->nchanges].verb = verb;
    f->changes[f->nchanges++].what = what;
    return MT_OK;
}

static enum mt_status add_cluster(struct whatif_flags *f, const char *text) {
    if (f->nclusters == MOST_CLUSTERS)
        return mt_fail(f->err, MT_EINPUT, "--cluster: at most %d of them", MOST_CLUSTERS);
    return mt_flag_path("--cluster", text, &f->clusters[f->nclusters++], f->err);
}

static enum mt_status add_model(struct whatif_flags *f, const char *text) {
    if (f->nmodels == MOST_MODELS) return mt_fail(f->err, MT_EINPUT, "--model: at most %d of them", MOST_MODELS);
    return mt_job_flags_model(&f->job, text, &f->models[f->nmodels++]);
}

static enum mt_status take_use(struct whatif_flags *f, const char *text) {
    static const char *const names[] = {"auto", "all"};
    int which = 0;
    enum mt_status st = mt_flag_name("--use", text, names, 2, &which, f->err);
    f->use = which ? MT_USE_ALL : MT_USE_AUTO;
    return st;
}

static bool is_operand(const char *word) { /* whatif has none */
    (void)word;
    return false;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct whatif_flags *f = state->input;
    enum mt_status st = MT_OK;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->job; break;
    case KEY_CLUSTER: st = add_cluster(f, text); break;
    case KEY_MODEL: st = add_model(f, text); break;
    case KEY_PLAN: st = mt_flag_path("--plan", text, &f->plan, f->err); break;
    case KEY_ADD: st = add_change(f, "add", text); break;
    case KEY_REMOVE: st = add_change(f, "remove", text); break;
    case KEY_SET: st = add_change(f, "set", text); break;
    case KEY_CHANGE: st = add_change(f, NULL, text); break;
    case KEY_TOKENS:
        if (!mt_units_parse_count(text, &f->tokens))
            st = mt_fail(f->err, MT_EINPUT, "--tokens: must be a number, as 300G, not \"%.60s\"", text);
        break;
    case KEY_PRICES: st = mt_flag_path("--prices", text, &f->prices, f->err); break;
    case KEY_USE: st = take_use(f, text); break;
    case KEY_JSON: st = mt_output_flag(text, state, is_operand, &f->output, f->err); break;
    case KEY_LIMIT: st = mt_flag_real("--limit", text, &f->limit_s, f->err); break;
    case ARGP_KEY_ARG: st = mt_flag_no_operand(text, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

static enum mt_status resolve(struct whatif_flags *f) {
    if (!f->nclusters) return mt_fail(f->err, MT_EINPUT, "--cluster is missing: name a profile, or describe a cluster");
    if (f->plan && (f->nmodels || f->job.given))
        return mt_fail(f->err, MT_EINPUT, "--plan excludes --model and the job's flags: it has its own model and job");
    if (!f->plan && !f->nmodels)
        return mt_fail(f->err, MT_EINPUT, "what would it train? Name a model with --model, or a plan with --plan");
    if (!(f->limit_s > 0)) return mt_fail(f->err, MT_EINPUT, "--limit: must be above 0");
    struct mt_files files = {0};
    for (int i = 0; i < f->nclusters; i++) mt_files_reads(&files, "--cluster", f->clusters[i]);
    mt_files_reads(&files, "--plan", f->plan);
    mt_files_reads(&files, "--prices", f->prices);
    mt_files_writes(&files, "--json", f->output.path, MT_WHATIF_FORMAT);
    enum mt_status st = mt_files_check(&files, f->err);
    return st || f->plan ? st : mt_job_flags_resolve(&f->job, f->err);
}

/* Clusters after the first, side by side with it. */
static enum mt_status add_clusters(const struct whatif_flags *f, struct mt_whatif *whatif, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 1; i < f->nclusters && !st; i++) {
        struct mt_cluster *cluster;
        if ((st = mt_cluster_open(f->clusters[i], &cluster, err))) return st;
        st = mt_whatif_beside(whatif, f->clusters[i], cluster, err);
        mt_cluster_free(cluster);
    }
    return st;
}

static enum mt_status apply_changes(const struct whatif_flags *f, struct mt_whatif *whatif, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0; i < f->nchanges && !st; i++)
        st = f->changes[i].verb ? mt_whatif_change(whatif, f->changes[i].verb, f->changes[i].what, err)
                                : mt_whatif_changes(whatif, f->changes[i].what, err);
    return st;
}

/* Answer for the plan's model, or for each model, and print each answer when it is known. */
static enum mt_status answer_models(const struct whatif_flags *f, struct mt_whatif *whatif, struct mt_err *err) {
    struct mt_whatif_answer answers[MOST_MODELS] = {0};
    struct mt_plan *plan = NULL;
    struct mt_tables doc = MT_TABLES_INIT;
    enum mt_status st = f->plan ? mt_plan_read(f->plan, &plan, err) : MT_OK;
    int count = f->plan ? 1 : f->nmodels, done = 0;
    if (!plan) mt_job_flags_say_precision(&f->job, whatif->cluster, &doc);
    for (; done < count && !st; done++) {
        bool same = plan && !strcmp(plan->cluster_hash, whatif->cluster->hash);
        struct mt_planning_line line;
        whatif->watch = mt_planning_line_begin(&line, 0);
        st = mt_whatif_ask(whatif, plan ? plan->model : f->models[done], plan ? &plan->job : &f->job.job,
                           same ? plan : NULL, &answers[done], err);
        if (st) continue;
        if (done) mt_tables_say(&doc, "%s", "");
        mt_whatif_tables(whatif, &answers[done], &doc);
        mt_output_tell(&f->output, &doc);
    }
    const struct mt_output printed = {.json = f->output.json};
    if (!st) st = mt_output_end(&printed, &doc, err);
    if (!st && f->output.path) st = mt_whatif_write(whatif, answers, count, f->output.path, err);
    mt_tables_release(&doc);
    for (int i = 0; i < done; i++) mt_whatif_answer_release(&answers[i]);
    mt_plan_free(plan);
    return st;
}

int mt_command_whatif(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct whatif_flags f = {.err = &err, .limit_s = 600};
    struct mt_prices prices = {0};
    struct mt_cluster *cluster = NULL;
    mt_job_flags_init(&f.job, &err);
    struct argp_child children[] = {{mt_job_argp(), 0, "The job, with --model:", 4}, {0}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .doc = "Plan a job for a cluster and for alternatives to it, and predict each; the first row is "
               "the cluster as it is. Further clusters are compared side by side; changes are made to the first.\v"
               "All alternatives train the same job. Figures: \"measured\"; \"nominal\", from public "
               "data; \"thought of\", measured, but of hardware that is not there.",
        .children = children};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st) st = resolve(&f);
    if (!st) mt_job_flags_say(&f.job);
    if (!st && f.prices) st = mt_prices_read(f.prices, &prices, &err);
    if (!st) st = mt_cluster_open(f.clusters[0], &cluster, &err);
    if (!st) {
        struct mt_whatif whatif = {.cluster = cluster,
                                   .name = f.nclusters > 1 ? f.clusters[0] : NULL,
                                   .prices = f.prices ? &prices : NULL,
                                   .tokens = f.tokens,
                                   .limit_s = f.limit_s,
                                   .use = f.use};
        if (!(st = add_clusters(&f, &whatif, &err)) && !(st = apply_changes(&f, &whatif, &err)))
            st = answer_models(&f, &whatif, &err);
        mt_whatif_release(&whatif);
    }
    mt_cluster_free(cluster);
    mt_prices_release(&prices);
    mt_job_flags_release(&f.job);
    return st ? mt_command_fail(&err) : 0;
}
