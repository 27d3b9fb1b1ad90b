#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithSandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

// MARK: - The confinement

static int set_limit(int what, uint64_t value) {
    struct rlimit limit;
    if (getrlimit(what, &limit) != 0) return -errno;
    // One that is lower already stays.
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value) limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(what, &limit) != 0 ? -errno : 0;
}

#ifdef __linux__

#if defined(__x86_64__)
#define NATIVE_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

// Landlock, by its numbers: headers are older than kernels. Every right that the kernel knows is handled and none given.
static int enter_landlock(void) {
    enum { CREATE_RULESET = 444, RESTRICT_SELF = 446 };
    long version = syscall(CREATE_RULESET, NULL, (size_t)0, 1u);
    // A kernel without it, or with it turned off: the filter of calls stands alone.
    if (version < 1) return 0;
    // The rights on files of versions 1, 2, 3 and 5.
    static const int rights[] = {13, 14, 15, 15, 16};
    int known = rights[version > 5 ? 4 : version - 1];
    struct {
        uint64_t files, network, scoped;
    } ruleset = {((uint64_t)1 << known) - 1, version >= 4 ? 3 : 0, version >= 6 ? 3 : 0};
    size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    long descriptor = syscall(CREATE_RULESET, &ruleset, size, 0u);
    if (descriptor < 0) return -errno;
    long result = syscall(RESTRICT_SELF, (int)descriptor, 0u);
    int error = errno;
    close((int)descriptor);
    return result < 0 ? -error : 0;
}

#ifdef NATIVE_ARCHITECTURE

#define LOW_WORD(argument) (offsetof(struct seccomp_data, args) + (argument) * 8)
#define HIGH_WORD(argument) (LOW_WORD(argument) + 4)
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
/// Allows a call whatever its arguments are; the number of the call is loaded.
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), ANSWER(SECCOMP_RET_ALLOW)
/// Allows a call when no bit of `mask` is set in an argument.
#define ALLOW_WITHOUT(call, argument, mask)                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4), LOAD(LOW_WORD(argument)),                             \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (mask), 1, 0), ANSWER(SECCOMP_RET_ALLOW), ANSWER(REFUSE)
/// Allows a call when an argument is this.
#define ALLOW_WITH(call, argument, value)                                                                    \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4), LOAD(LOW_WORD(argument)),                             \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, 1), ANSWER(SECCOMP_RET_ALLOW), ANSWER(REFUSE)
/// Allows a call when a pointer is null.
#define ALLOW_NULL(call, argument)                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 6), LOAD(LOW_WORD(argument)),                             \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3), LOAD(HIGH_WORD(argument)),                             \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), ANSWER(SECCOMP_RET_ALLOW), ANSWER(REFUSE)

static int enter_filter(void) {
    const uint32_t self = (uint32_t)getpid();
    struct sock_filter rules[] = {
        LOAD(offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCHITECTURE, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(offsetof(struct seccomp_data, nr)),
#ifdef __x86_64__
        // The calls of the x32 kind, which have numbers of their own.
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
#endif
        ALLOW(SYS_read),
        ALLOW(SYS_pread64),
        ALLOW(SYS_write),
        ALLOW(SYS_recvmsg),
        ALLOW(SYS_lseek),
        ALLOW(SYS_close),
        ALLOW(SYS_futex),
        ALLOW(SYS_brk),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mremap),
        ALLOW(SYS_madvise),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_clock_nanosleep),
        ALLOW(SYS_gettimeofday),
        ALLOW(SYS_getrandom),
        ALLOW(SYS_sched_yield),
        ALLOW(SYS_sched_getaffinity),
        ALLOW(SYS_rt_sigaction),
        ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_sigaltstack),
        ALLOW(SYS_getpid),
        ALLOW(SYS_gettid),
        ALLOW(SYS_set_robust_list),
#ifdef SYS_rseq
        ALLOW(SYS_rseq),
#endif
#ifdef SYS_poll
        ALLOW(SYS_poll),
