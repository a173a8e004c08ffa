/* Completion for bash: one function; tables of each command's flags and values are its `case`s. The line is read as the
 * user typed it, since bash divides words at ":" and "=" too. */
#include <string.h>

#include "launcher/install/page.h"

static const char head[] =
    "# Completion of motley for bash. Made from the program's tables of commands and flags by motley_pages.\n"
    "\n"
    "# Replies that begin with $1: the words after it, documents (*.json and folders), or files.\n"
    "_motley_reply() {\n"
    "    local typed=$1 kind=$2 words=$3 before reply\n"
    "    case $kind in\n"
    "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$typed\") ;;\n"
    "    document)\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$typed\"; compgen -f -X '!*.json' -- \"$typed\";\n"
    "            compgen -d -S / -- \"$typed\")\n"
    "        ;;\n"
    "    file) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$typed\"; compgen -f -- \"$typed\") ;;\n"
    "    esac\n"
    "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null\n"
    "    before=${typed%\"${typed##*[:=]}\"} # what bash has divided off\n"
    "    for reply in \"${!COMPREPLY[@]}\"; do COMPREPLY[reply]=${COMPREPLY[reply]#\"$before\"}; done\n"
    "}\n"
    "\n"
    "_motley() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} current='' command='' flag='' flags='' kind='' words=''\n"
    "    local -a typed\n"
    "    COMPREPLY=()\n"
    "    read -ra typed <<<\"$line\"\n"
    "    if [[ $line != *[[:space:]] ]]; then\n"
    "        current=${typed[-1]}\n"
    "        unset 'typed[-1]'\n"
    "    fi\n"
    "    if [ ${#typed[@]} -le 1 ]; then\n";

static const char middle[] = "    flag=${typed[-1]}\n"
                             "    if [[ $current == --*=* ]]; then\n"
                             "        flag=${current%%=*}=\n"
                             "    fi\n";

static void put_words(FILE *file, const char *const *words, int count) {
    for (int w = 0; w < count; w++) fprintf(file, "%s%s", w ? " " : "", words[w]);
}

static const char *kind_of(enum mt_operand operand) {
    static const char *const kinds[] = {"none", "file", "document", "words"};
    return kinds[operand];
}

/* A value that may be left out is never the next word. */
static void put_value(FILE *file, const struct mt_page *p, const struct mt_page_flag *f) {
    if (!f->arg || (f->optional && !f->name)) return;
    fprintf(file, "    ");
    if (f->letter && !f->optional) fprintf(file, "\"%s -%c\"%s", p->name, f->letter, f->name ? " | " : "");
    if (f->name && !f->optional) fprintf(file, "\"%s --%s\" | ", p->name, f->name);
    if (f->name) fprintf(file, "\"%s --%s=\"", p->name, f->name);
    fprintf(file, ") kind=%s words='", kind_of(f->operand));
    put_words(file, f->words, f->nwords);
    fprintf(file, "' ;;\n");
}

static void put_flags(FILE *file, const struct mt_page *p) {
    fprintf(file, "    \"%s\")\n        flags='", p->name);
    for (int s = 0, n = 0; s < p->nsections; s++)
        for (int f = 0; f < p->sections[s].nflags; f++)
            if (p->sections[s].flags[f].name) fprintf(file, "%s--%s", n++ ? " " : "", p->sections[s].flags[f].name);
    fprintf(file, "'\n        kind=%s words='",
            p->operand == MT_OPERAND_NONE && p->nwords ? "words" : kind_of(p->operand));
    put_words(file, p->words, p->nwords);
    fprintf(file, "'\n        ;;\n");
}

enum mt_status mt_write_bash(const struct mt_page *pages, int count, const char *date, const char *folder,
                             struct mt_err *err) {
    static const char name[] = "bash-completion/completions/motley";
    FILE *file = mt_page_open(folder, name, err);
    (void)date;
    if (!file) return err->status;
    fputs(head, file);
    fputs("        _motley_reply \"$current\" words '--help --version", file);
    for (int p = 0; p < count; p++)
        if (!strchr(pages[p].name, ' ')) fprintf(file, " %s", pages[p].name);
    fputs("'\n        return\n    fi\n    command=${typed[1]}\n", file);
    for (int p = 0; p < count; p++)
        if (strchr(pages[p].name, ' '))
            fprintf(file, "    [[ \"${typed[1]} ${typed[2]-}\" == '%s' ]] && command='%s'\n", pages[p].name,
                    pages[p].name);
    fputs(middle, file);
    fputs("    case \"$command $flag\" in\n", file);
    for (int p = 0; p < count; p++)
        for (int s = 0; s < pages[p].nsections; s++)
            for (int f = 0; f < pages[p].sections[s].nflags; f++)
                put_value(file, &pages[p], &pages[p].sections[s].flags[f]);
    fputs("    esac\n    if [ -n \"$kind\" ]; then\n        [[ $current == --*=* ]] && current=${current#*=}\n"
          "        _motley_reply \"$current\" \"$kind\" \"$words\"\n        return\n    fi\n    case $command in\n",
          file);
    for (int p = 0; p < count; p++) put_flags(file, &pages[p]);
    fputs("    esac\n    [[ $current == -* ]] && kind=words words=$flags\n"
          "    _motley_reply \"$current\" \"$kind\" \"$words\"\n}\ncomplete -o filenames -F _motley motley\n",
          file);
    return mt_page_close(file, name, err);
}
