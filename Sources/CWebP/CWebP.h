// libwebp (Debian's libwebp-dev), where it is installed.
#if __has_include(<webp/decode.h>)
#include <webp/decode.h>
#define KITH_HAS_WEBP 1
#endif
