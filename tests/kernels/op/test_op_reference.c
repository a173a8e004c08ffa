/* Every operator in f64 against its formula, written down element by element. */
#include "tests/kernels/op/samples.h"

/* Indices of all letters, run through like an odometer over the letters in `over`. */
struct place {
    int64_t at[128];
};

static bool next(const struct sample *s, const char *over, struct place *p) {
    for (int i = (int)strlen(over) - 1; i >= 0; i--) {
        int l = over[i];
        if (++p->at[l] < s->extent[l]) return true;
        p->at[l] = 0;
    }
    return false;
}

static double *element(const struct sample *s, int operand, double *data, const struct place *p) {
    int64_t i = 0;
    for (const char *l = s->axes[operand]; *l; l++) i = i * s->extent[(int)*l] + p->at[(int)*l];
    return &data[i];
}
static double in(const struct sample *s, int operand, const struct place *p) {
    return *element(s, operand, s->values[operand], p);
}

static double gelu(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double gelu_slope(double x) {
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}
static bool dropped(const struct sample *s, uint64_t index) {
    const struct mt_attr *t = &s->spec->attr;
    uint64_t stream = t->tag + ((uint64_t)s->clock.step << 20);
    return mt_random_u32(s->clock.seed, stream, index) < t->p * 4294967296.0;
}

/* The angle of element i of a head by its formula in Llama 3.1's report, without it the plain one. */
static double angle_of(const struct sample *s, const struct place *p) {
    const struct mt_attr *t = &s->spec->attr;
    int64_t half = s->extent['u'] / 2, i = p->at['u'] % half;
    double f = 1 / pow(t->rope_base, (double)i / (double)half), wavelength = 2 * M_PI / f;
    double context = (double)t->rope_context;
    if (t->rope_factor > 0 && wavelength > context / t->rope_low) {
        f /= t->rope_factor;
    } else if (t->rope_factor > 0 && wavelength >= context / t->rope_high) {
        double smooth = (context / wavelength - t->rope_low) / (t->rope_high - t->rope_low);
        f = (1 - smooth) * f / t->rope_factor + smooth * f;
    }
    return (t->inverse ? -f : f) * (double)p->at['s'];
}

static double rotated(const struct sample *s, const struct place *p) {
    struct place other = *p;
    int64_t half = s->extent['u'] / 2;
    bool second = p->at['u'] >= half;
    other.at['u'] += second ? -half : half;
    double angle = angle_of(s, p);
    return in(s, 0, p) * cos(angle) + (second ? 1 : -1) * in(s, 0, &other) * sin(angle);
}

/* Operators whose output element depends on the input elements at the same place. */
static double by_element(const struct sample *s, int o, const struct place *p, uint64_t index) {
    const struct mt_attr *t = &s->spec->attr;
    double x = s->nin ? in(s, 0, p) : 0, n = (double)s->extent['e'];
    double mean = 0, rstd = 0, xhat = 0;
    int first = s->spec->kind == MT_OP_norm_apply ? 0 : 1;
    if (s->spec->kind == MT_OP_norm_apply || s->spec->kind == MT_OP_norm_grad) {
        mean = in(s, first + 1, p) / n;
        rstd = pow(in(s, first + 2, p) / n + t->eps, -0.5);
        xhat = (in(s, first, p) - mean) * rstd;
    }
    switch (s->spec->kind) {
    case MT_OP_add: return x + in(s, 1, p);
    case MT_OP_gelu: return gelu(x);
    case MT_OP_gelu_grad: return x * gelu_slope(in(s, 1, p));
    case MT_OP_relu: return x > 0 ? x : 0;
    case MT_OP_relu_grad: return in(s, 1, p) > 0 ? x : 0;
    case MT_OP_dropout: return dropped(s, index) ? 0 : x / (1 - t->p);
    case MT_OP_norm_apply: return xhat * in(s, 3, p) + (s->nin > 4 ? in(s, 4, p) : 0);
    case MT_OP_norm_grad: return rstd * (x * in(s, 4, p) - in(s, 5, p) / n - xhat * in(s, 6, p) / n);
    case MT_OP_rms_apply: return x * in(s, 2, p) * pow(in(s, 1, p) / n + t->eps, -0.5);
    case MT_OP_rms_grad: {
        double rrms = pow(in(s, 2, p) / n + t->eps, -0.5);
        return rrms * (x * in(s, 3, p) - in(s, 1, p) * rrms * in(s, 4, p) / n);
    }
    case MT_OP_rotary: return rotated(s, p);
    case MT_OP_silu_mul: return x * in(s, 1, p) / (1 + exp(-x));
    case MT_OP_silu_mul_grad: {
        double gate = in(s, 1, p), sigmoid = 1 / (1 + exp(-gate));
        return o == 0 ? x * in(s, 2, p) * sigmoid * (1 + gate * (1 - sigmoid)) : x * gate * sigmoid;
    }
    case MT_OP_nll: return in(s, 3, p) < 0 ? 0 : log(in(s, 1, p)) + x - in(s, 2, p);
    case MT_OP_nll_grad: {
        double target = in(s, 3, p), there = target == (double)p->at['v'];
        return target < 0 ? 0 : (exp(x - in(s, 1, p)) / in(s, 2, p) - there) * in(s, 4, p);
    }
    case MT_OP_fill: return t->value;
    case MT_OP_cast: return x;
    case MT_OP_grad_scale: {
        double count = in(s, 1, p) * (s->nin > 2 ? in(s, 2, p) : 1), norm = sqrt(x) / count;
        return (t->clip > 0 && t->clip < norm + 1e-6 ? t->clip / (norm + 1e-6) : 1) / count;
    }
    case MT_OP_loss_scale: {
        bool grows = in(s, 1, p) + 1 >= (double)t->interval;
        return o == 0 ? (grows ? 2 * x : x) : o == 1 ? (grows ? 0 : in(s, 1, p) + 1) : in(s, 2, p);
    }
    case MT_OP_embedding: {
        struct place row = *p;
        row.at['v'] = (int64_t)in(s, 1, p);
        return in(s, 0, &row);
    }
    case MT_OP_adamw: {
        double step = (double)s->clock.step - (s->nin > 5 ? in(s, 5, p) : 0), g = in(s, 3, p) * in(s, 4, p), w = x;
        double m = t->beta1 * in(s, 1, p) + (1 - t->beta1) * g, v = t->beta2 * in(s, 2, p) + (1 - t->beta2) * g * g;
        double mhat = m / (1 - pow(t->beta1, step)), vhat = v / (1 - pow(t->beta2, step));
        double lr = s->clock.lr * t->lr_scale;
        return o == 1 ? m : o == 2 ? v : w - lr * mhat / (sqrt(vhat) + t->eps) - lr * t->decay * w;
    }
    case MT_OP_sgd: {
        double g = in(s, 2, p) * in(s, 3, p) + t->decay * x, m = t->momentum * in(s, 1, p) + g;
        double lr = s->clock.lr * t->lr_scale;
        return o == 1 ? m : t->nesterov ? x - lr * (g + t->momentum * m) : x - lr * m;
    }
    default: return NAN;
    }
}

/* What an element of the whole index space adds to an output that is a sum. */
static double addend(const struct sample *s, int o, const struct place *p) {
    double x = in(s, 0, p), n = (double)s->extent['e'];
    switch (s->spec->kind) {
    case MT_OP_matmul:
    case MT_OP_fused_matmul: return x * in(s, 1, p);
    case MT_OP_sum: return x;
    case MT_OP_norm_sqdev: return pow(x - in(s, 1, p) / n, 2);
    case MT_OP_norm_dots:
    case MT_OP_norm_param_grad: {
        double rstd = 1 / sqrt(in(s, 3, p) / n + s->spec->attr.eps), xhat = (in(s, 1, p) - in(s, 2, p) / n) * rstd;
        double gamma = s->spec->kind == MT_OP_norm_dots ? in(s, 4, p) : 1;
        bool with_xhat = s->spec->kind == MT_OP_norm_dots ? o == 1 : o == 0;
        return x * gamma * (with_xhat ? xhat : 1);
    }
    case MT_OP_rms_sq: return x * x;
    case MT_OP_rms_dot:
    case MT_OP_rms_param_grad: {
        double gamma = s->spec->kind == MT_OP_rms_dot ? in(s, 3, p) : 1;
        return x * gamma * in(s, 1, p) / sqrt(in(s, 2, p) / n + s->spec->attr.eps);
    }
    case MT_OP_embedding_grad: return in(s, 1, p) == (double)p->at['v'] ? x : 0;
    case MT_OP_exp_sum: return exp(x - in(s, 1, p));
    case MT_OP_pick: return in(s, 1, p) == (double)p->at['v'] ? x : 0;
    case MT_OP_count: return x >= 0;
    case MT_OP_sq_norm: return x * x;
    default: return NAN;
    }
}

static void by_elements(const struct sample *s, int o, double *out) {
    const char *axes = s->axes[s->nin + o];
    struct place p = {{0}};
    uint64_t index = 0;
    do *element(s, s->nin + o, out, &p) = by_element(s, o, &p, index++);
    while (next(s, axes, &p));
}

static void by_sums(const struct sample *s, int o, double *out) {
    char letters[16] = "";
    for (const char *l = s->spec->shapes; *l; l++)
        if (*l >= 'a' && !strchr(letters, *l)) strncat(letters, l, 1);
    int64_t n = sample_count(s, s->nin + o);
    for (int64_t i = 0; i < n; i++) out[i] = s->spec->attr.accumulate ? s->values[s->nin + o][i] : 0;
    struct place p = {{0}};
    do *element(s, s->nin + o, out, &p) += addend(s, o, &p);
    while (next(s, letters, &p));
}

/* Of b over k, and what was there. */
static void column_sums(const struct sample *s, double *out) {
    const char *n = s->axes[s->nin + 1];
    struct place p = {{0}};
    do *element(s, s->nin + 1, out, &p) = s->spec->attr.accumulate ? in(s, s->nin + 1, &p) : 0;
    while (next(s, n, &p));
    memset(&p, 0, sizeof p);
    do *element(s, s->nin + 1, out, &p) += in(s, 1, &p);
    while (next(s, s->axes[1], &p));
}

static void epilogue(const struct sample *s, double **out) {
    by_sums(s, 0, out[0]);
    struct place p = {{0}};
    if (s->spec->attr.epilogue == MT_OP_sum) {
        column_sums(s, out[1]);
        return;
    }
    if (s->spec->attr.epilogue == MT_OP_gelu_grad || s->spec->attr.epilogue == MT_OP_relu_grad) {
        do {
            double x = in(s, 2, &p);
            *element(s, s->nin, out[0], &p) *= s->spec->attr.epilogue == MT_OP_relu_grad ? x > 0 : gelu_slope(x);
        } while (next(s, s->axes[s->nin], &p));
        return;
    }
    do {
        double *y = element(s, s->nin, out[0], &p), pre = *y + in(s, 2, &p);
        *y = s->spec->attr.epilogue == MT_OP_gelu   ? gelu(pre)
             : s->spec->attr.epilogue == MT_OP_relu ? fmax(pre, 0)
                                                    : pre;
        if (s->nout > 1) *element(s, s->nin + 1, out[1], &p) = pre;
    } while (next(s, s->axes[s->nin], &p));
}

/* layer_norm and residual_norm: x, then y, s, q. */
static void norm(const struct sample *s, double **out) {
    bool residual = s->spec->kind == MT_OP_residual_norm;
    int64_t e = s->extent['e'], rows = s->extent['x'] * s->extent['y'];
    const double *gamma = s->values[1 + residual], *beta = s->nin > 2 + residual ? s->values[2 + residual] : NULL;
    for (int64_t r = 0; r < rows; r++) {
        double row[2048], sum = 0, sq = 0;
        for (int64_t j = 0; j < e; j++) {
            row[j] = s->values[0][r * e + j] + (residual ? s->values[1][r * e + j] : 0);
            sum += row[j];
        }
        for (int64_t j = 0; j < e; j++) sq += pow(row[j] - sum / (double)e, 2);
        for (int64_t j = 0; j < e; j++) {
            double xhat = (row[j] - sum / (double)e) / sqrt(sq / (double)e + s->spec->attr.eps);
            out[residual][r * e + j] = xhat * gamma[j] + (beta ? beta[j] : 0);
            if (residual) out[0][r * e + j] = row[j];
        }
        out[1 + residual][r] = sum, out[2 + residual][r] = sq;
    }
}

static void norm_grad(const struct sample *s, double **out) {
    int64_t e = s->extent['e'], rows = s->extent['x'] * s->extent['y'];
    double n = (double)e, *const *v = s->values;
    for (int64_t j = 0; j < e; j++)
        for (int o = 1; o < s->nout; o++) out[o][j] = s->spec->attr.accumulate ? v[s->nin + o][j] : 0;
    for (int64_t r = 0; r < rows; r++) {
        double rstd = 1 / sqrt(v[3][r] / n + s->spec->attr.eps), mean = v[2][r] / n, d1 = 0, d2 = 0;
        for (int64_t j = 0; j < e; j++) {
            double dy = v[0][r * e + j], xhat = (v[1][r * e + j] - mean) * rstd;
            d1 += dy * v[4][j], d2 += dy * v[4][j] * xhat;
            out[1][j] += dy * xhat, out[2][j] += dy;
        }
        for (int64_t j = 0; j < e; j++) {
            double xhat = (v[1][r * e + j] - mean) * rstd;
            double dx = rstd * (v[0][r * e + j] * v[4][j] - d1 / n - xhat * d2 / n);
            out[0][r * e + j] = dx + (s->nin > 5 ? v[5][r * e + j] : 0);
            if (s->nout > 3) out[3][j] += out[0][r * e + j];
        }
    }
}

/* rms_norm and residual_rms: x, then y, q. */
static void rms(const struct sample *s, double **out) {
    bool residual = s->spec->kind == MT_OP_residual_rms;
    int64_t e = s->extent['e'], rows = s->extent['x'] * s->extent['y'];
    for (int64_t r = 0; r < rows; r++) {
        double row[2048], sq = 0;
        for (int64_t j = 0; j < e; j++) {
            row[j] = s->values[0][r * e + j] + (residual ? s->values[1][r * e + j] : 0);
            sq += row[j] * row[j];
        }
        for (int64_t j = 0; j < e; j++) {
            out[residual][r * e + j] = row[j] / sqrt(sq / (double)e + s->spec->attr.eps) * s->values[1 + residual][j];
            if (residual) out[0][r * e + j] = row[j];
        }
        out[1 + residual][r] = sq;
    }
}

static void rms_grad(const struct sample *s, double **out) {
    int64_t e = s->extent['e'], rows = s->extent['x'] * s->extent['y'];
    double n = (double)e, *const *v = s->values;
    for (int64_t j = 0; j < e; j++) out[1][j] = s->spec->attr.accumulate ? v[s->nin + 1][j] : 0;
    for (int64_t r = 0; r < rows; r++) {
        double rrms = 1 / sqrt(v[2][r] / n + s->spec->attr.eps), d = 0;
        for (int64_t j = 0; j < e; j++) {
            double dy = v[0][r * e + j], xhat = v[1][r * e + j] * rrms;
            d += dy * v[3][j] * xhat;
            out[1][j] += dy * xhat;
        }
        for (int64_t j = 0; j < e; j++) {
            double dx = rrms * (v[0][r * e + j] * v[3][j] - v[1][r * e + j] * rrms * d / n);
            out[0][r * e + j] = dx + (s->nin > 4 ? v[4][r * e + j] : 0);
        }
    }
}

static void cross_entropy(const struct sample *s, double **out) {
    int64_t v = s->extent['v'], rows = s->extent['x'] * s->extent['y'];
    for (int64_t r = 0; r < rows; r++) {
        const double *x = s->values[0] + r * v;
        double m = x[0], z = 0;
        for (int64_t j = 0; j < v; j++) m = fmax(m, x[j]);
        for (int64_t j = 0; j < v; j++) z += exp(x[j] - m);
        int64_t target = (int64_t)s->values[1][r];
        out[0][r] = m;
        if (s->nout == 1) continue; /* row_max */
        out[1][r] = z;
        out[2][r] = target < 0 ? 0 : -log(exp(x[target] - m) / z);
    }
}

static void cross_entropy_grad(const struct sample *s, double **out) {
    int64_t v = s->extent['v'], rows = s->extent['x'] * s->extent['y'];
    double dl = s->spec->attr.value + (s->nin > 2 ? s->values[2][0] : 0);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = s->values[0] + r * v;
        int64_t target = (int64_t)s->values[1][r];
        double z = 0;
        for (int64_t j = 0; j < v; j++) z += exp(x[j]); /* of normal numbers */
        out[1][r] = target < 0 ? 0 : log(z) - x[target];
        for (int64_t j = 0; j < v; j++) out[0][r * v + j] = target < 0 ? 0 : (exp(x[j]) / z - (j == target)) * dl;
    }
}

