#ifndef KITH_TERMINAL_H
#define KITH_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

// The terminal this process itself runs on.

/// Puts the terminal into raw mode. Returns 0 or the negated errno.
///
/// The mode found is put back by kith_terminal_restore, when the process exits, and when a signal ends it
/// (SIGHUP, SIGTERM, SIGINT, SIGQUIT and faults): the process then ends with that signal as it would have.
int kith_terminal_raw(int descriptor);

/// Lets the terminal stop this process when this thread reads from it, or changes it, in the background.
///
/// Threads of Dispatch, and those started by them, block the signals that do so: a read fails there, and a change is
/// made, as though the process were in front.
void kith_terminal_allow_stops(void);

/// Puts back the mode found. Safe to call at any time, from anywhere, also when nothing was changed.
void kith_terminal_restore(void);

/// Has kith_terminal_restore write these bytes first, at most 256 of them: what takes back another screen, a hidden
/// cursor, the mouse. A count of 0 has it write nothing.
void kith_terminal_farewell(int descriptor, const void *bytes, size_t count);

/// Reads the size of the terminal. Returns 0 or the negated errno.
int kith_terminal_size(int descriptor, uint16_t *columns, uint16_t *rows, uint16_t *width, uint16_t *height);

/// Makes a descriptor from which each arriving SIGWINCH, and SIGINT, SIGTERM and SIGHUP when `all` is not 0, can be
/// read as one byte: its number. Returns it or the negated errno. Once per process.
int kith_terminal_signals(int all);

/// Has SIGTSTP and SIGCONT come out of that descriptor, too (`on` not 0), or do again what they did before: for a
/// program that is to put its screen away before it stops.
void kith_terminal_job_signals(int on);

/// Stops this process's group as if the suspend key had been pressed; returns when it goes on.
void kith_terminal_suspend(void);

#endif
