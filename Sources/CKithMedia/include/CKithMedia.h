#ifndef CKITHMEDIA_H
#define CKITHMEDIA_H

#include <stddef.h>
#include <stdint.h>

// What the system's libraries make of images and PDF. Only the process that is confined for it calls this: the bytes are
// hostile, and so may the libraries become.

#ifdef __cplusplus
extern "C" {
#endif

/// The reasons there is no result.
enum {
    /// The library for it was not there when this was built.
    KITH_MEDIA_UNSUPPORTED = -1,
    KITH_MEDIA_DAMAGED = -2,
    /// More pixels than are worth the time.
    KITH_MEDIA_TOO_LARGE = -3,
    KITH_MEDIA_NO_MEMORY = -4,
    /// A password is needed.
    KITH_MEDIA_LOCKED = -5
};

/// The libraries that are there, as bits.
enum {
    KITH_MEDIA_JPEG = 1,
    KITH_MEDIA_PNG = 2,
    KITH_MEDIA_WEBP = 4,
    KITH_MEDIA_TIFF = 8,
    KITH_MEDIA_HEIF = 16,
    KITH_MEDIA_PDF = 32
};

/// Tells which libraries are there, as bits.
uint32_t kith_media_libraries(void);

/// Loads what the libraries would load later; called once, before the confinement.
void kith_media_prepare(void);

/// A small picture as a JPEG, in memory of malloc.
typedef struct kith_thumbnail {
    uint8_t *bytes;
    size_t length;
    uint32_t width, height;
} kith_thumbnail;

/// Makes a picture of at most `side` pixels across and down, turned as `orientation` (Exif's, 1…8) says, on white, without
/// anything else that the file holds. Returns 0 or one of the reasons.
int kith_media_thumbnail(
    const uint8_t *bytes, size_t length, int orientation, uint32_t side, kith_thumbnail *thumbnail);

/// Makes a JPEG of pixels, three bytes each, row by row. Returns 0 or one of the reasons.
int kith_media_encode(const uint8_t *pixels, uint32_t width, uint32_t height, kith_thumbnail *thumbnail);

/// The text of a PDF, in memory of malloc, and what it says about itself.
typedef struct kith_pdf {
    /// UTF-8, at most as many bytes as were asked for.
    uint8_t *text;
    size_t length;
    int pages;
    /// Ended by a NUL.
    char title[512], author[512];
} kith_pdf;

/// Reads a PDF. Returns 0 or one of the reasons.
int kith_media_pdf(const uint8_t *bytes, size_t length, size_t limit, kith_pdf *pdf);

#ifdef __cplusplus
}
#endif

#endif
