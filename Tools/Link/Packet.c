#include "Packet.h"

#include <netinet/in.h>
#include <string.h>

static uint16_t load16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static void store16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

bool packet_parse(struct packet *packet, uint8_t *bytes, size_t size) {
    *packet = (struct packet){.bytes = bytes, .size = size, .transport = size, .payload = size};
    if (size < 20) return false;
    size_t header;
    bool first = true;
    if (bytes[0] >> 4 == 4) {
        header = (size_t)(bytes[0] & 15) * 4;
        packet->protocol = bytes[9];
        first = (load16(bytes + 6) & 0x1FFF) == 0;
    } else if (bytes[0] >> 4 == 6 && size >= 40) {
        packet->is_ipv6 = true;
        header = 40;
        packet->protocol = bytes[6];
    } else {
        return false;
    }
    if (header < 20 || header > size) return false;
    if (first) packet->transport = header;
    if (packet->protocol == IPPROTO_UDP && first) {
        if (size < header + 8) return false;
        packet->payload = header + 8;
    }
    return true;
}

bool packet_is_udp(const struct packet *packet) { return packet->payload > packet->transport; }

/// Where the checksum over the addresses lies, or NULL when there is none that we know.
static uint8_t *transport_checksum(const struct packet *packet) {
    size_t offset;
    switch (packet->protocol) {
    case IPPROTO_UDP: offset = 6; break;
    case IPPROTO_TCP: offset = 16; break;
    case IPPROTO_ICMPV6: offset = 2; break;
    default: return NULL;
    }
    if (packet->transport + offset + 2 > packet->size) return NULL;
    uint8_t *at = packet->bytes + packet->transport + offset;
    // A UDP checksum of zero says that there is none (RFC 768).
    return packet->protocol == IPPROTO_UDP && load16(at) == 0 ? NULL : at;
}

/// Makes the checksum at `at` agree with a change of one 16-bit word (RFC 1624 §3).
static void adjust(uint8_t *at, uint16_t before, uint16_t after) {
    if (!at) return;
    uint32_t sum = (uint32_t)(uint16_t)~load16(at) + (uint16_t)~before + after;
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    store16(at, (uint16_t)~sum);
}

/// Replaces the 16-bit word at `offset`, which both or either of the checksums cover.
static void replace(struct packet *packet, size_t offset, uint16_t after, bool in_ip, bool in_transport) {
    uint16_t before = load16(packet->bytes + offset);
    if (before == after) return;
    if (in_ip && !packet->is_ipv6) adjust(packet->bytes + 10, before, after);
    if (in_transport) {
        uint8_t *at = transport_checksum(packet);
        adjust(at, before, after);
        if (at && packet->protocol == IPPROTO_UDP && load16(at) == 0) store16(at, 0xFFFF);
    }
    store16(packet->bytes + offset, after);
}

int packet_ecn(const struct packet *packet) {
    return packet->is_ipv6 ? packet->bytes[1] >> 4 & 3 : packet->bytes[1] & 3;
}

void packet_set_ecn(struct packet *packet, int ecn) {
    uint16_t word = load16(packet->bytes);
    int shift = packet->is_ipv6 ? 4 : 0;
    replace(packet, 0, (uint16_t)((word & ~(3 << shift)) | ecn << shift), true, false);
}

void packet_corrupt(struct packet *packet, uint64_t random) {
    if (packet->payload >= packet->size) return;
    // Words are counted from the UDP header, as the checksum counts them; an odd last byte is left alone.
    size_t words = (packet->size - packet->payload) / 2;
    if (words == 0) return;
    size_t offset = packet->payload + random % words * 2;
    replace(packet, offset, load16(packet->bytes + offset) ^ (uint16_t)(1u << (random >> 32 & 15)), false, true);
}

static size_t host_offset(const struct packet *packet, enum side side) {
    if (packet->is_ipv6) return side == SOURCE ? 22 : 38;
    return side == SOURCE ? 14 : 18;
}

uint16_t packet_host(const struct packet *packet, enum side side) {
    return load16(packet->bytes + host_offset(packet, side));
}

void packet_set_host(struct packet *packet, enum side side, uint16_t host) {
    replace(packet, host_offset(packet, side), host, true, true);
}

uint16_t packet_port(const struct packet *packet, enum side side) {
    return load16(packet->bytes + packet->transport + (side == SOURCE ? 0 : 2));
}

void packet_set_port(struct packet *packet, enum side side, uint16_t port) {
    replace(packet, packet->transport + (side == SOURCE ? 0 : 2), port, false, true);
}