#endif
        ALLOW(SYS_ppoll),
        ALLOW_WITHOUT(SYS_mmap, 2, PROT_EXEC),
        ALLOW_WITHOUT(SYS_mprotect, 2, PROT_EXEC),
        // Its limits may be asked for and not be changed.
        ALLOW_NULL(SYS_prlimit64, 2),
        // abort() sends a signal to itself.
        ALLOW_WITH(SYS_tgkill, 0, self),
        // A thread, not a process; of the newer call, whose flags are in memory, the C library is told it is not there.
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4), LOAD(LOW_WORD(0)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1), ANSWER(SECCOMP_RET_ALLOW), ANSWER(REFUSE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 435, 0, 1), ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        ANSWER(REFUSE),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? -errno : 0;
}
#else
static int enter_filter(void) { return -ENOTSUP; }
#endif

int kith_sandbox_enter(const kith_sandbox_limits *limits) {
    // Nobody looks into its memory, which holds what is in a person's files.
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return -errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
    int result = set_limit(RLIMIT_CORE, 0);
    if (result == 0) result = set_limit(RLIMIT_FSIZE, 0);
    if (result == 0) result = set_limit(RLIMIT_NOFILE, 16);
    if (result == 0) result = set_limit(RLIMIT_CPU, limits->processor_seconds);
    if (result == 0) result = set_limit(RLIMIT_AS, limits->memory);
    if (result == 0) result = enter_landlock();
    if (result == 0) result = enter_filter();
    return result;
}
#else
int kith_sandbox_enter(const kith_sandbox_limits *limits) {
    (void)limits;
    (void)set_limit;
    return -ENOTSUP;
}
#endif

// MARK: - The child

static void close_from(int first) {
#if defined(__linux__) && defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) return;
#endif
    int limit = getdtablesize();
    for (int descriptor = first; descriptor < limit; descriptor++) close(descriptor);
}

/// Between fork and exec: nothing but calls that are safe after a fork of a process with threads.
static _Noreturn void become_helper(
    const char *path, char *const *environment, int socket, int nothing, int report) {
    char *const arguments[] = {(char *)path, NULL};
    // Out of the way of the three that they become.
    int moved = fcntl(socket, F_DUPFD_CLOEXEC, 8), idle = fcntl(nothing, F_DUPFD_CLOEXEC, 8);
    int told = fcntl(report, F_DUPFD_CLOEXEC, 8);
    if (told < 0) _exit(127);
    if (moved >= 0 && idle >= 0 && dup2(moved, 0) == 0 && dup2(idle, 1) == 1 && dup2(idle, 2) == 2
        && dup2(told, 3) == 3 && fcntl(3, F_SETFD, FD_CLOEXEC) == 0 && chdir("/") == 0 && setsid() >= 0) {
        close_from(4);
        told = 3;
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_DFL;
        for (int number = 1; number < NSIG; number++) {
            if (number != SIGKILL && number != SIGSTOP) sigaction(number, &action, NULL);
        }
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execve(path, arguments, environment);
    }
    int32_t error = errno;
    ssize_t ignored = write(told, &error, sizeof error);
    (void)ignored;
    _exit(127);
}

int kith_helper_start(const char *path, int *socket, int32_t *process) {
    static const char environment[] = "PATH=/nonexistent\0LC_ALL=C.UTF-8\0SWIFT_BACKTRACE=enable=no";
    return kith_helper_start_with(path, environment, sizeof environment, socket, process);
}

