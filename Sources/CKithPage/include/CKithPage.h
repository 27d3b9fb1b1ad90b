#ifndef CKITHPAGE_H
#define CKITHPAGE_H

#include <stddef.h>

/// A file of the page in the browser.
struct kith_page_file {
    /// Its path below `Page/`, without a slash in front.
    const char *path;
    /// Its bytes.
    const unsigned char *bytes;
    /// How many they are.
    size_t length;
};

/// The number of files.
size_t kith_page_count(void);

/// One of them, by its place in the table; `NULL` beyond its end.
const struct kith_page_file *kith_page_file(size_t index);

#endif
