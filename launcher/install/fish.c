/* Completion for fish: a line for each flag, with the command that has it as condition. */
#include "launcher/install/page.h"

#include <string.h>

static void put_quoted(FILE *file, const char *text) {
    fputc('\'', file);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') fputc('\\', file);
        fputc(*text, file);
    }
    fputc('\'', file);
}

static void put_action(FILE *file, enum mt_operand operand, const char *const *words, int nwords) {
    if (operand != MT_OPERAND_FILE) fputs(" -f", file);
    if (operand == MT_OPERAND_DOCUMENT || nwords) fputs(" -a '", file);
    for (int w = 0; w < nwords; w++) fprintf(file, "%s%s", w ? " " : "", words[w]);
    if (operand == MT_OPERAND_DOCUMENT) fprintf(file, "%s(__motley_documents)", nwords ? " " : "");
    if (operand == MT_OPERAND_DOCUMENT || nwords) fputc('\'', file);
}

static void put_flag(FILE *file, const struct mt_page *p, const struct mt_page_flag *f, struct mt_arena *arena) {
    fprintf(file, "complete -c motley -n '__motley_is \"%s\"'", p->name);
    if (f->letter) fprintf(file, " -s %c", f->letter);
    if (f->name) fprintf(file, " -l %s", f->name);
    if (f->arg) {
        if (!f->optional) fputs(" -r", file);
        put_action(file, f->operand, f->words, f->nwords);
    }
    fputs(" -d ", file);
    put_quoted(file, mt_page_brief(f->help, arena));
    fputc('\n', file);
}

static void put_command(FILE *file, const struct mt_page *p, struct mt_arena *arena) {
    if (!strchr(p->name, ' ')) {
        fprintf(file, "complete -c motley -n '__motley_is \"\"' -f -a %s -d ", p->name);
        put_quoted(file, p->summary);
        fputc('\n', file);
    }
    for (int s = 0; s < p->nsections; s++)
        for (int f = 0; f < p->sections[s].nflags; f++) put_flag(file, p, &p->sections[s].flags[f], arena);
    fprintf(file, "complete -c motley -n '__motley_is \"%s\"'", p->name);
    put_action(file, p->operand, p->words, p->nwords);
    fputc('\n', file);
}

enum mt_status mt_write_fish(const struct mt_page *pages, int count, const char *date, const char *folder,
                             struct mt_err *err) {
    static const char name[] = "fish/vendor_completions.d/motley.fish";
    struct mt_arena arena = MT_ARENA_INIT;
    FILE *file = mt_page_open(folder, name, err);
    (void)date;
    if (!file) return err->status;
    fputs("# Completion of motley for fish. Made from the program's tables of commands and flags by motley_pages.\n\n"
          "function __motley_documents\n    set -l typed (commandline -ct | string replace -r '^--[^=]*=' '')\n"
          "    set -l found $typed*.json $typed*/\n    printf '%s\\n' $found\nend\n\n"
          "# Whether the command that has been typed is this one; \"\" for none yet.\nfunction __motley_is\n"
          "    set -l words (commandline -opc)\n    set -l command \"$words[2]\"\n",
          file);
    for (int p = 0; p < count; p++)
        if (strchr(pages[p].name, ' '))
            fprintf(file, "    test \"$words[2] $words[3]\" = '%s'; and set command '%s'\n", pages[p].name,
                    pages[p].name);
    fputs("    test \"$command\" = \"$argv[1]\"\nend\n\n"
          "complete -c motley -n '__motley_is \"\"' -f -s h -l help -d 'list the commands'\n"
          "complete -c motley -n '__motley_is \"\"' -f -s V -l version -d 'print the version'\n",
          file);
    for (int p = 0; p < count; p++) put_command(file, &pages[p], &arena);
    mt_arena_release(&arena);
    return mt_page_close(file, name, err);
}
