#ifndef KITH_SOCKETS_H
#define KITH_SOCKETS_H

#include <stddef.h>
#include <stdint.h>
#include "KithUDP.h"

// Connections and datagrams of other programs: TCP, UDP, Unix sockets, names. Every function returns what it says, or the
// negated errno; all descriptors are close-on-exec and non-blocking, and calls cut short by a signal are made again.

/// Begins a TCP connection; it stands, or has failed, once the descriptor can be written.
int kith_stream_connect(const kith_udp_address *to);

/// Connects to the Unix socket at `path`. -EAGAIN when too many callers wait there.
int kith_stream_connect_path(const char *path);

/// Returns the outcome of a connection that was begun: 0, or the negated errno.
int kith_stream_outcome(int descriptor);

/// Listens for TCP connections. An IPv6 address takes no IPv4 connection.
int kith_stream_listen(const kith_udp_address *at, int backlog);

/// Listens at a new Unix socket that only this user may connect to. -EADDRINUSE when there is something already.
int kith_stream_listen_path(const char *path, int backlog);

/// Takes one waiting connection; `peer` is all zero for that of a Unix socket.
int kith_stream_accept(int descriptor, kith_udp_address *peer);

/// Takes what is there, 0 at the end.
intptr_t kith_stream_receive(int descriptor, void *bytes, size_t capacity);

/// Gives what there is room for. Never raises SIGPIPE.
intptr_t kith_stream_send(int descriptor, const void *bytes, size_t length);

/// Ends the direction from here; the other goes on.
int kith_stream_finish(int descriptor);

/// Makes closing the descriptor abort the connection: what was not yet taken is lost, and TCP's other end gets a RST.
void kith_stream_abort_on_close(int descriptor);

/// Opens a UDP socket. An IPv6 socket takes no IPv4 datagram.
int kith_datagram_open(const kith_udp_address *at);

/// Takes one datagram; what is longer than `capacity` is cut, and the whole length returned.
intptr_t kith_datagram_receive(int descriptor, void *bytes, size_t capacity, kith_udp_address *from);

/// Sends one datagram.
intptr_t kith_datagram_send(int descriptor, const void *bytes, size_t length, const kith_udp_address *to);

void kith_socket_close(int descriptor);

/// Removes the Unix socket at `path`, if it is one.
void kith_socket_unlink(const char *path);

/// Asks the system's resolver for the addresses of a name, in the order of RFC 6724. Blocks.
///
/// Returns how many were written, 0 when the name has none; -EAGAIN when nobody could be asked now.
int kith_resolve(const char *name, kith_udp_address *addresses, int capacity);

/// Lets this process open as many descriptors as it may, up to 65536; call it once.
void kith_raise_descriptor_limit(void);

/// Returns how many descriptors this process may have, up to 65536; 0 when that cannot be told.
int kith_descriptor_limit(void);

/// Gives a child, between fork and exec, the limit this process was started with.
void kith_restore_descriptor_limit(void);

#endif
