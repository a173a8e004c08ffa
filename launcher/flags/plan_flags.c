/* Flags of `motley plan`. The file is long since a flag, what it sets and what excludes it are read together. */
#include "launcher/flags/plan_flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text/nearest.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "profiler/describe/describe.h"
#include "synth/models/model.h"

enum {
    KEY_RANKS = 'n',
    KEY_MODEL = 'm',
    KEY_OUT = 'o',
    KEY_SPEEDS = 0x2000,
    KEY_EVEN,
    KEY_SHARES,
    KEY_HOSTS,
    KEY_MEMORY,
    KEY_MICRO,
    KEY_USE,
    KEY_STORAGE,
    KEY_STORAGE_SPEEDS,
    KEY_STORAGE_SHARES,
    KEY_BUCKET,
    KEY_STAGING,
    KEY_WIRE,
    KEY_ALGORITHM,
    KEY_CHECK,
    KEY_CLUSTER,
    KEY_FROM,
    KEY_CLUSTER_OUT,
    KEY_LIMIT,
    KEY_WITHOUT_IDLE,
    KEY_DEVICE,
    KEY_RECOMPUTE,
    KEY_HYPOTHETICAL,
    KEY_STRATEGY,
    KEY_COMPARE,
    KEY_MODELS,
    KEY_DOCUMENT,
    KEY_JSON,
    KEY_DECISION /* the first of decisions.def */
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "What, and on how many ranks:", 1},
    {"model", KEY_MODEL, "TEXT", 0, MT_MODEL_HELP "; see --models", 1},
    {"ranks", KEY_RANKS, "N", 0, "processes [as many as --speeds, --shares or --hosts lists]", 1},
    {"hosts", KEY_HOSTS, "A,A,B", 0, "each rank's host [any]", 1},
    {"device", KEY_DEVICE, "KIND", 0, "what ranks compute with, cpu or cuda [cpu]", 1},
    {"memory", KEY_MEMORY, "BYTES,...", 0,
     "what each rank may use, at most what its device has; one number for all [what the device has; without --cluster "
     "not "
     "checked]",
     1},
    {"models", KEY_MODELS, 0, 0, "list the models and their options", 1},
    {"cluster", KEY_CLUSTER, "FILE", 0,
     "a cluster's profile, or what describes one, as h100:2x8 (2 nodes of 8): search for the fastest plan; what flags "
     "below decide stays so",
     1},
    {"from", KEY_FROM, "RUN", 0, "replan what RUN (a folder, or its run.json) trained, by the speeds that it measured",
     1},
    {"limit", KEY_LIMIT, "S", 0, "with --cluster: seconds after which the search ends with its best so far [600]", 1},
    {"use", KEY_USE, "RANKS", 0,
     "with --cluster: who takes part: auto (ranks that slow the step are left out), all, or a list of ranks as 0,2,3 "
     "[auto; all with --shares, --even or --storage-shares]",
     1},
    {"strategy", KEY_STRATEGY, "NAME", 0,
     "with --cluster: the fastest plan of one kind: data, zero1, factors, zero3, hybrid, tensor, tensor+sequence, flat "
     "or "
     "mesh; --strategy list says what they are [the fastest of all]",
     1},
    {"compare", KEY_COMPARE, 0, 0, "with --cluster: also print what the best plan of each strategy takes", 1},
    {"hypothetical", KEY_HYPOTHETICAL, 0, 0,
     "with --cluster: predict also for devices that have no kernels here, or lack the precision; the plan says so, and "
     "`motley train` refuses it",
     1},
    {0, 0, 0, 0, "How samples are divided:", 2},
    {"speeds", KEY_SPEEDS, "1,0.7,0.3", 0, "in proportion to the ranks' speeds", 2},
    {"even", KEY_EVEN, 0, 0, "evenly (the default without --cluster)", 2},
    {"shares", KEY_SHARES, "5,4,1", 0, "exactly so", 2},
    {"micro", KEY_MICRO, "M,...", 0, "samples a micro-batch at most; one number for all [a rank's whole share]", 2},
    {"recompute", KEY_RECOMPUTE, "WHAT", 0,
     "activation recomputation: none, pointwise (activations and norms) or segments (all but the values that cut the "
     "forward pass into segments) [none; with --cluster what fits and is fastest]",
     2},
    {0, 0, 0, 0, "Sharding of parameters and optimizer state:", 3},
    {"storage", KEY_STORAGE, "[PATTERN=]WHERE", 0,
     "replicated or split, for parameters whose name matches; may be repeated, the first match applies [replicated, or "
     "searched]",
     3},
    {"storage-speeds", KEY_STORAGE_SPEEDS, "1,2,0", 0, "split in this proportion [as samples]", 3},
    {"storage-shares", KEY_STORAGE_SHARES, "LABEL=64,0,64", 0, "exact shares of one label; may be repeated", 3},
    {0, 0, 0, 0, "How gradients are summed and sent:", 4},
    {"bucket-bytes", KEY_BUCKET, "BYTES", 0, "of gradients in one message; 0: one each [4MiB; among GPUs 64MiB]", 4},
    {"staging", KEY_STAGING, "BYTES", 0,
     "memory for messages, besides the tensors: larger collectives run in chunks [64MiB for one value; buckets are "
     "whole]",
     4},
