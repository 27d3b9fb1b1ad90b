#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithMemory.h"
#include "KithSpawn.h"
#include "KithSockets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#else
#include <sys/event.h>
#include <sys/mman.h>
#include <sys/sysctl.h>
#endif

// Everything between fork and exec, and everything the supervisor does, is async-signal-safe: this process has
// threads, and any of them may have held any lock at the moment of the fork.

/// A message on the control socket, either way.
typedef struct record {
    int32_t kind;
    int32_t first;
    int32_t second;
} record;

enum { RECORD_STARTED = 1, RECORD_FAILED = 2, RECORD_ENDED = 3, RECORD_SIGNAL = 4 };

// MARK: - Small helpers

static void close_quietly(int descriptor) {
    if (descriptor >= 0) close(descriptor);
}

static int send_record(int socket, int32_t kind, int32_t first, int32_t second) {
    record message = {kind, first, second};
#ifdef MSG_NOSIGNAL
    int flags = MSG_NOSIGNAL;
#else
    int flags = 0;
#endif
    for (;;) {
        ssize_t sent = send(socket, &message, sizeof message, flags);
        if (sent == (ssize_t)sizeof message) return 0;
        if (sent >= 0) return -EIO;
        if (errno != EINTR) return -errno;
    }
}

/// Moves a descriptor above standard error and makes it close-on-exec.
static int above_standard(int descriptor) {
    if (descriptor < 0) return descriptor;
    if (descriptor > 2) {
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        return descriptor;
    }
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    int saved = errno;
    close(descriptor);
    errno = saved;
    return moved;
}

static int open_pipe(int ends[2]) {
#ifdef __linux__
    if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
#else
    if (pipe(ends) != 0) return -errno;
#endif
    ends[0] = above_standard(ends[0]);
    ends[1] = above_standard(ends[1]);
    if (ends[0] >= 0 && ends[1] >= 0) return 0;
    int error = errno;
    close_quietly(ends[0]);
    close_quietly(ends[1]);
    return -error;
}

static int open_control(int ends[2]) {
#ifdef __linux__
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -errno;
#else
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -errno;
    int on = 1;
    setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
    setsockopt(ends[1], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    ends[0] = above_standard(ends[0]);
    ends[1] = above_standard(ends[1]);
    if (ends[0] >= 0 && ends[1] >= 0) return 0;
    int error = errno;
    close_quietly(ends[0]);
    close_quietly(ends[1]);
    return -error;
}

static void make_nonblocking(int descriptor) {
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0) fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

static void close_between(int first, int last) {
    if (first > last) return;
#if defined(__linux__) && defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == 0) return;
#endif
    int limit = getdtablesize();
    if (last >= limit) last = limit - 1;
    for (int descriptor = first; descriptor <= last; descriptor++) close(descriptor);
}

/// Closes every descriptor above standard error but the `count` given.
static void close_all_except(const int *kept, int count) {
    int from = 3;
    for (;;) {
        int next = INT_MAX;
        for (int index = 0; index < count; index++) {
            if (kept[index] >= from && kept[index] < next) next = kept[index];
        }
        if (next == INT_MAX) break;
        close_between(from, next - 1);
        from = next + 1;
    }
    close_between(from, INT_MAX);
}

static void default_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    sigemptyset(&action.sa_mask);
    for (int number = 1; number < NSIG; number++) {
        if (number != SIGKILL && number != SIGSTOP) sigaction(number, &action, NULL);
    }
}

// MARK: - The processes of a session

/// Sends `number` (0: none) to every living process of a session but `except`; returns how many there are. With
/// COUNT_UNSETTLED it counts only those that have not come to rest.
#ifdef __linux__
/// Reads the state letter of a process, and when it started, in ticks since the machine did; 'X' when it is gone.
static char process_state(const char *name, uint64_t *started) {
    char path[64] = "/proc/";
    size_t length = 6;
    for (; *name != 0 && length < 40; name++) path[length++] = *name;
    memcpy(path + length, "/stat", 6);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 'X';
    char text[512];
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0) return 'X';
    text[count] = 0;
    // "number (name) state …": the name may hold anything; the start is the 22nd field, the state the third.
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] == 0 || at[2] == 0) return 'S';
    char state = at[2];
    at += 2;
    for (int field = 3; field < 22 && at != NULL; field++) {
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    *started = 0;
    for (; at != NULL && *at >= '0' && *at <= '9'; at++) *started = *started * 10 + (uint64_t)(*at - '0');
    return state;
}

