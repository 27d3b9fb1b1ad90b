#include "KithFolderWatch.h"

#include <errno.h>

#ifdef __linux__

#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

int kith_folder_watch_open(void) {
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return watch < 0 ? -errno : watch;
}

int kith_folder_watch_add(int watch, int folder) {
    // By the descriptor: the path may have come to mean another folder.
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", folder);
    int number = inotify_add_watch(
        watch, path,
        IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF |
            IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK);
    return number < 0 ? -errno : number;
}

int kith_folder_watch_remove(int watch, int number) { return inotify_rm_watch(watch, number) < 0 ? -errno : 0; }

intptr_t kith_folder_watch_read(int watch, void *buffer, size_t capacity) {
    for (;;) {
        ssize_t count = read(watch, buffer, capacity);
        if (count >= 0) return count;
        if (errno != EINTR) return -errno;
    }
}

int kith_folder_watch_next(
    const void *buffer, size_t count, size_t *offset, int *number, const uint8_t **name, size_t *length) {
    const size_t header = sizeof(struct inotify_event);
    if (*offset > count || count - *offset < header) return -1;
    const uint8_t *place = (const uint8_t *)buffer + *offset;
    struct inotify_event event;
    memcpy(&event, place, header);
    if (count - *offset - header < event.len) return -1;
    *offset += header + event.len;
    *number = event.wd;
    *name = place + header;
    *length = strnlen((const char *)*name, event.len);
    int kinds = 0;
    if (event.mask & IN_Q_OVERFLOW) kinds |= KITH_FOLDER_OVERFLOW;
    if (event.mask & (IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED)) kinds |= KITH_FOLDER_GONE;
    if (event.mask & (IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE |
                      IN_MOVE_SELF))
        kinds |= KITH_FOLDER_CHANGED;
    if (event.mask & IN_ISDIR) {
        kinds |= KITH_FOLDER_IS_FOLDER;
        if (event.mask & IN_MOVED_FROM) kinds |= KITH_FOLDER_MOVED_AWAY;
    }
    return kinds;
}

#else

int kith_folder_watch_open(void) { return -ENOSYS; }
int kith_folder_watch_add(int watch, int folder) { (void)watch, (void)folder; return -ENOSYS; }
int kith_folder_watch_remove(int watch, int number) { (void)watch, (void)number; return -ENOSYS; }
intptr_t kith_folder_watch_read(int watch, void *buffer, size_t capacity) {
    (void)watch, (void)buffer, (void)capacity;
    return -ENOSYS;
}
int kith_folder_watch_next(
    const void *buffer, size_t count, size_t *offset, int *number, const uint8_t **name, size_t *length) {
    (void)buffer, (void)count, (void)offset, (void)number, (void)name, (void)length;
    return -1;
}

#endif
