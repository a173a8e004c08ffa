/* Notes of the watch over a real socket, whole, in pieces, and from strangers; and the clock of time awake. */
#include "launcher/watch/socket.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "kernels/base/wait.h"
#include "tests/check.h"

static void wait_for(int fd, short events) {
    struct pollfd ready = {.fd = fd, .events = events};
    CHECK_EQ(poll(&ready, 1, 10000), 1);
}

/* A connection by one of the addresses of the line: both ends. */
static void join(int listening, const char *line, uint64_t want, struct watch_link ends[2]) {
    struct sockaddr_storage addresses[WATCH_ADDRESSES];
    char text[128];
    uint64_t token = 0;
    int n = mt_watch_read_line(line, &token, addresses, WATCH_ADDRESSES);
    CHECK(n > 0 && token == want);
    for (int p = 0; p < n; p++) {
        mt_watch_print_address(&addresses[p], text, sizeof text);
        CHECK(strstr(text, " port ") != NULL);
    }
    ends[0] = mt_watch_connect(&addresses[0]); /* on a network of this host, so it can be reached */
    CHECK(ends[0].fd >= 0);
    wait_for(listening, POLLIN);
    ends[1] = mt_watch_accept(listening);
    CHECK(ends[1].fd >= 0);
    wait_for(ends[0].fd, POLLOUT);
}

static int receive(struct watch_link *link, struct watch_message *message, char *text) {
    wait_for(link->fd, POLLIN);
    return mt_watch_receive(link, message, text);
}

static void check_notes(struct watch_link ends[2]) {
    struct watch_message message = {.kind = WATCH_FAIL, .world_rank = 3, .code = 4, .host = "a", .at = "step 17"}, got;
    char text[WATCH_TEXT], longest[2 * WATCH_TEXT];
    CHECK_EQ(mt_watch_receive(&ends[1], &got, text), 0);
    CHECK(mt_watch_send(&ends[0], &message, "it broke"));
    CHECK_EQ(receive(&ends[1], &got, text), 1);
    CHECK_EQ(got.kind, WATCH_FAIL);
    CHECK_EQ(got.world_rank, 3);
    CHECK(!strcmp(got.at, "step 17") && !strcmp(text, "it broke"));
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    CHECK(mt_watch_send(&ends[1], &message, longest)); /* cut to what a message carries */
    CHECK(mt_watch_send(&ends[1], &message, NULL));
    CHECK_EQ(receive(&ends[0], &got, text), 1);
    CHECK_EQ((int)strlen(text), WATCH_TEXT - 1);
    CHECK_EQ(receive(&ends[0], &got, text), 1);
    CHECK_EQ((int)strlen(text), 0);
    /* A message that comes in two pieces. */
    CHECK(mt_watch_send(&ends[0], &message, NULL));
    char whole[sizeof message];
    wait_for(ends[1].fd, POLLIN);
    CHECK_EQ(recv(ends[1].fd, whole, sizeof whole, MSG_WAITALL), (int)sizeof whole);
    CHECK_EQ(send(ends[0].fd, whole, 100, 0), 100);
    CHECK_EQ(receive(&ends[1], &got, text), 0);
    CHECK_EQ(send(ends[0].fd, whole + 100, sizeof whole - 100, 0), (int)sizeof whole - 100);
    CHECK_EQ(receive(&ends[1], &got, text), 1);
    CHECK_EQ(got.code, 4);
}

static void check_strangers(int listening, const char *line, uint64_t token) {
    struct watch_link ends[2];
    struct watch_message message, got;
    char text[WATCH_TEXT];
    join(listening, line, token, ends);
    memset(&message, 'G', sizeof message); /* "GET / ..." */
    CHECK_EQ(send(ends[0].fd, &message, sizeof message, 0), (int)sizeof message);
    CHECK_EQ(receive(&ends[1], &got, text), -1);
    mt_watch_close(&ends[1]);
    CHECK_EQ(receive(&ends[0], &got, text), -1); /* the other end has gone */
    mt_watch_close(&ends[0]);
    CHECK(!mt_watch_send(&ends[0], &message, NULL));
    struct sockaddr_storage addresses[2];
    uint64_t none;
    CHECK_EQ(mt_watch_read_line("", &none, addresses, 2), 0);
    CHECK_EQ(mt_watch_read_line("00ff 80 10.0.0.1 nonsense fd00::1 10.0.0.2", &none, addresses, 2), 2);
    CHECK_EQ((int)none, 255);
}

/* A stop of the process counts for no more than it may. */
static void check_awake(void) {
    struct mt_awake awake = {0};
    CHECK(mt_awake_check(&awake, 0.01) == 0);
    mt_sleep_s(0.1);
    CHECK(mt_awake_check(&awake, 0.01) == 0.01);
    mt_sleep_s(0.02);
    double later_s = mt_awake_check(&awake, 1000);
    CHECK(later_s >= 0.03 && later_s < 1000);
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    struct watch_link ends[2];
    char line[1024];
    uint64_t token;
    int listening;
    CHECK(!mt_watch_listen(&listening, &token, line, sizeof line, &err));
    join(listening, line, token, ends);
    check_notes(ends);
    mt_watch_close(&ends[0]);
    mt_watch_close(&ends[1]);
    check_strangers(listening, line, token);
    check_awake();
    return 0;
}
