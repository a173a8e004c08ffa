/* What has become of a rank: by its silence, and on one's own host by what the kernel says of its process. */
#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launcher/watch/signals.h"
#include "launcher/watch/internal.h"

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

static enum process look_up(pid_t pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t got = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[got] = 0;
    const char *name_end = strrchr(line, ')');
    char state;
    if (!name_end || sscanf(name_end + 1, " %c", &state) != 1 || strchr("ZXx", state)) return PROCESS_GONE;
    return strchr("Tt", state) ? PROCESS_STOPPED : PROCESS_ALIVE;
}

/* Whether a process was started as this rank of our job. */
static bool is_rank(const struct watch *w, pid_t pid, int place) {
    char path[64], want[2][300], *line = NULL;
    size_t capacity = 0;
    int matches = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    snprintf(want[0], sizeof want[0], "PMIX_NAMESPACE=%s", w->launch.job);
    snprintf(want[1], sizeof want[1], "PMIX_RANK=%d", place);
    FILE *f = fopen(path, "re");
    while (f && getdelim(&line, &capacity, 0, f) > 0) matches += !strcmp(line, want[0]) || !strcmp(line, want[1]);
    if (f) fclose(f);
    free(line);
    return matches == 2;
}

/* What has become of a rank's process on this host, or of the script that will start it; GONE when there is none to be
 * seen. */
static enum process find_rank(const struct watch *w, int place) {
    DIR *all = opendir("/proc");
    enum process found = PROCESS_GONE;
    for (struct dirent *entry; all && found != PROCESS_STOPPED && (entry = readdir(all));) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
        if (!pid || !is_rank(w, pid, place)) continue;
        enum process process = look_up(pid);
        if (process != PROCESS_GONE) found = process;
    }
    if (all) closedir(all);
    return found;
}

/* Whether this process has itself stood still for long: others may have named it, and ended for good reason. */
static bool has_slept(const struct watch *w) {
    char line[1024];
    unsigned long long ticks = 0;
    struct timespec now;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t got = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[got] = 0;
    const char *at = strrchr(line, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' '); /* 22: when it was started */
    if (!at || sscanf(at, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now)) return false;
    double age_s = (double)now.tv_sec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return age_s - w->awake.awake_s > w->options.heartbeat_s - 1;
}

double watch_start_s(const struct watch *w) {
    return w->options.start_s > 0 ? w->options.start_s : 6 + 0.1 * w->launch.nranks;
}

/* Whether the launcher means this host; it may leave out the domain. */
static bool is_here(const struct watch *w, const char *host) {
    size_t length = strcspn(host, "."), ours = strcspn(w->host, ".");
    if (host[length] && w->host[ours]) return !strncmp(host, w->host, sizeof w->host - 1);
    return length && length == ours && !strncmp(host, w->host, length);
}

/* That no process is seen is no proof (it may be in a container of its own), but it is one when the launcher ends us.
 */
enum watch_fate watch_fate_unborn(const struct watch *w, int place, double begun_s, bool *seen) {
    double start_s = watch_start_s(w);
    char host[256];
    mt_launch_host(&w->launch, place, host, sizeof host);
    if (is_here(w, host)) {
        switch (find_rank(w, place)) {
        case PROCESS_GONE:
            if ((*seen || mt_signals_stopping()) && !has_slept(w)) return WATCH_ENDED;
            break;
        case PROCESS_STOPPED: *seen = true; return begun_s > w->options.heartbeat_s ? WATCH_STOPPED : WATCH_FINE;
        case PROCESS_ALIVE:
            *seen = true;
            start_s *= PATIENCE_HERE;
            break;
        }
    }
    return begun_s > start_s ? WATCH_UNBORN : WATCH_FINE;
}

enum watch_fate watch_fate_of(const struct watch *w, const struct watch_note *last, double silent_s) {
    double most_s = w->options.heartbeat_s;
    if (silent_s <= most_s) return WATCH_FINE;
    if (strcmp(last->host, w->host)) return WATCH_SILENT;
    switch (look_up(last->pid)) {
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
        mt_launch_host(&w->launch, last->place, host, sizeof host);
    watch_add(text, size, "rank %d%s%s ", last->host[0] ? last->rank : last->place, host[0] ? " on " : "", host);
    switch (fate) {
    case WATCH_FINE: watch_add(text, size, "was heard of %.1f s ago", silent_s); break;
    case WATCH_UNBORN:
        watch_add(
            text, size,
            "has not begun within %.0f s of this rank: it is dead, stopped, cut off or very slow (--start-deadline "
            "gives it longer)",
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
