/* Every operator on boxes against the whole: split along each index, with an empty share, outputs that lack the index
 * reduced; on random boxes in several indices at once; and on extents of zero. */
#include "tests/kernels/op/samples.h"

static bool has(const struct sample *s, int operand, char letter) {
    return strchr(s->axes[operand], letter) != NULL;
}

static bool can_split(const struct sample *s, char letter) {
    return letter >= 'a' && !(s->spec->whole && strchr(s->spec->whole, letter));
}

static struct cut everything(const struct sample *s) {
    struct cut c = {0};
    for (int l = 0; l < 128; l++) c.hi[l] = s->extent[l];
    return c;
}

/* Put the box of output o where it belongs: added (or the larger taken) to what is there. */
static void merge(const struct sample *s, int o, const struct cut *cut, const double *part, double *whole) {
    struct mt_tensor box = {0};
    for (const char *l = s->axes[s->nin + o]; *l; l++, box.naxes++) {
        box.global[box.naxes] = s->extent[(int)*l];
        box.offset[box.naxes] = cut->lo[(int)*l];
        box.extent[box.naxes] = cut->hi[(int)*l] - cut->lo[(int)*l];
    }
    for (int64_t i = 0; i < mt_tensor_count(&box); i++) {
        double *to = &whole[whole_index(&box, i)];
        *to = s->spec->kind == MT_OP_row_max ? fmax(*to, part[i]) : *to + part[i];
    }
}

static void check_equal(const struct sample *s, const char *how, double **got, double **want) {
    for (int o = 0; o < s->nout; o++) {
        int64_t n = sample_count(s, s->nin + o);
        double scale = 0;
        for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[o][i]));
        double limit = sample_info(s)->exact ? 0 : 1e-12 * scale;
        for (int64_t i = 0; i < n; i++)
            CHECK(fabs(got[o][i] - want[o][i]) <= limit, "%s %s: output %d [%lld] is %.17g, not %.17g", sample_text(s),
                  how, o, (long long)i, got[o][i], want[o][i]);
    }
}

static void split_along(const struct sample *s, char letter, double **want, double **part, double **got) {
    int64_t n = s->extent[(int)letter], first = n / 3;
    const int64_t starts[] = {0, first, first, n - 1, n};
    for (int o = 0; o < s->nout; o++)
        for (int64_t i = 0; i < sample_count(s, s->nin + o); i++)
            got[o][i] = s->spec->kind == MT_OP_row_max ? -INFINITY : 0;
    for (int share = 0; share < 4; share++) {
        struct cut cut = everything(s);
        cut.lo[(int)letter] = starts[share], cut.hi[(int)letter] = starts[share + 1];
        sample_run(s, MT_F64, &cut, part);
        for (int o = 0; o < s->nout; o++) merge(s, o, &cut, part[o], got[o]);
    }
    char how[32];
    snprintf(how, sizeof how, "split along %c", letter);
    check_equal(s, how, got, want);
}

/* Boxes in all the indices that every output has. */
static void random_boxes(const struct sample *s, uint64_t seed, double **want, double **part, double **got) {
    for (uint64_t round = 0; round < 4; round++) {
        struct cut cut = everything(s);
        for (int l = 'a'; l <= 'z'; l++) {
            bool mapped = can_split(s, (char)l) && s->extent[l];
            for (int o = 0; o < s->nout; o++) mapped &= has(s, s->nin + o, (char)l);
            if (!mapped) continue;
            uint64_t n = (uint64_t)s->extent[l], at = round * 128 + (uint64_t)l;
            cut.lo[l] = (int64_t)mt_random_below(seed, 77, at, n);
            cut.hi[l] = cut.lo[l] + 1 + (int64_t)mt_random_below(seed, 78, at, n - (uint64_t)cut.lo[l]);
        }
        sample_run(s, MT_F64, &cut, part);
        for (int o = 0; o < s->nout; o++) {
            memcpy(got[o], want[o], (size_t)sample_count(s, s->nin + o) * sizeof(double));
            struct mt_tensor box = {0};
            for (const char *l = s->axes[s->nin + o]; *l; l++, box.naxes++) {
                box.global[box.naxes] = s->extent[(int)*l];
                box.offset[box.naxes] = cut.lo[(int)*l];
                box.extent[box.naxes] = cut.hi[(int)*l] - cut.lo[(int)*l];
            }
            for (int64_t i = 0; i < mt_tensor_count(&box); i++) got[o][whole_index(&box, i)] = part[o][i];
        }
        check_equal(s, "on a box", got, want);
    }
}

static void split_all(const struct spec *spec, int sizes, uint64_t seed) {
    struct sample s;
    double *want[MT_MAX_OUT], *part[MT_MAX_OUT], *got[MT_MAX_OUT];
    sample_make(spec, sizes, seed, &s);
    sample_fill(&s, seed);
    sample_outputs(&s, want), sample_outputs(&s, part), sample_outputs(&s, got);
    sample_run(&s, MT_F64, NULL, want);
    for (const char *l = size_letters; *l; l++)
        if (strchr(spec->shapes, *l) && can_split(&s, *l)) split_along(&s, *l, want, part, got);
    if (!spec->attr.accumulate || spec->kind == MT_OP_matmul) random_boxes(&s, seed, want, part, got);
    outputs_free(&s, want), outputs_free(&s, part), outputs_free(&s, got);
    sample_free(&s);
}

/* An index of extent zero: outputs that have it are empty, sums over it are zero (or what was there), maxima -inf. */
static void zero_extent(const struct spec *spec, char letter, uint64_t seed) {
    struct sample s;
    double *got[MT_MAX_OUT];
    sample_make(spec, 0, seed, &s);
    s.extent[(int)letter] = 0;
    sample_fill(&s, seed);
    sample_outputs(&s, got);
    sample_run(&s, MT_F64, NULL, got);
    bool biased = spec->kind == MT_OP_fused_matmul;
    for (int o = 0; o < s.nout; o++) {
        bool lse = mt_op_is_attention(spec->kind) && o == 1;
        for (int64_t i = 0; i < sample_count(&s, s.nin + o); i++) {
            double want = spec->kind == MT_OP_row_max ? -INFINITY : spec->attr.accumulate ? s.values[s.nin + o][i] : 0;
            if (spec->kind == MT_OP_sq_norm_add) want = s.values[1][0];
            if (biased || lse) {
                CHECK(got[o][i] == got[o][i], "%s with %c = 0: not written", sample_text(&s), letter);
            } else {
                CHECK(got[o][i] == want, "%s with %c = 0: output %d [%lld] is %g", sample_text(&s), letter, o,
                      (long long)i, got[o][i]);
            }
        }
    }
    outputs_free(&s, got);
    sample_free(&s);
}

int main(void) {
    uint64_t seed = 31;
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < NSPECS; i++) {
        split_all(&specs[i], 0, seed);
        if (specs[i].kind == MT_OP_dropout || mt_op_is_attention(specs[i].kind) || specs[i].kind == MT_OP_matmul)
            split_all(&specs[i], 1, seed);
        for (const char *l = size_letters; *l; l++)
            if (*l >= 'a' && strchr(specs[i].shapes, *l) && specs[i].kind != MT_OP_cross_entropy &&
                specs[i].kind != MT_OP_cross_entropy_grad && !(*l == 'g' && strchr(specs[i].shapes, 'u')))
                zero_extent(&specs[i], *l, seed);
    }
    return 0;
}
