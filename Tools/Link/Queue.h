// The packets under way, the next one due first.
#ifndef KITH_LINK_QUEUE_H
#define KITH_LINK_QUEUE_H

#include <stdint.h>
#include <stdlib.h>

struct waiting {
    int64_t due;        ///< When it arrives, on the monotonic clock, in nanoseconds.
    uint64_t number;    ///< Packets due at the same time arrive in the order they came.
    int direction;
    uint32_t size;
    uint8_t *bytes;     ///< Owned; freed by whoever takes the packet out.
};

/// A binary heap.
struct queue {
    struct waiting *items;
    size_t count, room;
    uint64_t number;
};

void queue_add(struct queue *queue, struct waiting item);
/// The next packet due; the queue must not be empty.
struct waiting queue_take(struct queue *queue);

#endif
