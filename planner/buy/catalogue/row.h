/* What the readers of catalogues share: a row as one value for each column. */
#ifndef MT_PLANNER_BUY_CATALOGUE_ROW_H
#define MT_PLANNER_BUY_CATALOGUE_ROW_H

#include "planner/buy/catalogue/catalogue.h"

enum { CATALOGUE_COLUMNS = 19 };

/* The number of a column, or -1; and "name, based_on, ...", for hints. */
int mt_catalogue_column(const char *name);
void mt_catalogue_columns(char *out, size_t size);

/* Add a row. A value that is null is not given; values last as long as the catalogue's arena. where: "file:3". */
enum mt_status mt_catalogue_row(struct mt_catalogue *catalogue, const char *where,
                                const char *const values[CATALOGUE_COLUMNS], struct mt_err *err);

#endif
