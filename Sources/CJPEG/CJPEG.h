// libjpeg-turbo (Debian's libjpeg-dev), where it is installed.
#if __has_include(<jpeglib.h>)
#include <stdio.h>
#include <jpeglib.h>
#define KITH_HAS_JPEG 1
#endif
