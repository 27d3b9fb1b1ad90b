// kith-link: two network namespaces joined by a link that delays, loses, reorders and spoils packets as it is told.
//
//     Options.c   what the link does, and how that is written
//     Ends.c      the namespaces and their TUN devices
//     Packet.c    what may be changed in a packet
//     Queue.c     the packets under way
//     main.c      the loop, the commands at the ends, the numbers
#define _GNU_SOURCE
#include "Ends.h"
#include "Options.h"
#include "Packet.h"
#include "Queue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: kith-link [--KEY VALUE]... [--at TIME KEY=VALUE]... [--left COMMAND] [--right COMMAND]\n"
    "\n"
    "Makes two network namespaces, joins them by a link, and runs a command at either end. Needs root.\n"
    "The left end is 10.7.0.1 and fd07::1 (and .3, ::3, to move to), the right one 10.7.0.2 and fd07::2.\n"
    "It ends with the left command (or the right one, when there is no left one), with its exit status.\n"
    "Without a command it prints where the ends are, to enter them with nsenter --net=PATH, and ends with its input.\n"
    "\n"
    "For both directions, or for one as --up-KEY (left to right) and --down-KEY:\n"
    "  delay TIME     one way; a round trip takes twice as long     rate BITS      such as 100mbit; 0 has no limit\n"
    "  jitter TIME    0 to this much on top, packet by packet       queue TIME     what may wait for the rate, or bytes\n"
    "  keep-order on  jitter lets no packet overtake                mark TIME      CE for ECN packets that wait longer\n"
    "  loss SHARE     such as 1% or 0.01                            congest SHARE  CE for some, whatever the queue\n"
    "  burst N        how many are lost in a row, on average        bleach on      clears the ECN bits\n"
    "  reorder SHARE  these arrive early                            blackhole on   nothing arrives\n"
    "  reorder-by TIME  how much earlier, 10ms if not said\n"
    "  duplicate SHARE, corrupt SHARE (one bit, checksum right)     first N        only N packets arrive\n"
    "  max-size N     larger packets vanish\n"
    "For the link:\n"
    "  mtu N, seed N  fixed at the start\n"
    "  rebind port    the left end's UDP ports look different from now on; address: its address too\n"
    "  capture FILE   writes what both ends send as pcap            stats FILE     writes the numbers there at the end\n"
    "  left-space PATH, right-space PATH, left-device NAME, right-device NAME: joins two namespaces that are there, by\n"
    "                 devices of these names without addresses, instead of making two\n"
    "\n"
    "Options change at run time: --at TIME after the start, or a line KEY=VALUE on standard input. The line `stats`\n"
    "prints the numbers. Every line of input is answered by one line of JSON.\n";

struct scheduled {
    int64_t at;
    char *change;
};

struct numbers {
    uint64_t packets, bytes, payload;  // as sent by the end; payload is that of UDP
    uint64_t delivered, delivered_bytes, delivered_payload;
    uint64_t lost, overflowed, blackholed, too_large, unbound, refused;
    uint64_t reordered, duplicated, corrupted, marked, bleached;
    int64_t longest_wait;
};

