/* motley buy: what to buy or rent for some jobs, of a catalogue and beside what is owned. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/working.h"
#include "kernels/base/text/units.h"
#include "launcher/commands/command.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/output.h"
#include "launcher/show/purchase/purchase.h"
#include "planner/buy/buy.h"
#include "planner/buy/catalogue/jobs.h"
#include "profiler/describe/describe.h"

enum {
    KEY_OWN = 0x2000,
    KEY_CATALOGUE,
    KEY_ITEM,
    KEY_JOB,
    KEY_JOBS,
    KEY_BUDGET,
    KEY_PER_HOUR,
    KEY_POWER,
    KEY_RACK_UNITS,
    KEY_NODES,
    KEY_DEVICES,
    KEY_NET,
    KEY_FOR,
    KEY_NEXT,
    KEY_ROWS,
    KEY_THREADS,
    KEY_CLUSTER_OUT,
    KEY_JSON,
    KEY_OUT = 'o'
};
enum { USUAL_DEVICES = 512, USUAL_ROWS = 10, MOST_THREADS = 64 };

struct buy_flags {
    struct mt_err *err;
    struct mt_catalogue catalogue;
    struct mt_buy_jobs jobs;
    struct mt_buy buy;
    const char *own, *out, *cluster_out;
    struct mt_output output;
    struct mt_files files;
    struct mt_arena arena;
};

static const struct argp_option flag_table[] = {
    {"catalogue", KEY_CATALOGUE, "FILE", 0, "CSV with named columns, or JSON; a row is a node; may be repeated", 1},
    {"item", KEY_ITEM, "TEXT", 0, "a row of it: \"name=dgx based_on=h100 devices=8 price=280k\"; may be repeated", 1},
    {"own", KEY_OWN, "CLUSTER", 0, "what is owned already: a profile, or a line, as \"h100:2x8\"", 1},
    {"net", KEY_NET, "RATE", 0, "the network of nodes that do not say, as 400Gbps [25Gbps; that of what is owned]", 1},
    {"job", KEY_JOB, "TEXT", 0,
     "\"model=gpt2:124m batch=512 tokens=300G deadline=30d precision=bf16\"; may be repeated: one after another", 2},
    {"jobs", KEY_JOBS, "FILE", 0, "jobs, a line each", 2},
    {"budget", KEY_BUDGET, "MONEY", 0, "to buy with, as 2M", 3},
    {"budget-per-hour", KEY_PER_HOUR, "MONEY", 0, "to rent with", 3},
    {"power", KEY_POWER, "WATTS", 0, "the most that what is bought may draw, as 40k", 3},
    {"rack-units", KEY_RACK_UNITS, "N", 0, "the most that it may occupy; items that do not say theirs are left out", 3},
    {"max-nodes", KEY_NODES, "N", 0, "the most nodes that are bought", 3},
    {"max-devices", KEY_DEVICES, "N", 0, "the most devices of a configuration, at most 4096 [512]", 3},
    {"for", KEY_FOR, "WHAT", 0, "time: the fastest within the budget; cost: the cheapest in time [time]", 4},
    {"next", KEY_NEXT, "LIST", 0, "what further sums would buy [a tenth, a quarter and a half of the budget]", 4},
    {"rows", KEY_ROWS, "N", 0, "configurations that are shown, beside the frontier's [10]", 4},
    {"output", KEY_OUT, "FILE", 0, "write the purchase, for show, diff and report", 4},
    {"write-cluster", KEY_CLUSTER_OUT, "FILE", 0, "write the best one's cluster, for `motley plan --cluster`", 4},
    MT_OPTION_JSON(KEY_JSON, 4),
    {"threads", KEY_THREADS, "N", 0, "configurations that are planned at the same time [as many as cores]", 4},
    {0}};

static enum mt_status take_money(const char *flag, const char *text, double *money, struct mt_err *err) {
    if (!mt_units_parse_money(text, money))
        return mt_fail(err, MT_EINPUT, "%s: must be a sum of money, as 2M or 250000, not \"%.60s\"", flag, text);
    if (!(*money > 0)) return mt_fail(err, MT_EINPUT, "%s: is %g, but must be above 0", flag, *money);
    return *money <= MT_PURCHASE_MOST ? MT_OK : mt_fail(err, MT_EINPUT, "%s: is %g, above 1e18", flag, *money);
}

static enum mt_status take_int(const char *flag, const char *text, int most, int *value, struct mt_err *err) {
    int64_t number;
    enum mt_status st = mt_flag_int(flag, text, 1, most, &number, err);
    if (!st) *value = (int)number;
    return st;
}

static enum mt_status take_next(struct buy_flags *f, const char *text) {
    char **words;
    int count;
    enum mt_status st = mt_flag_words("--next", text, &f->arena, &words, &count, f->err);
    if (!st && count > MT_BUY_MOST_NEXT) st = mt_fail(f->err, MT_EINPUT, "--next: at most %d sums", MT_BUY_MOST_NEXT);
    for (int i = 0; i < count && !st; i++) st = take_money("--next", words[i], &f->buy.next[i], f->err);
    f->buy.nnext = st ? 0 : count;
    return st;
}

static enum mt_status take_net(struct buy_flags *f, const char *text) {
    if (mt_units_parse_rate(text, true, &f->buy.net_bps) && f->buy.net_bps <= 1e18) return MT_OK;
    mt_fail(f->err, MT_EINPUT, "--net: must be a rate, not \"%.60s\"", text);
    return mt_err_hint(f->err, "%s", mt_units_rate_hint(text, true));
}

static enum mt_status take_for(struct buy_flags *f, const char *text) {
    static const char *const names[] = {"time", "cost"};
    int which = 0;
    enum mt_status st = mt_flag_name("--for", text, names, 2, &which, f->err);
    f->buy.by_cost = which;
    return st;
}

static enum mt_status take_limit(struct buy_flags *f, int key, const char *text) {
    struct mt_purchase_limits *l = &f->buy.limits;
    switch (key) {
    case KEY_BUDGET: return take_money("--budget", text, &l->budget, f->err);
    case KEY_PER_HOUR: return take_money("--budget-per-hour", text, &l->budget_per_hour, f->err);
    case KEY_POWER: return take_money("--power", text, &l->power_W, f->err);
    case KEY_RACK_UNITS: return take_money("--rack-units", text, &l->rack_units, f->err);
    case KEY_NODES: return take_int("--max-nodes", text, MT_PURCHASE_MOST_DEVICES, &l->nodes, f->err);
    default: return take_int("--max-devices", text, MT_PURCHASE_MOST_DEVICES, &l->devices, f->err);
    }
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct buy_flags *f = state->input;
    enum mt_status st = MT_OK;
    switch (key) {
    case KEY_CATALOGUE:
        mt_files_reads(&f->files, "--catalogue", text);
        st = mt_catalogue_read(text, &f->catalogue, f->err);
        break;
    case KEY_ITEM: st = mt_catalogue_line(text, &f->catalogue, f->err); break;
    case KEY_OWN: st = mt_flag_path("--own", text, &f->own, f->err); break;
    case KEY_NET: st = take_net(f, text); break;
    case KEY_JOB: st = mt_buy_jobs_line(text, &f->jobs, f->err); break;
    case KEY_JOBS:
        mt_files_reads(&f->files, "--jobs", text);
        st = mt_buy_jobs_read(text, &f->jobs, f->err);
        break;
    case KEY_BUDGET:
    case KEY_PER_HOUR:
    case KEY_POWER:
    case KEY_RACK_UNITS:
    case KEY_NODES:
    case KEY_DEVICES: st = take_limit(f, key, text); break;
    case KEY_FOR: st = take_for(f, text); break;
    case KEY_NEXT: st = take_next(f, text); break;
    case KEY_ROWS: st = take_int("--rows", text, MT_BUY_MOST_JUDGED, &f->buy.rows, f->err); break;
    case KEY_OUT: st = mt_flag_path("--output", text, &f->out, f->err); break;
    case KEY_CLUSTER_OUT: st = mt_flag_path("--write-cluster", text, &f->cluster_out, f->err); break;
    case KEY_JSON: st = mt_output_flag(text, state, NULL, &f->output, f->err); break;
    case KEY_THREADS: st = take_int("--threads", text, MOST_THREADS, &f->buy.threads, f->err); break;
    case ARGP_KEY_ARG: st = mt_flag_no_operand(text, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

/* bf16 if all that has a price has it, else f16 if all have, else f32. */
static void choose_precisions(struct buy_flags *f, const struct mt_cluster *owned) {
    static const enum mt_type half[] = {MT_BF16, MT_F16};
    enum mt_type precision = MT_F32;
    for (int h = 0; h < 2 && precision == MT_F32; h++) {
        bool all = true;
        for (int i = 0; i < f->catalogue.count; i++)
            all &= !f->catalogue.items[i].priced || f->catalogue.items[i].row.tflops[half[h]] > 0;
        for (int k = 0; owned && k < owned->nclasses; k++) all &= owned->classes[k].flops[half[h]] > 0;
        if (all) precision = half[h];
    }
    for (int j = 0; j < f->jobs.count; j++) {
        if (!f->jobs.automatic[j]) continue;
        f->jobs.items[j].job.precision = precision;
        mt_buy_job_scale(&f->jobs.items[j].job);
    }
}