/// Asks, in place of a signal, how many of the processes have not come to rest yet.
enum { COUNT_UNSETTLED = -1 };
/// A process may take this long from its start until it comes to rest.
enum { SETTLING_MILLISECONDS = 1000 };

/// Tells whether a process has only just been started, and runs: it may be about to leave the session (setsid).
static int is_unsettled(char state, uint64_t started) {
    if (state != 'R' && state != 'D') return 0;
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
    long ticks = sysconf(_SC_CLK_TCK);
    if (ticks <= 0) return 0;
    uint64_t age = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 - started * 1000 / (uint64_t)ticks;
    return age < SETTLING_MILLISECONDS;
}

static int signal_session(pid_t session, int number, pid_t except) {
    int directory = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return kill(-session, number > 0 ? number : 0) == 0 ? 1 : 0;
    int found = 0;
    char entries[8192] __attribute__((aligned(8)));
    for (;;) {
        long length = syscall(SYS_getdents64, directory, entries, sizeof entries);
        if (length <= 0) break;
        for (long at = 0; at < length;) {
            // struct linux_dirent64: inode 8, offset 8, record length 2, type 1, name.
            unsigned short size;
            memcpy(&size, entries + at + 16, sizeof size);
            const char *name = entries + at + 19;
            at += size;
            pid_t process = 0;
            const char *digit = name;
            for (; *digit >= '0' && *digit <= '9'; digit++) process = process * 10 + (*digit - '0');
            if (*digit != 0 || process <= 0 || process == except) continue;
            if (getsid(process) != session) continue;
            uint64_t started = 0;
            char state = process_state(name, &started);
            if (state == 'Z' || state == 'X') continue;
            if (number == COUNT_UNSETTLED && !is_unsettled(state, started)) continue;
            if (number > 0) kill(process, number);
            found++;
        }
    }
    close(directory);
    return found;
}
#else
enum { COUNT_UNSETTLED = -1, SETTLING_MILLISECONDS = 1000 };

static int signal_session(pid_t session, int number, pid_t except) {
    int name[4] = {CTL_KERN, KERN_PROC, KERN_PROC_ALL, 0};
    size_t length = 0;
    if (sysctl(name, 3, NULL, &length, NULL, 0) != 0) return kill(-session, number > 0 ? number : 0) == 0 ? 1 : 0;
    length += 64 * sizeof(struct kinfo_proc);
    size_t capacity = length;
    struct kinfo_proc *list = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_ANON | MAP_PRIVATE, -1, 0);
    if (list == MAP_FAILED) return kill(-session, number > 0 ? number : 0) == 0 ? 1 : 0;
    int found = 0;
    if (sysctl(name, 3, list, &length, NULL, 0) == 0) {
        for (size_t index = 0; index < length / sizeof *list; index++) {
            pid_t process = list[index].kp_proc.p_pid;
            if (process <= 0 || process == except || list[index].kp_proc.p_stat == SZOMB) continue;
            if (getsid(process) != session) continue;
            if (number == COUNT_UNSETTLED) {
                struct timeval now, start = list[index].kp_proc.p_starttime;
                gettimeofday(&now, NULL);
                // What runs and what waits look alike here.
                if ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_usec - start.tv_usec) / 1000 >= SETTLING_MILLISECONDS / 4) {
                    continue;
                }
            }
            if (number > 0) kill(process, number);
            found++;
        }
    }
    munmap(list, capacity);
    return found;
}
#endif

