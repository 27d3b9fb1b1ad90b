#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "KithConfinedOpen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#endif

// How many links a path may lead through, as on Linux.
#define MAXIMUM_LINKS 40
#define MAXIMUM_DEPTH 256
#define MAXIMUM_PATH 8192

#define RETRY(result, call)                      \
    do {                                         \
        (result) = (call);                       \
    } while ((result) < 0 && errno == EINTR)

static int native_flags(int flags) {
    // O_NONBLOCK: opening a FIFO or a device must not wait; for regular files it means nothing.
    int native = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | ((flags & KITH_FILE_WRITE) ? O_WRONLY : O_RDONLY);
    if (flags & KITH_FILE_READ_WRITE) native = (native & ~O_ACCMODE) | O_RDWR;
#if defined(O_PATH)
    if (flags & KITH_FILE_PATH) native = O_CLOEXEC | O_PATH;
#elif defined(O_SEARCH)
    // A folder that may be entered and not listed.
    if ((flags & KITH_FILE_PATH) && (flags & KITH_FILE_DIRECTORY)) native = O_CLOEXEC | O_SEARCH;
#endif
    if (flags & KITH_FILE_DIRECTORY) native |= O_DIRECTORY;
    if (flags & KITH_FILE_NO_FOLLOW) native |= O_NOFOLLOW;
    if (flags & KITH_FILE_CREATE) native |= O_CREAT | O_EXCL;
    return native;
}

int kith_open(int directory, const char *path, int flags, uint32_t mode) {
    int result;
    RETRY(result, openat(directory < 0 ? AT_FDCWD : directory, path, native_flags(flags), (mode_t)mode));
    return result < 0 ? -errno : result;
}

// Descriptors of the folders from the root to where the walk is. The first belongs to the caller.
struct walk {
    int folders[MAXIMUM_DEPTH];
    int depth;
};

static int walk_end(struct walk *walk, int keep, int result) {
    while (walk->depth > keep) close(walk->folders[walk->depth--]);
    return result;
}

// Opens one name that leads to no link, unless what it stands for is kept.
static int open_unprotected(
    int directory, const char *name, int flags, uint32_t mode, const kith_protection *protection) {
    int opened = kith_open(directory, name, flags, mode);
    // What is made only now is nothing that is kept.
    if (opened < 0 || protection == NULL || (flags & KITH_FILE_CREATE)) return opened;
    int covered = kith_protection_covers(protection, opened);
    if (covered == 0) return opened;
    close(opened);
    return covered < 0 ? covered : -KITH_ERROR_PROTECTED;
}

static int walk_beneath(
    int directory, const char *path, int flags, uint32_t mode, const kith_protection *protection) {
    char rest[MAXIMUM_PATH], target[MAXIMUM_PATH], joined[MAXIMUM_PATH], name[256];
    struct walk walk = {.depth = 0};
    walk.folders[0] = directory;
    int links = 0;
    if (strlen(path) >= sizeof(rest)) return -ENAMETOOLONG;
    strcpy(rest, path);
    const char *next = rest;
    while (1) {
        while (*next == '/') next++;
        size_t length = strcspn(next, "/");
        if (length >= sizeof(name)) return walk_end(&walk, 0, -ENAMETOOLONG);
        memcpy(name, next, length);
        name[length] = 0;
        next += length;
        int needs_directory = *next == '/';
        while (*next == '/') next++;
        int is_last = *next == 0;

        if (length == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            if (length == 2) {
                if (walk.depth == 0 && !(flags & KITH_FILE_AT_TOP)) return -EXDEV;
                if (walk.depth > 0) walk_end(&walk, walk.depth - 1, 0);
            }
            if (!is_last) continue;
            int here = walk.folders[walk.depth];
            return walk_end(
                &walk, 0, open_unprotected(here, ".", flags & ~KITH_FILE_CREATE, mode, protection));
        }

        int here = walk.folders[walk.depth];
        int follows = !is_last || needs_directory || !(flags & (KITH_FILE_NO_FOLLOW | KITH_FILE_CREATE));
        ssize_t count = readlinkat(here, name, target, sizeof(target) - 1);
        if (count >= 0 && (flags & KITH_FILE_NO_LINKS)) return walk_end(&walk, 0, -ELOOP);
        if (count >= 0 && follows) {
            target[count] = 0;
            if (target[0] == '/') {
                if (!(flags & KITH_FILE_AT_TOP)) return walk_end(&walk, 0, -EXDEV);
                walk_end(&walk, 0, 0);
            }
            if (++links > MAXIMUM_LINKS) return walk_end(&walk, 0, -ELOOP);
            int written = snprintf(joined, sizeof(joined), "%s%s%s", target,
                                   is_last && !needs_directory ? "" : "/", next);
            if (written < 0 || (size_t)written >= sizeof(joined)) return walk_end(&walk, 0, -ENAMETOOLONG);
            memcpy(rest, joined, (size_t)written + 1);
            next = rest;
            continue;
        }
        if (is_last) {
            // A link put here since is not followed: the open itself refuses it.
            int final = flags | KITH_FILE_NO_FOLLOW | (needs_directory ? KITH_FILE_DIRECTORY : 0);
            return walk_end(&walk, 0, open_unprotected(here, name, final, mode, protection));
        }
        if (walk.depth + 1 >= MAXIMUM_DEPTH) return walk_end(&walk, 0, -ENAMETOOLONG);
        int folder = open_unprotected(
            here, name, KITH_FILE_PATH | KITH_FILE_DIRECTORY | KITH_FILE_NO_FOLLOW, 0, protection);
        if (folder < 0) return walk_end(&walk, 0, folder);
        walk.folders[++walk.depth] = folder;
    }
}