#define DECISION(NAME, name, omitted, flag, what, help) {flag, KEY_DECISION + MT_DECISION_##NAME, "HOW", 0, help, 4},
#include "synth/job/decisions.def"
    {"gradient-wire", KEY_WIRE, "TYPE", 0,
     "type in which gradients are sent: f32, bf16, or f16 if the loss is scaled [f32; f64 in an f64 job]", 4},
    {"algorithm", KEY_ALGORITHM, "KIND=NAME", 0, "as AllReduce=ring; may be repeated [auto]", 4},
    {0, 0, 0, 0, "The document:", 6},
    {"out", KEY_OUT, "FILE", 0,
     "where to write it; - for standard output. With --cluster the search begins at the plan that it replaces, where "
     "that is of the same model, job and cluster, and no flag divides samples or state, or fixes a decision",
     6},
    {"check", KEY_CHECK, "FILE", 0,
     "instead of making a plan: check an edited one and sign it, into --out; with --cluster its step is predicted", 6},
    MT_OPTION_JSON(KEY_JSON, 6),
    {"document", KEY_DOCUMENT, 0, 0, "what splits, rules and storage rows may say, for those who edit them", 6},
    {"without-idle", KEY_WITHOUT_IDLE, 0, 0,
     "leave idle ranks out of the document: it is for as many processes as take part", 6},
    {"cluster-out", KEY_CLUSTER_OUT, "FILE", 0, "with --from and --cluster: the cluster with the speeds that were seen",
     6},
    {0}};

enum mt_status mt_plan_flags_ranks(struct mt_plan_flags *f, const char *flag, int64_t count) {
    if (f->ranks_by && f->request.nranks != count)
        return mt_fail(f->err, MT_EINPUT, "%s: is for %lld ranks, but %s is for %d", flag, (long long)count,
                       f->ranks_by, f->request.nranks);
    if (count < 1 || count > MT_PLAN_MOST_RANKS)
        return mt_fail(f->err, MT_EINPUT, "%s: there may be from 1 to %d ranks", flag, MT_PLAN_MOST_RANKS);
    f->ranks_by = flag;
    f->request.nranks = (int)count;
    return MT_OK;
}

static enum mt_status take_speeds(struct mt_plan_flags *f, const char *flag, const char *text, const double **speeds) {
    int count;
    double *values;
    enum mt_status st = mt_flag_reals(flag, text, &f->arena, &values, &count, f->err);
    *speeds = values;
    return st ? st : mt_plan_flags_ranks(f, flag, count);
}

/* The flags that divide the batch exclude each other. */
static enum mt_status divide_by(struct mt_plan_flags *f, const char *flag) {
    if (f->shares_by && strcmp(f->shares_by, flag))
        return mt_fail(f->err, MT_EINPUT, "%s and %s exclude each other", f->shares_by, flag);
    f->shares_by = flag;
    return MT_OK;
}