static void pause_milliseconds(long milliseconds) {
    struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static uint64_t now_milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/// Waits until no process of the session lives; returns whether that came true in time.
static int session_empties(pid_t session, pid_t head, uint64_t milliseconds) {
    uint64_t deadline = now_milliseconds() + milliseconds;
    for (long pause = 1;; pause = pause < 20 ? pause * 2 : pause) {
        if (signal_session(session, 0, head) == 0) return 1;
        if (now_milliseconds() >= deadline) return 0;
        pause_milliseconds(pause);
    }
}

/// Waits until what has just been started in the session has come to rest: a job that is on its way out of it (setsid)
/// when its shell ends is to get there, whatever the machine is busy with.
static void settle_session(pid_t session, pid_t head) {
    uint64_t deadline = now_milliseconds() + SETTLING_MILLISECONDS;
    for (int quiet = 0; quiet < 2 && now_milliseconds() < deadline;) {
        quiet = signal_session(session, COUNT_UNSETTLED, head) == 0 ? quiet + 1 : 0;
        if (quiet == 1 && signal_session(session, 0, head) == 0) return;
        pause_milliseconds(2);
    }
}

static void end_session(pid_t session, pid_t head, const kith_spawn_options *options) {
    // A stopped process acts on the signals only when it goes on.
    signal_session(session, SIGHUP, head);
    signal_session(session, SIGCONT, head);
    if (session_empties(session, head, options->hangup_milliseconds)) return;
    signal_session(session, SIGTERM, head);
    signal_session(session, SIGCONT, head);
    if (session_empties(session, head, options->terminate_milliseconds)) return;
    // Several rounds: a process may have forked while the list was read.
    for (int round = 0; round < 200; round++) {
        if (signal_session(session, SIGKILL, head) == 0) return;
        pause_milliseconds(5);
    }
}

void kith_spawn_kill_session(int32_t session) {
    for (int round = 0; round < 20; round++) {
        if (signal_session(session, SIGKILL, 0) == 0) return;
        pause_milliseconds(2);
    }
}

// MARK: - The leader

/// The arguments of a new process, prepared before the fork.
typedef struct plan {
    const char *path;
    char **arguments;
    char **environment;
    const char *directory;
    const char *fallback;
    const kith_spawn_options *options;
    int standard[3];
} plan;

static _Noreturn void fail(int report, int stage, int error) {
    int32_t words[2] = {stage, error};
    ssize_t ignored = write(report, words, sizeof words);
    (void)ignored;
    _exit(127);
}

/// Leaves the first place of a terminal's session to a process that does nothing, and goes on as another one.
///
/// When the first process of such a session ends, the kernel hangs up on everything in front of the terminal, at once:
/// also on a job that was just about to leave. So the one that ends is not the first. The supervisor is its parent all
/// the same: in a session of its own parent's, the suspend key would stop it with nobody to continue it.
static void leave_to_head(const plan *plan, int report) {
#ifdef __linux__
    long leader = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (leader < 0) fail(report, KITH_SPAWN_SETUP, errno);
    if (leader > 0) {
        int32_t words[2] = {0, (int32_t)leader};
        ssize_t ignored = write(report, words, sizeof words);
        (void)ignored;
        // All signals are blocked since before the first fork, and stay so: only SIGKILL ends it.
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_all_except(NULL, 0);
        for (;;) pause();
    }
    prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (setpgid(0, 0) != 0 || tcsetpgrp(plan->standard[0], getpid()) != 0) fail(report, KITH_SPAWN_SETUP, errno);
#else
    (void)plan;
    (void)report;
#endif
}

static _Noreturn void become_leader(const plan *plan, int report) {
#ifdef __linux__
    // Should the supervisor itself be killed, the leader at least is told.
    prctl(PR_SET_PDEATHSIG, SIGHUP);
#endif
    if (setsid() < 0) fail(report, KITH_SPAWN_SETUP, errno);
    if (plan->options->terminal) {
        if (ioctl(plan->standard[0], TIOCSCTTY, 0) != 0) fail(report, KITH_SPAWN_SETUP, errno);
        leave_to_head(plan, report);
    }
    for (int number = 0; number < 3; number++) {
        if (dup2(plan->standard[number], number) < 0) fail(report, KITH_SPAWN_SETUP, errno);
    }
    close_all_except(&report, 1);
    umask(022);
    default_signals();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir(plan->directory) != 0) {
        int error = errno;
        if (plan->fallback[0] == 0 || chdir(plan->fallback) != 0) fail(report, KITH_SPAWN_DIRECTORY, error);
    }
    // Programs that use select(2) rely on the usual limit.
    kith_restore_descriptor_limit();
    kith_restore_core_limit();
    execve(plan->path, plan->arguments, plan->environment);
    fail(report, KITH_SPAWN_EXECUTE, errno);
}

