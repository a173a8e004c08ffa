/* Every rank listens as rank 0 does for heartbeats, and connects to the others: to all of them in jobs of up to MOST
 * ranks, else to the ranks at distances of powers of two. A connection counts if the listener's token is received. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"
#include "launcher/session/agree.h"
#include "launcher/doctor/doctor.h"
#include "launcher/watch/launch.h"
#include "launcher/watch/watch.h"
#include "launcher/watch/socket.h"

enum { MOST = 32 };
static const double patience_s = 2, least_s = 0.5; /* for all addresses of a rank together; for each of them at least */

struct listener {
    int fd;
    uint64_t token;
    atomic_bool stop;
};

/* Answer every connection, one after another. */
static void *listen_on(void *argument) {
    struct listener *l = argument;
    while (!atomic_load(&l->stop)) {
        struct pollfd come = {.fd = l->fd, .events = POLLIN};
        poll(&come, 1, 50);
        for (struct watch_link link; (link = mt_watch_accept(l->fd)).fd >= 0; mt_watch_close(&link)) {
            struct watch_message message = {.kind = WATCH_BEAT, .token = l->token};
            mt_watch_send(&link, &message, NULL);
        }
    }
    return NULL;
}

/* Whether an address answers with the token before until_s. */
static bool answers(const struct sockaddr_storage *address, uint64_t token, double until_s) {
    struct watch_link link = mt_watch_connect(address);
    struct watch_message message;
    char text[WATCH_TEXT];
    int got = 0;
    while (link.fd >= 0 && !got && mt_now_s() < until_s) {
        struct pollfd ready = {.fd = link.fd, .events = POLLIN};
        poll(&ready, 1, 100);
        if (ready.revents) got = mt_watch_receive(&link, &message, text);
    }
    mt_watch_close(&link);
    return got > 0 && message.token == token;
}

static bool reaches(const char *line) {
    struct sockaddr_storage addresses[WATCH_ADDRESSES];
    uint64_t token;
    int n = mt_watch_read_line(line, &token, addresses, WATCH_ADDRESSES);
    for (int p = 0; p < n; p++)
        if (answers(&addresses[p], token, mt_now_s() + fmax(patience_s / n, least_s))) return true;
    return false;
}

enum mt_status mt_doctor_network(MPI_Comm comm, struct mt_doctor_rank *mine, struct mt_err *err) {
    struct listener listener = {.fd = -1};
    char line[MT_LAUNCH_LINE] = "", *lines;
    pthread_t thread;
    int rank, n;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    enum mt_status st = mt_watch_listen(&listener.fd, &listener.token, line, sizeof line, err);
    if (!st && pthread_create(&thread, NULL, listen_on, &listener)) {
        st = mt_fail(err, MT_ESYSTEM, "cannot start a thread");
        close(listener.fd);
    }
    bool listens = !st;
    if (!(st = mt_agree(comm, st, err))) {
        lines = mt_malloc((size_t)n * sizeof line);
        MPI_Allgather(line, sizeof line, MPI_CHAR, lines, sizeof line, MPI_CHAR, comm);
        for (int ahead = 1; ahead < n; ahead = n <= MOST ? ahead + 1 : 2 * ahead) {
            int to = (rank + ahead) % n;
            mt_watch_progress();
            if (reaches(lines + (size_t)to * sizeof line)) continue;
            if (mine->nunreached < MT_DOCTOR_MOST_UNREACHED) mine->unreached[mine->nunreached] = to;
            mine->nunreached++;
        }
        free(lines);
        MPI_Barrier(comm); /* others may still try to connect */
    }
    if (listens) {
        atomic_store(&listener.stop, true);
        pthread_join(thread, NULL);
        close(listener.fd);
    }
    return st;
}
