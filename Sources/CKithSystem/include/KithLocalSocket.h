#ifndef KITH_LOCAL_SOCKET_H
#define KITH_LOCAL_SOCKET_H

#include <stddef.h>

// Unix sockets for the ssh agent. All descriptors are close-on-exec and non-blocking.

/// Makes a folder only this user can enter (from `template`, whose XXXXXX becomes its name) and listens on "agent" in
/// it. Writes the socket's path to `path`. Returns the descriptor or the negated errno.
int kith_local_listen(const char *template, char *path, size_t capacity);

/// Removes what kith_local_listen made.
void kith_local_unlink(const char *path);

/// Takes a connection. Returns its descriptor or the negated errno.
int kith_local_accept(int listener);

/// Connects to a socket. Returns the descriptor or the negated errno.
int kith_local_connect(const char *path);

#endif