// MARK: - The supervisor

static volatile sig_atomic_t asked_to_stop;

static void note_child(int number) { (void)number; }
static void note_stop(int number) {
    (void)number;
    asked_to_stop = 1;
}

/// Reaps orphans until the leader is the next one.
static void reap_orphans(pid_t leader) {
    for (;;) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) != 0) return;
        if (info.si_pid == 0 || info.si_pid == leader) return;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

/// Tells how the leader ended and leaves it a zombie; returns whether it has ended.
static int report_end(int control, pid_t leader) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)leader, &info, WEXITED | WNOWAIT | WNOHANG) != 0) return errno == ECHILD;
    if (info.si_pid != leader) return 0;
    int flags = info.si_code == CLD_EXITED ? 0 : info.si_code == CLD_DUMPED ? 3 : 1;
    send_record(control, RECORD_ENDED, info.si_status, flags);
    return 1;
}

static _Noreturn void supervise(const plan *plan, int control) {
    setsid();
    default_signals();
#ifdef __linux__
    prctl(PR_SET_NAME, "kith-shell");
    // Orphans of the session become ours to reap, so that they are no zombies where process 1 does not care.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
    int report[2];
    int failure = open_pipe(report);
    if (failure != 0) {
        send_record(control, RECORD_FAILED, KITH_SPAWN_SETUP, -failure);
        _exit(1);
    }
    int nothing = open("/dev/null", O_RDWR);
    for (int number = 0; number < 3 && nothing >= 0; number++) dup2(nothing, number);
    const int kept[] = {control, report[0], report[1], plan->standard[0], plan->standard[1], plan->standard[2]};
    close_all_except(kept, 6);
    // It waits with select, which knows small numbers only; what its owner holds open is closed by now.
    if (control >= FD_SETSIZE) {
        int small = fcntl(control, F_DUPFD_CLOEXEC, 3);
        close(control);
        control = small;
    }

    pid_t session = fork();
    if (session == 0) {
        close(report[0]);
        become_leader(plan, report[1]);
    }
    pid_t leader = session;
    int error = errno;
    close(report[1]);
    if (leader < 0) {
        send_record(control, RECORD_FAILED, KITH_SPAWN_SETUP, error);
        _exit(1);
    }
    int32_t words[2] = {0, 0};
    ssize_t count;
    for (;;) {
        count = read(report[0], words, sizeof words);
        if (count < 0 && errno == EINTR) continue;
        if (count != (ssize_t)sizeof words || words[0] != 0) break;
        leader = words[1];
    }
    close(report[0]);
    if (count == (ssize_t)sizeof words) {
        if (session != leader) kill(session, SIGKILL);
        while (waitpid(-1, NULL, 0) > 0) {}
        send_record(control, RECORD_FAILED, words[0], words[1]);
        _exit(1);
    }
    // The terminal stays open here, so that its master side does not report an end while the leader has it closed.
    if (!plan->options->terminal) {
        for (int number = 0; number < 3; number++) close(plan->standard[number]);
    }

    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = note_child;
    sigaction(SIGCHLD, &action, NULL);
    action.sa_handler = note_stop;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
    sigset_t none;
    sigemptyset(&none);

    send_record(control, RECORD_STARTED, leader, session);
    int ended = 0;
    while (!asked_to_stop) {
        if (!ended) ended = report_end(control, leader);
        reap_orphans(leader);
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(control, &readable);
        // Signals are blocked outside of this call, so none can arrive unnoticed before it.
        if (pselect(control + 1, &readable, NULL, NULL, NULL, &none) < 0) {
            if (errno == EINTR) continue;
            break;
        }
        record message;
        ssize_t length = recv(control, &message, sizeof message, 0);
        if (length < 0 && errno == EINTR) continue;
        if (length != (ssize_t)sizeof message) break;
        if (message.kind == RECORD_SIGNAL) {
            if (message.second > 1) {
                kill(-message.second, message.first);
            } else if (!ended) {
                kill(-leader, message.first);
            }
        }
    }
    pid_t head = session == leader ? 0 : session;
    if (ended) settle_session(session, head);
    end_session(session, head, plan->options);
    // Reaped last: until here the number of the session cannot have been reused.
    if (head != 0) kill(head, SIGKILL);
    waitpid(leader, NULL, 0);
    if (head != 0) waitpid(head, NULL, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    _exit(0);
}

// MARK: - Starting

/// Cuts strings that follow each other into a NULL-terminated list over a copy; free() frees both.
static char **cut(const char *strings, size_t length) {
    size_t count = 0;
    for (size_t at = 0; at < length; at++) count += strings[at] == 0;
    char **list = malloc((count + 1) * sizeof *list + length + 1);
    if (list == NULL) return NULL;
    char *copy = (char *)(list + count + 1);
    memcpy(copy, strings, length);
    copy[length] = 0;
    size_t index = 0;
    for (size_t at = 0; index < count; index++) {
        list[index] = copy + at;
        at += strlen(copy + at) + 1;
    }
    list[count] = NULL;
    return list;
}

static int open_terminal(const kith_spawn_options *options, int *master, int *slave) {
    *slave = -1;
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master < 0) return -errno;
    *master = above_standard(*master);
    if (*master < 0 || grantpt(*master) != 0 || unlockpt(*master) != 0) goto failed;
#if defined(__linux__) && defined(TIOCGPTPEER)
    *slave = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
#endif
    if (*slave < 0) {
        char name[128];
#ifdef __linux__
        if (ptsname_r(*master, name, sizeof name) != 0) goto failed;
#else
        if (ioctl(*master, TIOCPTYGNAME, name) != 0) goto failed;
#endif
        *slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (*slave < 0) goto failed;
    }
    *slave = above_standard(*slave);
    if (*slave < 0) goto failed;
    struct termios modes;
    if (tcgetattr(*slave, &modes) == 0) {
#ifdef __APPLE__
        // Darwin's new terminals come without most of it.
        modes.c_iflag = BRKINT | ICRNL | IXON | IMAXBEL;
        modes.c_oflag = OPOST | ONLCR;
        modes.c_lflag = ECHO | ICANON | ISIG | IEXTEN | ECHOE | ECHOKE | ECHOCTL;
        modes.c_cflag = CS8 | CREAD;
        cfsetspeed(&modes, B38400);
#endif
        modes.c_iflag |= IUTF8;
        tcsetattr(*slave, TCSANOW, &modes);
    }
    kith_spawn_resize(*master, options->columns, options->rows, options->pixel_width, options->pixel_height);
    return 0;

failed:;
    int error = errno;
    close_quietly(*slave);
    close_quietly(*master);
    return -error;
}

