#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithNetwork.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#elif __has_include(<net/route.h>)
#include <net/route.h>
#include <sys/sysctl.h>
#define KITH_HAS_ROUTES 1
#endif

#ifdef __linux__
/// Opens a socket that hears those groups of rtnetlink.
static int kith_rtnetlink(uint32_t groups) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (descriptor < 0) return -errno;
    struct sockaddr_nl address;
    memset(&address, 0, sizeof address);
    address.nl_family = AF_NETLINK;
    address.nl_groups = groups;
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}
#endif

int kith_network_watch(void) {
#ifdef __linux__
    int descriptor =
        kith_rtnetlink(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
    if (descriptor < 0) return descriptor;
    // A burst that overflows the buffer is an error at the next read: still news, and no need to hear of it twice.
    int one = 1;
    setsockopt(descriptor, SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof one);
    return descriptor;
#else
    return -ENOTSUP;
#endif
}

int kith_network_router_options(void) {
#ifdef __linux__
    int descriptor = kith_rtnetlink(1u << (RTNLGRP_ND_USEROPT - 1));
    if (descriptor < 0) return descriptor;
    // What is lost in a burst comes again with the next advertisement.
    int one = 1;
    setsockopt(descriptor, SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof one);
    return descriptor;
#else
    return -ENOTSUP;
#endif
}

int kith_network_source(const kith_udp_address *remote, kith_udp_address *source) {
    uint32_t features = 0;
    kith_udp_address any;
    memset(&any, 0, sizeof any);
    any.is_ipv6 = remote->is_ipv6;
    int descriptor = kith_udp_open(&any, 0, &features);
    if (descriptor < 0) return descriptor;
    int status = kith_udp_connect(descriptor, remote);
    if (status == 0) status = kith_udp_local(descriptor, source);
    close(descriptor);
    return status;
}

int kith_network_knock_open(const kith_udp_address *remote) {
    uint32_t features = 0;
    kith_udp_address any;
    memset(&any, 0, sizeof any);
    any.is_ipv6 = remote->is_ipv6;
    int descriptor = kith_udp_open(&any, 0, &features);
    if (descriptor < 0) return descriptor;
    int status = kith_udp_connect(descriptor, remote);
    if (status == 0) return descriptor;
    close(descriptor);
    return status;
}

int kith_network_knock(int descriptor) { return send(descriptor, "", 1, 0) < 0 ? -errno : 0; }

int kith_network_heard(int descriptor) {
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? -error : -errno;
}

int kith_network_refusal(const kith_udp_address *remote, int milliseconds) {
    int descriptor = kith_network_knock_open(remote);
    if (descriptor < 0) return descriptor;
    int status = kith_network_knock(descriptor);
    struct pollfd ready = {.fd = descriptor, .events = POLLIN};
    if (status == 0 && poll(&ready, 1, milliseconds) > 0) status = kith_network_heard(descriptor);
    close(descriptor);
    return status;
}

static uint8_t kind_of(const char *name, unsigned flags) {
    if (flags & IFF_LOOPBACK) return KITH_INTERFACE_LOOPBACK;
#ifdef __linux__
    char path[96];
    snprintf(path, sizeof path, "/sys/class/net/%s/wireless", name);
    if (access(path, F_OK) == 0) return KITH_INTERFACE_WIFI;
    snprintf(path, sizeof path, "/sys/class/net/%s/phy80211", name);
    if (access(path, F_OK) == 0) return KITH_INTERFACE_WIFI;
    if (strncmp(name, "ww", 2) == 0) return KITH_INTERFACE_CELLULAR;
#else
    if (strncmp(name, "pdp_ip", 6) == 0) return KITH_INTERFACE_CELLULAR;
#endif
    return KITH_INTERFACE_OTHER;
}

// The leading ones of a mask; without one the address has its network to itself.
static uint8_t prefix_of(const struct sockaddr *mask, int is_ipv6) {
    uint8_t length = is_ipv6 ? 128 : 32;
    if (mask == NULL) return length;
    const uint8_t *bytes = is_ipv6 ? ((const struct sockaddr_in6 *)mask)->sin6_addr.s6_addr
                                   : (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr;
    for (uint8_t bit = 0; bit < length; bit++) {
        if (!(bytes[bit / 8] & (0x80 >> bit % 8))) return bit;
    }
    return length;
}

#ifdef __linux__
// Those of the thread's network: /proc/net itself is the first thread's.
static FILE *routes_of(const char *family) {
    char path[48];
    snprintf(path, sizeof path, "/proc/thread-self/net/%s", family);
    return fopen(path, "re");
}

// Marks the addresses of which the system says that it gives them up, or that they change; getifaddrs has no such flags.
static void mark_ipv6(kith_interface *interfaces, int count) {
    FILE *file = routes_of("if_inet6");
    if (file == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        char digits[33];
        unsigned index, flags;
        if (sscanf(line, "%32[0-9a-f] %x %*x %*x %x", digits, &index, &flags) != 3 || strlen(digits) != 32) continue;
        uint8_t bytes[16] = {0};
        for (int at = 0; at < 16; at++) {
            unsigned byte;
            if (sscanf(digits + 2 * at, "%2x", &byte) != 1) break;
            bytes[at] = (uint8_t)byte;
        }
        for (int each = 0; each < count; each++) {
            kith_interface *found = &interfaces[each];
            if (found->index != index || !found->address.is_ipv6 || memcmp(found->address.ip, bytes, 16) != 0) continue;
            found->deprecated = (flags & IFA_F_DEPRECATED) != 0;
            found->temporary = (flags & IFA_F_TEMPORARY) != 0;
        }
    }
    fclose(file);
}
#else
static void mark_ipv6(kith_interface *interfaces, int count) {
    (void)interfaces;
    (void)count;
}
#endif

int kith_network_interfaces(kith_interface *interfaces, int capacity) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) return -errno;
    int count = 0;
    for (struct ifaddrs *each = list; each != NULL; each = each->ifa_next) {
        if (each->ifa_addr == NULL || !(each->ifa_flags & IFF_UP) || !(each->ifa_flags & IFF_RUNNING)) continue;
        kith_interface found;
        memset(&found, 0, sizeof found);
        if (kith_udp_read(each->ifa_addr, &found.address) != 0) continue;
        if (count < capacity) {
            // A label of an address (eth0:1) is no interface of its own.
            size_t length = strcspn(each->ifa_name, ":");
            if (length >= sizeof found.name) length = sizeof found.name - 1;
            memcpy(found.name, each->ifa_name, length);
            found.index = if_nametoindex(found.name);
            found.kind = kind_of(found.name, each->ifa_flags);
            found.multicast = (each->ifa_flags & IFF_MULTICAST) != 0;
            found.point_to_point = (each->ifa_flags & IFF_POINTOPOINT) != 0;
            found.prefix = prefix_of(each->ifa_netmask, found.address.is_ipv6);
            interfaces[count] = found;
        }
        count++;
    }
    freeifaddrs(list);
    mark_ipv6(interfaces, count < capacity ? count : capacity);
    return count;
}

