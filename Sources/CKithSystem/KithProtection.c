#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithProtection.h"
#include "KithConfinedOpen.h"
#include "KithSockets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <sys/vfs.h>
#ifndef SYS_statx
#define SYS_statx 332
#endif
#endif

#define PROC_MAGIC 0x9FA0
#define MAXIMUM_PATH 4096
#define MAXIMUM_DEPTH 2048
#define MAXIMUM_LINKS 40

static kith_identity identity_of(const struct stat *status) {
    return (kith_identity){.device = (uint64_t)status->st_dev, .inode = (uint64_t)status->st_ino};
}

static int is_same(kith_identity left, kith_identity right) {
    return left.device == right.device && left.inode == right.inode;
}

static int is_kept(const kith_protection *protection, kith_identity identity) {
    for (size_t index = 0; index < protection->count; index++) {
        if (is_same(protection->kept[index], identity)) return 1;
    }
    return 0;
}

int kith_protection_open(const char *directory, kith_identity *identity) {
    int descriptor = kith_open(-1, directory, KITH_FILE_PATH | KITH_FILE_DIRECTORY, 0);
    if (descriptor < 0) return descriptor;
    struct stat status;
    if (fstat(descriptor, &status) < 0) {
        int failure = errno;
        close(descriptor);
        return -failure;
    }
    *identity = identity_of(&status);
    return descriptor;
}

int kith_protection_identify(const char *path, kith_identity *identity) {
    struct stat status;
    if (stat(path, &status) < 0) return -errno;
    *identity = identity_of(&status);
    return 0;
}

kith_identity kith_protection_program(void) {
    struct stat status;
    if (stat("/proc/self/exe", &status) < 0) return (kith_identity){0, 0};
    return identity_of(&status);
}

// Whether a folder belongs, in /proc, to a process of this program: a fork of a device holds all that it does.
static int is_own_process(const kith_protection *protection, int folder) {
#ifdef __linux__
    struct statfs system;
    if (fstatfs(folder, &system) < 0 || system.f_type != PROC_MAGIC) return 0;
    struct stat status;
    if (protection->program.inode == 0 || fstatat(folder, "exe", &status, 0) < 0) return 0;
    return is_same(identity_of(&status), protection->program);
#else
    (void)protection;
    (void)folder;
    return 0;
#endif
}

static int covers_folder(const kith_protection *protection, int folder) {
    // Any device's data directory of this user, whichever program has it open.
    struct stat status;
    if (fstatat(folder, "identity.sealed", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode)
        && status.st_uid == geteuid())
        return 1;
    return is_own_process(protection, folder);
}

// Whether a file is mounted by itself, so that its folder is not the one it was made in.
static int is_mount(int descriptor) {
#ifdef __linux__
    // struct statx, which old headers lack; its attributes, of which 0x2000 marks the root of a mount.
    struct {
        uint32_t mask, block;
        uint64_t attributes;
        uint8_t rest[240];
    } extended;
    if (syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH, 0, &extended) < 0) return 1;
    return (extended.attributes & 0x2000) != 0;
#else
    (void)descriptor;
    return 0;
#endif
}

// Whether a file is one of the data directory's, under another name.
static int is_in_directory(const kith_protection *protection, kith_identity identity) {
    if (protection->directory < 0) return 0;
    int failure = 0;
    void *listing = kith_directory_open(protection->directory, &failure);
    if (listing == NULL) return -failure;
    uint8_t name[256], kind;
    int length, found = 0;
    while (!found && (length = kith_directory_next(listing, name, sizeof(name) - 1, &kind)) > 0) {
        name[length] = 0;
        struct stat status;
        found = fstatat(protection->directory, (const char *)name, &status, AT_SYMLINK_NOFOLLOW) == 0
                && is_same(identity_of(&status), identity);
    }
    kith_directory_close(listing);
    return found;
}

// Whether a file of this user is a device's sealed key or its database, as FileKeyStore and Store begin them.
static int is_any_devices(int descriptor, const struct stat *status) {
    if (status->st_uid != geteuid()) return 0;
    uint8_t head[72];
    ssize_t count = pread(descriptor, head, sizeof(head), 0);
#ifdef __linux__
    if (count < 0 && errno == EBADF) {
        // It is open as a name only, or for writing.
        char exact[32];
        snprintf(exact, sizeof(exact), "/proc/self/fd/%d", descriptor);
        int readable = kith_open(-1, exact, 0, 0);
        // What this user may not read, no caller reads.
        if (readable < 0) return readable == -EACCES || readable == -EPERM ? 0 : readable;
        count = pread(readable, head, sizeof(head), 0);
        close(readable);
    }
#endif
    if (count >= 8 && memcmp(head, "kithkey1", 8) == 0) return 1;
    return count == sizeof(head) && memcmp(head, "SQLite format 3", 16) == 0 && memcmp(head + 68, "kith", 4) == 0;
}

