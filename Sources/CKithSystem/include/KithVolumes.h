#ifndef KITH_VOLUMES_H
#define KITH_VOLUMES_H

#include <stddef.h>
#include <stdint.h>

// File systems and their disks. Every function returns what it says, or the negated errno.

/// The room and the state of a mounted file system, in bytes.
typedef struct kith_volume_room {
    uint64_t total;
    /// What this process's user may still fill.
    uint64_t free;
    int32_t is_read_only;
} kith_volume_room;

/// Asks the file system of an open file for its room. May wait for as long as a server does not answer.
int kith_volume_measure(int descriptor, kith_volume_room *room);

/// Writes the UUID of an open file's file system, 16 bytes. Returns 16; -EOPNOTSUPP where it has none that can be asked for.
int kith_volume_uuid(int descriptor, uint8_t *uuid);

/// Waits until the table of mounts changes that `mounts` was opened as (`/proc/self/mountinfo`), or `wake` becomes
/// readable. Returns 1 when it has changed, 0 when it was woken.
int kith_volume_wait(int mounts, int wake);

/// Has reads and writes of an open file bypass the cache. -EOPNOTSUPP where they cannot.
int kith_volume_bypass_cache(int descriptor);

/// Asks the system to forget what it caches of an open file.
int kith_volume_drop_cache(int descriptor);

#endif
