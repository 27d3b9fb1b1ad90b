// libtiff (Debian's libtiff-dev), where it is installed.
#if __has_include(<tiffio.h>)
#include <tiffio.h>
#define KITH_HAS_TIFF 1
#endif