static void list_strategies(FILE *file) {
    for (int i = 0; i < MT_NSTRATEGIES; i++) fprintf(file, "%-16s %s\n", mt_strategies[i].name, mt_strategies[i].help);
}

/* A flag that asks for a list, which is printed once all flags are known. */
static enum mt_status take_list(struct mt_plan_flags *f, const char *flag, void (*list)(FILE *file)) {
    if (f->list && f->list != list)
        return mt_fail(f->err, MT_EINPUT, "%s and %s exclude each other", f->listed_by, flag);
    f->listed_by = flag;
    f->list = list;
    return MT_OK;
}

static enum mt_status take_strategy(struct mt_plan_flags *f, const char *text) {
    const char *names[MT_NSTRATEGIES];
    int which = 0;
    if (!strcmp(text, "list")) return take_list(f, "--strategy list", list_strategies);
    for (int i = 0; i < MT_NSTRATEGIES; i++) names[i] = mt_strategies[i].name;
    enum mt_status st = mt_flag_name("--strategy", text, names, MT_NSTRATEGIES, &which, f->err);
    f->request.strategy = &mt_strategies[which];
    return st;
}

static enum mt_status take_storage(struct mt_plan_flags *f, const char *text) {
    struct mt_decisions *d = &f->request.fixed.decisions;
    const char *equals = strrchr(text, '='), *pattern = "*", *where = equals ? equals + 1 : text;
    if (equals) pattern = mt_arena_printf(&f->arena, "%.*s", (int)(equals - text), text);
    int which;
    enum mt_status st = mt_flag_name("--storage", where, mt_state_names, MT_NSTATE, &which, f->err);
    if (st) return st;
    if (d->nstorage == MT_PLAN_MOST_ROWS)
        return mt_fail(f->err, MT_EINPUT, "--storage: may be given %d times at most", MT_PLAN_MOST_ROWS);
    f->storage[d->nstorage++] = (struct mt_storage_row){.pattern = pattern, .state = (enum mt_state)which};
    d->storage = f->storage;
    return MT_OK;
}

static enum mt_status take_storage_shares(struct mt_plan_flags *f, const char *text) {
    struct mt_plan_fixed *q = &f->request.fixed;
    const char *equals = strchr(text, '=');
    if (!equals) return mt_fail(f->err, MT_EINPUT, "--storage-shares: must be LABEL=SIZES, not \"%.60s\"", text);
    if (q->nstorage_shares == MT_PLAN_MOST_ROWS)
        return mt_fail(f->err, MT_EINPUT, "--storage-shares: may be given %d times at most", MT_PLAN_MOST_ROWS);
    struct mt_storage_shares *row = &f->shares[q->nstorage_shares++];
    row->label = mt_arena_printf(&f->arena, "%.*s", (int)(equals - text), text);
    for (int i = 0; i + 1 < q->nstorage_shares; i++)
        if (!strcmp(f->shares[i].label, row->label))
            return mt_fail(f->err, MT_EINPUT, "--storage-shares: \"%.60s\" is given twice", row->label);
    int count;
    enum mt_status st =
        mt_flag_ints("--storage-shares", equals + 1, 0, INT64_MAX, &f->arena, &row->sizes, &count, f->err);
    q->storage_shares = f->shares;
    return st ? st : mt_plan_flags_ranks(f, "--storage-shares", count);
}

