#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "KithFileContents.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#endif

int kith_file_next_data(int descriptor, uint64_t offset, uint64_t *start, uint64_t *end) {
    off_t data = lseek(descriptor, (off_t)offset, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return 0;
    if (data < 0) {
        struct stat status;
        if (errno != EINVAL && errno != EOPNOTSUPP) return -errno;
        if (fstat(descriptor, &status) < 0) return -errno;
        if ((uint64_t)status.st_size <= offset) return 0;
        *start = offset;
        *end = (uint64_t)status.st_size;
        return 1;
    }
    off_t hole = lseek(descriptor, data, SEEK_HOLE);
    // It was shortened meanwhile: nothing follows.
    if (hole < 0) return errno == ENXIO ? 0 : -errno;
    *start = (uint64_t)data;
    *end = (uint64_t)hole;
    return 1;
}

int kith_file_truncate(int descriptor, uint64_t size) {
    int result;
    if (size > INT64_MAX) return -EFBIG;
    do result = ftruncate(descriptor, (off_t)size);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}

int kith_file_punch(int descriptor, uint64_t offset, uint64_t length) {
#if defined(__linux__)
    int result;
    // FALLOC_FL_KEEP_SIZE is 1, FALLOC_FL_PUNCH_HOLE 2.
    do result = fallocate(descriptor, 1 | 2, (off_t)offset, (off_t)length);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
#else
    (void)descriptor, (void)offset, (void)length;
    return -EOPNOTSUPP;
#endif
}

int kith_file_link(int from_directory, const char *from, int to_directory, const char *to) {
    return linkat(from_directory, from, to_directory, to, 0) < 0 ? -errno : 0;
}

// What file systems say when they cannot, each in its way.
static int cannot(int failure) {
    return failure == ENOSYS || failure == EINVAL || failure == ENOTTY || failure == EOPNOTSUPP || failure == EBADF ||
           failure == EPERM || failure == ETXTBSY;
}

int kith_file_clone(int from, int to) {
#ifdef __linux__
    int result;
    do result = ioctl(to, FICLONE, from);
    while (result < 0 && errno == EINTR);
    if (result == 0) return 0;
    return cannot(errno) ? -EOPNOTSUPP : -errno;
#else
    (void)from, (void)to;
    return -EOPNOTSUPP;
#endif
}

intptr_t kith_file_copy_range(int from, int to, uint64_t offset, size_t count) {
#ifdef __linux__
    loff_t in = (loff_t)offset, out = (loff_t)offset;
    ssize_t result;
    do result = copy_file_range(from, &in, to, &out, count, 0);
    while (result < 0 && errno == EINTR);
    if (result >= 0) return result;
    return cannot(errno) || errno == EXDEV ? -EOPNOTSUPP : -(intptr_t)errno;
#else
    (void)from, (void)to, (void)offset, (void)count;
    return -EOPNOTSUPP;
#endif
}

void kith_file_begin_sync(int descriptor) {
#ifdef __linux__
    sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)descriptor;
#endif
}

int kith_file_exchange(int one_directory, const char *one, int other_directory, const char *other) {
#if defined(__linux__)
    // RENAME_EXCHANGE is 2.
    if (syscall(SYS_renameat2, one_directory, one, other_directory, other, 2) == 0) return 0;
#elif defined(__APPLE__)
    if (renameatx_np(one_directory, one, other_directory, other, RENAME_SWAP) == 0) return 0;
#else
    errno = ENOSYS;
#endif
    return errno == ENOSYS || errno == EINVAL || errno == ENOTSUP ? -EOPNOTSUPP : -errno;
}

intptr_t kith_file_list_attributes(int descriptor, char *names, size_t capacity) {
#ifdef __APPLE__
    ssize_t result = flistxattr(descriptor, names, capacity, 0);
#else
    ssize_t result = flistxattr(descriptor, names, capacity);
#endif
    return result < 0 ? -(intptr_t)errno : (intptr_t)result;
}

intptr_t kith_file_attribute(int descriptor, const char *name, void *value, size_t capacity) {
#ifdef __APPLE__
    ssize_t result = fgetxattr(descriptor, name, value, capacity, 0, 0);
#else
    ssize_t result = fgetxattr(descriptor, name, value, capacity);
#endif
    return result < 0 ? -(intptr_t)errno : (intptr_t)result;
}

int kith_file_set_attribute(int descriptor, const char *name, const void *value, size_t count) {
    int result;
#ifdef __APPLE__
    result = value ? fsetxattr(descriptor, name, value, count, 0, 0) : fremovexattr(descriptor, name, 0);
#else
    result = value ? fsetxattr(descriptor, name, value, count, 0) : fremovexattr(descriptor, name);
#endif
    return result < 0 ? -errno : 0;
}

uint32_t kith_effective_user(void) { return (uint32_t)geteuid(); }

static mode_t first_umask;
static pthread_once_t umask_read = PTHREAD_ONCE_INIT;

static void read_umask(void) {
    // It can only be read by setting it: to what grants least, should another thread make a file right now.
    first_umask = umask(077);
    umask(first_umask);
}

uint32_t kith_umask(void) {
    pthread_once(&umask_read, read_umask);
    return (uint32_t)first_umask;
}

int64_t kith_now(void) { return (int64_t)time(NULL); }

void kith_sleep_milliseconds(uint32_t milliseconds) {
    struct timespec left = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {}
}