int kith_spawn(const char *path, const char *arguments, size_t arguments_length, const char *environment,
               size_t environment_length, const char *directory, const char *fallback,
               const kith_spawn_options *options, kith_spawned *spawned, int *stage) {
    plan plan = {path, NULL, NULL, directory, fallback, options, {-1, -1, -1}};
    int control[2] = {-1, -1};
    int result = -ENOMEM;
    *stage = KITH_SPAWN_SETUP;
    *spawned = (kith_spawned){-1, -1, -1, -1, -1, -1, -1};

    plan.arguments = cut(arguments, arguments_length);
    plan.environment = cut(environment, environment_length);
    if (plan.arguments == NULL || plan.environment == NULL) goto failed;
    result = open_control(control);
    if (result != 0) goto failed;
    if (options->terminal) {
        int slave;
        result = open_terminal(options, &spawned->output, &slave);
        if (result != 0) {
            spawned->output = -1;
            goto failed;
        }
        plan.standard[0] = plan.standard[1] = plan.standard[2] = slave;
        spawned->input = fcntl(spawned->output, F_DUPFD_CLOEXEC, 3);
        if (spawned->input < 0) {
            result = -errno;
            goto failed;
        }
    } else {
        int input[2], output[2], error[2];
        if ((result = open_pipe(input)) != 0) goto failed;
        plan.standard[0] = input[0];
        spawned->input = input[1];
        if ((result = open_pipe(output)) != 0) goto failed;
        plan.standard[1] = output[1];
        spawned->output = output[0];
        if ((result = open_pipe(error)) != 0) goto failed;
        plan.standard[2] = error[1];
        spawned->error = error[0];
#ifdef F_SETNOSIGPIPE
        fcntl(spawned->input, F_SETNOSIGPIPE, 1);
#endif
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t supervisor = fork();
    if (supervisor == 0) supervise(&plan, control[1]);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (supervisor < 0) {
        result = -error;
        goto failed;
    }
    close(control[1]);
    control[1] = -1;
    close(plan.standard[0]);
    if (!options->terminal) {
        close(plan.standard[1]);
        close(plan.standard[2]);
    }
    plan.standard[0] = plan.standard[1] = plan.standard[2] = -1;

    record message = {0, 0, 0};
    ssize_t count;
    do { count = recv(control[0], &message, sizeof message, 0); } while (count < 0 && errno == EINTR);
    if (count != (ssize_t)sizeof message || message.kind != RECORD_STARTED) {
        result = -EIO;
        if (count == (ssize_t)sizeof message) {
            *stage = message.first;
            result = -message.second;
        }
        close(control[0]);
        control[0] = -1;
        kith_spawn_reap(supervisor);
        goto failed;
    }
    spawned->supervisor = supervisor;
    spawned->leader = message.first;
    spawned->session = message.second;
    spawned->control = control[0];
    make_nonblocking(spawned->control);
    make_nonblocking(spawned->input);
    make_nonblocking(spawned->output);
    if (spawned->error >= 0) make_nonblocking(spawned->error);
    free(plan.arguments);
    free(plan.environment);
    *stage = 0;
    return 0;

failed:
    free(plan.arguments);
    free(plan.environment);
    close_quietly(control[0]);
    close_quietly(control[1]);
    close_quietly(plan.standard[0]);
    if (!options->terminal) {
        close_quietly(plan.standard[1]);
        close_quietly(plan.standard[2]);
    }
    close_quietly(spawned->input);
    close_quietly(spawned->output);
    close_quietly(spawned->error);
    *spawned = (kith_spawned){-1, -1, -1, -1, -1, -1, -1};
    return result;
}

// MARK: - While it runs

int kith_spawn_ended(int control, kith_spawn_end *end) {
    for (;;) {
        record message;
        ssize_t count = recv(control, &message, sizeof message, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        if (count < 0) return -errno;
        if (count != (ssize_t)sizeof message) return -EPIPE;
        if (message.kind != RECORD_ENDED) continue;
        end->code = message.first;
        end->by_signal = (message.second & 1) != 0;
        end->dumped_core = (message.second & 2) != 0;
        return 1;
    }
}

int kith_spawn_signal(int control, int master, int signal) {
    int group = 0;
    if (master >= 0) {
        group = tcgetpgrp(master);
        if (group <= 1) group = 0;
    }
    return send_record(control, RECORD_SIGNAL, signal, group);
}

void kith_spawn_hang_up(int control) { shutdown(control, SHUT_WR); }

int kith_spawn_reap(int32_t supervisor) {
    int status = 0;
    pid_t reaped;
    do { reaped = waitpid(supervisor, &status, 0); } while (reaped < 0 && errno == EINTR);
    // When somebody else reaped it (SIGCHLD ignored), nothing says that it failed.
    return reaped < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int kith_spawn_resize(int master, uint16_t columns, uint16_t rows, uint16_t pixel_width, uint16_t pixel_height) {
    struct winsize size = {rows, columns, pixel_width, pixel_height};
    return ioctl(master, TIOCSWINSZ, &size) == 0 ? 0 : -errno;
}

int kith_spawn_end_of_file(int master, uint8_t *character) {
    struct termios modes;
    if (tcgetattr(master, &modes) != 0 || !(modes.c_lflag & ICANON)) return 0;
    *character = modes.c_cc[VEOF];
    return 1;
}

int kith_spawn_interrupts(int master, const uint8_t *bytes, size_t length) {
    // Such keys are control characters; asking for the modes costs each key its time.
    size_t control = 0;
    while (control < length && bytes[control] >= 0x20 && bytes[control] != 0x7f) control++;
    if (control == length) return 0;
    struct termios modes;
    if (tcgetattr(master, &modes) != 0 || !(modes.c_lflag & ISIG) || (modes.c_lflag & NOFLSH)) return 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = bytes[i];
        // 0 (or _POSIX_VDISABLE) in the table means that there is no such key.
        if (byte != 0 && (byte == modes.c_cc[VINTR] || byte == modes.c_cc[VQUIT] || byte == modes.c_cc[VSUSP])) {
            return 1;
        }
    }
    return 0;
}

// Fewer than this were all there was, as a rule: somebody types, and a program echoes it.
#define KITH_FEW_BYTES 256

intptr_t kith_read_available(int descriptor, void *bytes, size_t capacity) {
    size_t filled = 0;
    while (filled < capacity) {
        ssize_t count = read(descriptor, (char *)bytes + filled, capacity - filled);
        if (count > 0) {
            filled += (size_t)count;
            if (count < KITH_FEW_BYTES) break;
            continue;
        }
        if (count < 0 && errno == EINTR) continue;
        if (filled > 0) break;
        // Linux reports EIO on a terminal nobody has open any more.
        return count == 0 || errno == EIO ? 0 : -errno;
    }
    return (intptr_t)filled;
}

intptr_t kith_write_terminal(int master, const void *bytes, size_t length) {
    ssize_t count;
    do { count = write(master, bytes, length); } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

intptr_t kith_write_available(int descriptor, const void *bytes, size_t length) {
#ifdef __linux__
    // A write to a pipe nobody reads raises SIGPIPE in the thread; it is blocked and taken away again.
    sigset_t broken, before, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    sigpending(&pending);
    int was_pending = sigismember(&pending, SIGPIPE);
#endif
    ssize_t count;
    do { count = write(descriptor, bytes, length); } while (count < 0 && errno == EINTR);
    intptr_t result = count < 0 ? -errno : count;
#ifdef __linux__
    if (result == -EPIPE && !was_pending) {
        struct timespec now = {0, 0};
        while (sigtimedwait(&broken, NULL, &now) < 0 && errno == EINTR) {}
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
    return result;
}

int kith_account_read(kith_account *account) {
    memset(account, 0, sizeof *account);
    struct passwd entry;
    struct passwd *found = NULL;
    char *room = malloc(16384);
    if (room == NULL) return -ENOMEM;
    int error = getpwuid_r(geteuid(), &entry, room, 16384, &found);
    int result = error != 0 ? -error : found == NULL ? -ENOENT : 0;
    if (result == 0) {
        if (entry.pw_name != NULL) strncpy(account->name, entry.pw_name, sizeof account->name - 1);
        if (entry.pw_dir != NULL) strncpy(account->home, entry.pw_dir, sizeof account->home - 1);
        if (entry.pw_shell != NULL) strncpy(account->shell, entry.pw_shell, sizeof account->shell - 1);
    }
    free(room);
    return result;
}