static enum mt_status take_algorithm(struct mt_plan_flags *f, const char *text) {
    const char *names[MT_NCOLLS], *equals = strchr(text, '=');
    int kind;
    if (!equals) return mt_fail(f->err, MT_EINPUT, "--algorithm: must be KIND=NAME, not \"%.60s\"", text);
    for (int k = 0; k < MT_NCOLLS; k++) names[k] = mt_coll_name((enum mt_coll_kind)k);
    const char *name = mt_arena_printf(&f->arena, "%.*s", (int)(equals - text), text);
    enum mt_status st = mt_flag_name("--algorithm", name, names, MT_NCOLLS, &kind, f->err);
    if (st) return st;
    struct mt_decisions *d = &f->request.fixed.decisions;
    for (int i = 0; i < d->nalgorithms; i++)
        if (f->algorithms[i].kind == (enum mt_coll_kind)kind)
            return mt_fail(f->err, MT_EINPUT, "--algorithm: %s is given twice", names[kind]);
    f->algorithms[d->nalgorithms++] = (struct mt_algorithm_row){(enum mt_coll_kind)kind, equals + 1, 0};
    d->algorithms = f->algorithms;
    if (mt_algorithm_is_auto(equals + 1) || mt_coll_find((enum mt_coll_kind)kind, equals + 1)) return MT_OK;
    struct mt_nearest near = mt_nearest_to(equals + 1);
    mt_nearest_add(&near, "auto");
    for (int a = 0; a < mt_coll_nalgorithms; a++)
        if (mt_coll_algorithms[a]->kind == (enum mt_coll_kind)kind) mt_nearest_add(&near, mt_coll_algorithms[a]->name);
    mt_fail(f->err, MT_EINPUT, "--algorithm: %s has no algorithm \"%.60s\"", names[kind], equals + 1);
    return mt_nearest_hint(&near, f->err, "it may be: %s", near.list);
}

/* Lists that may be one number for all are repeated when the number of ranks is known. */
static enum mt_status take_memory(struct mt_plan_flags *f, const char *text) {
    char **words;
    int count;
    enum mt_status st = mt_flag_words("--memory", text, &f->arena, &words, &count, f->err);
    if (st) return st;
    int64_t *bytes = mt_new(&f->arena, int64_t, MT_PLAN_MOST_RANKS);
    if (count > 1 && (st = mt_plan_flags_ranks(f, "--memory", count))) return st;
    for (int i = 0; i < count && !st; i++) st = mt_flag_bytes("--memory", words[i], &bytes[i], f->err);
    for (int i = count; i < MT_PLAN_MOST_RANKS && count == 1; i++) bytes[i] = bytes[0];
    f->request.memory_bytes = bytes;
    return st;
}

static enum mt_status take_micro(struct mt_plan_flags *f, const char *text) {
    int64_t *given, *micro = mt_new(&f->arena, int64_t, MT_PLAN_MOST_RANKS);
    int count;
    enum mt_status st = mt_flag_ints("--micro", text, 0, (int64_t)1 << 40, &f->arena, &given, &count, f->err);
    if (st || (count > 1 && (st = mt_plan_flags_ranks(f, "--micro", count)))) return st;
    for (int i = 0; i < MT_PLAN_MOST_RANKS; i++) micro[i] = i < count ? given[i] : count == 1 ? given[0] : 0;
    f->request.fixed.micro = micro;
    return MT_OK;
}

static enum mt_status take_use(struct mt_plan_flags *f, const char *text) {
    struct mt_plan_fixed *fixed = &f->request.fixed;
    bool all = !strcmp(text, "all");
    fixed->use = all ? MT_USE_ALL : MT_USE_AUTO;
    if (all || !strcmp(text, "auto")) return MT_OK;
    int count;
    enum mt_status st = mt_flag_ints("--use", text, 0, MT_PLAN_MOST_RANKS - 1, &f->arena, &f->use, &count, f->err);
    if (st) return mt_err_hint(f->err, "it is auto, all, or a list of ranks, as 0,2,3");
    bool *used = mt_new(&f->arena, bool, MT_PLAN_MOST_RANKS);
    for (int i = 0; i < count; i++) {
        if (used[f->use[i]])
            return mt_fail(f->err, MT_EINPUT, "--use: rank %lld is listed twice", (long long)f->use[i]);
        used[f->use[i]] = true;
    }
    f->nuse = count;
    fixed->use = MT_USE_SOME;
    fixed->used = used;
    return MT_OK;
}