static enum mt_status resolve(struct buy_flags *f) {
    struct mt_purchase_limits *l = &f->buy.limits;
    if (!f->jobs.count) {
        mt_fail(f->err, MT_EINPUT, "what would it train? Name a job with --job, or jobs with --jobs");
        return mt_err_hint(f->err, "as --job \"model=gpt2:124m batch=512 tokens=300G\"");
    }
    if (!l->devices) l->devices = USUAL_DEVICES;
    double budget = l->budget > 0 ? l->budget : l->budget_per_hour;
    static const double parts[] = {0.1, 0.25, 0.5};
    for (int k = 0; k < 3 && !f->buy.nnext && budget > 0; k++) f->buy.next[k] = parts[k] * budget;
    if (!f->buy.nnext && budget > 0) f->buy.nnext = 3;
    if (f->buy.threads < 1) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        f->buy.threads = cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (int)cores;
    }
    mt_files_reads(&f->files, "--own", f->own);
    mt_files_writes(&f->files, "--output", f->out, MT_PURCHASE_FORMAT);
    mt_files_describes(&f->files, "--write-cluster", f->cluster_out);
    mt_files_writes(&f->files, "--json", f->output.path, MT_TABLES_FORMAT);
    return mt_files_check(&f->files, f->err);
}

static void tell(void *context, int judged, double money) {
    char text[MT_UNITS_TEXT];
    (void)context;
    mt_working(0, 0, "%d configurations planned, up to %s of money", judged, mt_units_count(money, text));
}

