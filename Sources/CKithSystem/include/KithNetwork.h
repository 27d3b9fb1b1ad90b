#ifndef KITH_NETWORK_H
#define KITH_NETWORK_H

#include <stdint.h>
#include "KithUDP.h"

// What changes under a socket: interfaces, addresses, routes, and the time the machine slept.

/// Opens a descriptor that becomes readable when links, addresses or routes change (Linux: rtnetlink).
///
/// The bytes read from it do not matter, only that there were some. Non-blocking, close-on-exec.
/// Returns the negated errno where the system has no such thing, or forbids it.
int kith_network_watch(void);

/// Finds the local address the system would send from to reach `remote`, without sending anything.
///
/// Returns 0, or the negated errno: -ENETUNREACH when there is no way now.
int kith_network_source(const kith_udp_address *remote, kith_udp_address *source);

/// Sends one byte to `remote` and waits up to `milliseconds` for word that it cannot arrive.
///
/// Returns 0 when there is none, or the negated errno: -ECONNREFUSED when the machine there said that nobody listens
/// (ICMP port unreachable), -ENETUNREACH and its kin when there is no way.
int kith_network_refusal(const kith_udp_address *remote, int milliseconds);

/// Opens a socket whose other end is `remote`. Returns the descriptor, or the negated errno.
int kith_network_knock_open(const kith_udp_address *remote);

/// Sends one byte by such a socket, which no protocol answers. Returns 0 or the negated errno.
int kith_network_knock(int descriptor);

/// Takes what the system has heard about such a socket: 0, or the negated errno as kith_network_refusal returns it.
int kith_network_heard(int descriptor);

/// The nanoseconds this machine has been asleep since it was started, as far as the system counts them.
int64_t kith_network_suspended(void);

#endif
