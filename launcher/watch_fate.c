/* What has become of a rank: by its silence, and on one's own host by what the kernel says of its process. */
#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/watching.h"

/* A process here that is neither stopped nor gone may be silent this many times longer: it is short of a core. */
enum { PATIENCE_HERE = 6 };

void watch_add(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

enum process { PROCESS_GONE, PROCESS_STOPPED, PROCESS_ALIVE };

/* The state of a process of this host, and its parent. */
static enum process look_up(pid_t pid, pid_t *parent) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t got = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[got] = 0;
    const char *name_end = strrchr(line, ')');
    char state;
    int ppid;
    if (!name_end || sscanf(name_end + 1, " %c %d", &state, &ppid) != 2 || strchr("ZXx", state)) return PROCESS_GONE;
    if (parent) *parent = ppid;
    return strchr("Tt", state) ? PROCESS_STOPPED : PROCESS_ALIVE;
}

/* Whether a process was started as this rank of our job. */
static bool is_rank(const struct watch *w, pid_t pid, int place) {
    char path[64], want[2][300], *line = NULL;
    size_t capacity = 0;
    int matches = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    snprintf(want[0], sizeof want[0], "PMIX_NAMESPACE=%s", w->place.job);
    snprintf(want[1], sizeof want[1], "PMIX_RANK=%d", place);
    FILE *f = fopen(path, "re");
    while (f && getdelim(&line, &capacity, 0, f) > 0) matches += !strcmp(line, want[0]) || !strcmp(line, want[1]);
    if (f) fclose(f);
    free(line);
    return matches == 2;
}

/* The process of a rank on this host, started by the same parent; 0 when there is none to be seen. */
static pid_t find_sibling(const struct watch *w, int place) {
    DIR *all = w->parent ? opendir("/proc") : NULL;
    pid_t found = 0;
    for (struct dirent *entry; all && !found && (entry = readdir(all));) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0, parent = 0;
        if (!pid || look_up(pid, &parent) == PROCESS_GONE || parent != w->parent) continue;
        if (is_rank(w, pid, place)) found = pid;
    }
    if (all) closedir(all);
    return found;
}

double watch_start_s(const struct watch *w) {
    return w->options.start_s > 0 ? w->options.start_s : 8 + 0.1 * w->place.nranks;
}

enum watch_fate watch_fate_unborn(const struct watch *w, int place, double begun_s, pid_t *sibling) {
    double start_s = watch_start_s(w);
    char host[256];
    mt_place_host(&w->place, place, host, sizeof host);
    if (!strncmp(host, w->host, sizeof w->host - 1)) {
        if (!*sibling) *sibling = find_sibling(w, place);
        enum process process = *sibling ? look_up(*sibling, NULL) : PROCESS_ALIVE;
        if (process == PROCESS_GONE) return WATCH_ENDED;
        if (process == PROCESS_STOPPED && begun_s > start_s) return WATCH_STOPPED;
        if (*sibling) start_s *= PATIENCE_HERE;
    }
    return begun_s > start_s ? WATCH_UNBORN : WATCH_FINE;
}

enum watch_fate watch_fate_of(const struct watch *w, const struct watch_note *last, double silent_s) {
    double most_s = w->options.heartbeat_s;
    if (silent_s <= most_s) return WATCH_FINE;
    if (strcmp(last->host, w->host)) return WATCH_SILENT;
    switch (look_up(last->pid, NULL)) {
    case PROCESS_GONE: return WATCH_ENDED;
    case PROCESS_STOPPED: return WATCH_STOPPED;
    case PROCESS_ALIVE: break;
    }
    return silent_s > most_s * PATIENCE_HERE ? WATCH_SILENT : WATCH_FINE;
}

void watch_tell_fate(const struct watch *w, enum watch_fate fate, const struct watch_note *last, double silent_s,
                     char *text, size_t size) {
    char host[256] = "";
    if (last->host[0])
        snprintf(host, sizeof host, "%s", last->host);
    else
        mt_place_host(&w->place, last->place, host, sizeof host);
    watch_add(text, size, "rank %d%s%s ", last->host[0] ? last->rank : last->place, host[0] ? " on " : "", host);
    switch (fate) {
    case WATCH_FINE: watch_add(text, size, "was heard of %.1f s ago", silent_s); break;
    case WATCH_UNBORN:
        watch_add(text, size, "has not begun within %.0f s of this rank: it is dead, stopped, cut off or very slow",
                  silent_s);
        break;
    case WATCH_ENDED: watch_add(text, size, "has ended without a word: was it killed?"); break;
    case WATCH_STOPPED:
        watch_add(text, size, "has not been heard of for %.0f s: its process is stopped", silent_s);
        break;
    case WATCH_SILENT:
        watch_add(text, size, "has not been heard of for %.0f s: it is dead, stopped or cut off", silent_s);
        break;
    }
    if (last->at[0])
        watch_add(text, size, "; it was last in %s", last->at);
    else
        watch_add(text, size, "; it was last in the start");
}
