// libpng (Debian's libpng-dev), where it is installed.
#if __has_include(<png.h>)
#include <png.h>
#define KITH_HAS_PNG 1
#endif
