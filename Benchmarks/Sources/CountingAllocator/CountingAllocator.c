#include "CountingAllocator.h"

#if defined(__linux__) && defined(__GLIBC__)
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

// These take the place of glibc's own functions in a program that links this target.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static _Atomic uint64_t allocations;

static void count(void) { atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed); }

void *malloc(size_t size) { count(); return __libc_malloc(size); }
void *calloc(size_t many, size_t size) { count(); return __libc_calloc(many, size); }
void *realloc(void *old, size_t size) { count(); return __libc_realloc(old, size); }
void *memalign(size_t alignment, size_t size) { count(); return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { count(); return __libc_memalign(alignment, size); }
int posix_memalign(void **result, size_t alignment, size_t size) {
    count();
    *result = __libc_memalign(alignment, size);
    return *result == NULL ? ENOMEM : 0;
}

uint64_t counting_allocator_count(void) { return atomic_load_explicit(&allocations, memory_order_relaxed); }
#else
uint64_t counting_allocator_count(void) { return 0; }
#endif
