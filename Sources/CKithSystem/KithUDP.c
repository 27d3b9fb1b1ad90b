#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#ifndef __APPLE_USE_RFC_3542
#define __APPLE_USE_RFC_3542 1
#endif
#include "KithUDP.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <netinet/udp.h>
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#endif

unsigned kith_udp_write(const kith_udp_address *from, void *to) {
    memset(to, 0, sizeof(struct sockaddr_storage));
    if (from->is_ipv6) {
        struct sockaddr_in6 *v6 = to;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(from->port);
        v6->sin6_scope_id = from->zone;
        memcpy(&v6->sin6_addr, from->ip, 16);
#ifdef __APPLE__
        v6->sin6_len = sizeof *v6;
#endif
        return sizeof *v6;
    }
    struct sockaddr_in *v4 = to;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(from->port);
    memcpy(&v4->sin_addr, from->ip, 4);
#ifdef __APPLE__
    v4->sin_len = sizeof *v4;
#endif
    return sizeof *v4;
}

static int take(const struct sockaddr *from, kith_udp_address *to) {
    memset(to, 0, sizeof *to);
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
        memcpy(to->ip, &v6->sin6_addr, 16);
        to->port = ntohs(v6->sin6_port);
        to->zone = v6->sin6_scope_id;
        to->is_ipv6 = 1;
        return 0;
    }
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
        memcpy(to->ip, &v4->sin_addr, 4);
        to->port = ntohs(v4->sin_port);
        return 0;
    }
    return -EAFNOSUPPORT;
}

int kith_udp_read(const void *sockaddr, kith_udp_address *address) { return take(sockaddr, address); }

static int set(int descriptor, int level, int name, int value) {
    return setsockopt(descriptor, level, name, &value, sizeof value);
}

