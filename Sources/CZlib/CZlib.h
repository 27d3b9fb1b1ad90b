// The system's zlib (RFC 1950, RFC 1951): Debian's zlib1g-dev.
#include <zlib.h>
