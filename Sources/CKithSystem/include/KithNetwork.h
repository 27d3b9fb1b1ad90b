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

/// Opens a descriptor from which the options of router advertisements are read that the system does not know itself
/// (Linux: rtnetlink, one or more messages at each read).
///
/// Non-blocking, close-on-exec. Returns the negated errno where the system has no such thing, or forbids it.
int kith_network_router_options(void);

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

/// The kinds of interface, as far as the system says.
enum {
    KITH_INTERFACE_OTHER = 0,
    KITH_INTERFACE_LOOPBACK = 1,
    KITH_INTERFACE_WIFI = 2,
    KITH_INTERFACE_CELLULAR = 3
};

/// One address of a running interface.
typedef struct kith_interface {
    kith_udp_address address;
    uint32_t index;
    uint8_t kind;
    /// 1 when it carries datagrams to groups.
    uint8_t multicast;
    /// 1 when there is one other end.
    uint8_t point_to_point;
    /// The bits of the address that are those of its network.
    uint8_t prefix;
    /// 1 when the system is about to give the address up (RFC 4862 §5.5.4). Known on Linux, as the next is.
    uint8_t deprecated;
    /// 1 when it is a temporary one, which changes every day (RFC 8981).
    uint8_t temporary;
    char name[32];
} kith_interface;

/// Writes up to `capacity` addresses of the running interfaces. Returns how many there are, or the negated errno.
int kith_network_interfaces(kith_interface *interfaces, int capacity);

/// Writes up to `capacity` routers of default routes, those of the best route of a family first; a link-local one has its
/// zone. Returns how many were written, or the negated errno.
int kith_network_gateways(kith_udp_address *gateways, int capacity);

/// Finds the addresses of a host by its name, as the system does, with that port; an address stands for itself.
///
/// Waits as long as the resolver does. Returns the number of addresses, at most `capacity`; 0 when there is none.
int kith_network_resolve(const char *host, uint16_t port, kith_udp_address *addresses, int capacity);

/// Opens a non-blocking UDP socket for datagrams to a group, at the group's port, which other sockets may share.
///
/// It hears nothing before kith_multicast_join. Returns the descriptor, or the negated errno.
int kith_multicast_open(const kith_udp_address *group);

/// Joins a group on an interface. Returns 0, also when it had joined before, or the negated errno.
int kith_multicast_join(int descriptor, const kith_udp_address *group, uint32_t interface);

/// Leaves a group on an interface.
void kith_multicast_leave(int descriptor, const kith_udp_address *group, uint32_t interface);

/// Sends one datagram to a group, out of one interface and no further than its link; this machine hears it too.
///
/// `source` is the address it comes from, of IPv4; all zero lets the system choose. One thread at a time. Returns the
/// number of bytes, or the negated errno.
intptr_t kith_multicast_send(int descriptor, const void *bytes, size_t length, const kith_udp_address *group,
                             uint32_t interface, const kith_udp_address *source);

#ifdef __linux__
/// Opens a non-blocking UDP socket of a family for multicast DNS: port 5353 on every address, which the other responders
/// of this machine share; what it sends has the hop limit 255.
///
/// It hears no group before kith_multicast_join. Returns the descriptor, or the negated errno.
int kith_mdns_open(int is_ipv6);

/// Reads one datagram: where it came from, the interface it came in by, and the address it was sent to (port 0).
///
/// Returns its length, at most `capacity`, or the negated errno.
intptr_t kith_mdns_receive(int descriptor, void *bytes, size_t capacity, kith_udp_address *from,
                           kith_udp_address *destination, uint32_t *interface);

/// Sends one datagram out of one interface. Returns the number of bytes, or the negated errno.
intptr_t kith_mdns_send(int descriptor, const void *bytes, size_t length, const kith_udp_address *to,
                        uint32_t interface);
#endif

/// The nanoseconds this machine has been asleep since it was started, as far as the system counts them.
int64_t kith_network_suspended(void);

#endif