static enum mt_status take_staging(const char *text, struct mt_decisions *d, struct mt_err *err) {
    enum mt_status st = mt_flag_bytes("--staging", text, &d->staging_bytes, err);
    if (st || d->staging_bytes >= MT_LEAST_STAGING_BYTES) return st;
    return mt_fail(err, MT_EINPUT, "--staging: must be at least 64KiB, not \"%.60s\"", text);
}

static enum mt_status take_flag(struct mt_plan_flags *f, int key, const char *text) {
    struct mt_plan_request *q = &f->request;
    enum mt_status st;
    int64_t count;
    int which = 0;
    switch (key) {
    case KEY_MODEL: return mt_job_flags_model(&f->job, text, &q->model);
    case KEY_RANKS:
        st = mt_flag_int("--ranks", text, 1, MT_PLAN_MOST_RANKS, &count, f->err);
        return st ? st : mt_plan_flags_ranks(f, "--ranks", count);
    case KEY_HOSTS:
        st = mt_flag_words("--hosts", text, &f->arena, &q->hosts, &which, f->err);
        return st ? st : mt_plan_flags_ranks(f, "--hosts", which);
    case KEY_DEVICE: return mt_flag_device(text, &q->device, f->err);
    case KEY_MEMORY: return take_memory(f, text);
    case KEY_SPEEDS: st = divide_by(f, "--speeds"); return st ? st : take_speeds(f, "--speeds", text, &q->speeds);
    case KEY_EVEN: return divide_by(f, "--even");
    case KEY_SHARES: {
        int64_t *shares;
        if ((st = divide_by(f, "--shares")) ||
            (st = mt_flag_ints("--shares", text, 0, (int64_t)1 << 40, &f->arena, &shares, &which, f->err)))
            return st;
        q->fixed.shares = shares;
        return mt_plan_flags_ranks(f, "--shares", which);
    }
    case KEY_MICRO: return take_micro(f, text);
    case KEY_USE: return take_use(f, text);
    case KEY_STORAGE: return take_storage(f, text);
    case KEY_STORAGE_SPEEDS: return take_speeds(f, "--storage-speeds", text, &q->storage_speeds);
    case KEY_STORAGE_SHARES: return take_storage_shares(f, text);
    case KEY_BUCKET: return mt_flag_bytes("--bucket-bytes", text, &q->fixed.decisions.bucket_bytes, f->err);
    case KEY_STAGING: return take_staging(text, &q->fixed.decisions, f->err);
    case KEY_WIRE:
        if ((st =
                 mt_flag_name("--gradient-wire", text, (const char *const[]){"f32", "bf16", "f16"}, 3, &which, f->err)))
            return st;
        q->fixed.decisions.gradient_wire = (const enum mt_type[]){MT_F32, MT_BF16, MT_F16}[which];
        return MT_OK;
    case KEY_ALGORITHM: return take_algorithm(f, text);
    case KEY_RECOMPUTE:
        st = mt_flag_name("--recompute", text, mt_recompute_names, MT_NRECOMPUTE, &which, f->err);
        q->job.recompute = (enum mt_recompute)which;
        return st;
    }
    const struct mt_decision *row = &mt_decision_table[key - KEY_DECISION];
    which = key == KEY_DECISION + MT_DECISION_OVERLAPPED ? mt_overlapped_parse(text) : -1;
    st = which >= 0 ? MT_OK : mt_flag_name(row->flag, text, row->words, row->nwords, &which, f->err);
    mt_decision_set(&q->fixed.decisions, (enum mt_decision_id)(key - KEY_DECISION), which);
    return st;
}

static enum mt_status take_limit(struct mt_plan_flags *f, const char *text) {
    f->limited = true;
    enum mt_status st = mt_flag_real("--limit", text, &f->limit_s, f->err);
    if (st || f->limit_s > 0) return st;
    return mt_fail(f->err, MT_EINPUT, "--limit: must be more than 0");
}

