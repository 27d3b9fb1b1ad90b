#ifndef KITH_SPAWN_H
#define KITH_SPAWN_H

#include <stddef.h>
#include <stdint.h>

// Processes in a session of their own, on a pseudo-terminal or on pipes, none of which outlives its owner.
//
//     this process ──control──▶ supervisor ──fork──▶ leader (setsid, exec) ──▶ its children
//
// The supervisor is a fork of this process that does nothing but wait. When the control socket closes, because its
// owner closed it or was killed, the supervisor ends every process of the leader's session: SIGHUP, SIGTERM after
// `hangup_milliseconds`, SIGKILL after `terminate_milliseconds` more. A process that left the session (setsid, as
// tmux and daemons do) is not touched; when the leader has ended by itself, one that was started only just before is
// first given the time to leave. The leader stays a zombie until then, so that its number is not reused.

/// The options for starting a process.
typedef struct kith_spawn_options {
    /// Not 0: on a new pseudo-terminal. 0: on three pipes.
    uint8_t terminal;
    uint16_t columns, rows, pixel_width, pixel_height;
    uint32_t hangup_milliseconds, terminate_milliseconds;
} kith_spawn_options;

/// A started process. All descriptors are close-on-exec and non-blocking; the caller closes them.
typedef struct kith_spawned {
    /// Reap it with kith_spawn_reap after `control` has reached its end.
    int32_t supervisor;
    /// The process itself.
    int32_t leader;
    /// The number of its session.
    int32_t session;
    int control;
    /// Write end of standard input; of a terminal, a second descriptor of its master side.
    int input;
    /// Read end of standard output; of a terminal, its master side.
    int output;
    /// Read end of standard error; of a terminal, -1.
    int error;
} kith_spawned;

/// The stages at which kith_spawn fails.
enum {
    KITH_SPAWN_SETUP = 1,
    KITH_SPAWN_DIRECTORY = 2,
    KITH_SPAWN_EXECUTE = 3
};

/// Starts `path` and waits until it runs. Returns 0 or the negated errno, with the part that failed in `*stage`.
///
/// `arguments` and `environment` are NUL-terminated strings one after the other, in as many bytes as told.
/// When `directory` cannot be entered, `fallback` is tried; an empty fallback makes that an error.
int kith_spawn(const char *path, const char *arguments, size_t arguments_length, const char *environment,
               size_t environment_length, const char *directory, const char *fallback,
               const kith_spawn_options *options, kith_spawned *spawned, int *stage);

/// The end of a process.
typedef struct kith_spawn_end {
    /// The exit status, or the number of the signal.
    int32_t code;
    uint8_t by_signal;
    uint8_t dumped_core;
} kith_spawn_end;

/// Asks whether the leader has ended: 1 yes, 0 not yet, -EPIPE when the supervisor is gone, else the negated errno.
int kith_spawn_ended(int control, kith_spawn_end *end);

/// Sends a signal to the foreground process group of the terminal `master`, or, when it is -1, to the leader's group.
int kith_spawn_signal(int control, int master, int signal);

/// Says that no more will be said: the supervisor ends what is left of the session, and then itself.
void kith_spawn_hang_up(int control);

/// Takes an ended supervisor out of the process table, waiting for it. Returns whether it had done its work.
int kith_spawn_reap(int32_t supervisor);

/// Sends SIGKILL to every process of a session: the last resort when its supervisor was killed.
void kith_spawn_kill_session(int32_t session);

/// Tells the kernel the size of the terminal behind `master`. Returns 0 or the negated errno.
int kith_spawn_resize(int master, uint16_t columns, uint16_t rows, uint16_t pixel_width, uint16_t pixel_height);

/// Writes the terminal's end-of-file character to `*character`; returns 0 when the terminal takes none now.
int kith_spawn_end_of_file(int master, uint8_t *character);

/// Tells whether one of the bytes, typed now, is a key (a control character) that interrupts, quits or stops what runs
/// in the foreground, and makes the terminal forget output not read yet (ISIG without NOFLSH).
int kith_spawn_interrupts(int master, const uint8_t *bytes, size_t length);

/// Reads until `capacity` bytes are there or, as far as can be told, none are left. Returns how many, 0 at the end, or the
/// negated errno.
intptr_t kith_read_available(int descriptor, void *bytes, size_t capacity);

/// Writes what fits to the terminal behind `master`. Returns how much, or the negated errno.
intptr_t kith_write_terminal(int master, const void *bytes, size_t length);

/// Writes what fits, to a pipe or a socket. Returns how much, or the negated errno. Never raises SIGPIPE.
intptr_t kith_write_available(int descriptor, const void *bytes, size_t length);

/// The account this process runs as.
typedef struct kith_account {
    char name[256];
    char home[1024];
    char shell[1024];
} kith_account;

/// Reads the account from the user database. Returns 0 or the negated errno.
int kith_account_read(kith_account *account);

#endif
