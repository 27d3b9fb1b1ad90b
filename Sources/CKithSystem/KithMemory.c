#include "KithMemory.h"

// Says whether the library is glibc: before the first of its headers nobody knows.
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

void kith_return_freed_memory(void) {
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
#endif
}

void kith_release_free_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

size_t kith_allocated_memory(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#else
    return 0;
#endif
}