/* The first flag that asks for no list. */
static void note_flag(struct mt_plan_flags *f, int key, const char *text) {
    const char *flag = NULL;
    for (const struct argp_option *o = options; (o->name || o->doc) && !flag; o++)
        if (o->key && o->key == key) flag = mt_arena_printf(&f->arena, "--%s", o->name);
    bool lists = key == KEY_MODELS || key == KEY_DOCUMENT || (key == KEY_STRATEGY && !strcmp(text, "list"));
    if (!lists && !f->unlisted) f->unlisted = flag;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct mt_plan_flags *f = state->input;
    note_flag(f, key, text);
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->job; return 0;
    case KEY_MODELS: return take_list(f, "--models", mt_model_help) ? EINVAL : 0;
    case KEY_DOCUMENT: return take_list(f, "--document", mt_plan_print_document) ? EINVAL : 0;
    case KEY_OUT: return mt_flag_path("--out", text, &f->out, f->err) ? EINVAL : 0;
    case KEY_CHECK: return mt_flag_path("--check", text, &f->check, f->err) ? EINVAL : 0;
    case KEY_CLUSTER: return mt_flag_path("--cluster", text, &f->cluster, f->err) ? EINVAL : 0;
    case KEY_FROM: return mt_flag_path("--from", text, &f->from, f->err) ? EINVAL : 0;
    case KEY_CLUSTER_OUT: return mt_flag_path("--cluster-out", text, &f->cluster_out, f->err) ? EINVAL : 0;
    case KEY_JSON: return mt_output_flag(text, state, NULL, &f->output, f->err) ? EINVAL : 0;
    case KEY_WITHOUT_IDLE: f->without_idle = true; return 0;
    case KEY_LIMIT: return take_limit(f, text) ? EINVAL : 0;
    case KEY_HYPOTHETICAL: f->request.hypothetical = true; return 0;
    case KEY_STRATEGY: return take_strategy(f, text);
    case KEY_COMPARE: f->request.compare = true; return 0;
    case ARGP_KEY_ARG:
        mt_fail(f->err, MT_EINPUT, "\"%.60s\" is no flag: `motley plan` takes flags only", text);
        return EINVAL;
    }
    for (const struct argp_option *o = options; o->name || o->doc; o++)
        if (o->key && o->key == key) {
            if (!f->decided && key != KEY_USE) f->decided = mt_arena_printf(&f->arena, "--%s", o->name);
            return take_flag(f, key, text) ? EINVAL : 0;
        }
    return ARGP_ERR_UNKNOWN;
}

/* The plan that is about to be replaced; null where there is none. */
static struct mt_plan *read_replaced(const char *out) {
    struct mt_err ignored = MT_ERR_INIT;
    struct mt_plan *plan;
    return !strcmp(out, "-") || access(out, R_OK) || mt_plan_read_edited(out, &plan, &ignored) ? NULL : plan;
}

static enum mt_status resolve_request(struct mt_plan_flags *f) {
    struct mt_plan_request *q = &f->request;
    enum mt_status st;
    if (!q->model) {
        mt_fail(f->err, MT_EINPUT, "--model is missing");
        return mt_err_hint(f->err,
                           "as --model gpt2:124m, or a folder with a config.json; `motley plan --models` lists them");
    }
    if (!f->ranks_by && !f->cluster) {
        mt_fail(f->err, MT_EINPUT, "--ranks is missing");
        return mt_err_hint(f->err,
                           "as --ranks 3, --speeds 1,0.7,0.3, or --cluster with what `motley profile` has measured, "
                           "or with a description, as h100:1x8");
    }
    if ((st = mt_job_flags_choose(&f->job, f->opened, f->err)) || (st = mt_job_flags_resolve(&f->job, f->err)))
        return st;
    mt_job_flags_say(&f->job);
    enum mt_recompute recompute = q->job.recompute;
    q->job = f->job.job;
    q->job.recompute = recompute;
    enum mt_type wire = q->fixed.decisions.gradient_wire;
    if (wire == MT_F32 && q->job.precision == MT_F64)
        return mt_fail(f->err, MT_EINPUT, "--gradient-wire: an f64 job sends gradients as f64 or bf16, not f32");
    if (wire == MT_F16 && !(q->job.loss_scale > 0)) {
        mt_fail(f->err, MT_EINPUT, "--gradient-wire: sums in f16 overflow unless the loss is scaled");
        return mt_err_hint(f->err, "say --precision f16 or --loss-scale too, or take bf16");
    }
    const char *known = q->hosts ? "--hosts" : q->speeds ? "--speeds" : q->device ? "--device" : NULL;
    if (f->cluster) q->last = f->replaced = read_replaced(f->out);
    q->last_is_replaced = true;
    q->limit_s = f->limit_s;
    q->even = f->shares_by && !strcmp(f->shares_by, "--even");
    if (f->cluster && known) return mt_fail(f->err, MT_EINPUT, "%s: --cluster says that", known);
    if (f->cluster && q->storage_speeds)
        return mt_fail(f->err, MT_EINPUT, "--storage-speeds: --cluster says that; --storage-shares fixes exact shares");
    return MT_OK;
}

