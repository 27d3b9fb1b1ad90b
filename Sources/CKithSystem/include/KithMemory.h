#ifndef KITH_MEMORY_H
#define KITH_MEMORY_H

#include <stddef.h>

/// Gives freed memory back to the system now, where the C library is glibc, which keeps it. Nothing elsewhere.
void kith_release_free_memory(void);

/// Gives up the pages of the program and its libraries that this process has used so far: what it needs again it maps
/// again, from what the system keeps of files. After a start most of them have done their work. Nothing elsewhere.
void kith_release_program(void);

/// From now on the allocator keeps little of what is free, at some cost where much is taken again: for a program that
/// runs for weeks and does much once in a while. Nothing elsewhere.
void kith_keep_memory_small(void);

/// Returns the number of bytes the process has allocated and not freed; 0 where that is not counted.
size_t kith_allocated_memory(void);

/// Returns where `count` bytes begin in others, or `length` when they are not among them. Of no bytes that is 0.
size_t kith_find_bytes(const void *bytes, size_t length, const void *wanted, size_t count);

/// Keeps this process's memory from core dumps and, on Linux, from other processes of the same user, as a debugger.
/// A program it executes is an ordinary one again.
void kith_hide_memory(void);

/// Has this process leave no core, whatever else is asked for; kith_restore_core_limit is for its children.
void kith_forbid_core(void);

/// Gives a child, between fork and exec, the limit of cores this process was started with.
void kith_restore_core_limit(void);

/// Moves the value of a variable of the environment to `value`: it is gone from the environment, and overwritten where
/// the system put it. Returns its length, 0 when it is not set; more than `capacity` of it is lost, and the length says so.
size_t kith_take_variable(const char *name, char *value, size_t capacity);

#endif
