/* Documents as tables (show.h), differences of documents (diff.h).
 *
 * A document is a file NAME.c with mt_show_NAME and a row in documents.def; if it can be compared, also a file
 * diff/NAME.c and a row in differences.def. */
#ifndef MT_LAUNCHER_SHOW_SHOW_H
#define MT_LAUNCHER_SHOW_SHOW_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/err.h"
#include "kernels/base/table/table.h"

/* The tables of a document of any kind; MT_EINPUT if its format is not known. *outliers: it is a cluster that has
 * outliers, which a script should know. */
enum mt_status mt_show(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err);

#define MT_DOCUMENT(format, name)                                                                                      \
    enum mt_status mt_show_##name(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err);
#include "launcher/show/documents.def"
#undef MT_DOCUMENT

/* How a program divides a model, by kind of layer: which axes of weights, activations and gradients are divided over
 * what, and what collectives move. */
struct mt_program;
void mt_layouts_tables(const struct mt_program *program, struct mt_tables *out);

/* The answer of mt_explain: sentences, then tables; among them what the program does by kind of layer (told.c). */
struct mt_explained;
struct mt_planned;
void mt_explained_tables(const struct mt_explained *explained, const struct mt_planned *planned, struct mt_tables *out);
void mt_told_tables(const struct mt_planned *planned, struct mt_tables *out);

#define MT_WHATIF_FORMAT "motley-whatif" /* of the JSON document */

/* An answer of mt_whatif_ask as a table, "whatif"; all answers as a JSON document. */
struct mt_whatif;
struct mt_whatif_answer;
void mt_whatif_tables(const struct mt_whatif *whatif, const struct mt_whatif_answer *answer, struct mt_tables *out);
enum mt_status mt_whatif_write(const struct mt_whatif *whatif, const struct mt_whatif_answer *answers, int count,
                               const char *path, struct mt_err *err);

#endif
