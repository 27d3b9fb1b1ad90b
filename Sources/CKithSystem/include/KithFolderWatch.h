#ifndef KITH_FOLDER_WATCH_H
#define KITH_FOLDER_WATCH_H

#include <stddef.h>
#include <stdint.h>

// Folders whose changes the kernel tells of (inotify(7)). Elsewhere than on Linux every function returns -ENOSYS.
// Every function returns what it says, or the negated errno.

/// The kinds of event; combined with `|`.
enum {
    /// A name has come, has gone, or what it stands for is another or has changed.
    KITH_FOLDER_CHANGED = 1,
    /// The name is one of a folder.
    KITH_FOLDER_IS_FOLDER = 2,
    /// A folder of that name was moved away, with all watches beneath it.
    KITH_FOLDER_MOVED_AWAY = 4,
    /// The folder itself has gone, or its file system; nothing more comes of this watch.
    KITH_FOLDER_GONE = 8,
    /// Events were lost: anything may have changed.
    KITH_FOLDER_OVERFLOW = 16
};

/// Opens a descriptor that becomes readable when there are events.
int kith_folder_watch_open(void);

/// Begins to watch a folder held open. Returns the number that its events carry; that of an earlier watch of the same
/// folder again. -ENOSPC when this user watches as many as the system lets it.
int kith_folder_watch_add(int watch, int folder);

/// Ends one.
int kith_folder_watch_remove(int watch, int number);

/// Reads events into a buffer of at least 4 kB, aligned as an int is. Returns the number of bytes; -EAGAIN when there are
/// none.
intptr_t kith_folder_watch_read(int watch, void *buffer, size_t capacity);

/// Takes the event at `*offset` of what was read, and moves on. Returns its kinds, 0 for one that is of no concern; -1 at
/// the end. `*name` is in the buffer, without a NUL.
int kith_folder_watch_next(
    const void *buffer, size_t count, size_t *offset, int *number, const uint8_t **name, size_t *length);

#endif
