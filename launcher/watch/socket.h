/* The transport of the watch: messages over TCP. For the watch, and for `motley doctor`, which tests the same network.
 *
 * A message is the structure itself: all ranks run one version on machines of one byte order, which the magic number
 * checks. Nothing here blocks. */
#ifndef MT_LAUNCHER_WATCH_SOCKET_H
#define MT_LAUNCHER_WATCH_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

enum { WATCH_TEXT = 2048, WATCH_ADDRESSES = 24 };
enum watch_kind { WATCH_HELLO = 1, WATCH_BEAT, WATCH_LEAVE, WATCH_FAIL, WATCH_END };

struct watch_message {
    uint64_t magic, token;
    int32_t kind;
    int32_t world_rank; /* in MPI_COMM_WORLD */
    int32_t rank;       /* as messages for users name it */
    int32_t pid, code;  /* code: of FAIL and END, the exit code */
    int32_t waits;      /* for other ranks */
    int32_t text_bytes; /* of the text after it */
    int32_t unused;
    uint64_t progress;
    double patience_s;
    char host[64], at[264];
};

struct watch_link {
    int fd; /* -1: none */
    size_t have;
    char buffer[sizeof(struct watch_message) + WATCH_TEXT];
};

/* Listen on a port that the system chooses. `line`: the token, the port and this host's addresses, for other ranks. */
enum mt_status mt_watch_listen(int *fd, uint64_t *token, char *line, size_t size, struct mt_err *err);
/* An incoming connection; fd -1: none. */
struct watch_link mt_watch_accept(int listening);

/* Parse such a line. Addresses on networks of this host come first. Returns how many. */
int mt_watch_read_line(const char *line, uint64_t *token, struct sockaddr_storage *addresses, int most);
void mt_watch_print_address(const struct sockaddr_storage *address, char *text, size_t size); /* "10.0.0.1 port 4242" */
/* Begin to connect; fd -1: refused at once. */
struct watch_link mt_watch_connect(const struct sockaddr_storage *address);

/* False when the connection has ended. A message that does not fit the socket's buffer (the peer does not read) is
 * dropped. */
bool mt_watch_send(struct watch_link *link, struct watch_message *message, const char *text);
/* 1: a message, with its text, terminated; 0: none yet; -1: the connection has ended. */
int mt_watch_receive(struct watch_link *link, struct watch_message *message, char text[WATCH_TEXT]);
void mt_watch_close(struct watch_link *link);

#endif