int kith_udp_open(const kith_udp_address *address, int buffer, uint32_t *features) {
    int family = address->is_ipv6 ? AF_INET6 : AF_INET;
#ifdef __linux__
    int descriptor = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
#else
    int descriptor = socket(family, SOCK_DGRAM, 0);
    if (descriptor < 0) return -errno;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
#endif
    *features = 0;
    if (address->is_ipv6 && set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) goto failed;

    // The kernel may refuse a large buffer outright (Darwin) or cut it to its limit (Linux).
    for (int size = buffer; size >= 64 << 10 && set(descriptor, SOL_SOCKET, SO_RCVBUF, size) != 0; size /= 2) {}
    for (int size = buffer; size >= 64 << 10 && set(descriptor, SOL_SOCKET, SO_SNDBUF, size) != 0; size /= 2) {}

    // Datagrams must not be fragmented (RFC 9000 section 14). PROBE also ignores a path MTU the kernel believes in:
    // finding it is the engine's work.
#ifdef __linux__
    if (address->is_ipv6) {
        set(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
        if (set(descriptor, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) == 0) *features |= KITH_UDP_ECN;
    } else {
        set(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
        if (set(descriptor, IPPROTO_IP, IP_RECVTOS, 1) == 0) *features |= KITH_UDP_ECN;
    }
    if (set(descriptor, SOL_UDP, UDP_SEGMENT, 0) == 0) *features |= KITH_UDP_SEND_SEGMENTS;
    if (set(descriptor, SOL_UDP, UDP_GRO, 1) == 0) *features |= KITH_UDP_RECEIVE_SEGMENTS;
#else
    if (address->is_ipv6) {
#ifdef IPV6_DONTFRAG
        set(descriptor, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
#endif
        if (set(descriptor, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) == 0) *features |= KITH_UDP_ECN;
    } else {
#ifdef IP_DONTFRAG
        set(descriptor, IPPROTO_IP, IP_DONTFRAG, 1);
#endif
        if (set(descriptor, IPPROTO_IP, IP_RECVTOS, 1) == 0) *features |= KITH_UDP_ECN;
    }
#endif

    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(address, &storage);
    if (bind(descriptor, (struct sockaddr *)&storage, length) != 0) goto failed;
    return descriptor;

failed:;
    int error = errno;
    close(descriptor);
    return -error;
}

int kith_udp_local(int descriptor, kith_udp_address *address) {
    struct sockaddr_storage storage;
    socklen_t length = sizeof storage;
    if (getsockname(descriptor, (struct sockaddr *)&storage, &length) != 0) return -errno;
    return take((struct sockaddr *)&storage, address);
}

int kith_udp_connect(int descriptor, const kith_udp_address *remote) {
    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(remote, &storage);
    return connect(descriptor, (struct sockaddr *)&storage, length) == 0 ? 0 : -errno;
}

/// Room for the two control messages a send can carry, aligned as the macros expect.
typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
} control;

static void prepare(struct msghdr *message, struct iovec *vector, control *room, struct sockaddr_storage *to,
                    socklen_t to_length, int is_ipv6, size_t segment, uint8_t ecn) {
    memset(message, 0, sizeof *message);
    message->msg_name = to;
    message->msg_namelen = to_length;
    message->msg_iov = vector;
    message->msg_iovlen = 1;
    size_t used = 0;
    message->msg_control = room->bytes;
    message->msg_controllen = sizeof room->bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (ecn != 0) {
        int value = ecn;
        header->cmsg_level = is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
        header->cmsg_type = is_ipv6 ? IPV6_TCLASS : IP_TOS;
        header->cmsg_len = CMSG_LEN(sizeof value);
        memcpy(CMSG_DATA(header), &value, sizeof value);
        used += CMSG_SPACE(sizeof value);
        header = (struct cmsghdr *)(room->bytes + used);
    }
#ifdef __linux__
    if (segment != 0) {
        uint16_t value = (uint16_t)segment;
        header->cmsg_level = SOL_UDP;
        header->cmsg_type = UDP_SEGMENT;
        header->cmsg_len = CMSG_LEN(sizeof value);
        memcpy(CMSG_DATA(header), &value, sizeof value);
        used += CMSG_SPACE(sizeof value);
    }
#else
    (void)segment;
#endif
    message->msg_controllen = used;
    if (used == 0) message->msg_control = NULL;
}

static intptr_t send_one(int descriptor, struct msghdr *message) {
    for (;;) {
        ssize_t sent = sendmsg(descriptor, message, 0);
        if (sent >= 0) return sent;
        if (errno != EINTR) return -errno;
    }
}

intptr_t kith_udp_send(int descriptor, const kith_udp_address *to, const void *bytes, size_t length, size_t segment,
                       int segments, uint8_t ecn) {
    struct sockaddr_storage storage;
    socklen_t storage_length = kith_udp_write(to, &storage);
    if (segment == 0 || segment > length) segment = length;
    control room;
    memset(&room, 0, sizeof room);

    if (segments || segment == length) {
        struct iovec vector = {(void *)bytes, length};
        struct msghdr message;
        prepare(&message, &vector, &room, &storage, storage_length, to->is_ipv6, segment < length ? segment : 0, ecn);
        return send_one(descriptor, &message);
    }

    size_t done = 0;
#ifdef __linux__
    enum { batch = 64 };
    struct mmsghdr messages[batch];
    struct iovec vectors[batch];
    while (done < length) {
        unsigned count = 0;
        for (size_t at = done; at < length && count < batch; at += segment, count++) {
            size_t size = length - at < segment ? length - at : segment;
            vectors[count] = (struct iovec){(char *)bytes + at, size};
            prepare(&messages[count].msg_hdr, &vectors[count], &room, &storage, storage_length, to->is_ipv6, 0, ecn);
            messages[count].msg_len = 0;
        }
        int sent = sendmmsg(descriptor, messages, count, 0);
        if (sent < 0) {
            if (errno == EINTR) continue;
            return done > 0 ? (intptr_t)done : -errno;
        }
        for (int index = 0; index < sent; index++) done += vectors[index].iov_len;
        if ((unsigned)sent < count) return (intptr_t)done;
    }
#else
    while (done < length) {
        size_t size = length - done < segment ? length - done : segment;
        struct iovec vector = {(char *)bytes + done, size};
        struct msghdr message;
        prepare(&message, &vector, &room, &storage, storage_length, to->is_ipv6, 0, ecn);
        intptr_t sent = send_one(descriptor, &message);
        if (sent < 0) return done > 0 ? (intptr_t)done : sent;
        done += size;
    }
#endif
    return (intptr_t)done;
}

int kith_udp_interfaces(kith_udp_address *addresses, uint8_t *flags, int capacity) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) return -errno;
    int count = 0;
    for (struct ifaddrs *each = list; each != NULL; each = each->ifa_next) {
        if (each->ifa_addr == NULL || !(each->ifa_flags & IFF_UP) || !(each->ifa_flags & IFF_RUNNING)) continue;
        kith_udp_address address;
        if (take(each->ifa_addr, &address) != 0) continue;
        if (count < capacity) {
            addresses[count] = address;
            flags[count] = (each->ifa_flags & IFF_POINTOPOINT) ? 1 : 0;
        }
        count++;
    }
    freeifaddrs(list);
    return count;
}
