#include "KithMemory.h"

#include <stddef.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

void kith_return_freed_memory(void) {
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
#endif
}

void kith_release_free_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
