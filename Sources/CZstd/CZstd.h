// The system's zstd (RFC 8878): Debian's libzstd-dev.
#include <zstd.h>
