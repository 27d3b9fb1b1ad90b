// The two ends of the link: network namespaces without a name, each with a TUN device.
//
// A namespace lives as long as something holds it open, so the kernel removes both when this process and the programs
// inside are gone, however they went.
#ifndef KITH_LINK_ENDS_H
#define KITH_LINK_ENDS_H

#include <sys/types.h>

/// The host numbers: 10.7.0.N/16 and fd07::N/64. The left end has a second address to move to.
enum { LEFT_HOST = 1, RIGHT_HOST = 2, LEFT_SECOND_HOST = 3 };

struct end {
    int space;   ///< The network namespace.
    int device;  ///< The TUN device in it, non-blocking; reads and writes whole IP packets.
};

/// Makes an end with the addresses of `hosts`; ends the process with a sentence when that is not possible.
struct end end_make(const int *hosts, int count, int mtu);

/// Makes an end in the network namespace that stands at `path`: a device of that name, without addresses.
struct end end_join(const char *path, const char *device, int mtu);

/// Starts the process that ends what runs at the ends when this one is killed; call it once, before `end_run`.
void guard_start(void);
/// Ends it, and with it whatever still runs at the ends.
void guard_stop(void);

/// Runs `command` by the shell inside the end, in a process group of its own that dies with this process.
/// Its input is empty: ours is for the changes of the link.
pid_t end_run(const struct end *end, const char *command);

/// Prints a sentence with the system's reason and ends the process.
_Noreturn void fail(const char *what);

#endif
