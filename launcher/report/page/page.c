/* Building pages. */
#include "launcher/report/page/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/printed.h"

void mt_page_init(struct mt_page *page, const char *title, bool pictures) {
    *page = (struct mt_page){.pictures = pictures};
    page->title = mt_arena_strdup(&page->arena, title);
}

void mt_page_release(struct mt_page *page) {
    mt_tables_release(&page->tables);
    mt_arena_release(&page->arena);
    *page = (struct mt_page){0};
}

static struct mt_page_block *add(struct mt_page *page, enum mt_block_what what) {
    mt_arena_grow(&page->arena, &page->blocks, page->nblocks, &page->capacity, sizeof *page->blocks);
    struct mt_page_block *block = &page->blocks[page->nblocks++];
    *block = (struct mt_page_block){.what = what};
    return block;
}

/* The lines of other formats have the marks of Markdown. */
#define ADD_TEXT(page, kind, mark)                                                                                     \
    va_list args;                                                                                                      \
    va_start(args, format);                                                                                            \
    const char *text = mt_arena_vprintf(&(page)->arena, format, args);                                                 \
    va_end(args);                                                                                                      \
    struct mt_page_block *block = add(page, kind);                                                                     \
    block->text = text;                                                                                                \
    mt_tables_say(&(page)->tables, "%s%s", mark, text)

void mt_page_section(struct mt_page *page, const char *format, ...) {
    ADD_TEXT(page, MT_PAGE_SECTION, "");
    block->id = mt_arena_printf(&page->arena, "s%d", ++page->section);
}

void mt_page_heading(struct mt_page *page, const char *format, ...) {
    ADD_TEXT(page, MT_PAGE_HEADING, "");
}

void mt_page_say(struct mt_page *page, const char *format, ...) {
    ADD_TEXT(page, MT_PAGE_SAY, "");
}

void mt_page_warn(struct mt_page *page, const char *format, ...) {
    ADD_TEXT(page, MT_PAGE_WARN, "");
}

void mt_page_fact(struct mt_page *page, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *value = mt_arena_vprintf(&page->arena, format, args);
    va_end(args);
    struct mt_page_block *block = add(page, MT_PAGE_FACT);
    block->text = mt_arena_strdup(&page->arena, name);
    block->value = value;
    mt_tables_say(&page->tables, "%s: %s", name, value);
}

struct mt_table *mt_page_table(struct mt_page *page, const char *name, const char *title, const char *note) {
    struct mt_page_block *block = add(page, MT_PAGE_TABLE);
    const char *unique = page->section > 1 ? mt_arena_printf(&page->arena, "%s-%d", name, page->section) : name;
    block->table = mt_tables_add(&page->tables, unique, title, note);
    return block->table;
}

void mt_page_picture(struct mt_page *page, const char *title, const char *description, mt_picture_draw *draw,
                     const void *data) {
    static const double widths[2] = {MT_PAGE_WIDE, MT_PAGE_NARROW};
    static const char *const names[2] = {"wide", "narrow"};
    struct mt_page_block *block = &page->blocks[page->nblocks - 1];
    if (!page->pictures) return;
    for (int i = 0; i < 2; i++) {
        struct mt_printed printed;
        struct mt_svg svg = {.file = mt_printed_begin(&printed),
                             .id = mt_arena_printf(&page->arena, "%s-%s", block->table->name, names[i]),
                             .title = title,
                             .description = description,
                             .width = widths[i]};
        draw(data, &svg);
        char *text = mt_printed_end(&printed);
        block->pictures[i] = mt_arena_strdup(&page->arena, text);
        free(text);
    }
}

const char *mt_page_quantity(struct mt_page *page, enum mt_unit unit, double value) {
    char text[MT_UNIT_TEXT_BYTES];
    double size = value < 0 ? -value : value;
    return mt_arena_strdup(&page->arena, mt_unit_text(unit, mt_unit_prefix(unit, size, size), -1, value, text));
}
