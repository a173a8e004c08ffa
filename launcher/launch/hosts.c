/* Reading a hostfile. What mpirun also knows, and would be lost here, is refused by name. */
#include "launcher/launch/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text/units.h"
#include "planner/plan/plan.h"

struct line {
    const char *file, *at;
    int number;
    struct mt_arena *arena;
    struct mt_err *err;
};

/* The next word of the line: blanks, '=' and comments end it; "=" is a word. Null at the end. */
static const char *next_word(struct line *l) {
    l->at += strspn(l->at, " \t\r");
    size_t length = *l->at == '=' ? 1 : strcspn(l->at, " \t\r=#\n");
    const char *word = length ? mt_arena_printf(l->arena, "%.*s", (int)length, l->at) : NULL;
    l->at += length;
    return word;
}

static enum mt_status take_setting(struct line *l, const char *key, int *slots) {
    static const char *const counts[] = {"slots", "max_slots", "max-slots"};
    int64_t value;
    const char *equals = next_word(l), *text = equals && !strcmp(equals, "=") ? next_word(l) : NULL;
    bool known = false;
    for (int i = 0; i < 3; i++) known |= !strcmp(key, counts[i]);
    if (!known) {
        mt_fail(l->err, MT_EINPUT, "%s: line %d: \"%.60s\" is not understood", l->file, l->number, key);
        return mt_err_hint(l->err, "a line is: HOST [slots=N] [max_slots=N]; how to log in belongs into ~/.ssh/config");
    }
    if (!text || !mt_units_parse_int(text, &value) || value < 1 || value > MT_HOSTS_MOST_SLOTS)
        return mt_fail(l->err, MT_EINPUT, "%s: line %d: %s must be a number from 1 to %d", l->file, l->number, key,
                       MT_HOSTS_MOST_SLOTS);
    if (!strcmp(key, "slots") || !*slots) *slots = (int)value;
    return MT_OK;
}

/* What mpirun, ssh and a shell take for one word, and no flag. mpirun's HOST:SLOTS has no room for an address of IPv6.
 */
static bool is_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    return *name != '-' && !name[strspn(name, letters)];
}

static enum mt_status take_line(struct line *l, struct mt_hosts *hosts) {
    const char *name = next_word(l), *key;
    int slots = 0;
    enum mt_status st = MT_OK;
    if (!name) return MT_OK;
    if (!is_name(name)) {
        mt_fail(l->err, MT_EINPUT, "%s: line %d: \"%.60s\" is no name of a host", l->file, l->number, name);
        return mt_err_hint(l->err,
                           "a name has letters, digits, '.', '-' and '_'; how to log in, and addresses of IPv6, "
                           "belong into ~/.ssh/config and /etc/hosts");
    }
    while (!st && (key = next_word(l))) st = take_setting(l, key, &slots);
    if (st) return st;
    int h = 0;
    while (h < hosts->n && strcmp(hosts->hosts[h].name, name)) h++;
    if (h == MT_HOSTS_MOST) return mt_fail(l->err, MT_EINPUT, "%s: names more than %d hosts", l->file, MT_HOSTS_MOST);
    if (h == hosts->n) {
        mt_arena_grow(l->arena, &hosts->hosts, hosts->n, &hosts->capacity, sizeof *hosts->hosts);
        hosts->hosts[hosts->n++] = (struct mt_host){.name = name, .says = name, .why = ""};
    }
    struct mt_host *host = &hosts->hosts[h];
    host->slots += slots;
    host->listed += !slots;
    if (host->slots > MT_HOSTS_MOST_SLOTS)
        return mt_fail(l->err, MT_EINPUT, "%s: line %d: %s has more than %d slots", l->file, l->number, name,
                       MT_HOSTS_MOST_SLOTS);
    return MT_OK;
}

enum mt_status mt_hosts_parse(const char *name, const char *text, struct mt_arena *arena, struct mt_hosts *hosts,
                              struct mt_err *err) {
    *hosts = (struct mt_hosts){.arena = arena};
    struct line line = {.file = name, .at = text, .number = 1, .arena = arena, .err = err};
    while (*line.at) {
        enum mt_status st = take_line(&line, hosts);
        if (st) return st;
        line.at += strcspn(line.at, "\n");
        line.at += *line.at == '\n';
        line.number++;
    }
    for (int h = 0; h < hosts->n; h++) {
        struct mt_host *host = &hosts->hosts[h];
        if (host->slots || host->listed > 1) host->slots += host->listed; /* a slot a line */
    }
    if (hosts->n) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: names no host", name);
    return mt_err_hint(err, "one host a line, as \"node1 slots=4\"");
}

enum mt_status mt_hosts_read(const char *path, struct mt_arena *arena, struct mt_hosts *hosts, struct mt_err *err) {
    enum { MOST_BYTES = 1 << 24 };
    char *text;
    size_t length;
    enum mt_status st = mt_file_read(path, MOST_BYTES, &text, &length, err);
    if (st) return mt_err_hint(err, "a hostfile has a line for each host, as \"node1 slots=4\"");
    if (strlen(text) != length)
        st = mt_fail(err, MT_EINPUT, "%s: is no hostfile: it has a byte 0", path);
    else
        st = mt_hosts_parse(path, text, arena, hosts, err);
    free(text);
    return st;
}

bool mt_hosts_is_here(const char *name) {
    char here[256] = "";
    if (!strcmp(name, "localhost") || !strcmp(name, "127.0.0.1")) return true;
    return !gethostname(here, sizeof here - 1) && mt_plan_same_host(here, name);
}

int mt_hosts_find(const struct mt_hosts *hosts, const char *name) {
    for (int h = 0; h < hosts->n; h++)
        if (mt_plan_same_host(hosts->hosts[h].says, name) || mt_plan_same_host(hosts->hosts[h].name, name)) return h;
    return -1;
}
