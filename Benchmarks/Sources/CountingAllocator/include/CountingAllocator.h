#ifndef COUNTING_ALLOCATOR_H
#define COUNTING_ALLOCATOR_H
#include <stdint.h>

/// How many allocations this process has made since its start; 0 where they cannot be counted.
uint64_t counting_allocator_count(void);

#endif
