#include "CountingAllocator.h"

#if defined(__linux__) && defined(__GLIBC__)
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

// These take the place of glibc's own functions in a program that links this target.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Atomic uint64_t allocations;
static _Atomic int64_t live;

static void *count(void *block) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    if (block) atomic_fetch_add_explicit(&live, (int64_t)malloc_usable_size(block), memory_order_relaxed);
    return block;
}

static void forget(void *block) {
    if (block) atomic_fetch_sub_explicit(&live, (int64_t)malloc_usable_size(block), memory_order_relaxed);
}

void *malloc(size_t size) { return count(__libc_malloc(size)); }
void *calloc(size_t many, size_t size) { return count(__libc_calloc(many, size)); }
void *memalign(size_t alignment, size_t size) { return count(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return count(__libc_memalign(alignment, size)); }
void *realloc(void *old, size_t size) {
    forget(old);
    return count(__libc_realloc(old, size));
}
int posix_memalign(void **result, size_t alignment, size_t size) {
    *result = count(__libc_memalign(alignment, size));
    return *result == NULL ? ENOMEM : 0;
}
void free(void *block) {
    forget(block);
    __libc_free(block);
}

uint64_t counting_allocator_count(void) { return atomic_load_explicit(&allocations, memory_order_relaxed); }
int64_t counting_allocator_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }
#else
uint64_t counting_allocator_count(void) { return 0; }
int64_t counting_allocator_live(void) { return 0; }
#endif
