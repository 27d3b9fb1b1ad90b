// The system's zstd (RFC 8878): Debian's libzstd-dev, Homebrew's zstd.
#include <zstd.h>