#ifdef __linux__

int kith_network_gateways(kith_udp_address *gateways, int capacity) {
    int count = 0;
    char line[512], name[IF_NAMESIZE + 1];
    unsigned best = 0;
    FILE *file = routes_of("route");
    if (file != NULL) {
        while (fgets(line, sizeof line, file) != NULL) {
            unsigned destination, gateway, flags, metric, mask;
            if (sscanf(line, "%16s %x %x %x %*d %*d %u %x", name, &destination, &gateway, &flags, &metric, &mask) != 6)
                continue;
            // RTF_UP and RTF_GATEWAY.
            if (destination != 0 || mask != 0 || (flags & 3) != 3 || gateway == 0) continue;
            if (count > 0 && metric >= best) continue;
            if (capacity < 1) break;
            memset(&gateways[0], 0, sizeof gateways[0]);
            // As it lies in memory.
            memcpy(gateways[0].ip, &gateway, 4);
            best = metric;
            count = 1;
        }
        fclose(file);
    }
    file = routes_of("ipv6_route");
    if (file == NULL) return count;
    int first = count;
    while (fgets(line, sizeof line, file) != NULL) {
        char destination[33], gateway[33];
        unsigned length, metric, flags;
        if (sscanf(line, "%32s %x %*32s %*x %32s %x %*x %*x %x %16s", destination, &length, gateway, &metric, &flags,
                   name) != 6)
            continue;
        if (length != 0 || (flags & 3) != 3 || strlen(gateway) != 32) continue;
        if (count > first && metric >= best) continue;
        if (first >= capacity) break;
        kith_udp_address *found = &gateways[first];
        memset(found, 0, sizeof *found);
        found->is_ipv6 = 1;
        for (int index = 0; index < 16; index++) {
            char digits[3] = {gateway[2 * index], gateway[2 * index + 1], 0};
            found->ip[index] = (uint8_t)strtoul(digits, NULL, 16);
        }
        if (found->ip[0] == 0xFE && (found->ip[1] & 0xC0) == 0x80) found->zone = if_nametoindex(name);
        best = metric;
        count = first + 1;
    }
    fclose(file);
    return count;
}
#elif defined(KITH_HAS_ROUTES)
int kith_network_gateways(kith_udp_address *gateways, int capacity) {
    int query[] = {CTL_NET, PF_ROUTE, 0, 0, NET_RT_FLAGS, RTF_GATEWAY};
    size_t size = 0;
    if (sysctl(query, 6, NULL, &size, NULL, 0) != 0) return -errno;
    // Routes may have come in between.
    size += 4096;
    char *table = malloc(size);
    if (table == NULL) return -ENOMEM;
    if (sysctl(query, 6, table, &size, NULL, 0) != 0) {
        int error = errno;
        free(table);
        return -error;
    }
    int count = 0, has_ipv4 = 0, has_ipv6 = 0;
    for (size_t at = 0; at + sizeof(struct rt_msghdr) <= size;) {
        struct rt_msghdr header;
        memcpy(&header, table + at, sizeof header);
        if (header.rtm_msglen < sizeof header || header.rtm_msglen > size - at) break;
        const char *address = table + at + sizeof header, *end = table + at + header.rtm_msglen;
        kith_udp_address found[3];
        int known[3] = {0, 0, 0};
        // RTAX_DST, RTAX_GATEWAY and RTAX_NETMASK are the first three; each has its length, in steps of four bytes.
        for (int which = 0; which < 3; which++) {
            if (!(header.rtm_addrs & (1 << which)) || address >= end) continue;
            size_t length = *(const unsigned char *)address, step = length == 0 ? 4 : (length + 3) & ~(size_t)3;
            struct sockaddr_storage storage;
            memset(&storage, 0, sizeof storage);
            if (length > (size_t)(end - address) || length > sizeof storage) break;
            memcpy(&storage, address, length);
            known[which] = which < 2 && kith_udp_read((struct sockaddr *)&storage, &found[which]) == 0;
            // A default route has no mask, or one of zeros.
            if (which == 2) {
                known[2] = 0;
                for (size_t index = 4; index < length; index++) known[2] |= ((unsigned char *)&storage)[index];
            }
            address += step;
        }
        at += header.rtm_msglen;
        static const uint8_t zeros[16];
        if (!known[0] || !known[1] || known[2] || memcmp(found[0].ip, zeros, 16) != 0) continue;
        if (!(header.rtm_flags & RTF_UP) || found[0].is_ipv6 != found[1].is_ipv6 || count >= capacity) continue;
        int *has = found[1].is_ipv6 ? &has_ipv6 : &has_ipv4;
        if (*has) continue;
        *has = 1;
        found[1].port = 0;
        // The system writes the zone of a link-local address into the address itself.
        if (found[1].is_ipv6 && found[1].ip[0] == 0xFE && (found[1].ip[1] & 0xC0) == 0x80) {
            found[1].zone = header.rtm_index;
            found[1].ip[2] = found[1].ip[3] = 0;
        }
        gateways[count++] = found[1];
    }
    free(table);
    return count;
}
#else
int kith_network_gateways(kith_udp_address *gateways, int capacity) {
    // The system does not say.
    (void)gateways;
    (void)capacity;
    return 0;
}
#endif