static void sq_norm_add(const struct sample *s, double **out) {
    out[0][0] = s->values[1][0];
    for (int64_t i = 0; i < sample_count(s, 0); i++) out[0][0] += s->values[0][i] * s->values[0][i];
}

/* Queries, keys and values, packed or not: where their elements are, and the softmax p[i][j] of one query head of one
 * sample with the factors of dropout. */
struct heads {
    int64_t s, t, h, g, d;
    bool packed;
    const double *q, *kv;
    double *p, *keep;
};

static struct heads heads_of(const struct sample *s) {
    bool gradient = mt_op_is_attention_grad(s->spec->kind);
    const char *q = s->axes[gradient], *kv = s->axes[gradient + 1];
    struct heads x = {.s = s->extent['s'], .d = s->extent['d'], .packed = q[2] == '3', .q = s->values[gradient]};
    x.t = x.packed ? x.s : s->extent['t'];
    x.g = s->extent[(int)(x.packed ? 'h' : kv[3])];
    x.h = x.packed ? x.g : s->extent[(int)q[2]] * (strlen(q) == 5 ? s->extent[(int)q[3]] : 1);
    x.kv = s->values[gradient + !x.packed];
    x.p = malloc((size_t)(x.s * x.t) * sizeof(double)), x.keep = malloc((size_t)(x.s * x.t) * sizeof(double));
    return x;
}

