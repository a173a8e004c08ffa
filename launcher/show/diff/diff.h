/* The differences between two documents of one kind: each is a list of facts, compared by name.
 *
 *     mt_fact(facts, "job.batch", "%lld", batch);
 *     mt_fact_real(facts, "predicted step", 0.212, 0, MT_UNIT_SECONDS);
 *
 * A kind of document is a file diff/NAME.c, which lists a document's facts, and a row in differences.def. */
#ifndef MT_LAUNCHER_SHOW_DIFF_DIFF_H
#define MT_LAUNCHER_SHOW_DIFF_DIFF_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/table/table.h"

struct mt_fact {
    const char *name, *text; /* text: null of numbers */
    double value, band;      /* of numbers: it may be as much more or less */
    enum mt_unit unit;
};
struct mt_facts {
    struct mt_arena arena;
    int count, capacity;
    struct mt_fact *items;
    bool one_screen;     /* as of clusters: many differences are told in few lines, even if they are different */
    const char *content; /* hash of all that counts, also of what is no fact; or null */
};

/* Add a text; or a number with its relative error. Two numbers are equal if their error bands overlap; two times also
 * if they are printed alike. */
void mt_fact(struct mt_facts *facts, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void mt_fact_real(struct mt_facts *facts, const char *name, double value, double error, enum mt_unit unit);
/* Add a time that is predicted of a step: such times are equal if they differ by less than half of the last of the
 * three digits that the step itself is printed with, as does what rounding leaves. */
void mt_fact_predicted(struct mt_facts *facts, const char *name, double seconds, double step_s);
/* Format a fact's name, in the facts' arena. */
const char *mt_fact_name(struct mt_facts *facts, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Read both documents, which must be of one kind; the facts that differ become tables. *count: how many. */
enum mt_status mt_diff(const char *a, const char *b, struct mt_tables *out, int *count, struct mt_err *err);

/* differences.c: two lists of facts of one kind. Returns how many differ; where none does, but the
 * contents do, that is one. For machines each is a row of "differences"; people see equal ones of many ranks as one
 * line and, on one screen, at most MT_DIFF_LINES lines, in which nodes, pairs and points of curves are folded. */
#define MT_DIFF_LINES 36
#define MT_DIFF_MANY 100 /* of plans and runs, each difference has its line up to here; of more, ranks are one */
int mt_differences(const struct mt_facts *a, const struct mt_facts *b, struct mt_tables *out);

#define MT_DIFFERENCE(format, name)                                                                                    \
    enum mt_status mt_facts_of_##name(const char *path, struct mt_facts *facts, struct mt_err *err);
#include "launcher/show/diff/differences.def"
#undef MT_DIFFERENCE

#endif