static struct options options;
static struct end ends[2];
static struct queue queue;
static struct numbers numbers[2];
static int64_t busy_until[2], newest_due[2];
static uint64_t random_state;
static FILE *capture;
/// Which UDP ports of the left end have sent since the last rebinding: only those can be reached.
static uint8_t bound[65536];
static unsigned bindings;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// splitmix64: one seed, one sequence.
static uint64_t random_bits(void) {
    uint64_t z = random_state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static double random_share(void) { return (double)(random_bits() >> 11) * 0x1p-53; }

static bool happens(double share) { return share > 0 && random_share() < share; }

// MARK: - The packets

static void record(const uint8_t *bytes, size_t size) {
    if (!capture) return;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    uint32_t header[4] = {(uint32_t)time.tv_sec, (uint32_t)time.tv_nsec, (uint32_t)size, (uint32_t)size};
    fwrite(header, sizeof header, 1, capture);
    fwrite(bytes, size, 1, capture);
}

/// A loss in bursts is a Markov chain with two states (Gilbert) of the same share: one draw a packet either way.
static bool is_lost(struct direction *direction) {
    if (direction->loss <= 0) return direction->lossy = false;
    if (direction->burst <= 1) return happens(direction->loss);
    double leave = 1 / direction->burst;
    double enter = direction->loss >= 1 ? 1 : leave * direction->loss / (1 - direction->loss);
    return direction->lossy = direction->lossy ? !happens(leave) : happens(enter);
}

/// The ports a translator hands out: all above 1023, shifted around in a circle.
static uint16_t shifted(uint16_t port, uint32_t shift) {
    return port < 1024 ? port : (uint16_t)(1024 + (port - 1024u + shift) % 64512u);
}

/// Translates the left end's address; false when a packet for it has no binding and goes nowhere.
static bool translate(struct packet *packet, int way) {
    if (bindings != options.bindings) {
        memset(bound, 0, sizeof bound);
        bindings = options.bindings;
    }
    uint16_t outside = (uint16_t)(options.address_shift ? 0x100 + options.address_shift : 0);
    if (way == UP) {
        if (packet_is_udp(packet)) {
            uint16_t port = packet_port(packet, SOURCE);
            bound[port] = 1;
            if (options.port_shift) packet_set_port(packet, SOURCE, shifted(port, options.port_shift));
        }
        if (outside && packet_host(packet, SOURCE) == LEFT_HOST) packet_set_host(packet, SOURCE, outside);
        return true;
    }
    if (outside) {
        if (packet_host(packet, DESTINATION) != outside) return packet_host(packet, DESTINATION) != LEFT_HOST;
        packet_set_host(packet, DESTINATION, LEFT_HOST);
    }
    if (!options.port_shift || !packet_is_udp(packet)) return true;
    uint16_t port = shifted(packet_port(packet, DESTINATION), 64512 - options.port_shift % 64512);
    if (!bound[port]) return false;
    packet_set_port(packet, DESTINATION, port);
    return true;
}

static void send_later(const struct packet *packet, int way, int64_t due) {
    uint8_t *bytes = malloc(packet->size);
    if (!bytes) abort();
    memcpy(bytes, packet->bytes, packet->size);
    queue_add(&queue, (struct waiting){.due = due, .direction = way, .size = (uint32_t)packet->size, .bytes = bytes});
}

/// Decides what happens to a packet that an end has just sent.
static void carry(uint8_t *bytes, size_t size, int way, int64_t time) {
    struct direction *direction = &options.directions[way];
    struct numbers *count = &numbers[way];
    struct packet packet;
    if (!packet_parse(&packet, bytes, size)) return;
    // Neighbour and multicast talk of the two kernels is no traffic of the programs.
    if (packet.is_ipv6 && (bytes[24] == 0xFF || bytes[8] == 0xFE)) return;
    record(bytes, size);
    count->packets += 1;
    count->bytes += size;
    count->payload += packet.size - packet.payload;
    if (direction->blackhole || (direction->first >= 0 && count->packets > (uint64_t)direction->first)) {
        count->blackholed += 1;
        return;
    }
    if (direction->max_size && size > (size_t)direction->max_size) {
        count->too_large += 1;
        return;
    }
    if (is_lost(direction)) {
        count->lost += 1;
        return;
    }
    if (!translate(&packet, way)) {
        count->unbound += 1;
        return;
    }
    int64_t leaves = time;
    bool mark = packet_ecn(&packet) && happens(direction->congest);
    if (direction->rate > 0) {
        int64_t wait = busy_until[way] > time ? busy_until[way] - time : 0;
        double waiting_bytes = (double)wait * direction->rate / 8e9;
        if (wait > direction->queue || (direction->queue_bytes && waiting_bytes + (double)size > direction->queue_bytes)) {
            count->overflowed += 1;
            return;
        }
        if (wait > count->longest_wait) count->longest_wait = wait;
        if (direction->mark && wait > direction->mark && packet_ecn(&packet)) mark = true;
        leaves = busy_until[way] = time + wait + (int64_t)((double)size * 8e9 / direction->rate);
    }
    if (mark) {
        packet_set_ecn(&packet, 3);
        count->marked += 1;
    }
    if (direction->bleach && packet_ecn(&packet)) {
        packet_set_ecn(&packet, 0);
        count->bleached += 1;
    }
    if (happens(direction->corrupt)) {
        packet_corrupt(&packet, random_bits());
        count->corrupted += 1;
    }
    int copies = happens(direction->duplicate) ? 2 : 1;
    count->duplicated += copies == 2;
    for (; copies > 0; copies--) {
        int64_t due = leaves + direction->delay;
        if (happens(direction->reorder)) {
            count->reordered += 1;
            due = due - leaves > direction->reorder_by ? due - direction->reorder_by : leaves;
        } else {
            if (direction->jitter) due += (int64_t)(random_share() * (double)direction->jitter);
            if (direction->keep_order && due < newest_due[way]) due = newest_due[way];
            if (due > newest_due[way]) newest_due[way] = due;
        }
        send_later(&packet, way, due);
    }
}

static void deliver_due(int64_t time) {
    while (queue.count && queue.items[0].due <= time) {
        struct waiting item = queue_take(&queue);
        struct numbers *count = &numbers[item.direction];
        if (write(ends[item.direction == UP ? 1 : 0].device, item.bytes, item.size) == (ssize_t)item.size) {
            struct packet packet;
            packet_parse(&packet, item.bytes, item.size);
            count->delivered += 1;
            count->delivered_bytes += item.size;
            count->delivered_payload += packet.size - packet.payload;
        } else {
            count->refused += 1;
        }
        free(item.bytes);
    }
}

/// Takes what an end has sent, at most `most` packets, so that the other end and the queue get their turn.
static void take(int way, int most) {
    static uint8_t buffer[65536];
    while (most-- > 0) {
        ssize_t size = read(ends[way == UP ? 0 : 1].device, buffer, sizeof buffer);
        if (size <= 0) return;
        carry(buffer, (size_t)size, way, now());
    }
}

// MARK: - The numbers

static void print_direction(FILE *out, const char *name, const struct numbers *n) {
    fprintf(out,
        "\"%s\":{\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"payload\":%" PRIu64 ",\"delivered\":%" PRIu64
        ",\"deliveredBytes\":%" PRIu64 ",\"deliveredPayload\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"overflowed\":%" PRIu64
        ",\"blackholed\":%" PRIu64 ",\"tooLarge\":%" PRIu64 ",\"unbound\":%" PRIu64 ",\"refused\":%" PRIu64
        ",\"reordered\":%" PRIu64 ",\"duplicated\":%" PRIu64 ",\"corrupted\":%" PRIu64 ",\"marked\":%" PRIu64
        ",\"bleached\":%" PRIu64 ",\"longestWaitMilliseconds\":%.1f}",
        name, n->packets, n->bytes, n->payload, n->delivered, n->delivered_bytes, n->delivered_payload, n->lost,
        n->overflowed, n->blackholed, n->too_large, n->unbound, n->refused, n->reordered, n->duplicated, n->corrupted,
        n->marked, n->bleached, (double)n->longest_wait / 1e6);
}

static void print_numbers(FILE *out) {
    fprintf(out, "{\"seed\":%" PRIu64 ",", options.seed);
    print_direction(out, "up", &numbers[UP]);
    fputc(',', out);
    print_direction(out, "down", &numbers[DOWN]);
    fputs("}\n", out);
    fflush(out);
}

// MARK: - Changes

static const char *change(char *text) {
    char *equals = strchr(text, '=');
    if (!equals) return "a change is written KEY=VALUE";
    *equals = 0;
    if (!strcmp(text, "mtu") || !strcmp(text, "seed")) return "the MTU and the seed are fixed at the start";
    return options_set(&options, text, equals + 1);
}

static void answer(char *line, FILE *out) {
    if (!strcmp(line, "stats")) {
        print_numbers(out);
        return;
    }
    const char *wrong = change(line);
    fprintf(out, wrong ? "{\"error\":\"%s\"}\n" : "{\"ok\":true}\n", wrong);
    fflush(out);
}

/// Answers the whole lines of standard input; false when it has ended.
static bool read_changes(FILE *out) {
    static char buffer[4096];
    static size_t filled;
    ssize_t got = read(STDIN_FILENO, buffer + filled, sizeof buffer - 1 - filled);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    filled += (size_t)got;
    buffer[filled] = 0;
    char *line = buffer, *end;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        answer(line, out);
        line = end + 1;
    }
    filled -= (size_t)(line - buffer);
    memmove(buffer, line, filled);
    if (filled == sizeof buffer - 1) filled = 0;  // no change is that long
    return true;
}

