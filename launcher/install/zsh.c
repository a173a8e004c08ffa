/* Completion for zsh: a specification of _arguments for each command. */
#include "launcher/install/page.h"

#include <string.h>

/* In single quotes, within which brackets and colons are escaped for _arguments. */
static void put_quoted(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", file);
        else if (strchr("[]:\\", *text))
            fprintf(file, "\\%c", *text);
        else
            fputc(*text, file);
    }
}

static void put_action(FILE *file, enum mt_operand operand, const char *const *words, int nwords) {
    static const char *const actions[] = {" ", "_files", "_motley_documents", ""};
    bool both = nwords && (operand == MT_OPERAND_FILE || operand == MT_OPERAND_DOCUMENT);
    if (nwords) fputs(both ? "{compadd --" : "(", file);
    for (int w = 0; w < nwords; w++) {
        if (both || w) fputc(' ', file);
        put_quoted(file, words[w]);
    }
    if (both) fprintf(file, "; %s}", actions[operand]);
    if (nwords && !both) fputc(')', file);
    if (!nwords) fputs(actions[operand], file);
}

static void put_flag(FILE *file, const struct mt_page_flag *f, struct mt_arena *arena) {
    for (int form = 0; form < 2; form++) { /* short, long */
        if (form ? !f->name : !f->letter) continue;
        fputs("            '*", file);
        if (form)
            fprintf(file, "--%s%s", f->name, !f->arg ? "" : f->optional ? "=-" : "=");
        else
            fprintf(file, "-%c", f->letter);
        fputc('[', file);
        put_quoted(file, mt_page_brief(f->help, arena));
        fputc(']', file);
        if (f->arg) {
            fputs(f->optional ? "::" : ":", file);
            put_quoted(file, f->arg);
            fputc(':', file);
            put_action(file, f->operand, f->words, f->nwords);
        }
        fputs("' \\\n", file);
    }
}

static void put_command(FILE *file, const struct mt_page *p, struct mt_arena *arena) {
    fprintf(file, "    '%s')\n        _arguments \\\n", p->name);
    for (int s = 0; s < p->nsections; s++)
        for (int f = 0; f < p->sections[s].nflags; f++) put_flag(file, &p->sections[s].flags[f], arena);
    fputs("            '*:operand:", file);
    put_action(file, p->operand, p->words, p->nwords);
    fputs("'\n        ;;\n", file);
}

enum mt_status mt_write_zsh(const struct mt_page *pages, int count, const char *date, const char *folder,
                            struct mt_err *err) {
    static const char name[] = "zsh/site-functions/_motley";
    struct mt_arena arena = MT_ARENA_INIT;
    FILE *file = mt_page_open(folder, name, err);
    (void)date;
    if (!file) return err->status;
    fputs(
        "#compdef motley\n# Completion of motley for zsh. Made from the program's tables of commands and flags by "
        "motley_pages.\n\n_motley_documents() {\n    _files -g '*.json(-.)'\n}\n\n_motley() {\n    local -a commands\n"
        "    commands=(\n",
        file);
    for (int p = 0; p < count; p++) {
        if (strchr(pages[p].name, ' ')) continue;
        fprintf(file, "        '%s:", pages[p].name);
        put_quoted(file, pages[p].summary);
        fputs("'\n", file);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        _arguments "
          "'(-)'{-h,--help}"
          "'[list the commands]' '(-)'{-V,--version}'[print the version]'\n        return\n    fi\n"
          "    local command=$words[2] shifted=1\n",
          file);
    for (int p = 0; p < count; p++)
        if (strchr(pages[p].name, ' '))
            fprintf(file, "    [[ \"$words[2] $words[3]\" == '%s' ]] && (( CURRENT > 3 )) && command='%s' shifted=2\n",
                    pages[p].name, pages[p].name);
    fputs("    shift $shifted words\n    (( CURRENT -= shifted ))\n    case $command in\n", file);
    for (int p = 0; p < count; p++) put_command(file, &pages[p], &arena);
    fputs("    esac\n}\n\n_motley \"$@\"\n", file);
    mt_arena_release(&arena);
    return mt_page_close(file, name, err);
}