static enum mt_status check_output(const struct mt_plan_flags *f) {
    if (!f->out || strcmp(f->out, "-") || (!f->output.json && !f->output.path)) return MT_OK;
    return mt_fail(f->err, MT_EINPUT, "--json excludes --out -: what is printed is the plan, which is JSON itself");
}

/* An edited plan may be signed in its place; a run's plan stays what the run trained. */
static enum mt_status check_files(const struct mt_plan_flags *f) {
    struct mt_files files = {0};
    mt_files_edits(&files, "--check", f->check, MT_PLAN_FORMAT);
    mt_files_reads(&files, "--cluster", f->cluster);
    mt_files_reads(&files, "--from", f->from);
    if (f->from)
        mt_files_reads(&files, "--from",
                       mt_arena_printf(&files.arena, "%s/plan.json", mt_folder_of(f->from, &files.arena)));
    mt_files_writes(&files, "--out", strcmp(f->out, "-") ? f->out : NULL, MT_PLAN_FORMAT);
    if (f->opened && strcmp(f->opened->source, "measured") != 0)
        mt_files_describes(&files, "--cluster-out", f->cluster_out);
    else
        mt_files_writes(&files, "--cluster-out", f->cluster_out, MT_CLUSTER_FORMAT);
    mt_files_writes(&files, "--json", f->output.path, MT_TABLES_FORMAT);
    return mt_files_check(&files, f->err);
}

static enum mt_status check_use(const struct mt_plan_flags *f) {
    for (int i = 0; i < f->nuse; i++)
        if (f->use[i] >= f->opened->ndevices)
            return mt_fail(f->err, MT_EINPUT, "--use: names rank %lld, but the ranks of the cluster are 0 to %d",
                           (long long)f->use[i], f->opened->ndevices - 1);
    return MT_OK;
}

