#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithNetwork.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#endif

int kith_network_watch(void) {
#ifdef __linux__
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (descriptor < 0) return -errno;
    struct sockaddr_nl address;
    memset(&address, 0, sizeof address);
    address.nl_family = AF_NETLINK;
    address.nl_groups =
        RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    // A burst that overflows the buffer is an error at the next read: still news, and no need to hear of it twice.
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
