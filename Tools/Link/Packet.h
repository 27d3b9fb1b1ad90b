// What the link may change in a packet: the ECN bits, one bit of the payload, the left end's address and port.
#ifndef KITH_LINK_PACKET_H
#define KITH_LINK_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Where the parts of an IP packet lie. Offsets are into `bytes`, which the caller owns.
struct packet {
    uint8_t *bytes;
    size_t size;
    bool is_ipv6;
    uint8_t protocol;
    size_t transport;  ///< Offset of the UDP, TCP or ICMP header; `size` in a later fragment.
    size_t payload;    ///< Offset of the UDP payload; `size` when it is not UDP.
};

/// Takes `bytes` apart; false when it is no whole IPv4 or IPv6 packet.
bool packet_parse(struct packet *packet, uint8_t *bytes, size_t size);

bool packet_is_udp(const struct packet *packet);

/// The ECN field (RFC 3168 §5): 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced.
int packet_ecn(const struct packet *packet);
void packet_set_ecn(struct packet *packet, int ecn);

/// Flips one bit of the UDP payload and makes the checksum agree, so that the kernel lets it through.
void packet_corrupt(struct packet *packet, uint64_t random);

/// Which end of a packet an address translator rewrites.
enum side { SOURCE, DESTINATION };

/// The last two bytes of the address: the host number in the link's own networks.
uint16_t packet_host(const struct packet *packet, enum side side);
void packet_set_host(struct packet *packet, enum side side, uint16_t host);

uint16_t packet_port(const struct packet *packet, enum side side);
void packet_set_port(struct packet *packet, enum side side, uint16_t port);

#endif
