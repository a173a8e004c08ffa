/* The job: defaults, ranges, JSON, and the learning rate of a step. */
#include "synth/job/job.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/op/op.h"

const char *const mt_optimizer_names[MT_NOPTIMIZERS] = {[MT_ADAMW] = "adamw", [MT_SGD] = "sgd"};
const char *const mt_schedule_names[MT_NSCHEDULES] = {
    [MT_LR_CONSTANT] = "constant", [MT_LR_COSINE] = "cosine", [MT_LR_LINEAR] = "linear"};

const char *const mt_precision_names[MT_NPRECISIONS] = {"f64", "f32", "tf32", "bf16", "f16"};

static const struct {
    enum mt_type type;
    bool tf32;
} precisions[MT_NPRECISIONS] = {{MT_F64, false}, {MT_F32, false}, {MT_F32, true}, {MT_BF16, false}, {MT_F16, false}};

const char *mt_job_precision(const struct mt_job *job) {
    for (int p = 0; p < MT_NPRECISIONS; p++)
        if (precisions[p].type == job->precision && precisions[p].tf32 == job->tf32) return mt_precision_names[p];
    return "none";
}

bool mt_job_set_precision(struct mt_job *job, const char *name) {
    for (int p = 0; p < MT_NPRECISIONS; p++)
        if (!strcmp(mt_precision_names[p], name)) {
            job->precision = precisions[p].type;
            job->tf32 = precisions[p].tf32;
            return true;
        }
    return false;
}

#define MOST_COUNT ((int64_t)1 << 40)

void mt_job_default(struct mt_job *job) {
    *job = (struct mt_job){.batch = 8, .steps = 1000, .precision = MT_F32, .seed = 1337};
    job->optimizer = (struct mt_optimizer){.kind = MT_ADAMW,
                                           .lr = 1e-3,
                                           .lr_min = 1e-4,
                                           .schedule = MT_LR_COSINE,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .eps = 1e-8,
                                           .momentum = 0.9,
                                           .decay = 0.1,
                                           .clip = 1};
}

static enum mt_status check_count(const char *name, int64_t value, int64_t least, int64_t most, struct mt_err *err) {
    if (value >= least && value <= most) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: is %lld, but must be from %lld to %lld", name, (long long)value,
                   (long long)least, (long long)most);
}

/* At least 0 and below 1. */
static enum mt_status check_fraction(const char *name, double value, struct mt_err *err) {
    if (value >= 0 && value < 1) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: is %g, but must be at least 0 and below 1", name, value);
}

/* Within the normal range of the accumulation type, in which updates are computed: above it is infinity, and what is
 * below becomes 0 on some devices. 0 itself only where `off` is set. */
static enum mt_status check_rate(const char *name, double value, bool off, enum mt_type precision, struct mt_err *err) {
    bool single = mt_type_acc(precision) == MT_F32;
    double least = single ? (double)FLT_MIN : DBL_MIN, most = single ? (double)FLT_MAX : DBL_MAX;
    if ((off && value == 0) || (value >= least && value <= most)) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: is %g, but must be %sfrom %.3g to %.3g, the range of %s", name, value,
                   off ? "0, or " : "", least, most, mt_type_name(mt_type_acc(precision)));
}

static enum mt_status check_optimizer(const struct mt_job *job, struct mt_err *err) {
    const struct mt_optimizer *o = &job->optimizer;
    enum mt_status st;
    if ((st = check_rate("optimizer.lr", o->lr, false, job->precision, err)) ||
        (st = check_count("optimizer.warmup", o->warmup, 0, job->steps, err)) ||
        (st = check_rate("optimizer.weight_decay", o->decay, true, job->precision, err)) ||
        (st = check_rate("optimizer.clip", o->clip, true, job->precision, err)))
        return st;
    if (o->schedule != MT_LR_CONSTANT) {
        if ((st = check_rate("optimizer.lr_min", o->lr_min, true, job->precision, err))) return st;
        if (o->lr_min > o->lr)
            return mt_fail(err, MT_EINPUT, "optimizer.lr_min: is %g, above the learning rate of %g", o->lr_min, o->lr);
    }
    if (o->kind == MT_ADAMW) {
        if ((st = check_fraction("optimizer.beta1", o->beta1, err)) ||
            (st = check_fraction("optimizer.beta2", o->beta2, err)))
            return st;
        return check_rate("optimizer.eps", o->eps, false, job->precision, err);
    }
    if ((st = check_fraction("optimizer.momentum", o->momentum, err))) return st;
    if (o->nesterov && o->momentum == 0)
        return mt_fail(err, MT_EINPUT, "optimizer.nesterov: is true, but the momentum is 0");
    return MT_OK;
}

