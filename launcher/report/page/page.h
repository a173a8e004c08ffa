/* A report as a page: headings, sentences, figures to be read at a glance, pictures, and the tables that they are drawn
 * from. What is told goes into typed tables first (kernels/base/table), of which Markdown, CSV and JSON are written as
 * they are; the page adds pictures and order.
 *
 *     struct mt_page page;
 *     mt_page_init(&page, true);
 *     mt_page_section(&page, "cluster", "Cluster %s", path);
 *     mt_page_fact(&page, "devices", "%d", n);
 *     struct mt_table *t = mt_page_table(&page, "pairs", "Bandwidth of pairs", "");     // then its columns and rows
 *     mt_page_picture(&page, "Bandwidth of pairs", "A row for each ...", mt_matrix_draw, &matrix);
 *     mt_page_write(&page, "html", file);
 *     mt_page_release(&page);
 *
 * A picture stands before the table that was added last, and shows its numbers. It is drawn when it is added, for wide
 * and for narrow pages, so its data may be gone afterwards. */
#ifndef MT_LAUNCHER_REPORT_PAGE_PAGE_H
#define MT_LAUNCHER_REPORT_PAGE_PAGE_H

#include "kernels/base/table/table.h"
#include "launcher/report/svg/svg.h"

enum { MT_PAGE_WIDE = 900, MT_PAGE_NARROW = 340 };

/* Sets the height, and draws: mt_chart_draw of a struct mt_chart, and so on. */
typedef void mt_picture_draw(const void *data, struct mt_svg *svg);

enum mt_block_what { MT_PAGE_SECTION, MT_PAGE_HEADING, MT_PAGE_SAY, MT_PAGE_WARN, MT_PAGE_FACT, MT_PAGE_TABLE };
struct mt_page_block {
    enum mt_block_what what;
    const char *text, *id; /* of a fact its name */
    const char *value;     /* of a fact */
    struct mt_table *table;
    const char *pictures[2]; /* of a table: SVG, wide and narrow; or null */
};
struct mt_page {
    struct mt_arena arena;
    struct mt_tables tables;
    const char *title;
    bool pictures;
    int section; /* number of the last one */
    int nblocks, capacity;
    struct mt_page_block *blocks;
};

void mt_page_init(struct mt_page *page, const char *title, bool pictures);
void mt_page_release(struct mt_page *page);

void mt_page_section(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_page_heading(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_page_say(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_page_warn(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Facts that follow each other stand side by side. */
void mt_page_fact(struct mt_page *page, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The name becomes "NAME-2" in the second section, and so on, so that all tables of the page have different ones. */
struct mt_table *mt_page_table(struct mt_page *page, const char *name, const char *title, const char *note);
void mt_page_picture(struct mt_page *page, const char *title, const char *description, mt_picture_draw *draw,
                     const void *data);

/* "12.5 GB/s", in the page's arena. */
const char *mt_page_quantity(struct mt_page *page, enum mt_unit unit, double value);

void mt_page_write_html(const struct mt_page *page, FILE *file);
extern const char *const mt_page_style; /* CSS */

#endif
