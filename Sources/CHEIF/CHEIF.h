// libheif (Debian's libheif-dev), where it is installed.
#if __has_include(<libheif/heif.h>)
#include <libheif/heif.h>
#define KITH_HAS_HEIF 1
#endif