/* A power of two, so that it changes no digits. */
static enum mt_status check_loss_scale(const struct mt_job *job, struct mt_err *err) {
    int exponent;
    double x = job->loss_scale;
    if (x == 0 && job->precision == MT_F16) {
        mt_fail(err, MT_EINPUT, "loss_scale: is none, but f16 has no room for small gradients without one");
        return mt_err_hint(err, "as %g", MT_LOSS_SCALE);
    }
    if (x == 0 && job->loss_scale_interval == 0) return MT_OK;
    if (!(x >= MT_LOSS_SCALE_LEAST && x <= MT_LOSS_SCALE_MOST) || frexp(x, &exponent) != 0.5)
        return mt_fail(err, MT_EINPUT, "loss_scale: is %g, but must be a power of two from 2^%d to 2^%d", x,
                       ilogb(MT_LOSS_SCALE_LEAST), ilogb(MT_LOSS_SCALE_MOST));
    return check_count("loss_scale_interval", job->loss_scale_interval, 1, 1 << 24, err);
}

enum mt_status mt_job_check(const struct mt_job *job, struct mt_err *err) {
    enum mt_status st;
    if ((st = check_count("batch", job->batch, 1, MOST_COUNT, err)) ||
        (st = check_count("seq", job->seq, 0, MOST_COUNT, err)) ||
        (st = check_count("steps", job->steps, 1, MOST_COUNT, err)) ||
        (st = check_fraction("dropout", job->dropout, err)))
        return st;
    if (job->seq && job->batch > MOST_COUNT / job->seq)
        return mt_fail(err, MT_EINPUT, "batch: %lld samples of %lld tokens are more than a step may have",
                       (long long)job->batch, (long long)job->seq);
    if (job->precision == MT_I32 || (job->tf32 && job->precision != MT_F32))
        return mt_fail(err, MT_EINPUT, "precision: is %s, but must be " MT_PRECISIONS, mt_type_name(job->precision));
    if ((st = check_loss_scale(job, err))) return st;
    if (job->seed > INT64_MAX) return mt_fail(err, MT_EINPUT, "seed: must be below 2^63");
    return check_optimizer(job, err);
}

static enum mt_status read_optimizer(struct mt_json at, struct mt_optimizer *o, struct mt_err *err) {
    enum mt_status st;
    int kind, schedule;
    if ((st = mt_json_enum(at, "kind", mt_optimizer_names, MT_NOPTIMIZERS, &kind, err)) ||
        (st = mt_json_enum(at, "schedule", mt_schedule_names, MT_NSCHEDULES, &schedule, err)))
        return st;
    o->kind = (enum mt_optimizer_kind)kind;
    o->schedule = (enum mt_schedule_kind)schedule;

    const char *keys[16] = {"kind", "schedule"};
    int n = 2;
    const struct {
        const char *name;
        double *value;
        bool used;
    } reals[] = {{"lr", &o->lr, true},
                 {"lr_min", &o->lr_min, o->schedule != MT_LR_CONSTANT},
                 {"beta1", &o->beta1, o->kind == MT_ADAMW},
                 {"beta2", &o->beta2, o->kind == MT_ADAMW},
                 {"eps", &o->eps, o->kind == MT_ADAMW},
                 {"momentum", &o->momentum, o->kind == MT_SGD},
                 {"weight_decay", &o->decay, true},
                 {"clip", &o->clip, true}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        if (!reals[i].used) continue;
        if ((st = mt_json_real(at, reals[i].name, -DBL_MAX, DBL_MAX, reals[i].value, err))) return st;
        keys[n++] = reals[i].name;
    }
    if ((st = mt_json_int(at, "warmup", 0, MOST_COUNT, &o->warmup, err))) return st;
    keys[n++] = "warmup";
    if (o->kind == MT_SGD) {
        if ((st = mt_json_bool(at, "nesterov", &o->nesterov, err))) return st;
        keys[n++] = "nesterov";
    }
    return mt_json_only(at, keys, err);
}

