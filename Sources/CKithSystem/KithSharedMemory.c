#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithSharedMemory.h"

#include <errno.h>

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int kith_shared_memory_make(size_t size, void **bytes) {
    int descriptor = memfd_create("kith-picture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return -errno;
    int error = 0;
    void *mapped = MAP_FAILED;
    if (ftruncate(descriptor, (off_t)size) != 0) error = errno;
    if (error == 0) {
        mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (mapped == MAP_FAILED) error = errno;
    }
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    // A kernel before 5.1 knows no seal against later writing: the other end then could, and gains nothing by it.
    if (error == 0 && fcntl(descriptor, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) != 0
        && fcntl(descriptor, F_ADD_SEALS, seals) != 0) error = errno;
    if (error != 0) {
        if (mapped != MAP_FAILED) munmap(mapped, size);
        close(descriptor);
        return -error;
    }
    *bytes = mapped;
    return descriptor;
}

int kith_shared_memory_map(int descriptor, size_t size, const void **bytes) {
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0) return -errno;
    struct stat info;
    if (fstat(descriptor, &info) != 0) return -errno;
    // Reading what was cut off would end this process.
    if (!(seals & F_SEAL_SHRINK) || info.st_size < 0 || (size_t)info.st_size < size) return -EINVAL;
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) return -errno;
    *bytes = mapped;
    return 0;
}

void kith_shared_memory_unmap(const void *bytes, size_t size) { munmap((void *)bytes, size); }
#else
int kith_shared_memory_make(size_t size, void **bytes) {
    (void)size;
    (void)bytes;
    return -ENOTSUP;
}

int kith_shared_memory_map(int descriptor, size_t size, const void **bytes) {
    (void)descriptor;
    (void)size;
    (void)bytes;
    return -ENOTSUP;
}

void kith_shared_memory_unmap(const void *bytes, size_t size) {
    (void)bytes;
    (void)size;
}
#endif
