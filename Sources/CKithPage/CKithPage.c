// Written by scripts/page from Page/FILES.
#include "CKithPage.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char file0[] = {
#embed "Page/app.js" if_empty(0)
};
static const unsigned char file1[] = {
#embed "Page/german.js" if_empty(0)
};
static const unsigned char file2[] = {
#embed "Page/icon.svg" if_empty(0)
};
static const unsigned char file3[] = {
#embed "Page/index.html" if_empty(0)
};
static const unsigned char file4[] = {
#embed "Page/kit.js" if_empty(0)
};
static const unsigned char file5[] = {
#embed "Page/qr.js" if_empty(0)
};
static const unsigned char file6[] = {
#embed "Page/style.css" if_empty(0)
};
static const unsigned char file7[] = {
#embed "Page/views/devices.js" if_empty(0)
};
static const unsigned char file8[] = {
#embed "Page/views/files.js" if_empty(0)
};
static const unsigned char file9[] = {
#embed "Page/views/page.js" if_empty(0)
};
static const unsigned char file10[] = {
#embed "Page/views/preview.js" if_empty(0)
};
static const unsigned char file11[] = {
#embed "Page/views/search.js" if_empty(0)
};
static const unsigned char file12[] = {
#embed "Page/views/shell.js" if_empty(0)
};
static const unsigned char file13[] = {
#embed "Page/views/terminal.js" if_empty(0)
};
static const unsigned char file14[] = {
#embed "Page/views/transfers.js" if_empty(0)
};
static const unsigned char file15[] = {
#embed "Page/views/watch.js" if_empty(0)
};
static const unsigned char file16[] = {
#embed "Page/wire.js" if_empty(0)
};

static const struct kith_page_file files[] = {
    {"app.js", file0, sizeof file0},
    {"german.js", file1, sizeof file1},
    {"icon.svg", file2, sizeof file2},
    {"index.html", file3, sizeof file3},
    {"kit.js", file4, sizeof file4},
    {"qr.js", file5, sizeof file5},
    {"style.css", file6, sizeof file6},
    {"views/devices.js", file7, sizeof file7},
    {"views/files.js", file8, sizeof file8},
    {"views/page.js", file9, sizeof file9},
    {"views/preview.js", file10, sizeof file10},
    {"views/search.js", file11, sizeof file11},
    {"views/shell.js", file12, sizeof file12},
    {"views/terminal.js", file13, sizeof file13},
    {"views/transfers.js", file14, sizeof file14},
    {"views/watch.js", file15, sizeof file15},
    {"wire.js", file16, sizeof file16},
};

size_t kith_page_count(void) { return sizeof files / sizeof *files; }

const struct kith_page_file *kith_page_file(size_t index) {
    return index < kith_page_count() ? &files[index] : NULL;
}
