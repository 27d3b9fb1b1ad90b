#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "KithVolumes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/ioctl.h>
// Of Linux 6.9; the headers of many systems are older.
struct kith_uuid_answer {
    uint8_t length;
    uint8_t uuid[16];
};
#define KITH_GET_UUID _IOR(0x15, 0, struct kith_uuid_answer)
#endif

// What a file system says of itself is not to be relied on: the product may not fit.
static uint64_t bytes(uint64_t blocks, uint64_t size) {
    uint64_t product;
    return __builtin_mul_overflow(blocks, size, &product) ? UINT64_MAX : product;
}

int kith_volume_measure(int descriptor, kith_volume_room *room) {
    struct statvfs status;
    int result;
    do result = fstatvfs(descriptor, &status);
    while (result < 0 && errno == EINTR);
    if (result < 0) return -errno;
    room->total = bytes(status.f_blocks, status.f_frsize);
    room->free = bytes(status.f_bavail, status.f_frsize);
    room->is_read_only = (status.f_flag & ST_RDONLY) != 0;
    return 0;
}

int kith_volume_uuid(int descriptor, uint8_t *uuid) {
#ifdef __linux__
    struct kith_uuid_answer answer = {.length = 0};
    if (ioctl(descriptor, KITH_GET_UUID, &answer) < 0) return -EOPNOTSUPP;
    if (answer.length != sizeof answer.uuid) return -EOPNOTSUPP;
    memcpy(uuid, answer.uuid, sizeof answer.uuid);
    return sizeof answer.uuid;
#else
    (void)descriptor, (void)uuid;
    return -EOPNOTSUPP;
#endif
}

int kith_volume_wait(int mounts, int wake) {
    struct pollfd waited[2] = {{.fd = mounts, .events = POLLPRI}, {.fd = wake, .events = POLLIN}};
    for (;;) {
        int result = poll(waited, 2, -1);
        if (result < 0 && errno == EINTR) continue;
        if (result < 0) return -errno;
        if (waited[1].revents != 0) return 0;
        // The table says that it has changed as an error, too.
        if (waited[0].revents & (POLLPRI | POLLERR)) return 1;
        if (waited[0].revents & POLLNVAL) return -EBADF;
    }
}

int kith_volume_bypass_cache(int descriptor) {
#if defined(__linux__)
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0) return -errno;
    return fcntl(descriptor, F_SETFL, flags | O_DIRECT) < 0 ? -EOPNOTSUPP : 0;
#elif defined(__APPLE__)
    return fcntl(descriptor, F_NOCACHE, 1) < 0 ? -EOPNOTSUPP : 0;
#else
    (void)descriptor;
    return -EOPNOTSUPP;
#endif
}

int kith_volume_drop_cache(int descriptor) {
#if defined(__linux__)
    return -posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
#else
    (void)descriptor;
    return -EOPNOTSUPP;
#endif
}
