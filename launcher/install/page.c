/* Pages from the commands' tables: each command is run until it would parse its flags (mt_flags_visit), which hands
 * over its argp, and no further. */
#include "launcher/install/page.h"

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
#define MT_COMMAND(name, help) {#name, help, mt_command_##name},
#include "launcher/commands/commands.def"
#undef MT_COMMAND
    {"bench plans", "measure plans of one job against each other", mt_command_bench_plans},
    {"bench overlap", "measure GEMMs with their collectives, in sequence and overlapped", mt_command_bench_overlap},
};
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

/* The page that is being read; filled while the command's own argp lives. */
static struct {
    jmp_buf back;
    struct mt_page *page;
    struct mt_arena *arena;
} reading;

static struct mt_page_section *add_section(const char *title, int group) {
    struct mt_page *p = reading.page;
    mt_arena_grow(reading.arena, &p->sections, p->nsections, &p->capacity, sizeof *p->sections);
    struct mt_page_section *s = &p->sections[p->nsections++];
    *s =
        (struct mt_page_section){.title = mt_arena_strdup(reading.arena, title), .group = group, .place = p->nsections};
    size_t length = strlen(s->title);
    if (length && title[length - 1] == ':') s->title = mt_arena_printf(reading.arena, "%.*s", (int)length - 1, title);
    return s;
}

/* What an operand or a value is, by its placeholder. */
static enum mt_operand operand_of(const char *placeholder) {
    static const char *const files[] = {"FILE", "DIR", "PATH", "FOLDER", "RUN", "HOSTS"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(placeholder, files[i])) return MT_OPERAND_FILE;
    return MT_OPERAND_NONE;
}

static void add_flag(struct mt_page_section *s, const struct argp_option *o) {
    /* Flags whose files are documents. */
    static const char *const documents[] = {"cluster", "plan", "check", "measured", "described"};
    mt_arena_grow(reading.arena, &s->flags, s->nflags, &s->capacity, sizeof *s->flags);
    struct mt_page_flag *f = &s->flags[s->nflags++];
    *f = (struct mt_page_flag){.name = o->name, .arg = o->arg, .help = mt_arena_strdup(reading.arena, o->doc)};
    f->optional = o->flags & OPTION_ARG_OPTIONAL;
    if (isgraph(o->key)) f->letter = (char)o->key;
    if (!o->arg) return;
    f->operand = operand_of(o->arg);
    for (size_t d = 0; d < sizeof documents / sizeof *documents; d++)
        if (!strcmp(o->name, documents[d])) f->operand = MT_OPERAND_DOCUMENT;
    f->words = mt_page_words(o->name, reading.arena, &f->nwords);
    if (f->words) f->operand = MT_OPERAND_WORDS;
}