static int set_option(int descriptor, int level, int name, int value) {
    return setsockopt(descriptor, level, name, &value, sizeof value);
}

int kith_multicast_open(const kith_udp_address *group) {
    int family = group->is_ipv6 ? AF_INET6 : AF_INET;
#ifdef __linux__
    int descriptor = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
#else
    int descriptor = socket(family, SOCK_DGRAM, 0);
    if (descriptor < 0) return -errno;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
#endif
    // Linux gives each of those sockets every datagram to a group, whichever user's they are; SO_REUSEPORT there would
    // want them to be one user's.
    if (set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) != 0) goto failed;
#ifndef __linux__
    if (set_option(descriptor, SOL_SOCKET, SO_REUSEPORT, 1) != 0) goto failed;
#endif
    if (group->is_ipv6) {
        if (set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) goto failed;
        set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 1);
        set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
    } else {
        unsigned char one = 1;
        setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_TTL, &one, sizeof one);
        setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_LOOP, &one, sizeof one);
    }
    // At the group's address itself: what is sent to this machine alone is not heard.
    kith_udp_address place = *group;
    place.zone = 0;
#ifdef __linux__
    // Linux wants an interface for the address of a link-local group, and there are several: filtered by membership.
    if (group->is_ipv6) memset(place.ip, 0, sizeof place.ip);
