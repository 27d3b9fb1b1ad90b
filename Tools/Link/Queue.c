#include "Queue.h"

#include <stdbool.h>

static bool before(const struct waiting *a, const struct waiting *b) {
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

void queue_add(struct queue *queue, struct waiting item) {
    if (queue->count == queue->room) {
        queue->room = queue->room ? queue->room * 2 : 256;
        queue->items = realloc(queue->items, queue->room * sizeof *queue->items);
        if (!queue->items) abort();
    }
    item.number = queue->number++;
    size_t at = queue->count++;
    for (; at > 0; at = (at - 1) / 2) {
        struct waiting *parent = &queue->items[(at - 1) / 2];
        if (!before(&item, parent)) break;
        queue->items[at] = *parent;
    }
    queue->items[at] = item;
}

struct waiting queue_take(struct queue *queue) {
    struct waiting first = queue->items[0], last = queue->items[--queue->count];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= queue->count) break;
        if (child + 1 < queue->count && before(&queue->items[child + 1], &queue->items[child])) child++;
        if (!before(&queue->items[child], &last)) break;
        queue->items[at] = queue->items[child];
        at = child;
    }
    if (queue->count) queue->items[at] = last;
    return first;
}
