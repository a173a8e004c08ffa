/* The writers, for this folder only. */
#ifndef MT_KERNELS_BASE_TABLE_INTERNAL_H
#define MT_KERNELS_BASE_TABLE_INTERNAL_H

#include "kernels/base/table/table.h"

/* Items from `first` on; what is written begins without an empty line if `first` is 0. */
void mt_tables_write_text(const struct mt_tables *doc, int first, FILE *file);
void mt_tables_write_markdown(const struct mt_tables *doc, FILE *file);
void mt_tables_write_csv(const struct mt_tables *doc, FILE *file);
void mt_tables_write_json(const struct mt_tables *doc, FILE *file);

/* A date for machines: "2026-03-01T09:30:00Z". */
#define MT_DATE_TEXT 32
char *mt_date_text(double seconds, char out[MT_DATE_TEXT]);

#endif
