#ifndef COUNTING_ALLOCATOR_H
#define COUNTING_ALLOCATOR_H
#include <stdint.h>

/// How many allocations this process has made since its start; 0 where they cannot be counted.
uint64_t counting_allocator_count(void);

/// How many bytes are allocated now, as the allocator rounds them; 0 where they cannot be counted.
int64_t counting_allocator_live(void);

#endif
