#ifndef KITH_REACTOR_H
#define KITH_REACTOR_H

#include <stdint.h>

// One thread told of all its descriptors: epoll on Linux, kqueue elsewhere.
//
// A descriptor is added once and reported at every change, never again for a state that was reported before. That it can
// be written is reported only while a task waits for that: the other end of a Unix socket makes room with every read.

enum {
    KITH_READY_TO_READ = 1,
    KITH_READY_TO_WRITE = 2,
    /// Nothing more comes, or the descriptor has failed.
    KITH_READY_ENDED = 4,
    /// The other end is gone altogether.
    KITH_READY_HUNG_UP = 8
};

/// Makes a reactor. Returns its descriptor or the negated errno.
int kith_reactor_open(void);

/// Has `descriptor` reported as `token`, which is not 0: with `reading` also whenever there is something new to read, and
/// at once if there is something. One that can only be written is added without.
///
/// Returns 0, 1 for what is always ready (a regular file) and never reported, or the negated errno.
int kith_reactor_add(int reactor, int descriptor, uint64_t token, int reading);

/// Begins, or ends, to report that a descriptor can be written; begun, it is also reported at once if it can. `reading` is
/// what it was added with.
///
/// Returns 0 or the negated errno.
int kith_reactor_watch_writing(int reactor, int descriptor, uint64_t token, int reading, int on);

/// Must come before a descriptor that was added is closed.
void kith_reactor_remove(int reactor, int descriptor);

/// Makes what wakes a reactor from its wait, which then reports the token 0. Returns a handle for `kith_reactor_wake` and
/// `kith_reactor_wakeable_close`, or the negated errno.
int kith_reactor_wakeable(int reactor);

/// Ends the reactor's wait, or the next one.
void kith_reactor_wake(int reactor, int handle);

/// Lets go of a handle.
void kith_reactor_wakeable_close(int handle);

/// Waits for at least one report; not at all when `blocks` is 0. Returns how many were written to `tokens` and `ready`, at
/// most `capacity`, or the negated errno.
int kith_reactor_wait(int reactor, uint64_t *tokens, uint8_t *ready, int capacity, int blocks);

/// Lets go of a reactor.
void kith_reactor_close(int reactor);

/// Calls `body` with `argument` on a thread of its own. Returns 0 or an errno.
int kith_thread_start(const char *name, void (*body)(void *), void *argument);

#endif
