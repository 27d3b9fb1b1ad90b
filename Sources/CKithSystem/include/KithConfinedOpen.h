#ifndef KITH_CONFINED_OPEN_H
#define KITH_CONFINED_OPEN_H

#include "KithProtection.h"

#include <stddef.h>
#include <stdint.h>

// Files beneath a folder's descriptor. Every function returns what it says, or the negated errno; all descriptors are
// close-on-exec, and calls cut short by a signal are made again. Names end in NUL.

/// The flags for opening a file; combined with `|`.
enum {
    KITH_FILE_READ = 0,
    KITH_FILE_WRITE = 1,
    /// Only a name for other calls: neither read nor written. Where the system has no such thing, opened for reading.
    KITH_FILE_PATH = 2,
    KITH_FILE_DIRECTORY = 4,
    /// A symbolic link in the last place is an error (with PATH on Linux: opened itself).
    KITH_FILE_NO_FOLLOW = 8,
    /// Makes a new file; an existing one is an error.
    KITH_FILE_CREATE = 16,
    /// Read and written.
    KITH_FILE_READ_WRITE = 32,
    /// Of a path beneath a folder: a link anywhere in it gives -ELOOP.
    KITH_FILE_NO_LINKS = 64,
    /// Of a path beneath a folder: that is its top, for absolute links and for `..` as well.
    KITH_FILE_AT_TOP = 128
};

/// The attributes of a file, the same on every system.
typedef struct kith_file_info {
    uint64_t device, inode, size, links;
    /// The bytes it takes on the disk: fewer than its size when it has holes.
    uint64_t allocated;
    int64_t seconds;
    uint32_t nanoseconds;
    /// The time of the last change of anything about it, its name and permissions too; no program can set it.
    int64_t changed_seconds;
    uint32_t changed_nanoseconds;
    /// The time at which the file was made, of its inode; 0 in `has_created` where the file system does not say.
    int64_t created_seconds;
    uint32_t created_nanoseconds;
    uint32_t has_created;
    /// Permission bits and the type bits, as in st_mode.
    uint32_t mode;
    uint32_t user, group;
    /// The numbers of the device a special file stands for.
    uint32_t special_major, special_minor;
} kith_file_info;

/// Opens `path`, which is relative, so that nothing outside the folder `directory` is reached at any moment.
///
/// Links inside are followed while they stay inside; absolute links, and `..` above the folder, give -EXDEV.
/// With `walk` not 0, with `protection`, or where openat2(2) is missing, each component is opened by itself. What
/// `protection` covers, which may be NULL, gives -KITH_ERROR_PROTECTED, on the way as well; links are then those that
/// their text says, so that none of /proc leads past a name.
int kith_open_beneath(
    int directory, const char *path, int flags, uint32_t mode, int walk, const kith_protection *protection);

/// Opens `path` by the system's own rules; relative to `directory`, or to the working directory for -1.
int kith_open(int directory, const char *path, int flags, uint32_t mode);

/// Describes `name` in `directory`, a link itself; for the empty name, what the descriptor stands for.
int kith_file_stat(int directory, const char *name, kith_file_info *info);

/// Reads a link. Returns the length; -ENAMETOOLONG when `capacity` is too small.
int kith_file_readlink(int directory, const char *name, uint8_t *target, size_t capacity);

/// Makes a folder, a link; renames; removes a file or (with `is_directory`) an empty folder.
int kith_file_mkdir(int directory, const char *name, uint32_t mode);
int kith_file_symlink(const char *target, int directory, const char *name);
int kith_file_rename(int from_directory, const char *from, int to_directory, const char *to, int overwrite);
int kith_file_unlink(int directory, const char *name, int is_directory);

/// Renames to a name nothing has, where the file system has no call for that: NFS, 9p, many a FUSE; exFAT on macOS.
int kith_file_rename_in_steps(int from_directory, const char *from, int to_directory, const char *to);

/// Sets the permission bits of an open file.
int kith_file_chmod(int descriptor, uint32_t mode);

/// Sets the time of change of an open file (`name` empty) or of a link by name; the time of access stays.
int kith_file_times(int descriptor, const char *name, int64_t seconds, uint32_t nanoseconds);

/// Reads, writes. `offset` -1: at the descriptor's own place. May do less than asked for.
intptr_t kith_file_read(int descriptor, void *bytes, size_t count, int64_t offset);
intptr_t kith_file_write(int descriptor, const void *bytes, size_t count, int64_t offset);

/// Brings the contents of a file to the disk.
int kith_file_sync(int descriptor);

/// Locks a file for this descriptor alone (flock); waits for it when `wait` is not 0, else -EWOULDBLOCK.
int kith_file_lock(int descriptor, int wait);

/// Reports how many bytes the file system of an open file has, and how many of them this process's user may still fill.
int kith_file_system_room(int descriptor, uint64_t *total, uint64_t *free);

void kith_file_close(int descriptor);

/// A listing of a folder, from its beginning. NULL with `*failure` set on failure. The descriptor stays the caller's.
void *kith_directory_open(int descriptor, int *failure);

/// Copies the next name, without `.` and `..`. Returns its length, 0 at the end. `*kind` is what the listing says of it: f
/// a file, d a folder, l a link, p a pipe, s a socket, c and b devices, ? when it does not say.
int kith_directory_next(void *listing, uint8_t *name, size_t capacity, uint8_t *kind);

void kith_directory_close(void *listing);

/// Writes what this machine calls a user, or a group. Returns its length; -ENOENT when it has no name.
int kith_user_name(uint32_t user, uint8_t *name, size_t capacity);
int kith_group_name(uint32_t group, uint8_t *name, size_t capacity);

/// Writes the home folder of this process's account. Returns its length.
int kith_home(uint8_t *path, size_t capacity);

#endif
