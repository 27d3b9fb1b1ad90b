#define _GNU_SOURCE
#include "Ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "link0"

_Noreturn void fail(const char *what) {
    fprintf(stderr, "kith-link: %s: %s\n", what, strerror(errno));
    exit(70);
}

static void request(int socket, unsigned long number, void *argument, const char *what) {
    if (ioctl(socket, number, argument) < 0) fail(what);
}

static void name(struct ifreq *request, const char *device) {
    memset(request, 0, sizeof *request);
    snprintf(request->ifr_name, sizeof request->ifr_name, "%s", device);
}

static void bring_up(int socket, const char *device) {
    struct ifreq flags;
    name(&flags, device);
    request(socket, SIOCGIFFLAGS, &flags, "reading the device's flags");
    flags.ifr_flags |= IFF_UP | IFF_RUNNING;
    request(socket, SIOCSIFFLAGS, &flags, "bringing the device up");
}

static void add_ipv4(int socket, int host, int alias) {
    char label[IFNAMSIZ];
    snprintf(label, sizeof label, alias ? DEVICE ":%d" : DEVICE, alias);
    struct ifreq change;
    name(&change, label);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(0x0A070000u + (uint32_t)host);
    memcpy(&change.ifr_addr, &address, sizeof address);
    request(socket, SIOCSIFADDR, &change, "setting the IPv4 address");
    address.sin_addr.s_addr = htonl(0xFFFF0000u);
    memcpy(&change.ifr_netmask, &address, sizeof address);
    request(socket, SIOCSIFNETMASK, &change, "setting the IPv4 network");
}

static void add_ipv6(int socket, int host, int index) {
    struct in6_ifreq change = {.ifr6_prefixlen = 64, .ifr6_ifindex = index};
    change.ifr6_addr.s6_addr[0] = 0xFD;
    change.ifr6_addr.s6_addr[1] = 0x07;
    change.ifr6_addr.s6_addr[15] = (uint8_t)host;
    request(socket, SIOCSIFADDR, &change, "setting the IPv6 address");
}

/// Waits until programs can use the address: the kernel looks first, in its own time, whether anybody else has it.
static void wait_for_ipv6(int host) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    address.sin6_addr.s6_addr[0] = 0xFD;
    address.sin6_addr.s6_addr[1] = 0x07;
    address.sin6_addr.s6_addr[15] = (uint8_t)host;
    for (int tries = 0; tries < 5000; tries++) {
        int socket_file = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (socket_file < 0) fail("opening a socket");
        int status = bind(socket_file, (struct sockaddr *)&address, sizeof address);
        close(socket_file);
        if (status == 0) return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail("using the IPv6 address");
}

/// Makes a TUN device in the namespace this thread is in; returns it.
static int make_device(const char *device, int mtu, int socket_file) {
    int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) fail("opening /dev/net/tun");
    struct ifreq change;
    name(&change, device);
    change.ifr_flags = IFF_TUN | IFF_NO_PI;
    request(file, TUNSETIFF, &change, "making a TUN device");
    name(&change, device);
    change.ifr_mtu = mtu;
    request(socket_file, SIOCSIFMTU, &change, "setting the MTU");
    // Packets wait for us in the device's queue, where a full one would lose them uncounted.
    name(&change, device);
    change.ifr_qlen = 8192;
    request(socket_file, SIOCSIFTXQLEN, &change, "setting the device's queue");
    return file;
}

struct end end_join(const char *path, const char *device, int mtu) {
    struct end end = {.space = open(path, O_RDONLY | O_CLOEXEC)};
    if (end.space < 0) fail(path);
    if (setns(end.space, CLONE_NEWNET) < 0) fail("entering the network namespace (this needs root)");
    int v4 = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (v4 < 0) fail("opening a socket");
    end.device = make_device(device, mtu, v4);
    bring_up(v4, device);
    close(v4);
    return end;
}

struct end end_make(const int *hosts, int count, int mtu) {
    if (unshare(CLONE_NEWNET) < 0) fail("making a network namespace (this needs root)");
    struct end end;
    end.space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (end.space < 0) fail("opening the network namespace");
    int v4 = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), v6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (v4 < 0) fail("opening a socket");
    end.device = make_device(DEVICE, mtu, v4);
    bring_up(v4, "lo");
    struct ifreq change;
    name(&change, DEVICE);
    request(v4, SIOCGIFINDEX, &change, "finding the device");
    int index = change.ifr_ifindex;
    for (int i = 0; i < count; i++) add_ipv4(v4, hosts[i], i);
    // Of equal addresses the kernel prefers the newest, so the first comes last. IPv6 needs 1280 bytes (RFC 8200 §5).
    for (int i = count; v6 >= 0 && mtu >= 1280 && i > 0; i--) add_ipv6(v6, hosts[i - 1], index);
    bring_up(v4, DEVICE);
    for (int i = 0; v6 >= 0 && mtu >= 1280 && i < count; i++) wait_for_ipv6(hosts[i]);
    close(v4);
    if (v6 >= 0) close(v6);
    return end;
}

/// Where the guard learns of the groups; -1 without one.
static int guard = -1;
static pid_t guard_process;

void guard_start(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) fail("making a pipe");
    pid_t child = fork();
    if (child < 0) fail("starting the guard");
    if (child > 0) {
        guard = ends[1];
        guard_process = child;
        close(ends[0]);
        return;
    }
    // A session of its own: neither Ctrl-C nor the end of the terminal reaches it.
    setsid();
    close(ends[1]);
    pid_t groups[16], group;
    size_t count = 0;
    while (read(ends[0], &group, sizeof group) == sizeof group)
        if (count < 16) groups[count++] = group;
    while (count > 0) kill(-groups[--count], SIGKILL);
    _exit(0);
}

void guard_stop(void) {
    if (guard < 0) return;
    close(guard);
    guard = -1;
    waitpid(guard_process, NULL, 0);
}

pid_t end_run(const struct end *end, const char *command) {
    pid_t parent = getpid(), child = fork();
    if (child < 0) fail("starting a command");
    if (child > 0) {
        setpgid(child, child);
        if (write(guard, &child, sizeof child) != sizeof child) fail("telling the guard");
        return child;
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(70);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (setns(end->space, CLONE_NEWNET) < 0) fail("entering the network namespace");
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) fail("opening /dev/null");
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    fail("starting the shell");
}
