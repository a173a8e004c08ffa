/* Whole values and their boxes and parts on all ranks of an interpreter, element by element: what tests feed to a
 * program and how they read what it made, with none of the interpreter's own ways to do so. */
#ifndef MT_TESTS_SYNTH_PARTS_H
#define MT_TESTS_SYNTH_PARTS_H

#include "synth/interp/internal.h"
#include "synth/interp/interp.h"
#include "tests/check.h"
#include "tests/synth/layout/random_layout.h"

static inline int64_t value_count(const struct mt_layout *l) {
    int64_t n = 1;
    for (int a = 0; a < l->naxes; a++) n *= l->extent[a];
    return n;
}

/* Where element `e` of the value lies in the box, or -1. */
static inline int64_t element_in_box(const struct mt_layout *l, const struct mt_box *box, int64_t e) {
    int64_t place = 0, stride = 1;
    for (int a = l->naxes - 1; a >= 0; a--) {
        int64_t i = e % l->extent[a];
        e /= l->extent[a];
        if (i < box->lo[a] || i >= box->hi[a]) return -1;
        place += (i - box->lo[a]) * stride;
        stride *= box->hi[a] - box->lo[a];
    }
    return place;
}

/* Numbers for the parts of each cover that reduce to x. Whole numbers if x is one. */
static inline void random_parts(struct dice *dice, const struct mt_layout *l, double x, double *parts) {
    for (int cover = 0; cover < l->ncovers; cover++) {
        int first = 0, n = 0, chosen = 0;
        while (l->cover[first] != cover) first++;
        for (int p = first; p < l->nparts; p++)
            if (l->cover[p] == cover && roll(dice, ++n) == 0) chosen = p;
        parts[chosen] = x;
        for (int p = first; p < l->nparts; p++) {
            if (l->cover[p] != cover || p == chosen) continue;
            if (l->reduce == MT_MAX) {
                parts[p] = roll(dice, 6) ? x - (double)roll(dice, 5) : -INFINITY;
            } else {
                parts[p] = x == floor(x) ? (double)(roll(dice, 41) - 20) : roll_real(dice);
                parts[chosen] -= parts[p];
            }
        }
    }
}

/* Give a program value (a state that is fed) to all ranks. */
static inline void feed_value(struct dice *dice, struct mt_interp *interp, int value, const double *truth) {
    const struct mt_program *p = interp->program;
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    double parts[16];
    for (int r = 0; r < p->nranks; r++) mt_interp_install(interp, value, r, mt_interp_alloc(p, value, r));
    for (int64_t e = 0; e < value_count(l); e++) {
        random_parts(dice, l, truth[e], parts);
        for (int r = 0; r < p->nranks; r++) {
            int64_t place = element_in_box(l, &l->box[r], e);
            if (place >= 0)
                mt_type_store(p->values[value].type, *mt_interp_buffer(interp, value, r), place, parts[l->part[r]]);
        }
    }
}

/* The number that the ranks of a part have of an element; *holders: how many do, all of which must have the same. */
static inline double part_of_element(const struct mt_interp *interp, int value, int part, int64_t e, int *holders,
                                     const char *what) {
    const struct mt_program *p = interp->program;
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    double x = 0;
    *holders = 0;
    for (int r = 0; r < p->nranks; r++) {
        int64_t place = l->part[r] == part ? element_in_box(l, &l->box[r], e) : -1;
        if (place < 0) continue;
        const void *buffer = *mt_interp_buffer(interp, value, r);
        CHECK(buffer != NULL, "%s: rank %d has nothing", what, r);
        double y = mt_type_load(p->values[value].type, buffer, place);
        /* Replicas that a collective makes in several groups may be sums in different orders. */
        CHECK(!*holders || y == x || fabs(y - x) <= 1e-12 * fmax(1, fabs(x)),
              "%s: element %lld: rank %d has %.17g, another %.17g", what, (long long)e, r, y, x);
        x = y;
        ++*holders;
    }
    return x;
}

/* Every element is in some cover, and in all parts of its covers; replicas are equal; and the parts of each cover
 * reduce to the truth. */
static inline void check_value(const struct mt_interp *interp, int value, const double *truth, double tolerance,
                               const char *what) {
    const struct mt_layout *l = mt_pvalue_layout(interp->program, value);
    for (int64_t e = 0; e < value_count(l); e++) {
        int covers = 0;
        for (int cover = 0; cover < l->ncovers; cover++) {
            double whole = 0;
            int held = 0, parts = 0;
            for (int part = 0; part < l->nparts; part++) {
                int holders;
                if (l->cover[part] != cover) continue;
                double x = part_of_element(interp, value, part, e, &holders, what);
                held += holders > 0;
                whole = parts++ == 0 ? x : l->reduce == MT_MAX ? fmax(whole, x) : whole + x;
            }
            if (!held) continue;
            covers++;
            CHECK(held == parts, "%s: cover %d lacks a part of element %lld", what, cover, (long long)e);
            CHECK(fabs(whole - truth[e]) <= tolerance * fmax(1, fabs(truth[e])),
                  "%s: element %lld of cover %d is %.17g, not %.17g", what, (long long)e, cover, whole, truth[e]);
        }
        CHECK(covers > 0, "%s: nobody holds element %lld", what, (long long)e);
    }
}

#endif