static int64_t q_at(const struct heads *x, int64_t b, int64_t i, int64_t h) {
    return ((b * x->s + i) * (x->packed ? 3 : 1) * x->h + h) * x->d;
}
/* Of query head h: part 0, its key; part 1, its value. */
static int64_t kv_at(const struct heads *x, int64_t b, int64_t j, int part, int64_t h) {
    int64_t parts = x->packed ? 3 : 2, first = x->packed ? 1 : 0;
    return (((b * x->t + j) * parts + first + part) * x->g + h / (x->h / x->g)) * x->d;
}

/* `given`: lse, by which p is normalised; or null, and lse is written. */
static void softmax_of(const struct sample *s, const struct heads *x, int64_t b, int64_t h, const double *given,
                       double *lse) {
    const struct mt_attr *t = &s->spec->attr;
    for (int64_t i = 0; i < x->s; i++) {
        int64_t row = (b * x->h + h) * x->s + i;
        double z = 0;
        for (int64_t j = 0; j < x->t; j++) {
            double score = 0;
            for (int64_t d = 0; d < x->d; d++) score += x->q[q_at(x, b, i, h) + d] * x->kv[kv_at(x, b, j, 0, h) + d];
            bool hidden = t->causal && (j > i || (t->window && i - j >= t->window));
            x->p[i * x->t + j] = hidden ? 0 : exp(score * t->scale);
            z += x->p[i * x->t + j];
            x->keep[i * x->t + j] = t->p > 0 && dropped(s, (uint64_t)(row * x->t + j)) ? 0 : 1 / (1 - t->p);
        }
        if (given) z = exp(given[row]);
        for (int64_t j = 0; j < x->t; j++) x->p[i * x->t + j] /= z;
        if (lse) lse[row] = log(z);
    }
}

