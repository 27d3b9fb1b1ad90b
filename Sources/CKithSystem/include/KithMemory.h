#ifndef KITH_MEMORY_H
#define KITH_MEMORY_H

#include <stddef.h>

/// Gives freed memory back now: before it is read how much the process takes. Nothing elsewhere.
void kith_release_free_memory(void);

/// How many bytes the process has allocated and not freed; 0 where that is not counted.
size_t kith_allocated_memory(void);

#endif
