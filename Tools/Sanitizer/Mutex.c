// Shows the thread sanitizer the locks of Swift's Mutex on Linux; scripts/sanitize loads it before the tests.
//
// Mutex takes a free lock by an atomic exchange that is inlined, which the sanitizer sees. A lock that is contended is
// taken and given back in libswiftSynchronization, which was not compiled for the sanitizer: without these two functions
// every such lock is invisible to it, and whatever the lock protects is reported as a race.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

// Of the sanitizer's runtime; absent in programs that the tests start and that were built without it.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

static SWIFT void (*real_lock)(uint32_t, SELF);
static SWIFT void (*real_unlock)(SELF);

__attribute__((constructor)) static void find(void) {
    real_lock = (SWIFT void (*)(uint32_t, SELF))dlsym(RTLD_NEXT, LOCK);
    real_unlock = (SWIFT void (*)(SELF))dlsym(RTLD_NEXT, UNLOCK);
}

// _MutexHandle._lockSlow(_:)
SWIFT void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
SWIFT void lock_slow(uint32_t thread, SELF) {
    real_lock(thread, self);
    if (__tsan_acquire) __tsan_acquire(self);
}

// _MutexHandle._unlockSlow()
SWIFT void unlock_slow(SELF) __asm__(UNLOCK);
SWIFT void unlock_slow(SELF) {
    if (__tsan_release) __tsan_release(self);
    real_unlock(self);
}
