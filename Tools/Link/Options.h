// What a link does to the packets it carries, and how that is written.
#ifndef KITH_LINK_OPTIONS_H
#define KITH_LINK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/// What one direction of the link does. Times are nanoseconds, shares are 0…1.
struct direction {
    int64_t delay;         ///< How long every packet is under way.
    int64_t jitter;        ///< Added to that, between nothing and this much, for each packet on its own.
    bool keep_order;       ///< Whether jitter may not let one packet overtake another.
    double loss;           ///< The share of packets that vanish.
    double burst;          ///< How many in a row vanish, on average; 1 makes every loss independent.
    double reorder;        ///< The share of packets that arrive early and so overtake.
    int64_t reorder_by;    ///< How much earlier, up to the whole delay.
    double duplicate;      ///< The share of packets that arrive twice.
    double corrupt;        ///< The share of packets with one bit wrong and the UDP checksum right.
    double rate;           ///< Bits a second; 0 has no limit.
    int64_t queue;         ///< How much may wait for the rate, as time; what comes on top is dropped.
    int64_t queue_bytes;   ///< The same in bytes; 0 has no limit.
    int64_t mark;          ///< ECN-capable packets that would wait longer are marked instead (CE); 0 never marks.
    double congest;        ///< The share of ECN-capable packets marked regardless of the queue.
    bool bleach;           ///< Whether the ECN bits are cleared on the way.
    bool blackhole;        ///< Whether nothing arrives.
    int64_t max_size;      ///< Larger packets vanish without a word, as on a path with a smaller MTU; 0 has no limit.
    int64_t first;         ///< Only so many packets arrive, and none after them; negative has no limit.
    bool lossy;            ///< Inside a burst of losses now.
};

/// The two directions: `up` is from the left end to the right one, `down` the way back.
enum { UP, DOWN };

struct options {
    struct direction directions[2];
    uint64_t seed;
    int mtu;
    /// The address translation between the ends: how far it shifts the left end's UDP ports and host number.
    uint32_t port_shift, address_shift;
    /// Counts the rebindings, so that the packet mover forgets what was bound before.
    unsigned bindings;
};

void options_default(struct options *options);

/// Takes `key=value`; a key that begins with `up-` or `down-` concerns that direction alone.
/// Returns NULL, or what is wrong in a sentence.
const char *options_set(struct options *options, const char *key, const char *value);

/// Reads `25ms`, `1.5s`, `300us` as nanoseconds; false when it is none of these.
bool parse_time(const char *text, int64_t *out);

#endif
