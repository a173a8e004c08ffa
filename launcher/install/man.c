/* The manual, in mdoc: motley(1), and motley-COMMAND(1) for each command. */
#include <ctype.h>
#include <string.h>

#include "launcher/install/page.h"

enum { MOST_COLUMNS = 78 };

static const struct {
    const char *name, *text;
} variables[] = {
#define MT_VARIABLE(name, text) {#name, text},
#include "launcher/install/environment.def"
#undef MT_VARIABLE
};

static const struct {
    int code;
    const char *meaning;
} exits[] = {
#define MT_EXIT(NAME, code, meaning) {code, meaning},
#include "kernels/base/exits.def"
#undef MT_EXIT
};

/* A word, with what roff would take for its own escaped; `bold` is switched by backquotes. */
static int put_word(FILE *file, const char *word, size_t length, bool *bold) {
    for (size_t i = 0; i < length; i++) {
        if (word[i] == '`')
            fputs((*bold = !*bold) ? "\\fB" : "\\fR", file);
        else if (word[i] == '\\')
            fputs("\\e", file);
        else if (word[i] == '-' && (*bold || (i + 1 < length && word[i + 1] == '-') || (i && word[i - 1] == '-')))
            fputs("\\-", file);
        else
            fputc(word[i], file);
    }
    return (int)length;
}

/* Text as lines of at most MOST_COLUMNS; empty lines are paragraphs; a sentence ends a line. */
static void put_text(FILE *file, const char *text) {
    bool bold = false;
    int column = 0;
    while (*text) {
        size_t newlines = strspn(text, "\n"), length;
        if (newlines > 1) fputs(column ? "\n.Pp\n" : ".Pp\n", file), column = 0;
        text += strspn(text, " \n");
        if (!(length = strcspn(text, " \n"))) break;
        if (column && column + 1 + (int)length > MOST_COLUMNS) fputc('\n', file), column = 0;
        if (column) fputc(' ', file), column++;
        if (!column && strchr(".'", text[0])) fputs("\\&", file);
        column += put_word(file, text, length, &bold);
        bool ends = length > 1 && strchr(".:;", text[length - 1]) && text[length - 1] == '.';
        text += length;
        if (ends && *text) fputc('\n', file), column = 0;
    }
    if (bold) fputs("\\fR", file);
    if (column) fputc('\n', file);
}

static void put_flag(FILE *file, const struct mt_page_flag *f) {
    fputs(".It", file);
    if (f->letter) fprintf(file, " Fl %c%s", f->letter, f->name ? " ," : "");
    if (f->name) fprintf(file, " Fl -%s", f->name);
    if (f->name && f->arg) fputs(f->optional ? " Ns Oo =" : " Ns =", file);
    if (f->arg) fprintf(file, " Ns Ar \"\\&%s\"%s", f->arg, f->name && f->optional ? " Ns Oc" : "");
    fputc('\n', file);
    put_text(file, f->help);
    if (f->operand != MT_OPERAND_WORDS || strstr(f->help, f->words[f->nwords - 1])) return;
    fputs(".Pp\nOne of\n", file);
    for (int w = 0; w < f->nwords; w++) fprintf(file, ".Cm \\&%s%s\n", f->words[w], w + 1 < f->nwords ? " ," : " .");
}

static void put_flags(FILE *file, const struct mt_page *p) {
    bool open = false;
    fputs(".Sh OPTIONS\n", file);
    for (int s = 0; s < p->nsections; s++) {
        const struct mt_page_section *section = &p->sections[s];
        if (!section->nflags) continue;
        if (open && section->title[0]) fputs(".El\n", file);
        if (section->title[0]) fprintf(file, ".Ss %s\n", section->title);
        if (!open || section->title[0]) fputs(".Bl -tag -width Ds\n", file);
        open = true;
        for (int f = 0; f < section->nflags; f++) put_flag(file, &section->flags[f]);
    }
    if (open) fputs(".El\n", file);
}

/* "bench plans": "bench-plans". */
static char *hyphened(const char *name, struct mt_arena *arena) {
    char *text = mt_arena_strdup(arena, name);
    for (char *c = text; *c; c++) *c = *c == ' ' ? '-' : *c;
    return text;
}

static void put_head(FILE *file, const char *title, const char *date, const char *summary) {
    int year = 0, month = 0, day = 0;
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    fputs(".\\\" Made from the program's tables of commands and flags by motley_pages.\n", file);
    if (sscanf(date, "%d-%d-%d", &year, &month, &day) == 3 && month >= 1 && month <= 12)
        fprintf(file, ".Dd %s %d, %d\n", months[month - 1], day, year);
    fputs(".Dt ", file);
    for (const char *c = title; *c; c++) fputc(toupper((unsigned char)*c), file);
    fprintf(file, " 1\n.Os\n.Sh NAME\n.Nm %s\n.Nd ", title);
    fputs(summary, file);
    fputc('\n', file);
}

