#ifndef KITH_SANDBOX_H
#define KITH_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

// A child process that reads hostile files: it has one socket, and from its confinement on nothing but what comes through
// it. Every function returns what it says, or the negated errno; calls cut short by a signal are made again.

/// The limits of a confined process.
typedef struct kith_sandbox_limits {
    /// The most bytes of memory, its program and libraries among them.
    uint64_t memory;
    /// The most seconds of processor time in its whole life; the kernel then ends it.
    uint32_t processor_seconds;
} kith_sandbox_limits;

/// Gives up, for good, all that a process can do but to compute, to take memory up to the limit, to read and write
/// descriptors it has or is handed, and to start threads. Linux: no new privileges, resource limits, Landlock where the
/// kernel has it, a seccomp filter. -ENOTSUP where there is no such confinement: then nothing hostile may be read.
///
/// What a library loads when it is used first has to be loaded before.
int kith_sandbox_enter(const kith_sandbox_limits *limits);

/// Starts `path` with its end of a socket as descriptor 0, /dev/null as 1 and 2, and no other descriptor; its working
/// directory is the root, its environment nearly empty. Writes this end's descriptor, which is close-on-exec, and the
/// number of the process, to be ended with kith_helper_end.
int kith_helper_start(const char *path, int *socket, int32_t *process);

/// The same with this environment: NUL-terminated strings one after the other, in as many bytes as told.
int kith_helper_start_with(
    const char *path, const char *environment, size_t environment_length, int *socket, int32_t *process);

/// Kills a process that was started, if it still runs, and takes it out of the process table, waiting for it.
///
/// Returns 0 when it had ended by itself with status 0, its status, or 256 and the number of the signal that ended it.
int kith_helper_end(int32_t process);

/// Kills a process that was started; kith_helper_end has to follow.
void kith_helper_kill(int32_t process);

/// Writes all bytes, with the descriptor `passed` beside the first when it is not -1. -ETIMEDOUT after `milliseconds`;
/// -EPIPE, and no signal, when nobody reads.
int kith_helper_send(int socket, const void *bytes, size_t length, int passed, int milliseconds);

/// Reads exactly `length` bytes. -ETIMEDOUT after `milliseconds`; -EPIPE at an early end. A descriptor that comes along is
/// written to `*passed`, which may be NULL: then it is closed.
int kith_helper_receive(int socket, void *bytes, size_t length, int *passed, int milliseconds);

#endif