static void attention(const struct sample *s, double **out) {
    struct heads x = heads_of(s);
    for (int64_t b = 0; b < s->extent['b']; b++)
        for (int64_t h = 0; h < x.h; h++) {
            softmax_of(s, &x, b, h, NULL, out[1]);
            for (int64_t i = 0; i < x.s; i++)
                for (int64_t d = 0; d < x.d; d++) {
                    double o = 0;
                    for (int64_t j = 0; j < x.t; j++)
                        o += x.p[i * x.t + j] * x.keep[i * x.t + j] * x.kv[kv_at(&x, b, j, 1, h) + d];
                    out[0][((b * x.s + i) * x.h + h) * x.d + d] = o;
                }
        }
    free(x.p), free(x.keep);
}

/* With the statistics lse and o as they are given, whatever they are. */
static void attention_grad(const struct sample *s, double **out) {
    struct heads x = heads_of(s);
    const double *dout = s->values[0], *o = s->values[s->nin - 2], *lse = s->values[s->nin - 1];
    double *dq = out[0], *dkv = out[s->nout - 1];
    for (int k = 0; k < s->nout; k++) memset(out[k], 0, (size_t)sample_count(s, s->nin + k) * sizeof(double));
    for (int64_t b = 0; b < s->extent['b']; b++)
        for (int64_t h = 0; h < x.h; h++) {
            softmax_of(s, &x, b, h, lse, NULL);
            for (int64_t i = 0; i < x.s; i++) {
                const double *di = dout + ((b * x.s + i) * x.h + h) * x.d, *oi = o + (di - dout);
                int64_t qi = q_at(&x, b, i, h);
                double dot = 0;
                for (int64_t d = 0; d < x.d; d++) dot += di[d] * oi[d];
                for (int64_t j = 0; j < x.t; j++) {
                    double dp = 0, p = x.p[i * x.t + j], keep = x.keep[i * x.t + j];
                    int64_t kj = kv_at(&x, b, j, 0, h), vj = kv_at(&x, b, j, 1, h);
                    for (int64_t d = 0; d < x.d; d++) dp += di[d] * x.kv[vj + d];
                    double ds = p * (dp * keep - dot) * s->spec->attr.scale;
                    for (int64_t d = 0; d < x.d; d++) {
                        dq[qi + d] += ds * x.kv[kj + d];
                        dkv[kj + d] += ds * x.q[qi + d];
                        dkv[vj + d] += p * keep * di[d];
                    }
                }
            }
        }
    free(x.p), free(x.keep);
}