/* Options of an argp, as --help has them: a heading begins a group, and a part with a heading is one. */
static void read_options(const struct argp *argp, const char *title, int group) {
    struct mt_page_section *s = NULL;
    const struct argp_option *o = argp->options;
    for (; o && (o->name || o->key || o->doc); o++) {
        bool is_heading = !o->name && !o->key;
        if (o->flags & OPTION_HIDDEN) continue;
        if (o->group && !*title) group = o->group; /* within a part with a title, groups are its own */
        if (is_heading || !s || s->group != group) s = add_section(is_heading ? o->doc : s ? "" : title, group);
        if (!is_heading) add_flag(s, o);
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        read_options(c->argp, c->header ? c->header : "", c->header ? c->group : 0);
}

static int by_group(const void *left, const void *right) {
    const struct mt_page_section *a = left, *b = right;
    bool last_a = a->group < 0, last_b = b->group < 0;
    if (last_a != last_b) return last_a - last_b;
    return a->group != b->group ? a->group - b->group : a->place - b->place;
}

/* Words of the usage that stand for themselves, and what the others are: of "[PLAN]\ngraph PLAN --data FILE" the word
 * graph, and documents. */
static void read_operands(struct mt_page *p) {
    char *text = mt_arena_strdup(reading.arena, p->usage), *rest = text, *word;
    bool after_flag = false;
    while ((word = strsep(&rest, " \n[].|"))) {
        bool is_flag = word[0] == '-', is_value = after_flag;
        if (!*word) continue;
        after_flag = is_flag;
        if (is_flag || is_value) continue;
        if (islower((unsigned char)word[0])) {
            mt_arena_grow(reading.arena, &p->words, p->nwords, &p->words_capacity, sizeof *p->words);
            p->words[p->nwords++] = word;
        } else if (p->operand == MT_OPERAND_NONE) {
            p->operand = strcmp(word, "CHECKPOINT") ? MT_OPERAND_DOCUMENT : MT_OPERAND_FILE;
        }
    }
    if (strcmp(p->name, "help")) return;
    p->words = mt_new(reading.arena, const char *, NCOMMANDS);
    for (p->nwords = 0; p->nwords < NCOMMANDS; p->nwords++) p->words[p->nwords] = commands[p->nwords].name;
    p->operand = MT_OPERAND_NONE;
}

/* `argp` is that of all commands around the command's own, which has the texts. */
static void take_argp(const struct argp *argp, const char *command) {
    struct mt_page *p = reading.page;
    const struct argp *own = argp->children[0].argp;
    const char *doc = own->doc ? own->doc : "", *notes = strchr(doc, '\v');
    (void)command;
    p->text = mt_arena_printf(reading.arena, "%.*s", notes ? (int)(notes - doc) : (int)strlen(doc), doc);
    p->notes = mt_arena_strdup(reading.arena, notes ? notes + 1 : "");
    p->usage = mt_arena_strdup(reading.arena, own->args_doc ? own->args_doc : "");
    read_options(argp, "", 0);
    qsort(p->sections, (size_t)p->nsections, sizeof *p->sections, by_group);
    read_operands(p);
    longjmp(reading.back, 1);
}

struct mt_page *mt_pages_read(struct mt_arena *arena, int *count) {
    static struct mt_page *pages;
    static int c;
    pages = mt_new(arena, struct mt_page, NCOMMANDS);
    mt_flags_visit = take_argp;
    for (c = 0; c < NCOMMANDS; c++) {
        char *words[] = {mt_arena_printf(arena, "motley %s", commands[c].name), NULL};
        pages[c].name = commands[c].name;
        pages[c].summary = commands[c].summary;
        reading.page = &pages[c];
        reading.arena = arena;
        if (!setjmp(reading.back)) commands[c].run(1, words);
    }
    *count = NCOMMANDS;
    return pages;
}

char *mt_page_brief(const char *help, struct mt_arena *arena) {
    enum { MOST = 60 };
    const char *colon = strstr(help, ": "); /* "with --cluster: ", "show program: " */
    if (colon && (!strncmp(help, "with ", 5) || !strncmp(help, "show ", 5))) help = colon + 2;
    size_t length = strlen(help);
    static const char *const ends[] = {"; ", ": ", " [", ", as ", " ("};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        const char *end = strstr(help, ends[e]);
        if (end && end > help && (size_t)(end - help) < length) length = (size_t)(end - help);
    }
    if (length > MOST)
        for (length = MOST; length && help[length] != ' ';) length--;
    while (length && strchr(" ,;:", help[length - 1])) length--;
    return mt_arena_printf(arena, "%.*s", (int)length, help);
}

FILE *mt_page_open(const char *folder, const char *name, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    char *path = mt_arena_printf(&arena, "%s/%s", folder, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    if (!file) mt_fail_errno(err, "%s", path);
    mt_arena_release(&arena);
    return file;
}

enum mt_status mt_page_close(FILE *file, const char *name, struct mt_err *err) {
    bool failed = ferror(file);
    if (fclose(file) || failed) return mt_fail_errno(err, "%s", name);
    return MT_OK;
}
