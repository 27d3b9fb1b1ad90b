// Only in builds with -fsanitize=thread (make sanitize).
//
// Where two threads contend for a Mutex of Swift's, its library decides who gets it: code the thread sanitizer does not
// see, so that everything the lock guards looks like a race. These stand before the library's functions and tell it.
#if defined(__linux__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

extern void __tsan_acquire(void *address);
extern void __tsan_release(void *address);

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *handle
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

SWIFT void kith_mutex_lock_slow(uint32_t thread, SELF) __asm__(LOCK_SLOW);
SWIFT void kith_mutex_unlock_slow(SELF) __asm__(UNLOCK_SLOW);
SWIFT bool kith_mutex_try_lock_slow(SELF) __asm__(TRY_LOCK_SLOW);

SWIFT void kith_mutex_lock_slow(uint32_t thread, SELF) {
    ((SWIFT void (*)(uint32_t, SELF))dlsym(RTLD_NEXT, LOCK_SLOW))(thread, handle);
    __tsan_acquire(handle);
}

SWIFT void kith_mutex_unlock_slow(SELF) {
    __tsan_release(handle);
    ((SWIFT void (*)(SELF))dlsym(RTLD_NEXT, UNLOCK_SLOW))(handle);
}

SWIFT bool kith_mutex_try_lock_slow(SELF) {
    bool taken = ((SWIFT bool (*)(SELF))dlsym(RTLD_NEXT, TRY_LOCK_SLOW))(handle);
    if (taken) __tsan_acquire(handle);
    return taken;
}
#endif
#endif
