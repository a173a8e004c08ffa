/* Whether a rank is alive: by the time since its last heartbeat, and on this host also by the state of its process. */
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

/* A running process on this host may be silent this many times longer: it lacks a core. */
enum { LOCAL_PATIENCE = 6 };

void mt_watch_append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

enum process { PROCESS_GONE, PROCESS_STOPPED, PROCESS_ALIVE };

static enum process process_state(pid_t pid) {
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

static bool is_rank(const struct watch *w, pid_t pid, int world_rank) {
    char path[64], want[2][300], *line = NULL;
    size_t capacity = 0;
    int matches = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    snprintf(want[0], sizeof want[0], "PMIX_NAMESPACE=%s", w->launch.job);
    snprintf(want[1], sizeof want[1], "PMIX_RANK=%d", world_rank);
    FILE *f = fopen(path, "re");
    while (f && getdelim(&line, &capacity, 0, f) > 0) matches += !strcmp(line, want[0]) || !strcmp(line, want[1]);
    if (f) fclose(f);
    free(line);
    return matches == 2;
}

/* The state of a rank's process on this host, or of the script that will start it; GONE if none is visible. */
static enum process find_rank(const struct watch *w, int world_rank) {
    DIR *all = opendir("/proc");
    enum process found = PROCESS_GONE;
    for (struct dirent *entry; all && found != PROCESS_STOPPED && (entry = readdir(all));) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
        if (!pid || !is_rank(w, pid, world_rank)) continue;
        enum process process = process_state(pid);
        if (process != PROCESS_GONE) found = process;
    }
    if (all) closedir(all);
    return found;
}

/* Whether this process was itself suspended for long: then the others have lost it, and have ended. */
static bool was_suspended(const struct watch *w) {
    char line[1024];
    unsigned long long ticks = 0;
    struct timespec now;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t got = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[got] = 0;
    const char *at = strrchr(line, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' '); /* field 22: start time */
    if (!at || sscanf(at, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now)) return false;
    double age_s = (double)now.tv_sec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return age_s - w->awake.awake_s > w->options.heartbeat_s - 1;
}

/* Whether the launcher's name is that of this host; it may lack the domain. */
static bool is_this_host(const struct watch *w, const char *host) {
    size_t length = strcspn(host, "."), ours = strcspn(w->host, ".");
    if (host[length] && w->host[ours]) return !strncmp(host, w->host, sizeof w->host - 1);
    return length && length == ours && !strncmp(host, w->host, length);
}

/* No visible process proves nothing by itself (it may be in a container of its own). It counts when the process was
 * visible before, or the launcher is ending this job. */
enum watch_liveness mt_watch_liveness_at_start(const struct watch *w, int world_rank, double waited_s, bool *seen) {
    double start_s = w->options.start_s > 0 ? w->options.start_s : 6 + 0.1 * w->launch.nranks;
    char host[256];
    mt_launch_host(&w->launch, world_rank, host, sizeof host);
    if (is_this_host(w, host)) {
        switch (find_rank(w, world_rank)) {
        case PROCESS_GONE:
            if ((*seen || mt_signals_stopping()) && !was_suspended(w)) return WATCH_EXITED;
            break;
        case PROCESS_STOPPED: *seen = true; return waited_s > w->options.heartbeat_s ? WATCH_STOPPED : WATCH_ALIVE;
        case PROCESS_ALIVE:
            *seen = true;
            start_s *= LOCAL_PATIENCE;
            break;
        }
    }
    return waited_s > start_s ? WATCH_NOT_STARTED : WATCH_ALIVE;
}

enum watch_liveness mt_watch_liveness_of(const struct watch *w, const struct watch_message *last, double silent_s) {
    double most_s = w->options.heartbeat_s;
    if (silent_s <= most_s) return WATCH_ALIVE;
    if (strcmp(last->host, w->host)) return WATCH_SILENT;
    switch (process_state(last->pid)) {
    case PROCESS_GONE: return WATCH_EXITED;
    case PROCESS_STOPPED: return WATCH_STOPPED;
    case PROCESS_ALIVE: break;
    }
    return silent_s > most_s * LOCAL_PATIENCE ? WATCH_SILENT : WATCH_ALIVE;
}

void mt_watch_print_liveness(const struct watch *w, enum watch_liveness liveness, const struct watch_message *last,
                             double silent_s, char *text, size_t size) {
    char host[256] = "";
    if (last->host[0])
        snprintf(host, sizeof host, "%s", last->host);
    else
        mt_launch_host(&w->launch, last->world_rank, host, sizeof host);
    mt_watch_append(text, size, "rank %d%s%s ", last->host[0] ? last->rank : last->world_rank, host[0] ? " on " : "",
                    host);
    switch (liveness) {
    case WATCH_ALIVE: mt_watch_append(text, size, "was heard of %.1f s ago", silent_s); break;
    case WATCH_NOT_STARTED:
        mt_watch_append(
            text, size,
            "has not started within %.0f s of this rank: it is dead, stopped, cut off or very slow (--start-deadline "
            "allows more)",
            silent_s);
        break;
    case WATCH_EXITED: mt_watch_append(text, size, "has exited without a message: was it killed?"); break;
    case WATCH_STOPPED:
        mt_watch_append(text, size, "has not been heard of for %.0f s: its process is stopped", silent_s);
        break;
    case WATCH_SILENT:
        mt_watch_append(text, size, "has not been heard of for %.0f s: it is dead, stopped or cut off", silent_s);
        break;
    }
    mt_watch_append(text, size, "; it was last in %s", last->at[0] ? last->at : "the start");
}
