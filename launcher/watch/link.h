/* The wire of the watch: notes over TCP. Private to watch*.c and to `motley doctor`, which tries the same way.
 *
 * Notes are the structure itself: all ranks run one version on machines of one byte order, which the magic number
 * tells. Nothing here blocks. */
#ifndef MT_LAUNCHER_WATCH_LINK_H
#define MT_LAUNCHER_WATCH_LINK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

enum { WATCH_TEXT = 2048, WATCH_PLACES = 24 };
enum watch_kind { WATCH_HELLO = 1, WATCH_BEAT, WATCH_LEAVE, WATCH_FAIL, WATCH_END };

struct watch_note {
    uint64_t magic, token;
    int32_t kind;
    int32_t place;      /* in MPI_COMM_WORLD */
    int32_t rank;       /* what messages call it */
    int32_t pid, code;  /* code: of FAIL and END, the exit code */
    int32_t waits;      /* for other ranks, inside a phase */
    int32_t text_bytes; /* what follows the note */
    int32_t unused;
    uint64_t progress;
    double patience_s;
    char host[64], at[264];
};

struct watch_link {
    int fd; /* -1: none */
    size_t have;
    char buffer[sizeof(struct watch_note) + WATCH_TEXT];
};

/* Listen on a port that the system chooses. `line`: the token, the port and this host's addresses, for others. */
enum mt_status watch_listen(int *fd, uint64_t *token, char *line, size_t size, struct mt_err *err);
/* A connection that has come, or fd -1. */
struct watch_link watch_accept(int listening);

/* What a line says: addresses on networks of this host first. Returns how many. */
int watch_read_line(const char *line, uint64_t *token, struct sockaddr_storage *places, int most);
void watch_print_place(const struct sockaddr_storage *place, char *text, size_t size); /* "10.0.0.1 port 4242" */
/* Begin to connect; fd -1 when that is refused at once. */
struct watch_link watch_connect(const struct sockaddr_storage *place);

/* False when the link is of no more use. What does not fit now (the peer reads nothing) is left out. */
bool watch_send(struct watch_link *link, struct watch_note *note, const char *text);
/* 1: a note, its text (terminated) in `text`; 0: none yet; -1: the link has ended. */
int watch_receive(struct watch_link *link, struct watch_note *note, char text[WATCH_TEXT]);
void watch_close(struct watch_link *link);

#endif
