/* One reduction finds whether any rank failed; only then are the texts gathered. */
#include "launcher/session/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/base/wait.h"

enum { HOST_BYTES = 256, VALUE_BYTES = 64 };

struct report {
    int status;
    char host[HOST_BYTES], text[sizeof((struct mt_err *)0)->text], hint[sizeof((struct mt_err *)0)->hint];
};

const char *mt_agree_host(void) {
    static char host[HOST_BYTES];
    if (!host[0] && gethostname(host, sizeof host - 1)) strcpy(host, "unknown host");
    return host;
}

/* printf at the end of text[size], as far as it fits. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* ---- names of ranks ---- */

static int names_key = MPI_KEYVAL_INVALID; /* attribute of a communicator: [size] names */

static int drop_names(MPI_Comm comm, int key, void *names, void *extra) {
    (void)comm, (void)key, (void)extra;
    free(names);
    return MPI_SUCCESS;
}

void mt_agree_name_ranks(MPI_Comm comm, const int *names) {
    int n;
    if (names_key == MPI_KEYVAL_INVALID) MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop_names, &names_key, NULL);
    MPI_Comm_size(comm, &n);
    int *copy = mt_malloc((size_t)n * sizeof *copy);
    memcpy(copy, names, (size_t)n * sizeof *copy);
    MPI_Comm_set_attr(comm, names_key, copy);
}

int mt_agree_rank_name(MPI_Comm comm, int rank) {
    const int *names;
    int found = 0;
    if (names_key != MPI_KEYVAL_INVALID) MPI_Comm_get_attr(comm, names_key, &names, &found);
    return found ? names[rank] : rank;
}

/* "rank 2 on b", "ranks 0-3,5": the ranks of `comm` in `member`. */
static void name_ranks(MPI_Comm comm, const char *member, int n, const char *(*host)(const void *, int),
                       const void *context, char *text, size_t size) {
    int count = 0, only = 0, most = 0;
    bool one_host = true;
    for (int r = 0; r < n; r++) {
        int name = mt_agree_rank_name(comm, r);
        if (name > most) most = name;
        if (!member[r]) continue;
        if (count && strcmp(host(context, r), host(context, only))) one_host = false;
        if (!count++) only = r;
    }
    char *named = mt_calloc((size_t)most + 2, 1);
    for (int r = 0; r < n; r++)
        if (member[r]) named[mt_agree_rank_name(comm, r)] = 1;
    text[0] = 0;
    add(text, size, count > 1 ? "ranks " : "rank ");
    const char *comma = "";
    for (int r = 0, last; r <= most; r = last + 1) {
        last = r;
        if (!named[r]) continue;
        while (named[last + 1]) last++;
        add(text, size, last > r ? "%s%d-%d" : "%s%d", comma, r, last);
        comma = ",";
    }
    if (one_host) add(text, size, " on %s", host(context, only));
    free(named);
}

/* ---- agreement ---- */

static const char *report_host(const void *context, int rank) {
    return ((const struct report *)context)[rank].host;
}

/* Every distinct text once, with the ranks that reported it. */
static void combine(MPI_Comm comm, const struct report *reports, int n, struct mt_err *err) {
    char *reported = mt_calloc((size_t)n, 1), *member = mt_malloc((size_t)n);
    int different = 0;
    err->text[0] = err->hint[0] = 0;
    for (int r = 0; r < n; r++) {
        if (!reports[r].status || reported[r]) continue;
        int count = 0;
        memset(member, 0, (size_t)n);
        for (int q = r; q < n; q++) {
            if (!reports[q].status || strcmp(reports[q].text, reports[r].text)) continue;
            reported[q] = member[q] = 1, count++;
        }
        char who[256];
        name_ranks(comm, member, n, report_host, reports, who, sizeof who);
        if (different++) add(err->text, sizeof err->text, "\nmotley: ");
        if (count == n)
            add(err->text, sizeof err->text, "%s", reports[r].text);
        else
            add(err->text, sizeof err->text, "%s: %s", who, reports[r].text);
        if (!err->hint[0]) memcpy(err->hint, reports[r].hint, sizeof err->hint);
    }
    free(reported);
    free(member);
}