int kith_protection_covers(const kith_protection *protection, int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) < 0) return -errno;
    if (is_kept(protection, identity_of(&status))) return 1;
    if (S_ISDIR(status.st_mode)) return covers_folder(protection, descriptor);
    // A file of a data directory is met here only by a second name, or mounted elsewhere.
    int is_file = S_ISREG(status.st_mode);
    if (!S_ISSOCK(status.st_mode) && !(is_file && (status.st_nlink > 1 || is_mount(descriptor)))) return 0;
    int found = is_in_directory(protection, identity_of(&status));
    return found == 0 && is_file ? is_any_devices(descriptor, &status) : found;
}

// Whether something is a folder around the data directory, wherever that is now.
static int is_above(const kith_protection *protection, kith_identity identity) {
    if (protection->directory < 0) return 0;
    int folder = kith_open(protection->directory, ".", KITH_FILE_PATH | KITH_FILE_DIRECTORY, 0);
    kith_identity last = {0, 0};
    for (int depth = 0; folder >= 0 && depth < MAXIMUM_DEPTH; depth++) {
        struct stat status;
        if (fstat(folder, &status) < 0) break;
        kith_identity here = identity_of(&status);
        if (is_same(here, identity)) {
            close(folder);
            return 1;
        }
        // The top is its own parent.
        if (depth > 0 && is_same(here, last)) break;
        last = here;
        int next = kith_open(folder, "..", KITH_FILE_PATH | KITH_FILE_DIRECTORY, 0);
        close(folder);
        folder = next;
    }
    if (folder >= 0) close(folder);
    return 0;
}

// Whether something is a folder or a link that a path leads through, links in it and in their targets included, as far as
// it is there.
static int is_on_path(const char *path, kith_identity identity) {
    char rest[MAXIMUM_PATH], target[MAXIMUM_PATH], joined[MAXIMUM_PATH], name[256];
    if (strlen(path) >= sizeof(rest)) return -ENAMETOOLONG;
    strcpy(rest, path);
    const char *next = rest;
    int folder = kith_open(-1, "/", KITH_FILE_PATH | KITH_FILE_DIRECTORY, 0);
    int links = 0, found = 0;
    while (folder >= 0) {
        next += strspn(next, "/");
        size_t length = strcspn(next, "/");
        if (length == 0 || length >= sizeof(name)) break;
        memcpy(name, next, length);
        name[length] = 0;
        next += length;
        struct stat status;
        if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) break;
        found = is_same(identity_of(&status), identity);
        if (found) break;
        int from = folder;
        const char *onward = name;
        int flags = KITH_FILE_PATH | KITH_FILE_DIRECTORY | KITH_FILE_NO_FOLLOW;
        if (S_ISLNK(status.st_mode)) {
            ssize_t count = readlinkat(folder, name, target, sizeof(target) - 1);
            if (count < 0 || ++links > MAXIMUM_LINKS) break;
            target[count] = 0;
            int joined_length = snprintf(joined, sizeof(joined), "%s/%s", target, next);
            if (joined_length < 0 || (size_t)joined_length >= sizeof(joined)) break;
            strcpy(rest, joined);
            next = rest;
            if (target[0] != '/') continue;
            onward = "/";
        }
        folder = kith_open(from, onward, flags, 0);
        close(from);
    }
    if (folder >= 0) close(folder);
    return found;
}

int kith_protection_holds(const kith_protection *protection, const char *path, int folder, const char *name) {
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode)) return 0;
    kith_identity identity = identity_of(&status);
    if (is_kept(protection, identity)) return 1;
    if (S_ISDIR(status.st_mode)) {
        int opened = kith_open(folder, name, KITH_FILE_PATH | KITH_FILE_DIRECTORY | KITH_FILE_NO_FOLLOW, 0);
        if (opened < 0) return opened == -ENOENT ? 0 : opened;
        int covered = covers_folder(protection, opened);
        close(opened);
        if (covered == 0) covered = is_above(protection, identity);
        if (covered != 0) return covered;
    }
    return is_on_path(path, identity);
}

// Whether another process of this program listens at the other end: another device of this user.
static int is_other_device(const kith_protection *protection, int descriptor) {
#ifdef __linux__
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (protection->program.inode == 0) return 0;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) return 0;
    if (peer.pid <= 0 || peer.pid == getpid()) return 0;
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)peer.pid);
    struct stat status;
    return stat(path, &status) == 0 && is_same(identity_of(&status), protection->program);
#else
    (void)protection;
    (void)descriptor;
    return 0;
#endif
}

static int finish_connecting(const kith_protection *protection, int connection) {
    if (connection < 0 || !is_other_device(protection, connection)) return connection;
    close(connection);
    return -KITH_ERROR_PROTECTED;
}

