/* Sockets for notes. Rank 0 listens on all its addresses, IPv6 too where the kernel has it; the line that it leaves
 * names them all, and others try them all. A random token tells its listener from a stranger on the same port. */
#include "launcher/watch/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t magic = 0x6d6f746c65790000u + sizeof(struct watch_note);

static void set_port(struct sockaddr_storage *place, uint16_t port) {
    if (place->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)place)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)place)->sin_port = htons(port);
}

static socklen_t place_bytes(const struct sockaddr_storage *place) {
    return place->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void print_address(const struct sockaddr_storage *place, char *text, size_t size) {
    const void *address = place->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)place)->sin6_addr
                                                       : (const void *)&((const struct sockaddr_in *)place)->sin_addr;
    if (!inet_ntop(place->ss_family, address, text, (socklen_t)size)) text[0] = 0;
}

void watch_print_place(const struct sockaddr_storage *place, char *text, size_t size) {
    uint16_t port = place->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)place)->sin6_port
                                                 : ((const struct sockaddr_in *)place)->sin_port;
    print_address(place, text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used, " port %d", ntohs(port));
}

/* A socket that listens on any address of the family, and its port. */
static int listen_on(int family, uint16_t *port) {
    struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
    socklen_t size = place_bytes(&any);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), off = 0;
    if (fd < 0) return -1;
    if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&any, size) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&any, &size)) {
        close(fd);
        return -1;
    }
    *port =
        ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&any)->sin6_port : ((struct sockaddr_in *)&any)->sin_port);
    return fd;
}

static bool useful(const struct ifaddrs *interface) {
    if (!interface->ifa_addr || !(interface->ifa_flags & IFF_UP)) return false;
    if (interface->ifa_addr->sa_family == AF_INET) return true;
    return interface->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)interface->ifa_addr)->sin6_addr);
}

enum mt_status watch_listen(int *fd, uint64_t *token, char *line, size_t size, struct mt_err *err) {
    uint16_t port = 0;
    bool both = true;
    if ((*fd = listen_on(AF_INET6, &port)) < 0) {
        both = false;
        if ((*fd = listen_on(AF_INET, &port)) < 0) return mt_fail_errno(err, "cannot listen for heartbeats");
    }
    struct ifaddrs *all = NULL;
    if (getrandom(token, sizeof *token, 0) != sizeof *token || getifaddrs(&all)) {
        close(*fd);
        return mt_fail_errno(err, "cannot list this host's addresses");
    }
    size_t used = (size_t)snprintf(line, size, "%016" PRIx64 " %d", *token, port);
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sockaddr_storage place = {0};
        char text[INET6_ADDRSTRLEN];
        if (!useful(i) || (i->ifa_addr->sa_family == AF_INET6 && !both)) continue;
        place.ss_family = i->ifa_addr->sa_family;
        memcpy(&place, i->ifa_addr, place_bytes(&place));
        print_address(&place, text, sizeof text);
        if (used + strlen(text) + 2 < size) used += (size_t)snprintf(line + used, size - used, " %s", text);
    }
    freeifaddrs(all);
    return MT_OK;
}

static void set_options(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct watch_link watch_accept(int listening) {
    struct watch_link link = {.fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (link.fd >= 0) set_options(link.fd);
    return link;
}

/* Whether an address lies on a network of this host. */
static bool is_near(const struct sockaddr_storage *place, const struct ifaddrs *all) {
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!useful(i) || !i->ifa_netmask || i->ifa_addr->sa_family != place->ss_family) continue;
        bool six = place->ss_family == AF_INET6;
        size_t at = six ? offsetof(struct sockaddr_in6, sin6_addr) : offsetof(struct sockaddr_in, sin_addr);
        const unsigned char *a = (const unsigned char *)place + at, *b = (const unsigned char *)i->ifa_addr + at;
        const unsigned char *mask = (const unsigned char *)i->ifa_netmask + at;
        bool same = true;
        for (size_t k = 0; k < (six ? 16u : 4u); k++) same = same && (a[k] & mask[k]) == (b[k] & mask[k]);
        if (same) return true;
    }
    return false;
}

int watch_read_line(const char *line, uint64_t *token, struct sockaddr_storage *places, int most) {
    char copy[2048], *rest = NULL;
    struct ifaddrs *all = NULL;
    int port = 0, count = 0, near = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *word = strtok_r(copy, " ", &rest);
    if (!word || sscanf(word, "%" SCNx64, token) != 1 || !(word = strtok_r(NULL, " ", &rest)) ||
        sscanf(word, "%d", &port) != 1)
        return 0;
    if (getifaddrs(&all)) all = NULL;
    while ((word = strtok_r(NULL, " ", &rest)) && count < most) {
        struct sockaddr_storage place = {0};
        bool four = inet_pton(AF_INET, word, &((struct sockaddr_in *)&place)->sin_addr) == 1;
        if (!four && inet_pton(AF_INET6, word, &((struct sockaddr_in6 *)&place)->sin6_addr) != 1) continue;
        place.ss_family = four ? AF_INET : AF_INET6;
        set_port(&place, (uint16_t)port);
        places[count] = place;
        if (is_near(&place, all)) {
            places[count] = places[near];
            places[near++] = place;
        }
        count++;
    }
    if (all) freeifaddrs(all);
    return count;
}

struct watch_link watch_connect(const struct sockaddr_storage *place) {
    struct watch_link link = {.fd = socket(place->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (link.fd < 0) return link;
    set_options(link.fd);
    if (connect(link.fd, (const struct sockaddr *)place, place_bytes(place)) && errno != EINPROGRESS)
        watch_close(&link);
    return link;
}

bool watch_send(struct watch_link *link, struct watch_note *note, const char *text) {
    if (link->fd < 0) return false;
    char whole[sizeof *note + WATCH_TEXT];
    size_t length = text ? strnlen(text, WATCH_TEXT - 1) : 0;
    note->magic = magic;
    note->text_bytes = (int32_t)length;
    memcpy(whole, note, sizeof *note);
    if (length) memcpy(whole + sizeof *note, text, length);
    ssize_t sent = send(link->fd, whole, sizeof *note + length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    return (size_t)sent == sizeof *note + length; /* half a note: nobody has read for very long */
}

int watch_receive(struct watch_link *link, struct watch_note *note, char text[WATCH_TEXT]) {
    for (;;) {
        size_t want = sizeof *note;
        if (link->have >= want) {
            memcpy(note, link->buffer, sizeof *note);
            if (note->magic != magic || note->text_bytes < 0 || note->text_bytes >= WATCH_TEXT) return -1;
            want += (size_t)note->text_bytes;
        }
        if (link->have >= sizeof *note && link->have == want) {
            memcpy(text, link->buffer + sizeof *note, (size_t)note->text_bytes);
            text[note->text_bytes] = 0;
            note->host[sizeof note->host - 1] = note->at[sizeof note->at - 1] = 0;
            link->have = 0;
            return 1;
        }
        ssize_t got = recv(link->fd, link->buffer + link->have, want - link->have, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (got <= 0) return -1;
        link->have += (size_t)got;
    }
}

void watch_close(struct watch_link *link) {
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
    link->have = 0;
}
