// Tries, once it is confined, what a file that took it over would: for the tests of the confinement. Descriptor 0 is a
// socket: a byte comes in that says what to try, the negated errno goes out (4 bytes, little-endian), 0 for a success.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "CKithSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *run(void *context) { return context; }

static long attempt(char what) {
    struct rlimit limit = {64, 64};
    struct stat status;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = 0x0100007f};
    char *const words[] = {"/bin/true", NULL};
    pthread_t thread;
    switch (what) {
    case 'o': return open("/etc/passwd", O_RDONLY);
    case 'w': return open("/tmp/kith-confined", O_WRONLY | O_CREAT, 0600);
    case 's': return stat("/etc/passwd", &status);
    case 'c': {
        int socket_ = socket(AF_INET, SOCK_STREAM, 0);
        return socket_ < 0 ? socket_ : connect(socket_, (struct sockaddr *)&address, sizeof address);
    }
    case 'f': {
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) _exit(0);
        return child;
    }
    case 'F': {
        pid_t child = fork();
        if (child == 0) _exit(0);
        return child;
    }
    case 'e': return execve("/bin/true", words, NULL);
    case 'k': return kill(getppid(), 0);
    case 'p': return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    case 'x': return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
    case 'l': return setrlimit(RLIMIT_AS, &limit);
    case 'm': {
        // Four gigabytes, and every page of them.
        char *memory = malloc((size_t)4 << 30);
        if (memory == NULL) return -1;
        for (size_t at = 0; at < (size_t)4 << 30; at += 4096) memory[at] = 1;
        return 0;
    }
    // These two it may.
    case 't': return pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0 ? 0 : -1;
    case 'a': return malloc(64 << 20) == NULL ? -1 : 0;
    case 'b': for (volatile int forever = 1; forever;) {}
    case 'd': abort();
    default: errno = EINVAL; return -1;
    }
}

int main(void) {
    kith_sandbox_limits limits = {.memory = 1 << 28, .processor_seconds = 1};
    int status = kith_sandbox_enter(&limits);
    char what;
    // Before anything is tried: whether it is confined.
    char ready[5] = {status != 0};
    memcpy(ready + 1, &status, sizeof status);
    if (write(0, ready, sizeof ready) != sizeof ready || status != 0) return 1;
    while (kith_helper_receive(0, &what, 1, NULL, -1) == 0) {
        errno = 0;
        int result = attempt(what) < 0 ? -errno : 0;
        if (write(0, &result, sizeof result) != sizeof result) return 1;
    }
    return 0;
}
