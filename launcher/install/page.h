/* What the manual and the completions say of a command, taken from the tables by which it reads its flags.
 *
 *     int n;
 *     struct mt_page *pages = mt_pages_read(&arena, &n);
 *     mt_man_write(pages, n, "2026-11-23", folder, &err);
 *
 * launcher/install/ is the program motley_pages, which runs when Motley is built; the writers are rows of writers.def.
 */
#ifndef MT_LAUNCHER_INSTALL_PAGE_H
#define MT_LAUNCHER_INSTALL_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

enum mt_operand {
    MT_OPERAND_NONE, /* nothing that can be completed: a number, a text */
    MT_OPERAND_FILE,
    MT_OPERAND_DOCUMENT, /* a *.json, or a run's folder */
    MT_OPERAND_WORDS,
};

struct mt_page_flag {
    const char *name; /* without dashes, or null */
    char letter;      /* or 0 */
    const char *arg;  /* as "FILE"; null: it takes no value */
    bool optional;    /* the value */
    const char *help;
    enum mt_operand operand;
    int nwords; /* with MT_OPERAND_WORDS */
    const char **words;
};

struct mt_page_section {
    const char *title; /* "" for flags without one */
    int group, place;  /* sections are in this order; those with a negative group come last */
    int nflags, capacity;
    struct mt_page_flag *flags;
};

struct mt_page {
    const char *name;    /* "plan", "bench plans" */
    const char *summary; /* of commands.def */
    const char *usage;   /* what follows the flags; forms separated by newlines; "" for none */
    const char *text;    /* what the command does */
    const char *notes;   /* what is said after the flags, or "" */
    int nsections, capacity;
    struct mt_page_section *sections;
    enum mt_operand operand; /* what stands without a flag */
    int nwords, words_capacity;
    const char **words; /* words that may stand there as well, as "graph" */
};

/* All commands, in the order of commands.def. */
struct mt_page *mt_pages_read(struct mt_arena *arena, int *count);

/* The words that a flag's value may be, or null. */
const char **mt_page_words(const char *flag, struct mt_arena *arena, int *count);

/* A flag's help up to its first clause, for the lists of shells; in `arena`. */
char *mt_page_brief(const char *help, struct mt_arena *arena);

/* Write a file in `folder`, which is made; the writers. */
FILE *mt_page_open(const char *folder, const char *name, struct mt_err *err);
enum mt_status mt_page_close(FILE *file, const char *name, struct mt_err *err);
#define MT_WRITER(name)                                                                                                \
    enum mt_status mt_write_##name(const struct mt_page *pages, int count, const char *date, const char *folder,       \
                                   struct mt_err *err);
#include "launcher/install/writers.def"
#undef MT_WRITER

#endif