/* separate and join: each place of the axis is of one part. */
static void parts(const struct sample *s, double **out) {
    bool join = s->spec->kind == MT_OP_join;
    int axis = s->spec->attr.axis, whole = join ? s->nin : 0, nparts = join ? s->nin : s->nout;
    int64_t before = 1, after = 1, n = s->extent[(int)s->axes[whole][axis]], first = 0;
    for (int a = 0; s->axes[whole][a]; a++)
        if (a != axis) *(a < axis ? &before : &after) *= s->extent[(int)s->axes[whole][a]];
    for (int p = 0; p < nparts; p++) {
        int operand = join ? p : 1 + p;
        int64_t places = sample_count(s, operand) / (before * after);
        for (int64_t i = 0; i < before; i++)
            for (int64_t j = 0; j < places; j++)
                for (int64_t k = 0; k < after; k++) {
                    int64_t in_whole = (i * n + first + j) * after + k, in_part = (i * places + j) * after + k;
                    if (join)
                        out[0][in_whole] = s->values[p][in_part];
                    else
                        out[p][in_part] = s->values[0][in_whole];
                }
        first += places;
    }
}

static void reference(const struct sample *s, double **out) {
    switch (s->spec->kind) {
    case MT_OP_attention:
    case MT_OP_attention_packed: attention(s, out); return;
    case MT_OP_attention_grad:
    case MT_OP_attention_packed_grad: attention_grad(s, out); return;
    case MT_OP_separate:
    case MT_OP_join: parts(s, out); return;
    case MT_OP_layer_norm:
    case MT_OP_residual_norm: norm(s, out); return;
    case MT_OP_layer_norm_grad: norm_grad(s, out); return;
    case MT_OP_rms_norm:
    case MT_OP_residual_rms: rms(s, out); return;
    case MT_OP_rms_norm_grad: rms_grad(s, out); return;
    case MT_OP_row_max:
    case MT_OP_cross_entropy: cross_entropy(s, out); return;
    case MT_OP_cross_entropy_grad: cross_entropy_grad(s, out); return;
    case MT_OP_sq_norm_add: sq_norm_add(s, out); return;
    case MT_OP_fused_matmul: epilogue(s, out); return;
    default: break;
    }
    struct place origin = {{0}};
    bool sums = addend(s, 0, &origin) == addend(s, 0, &origin);
    for (int o = 0; o < s->nout; o++) sums ? by_sums(s, o, out[o]) : by_elements(s, o, out[o]);
}

/* An output of a narrower type is that of the reference, rounded. */
static void round_to(enum mt_type type, double *x, int64_t n) {
    for (int64_t k = 0; k < n && type != MT_F64; k++) {
        char rounded[8];
        mt_type_store(type, rounded, 0, x[k]);
        x[k] = mt_type_load(type, rounded, 0);
    }
}

static void check_sample(struct sample *s, int sizes, double **want, double **got) {
    (void)sizes;
    sample_run(s, MT_F64, NULL, got);
    reference(s, want);
    for (int o = 0; o < s->nout; o++) {
        int64_t n = sample_count(s, s->nin + o);
        round_to(sample_type(s, s->nin + o, MT_F64), want[o], n);
        double scale = 0;
        for (int64_t k = 0; k < n; k++) scale = fmax(scale, fabs(want[o][k]));
        for (int64_t k = 0; k < n; k++)
            CHECK(fabs(got[o][k] - want[o][k]) <= 1e-12 * scale, "%s: output %d [%lld] is %.17g, not %.17g",
                  sample_text(s), o, (long long)k, got[o][k], want[o][k]);
    }
}

int main(void) {
    each_sample(42, check_sample);
    return 0;
}