#ifdef IPV6_MULTICAST_ALL
    if (group->is_ipv6) set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
#endif
    if (!group->is_ipv6) set_option(descriptor, IPPROTO_IP, IP_MULTICAST_ALL, 0);
#else
    memset(place.ip, 0, sizeof place.ip);
#endif
    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(&place, &storage);
    if (bind(descriptor, (struct sockaddr *)&storage, length) != 0) goto failed;
    return descriptor;

failed:;
    int error = errno;
    close(descriptor);
    return -error;
}

static int membership(int descriptor, const kith_udp_address *group, uint32_t interface, int name) {
    struct group_req request;
    memset(&request, 0, sizeof request);
    request.gr_interface = interface;
    kith_udp_write(group, &request.gr_group);
    int level = group->is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
    return setsockopt(descriptor, level, name, &request, sizeof request) == 0 ? 0 : -errno;
}

int kith_multicast_join(int descriptor, const kith_udp_address *group, uint32_t interface) {
    int status = membership(descriptor, group, interface, MCAST_JOIN_GROUP);
    return status == -EADDRINUSE ? 0 : status;
}

void kith_multicast_leave(int descriptor, const kith_udp_address *group, uint32_t interface) {
    membership(descriptor, group, interface, MCAST_LEAVE_GROUP);
}

intptr_t kith_multicast_send(int descriptor, const void *bytes, size_t length, const kith_udp_address *group,
                             uint32_t interface, const kith_udp_address *source) {
    kith_udp_address to = *group;
    if (group->is_ipv6) {
        to.zone = interface;
        if (set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)interface) != 0) return -errno;
    } else {
        struct ip_mreqn request;
        memset(&request, 0, sizeof request);
        request.imr_ifindex = (int)interface;
        memcpy(&request.imr_address, source->ip, sizeof request.imr_address);
        if (setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request) != 0) return -errno;
    }
    struct sockaddr_storage storage;
    socklen_t size = kith_udp_write(&to, &storage);
    for (;;) {
        ssize_t count = sendto(descriptor, bytes, length, 0, (struct sockaddr *)&storage, size);
        if (count >= 0) return count;
        if (errno != EINTR) return -errno;
    }
}

#ifdef __linux__
int kith_mdns_open(int is_ipv6) {
    int descriptor = socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
    // As kith_multicast_open: every socket at the port gets what is sent to the group, whichever user's it is.
    if (set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) != 0) goto failed;
    if (is_ipv6) {
        if (set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) goto failed;
        if (set_option(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) != 0) goto failed;
        set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 255);
        set_option(descriptor, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 255);
        set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
