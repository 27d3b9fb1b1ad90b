#ifndef KITH_SHARED_MEMORY_H
#define KITH_SHARED_MEMORY_H

#include <stddef.h>

// Memory that two processes see, by way of a descriptor that one hands the other. Every function returns what it says, or
// the negated errno. Linux; elsewhere -ENOTSUP.

/// Makes `size` bytes of memory, all zero, maps them for writing at `*bytes`, and seals them: nobody can make them more or
/// fewer, nor map them for writing any more. Returns the descriptor, which is close-on-exec.
int kith_shared_memory_make(size_t size, void **bytes);

/// Maps the first `size` bytes of such memory of another process for reading, at `*bytes`. -EINVAL when there are fewer,
/// or when the other process could still take them away. The descriptor stays the caller's.
int kith_shared_memory_map(int descriptor, size_t size, const void **bytes);

/// Takes a mapping of `size` bytes away.
void kith_shared_memory_unmap(const void *bytes, size_t size);

#endif
