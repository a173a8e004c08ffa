/* The job's flags: one table gives parsing, help, and which flags need which others. */
#include "launcher/flags/job_flags.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "kernels/base/text/nearest.h"
#include "kernels/device/facts.h"
#include "launcher/flags/flags.h"
#include "profiler/describe/runs.h"
#include "synth/models/config/config.h"

enum flag_kind { COUNT, POSITIVE, SEED, REAL, TYPE, OPTIMIZER, SCHEDULE, TRUE };
enum flag_use { ALWAYS, WITH_ADAMW, WITH_SGD, WITH_FALLING_RATE, WITH_LOSS_SCALE };

static const struct {
    const char *name, *arg, *help;
    enum flag_kind kind;
    enum flag_use use;
    size_t at; /* in struct mt_job */
} table[] = {
#define AT(member) offsetof(struct mt_job, member)
    {"batch", "B", "samples per step, over all ranks [8]", COUNT, ALWAYS, AT(batch)},
    {"seq", "T", "tokens per sample [the model's context]", POSITIVE, ALWAYS, AT(seq)},
    {"steps", "N", "training steps [1000]", COUNT, ALWAYS, AT(steps)},
    {"precision", "TYPE",
     MT_PRECISIONS "; bf16 and f16 with f32 master weights; auto: bf16, or f16 if a device lacks it [f32]", TYPE,
     ALWAYS, AT(precision)},
    {"loss-scale", "X",
     "initial factor of the loss, so that small gradients do not underflow in f16 [none; 1024 for f16]", REAL, ALWAYS,
     AT(loss_scale)},
    {"loss-scale-interval", "N", "steps without overflow until the loss scale is doubled [2000]", COUNT,
     WITH_LOSS_SCALE, AT(loss_scale_interval)},
    {"seed", "N", "for initialisation, dropout and data order [1337]", SEED, ALWAYS, AT(seed)},
    {"dropout", "P", "dropout probability [0]", REAL, ALWAYS, AT(dropout)},
    {"any-order", NULL,
     "sum gradients of attention in any order: faster on GPUs, but runs are not bitwise reproducible", TRUE, ALWAYS,
     AT(any_order)},
    {"optimizer", "NAME", "adamw or sgd [adamw]", OPTIMIZER, ALWAYS, AT(optimizer.kind)},
    {"lr", "RATE", "learning rate [0.001]", REAL, ALWAYS, AT(optimizer.lr)},
    {"lr-min", "RATE", "learning rate of the last step [a tenth of --lr]", REAL, WITH_FALLING_RATE,
     AT(optimizer.lr_min)},
    {"schedule", "NAME", "constant, cosine or linear [cosine]", SCHEDULE, ALWAYS, AT(optimizer.schedule)},
    {"warmup", "N", "steps in which the learning rate rises from 0 [0]", COUNT, ALWAYS, AT(optimizer.warmup)},
    {"beta1", "X", "of AdamW [0.9]", REAL, WITH_ADAMW, AT(optimizer.beta1)},
    {"beta2", "X", "of AdamW [0.95]", REAL, WITH_ADAMW, AT(optimizer.beta2)},
    {"eps", "X", "of AdamW [1e-8]", REAL, WITH_ADAMW, AT(optimizer.eps)},
    {"momentum", "X", "of SGD [0.9]", REAL, WITH_SGD, AT(optimizer.momentum)},
    {"nesterov", NULL, "SGD with Nesterov momentum", TRUE, WITH_SGD, AT(optimizer.nesterov)},
    {"weight-decay", "X", "of matrices [0.1]", REAL, ALWAYS, AT(optimizer.decay)},
    {"clip", "NORM", "clip gradients to this global norm; 0: no clipping [1]", REAL, ALWAYS, AT(optimizer.clip)},
#undef AT
};
enum { NFLAGS = sizeof table / sizeof table[0], FIRST_KEY = 0x1000 };

void mt_job_flags_init(struct mt_job_flags *flags, struct mt_err *err) {
    memset(flags, 0, sizeof *flags);
    mt_job_default(&flags->job);
    flags->err = err;
    flags->model_dropout = -1;
    flags->said = "";
}

void mt_job_flags_release(struct mt_job_flags *flags) {
    mt_arena_release(&flags->arena);
}