static int start_helper(const char *path, char *const *environment, int *socket, int32_t *process) {
    int ends[2], report[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -errno;
    if (pipe(report) != 0) {
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        return -error;
    }
    for (int index = 0; index < 2; index++) {
        fcntl(ends[index], F_SETFD, FD_CLOEXEC);
        fcntl(report[index], F_SETFD, FD_CLOEXEC);
    }
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t all, before;
    sigfillset(&all);
    // No handler of this process runs in the child.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = nothing < 0 ? -1 : fork();
    if (child == 0) become_helper(path, environment, ends[1], nothing, report[1]);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    close(report[1]);
    if (nothing >= 0) close(nothing);
    int32_t failure = 0;
    if (child > 0) {
        ssize_t count;
        do { count = read(report[0], &failure, sizeof failure); } while (count < 0 && errno == EINTR);
        error = count == (ssize_t)sizeof failure ? failure : count == 0 ? 0 : EIO;
        if (error != 0) kith_helper_end(child);
    }
    close(report[0]);
    if (error != 0 && child != -1) child = -1;
    if (child < 0) {
        close(ends[0]);
        return -(error != 0 ? error : EAGAIN);
    }
    *socket = ends[0];
    *process = child;
    return 0;
}

int kith_helper_start_with(
    const char *path, const char *environment, size_t environment_length, int *socket, int32_t *process) {
    size_t count = 0;
    if (environment_length > 0 && environment[environment_length - 1] != 0) return -EINVAL;
    for (size_t index = 0; index < environment_length; index++) count += environment[index] == 0;
    const char **variables = calloc(count + 1, sizeof *variables);
    if (variables == NULL) return -ENOMEM;
    const char *next = environment;
    for (size_t index = 0; index < count; index++) {
        variables[index] = next;
        next += strlen(next) + 1;
    }
    int result = start_helper(path, (char *const *)variables, socket, process);
    free(variables);
    return result;
}

void kith_helper_kill(int32_t process) {
    if (process > 0) kill(process, SIGKILL);
}

int kith_helper_end(int32_t process) {
    int status = 0;
    pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == 0) {
        kill(process, SIGKILL);
        do { ended = waitpid(process, &status, 0); } while (ended < 0 && errno == EINTR);
    }
    if (ended < 0) return -errno;
    return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

// MARK: - The socket

static int64_t milliseconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/// Waits until the socket is ready; a limit below 0 is none.
static int wait_for(int socket, short events, int64_t deadline) {
    for (;;) {
        int64_t left = deadline < 0 ? -1 : deadline - milliseconds_now();
        if (deadline >= 0 && left <= 0) return -ETIMEDOUT;
        struct pollfd entry = {.fd = socket, .events = events};
        int result = poll(&entry, 1, left < 0 ? -1 : left > INT_MAX ? INT_MAX : (int)left);
        if (result > 0) return 0;
        if (result < 0 && errno != EINTR) return -errno;
    }
}

#ifdef MSG_NOSIGNAL
#define QUIETLY MSG_NOSIGNAL
#else
#define QUIETLY 0
#endif
#ifdef MSG_CMSG_CLOEXEC
#define CLOSED_ON_EXEC MSG_CMSG_CLOEXEC
#else
#define CLOSED_ON_EXEC 0
#endif

int kith_helper_send(int socket, const void *bytes, size_t length, int passed, int milliseconds) {
    int64_t deadline = milliseconds < 0 ? -1 : milliseconds_now() + milliseconds;
    const char *rest = bytes;
    while (length > 0) {
        int ready = wait_for(socket, POLLOUT, deadline);
        if (ready < 0) return ready;
        struct iovec part = {.iov_base = (void *)rest, .iov_len = length};
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (passed >= 0) {
            memset(&control, 0, sizeof control);
            message.msg_control = control.room;
            message.msg_controllen = sizeof control.room;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(header), &passed, sizeof passed);
        }
        ssize_t count = sendmsg(socket, &message, QUIETLY | MSG_DONTWAIT);
        if (count < 0) {
            if (errno == EINTR || errno == EAGAIN) continue;
            return errno == ECONNRESET ? -EPIPE : -errno;
        }
        passed = -1;
        rest += count;
        length -= (size_t)count;
    }
    return 0;
}

int kith_helper_receive(int socket, void *bytes, size_t length, int *passed, int milliseconds) {
    int64_t deadline = milliseconds < 0 ? -1 : milliseconds_now() + milliseconds;
    char *rest = bytes;
    int taken = -1, result = 0;
    while (length > 0) {
        result = wait_for(socket, POLLIN, deadline);
        if (result < 0) break;
        struct iovec part = {.iov_base = rest, .iov_len = length};
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int) * 4)];
        } control;
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
        ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | CLOSED_ON_EXEC);
        if (count < 0) {
            if (errno == EINTR || errno == EAGAIN) continue;
            result = errno == ECONNRESET ? -EPIPE : -errno;
            break;
        }
        for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
            if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
            size_t held = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t index = 0; index < held; index++) {
                int descriptor;
                memcpy(&descriptor, CMSG_DATA(header) + index * sizeof(int), sizeof descriptor);
                // One is wanted; others are nobody's.
                if (taken < 0) taken = descriptor;
                else close(descriptor);
            }
        }
        if (count == 0) {
            result = -EPIPE;
            break;
        }
        rest += count;
        length -= (size_t)count;
    }
    if (result == 0 && passed != NULL) {
        *passed = taken;
    } else if (taken >= 0) {
        close(taken);
    }
    return result;
}
