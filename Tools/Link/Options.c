#include "Options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void options_default(struct options *options) {
    *options = (struct options){.seed = 1, .mtu = 1500};
    for (int i = 0; i < 2; i++) {
        options->directions[i].burst = 1;
        options->directions[i].queue = 50 * 1000 * 1000;
        options->directions[i].first = -1;
        options->directions[i].reorder_by = 10 * 1000 * 1000;
    }
}

static bool parse_number(const char *text, double *out, const char **unit) {
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    *unit = end;
    return end != text && errno == 0 && *out >= 0 && *out < 1e15;
}

/// Reads a number and one of `units`, a list that ends with a NULL name.
struct unit {
    const char *name;
    double factor;
};

static bool parse_with_unit(const char *text, const struct unit *units, double *out) {
    const char *unit;
    if (!parse_number(text, out, &unit)) return false;
    for (; units->name; units++) {
        if (strcasecmp(unit, units->name)) continue;
        *out *= units->factor;
        return true;
    }
    return false;
}

bool parse_time(const char *text, int64_t *out) {
    static const struct unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
    double value;
    if (!parse_with_unit(text, units, &value) || value > 1e14) return false;
    *out = (int64_t)value;
    return true;
}

static bool parse_rate(const char *text, double *out) {
    static const struct unit units[] = {{"", 1}, {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {NULL, 0}};
    return parse_with_unit(text, units, out);
}

static bool parse_size(const char *text, int64_t *out) {
    static const struct unit units[] = {{"", 1}, {"b", 1}, {"k", 1024}, {"kb", 1024}, {"m", 1 << 20}, {NULL, 0}};
    double value;
    if (!parse_with_unit(text, units, &value)) return false;
    *out = (int64_t)value;
    return true;
}

static bool parse_share(const char *text, double *out) {
    static const struct unit units[] = {{"", 1}, {"%", 0.01}, {NULL, 0}};
    return parse_with_unit(text, units, out) && *out <= 1;
}

static bool parse_switch(const char *text, bool *out) {
    *out = !strcmp(text, "1") || !strcasecmp(text, "on") || !strcasecmp(text, "yes");
    return *out || !strcmp(text, "0") || !strcasecmp(text, "off") || !strcasecmp(text, "no");
}

static bool parse_queue(const char *text, struct direction *direction) {
    if (parse_time(text, &direction->queue)) {
        direction->queue_bytes = 0;
        return true;
    }
    if (!parse_size(text, &direction->queue_bytes)) return false;
    direction->queue = INT64_MAX;
    return true;
}

static const char *direction_set(struct direction *direction, const char *key, const char *value) {
    double number;
    const char *unit;
    if (!strcmp(key, "delay"))
        return parse_time(value, &direction->delay) ? NULL : "the delay is a time, such as 25ms";
    if (!strcmp(key, "jitter"))
        return parse_time(value, &direction->jitter) ? NULL : "the jitter is a time, such as 5ms";
    if (!strcmp(key, "keep-order"))
        return parse_switch(value, &direction->keep_order) ? NULL : "keep-order is on or off";
    if (!strcmp(key, "loss")) return parse_share(value, &direction->loss) ? NULL : "the loss is a share, such as 1%";
    if (!strcmp(key, "burst")) {
        if (!parse_number(value, &number, &unit) || *unit || number < 1) return "the burst is a number of packets";
        direction->burst = number;
        return NULL;
    }
    if (!strcmp(key, "reorder"))
        return parse_share(value, &direction->reorder) ? NULL : "reorder is a share, such as 2%";
    if (!strcmp(key, "reorder-by"))
        return parse_time(value, &direction->reorder_by) ? NULL : "reorder-by is a time, such as 10ms";
    if (!strcmp(key, "duplicate"))
        return parse_share(value, &direction->duplicate) ? NULL : "duplicate is a share, such as 2%";
    if (!strcmp(key, "corrupt"))
        return parse_share(value, &direction->corrupt) ? NULL : "corrupt is a share, such as 2%";
    if (!strcmp(key, "rate")) return parse_rate(value, &direction->rate) ? NULL : "the rate is such as 100mbit";
    if (!strcmp(key, "queue")) return parse_queue(value, direction) ? NULL : "the queue is such as 50ms or 64k";
    if (!strcmp(key, "mark")) return parse_time(value, &direction->mark) ? NULL : "mark is a time, such as 5ms";
    if (!strcmp(key, "congest"))
        return parse_share(value, &direction->congest) ? NULL : "congest is a share, such as 2%";
    if (!strcmp(key, "bleach")) return parse_switch(value, &direction->bleach) ? NULL : "bleach is on or off";
    if (!strcmp(key, "blackhole")) return parse_switch(value, &direction->blackhole) ? NULL : "blackhole is on or off";
    if (!strcmp(key, "max-size"))
        return parse_size(value, &direction->max_size) ? NULL : "max-size is a number of bytes";
    if (!strcmp(key, "first")) {
        if (!parse_number(value, &number, &unit) || *unit) return "first is a number of packets";
        direction->first = (int64_t)number;
        return NULL;
    }
    return "no such option";
}

const char *options_set(struct options *options, const char *key, const char *value) {
    double number;
    const char *unit;
    if (!strcmp(key, "seed")) {
        if (!parse_number(value, &number, &unit) || *unit) return "the seed is a number";
        options->seed = (uint64_t)number;
        return NULL;
    }
    if (!strcmp(key, "mtu")) {
        if (!parse_number(value, &number, &unit) || *unit || number < 576 || number > 65535)
            return "the MTU is 576 to 65535 bytes";
        options->mtu = (int)number;
        return NULL;
    }
    if (!strcmp(key, "rebind")) {
        if (!strcmp(value, "port"))
            options->port_shift += 1009;
        else if (!strcmp(value, "address"))
            options->address_shift += 1, options->port_shift += 1009;
        else
            return "rebind is port or address";
        options->bindings += 1;
        return NULL;
    }
    if (!strncmp(key, "up-", 3)) return direction_set(&options->directions[UP], key + 3, value);
    if (!strncmp(key, "down-", 5)) return direction_set(&options->directions[DOWN], key + 5, value);
    const char *wrong = direction_set(&options->directions[UP], key, value);
    return wrong ? wrong : direction_set(&options->directions[DOWN], key, value);
}