#ifdef IPV6_MULTICAST_ALL
        set_option(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
#endif
    } else {
        if (set_option(descriptor, IPPROTO_IP, IP_PKTINFO, 1) != 0) goto failed;
        set_option(descriptor, IPPROTO_IP, IP_MULTICAST_TTL, 255);
        set_option(descriptor, IPPROTO_IP, IP_TTL, 255);
        set_option(descriptor, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
        set_option(descriptor, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    }
    kith_udp_address place;
    memset(&place, 0, sizeof place);
    place.is_ipv6 = is_ipv6 != 0;
    place.port = 5353;
    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(&place, &storage);
    if (bind(descriptor, (struct sockaddr *)&storage, length) != 0) goto failed;
    return descriptor;

failed:;
    int error = errno;
    close(descriptor);
    return -error;
}

// Room for the information about one packet, aligned as the macros expect.
typedef union packet_control {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
} packet_control;

intptr_t kith_mdns_receive(int descriptor, void *bytes, size_t capacity, kith_udp_address *from,
                           kith_udp_address *destination, uint32_t *interface) {
    struct sockaddr_storage source;
    packet_control control;
    struct iovec part = {.iov_base = bytes, .iov_len = capacity};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_name = &source;
    message.msg_namelen = sizeof source;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    ssize_t count;
    do {
        count = recvmsg(descriptor, &message, 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return -errno;
    if (kith_udp_read(&source, from) != 0) memset(from, 0, sizeof *from);
    memset(destination, 0, sizeof *destination);
    *interface = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each != NULL; each = CMSG_NXTHDR(&message, each)) {
        if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(each), sizeof info);
            memcpy(destination->ip, &info.ipi_addr, 4);
            *interface = (uint32_t)info.ipi_ifindex;
        } else if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(each), sizeof info);
            memcpy(destination->ip, &info.ipi6_addr, 16);
            destination->is_ipv6 = 1;
            *interface = info.ipi6_ifindex;
        }
    }
    return count;
}

intptr_t kith_mdns_send(int descriptor, const void *bytes, size_t length, const kith_udp_address *to,
                        uint32_t interface) {
    struct sockaddr_storage storage;
    kith_udp_address place = *to;
    if (place.is_ipv6 && place.zone == 0 && (place.ip[0] == 0xFF || place.ip[0] == 0xFE)) place.zone = interface;
    packet_control control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = length};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_name = &storage;
    message.msg_namelen = kith_udp_write(&place, &storage);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    struct cmsghdr *header = &control.header;
    if (place.is_ipv6) {
        struct in6_pktinfo info;
        memset(&info, 0, sizeof info);
        info.ipi6_ifindex = interface;
        message.msg_controllen = CMSG_SPACE(sizeof info);
        header->cmsg_level = IPPROTO_IPV6;
        header->cmsg_type = IPV6_PKTINFO;
        header->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(header), &info, sizeof info);
    } else {
        struct in_pktinfo info;
        memset(&info, 0, sizeof info);
        info.ipi_ifindex = (int)interface;
        message.msg_controllen = CMSG_SPACE(sizeof info);
        header->cmsg_level = IPPROTO_IP;
        header->cmsg_type = IP_PKTINFO;
        header->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(header), &info, sizeof info);
    }
    for (;;) {
        ssize_t count = sendmsg(descriptor, &message, MSG_NOSIGNAL);
        if (count >= 0) return count;
        if (errno != EINTR) return -errno;
    }
}
#endif

static int64_t nanoseconds(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) return 0;
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t kith_network_suspended(void) {
#if defined(__linux__)
    int64_t awake = nanoseconds(CLOCK_MONOTONIC);
    return nanoseconds(CLOCK_BOOTTIME) - awake;
#elif defined(__APPLE__)
    int64_t awake = nanoseconds(CLOCK_UPTIME_RAW);
    return nanoseconds(CLOCK_MONOTONIC_RAW) - awake;
#else
    return 0;
#endif
}

int kith_network_resolve(const char *host, uint16_t port, kith_udp_address *addresses, int capacity) {
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_DGRAM;
    if (getaddrinfo(host, NULL, &hints, &found) != 0) return 0;
    int count = 0;
    for (struct addrinfo *entry = found; entry != NULL && count < capacity; entry = entry->ai_next) {
        memset(&addresses[count], 0, sizeof addresses[count]);
        if (kith_udp_read(entry->ai_addr, &addresses[count]) != 0) continue;
        addresses[count].port = port;
        count++;
    }
    freeaddrinfo(found);
    return count;
}
