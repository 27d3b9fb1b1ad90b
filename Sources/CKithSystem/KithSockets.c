#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithSockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/epoll.h>
#else
#include <sys/event.h>
#include <sys/time.h>
#endif

static int make(int family, int type) {
#ifdef __linux__
    int descriptor = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return descriptor < 0 ? -errno : descriptor;
#else
    int descriptor = socket(family, type, 0);
    if (descriptor < 0) return -errno;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
#ifdef SO_NOSIGPIPE
    int one = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof one);
#endif
    return descriptor;
#endif
}

static int fail(int descriptor) {
    int error = errno;
    close(descriptor);
    return -error;
}

static void set(int descriptor, int level, int name, int value) {
    setsockopt(descriptor, level, name, &value, sizeof value);
}

// What a connection carries may be keystrokes; and one whose other end vanished without a word shall end some day.
static void tune(int descriptor) {
    set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
    set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 15);
    set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 8);
#endif
}

static int fill_path(const char *path, struct sockaddr_un *to) {
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof to->sun_path) return -ENAMETOOLONG;
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    memcpy(to->sun_path, path, length);
    return 0;
}

int kith_stream_connect(const kith_udp_address *to) {
    int descriptor = make(to->is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM);
    if (descriptor < 0) return descriptor;
    tune(descriptor);
    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(to, &storage);
    if (connect(descriptor, (struct sockaddr *)&storage, length) == 0) return descriptor;
    return errno == EINPROGRESS || errno == EINTR ? descriptor : fail(descriptor);
}

int kith_stream_connect_path(const char *path) {
    struct sockaddr_un address;
    int status = fill_path(path, &address);
    if (status != 0) return status;
    int descriptor = make(AF_UNIX, SOCK_STREAM);
    if (descriptor < 0) return descriptor;
    for (;;) {
        if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
        if (errno != EINTR) return fail(descriptor);
    }
}

int kith_stream_outcome(int descriptor) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return -errno;
    return -error;
}

int kith_stream_listen(const kith_udp_address *at, int backlog) {
    int descriptor = make(at->is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM);
    if (descriptor < 0) return descriptor;
    // A port whose last connections are still in TIME_WAIT is free all the same.
    set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->is_ipv6) set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(at, &storage);
    if (bind(descriptor, (struct sockaddr *)&storage, length) != 0 || listen(descriptor, backlog) != 0)
        return fail(descriptor);
    return descriptor;
}

int kith_stream_listen_path(const char *path, int backlog) {
    struct sockaddr_un address;
    int status = fill_path(path, &address);
    if (status != 0) return status;
    int descriptor = make(AF_UNIX, SOCK_STREAM);
    if (descriptor < 0) return descriptor;
    // The mode of the new socket comes from the descriptor's where the system has that; chmod covers the others.
    fchmod(descriptor, 0600);
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) return fail(descriptor);
#ifdef __linux__
    // By its name it may be something else by now.
    int narrowed = 0;
#else
    int narrowed = chmod(path, 0600);
#endif
    if (narrowed != 0 || listen(descriptor, backlog) != 0) {
        int error = errno;
        unlink(path);
        close(descriptor);
        return -error;
    }
    return descriptor;
}

