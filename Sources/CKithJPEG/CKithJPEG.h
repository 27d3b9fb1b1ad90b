// libjpeg-turbo's TurboJPEG (Debian's libturbojpeg0-dev), where it is installed. Its functions return errors: it takes
// the library's long jumps itself.
#include <stddef.h>
#include <stdint.h>

#if __has_include(<turbojpeg.h>)
#include <turbojpeg.h>
#define KITH_TURBOJPEG 1
#else
#define KITH_TURBOJPEG 0
#endif

/// The reason an image could not be decoded or made; zero when it could.
enum kith_jpeg_result {
    KITH_JPEG_DONE = 0,
    KITH_JPEG_MISSING = 1,
    KITH_JPEG_MALFORMED = 2,
    KITH_JPEG_WRONG_SIZE = 3,
    KITH_JPEG_TOO_LONG = 4,
    KITH_JPEG_NO_MEMORY = 5,
};

/// Decodes an image that has exactly that size into 32-bit pixels, blue in the first byte and 255 in the last.
///
/// Each with a decoder of its own, which costs nothing beside an image: after a damaged one the library's decoder (2.1)
/// refuses every later image for the damaged one's tables.
static inline int kith_jpeg_decode(const uint8_t *bytes, size_t count, int width, int height, uint8_t *pixels) {
#if KITH_TURBOJPEG
    tjhandle handle = tjInitDecompress();
    if (handle == NULL) return KITH_JPEG_NO_MEMORY;
    int code = KITH_JPEG_DONE;
    int w = 0, h = 0, sampling = 0, space = 0;
    int flags = 0;
#ifdef TJFLAG_LIMITSCANS
    flags |= TJFLAG_LIMITSCANS;
#endif
    if (tjDecompressHeader3(handle, bytes, (unsigned long)count, &w, &h, &sampling, &space) != 0)
        code = KITH_JPEG_MALFORMED;
    else if (w != width || h != height)
        code = KITH_JPEG_WRONG_SIZE;
    else if (tjDecompress2(handle, bytes, (unsigned long)count, pixels, width, width * 4, height, TJPF_BGRA, flags) != 0
             && tjGetErrorCode(handle) != TJERR_WARNING)
        code = KITH_JPEG_MALFORMED;
    tjDestroy(handle);
    return code;
#else
    (void)bytes, (void)count, (void)width, (void)height, (void)pixels;
    return KITH_JPEG_MISSING;
#endif
}

/// The most bytes an image of that size takes; zero without the library.
static inline size_t kith_jpeg_bound(int width, int height) {
#if KITH_TURBOJPEG
    unsigned long bound = tjBufSize(width, height, TJSAMP_444);
    return bound == (unsigned long)-1 ? 0 : (size_t)bound;
#else
    (void)width, (void)height;
    return 0;
#endif
}

/// Encodes pixels of `stride` bytes a row; `quality` is 1...100. Writes at most `capacity` bytes and their number.
static inline int kith_jpeg_encode(
    const uint8_t *pixels, int width, int height, int stride, int quality, int halves_colours,
    uint8_t *bytes, size_t capacity, size_t *count) {
#if KITH_TURBOJPEG
    if (capacity < kith_jpeg_bound(width, height)) return KITH_JPEG_TOO_LONG;
    tjhandle handle = tjInitCompress();
    if (handle == NULL) return KITH_JPEG_NO_MEMORY;
    unsigned long size = (unsigned long)capacity;
    unsigned char *target = bytes;
    int failed = tjCompress2(
        handle, pixels, width, stride, height, TJPF_BGRX, &target, &size, halves_colours ? TJSAMP_420 : TJSAMP_444,
        quality, TJFLAG_NOREALLOC);
    tjDestroy(handle);
    if (failed) return KITH_JPEG_MALFORMED;
    *count = (size_t)size;
    return KITH_JPEG_DONE;
#else
    (void)pixels, (void)width, (void)height, (void)stride, (void)quality, (void)halves_colours;
    (void)bytes, (void)capacity, (void)count;
    return KITH_JPEG_MISSING;
#endif
}