enum mt_status mt_job_flags_model(struct mt_job_flags *flags, const char *text, const char **model) {
    struct mt_config config;
    *model = text;
    if (!mt_config_is_path(text)) {
        if (access(mt_arena_printf(&flags->arena, "%s/" MT_CONFIG_NAME, text), F_OK)) return MT_OK;
        mt_fail(flags->err, MT_EINPUT, "--model %s: is a known model, and a folder with a " MT_CONFIG_NAME " as well",
                text);
        return mt_err_hint(flags->err, "./%s is the folder; CLASS:%s, as `motley plan --models` lists them, the model",
                           text, text);
    }
    enum mt_status st = mt_config_read(text, &flags->arena, &config, flags->err);
    if (st) return mt_err_context(flags->err, "--model");
    *model = config.model;
    if (config.dropout >= 0) flags->model_dropout = config.dropout;
    flags->said = mt_arena_printf(&flags->arena, "%s%s%s is %s", flags->said, *flags->said ? "; " : "", text, *model);
    if (config.dropout > 0)
        flags->said = mt_arena_printf(&flags->arena, "%s, with a dropout of %g", flags->said, config.dropout);
    if (*config.note) flags->said = mt_arena_printf(&flags->arena, "%s; %s", flags->said, config.note);
    return MT_OK;
}

void mt_job_flags_say(const struct mt_job_flags *flags) {
    if (*flags->said) mt_log(MT_LOG_INFO, "%s", flags->said);
}

static enum mt_status set_flag(struct mt_job_flags *flags, int row, const char *text) {
    char name[32];
    void *to = (char *)&flags->job + table[row].at;
    int64_t count = 0;
    int which = 0;
    enum mt_status st = MT_OK;
    snprintf(name, sizeof name, "--%s", table[row].name);
    flags->given |= 1u << row;
    switch (table[row].kind) {
    case COUNT: return mt_flag_int(name, text, 0, (int64_t)1 << 40, to, flags->err);
    case POSITIVE: return mt_flag_int(name, text, 1, (int64_t)1 << 40, to, flags->err);
    case REAL: return mt_flag_real(name, text, to, flags->err);
    case TRUE: *(bool *)to = true; return MT_OK;
    case SEED:
        st = mt_flag_int(name, text, 0, INT64_MAX, &count, flags->err);
        *(uint64_t *)to = (uint64_t)count;
        return st;
    case TYPE:
        flags->precise = true;
        flags->automatic = !strcmp(text, "auto");
        if (flags->automatic || mt_job_set_precision(&flags->job, text)) return MT_OK;
        mt_fail(flags->err, MT_EINPUT, "%s: \"%.60s\" is none of: " MT_PRECISIONS, name, text);
        struct mt_nearest near = mt_nearest_to(text);
        mt_nearest_find(&near, mt_precision_names, MT_NPRECISIONS);
        return mt_nearest_hint(&near, flags->err, "%s", "");
    case OPTIMIZER:
        st = mt_flag_name(name, text, mt_optimizer_names, MT_NOPTIMIZERS, &which, flags->err);
        *(enum mt_optimizer_kind *)to = (enum mt_optimizer_kind)which;
        return st;
    case SCHEDULE:
        st = mt_flag_name(name, text, mt_schedule_names, MT_NSCHEDULES, &which, flags->err);
        *(enum mt_schedule_kind *)to = (enum mt_schedule_kind)which;
        return st;
    }
    return st;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    if (key < FIRST_KEY || key >= FIRST_KEY + NFLAGS) return ARGP_ERR_UNKNOWN;
    return set_flag(state->input, key - FIRST_KEY, text) ? EINVAL : 0;
}

static void fill_options(struct argp_option *options) {
    for (int f = 0; f < NFLAGS; f++)
        options[f] = (struct argp_option){
            .name = table[f].name, .key = FIRST_KEY + f, .arg = table[f].arg, .doc = table[f].help};
}

const struct argp *mt_job_argp(void) {
    static struct argp_option options[NFLAGS + 1];
    static struct argp argp = {.options = options, .parser = parse};
    fill_options(options);
    return &argp;
}

const struct argp *mt_job_argp_with_batch(const char *help) {
    static struct argp_option options[NFLAGS + 1];
    static struct argp argp = {.options = options, .parser = parse};
    fill_options(options);
    for (int f = 0; f < NFLAGS; f++)
        if (!strcmp(options[f].name, "batch")) options[f].doc = help;
    return &argp;
}

