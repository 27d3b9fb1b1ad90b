#ifndef KITH_UDP_H
#define KITH_UDP_H

#include <stdint.h>
#include <stddef.h>

// UDP sockets with what SwiftNIO's write path lacks: a failed send that does not close the socket.

/// The abilities of a socket, as kith_udp_open has found.
enum {
    /// One call can carry many datagrams (Linux UDP_SEGMENT).
    KITH_UDP_SEND_SEGMENTS = 1,
    /// One read can return many datagrams (Linux UDP_GRO).
    KITH_UDP_RECEIVE_SEGMENTS = 2,
    /// The congestion marks of incoming datagrams are reported.
    KITH_UDP_ECN = 4
};

/// An IPv4 or IPv6 address with a port, in host byte order where it is a number.
typedef struct kith_udp_address {
    /// The address in network order; IPv4 uses the first four bytes.
    uint8_t ip[16];
    /// The scope of an IPv6 link-local address, or 0.
    uint32_t zone;
    uint16_t port;
    uint8_t is_ipv6;
} kith_udp_address;

/// Opens, configures and binds a non-blocking socket. Returns the descriptor, or the negated errno.
///
/// An IPv6 socket takes no IPv4 traffic. `buffer` is the wished size of each kernel buffer;
/// the kernel gives what its limits allow. `*features` receives KITH_UDP_ bits.
int kith_udp_open(const kith_udp_address *address, int buffer, uint32_t *features);

/// Writes where the socket is bound into `*address`. Returns 0 or the negated errno.
int kith_udp_local(int descriptor, kith_udp_address *address);

/// Fixes the other end of a socket, as the system sees it. Returns 0 or the negated errno.
int kith_udp_connect(int descriptor, const kith_udp_address *remote);

/// Writes an address into a sockaddr_storage, all of which is written. Returns the length that system calls want.
unsigned kith_udp_write(const kith_udp_address *address, void *storage);

/// Reads a struct sockaddr into `*address`. Returns 0, or the negated errno for another family.
int kith_udp_read(const void *sockaddr, kith_udp_address *address);

/// Sends `length` bytes as datagrams of `segment` bytes, the last one possibly shorter.
///
/// With `segments` != 0 the kernel cuts them in one call (KITH_UDP_SEND_SEGMENTS); otherwise one datagram at a time
/// is handed over, in batches where the system has them. `ecn` is the two-bit mark, 0…3.
/// Returns how many bytes were handed over, or the negated errno when none were.
intptr_t kith_udp_send(int descriptor, const kith_udp_address *to, const void *bytes, size_t length, size_t segment,
                       int segments, uint8_t ecn);

/// Writes up to `capacity` addresses of the running interfaces. Returns how many there are, or the negated errno.
///
/// `flags[i]` is 1 for a point-to-point interface, else 0.
int kith_udp_interfaces(kith_udp_address *addresses, uint8_t *flags, int capacity);

#endif