int kith_open_beneath(
    int directory, const char *path, int flags, uint32_t mode, int walk, const kith_protection *protection) {
    if (path[0] == '/' && !(flags & KITH_FILE_AT_TOP)) return -EXDEV;
    if (protection != NULL || (flags & (KITH_FILE_NO_LINKS | KITH_FILE_AT_TOP))) walk = 1;
#ifdef __linux__
    if (!walk) {
        // struct open_how with RESOLVE_BENEATH (8) and RESOLVE_NO_MAGICLINKS (2), which old headers lack.
        struct {
            uint64_t flags, mode, resolve;
        } how = {.flags = (uint64_t)native_flags(flags), .mode = flags & KITH_FILE_CREATE ? mode : 0, .resolve = 8 | 2};
        // -EAGAIN: something was renamed meanwhile, and the kernel could not be sure of a "..".
        for (int attempt = 0; attempt < 64; attempt++) {
            long result;
            RETRY(result, syscall(SYS_openat2, directory, path, &how, sizeof(how)));
            if (result >= 0) return (int)result;
            if (errno == EAGAIN) continue;
            // EPERM: what the system call filter of an old sandbox says to a call it does not know.
            if (errno != ENOSYS && errno != EPERM) return -errno;
            return walk_beneath(directory, path, flags, mode, NULL);
        }
        return -EAGAIN;
    }
#else
    (void)walk;
#endif
    return walk_beneath(directory, path, flags, mode, protection);
}

#if defined(__linux__) && defined(STATX_BTIME)
// One call that says the time of making, too; 1 when this system lets nobody make it.
static int stat_extended(int directory, const char *name, kith_file_info *info) {
    struct statx status;
    int result;
    RETRY(
        result, statx(
                    directory, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name[0] == 0 ? AT_EMPTY_PATH : 0),
                    STATX_BASIC_STATS | STATX_BTIME, &status));
    if (result < 0) return errno == ENOSYS || errno == EPERM ? 1 : -errno;
    if ((status.stx_mask & STATX_BASIC_STATS) != STATX_BASIC_STATS) return 1;
    memset(info, 0, sizeof(*info));
    info->device = (uint64_t)makedev(status.stx_dev_major, status.stx_dev_minor);
    info->inode = status.stx_ino;
    info->size = status.stx_size;
    info->links = status.stx_nlink;
    info->allocated = status.stx_blocks * 512;
    info->mode = status.stx_mode;
    info->user = status.stx_uid;
    info->group = status.stx_gid;
    info->special_major = status.stx_rdev_major;
    info->special_minor = status.stx_rdev_minor;
    info->seconds = status.stx_mtime.tv_sec;
    info->nanoseconds = status.stx_mtime.tv_nsec;
    info->changed_seconds = status.stx_ctime.tv_sec;
    info->changed_nanoseconds = status.stx_ctime.tv_nsec;
    info->has_created = (status.stx_mask & STATX_BTIME) != 0;
    if (info->has_created) {
        info->created_seconds = status.stx_btime.tv_sec;
        info->created_nanoseconds = status.stx_btime.tv_nsec;
    }
    return 0;
}
#endif

int kith_file_stat(int directory, const char *name, kith_file_info *info) {
#if defined(__linux__) && defined(STATX_BTIME)
    int status_extended = stat_extended(directory, name, info);
    if (status_extended <= 0) return status_extended;
#endif
    struct stat status;
    int result;
    if (name[0] == 0) {
        RETRY(result, fstat(directory, &status));
    } else {
        RETRY(result, fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW));
    }
    if (result < 0) return -errno;
    memset(info, 0, sizeof(*info));
    info->device = (uint64_t)status.st_dev;
    info->inode = (uint64_t)status.st_ino;
    info->size = (uint64_t)status.st_size;
    info->links = (uint64_t)status.st_nlink;
    info->allocated = (uint64_t)status.st_blocks * 512;
    info->mode = (uint32_t)status.st_mode;
    info->user = (uint32_t)status.st_uid;
    info->group = (uint32_t)status.st_gid;
    info->special_major = (uint32_t)major(status.st_rdev);
    info->special_minor = (uint32_t)minor(status.st_rdev);