int kith_stream_accept(int descriptor, kith_udp_address *peer) {
    struct sockaddr_storage storage;
    int accepted;
    do {
        socklen_t length = sizeof storage;
        memset(&storage, 0, sizeof storage);
#ifdef __linux__
        accepted = accept4(descriptor, (struct sockaddr *)&storage, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
        accepted = accept(descriptor, (struct sockaddr *)&storage, &length);
#endif
    } while (accepted < 0 && errno == EINTR);
    if (accepted < 0) return -errno;
#ifndef __linux__
    fcntl(accepted, F_SETFD, FD_CLOEXEC);
    fcntl(accepted, F_SETFL, O_NONBLOCK);
#ifdef SO_NOSIGPIPE
    set(accepted, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
#endif
    memset(peer, 0, sizeof *peer);
    if (storage.ss_family == AF_INET || storage.ss_family == AF_INET6) {
        tune(accepted);
        kith_udp_read(&storage, peer);
    }
    return accepted;
}

intptr_t kith_stream_receive(int descriptor, void *bytes, size_t capacity) {
    for (;;) {
        ssize_t count = recv(descriptor, bytes, capacity, 0);
        if (count >= 0) return count;
        if (errno != EINTR) return -errno;
    }
}

intptr_t kith_stream_send(int descriptor, const void *bytes, size_t length) {
#ifdef MSG_NOSIGNAL
    int flags = MSG_NOSIGNAL;
#else
    int flags = 0;
#endif
    for (;;) {
        ssize_t count = send(descriptor, bytes, length, flags);
        if (count >= 0) return count;
        if (errno != EINTR) return -errno;
    }
}

int kith_stream_finish(int descriptor) { return shutdown(descriptor, SHUT_WR) == 0 ? 0 : -errno; }

void kith_stream_abort_on_close(int descriptor) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

int kith_datagram_open(const kith_udp_address *at) {
    int descriptor = make(at->is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM);
    if (descriptor < 0) return descriptor;
    if (at->is_ipv6) set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    struct sockaddr_storage storage;
    socklen_t length = kith_udp_write(at, &storage);
    if (bind(descriptor, (struct sockaddr *)&storage, length) != 0) return fail(descriptor);
    return descriptor;
}

intptr_t kith_datagram_receive(int descriptor, void *bytes, size_t capacity, kith_udp_address *from) {
    for (;;) {
        struct sockaddr_storage storage;
        socklen_t length = sizeof storage;
#ifdef __linux__
        ssize_t count = recvfrom(descriptor, bytes, capacity, MSG_TRUNC, (struct sockaddr *)&storage, &length);
#else
        ssize_t count = recvfrom(descriptor, bytes, capacity, 0, (struct sockaddr *)&storage, &length);
#endif
        if (count >= 0) {
            int status = kith_udp_read(&storage, from);
            return status != 0 ? status : count;
        }
        if (errno != EINTR) return -errno;
    }
}

intptr_t kith_datagram_send(int descriptor, const void *bytes, size_t length, const kith_udp_address *to) {
    struct sockaddr_storage storage;
    socklen_t size = kith_udp_write(to, &storage);
    for (;;) {
        ssize_t count = sendto(descriptor, bytes, length, 0, (struct sockaddr *)&storage, size);
        if (count >= 0) return count;
        if (errno != EINTR) return -errno;
    }
}

void kith_socket_close(int descriptor) { close(descriptor); }

void kith_socket_unlink(const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISSOCK(info.st_mode)) unlink(path);
}

int kith_resolve(const char *name, kith_udp_address *addresses, int capacity) {
    struct addrinfo hints;
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    struct addrinfo *list = NULL;
    int status = getaddrinfo(name, NULL, &hints, &list);
    switch (status) {
    case 0: break;
    case EAI_AGAIN: return -EAGAIN;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_SYSTEM: return errno != 0 ? -errno : -EIO;
    default: return 0;
    }
    int count = 0;
    for (struct addrinfo *entry = list; entry != NULL && count < capacity; entry = entry->ai_next) {
        if (kith_udp_read(entry->ai_addr, &addresses[count]) == 0) count++;
    }
    freeaddrinfo(list);
    return count;
}

static struct rlimit limit_before;
static int limit_was_raised;

void kith_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    // More than that nobody needs, and an unlimited number upsets programs that close all there might be.
    rlim_t wanted = limit.rlim_max > 65536 ? 65536 : limit.rlim_max;
    if (limit.rlim_cur >= wanted) return;
    limit_before = limit;
    limit.rlim_cur = wanted;
    limit_was_raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int kith_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    return limit.rlim_cur > 65536 ? 65536 : (int)limit.rlim_cur;
}

void kith_restore_descriptor_limit(void) {
    if (limit_was_raised) setrlimit(RLIMIT_NOFILE, &limit_before);
}
