#include "KithMemory.h"

// Says whether the library is glibc: before the first of its headers nobody knows.
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

void kith_release_free_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

size_t kith_allocated_memory(void) {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#else
    return 0;
#endif
#else
    return 0;
#endif
}