/* The mode, without flags that have no use in it; and its inputs. */
static enum mt_status resolve(struct mt_plan_flags *f) {
    enum mt_status st;
    const char *taken = f->check ? "--check" : f->from ? "--from" : NULL;
    const char *said = f->decided ? f->decided : f->job.given ? "the job's flags" : NULL;
    if (f->check && !said && f->request.fixed.use) said = "--use";
    if (!f->out) {
        mt_fail(f->err, MT_EINPUT, "--out is missing");
        return mt_err_hint(
            f->err,
            "as `motley plan --cluster cluster.json --model gpt2:124m --batch 16 -o plan.json`; -o - prints the "
            "plan");
    }
    const char *searched = f->request.strategy ? "--strategy" : f->request.compare ? "--compare" : NULL;
    if (f->check && searched) return mt_fail(f->err, MT_EINPUT, "%s: has no use with --check", searched);
    if (f->check && f->from) return mt_fail(f->err, MT_EINPUT, "--check and --from exclude each other");
    if (f->check && said)
        return mt_fail(f->err, MT_EINPUT, "--check: takes a plan as it is: edit the file, and leave out %s", said);
    if (f->from && said)
        return mt_fail(f->err, MT_EINPUT, "--from: takes the job and its decisions from the run's plan, not from %s",
                       said);
    if (f->request.fixed.use && !f->cluster) return mt_fail(f->err, MT_EINPUT, "--use: has no use without --cluster");
    if (f->limited && !f->cluster) return mt_fail(f->err, MT_EINPUT, "--limit: has no use without --cluster");
    if (f->request.hypothetical && (!f->cluster || f->from))
        return mt_fail(f->err, MT_EINPUT, "--hypothetical: has no use without --cluster, or with --from");
    if (searched && (!f->cluster || f->from))
        return mt_fail(f->err, MT_EINPUT, "%s: has no use without --cluster, or with --from", searched);
    const struct mt_decisions *d = &f->request.fixed.decisions;
    if (d->gather == MT_GATHER_LAYER && !mt_decisions_shard_state(d) && (d->nstorage || !f->cluster)) {
        mt_fail(f->err, MT_EINPUT, "--gather layer: has no use with replicated parameters, which all ranks have whole");
        return mt_err_hint(f->err, "--storage split divides them");
    }
    const struct mt_plan_fixed *fixed = &f->request.fixed;
    const char *divides = f->shares_by                ? f->shares_by
                          : fixed->micro              ? "--micro"
                          : fixed->nstorage_shares    ? "--storage-shares"
                          : fixed->decisions.nstorage ? "--storage"
                                                      : NULL;
    if (f->request.strategy && divides)
        return mt_fail(f->err, MT_EINPUT, "--strategy and %s exclude each other: both say how work is divided",
                       divides);
    if (f->cluster_out && !(f->from && f->cluster))
        return mt_fail(f->err, MT_EINPUT, "--cluster-out: has no use without --from and --cluster");
    f->mode = f->check     ? MT_PLAN_CHECK
              : f->from    ? MT_PLAN_REPLAN
              : f->cluster ? MT_PLAN_FOR_CLUSTER
                           : MT_PLAN_BY_SPEEDS;
    if ((st = check_output(f)) || (f->cluster && (st = mt_cluster_open(f->cluster, &f->opened, f->err))) ||
        (st = check_files(f)) || (f->cluster && (st = check_use(f))))
        return st;
    return taken ? MT_OK : resolve_request(f);
}

/* What was asked for instead of a plan; ends the process. */
static enum mt_status print_list(const struct mt_plan_flags *f) {
    const char *other = f->unlisted ? f->unlisted : f->job.given ? "a flag of the job" : NULL;
    if (other) return mt_fail(f->err, MT_EINPUT, "%s: has no use with %s, which makes no plan", other, f->listed_by);
    f->list(stdout);
    mt_flags_answered();
}

void mt_plan_flags_init(struct mt_plan_flags *flags, struct mt_err *err) {
    *flags = (struct mt_plan_flags){.err = err, .limit_s = 600};
    flags->request.job.recompute = MT_RECOMPUTE_UNSET;
    flags->request.fixed.decisions = mt_decisions_unset;
    mt_job_flags_init(&flags->job, err);
}

void mt_plan_flags_release(struct mt_plan_flags *flags) {
    mt_cluster_free(flags->opened);
    mt_plan_free(flags->replaced);
    mt_job_flags_release(&flags->job);
    mt_arena_release(&flags->arena);
}

enum mt_status mt_plan_flags_parse(struct mt_plan_flags *flags, int argc, char **argv) {
    struct argp_child children[] = {{mt_job_argp(), 0, "The job:", 5}, {0}};
    const struct argp argp = {options,
                              parse,
                              0,
                              "Divide a training job over ranks, and write the plan.\v"
                              "The plan is a JSON document to review, edit and keep. `motley show FILE` prints it as "
                              "tables, `motley verify FILE` proves it, `motley explain FILE` names its bottlenecks. "
                              "Examples: motley plan --cluster cluster.json --model gpt2:124m --batch 20 -o plan.json; "
                              "motley plan --model gpt2:124m --speeds 1,0.7,0.3 --batch 20 --storage split -o "
                              "plan.json; motley plan --from run -o plan.json",
                              children,
                              0,
                              0};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, flags, flags->err);
    if (!st && flags->list) st = print_list(flags);
    return st ? st : resolve(flags);
}