enum mt_status mt_agree(MPI_Comm comm, enum mt_status mine, struct mt_err *err) {
    int rank, n, failed = mine != MT_OK, any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm);
    if (!any) return MT_OK;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    struct report report = {.status = (int)mine};
    if (mine) {
        memcpy(report.text, err->text, sizeof report.text);
        memcpy(report.hint, err->hint, sizeof report.hint);
    }
    strcpy(report.host, mt_agree_host());
    struct report *all = rank ? NULL : mt_malloc((size_t)n * sizeof *all);
    MPI_Gather(&report, (int)sizeof report, MPI_BYTE, all, (int)sizeof report, MPI_BYTE, 0, comm);
    int status = MT_EPEER;
    if (!rank) {
        for (int r = n - 1; r >= 0; r--)
            if (all[r].status) status = all[r].status;
        combine(comm, all, n, err);
        free(all);
    } else {
        err->text[0] = err->hint[0] = 0;
    }
    MPI_Bcast(&status, 1, MPI_INT, 0, comm);
    return err->status = (enum mt_status)status;
}

enum mt_status mt_agree_rank0(MPI_Comm comm, enum mt_status mine, struct mt_err *err) {
    int status = (int)mine, rank;
    MPI_Bcast(&status, 1, MPI_INT, 0, comm);
    MPI_Comm_rank(comm, &rank);
    if (status && rank) {
        err->text[0] = err->hint[0] = 0;
        err->status = (enum mt_status)status;
    }
    return (enum mt_status)status;
}

struct claim {
    char host[HOST_BYTES], value[VALUE_BYTES];
};

static const char *claim_host(const void *context, int rank) {
    return ((const struct claim *)context)[rank].host;
}

static enum mt_status compare(MPI_Comm comm, const struct claim *claims, int n, const char *name, struct mt_err *err) {
    bool same = true;
    for (int r = 1; r < n; r++) same = same && !strcmp(claims[r].value, claims[0].value);
    if (same) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s is not the same on all ranks:", name);
    char *reported = mt_calloc((size_t)n, 1), *member = mt_malloc((size_t)n);
    const char *comma = "";
    for (int r = 0; r < n; r++) {
        if (reported[r]) continue;
        memset(member, 0, (size_t)n);
        for (int q = r; q < n; q++)
            if (!strcmp(claims[q].value, claims[r].value)) reported[q] = member[q] = 1;
        char who[256];
        name_ranks(comm, member, n, claim_host, claims, who, sizeof who);
        add(err->text, sizeof err->text, "%s %s has %s", comma, who, claims[r].value);
        comma = ",";
    }
    free(reported);
    free(member);
    return err->status;
}

/* Compare at rank 0; MT_OK elsewhere. */
static enum mt_status gather_claims(MPI_Comm comm, const char *name, const char *value, struct mt_err *err) {
    int rank, n;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    struct claim mine = {.host = {0}}, *all = rank ? NULL : mt_malloc((size_t)n * sizeof *all);
    strcpy(mine.host, mt_agree_host());
    snprintf(mine.value, sizeof mine.value, "%s", value);
    MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, 0, comm);
    enum mt_status st = rank ? MT_OK : compare(comm, all, n, name, err);
    free(all);
    return st;
}

enum mt_status mt_agree_same(MPI_Comm comm, const char *name, const char *value, struct mt_err *err) {
    return mt_agree_rank0(comm, gather_claims(comm, name, value, err), err);
}

void mt_agree_note(MPI_Comm comm, const char *name, const char *value) {
    struct mt_err note = MT_ERR_INIT;
    if (gather_claims(comm, name, value, &note)) mt_log(MT_LOG_WARN, "%s", note.text);
}

/* Polls at first, since most waits are short; then sleeps between polls, and leaves the core to others. */
enum mt_status mt_agree_wait(MPI_Request *request, double patience_s, struct mt_err *err) {
    static const double poll_s = 1e-3, sleep_s = 50e-6;
    struct mt_awake awake = {0};
    for (int done = 0;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done) return MT_OK;
        double waited_s = mt_awake_check(&awake, 1);
        if (waited_s >= patience_s)
            return mt_fail(err, MT_ESTALL, "no answer from the other ranks for %g s", patience_s);
        if (waited_s > poll_s) mt_sleep_s(sleep_s);
    }
}

void mt_agree_abort(MPI_Comm comm, const struct mt_err *err) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    fprintf(stderr, "motley: rank %d on %s: %s\n", mt_agree_rank_name(comm, rank), mt_agree_host(), err->text);
    if (err->hint[0]) fprintf(stderr, "  hint: %s\n", err->hint);
    alarm(5); /* MPI_Abort may itself wait for a peer that is gone */
    MPI_Abort(MPI_COMM_WORLD, mt_exit_code(err->status));
    _exit(mt_exit_code(err->status));
}
