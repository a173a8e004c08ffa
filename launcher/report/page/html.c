/* A page as one HTML file: style and pictures are in it, and there are no scripts. Tables below pictures are folded
 * away where they are long. */
#include <string.h>

#include "launcher/report/page/page.h"

enum { LONG_TEXT = 40, OPEN_ROWS = 8 }; /* a table of at most so many rows stays open below its picture */

static void put_table(const struct mt_table *table, FILE *f) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_grid grid;
    mt_table_grid(table, &arena, &grid);
    fprintf(f, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
    mt_html_text(f, table->title);
    fprintf(f, "\">\n<table id=\"%s\">\n<caption>", table->name);
    mt_html_text(f, table->title);
    if (table->note[0]) fputs(" <span>(", f), mt_html_text(f, table->note), fputs(")</span>", f);
    fputs("</caption>\n<thead><tr>", f);
    for (int c = 0; c < grid.ncolumns; c++) {
        fprintf(f, "<th scope=\"col\"%s>", grid.right[c] ? " class=\"r\"" : "");
        mt_html_text(f, grid.titles[c]);
        fputs("</th>", f);
    }
    fputs("</tr></thead>\n<tbody>\n", f);
    for (int r = 0; r < grid.nrows; r++) {
        fprintf(f, "<tr%s>", grid.rows[r].total ? " class=\"total\"" : "");
        for (int c = 0; c < grid.ncolumns; c++) {
            const char *cell = grid.rows[r].cells[c];
            fputs(grid.right[c] ? "<td class=\"r\">" : strlen(cell) > LONG_TEXT ? "<td class=\"t\">" : "<td>", f);
            mt_html_text(f, cell);
            fputs("</td>", f);
        }
        fputs("</tr>\n", f);
    }
    fputs("</tbody>\n</table>\n</div>\n", f);
    mt_arena_release(&arena);
}

static void put_figure(const struct mt_page_block *block, FILE *f) {
    static const char *const classes[2] = {"wide", "narrow"};
    fputs("<figure>\n<figcaption>", f);
    mt_html_text(f, block->table->title);
    fputs("</figcaption>\n", f);
    for (int i = 0; i < 2; i++) fprintf(f, "<div class=\"%s\">\n%s</div>\n", classes[i], block->pictures[i]);
    if (block->table->nrows > OPEN_ROWS) fputs("<details>\n<summary>Table of these numbers</summary>\n", f);
    put_table(block->table, f);
    if (block->table->nrows > OPEN_ROWS) fputs("</details>\n", f);
    fputs("</figure>\n", f);
}

static void put_element(const char *element, const char *class, const char *text, FILE *f) {
    fprintf(f, class[0] ? "<%s class=\"%s\">" : "<%s%s>", element, class);
    mt_html_text(f, text);
    fprintf(f, "</%s>\n", element);
}

static void put_block(const struct mt_page *page, int at, FILE *f) {
    const struct mt_page_block *block = &page->blocks[at];
    bool fact_before = at && page->blocks[at - 1].what == MT_PAGE_FACT;
    bool fact_after = at + 1 < page->nblocks && page->blocks[at + 1].what == MT_PAGE_FACT;
    switch (block->what) {
    case MT_PAGE_SECTION:
        fprintf(f, "<h2 id=\"%s\">", block->id);
        mt_html_text(f, block->text);
        fputs("</h2>\n", f);
        break;
    case MT_PAGE_HEADING: put_element("h3", "", block->text, f); break;
    case MT_PAGE_SAY: put_element("p", "", block->text, f); break;
    case MT_PAGE_WARN: put_element("p", "warn", block->text, f); break;
    case MT_PAGE_FACT:
        if (!fact_before) fputs("<dl>\n", f);
        fputs("<div><dt>", f), mt_html_text(f, block->text);
        fputs("</dt><dd>", f), mt_html_text(f, block->value), fputs("</dd></div>\n", f);
        if (!fact_after) fputs("</dl>\n", f);
        break;
    case MT_PAGE_TABLE:
        if (block->pictures[0])
            put_figure(block, f);
        else
            put_table(block->table, f);
    }
}

static void put_contents(const struct mt_page *page, FILE *f) {
    if (page->section < 2) return;
    fputs("<nav aria-label=\"Contents\">\n<ul>\n", f);
    for (int i = 0; i < page->nblocks; i++) {
        if (page->blocks[i].what != MT_PAGE_SECTION) continue;
        fprintf(f, "<li><a href=\"#%s\">", page->blocks[i].id);
        mt_html_text(f, page->blocks[i].text);
        fputs("</a></li>\n", f);
    }
    fputs("</ul>\n</nav>\n", f);
}

void mt_page_write_html(const struct mt_page *page, FILE *f) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
          "<meta name=\"generator\" content=\"motley " MOTLEY_VERSION "\">\n<title>",
          f);
    mt_html_text(f, page->title);
    fprintf(f, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<header>\n<h1>", mt_page_style);
    mt_html_text(f, page->title);
    fputs("</h1>\n</header>\n", f);
    put_contents(page, f);
    fputs("<main>\n", f);
    for (int i = 0; i < page->nblocks; i++) put_block(page, i, f);
    fputs("</main>\n<footer><p>Made by motley " MOTLEY_VERSION ". Figures are those of the documents.</p></footer>\n"
          "</body>\n</html>\n",
          f);
}
