#ifndef KITH_FILE_CONTENTS_H
#define KITH_FILE_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

// What an open file has besides its bytes: its length, its holes, its extended attributes, its other names.
// Every function returns what it says, or the negated errno.

/// Finds the first run of data at or behind `offset`. Returns 1; 0 when only a hole follows, or nothing.
///
/// On a file system without holes, all of the file is data.
int kith_file_next_data(int descriptor, uint64_t offset, uint64_t *start, uint64_t *end);

/// Sets the length of a file; what it grows by is a hole.
int kith_file_truncate(int descriptor, uint64_t size);

/// Makes a hole where there may be data; the length stays. -EOPNOTSUPP where the file system cannot.
int kith_file_punch(int descriptor, uint64_t offset, uint64_t length);

/// Gives the file `from` in `from_directory` the second name `to` in `to_directory`; a link is not followed.
int kith_file_link(int from_directory, const char *from, int to_directory, const char *to);

/// Makes an empty file share the contents of another, where the file system can. -EOPNOTSUPP or -EXDEV where it cannot.
int kith_file_clone(int from, int to);

/// Copies bytes inside of the kernel, to the same offset; may do less than asked for, 0 at the end of the file.
/// -EOPNOTSUPP where it cannot.
intptr_t kith_file_copy_range(int from, int to, uint64_t offset, size_t count);

/// Begins to write what a file was given to the disk, without waiting for it.
void kith_file_begin_sync(int descriptor);

/// Exchanges two names at once. -EOPNOTSUPP where the file system cannot.
int kith_file_exchange(int one_directory, const char *one, int other_directory, const char *other);

/// Writes the names of the extended attributes, each ending in NUL. Returns their length.
intptr_t kith_file_list_attributes(int descriptor, char *names, size_t capacity);

/// Writes the value of an extended attribute. Returns its length.
intptr_t kith_file_attribute(int descriptor, const char *name, void *value, size_t capacity);

/// Sets, or with a NULL `value` removes, an extended attribute.
int kith_file_set_attribute(int descriptor, const char *name, const void *value, size_t count);

/// The user this process acts as.
uint32_t kith_effective_user(void);

/// The permission bits that new files of this process do not get, as they were when it was first asked for.
uint32_t kith_umask(void);

/// The time, in seconds since 1970.
int64_t kith_now(void);

/// Waits.
void kith_sleep_milliseconds(uint32_t milliseconds);

#endif
