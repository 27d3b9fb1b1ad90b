#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithTerminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

// A process has one terminal, and a signal handler can reach nothing but globals.
static struct termios found_modes;
static volatile sig_atomic_t changed_descriptor = -1;
static int signal_pipe[2] = {-1, -1};
static int handlers_installed;
static char farewell[256];
static volatile sig_atomic_t farewell_count;
static volatile sig_atomic_t farewell_descriptor = -1;
static volatile sig_atomic_t was_continued;
static int job_signals_taken;
static struct sigaction earlier_stop, earlier_continue;

static const int deadly[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
enum { deadly_count = sizeof deadly / sizeof deadly[0] };
static struct sigaction earlier[deadly_count];

void kith_terminal_allow_stops(void) {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTTIN);
    sigaddset(&stops, SIGTTOU);
    pthread_sigmask(SIG_UNBLOCK, &stops, NULL);
}

/// Tells whether another process group, one that exists, is in the foreground of the terminal.
static int belongs_to_another(int descriptor) {
    pid_t front = tcgetpgrp(descriptor);
    return front > 0 && front != getpgrp() && (kill(-front, 0) == 0 || errno == EPERM);
}

void kith_terminal_restore(void) {
    int saved = errno;
    int descriptor = changed_descriptor;
    // One that ends in the background leaves the terminal to whoever has it.
    if (descriptor >= 0 && !belongs_to_another(descriptor)) {
        // A process in the background would be stopped by SIGTTOU here.
        sigset_t stop, before;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        sigprocmask(SIG_BLOCK, &stop, &before);
        if (farewell_count > 0) {
            // A terminal that takes nothing any more has nothing to be put right.
            ssize_t ignored = write(farewell_descriptor, farewell, (size_t)farewell_count);
            (void)ignored;
        }
        tcsetattr(descriptor, TCSADRAIN, &found_modes);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    changed_descriptor = -1;
    errno = saved;
}

void kith_terminal_farewell(int descriptor, const void *bytes, size_t count) {
    farewell_count = 0;
    if (count > sizeof farewell) count = sizeof farewell;
    if (count > 0) memcpy(farewell, bytes, count);
    farewell_descriptor = descriptor;
    farewell_count = (sig_atomic_t)count;
}

static void restore_and_die(int number) {
    kith_terminal_restore();
    for (int index = 0; index < deadly_count; index++) {
        if (deadly[index] != number) continue;
        // An ignored signal would leave us running in a loop of faults.
        if (earlier[index].sa_handler == SIG_IGN) earlier[index].sa_handler = SIG_DFL;
        sigaction(number, &earlier[index], NULL);
    }
    raise(number);
}

int kith_terminal_raw(int descriptor) {
    struct termios modes;
    // A process in the background is stopped here until it is in front (SIGTTOU): until then the modes are another's.
    kith_terminal_allow_stops();
    while (tcdrain(descriptor) != 0 && errno == EINTR) {}
    if (tcgetattr(descriptor, &modes) != 0) return -errno;
    if (changed_descriptor < 0) found_modes = modes;
    if (!handlers_installed) {
        handlers_installed = 1;
        atexit(kith_terminal_restore);
        struct sigaction action;
        memset(&action, 0, sizeof action);
        sigemptyset(&action.sa_mask);
        action.sa_handler = restore_and_die;
        for (int index = 0; index < deadly_count; index++) {
            // One that was ignored from the start (nohup) stays so, and one somebody handles is theirs.
            sigaction(deadly[index], NULL, &earlier[index]);
            if (earlier[index].sa_handler == SIG_IGN) continue;
            sigaction(deadly[index], &action, NULL);
        }
    }
    cfmakeraw(&modes);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    changed_descriptor = descriptor;
    if (tcsetattr(descriptor, TCSADRAIN, &modes) != 0) {
        int error = errno;
        changed_descriptor = -1;
        return -error;
    }
    return 0;
}

int kith_terminal_size(int descriptor, uint16_t *columns, uint16_t *rows, uint16_t *width, uint16_t *height) {
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) return -errno;
    *columns = size.ws_col;
    *rows = size.ws_row;
    *width = size.ws_xpixel;
    *height = size.ws_ypixel;
    return 0;
}

static void write_number(int number) {
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t ignored = write(signal_pipe[1], &byte, 1);
    (void)ignored;
    errno = saved;
}

int kith_terminal_signals(int all) {
    if (signal_pipe[0] >= 0) return -EBUSY;
    if (pipe(signal_pipe) != 0) return -errno;
    fcntl(signal_pipe[0], F_SETFD, FD_CLOEXEC);
    fcntl(signal_pipe[1], F_SETFD, FD_CLOEXEC);
    // A handler must never wait for room.
    fcntl(signal_pipe[1], F_SETFL, O_NONBLOCK);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = write_number;
    action.sa_flags = SA_RESTART;
    sigaction(SIGWINCH, &action, NULL);
    if (all) {
        const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
        for (int index = 0; index < 3; index++) {
            struct sigaction before;
            sigaction(numbers[index], NULL, &before);
            if (before.sa_handler != SIG_IGN) sigaction(numbers[index], &action, NULL);
        }
    }
    return signal_pipe[0];
}

void kith_terminal_job_signals(int on) {
    if (!on == !job_signals_taken) return;
    job_signals_taken = on;
    if (!on) {
        sigaction(SIGTSTP, &earlier_stop, NULL);
        sigaction(SIGCONT, &earlier_continue, NULL);
        return;
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = write_number;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTSTP, &action, &earlier_stop);
    sigaction(SIGCONT, &action, &earlier_continue);
}

static void note_continued(int number) {
    (void)number;
    was_continued = 1;
}

void kith_terminal_suspend(void) {
    struct sigaction stop, resume, before_stop, before_resume;
    memset(&stop, 0, sizeof stop);
    sigemptyset(&stop.sa_mask);
    resume = stop;
    stop.sa_handler = SIG_DFL;
    resume.sa_handler = note_continued;
    resume.sa_flags = SA_RESTART;
    was_continued = 0;
    sigaction(SIGTSTP, &stop, &before_stop);
    sigaction(SIGCONT, &resume, &before_resume);
    kill(0, SIGTSTP);
    // Another thread may be the one that takes the signal: this one goes on until all are stopped. A process that
    // nobody could continue (its shell has gone) is not stopped at all.
    const struct timespec moment = {0, 10 * 1000 * 1000};
    for (int count = 0; count < 50 && !was_continued; count++) nanosleep(&moment, NULL);
    sigaction(SIGTSTP, &before_stop, NULL);
    sigaction(SIGCONT, &before_resume, NULL);
}