static bool used(const struct mt_job *job, enum flag_use use) {
    const struct mt_optimizer *o = &job->optimizer;
    switch (use) {
    case ALWAYS: return true;
    case WITH_ADAMW: return o->kind == MT_ADAMW;
    case WITH_SGD: return o->kind == MT_SGD;
    case WITH_FALLING_RATE: return o->schedule != MT_LR_CONSTANT;
    case WITH_LOSS_SCALE: return job->loss_scale > 0;
    }
    return true;
}

/* A GPU's profile may lack f16; every GPU with bf16 has it. */
static bool supports(const struct mt_cluster_class *class, enum mt_type type) {
    bool implied = type == MT_F16 && class->flops[MT_BF16] > 0 && strcmp(class->kind, "cpu");
    int capability = mt_cluster_class_capability(class); /* 0: not known */
    if (type == MT_BF16 && capability && capability < MT_CAPABILITY_BF16) return false;
    return class->flops[type] > 0 || implied;
}

enum mt_status mt_job_flags_choose(struct mt_job_flags *flags, const struct mt_cluster *c, struct mt_err *err) {
    static const enum mt_type half_types[] = {MT_BF16, MT_F16};
    if (!flags->automatic) return MT_OK;
    if (!c) {
        mt_fail(err, MT_EINPUT, "--precision: auto depends on the devices, and there is no --cluster");
        return mt_err_hint(err, "name one of " MT_PRECISIONS);
    }
    flags->automatic = false;
    flags->job.precision = MT_F32;
    for (int h = 0; h < 2 && flags->job.precision == MT_F32; h++) {
        bool all = true;
        for (int i = 0; i < c->nclasses; i++) all = all && supports(&c->classes[i], half_types[h]);
        if (all) flags->job.precision = half_types[h];
    }
    return MT_OK;
}

enum mt_status mt_job_flags_resolve(struct mt_job_flags *flags, struct mt_err *err) {
    struct mt_optimizer *o = &flags->job.optimizer;
    bool lr_min = false, interval = false;
    if (flags->automatic) return mt_fail(err, MT_EINPUT, "--precision: auto is only for `motley plan --cluster`");
    if (flags->job.precision == MT_F16 && flags->job.loss_scale == 0) flags->job.loss_scale = MT_LOSS_SCALE;
    for (int f = 0; f < NFLAGS; f++) {
        bool given = flags->given >> f & 1;
        if (given && !used(&flags->job, table[f].use) && table[f].use == WITH_LOSS_SCALE)
            return mt_fail(err, MT_EINPUT, "--%s: has no use without --loss-scale or --precision f16", table[f].name);
        if (given && !used(&flags->job, table[f].use))
            return mt_fail(err, MT_EINPUT, "--%s: has no use with --optimizer %s --schedule %s", table[f].name,
                           mt_optimizer_names[o->kind], mt_schedule_names[o->schedule]);
        if (table[f].use == WITH_FALLING_RATE) lr_min = given;
        bool dropout = table[f].at == offsetof(struct mt_job, dropout);
        if (dropout && !given && flags->model_dropout >= 0) flags->job.dropout = flags->model_dropout;
        if (table[f].use == WITH_LOSS_SCALE) interval = given;
    }
    if (!interval && flags->job.loss_scale > 0) flags->job.loss_scale_interval = MT_LOSS_SCALE_INTERVAL;
    if (!lr_min) o->lr_min = o->lr / 10;
    enum mt_status st = mt_job_check(&flags->job, err);
    return st ? mt_err_context(err, "job") : MT_OK;
}

void mt_job_flags_say_precision(const struct mt_job_flags *flags, const struct mt_cluster *c, struct mt_tables *out) {
    enum { MUCH = 3 };
    double least = INFINITY;
    if (flags->precise || flags->job.precision != MT_F32) return;
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_class *class = &c->classes[c->devices[d].class];
        double ratio = class->flops[MT_F32] > 0 ? class->flops[MT_BF16] / class->flops[MT_F32] : 0;
        least = !strcmp(class->kind, "cpu") ? 0 : fmin(least, ratio);
    }
    if (least >= MUCH)
        mt_tables_say(out,
                      "precision  f32, as none was given: in bf16 (--precision auto) these devices multiply %.0f times "
                      "as fast",
                      least);
}
