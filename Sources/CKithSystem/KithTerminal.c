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
#include <unistd.h>

// A process has one terminal, and a signal handler can reach nothing but globals.
static struct termios found_modes;
static volatile sig_atomic_t changed_descriptor = -1;
static int signal_pipe[2] = {-1, -1};
static int handlers_installed;

static const int deadly[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
enum { deadly_count = sizeof deadly / sizeof deadly[0] };
static struct sigaction earlier[deadly_count];

void kith_terminal_restore(void) {
    int saved = errno;
    int descriptor = changed_descriptor;
    if (descriptor >= 0) {
        // A process in the background would be stopped by SIGTTOU here.
        sigset_t stop, before;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        sigprocmask(SIG_BLOCK, &stop, &before);
        tcsetattr(descriptor, TCSADRAIN, &found_modes);
        sigprocmask(SIG_SETMASK, &before, NULL);
        changed_descriptor = -1;
    }
    errno = saved;
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

void kith_terminal_suspend(void) {
    kill(0, SIGTSTP);
}