#ifdef __APPLE__
    info->seconds = (int64_t)status.st_mtimespec.tv_sec;
    info->nanoseconds = (uint32_t)status.st_mtimespec.tv_nsec;
    info->changed_seconds = (int64_t)status.st_ctimespec.tv_sec;
    info->changed_nanoseconds = (uint32_t)status.st_ctimespec.tv_nsec;
    info->has_created = 1;
    info->created_seconds = (int64_t)status.st_birthtimespec.tv_sec;
    info->created_nanoseconds = (uint32_t)status.st_birthtimespec.tv_nsec;
#else
    info->seconds = (int64_t)status.st_mtim.tv_sec;
    info->nanoseconds = (uint32_t)status.st_mtim.tv_nsec;
    info->changed_seconds = (int64_t)status.st_ctim.tv_sec;
    info->changed_nanoseconds = (uint32_t)status.st_ctim.tv_nsec;
#endif
    return 0;
}

int kith_file_readlink(int directory, const char *name, uint8_t *target, size_t capacity) {
    ssize_t count = readlinkat(directory, name, (char *)target, capacity);
    if (count < 0) return -errno;
    return (size_t)count == capacity ? -ENAMETOOLONG : (int)count;
}

int kith_file_mkdir(int directory, const char *name, uint32_t mode) {
    return mkdirat(directory, name, (mode_t)mode) < 0 ? -errno : 0;
}

int kith_file_symlink(const char *target, int directory, const char *name) {
    return symlinkat(target, directory, name) < 0 ? -errno : 0;
}

// Whether a file system says so of a call it does not have.
static int is_missing(int failure) {
    return failure == ENOSYS || failure == EINVAL || failure == ENOTSUP || failure == EOPNOTSUPP;
}

// A folder that replaces at most an empty one, which nobody misses.
static int rename_folder(int from_directory, const char *from, int to_directory, const char *to) {
    struct stat there;
    if (fstatat(to_directory, to, &there, AT_SYMLINK_NOFOLLOW) == 0) return -EEXIST;
    if (errno != ENOENT) return -errno;
    return renameat(from_directory, from, to_directory, to) < 0 ? -errno : 0;
}