static int by_time(const void *a, const void *b) {
    int64_t x = ((const struct scheduled *)a)->at, y = ((const struct scheduled *)b)->at;
    return (x > y) - (x < y);
}

// MARK: - The program

static _Noreturn void refuse(const char *key, const char *why) {
    fprintf(stderr, "kith-link: %s: %s\n\n%s", key, why, usage);
    exit(64);
}

static void stop(pid_t *child) {
    if (*child <= 0) return;
    kill(-*child, SIGTERM);
    for (int i = 0; i < 200; i++) {
        if (waitpid(*child, NULL, WNOHANG) != 0) break;
        struct timespec pause = {.tv_nsec = 10000000};
        nanosleep(&pause, NULL);
        if (i == 199) kill(-*child, SIGKILL), waitpid(*child, NULL, 0);
    }
    *child = 0;
}

int main(int argc, char **argv) {
    const char *commands[2] = {NULL, NULL}, *stats_path = NULL, *capture_path = NULL;
    const char *spaces[2] = {NULL, NULL}, *devices[2] = {"link0", "link0"};
    struct scheduled *schedule = calloc((size_t)argc + 1, sizeof *schedule);
    size_t scheduled = 0, done = 0;
    options_default(&options);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) return fputs(usage, stdout), 0;
        if (strncmp(argv[i], "--", 2) || !argv[i][2]) refuse(argv[i], "an option begins with --");
        char *key = argv[i] + 2, *value = strchr(key, '=');
        if (value)
            *value++ = 0;
        else if (++i < argc)
            value = argv[i];
        else
            refuse(key, "the value is missing");
        const char *wrong = NULL;
        if (!strcmp(key, "left")) {
            commands[0] = value;
        } else if (!strcmp(key, "right")) {
            commands[1] = value;
        } else if (!strcmp(key, "left-space")) {
            spaces[0] = value;
        } else if (!strcmp(key, "right-space")) {
            spaces[1] = value;
        } else if (!strcmp(key, "left-device")) {
            devices[0] = value;
        } else if (!strcmp(key, "right-device")) {
            devices[1] = value;
        } else if (!strcmp(key, "stats")) {
            stats_path = value;
        } else if (!strcmp(key, "capture")) {
            capture_path = value;
        } else if (!strcmp(key, "at")) {
            if (!parse_time(value, &schedule[scheduled].at)) refuse("at", "the time is such as 2s or 300ms");
            if (++i >= argc) refuse("at", "the change is missing");
            // A change that cannot be made should be known now, not in the middle of a measurement.
            struct options trial = options;
            char *copy = strdup(argv[i]), *equals = strchr(copy, '=');
            if (!equals) refuse(argv[i], "a change is written KEY=VALUE");
            *equals = 0;
            wrong = options_set(&trial, copy, equals + 1);
            free(copy);
            schedule[scheduled++].change = argv[i];
        } else {
            wrong = options_set(&options, key, value);
        }
        if (wrong) refuse(key, wrong);
    }
    qsort(schedule, scheduled, sizeof *schedule, by_time);

    prctl(PR_SET_TIMERSLACK, 1);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int signal_file = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_file < 0) fail("waiting for signals");

    // Tells when the process that started us is gone; PR_SET_PDEATHSIG would tell when its *thread* is.
    int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);

    bool has_commands = commands[0] || commands[1];
    // The commands' output is theirs; ours goes beside it.
    FILE *out = has_commands ? stderr : stdout, *stats = NULL;
    if (stats_path && !(stats = fopen(stats_path, "we"))) fail(stats_path);
    if (capture_path) {
        if (!(capture = fopen(capture_path, "we"))) fail(capture_path);
        // pcap with nanoseconds, raw IP packets (LINKTYPE_RAW).
        uint32_t header[6] = {0xA1B23C4D, 4u << 16 | 2u, 0, 0, 65535, 101};
        fwrite(header, sizeof header, 1, capture);
    }
    random_state = options.seed;
    int left_hosts[] = {LEFT_HOST, LEFT_SECOND_HOST}, right_hosts[] = {RIGHT_HOST};
    if (!spaces[0] != !spaces[1]) refuse("left-space", "both ends are to join a namespace, or none");
    for (int i = 0; i < 2 && spaces[0]; i++) ends[i] = end_join(spaces[i], devices[i], options.mtu);
    if (!spaces[0]) {
        ends[0] = end_make(left_hosts, 2, options.mtu);
        ends[1] = end_make(right_hosts, 1, options.mtu);
    }

    if (has_commands) guard_start();
    int64_t start = now();
    pid_t children[2] = {0, 0};
    // The right end is the server's: it comes first.
    for (int i = 1; i >= 0; i--)
        if (commands[i]) children[i] = end_run(&ends[i], commands[i]);
    int waits_for = commands[0] ? 0 : 1, status = 0;
    if (!has_commands) {
        int pid = getpid();
        fprintf(out, "{\"pid\":%d,\"left\":\"/proc/%d/fd/%d\",\"right\":\"/proc/%d/fd/%d\"}\n", pid, pid,
            ends[0].space, pid, ends[1].space);
        fflush(out);
    }

    bool runs = true, reads = true;
    while (runs) {
        int64_t time = now();
        deliver_due(time);
        while (done < scheduled && start + schedule[done].at <= time) {
            const char *wrong = change(schedule[done++].change);
            if (wrong) fprintf(stderr, "kith-link: %s\n", wrong);
        }
        int64_t next = INT64_MAX;
        if (queue.count) next = queue.items[0].due;
        if (done < scheduled && start + schedule[done].at < next) next = start + schedule[done].at;
        int64_t left = next - time > 0 ? next - time : 0;
        struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        struct pollfd files[] = {{ends[0].device, POLLIN, 0}, {ends[1].device, POLLIN, 0}, {signal_file, POLLIN, 0},
            {reads ? STDIN_FILENO : -1, POLLIN, 0}, {parent, POLLIN, 0}};
        if (ppoll(files, 5, next == INT64_MAX ? NULL : &wait, NULL) < 0 && errno != EINTR) fail("waiting");
        if (files[0].revents) take(UP, 64);
        if (files[1].revents) take(DOWN, 64);
        if (files[3].revents && !read_changes(out)) {
            reads = false;
            if (!has_commands) runs = false;
        }
        if (files[4].revents) runs = false;
        struct signalfd_siginfo info;
        while (files[2].revents && read(signal_file, &info, sizeof info) == sizeof info) {
            if (info.ssi_signo != SIGCHLD) {
                runs = false;
                status = 128 + (int)info.ssi_signo;
                continue;
            }
            for (int i = 0; i < 2; i++) {
                int result;
                if (children[i] <= 0 || waitpid(children[i], &result, WNOHANG) <= 0) continue;
                kill(-children[i], SIGTERM);
                children[i] = 0;
                if (i != waits_for) continue;
                runs = false;
                status = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
            }
        }
    }
    for (int i = 0; i < 2; i++) stop(&children[i]);
    guard_stop();
    print_numbers(stats ? stats : out);
    if (capture && fclose(capture) != 0) fail(capture_path);
    return status;
}
