#include "KithReactor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_REPORTS 128

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

static void name_thread(const char *name) { prctl(PR_SET_NAME, name); }

int kith_reactor_open(void) {
    int reactor = epoll_create1(EPOLL_CLOEXEC);
    return reactor < 0 ? -errno : reactor;
}

static int control(int reactor, int operation, int descriptor, uint32_t events, uint64_t token) {
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = events | EPOLLET;
    event.data.u64 = token;
    return epoll_ctl(reactor, operation, descriptor, &event) == 0 ? 0 : -errno;
}

static uint32_t events(int reading, int writing) {
    return (reading ? EPOLLIN | EPOLLRDHUP : 0) | (writing ? EPOLLOUT : 0);
}

int kith_reactor_add(int reactor, int descriptor, uint64_t token, int reading) {
    int status = control(reactor, EPOLL_CTL_ADD, descriptor, events(reading, 0), token);
    return status == -EPERM ? 1 : status;
}

int kith_reactor_watch_writing(int reactor, int descriptor, uint64_t token, int reading, int on) {
    return control(reactor, EPOLL_CTL_MOD, descriptor, events(reading, on), token);
}

void kith_reactor_remove(int reactor, int descriptor) { control(reactor, EPOLL_CTL_DEL, descriptor, 0, 0); }

// Every write reports, and nobody has to read.
int kith_reactor_wakeable(int reactor) {
    int handle = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (handle < 0) return -errno;
    int status = control(reactor, EPOLL_CTL_ADD, handle, EPOLLIN, 0);
    if (status == 0) return handle;
    close(handle);
    return status;
}

void kith_reactor_wake(int reactor, int handle) {
    (void)reactor;
    uint64_t one = 1;
    if (write(handle, &one, sizeof one) < 0) return; // only when it has been written 2^64 times
}

void kith_reactor_wakeable_close(int handle) { close(handle); }

int kith_reactor_wait(int reactor, uint64_t *tokens, uint8_t *ready, int capacity, int blocks) {
    struct epoll_event events[MOST_REPORTS];
    if (capacity > MOST_REPORTS) capacity = MOST_REPORTS;
    int count;
    do { count = epoll_wait(reactor, events, capacity, blocks ? -1 : 0); } while (count < 0 && errno == EINTR);
    if (count < 0) return -errno;
    for (int index = 0; index < count; index++) {
        uint32_t seen = events[index].events;
        tokens[index] = events[index].data.u64;
        // A failed descriptor is ready for everything: the caller's next attempt reports why.
        ready[index] = ((seen & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ? KITH_READY_TO_READ : 0)
                       | ((seen & (EPOLLOUT | EPOLLHUP | EPOLLERR)) ? KITH_READY_TO_WRITE : 0)
                       | ((seen & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ? KITH_READY_ENDED : 0)
                       | ((seen & (EPOLLHUP | EPOLLERR)) ? KITH_READY_HUNG_UP : 0);
    }
    return count;
}
#else
#include <sys/event.h>

static void name_thread(const char *name) { pthread_setname_np(name); }

int kith_reactor_open(void) {
    int reactor = kqueue();
    if (reactor < 0) return -errno;
    fcntl(reactor, F_SETFD, FD_CLOEXEC);
    return reactor;
}

static int control(int reactor, int descriptor, int16_t filter, uint16_t flags, uint64_t token) {
    struct kevent event;
    EV_SET(&event, descriptor, filter, flags, 0, 0, (void *)(uintptr_t)token);
    return kevent(reactor, &event, 1, NULL, 0, NULL) == 0 ? 0 : -errno;
}

int kith_reactor_add(int reactor, int descriptor, uint64_t token, int reading) {
    // A regular file is not reported at its end.
    struct stat info;
    if (fstat(descriptor, &info) != 0) return -errno;
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return 1;
    if (!reading) return 0;
    int status = control(reactor, descriptor, EVFILT_READ, EV_ADD | EV_CLEAR, token);
    // A device without anything to wait for, /dev/null for one.
    return status == -EINVAL || status == -ENODEV ? 1 : status;
}

int kith_reactor_watch_writing(int reactor, int descriptor, uint64_t token, int reading, int on) {
    (void)reading;
    int status = control(reactor, descriptor, EVFILT_WRITE, on ? EV_ADD | EV_CLEAR : EV_DELETE, token);
    return on ? status : 0;
}

void kith_reactor_remove(int reactor, int descriptor) {
    control(reactor, descriptor, EVFILT_READ, EV_DELETE, 0);
    control(reactor, descriptor, EVFILT_WRITE, EV_DELETE, 0);
}

int kith_reactor_wakeable(int reactor) { return control(reactor, 0, EVFILT_USER, EV_ADD | EV_CLEAR, 0); }

void kith_reactor_wake(int reactor, int handle) {
    (void)handle;
    struct kevent event;
    EV_SET(&event, 0, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
    kevent(reactor, &event, 1, NULL, 0, NULL);
}

void kith_reactor_wakeable_close(int handle) { (void)handle; }

int kith_reactor_wait(int reactor, uint64_t *tokens, uint8_t *ready, int capacity, int blocks) {
    struct kevent events[MOST_REPORTS];
    struct timespec now = { 0, 0 };
    if (capacity > MOST_REPORTS) capacity = MOST_REPORTS;
    int count;
    do {
        count = kevent(reactor, NULL, 0, events, capacity, blocks ? NULL : &now);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return -errno;
    for (int index = 0; index < count; index++) {
        tokens[index] = (uint64_t)(uintptr_t)events[index].udata;
        ready[index] = events[index].filter == EVFILT_WRITE ? KITH_READY_TO_WRITE : KITH_READY_TO_READ;
        if (events[index].flags & EV_EOF) {
            ready[index] = KITH_READY_TO_READ | KITH_READY_TO_WRITE | KITH_READY_ENDED | KITH_READY_HUNG_UP;
        }
    }
    return count;
}
#endif

void kith_reactor_close(int reactor) { close(reactor); }

struct thread_plan {
    char name[16]; // as long as Linux lets it be
    void (*body)(void *);
    void *argument;
};

static void *run_thread(void *argument) {
    struct thread_plan plan = *(struct thread_plan *)argument;
    free(argument);
    name_thread(plan.name);
    plan.body(plan.argument);
    return NULL;
}

int kith_thread_start(const char *name, void (*body)(void *), void *argument) {
    struct thread_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) return ENOMEM;
    strncpy(plan->name, name, sizeof plan->name - 1);
    plan->body = body;
    plan->argument = argument;
    pthread_t thread;
    int status = pthread_create(&thread, NULL, run_thread, plan);
    if (status == 0) pthread_detach(thread);
    else free(plan);
    return status;
}