// A file that replaces nothing but an empty one made here for that.
static int rename_over_placeholder(int from_directory, const char *from, int to_directory, const char *to) {
    int placeholder;
    RETRY(placeholder, openat(to_directory, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (placeholder < 0) return -errno;
    close(placeholder);
    if (renameat(from_directory, from, to_directory, to) == 0) return 0;
    int failure = errno;
    unlinkat(to_directory, to, 0);
    return -failure;
}

int kith_file_rename_in_steps(int from_directory, const char *from, int to_directory, const char *to) {
    struct stat status;
    if (fstatat(from_directory, from, &status, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
    if (S_ISDIR(status.st_mode)) return rename_folder(from_directory, from, to_directory, to);
    // A second name is refused when the name is taken, which is as atomic.
    if (linkat(from_directory, from, to_directory, to, 0) == 0) {
        return unlinkat(from_directory, from, 0) < 0 ? -errno : 0;
    }
    // EPERM: a file system without second names.
    if (!is_missing(errno) && errno != EPERM) return -errno;
    return rename_over_placeholder(from_directory, from, to_directory, to);
}

int kith_file_rename(int from_directory, const char *from, int to_directory, const char *to, int overwrite) {
    if (overwrite) return renameat(from_directory, from, to_directory, to) < 0 ? -errno : 0;
#if defined(__APPLE__)
    if (renameatx_np(from_directory, from, to_directory, to, RENAME_EXCL) == 0) return 0;
#else
    // RENAME_NOREPLACE is 1.
    if (syscall(SYS_renameat2, from_directory, from, to_directory, to, 1) == 0) return 0;
#endif
    if (!is_missing(errno)) return -errno;
    return kith_file_rename_in_steps(from_directory, from, to_directory, to);
}

int kith_file_unlink(int directory, const char *name, int is_directory) {
    return unlinkat(directory, name, is_directory ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

int kith_file_chmod(int descriptor, uint32_t mode) {
    int result;
    RETRY(result, fchmod(descriptor, (mode_t)mode));
    return result < 0 ? -errno : 0;
}

int kith_file_times(int descriptor, const char *name, int64_t seconds, uint32_t nanoseconds) {
    struct timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                {.tv_sec = (time_t)seconds, .tv_nsec = (long)nanoseconds}};
    int result = name[0] == 0 ? futimens(descriptor, times)
                              : utimensat(descriptor, name, times, AT_SYMLINK_NOFOLLOW);
    return result < 0 ? -errno : 0;
}

intptr_t kith_file_read(int descriptor, void *bytes, size_t count, int64_t offset) {
    ssize_t result;
    if (offset < 0) {
        RETRY(result, read(descriptor, bytes, count));
    } else {
        RETRY(result, pread(descriptor, bytes, count, (off_t)offset));
    }
    return result < 0 ? -(intptr_t)errno : (intptr_t)result;
}

intptr_t kith_file_write(int descriptor, const void *bytes, size_t count, int64_t offset) {
    ssize_t result;
    if (offset < 0) {
        RETRY(result, write(descriptor, bytes, count));
    } else {
        RETRY(result, pwrite(descriptor, bytes, count, (off_t)offset));
    }
    return result < 0 ? -(intptr_t)errno : (intptr_t)result;
}

int kith_file_sync(int descriptor) {
    int result;
#ifdef __APPLE__
    RETRY(result, fsync(descriptor));
#else
    RETRY(result, fdatasync(descriptor));
#endif
    return result < 0 ? -errno : 0;
}

int kith_file_lock(int descriptor, int wait) {
    int result;
    RETRY(result, flock(descriptor, LOCK_EX | (wait ? 0 : LOCK_NB)));
    return result < 0 ? -errno : 0;
}

void kith_file_close(int descriptor) { close(descriptor); }

void *kith_directory_open(int descriptor, int *failure) {
    // A descriptor of its own, which closedir closes; the caller's may be one that cannot be read.
    int own = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = own < 0 ? NULL : fdopendir(own);
    if (listing == NULL) {
        *failure = errno;
        if (own >= 0) close(own);
    }
    return listing;
}

static uint8_t kind_letter(unsigned char type) {
    switch (type) {
    case DT_REG: return 'f';
    case DT_DIR: return 'd';
    case DT_LNK: return 'l';
    case DT_FIFO: return 'p';
    case DT_SOCK: return 's';
    case DT_CHR: return 'c';
    case DT_BLK: return 'b';
    default: return '?';
    }
}

int kith_directory_next(void *listing, uint8_t *name, size_t capacity, uint8_t *kind) {
    while (1) {
        errno = 0;
        struct dirent *entry = readdir((DIR *)listing);
        if (entry == NULL) return errno == 0 ? 0 : -errno;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        size_t length = strlen(entry->d_name);
        if (length > capacity) return -ENAMETOOLONG;
        memcpy(name, entry->d_name, length);
        *kind = kind_letter(entry->d_type);
        return (int)length;
    }
}

void kith_directory_close(void *listing) { closedir((DIR *)listing); }

int kith_file_system_room(int descriptor, uint64_t *total, uint64_t *free) {
    struct statvfs status;
    int result;
    RETRY(result, fstatvfs(descriptor, &status));
    if (result < 0) return -errno;
    *total = (uint64_t)status.f_blocks * status.f_frsize;
    *free = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}

static int copy_name(const char *name, uint8_t *bytes, size_t capacity) {
    size_t length = strlen(name);
    if (length > capacity) return -ENAMETOOLONG;
    memcpy(bytes, name, length);
    return (int)length;
}

int kith_user_name(uint32_t user, uint8_t *name, size_t capacity) {
    struct passwd entry, *found = NULL;
    char buffer[8192];
    int failure = getpwuid_r((uid_t)user, &entry, buffer, sizeof(buffer), &found);
    if (found == NULL) return failure == 0 ? -ENOENT : -failure;
    return copy_name(entry.pw_name, name, capacity);
}

int kith_group_name(uint32_t group, uint8_t *name, size_t capacity) {
    struct group entry, *found = NULL;
    // The members are in it, too.
    char buffer[65536];
    int failure = getgrgid_r((gid_t)group, &entry, buffer, sizeof(buffer), &found);
    if (found == NULL) return failure == 0 ? -ENOENT : -failure;
    return copy_name(entry.gr_name, name, capacity);
}

int kith_home(uint8_t *path, size_t capacity) {
    struct passwd entry, *found = NULL;
    char buffer[8192];
    int failure = getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found);
    if (found == NULL) return failure == 0 ? -ENOENT : -failure;
    size_t length = strlen(entry.pw_dir);
    if (length > capacity) return -ENAMETOOLONG;
    memcpy(path, entry.pw_dir, length);
    return (int)length;
}