static void put_usage(FILE *file, const struct mt_page *p) {
    const char *form = p->usage;
    fputs(".Sh SYNOPSIS\n", file);
    do {
        int length = (int)strcspn(form, "\n");
        fprintf(file, ".Nm motley %s\n.Op Ar FLAG ...\n", p->name);
        if (length) fprintf(file, "%s%.*s\n", strchr(".'", form[0]) ? "\\&" : "", length, form);
        form += length;
    } while (*form++);
}

static enum mt_status write_command(const struct mt_page *p, const char *date, const char *folder, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *title = mt_arena_printf(&arena, "motley-%s", hyphened(p->name, &arena));
    const char *name = mt_arena_printf(&arena, "man/man1/%s.1", title);
    FILE *file = mt_page_open(folder, name, err);
    if (file) {
        put_head(file, title, date, p->summary);
        put_usage(file, p);
        fputs(".Sh DESCRIPTION\n", file);
        put_text(file, p->text);
        if (p->notes[0]) fputs(".Pp\n", file);
        put_text(file, p->notes);
        put_flags(file, p);
        fputs(".Sh EXIT STATUS\n.Xr motley 1\nhas the table of exit codes, which is that of all commands.\n"
              ".Sh SEE ALSO\n.Xr motley 1\n",
              file);
        mt_page_close(file, name, err);
    }
    mt_arena_release(&arena);
    return err->status;
}

static void put_exits(FILE *file) {
    enum { NEXITS = sizeof exits / sizeof *exits };
    fputs(".Sh EXIT STATUS\nUnder\n.Xr mpirun 1 ,\nwhich passes on the code of the first process that ended badly, a "
          "rank "
          "that a\nsignal has killed counts 128 and the signal's number.\n.Bl -tag -width Ds\n",
          file);
    for (int e = 0; e < NEXITS; e++) {
        bool again = e && exits[e].code == exits[e - 1].code;
        if (again)
            fputs(".Pp\n", file);
        else
            fprintf(file, ".It %d\n", exits[e].code);
        put_text(file, exits[e].meaning);
    }
    fputs(".El\n", file);
}

static enum mt_status write_whole(const struct mt_page *pages, int count, const char *date, const char *folder,
                                  struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    FILE *file = mt_page_open(folder, "man/man1/motley.1", err);
    if (!file) return err->status;
    put_head(file, "motley", date, "train one model on unequal devices, by a plan that people can review");
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar COMMAND\n.Op Ar FLAG ...\n.Sh DESCRIPTION\n.Nm\n", file);
    put_text(file,
             "measures a cluster of unequal devices, solves for how much of each tensor every device holds and "
             "which collectives move the rest, writes the result as a plan that a person can review, proves the "
             "plan, and runs it under mpirun.\n\nTo train: `motley profile` and `motley train` under mpirun, "
             "`motley plan` between them. To review: `motley show`, `explain`, `verify` and `diff` of a plan, and "
             "`motley plan --check` of an edited one. To buy: `motley buy` within a budget, and `motley whatif` "
             "of a cluster, measured or described in a line of text.\n\nThe commands are:");
    fputs(".Bl -tag -width Ds\n", file);
    for (int p = 0; p < count; p++) {
        fprintf(file, ".It Xr motley-%s 1\n", hyphened(pages[p].name, &arena));
        put_text(file, pages[p].summary);
    }
    fputs(".El\n.Sh ENVIRONMENT\n.Bl -tag -width Ds\n", file);
    for (size_t v = 0; v < sizeof variables / sizeof *variables; v++) {
        fprintf(file, ".It Ev %s\n", variables[v].name);
        put_text(file, variables[v].text);
    }
    fputs(".El\n", file);
    put_exits(file);
    fputs(".Sh SEE ALSO\n.Xr mpirun 1\n", file);
    mt_arena_release(&arena);
    return mt_page_close(file, "man/man1/motley.1", err);
}

enum mt_status mt_write_man(const struct mt_page *pages, int count, const char *date, const char *folder,
                            struct mt_err *err) {
    enum mt_status st = write_whole(pages, count, date, folder, err);
    for (int p = 0; p < count && !st; p++) st = write_command(&pages[p], date, folder, err);
    return st;
}
