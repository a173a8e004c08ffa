/* Sockets for messages. Rank 0 listens on all its addresses, IPv6 too where the kernel has it, and publishes them all;
 * the others try them all. A random token distinguishes its listener from another program's on the same port. */
#include "launcher/watch/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t magic = 0x6d6f746c65790000u + sizeof(struct watch_message);

static in_port_t *port_of(struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                          : &((struct sockaddr_in *)address)->sin_port;
}

static socklen_t address_bytes(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void print_ip(const struct sockaddr_storage *address, char *text, size_t size) {
    const void *ip = address->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                                                    : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    if (!inet_ntop(address->ss_family, ip, text, (socklen_t)size)) text[0] = 0;
}

void mt_watch_print_address(const struct sockaddr_storage *address, char *text, size_t size) {
    struct sockaddr_storage copy = *address;
    print_ip(address, text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used, " port %d", ntohs(*port_of(&copy)));
}

/* A socket that listens on any address of the family, and its port. */
static int listen_on(int family, uint16_t *port) {
    struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
    socklen_t size = address_bytes(&any);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), off = 0;
    if (fd < 0) return -1;
    if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&any, size) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&any, &size)) {
        close(fd);
        return -1;
    }
    *port = ntohs(*port_of(&any));
    return fd;
}

static bool useful(const struct ifaddrs *interface) {
    if (!interface->ifa_addr || !(interface->ifa_flags & IFF_UP)) return false;
    if (interface->ifa_addr->sa_family == AF_INET) return true;
    return interface->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)interface->ifa_addr)->sin6_addr);
}

enum mt_status mt_watch_listen(int *fd, uint64_t *token, char *line, size_t size, struct mt_err *err) {
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
        struct sockaddr_storage address = {0};
        char text[INET6_ADDRSTRLEN];
        if (!useful(i) || (i->ifa_addr->sa_family == AF_INET6 && !both)) continue;
        address.ss_family = i->ifa_addr->sa_family;
        memcpy(&address, i->ifa_addr, address_bytes(&address));
        print_ip(&address, text, sizeof text);
        if (used + strlen(text) + 2 < size) used += (size_t)snprintf(line + used, size - used, " %s", text);
    }
    freeifaddrs(all);
    return MT_OK;
}

static void set_options(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct watch_link mt_watch_accept(int listening) {
    struct watch_link link = {.fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (link.fd >= 0) set_options(link.fd);
    return link;
}

/* Whether an address is on a network of this host. */
static bool is_near(const struct sockaddr_storage *address, const struct ifaddrs *all) {
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!useful(i) || !i->ifa_netmask || i->ifa_addr->sa_family != address->ss_family) continue;
        bool six = address->ss_family == AF_INET6;
        size_t at = six ? offsetof(struct sockaddr_in6, sin6_addr) : offsetof(struct sockaddr_in, sin_addr);
        const unsigned char *a = (const unsigned char *)address + at, *b = (const unsigned char *)i->ifa_addr + at;
        const unsigned char *mask = (const unsigned char *)i->ifa_netmask + at;
        bool same = true;
        for (size_t k = 0; k < (six ? 16u : 4u); k++) same = same && (a[k] & mask[k]) == (b[k] & mask[k]);
        if (same) return true;
    }
    return false;
}

int mt_watch_read_line(const char *line, uint64_t *token, struct sockaddr_storage *addresses, int most) {
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
        struct sockaddr_storage address = {0};
        bool four = inet_pton(AF_INET, word, &((struct sockaddr_in *)&address)->sin_addr) == 1;
        if (!four && inet_pton(AF_INET6, word, &((struct sockaddr_in6 *)&address)->sin6_addr) != 1) continue;
        address.ss_family = four ? AF_INET : AF_INET6;
        *port_of(&address) = htons((uint16_t)port);
        addresses[count] = address;
        if (is_near(&address, all)) {
            addresses[count] = addresses[near];
            addresses[near++] = address;
        }
        count++;
    }
    if (all) freeifaddrs(all);
    return count;
}

struct watch_link mt_watch_connect(const struct sockaddr_storage *address) {
    struct watch_link link = {.fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (link.fd < 0) return link;
    set_options(link.fd);
    if (connect(link.fd, (const struct sockaddr *)address, address_bytes(address)) && errno != EINPROGRESS)
        mt_watch_close(&link);
    return link;
}

bool mt_watch_send(struct watch_link *link, struct watch_message *message, const char *text) {
    if (link->fd < 0) return false;
    char whole[sizeof *message + WATCH_TEXT];
    size_t length = text ? strnlen(text, WATCH_TEXT - 1) : 0;
    message->magic = magic;
    message->text_bytes = (int32_t)length;
    memcpy(whole, message, sizeof *message);
    if (length) memcpy(whole + sizeof *message, text, length);
    ssize_t sent = send(link->fd, whole, sizeof *message + length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    return (size_t)sent == sizeof *message + length; /* half a message: the peer has not read for very long */
}

int mt_watch_receive(struct watch_link *link, struct watch_message *message, char text[WATCH_TEXT]) {
    for (;;) {
        size_t want = sizeof *message;
        if (link->have >= want) {
            memcpy(message, link->buffer, sizeof *message);
            if (message->magic != magic || message->text_bytes < 0 || message->text_bytes >= WATCH_TEXT) return -1;
            want += (size_t)message->text_bytes;
        }
        if (link->have >= sizeof *message && link->have == want) {
            memcpy(text, link->buffer + sizeof *message, (size_t)message->text_bytes);
            text[message->text_bytes] = 0;
            message->host[sizeof message->host - 1] = message->at[sizeof message->at - 1] = 0;
            link->have = 0;
            return 1;
        }
        ssize_t got = recv(link->fd, link->buffer + link->have, want - link->have, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (got <= 0) return -1;
        link->have += (size_t)got;
    }
}

void mt_watch_close(struct watch_link *link) {
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
    link->have = 0;
}
