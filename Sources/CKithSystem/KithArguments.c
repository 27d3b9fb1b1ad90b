#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithArguments.h"

// Says whether the library is glibc: before the first of its headers nobody knows.
#include <string.h>

// The arguments as the kernel laid them out: what /proc and ps read.
static int argument_count;
static char **argument_values;

#if defined(__GLIBC__) || defined(__APPLE__)
// Both give initialisers what main gets; others give them nothing.
__attribute__((constructor)) static void remember_arguments(int count, char **values) {
    argument_count = count;
    argument_values = values;
}
#endif

void kith_hide_arguments(const char *mark) {
    for (int index = 1; index < argument_count; index++) {
        char *found = argument_values[index] ? strcasestr(argument_values[index], mark) : NULL;
        if (!found) continue;
        found += strlen(mark);
        memset(found, '.', strlen(found));
    }
}