enum mt_status mt_job_read(struct mt_json object, struct mt_job *job, struct mt_err *err) {
    bool scaled = mt_json_has(object, "loss_scale");
    bool ordered = mt_json_has(object, "any_order");
    const char *keys[12] = {"batch", "seq", "steps", "precision", "seed", "dropout", "recompute", "optimizer"};
    int nkeys = 8;
    if (scaled) keys[nkeys++] = "loss_scale", keys[nkeys++] = "loss_scale_interval";
    if (ordered) keys[nkeys++] = "any_order";
    enum mt_status st;
    struct mt_json optimizer;
    int64_t seed;
    int precision, recompute;
    mt_job_default(job);
    if ((st = mt_json_only(object, keys, err)) ||
        (st = mt_json_int(object, "batch", 1, MOST_COUNT, &job->batch, err)) ||
        (st = mt_json_int(object, "seq", 0, MOST_COUNT, &job->seq, err)) ||
        (st = mt_json_int(object, "steps", 1, MOST_COUNT, &job->steps, err)) ||
        (st = mt_json_enum(object, "precision", mt_precision_names, MT_NPRECISIONS, &precision, err)) ||
        (st = mt_json_int(object, "seed", 0, INT64_MAX, &seed, err)) ||
        (st = mt_json_real(object, "dropout", 0, 1, &job->dropout, err)) ||
        (scaled &&
         ((st = mt_json_real(object, "loss_scale", -DBL_MAX, DBL_MAX, &job->loss_scale, err)) ||
          (st = mt_json_int(object, "loss_scale_interval", 0, MOST_COUNT, &job->loss_scale_interval, err)))) ||
        (ordered && (st = mt_json_bool(object, "any_order", &job->any_order, err))) ||
        (st = mt_json_enum(object, "recompute", mt_recompute_names, MT_NRECOMPUTE, &recompute, err)) ||
        (st = mt_json_get(object, "optimizer", &optimizer, err)) ||
        (st = read_optimizer(optimizer, &job->optimizer, err)))
        return st;
    mt_job_set_precision(job, mt_precision_names[precision]);
    job->recompute = (enum mt_recompute)recompute;
    job->seed = (uint64_t)seed;
    struct mt_err why = MT_ERR_INIT;
    if (!mt_job_check(job, &why)) return MT_OK;
    return mt_json_fail(object, err, "%s", why.text);
}

void mt_job_write(const struct mt_job *job, const char *key, struct mt_json_out *out) {
    const struct mt_optimizer *o = &job->optimizer;
    mt_json_open(out, key, '{');
    mt_json_put_int(out, "batch", job->batch);
    mt_json_put_int(out, "seq", job->seq);
    mt_json_put_int(out, "steps", job->steps);
    mt_json_put_string(out, "precision", mt_job_precision(job));
    if (job->loss_scale > 0) {
        mt_json_put_real(out, "loss_scale", job->loss_scale);
        mt_json_put_int(out, "loss_scale_interval", job->loss_scale_interval);
    }
    mt_json_put_int(out, "seed", (int64_t)job->seed);
    mt_json_put_real(out, "dropout", job->dropout);
    if (job->any_order) mt_json_put_bool(out, "any_order", true);
    mt_json_put_string(out, "recompute", mt_recompute_names[job->recompute]);
    mt_json_open(out, "optimizer", '{');
    mt_json_put_string(out, "kind", mt_optimizer_names[o->kind]);
    mt_json_put_real(out, "lr", o->lr);
    if (o->schedule != MT_LR_CONSTANT) mt_json_put_real(out, "lr_min", o->lr_min);
    mt_json_put_string(out, "schedule", mt_schedule_names[o->schedule]);
    mt_json_put_int(out, "warmup", o->warmup);
    if (o->kind == MT_ADAMW) {
        mt_json_put_real(out, "beta1", o->beta1);
        mt_json_put_real(out, "beta2", o->beta2);
        mt_json_put_real(out, "eps", o->eps);
    } else {
        mt_json_put_real(out, "momentum", o->momentum);
        mt_json_put_bool(out, "nesterov", o->nesterov);
    }
    mt_json_put_real(out, "weight_decay", o->decay);
    mt_json_put_real(out, "clip", o->clip);
    mt_json_close(out);
    mt_json_close(out);
}

bool mt_job_equal(const struct mt_job *a, const struct mt_job *b) {
    struct mt_json_out left, right;
    mt_json_out_init(&left);
    mt_json_out_init(&right);
    mt_job_write(a, NULL, &left);
    mt_job_write(b, NULL, &right);
    bool same = !strcmp(left.text, right.text);
    mt_json_out_release(&left);
    mt_json_out_release(&right);
    return same;
}

double mt_job_lr(const struct mt_job *job, int64_t step) {
    const struct mt_optimizer *o = &job->optimizer;
    if (step < o->warmup) return o->lr * (double)step / (double)o->warmup;
    if (o->schedule == MT_LR_CONSTANT) return o->lr;
    if (step >= job->steps) return o->lr_min;
    double progress = (double)(step - o->warmup) / (double)(job->steps - o->warmup);
    double weight = o->schedule == MT_LR_COSINE ? 0.5 * (1 + cos(M_PI * progress)) : 1 - progress;
    return o->lr_min + weight * (o->lr - o->lr_min);
}
