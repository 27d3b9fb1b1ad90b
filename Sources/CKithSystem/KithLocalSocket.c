#ifdef __linux__
#define _GNU_SOURCE
#endif

#include "KithLocalSocket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int prepared(int descriptor) {
    if (descriptor < 0) return -errno;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
#ifdef SO_NOSIGPIPE
    int yes = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof(yes));
#endif
    return descriptor;
}

static int address(const char *path, struct sockaddr_un *address) {
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(address->sun_path)) return -ENAMETOOLONG;
    memcpy(address->sun_path, path, length + 1);
    return 0;
}

int kith_local_listen(const char *template, char *path, size_t capacity) {
    static const char name[] = "/agent";
    size_t length = strlen(template);
    if (length + sizeof(name) > capacity) return -ENAMETOOLONG;
    memcpy(path, template, length + 1);
    if (!mkdtemp(path)) return -errno;
    memcpy(path + length, name, sizeof(name));
    struct sockaddr_un where;
    int result = address(path, &where);
    int listener = -1;
    if (result == 0) result = listener = prepared(socket(AF_UNIX, SOCK_STREAM, 0));
    if (result >= 0 && (bind(listener, (struct sockaddr *)&where, sizeof(where)) != 0 ||
                        chmod(path, S_IRUSR | S_IWUSR) != 0 || listen(listener, 16) != 0)) {
        result = -errno;
    }
    if (result >= 0) return listener;
    if (listener >= 0) close(listener);
    kith_local_unlink(path);
    return result;
}

void kith_local_unlink(const char *path) {
    unlink(path);
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *end = strrchr(path, '/');
    if (!end || (size_t)(end - path) >= sizeof(folder)) return;
    memcpy(folder, path, (size_t)(end - path));
    folder[end - path] = 0;
    rmdir(folder);
}

int kith_local_accept(int listener) { return prepared(accept(listener, NULL, NULL)); }

int kith_local_connect(const char *path) {
    struct sockaddr_un where;
    int result = address(path, &where);
    if (result < 0) return result;
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    if (descriptor < 0) return -errno;
    // A local socket connects at once or not at all, unless its queue is full.
    if (connect(descriptor, (struct sockaddr *)&where, sizeof(where)) != 0) {
        result = -errno;
        close(descriptor);
        return result;
    }
    return prepared(descriptor);
}