static enum mt_status write_cluster(const struct buy_flags *f, const struct mt_purchase *p, struct mt_err *err) {
    int64_t counts[MT_PURCHASE_MOST_ITEMS] = {0};
    struct mt_cluster *cluster;
    for (int i = 0; i < f->catalogue.count; i++)
        for (int k = 0; k < p->nitems; k++)
            if (!strcmp(p->items[k].name, f->catalogue.items[i].shown.name)) counts[i] = p->rows[0].counts[k];
    enum mt_status st = mt_buy_cluster(&f->buy, counts, &cluster, err);
    if (st) return st;
    st = mt_cluster_write(cluster, f->cluster_out, err);
    mt_cluster_free(cluster);
    return st;
}

static enum mt_status print(const struct buy_flags *f, const struct mt_purchase *p, struct mt_err *err) {
    struct mt_tables out = MT_TABLES_INIT;
    mt_purchase_tables(p, &out);
    enum mt_status st = mt_output_end(&f->output, &out, err);
    mt_tables_release(&out);
    return st;
}

static enum mt_status search(struct buy_flags *f, struct mt_err *err) {
    struct mt_cluster *owned = NULL;
    struct mt_purchase *p = NULL;
    enum mt_status st = f->own ? mt_cluster_open(f->own, &owned, err) : MT_OK;
    if (st) return st;
    choose_precisions(f, owned);
    f->buy.items = f->catalogue.items, f->buy.nitems = f->catalogue.count;
    f->buy.jobs = f->jobs.items, f->buy.njobs = f->jobs.count, f->buy.recompute = f->jobs.recompute;
    f->buy.owned = owned, f->buy.owned_what = f->own;
    f->buy.plan_again = f->buy.bottlenecks = true;
    f->buy.judged = tell;
    mt_working_begin("searching");
    st = mt_buy_search(&f->buy, &p, err);
    mt_working_end();
    if (!st) st = print(f, p, err);
    if (!st && f->out) st = mt_purchase_write(p, f->out, err);
    if (!st && f->cluster_out) st = write_cluster(f, p, err);
    mt_purchase_free(p);
    mt_cluster_free(owned);
    return st;
}

int mt_command_buy(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct buy_flags f = {.err = &err, .buy = {.rows = USUAL_ROWS}};
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .doc =
            "Search what to buy or rent, of a catalogue and beside what is owned, for the least time (or cost) of "
            "jobs that run one after another.\v"
            "A row of the catalogue is a node with all its devices; its columns are name, based_on (a row of "
            "`motley profile --hardware`), devices, price (to buy, once), per_hour (while jobs run), power (watts), "
            "rack_units, most, net, link, and of a device memory, f64, f32, bf16, f16, streaming, reached, overhead, "
            "kind. Rows without a price are left out by name; a price may be 0. Known hardware has no prices; its "
            "power figures name their source.\n\n"
            "The network: net=RATE is in bits a second (400G, 400Gbps, 50GB/s) and is each node's, one way; the "
            "fastest of a configuration is its network, nodes with a slower one send and receive at most that. link "
            "is nvlink, pcie or memory, with =RATE in bytes a second. What is owned is a line NAME[:NODES[xDEVICES]] "
            "[LINK=RATE ...], joined by \" + \" (h100:2x8 is 2 nodes of 8, h100:8 are 8 nodes of one), or a profile. "
            "At most 64 rows, 16 jobs, 4096 devices.\n\n"
            "A configuration's cost is its price and what its hours cost. Ties are times that may as well be the "
            "other way round, within their error bands."};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st) st = resolve(&f);
    if (!st) st = search(&f, &err);
    mt_catalogue_release(&f.catalogue);
    mt_buy_jobs_release(&f.jobs);
    mt_arena_release(&f.files.arena); /* of flags that were refused */
    mt_arena_release(&f.arena);
    return st ? mt_command_fail(&err) : 0;
}
