#ifndef KITH_MEMORY_H
#define KITH_MEMORY_H

#include <stddef.h>

/// Has this process give freed memory back to the system: call once, first thing in a daemon.
///
/// glibc raises its thresholds by itself as large blocks come and go, and then keeps as much as 64 MiB; naming them
/// stops that. Blocks below 2 MiB, which is all that copies use, still come from the heap. Nothing elsewhere.
void kith_return_freed_memory(void);

/// Gives freed memory back now: before it is read how much the process takes. Nothing elsewhere.
void kith_release_free_memory(void);

/// How many bytes the process has allocated and not freed; 0 where that is not counted.
size_t kith_allocated_memory(void);

#endif