#ifdef __linux__
// Whether a socket lies where devices of this user keep theirs: in a data directory, or in the folder for those whose path
// is too long. A device hides which program it runs (kith_hide_memory), so that its process does not tell.
static int is_device_socket(const kith_protection *protection, int pinned) {
    char link[32], path[4096], shared[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", pinned);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0 || length >= (ssize_t)sizeof(path) - 1) return 1;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash == NULL) return 1;
    *slash = 0;
    snprintf(shared, sizeof(shared), "/tmp/kith-%u", (unsigned)geteuid());
    if (strcmp(path, shared) == 0) return 1;
    int folder = kith_open(-1, slash == path ? "/" : path, KITH_FILE_PATH | KITH_FILE_DIRECTORY, 0);
    // Moved meanwhile, or out of sight: nobody can say.
    if (folder < 0) return 1;
    struct stat there, here;
    int covered = fstatat(folder, slash + 1, &there, AT_SYMLINK_NOFOLLOW) < 0 || fstat(pinned, &here) < 0
        || !is_same(identity_of(&there), identity_of(&here)) || covers_folder(protection, folder) != 0;
    close(folder);
    return covered;
}

int kith_protection_connect(const kith_protection *protection, const char *path) {
    int pinned = kith_open(-1, path, KITH_FILE_PATH, 0);
    if (pinned < 0) return pinned;
    int covered = kith_protection_covers(protection, pinned);
    if (covered == 0) covered = is_device_socket(protection, pinned);
    int connection = covered < 0 ? covered : -KITH_ERROR_PROTECTED;
    if (covered == 0) {
        char exact[32];
        snprintf(exact, sizeof(exact), "/proc/self/fd/%d", pinned);
        connection = kith_stream_connect_path(exact);
    }
    close(pinned);
    return finish_connecting(protection, connection);
}
#else
// Whether a socket by its path is kept; it cannot be opened here.
static int covers_path(const kith_protection *protection, const char *path) {
    kith_identity identity;
    int failure = kith_protection_identify(path, &identity);
    if (failure != 0) return failure;
    return is_kept(protection, identity) ? 1 : is_in_directory(protection, identity);
}

int kith_protection_connect(const kith_protection *protection, const char *path) {
    int covered = covers_path(protection, path);
    if (covered != 0) return covered < 0 ? covered : -KITH_ERROR_PROTECTED;
    int connection = kith_stream_connect_path(path);
    if (connection < 0) return connection;
    covered = covers_path(protection, path);
    if (covered == 0) return finish_connecting(protection, connection);
    close(connection);
    return covered < 0 ? covered : -KITH_ERROR_PROTECTED;
}
#endif

// Opens the folder a path lies in, links followed, unless it or what has the name there is kept.
static int open_around(const kith_protection *protection, const char *path, const char **name) {
    const char *slash = strrchr(path, '/');
    char folder[MAXIMUM_PATH];
    if (slash == NULL || slash[1] == 0) return -EINVAL;
    size_t length = slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof(folder)) return -ENAMETOOLONG;
    memcpy(folder, path, length);
    folder[length] = 0;
    *name = slash + 1;
    int around = kith_open(-1, folder, KITH_FILE_PATH | KITH_FILE_DIRECTORY, 0);
    if (around < 0) return around;
    int covered = kith_protection_covers(protection, around);
    struct stat status;
    if (covered == 0 && fstatat(around, *name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        covered = is_kept(protection, identity_of(&status)) ? 1 : is_in_directory(protection, identity_of(&status));
    if (covered == 0) return around;
    close(around);
    return covered < 0 ? covered : -KITH_ERROR_PROTECTED;
}

int kith_protection_listen(const kith_protection *protection, const char *path, int backlog, kith_identity *made) {
    const char *name;
    int around = open_around(protection, path, &name);
    if (around < 0) return around;
#ifdef __linux__
    char exact[MAXIMUM_PATH + 32];
    snprintf(exact, sizeof(exact), "/proc/self/fd/%d/%s", around, name);
    int listener = kith_stream_listen_path(exact, backlog);
#else
    int listener = kith_stream_listen_path(path, backlog);
#endif
    struct stat status;
    // Elsewhere the path may have led to another folder by then, and the socket is not in this one.
    if (listener >= 0 && (fstatat(around, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(status.st_mode))) {
        close(listener);
        listener = -KITH_ERROR_PROTECTED;
    }
    if (listener >= 0) *made = identity_of(&status);
    close(around);
    return listener;
}

void kith_protection_unlink(const kith_protection *protection, const char *path, const kith_identity *made) {
    const char *name;
    int around = open_around(protection, path, &name);
    if (around < 0) return;
    struct stat status;
    if (fstatat(around, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode) &&
        (made == NULL || is_same(identity_of(&status), *made)))
        unlinkat(around, name, 0);
    close(around);
}
