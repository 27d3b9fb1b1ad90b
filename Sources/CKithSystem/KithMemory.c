#ifdef __linux__
#define _GNU_SOURCE
#endif
#ifdef __APPLE__
#define __STDC_WANT_LIB_EXT1__ 1
#endif
#include "KithMemory.h"

// Says whether the library is glibc: before the first of its headers nobody knows.
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

static int release_program_pages(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size, (void)unused;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
        // What can be written has been: only what is the file's alone comes back as it was.
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0) continue;
        const uintptr_t start = (object->dlpi_addr + segment->p_vaddr + page - 1) & ~(page - 1);
        const uintptr_t end = (object->dlpi_addr + segment->p_vaddr + segment->p_filesz) & ~(page - 1);
        if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}
#endif

void kith_release_program(void) {
#ifdef __linux__
    dl_iterate_phdr(release_program_pages, NULL);
#endif
}

void kith_release_free_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void kith_keep_memory_small(void) {
#ifdef __GLIBC__
    // One for each of some threads, not eight for each processor.
    mallopt(M_ARENA_MAX, 4);
    // What is free at the end of one goes back to the system; without a number, glibc lets it grow to 64 MiB.
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    // Pictures and the tables of codecs go back as soon as they are free, and leave no holes; buffers of copies, of a
    // mebibyte at most, are taken too often for that.
    mallopt(M_MMAP_THRESHOLD, (1 << 20) + (64 << 10));
#endif
}

size_t kith_allocated_memory(void) {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#else
    return 0;
#endif
#else
    return 0;
#endif
}

typedef uint8_t lanes __attribute__((vector_size(16)));

// Sixteen places at a time are tried on the first and the last byte: memmem of the C library prepares itself anew for
// each text, which takes longer than to look through a name.
size_t kith_find_bytes(const void *bytes, size_t length, const void *wanted, size_t count) {
    const uint8_t *text = bytes, *word = wanted;
    if (count == 0 || count > length) return count == 0 ? 0 : length;
    const lanes firsts = (lanes){0} + word[0], lasts = (lanes){0} + word[count - 1];
    const size_t places = length - count + 1;
    size_t place = 0;
    for (; places - place >= sizeof(lanes); place += sizeof(lanes)) {
        lanes first, last;
        memcpy(&first, text + place, sizeof first);
        memcpy(&last, text + place + count - 1, sizeof last);
        const lanes hits = (lanes)((first == firsts) & (last == lasts));
        uint64_t halves[2];
        memcpy(halves, &hits, sizeof halves);
        for (size_t half = 0; half < 2; half++) {
            while (halves[half] != 0) {
                // A hit is a byte of ones; the least of a number is the first in memory here.
                const unsigned bit = (unsigned)__builtin_ctzll(halves[half]);
                const size_t found = place + 8 * half + bit / 8;
                if (memcmp(text + found, word, count) == 0) return found;
                halves[half] &= ~(UINT64_C(0xFF) << bit);
            }
        }
    }
    for (; place < places; place++) {
        if (text[place] == word[0] && memcmp(text + place, word, count) == 0) return place;
    }
    return length;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first of several hits is looked for");

void kith_hide_memory(void) {
#ifdef __linux__
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

static struct rlimit core_before;
static int core_is_forbidden;

void kith_forbid_core(void) {
    kith_hide_memory();
    if (getrlimit(RLIMIT_CORE, &core_before) != 0) return;
    struct rlimit none = {.rlim_cur = 0, .rlim_max = core_before.rlim_max};
    core_is_forbidden = setrlimit(RLIMIT_CORE, &none) == 0;
}

void kith_restore_core_limit(void) {
    if (core_is_forbidden) setrlimit(RLIMIT_CORE, &core_before);
}

size_t kith_take_variable(const char *name, char *value, size_t capacity) {
    char *old = getenv(name);
    if (old == NULL) return 0;
    size_t count = strlen(old);
    memcpy(value, old, count < capacity ? count : capacity);
#ifdef __APPLE__
    memset_s(old, count, 0, count);
#else
    explicit_bzero(old, count);
#endif
    unsetenv(name);
    return count;
}
