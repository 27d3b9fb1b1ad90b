#include "CKithMedia.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../CHEIF/CHEIF.h"
#include "../CJPEG/CJPEG.h"
#include "../CPNG/CPNG.h"
#include "../CTIFF/CTIFF.h"
#include "../CWebP/CWebP.h"

void kith_media_prepare_pdf(void);
uint32_t kith_media_pdf_library(void);

/// The most pixels of an image that comes in rows, and of one that has to be in memory whole.
#define ROWS_LIMIT (256u << 20)
#define WHOLE_LIMIT (64u << 20)

// MARK: - Making it smaller

/// A picture that is being made smaller, row by row: each pixel is the mean of those that fall on it.
typedef struct shrinker {
    uint32_t from_width, from_height, width, height;
    uint32_t row;
    /// Red, green, blue and the count, for each pixel of the row at hand.
    uint64_t *sums;
    /// Three bytes a pixel.
    uint8_t *pixels;
} shrinker;

static int shrinker_begin(shrinker *shrinker, uint32_t width, uint32_t height, uint32_t side) {
    memset(shrinker, 0, sizeof *shrinker);
    if (width == 0 || height == 0) return KITH_MEDIA_DAMAGED;
    uint32_t longer = width > height ? width : height;
    shrinker->from_width = width;
    shrinker->from_height = height;
    shrinker->width = longer <= side ? width : (uint32_t)((uint64_t)width * side / longer);
    shrinker->height = longer <= side ? height : (uint32_t)((uint64_t)height * side / longer);
    if (shrinker->width == 0) shrinker->width = 1;
    if (shrinker->height == 0) shrinker->height = 1;
    shrinker->sums = calloc((size_t)shrinker->width * 4, sizeof *shrinker->sums);
    shrinker->pixels = malloc((size_t)shrinker->width * shrinker->height * 3);
    return shrinker->sums == NULL || shrinker->pixels == NULL ? KITH_MEDIA_NO_MEMORY : 0;
}

static void shrinker_free(shrinker *shrinker) {
    free(shrinker->sums);
    free(shrinker->pixels);
    shrinker->sums = NULL;
    shrinker->pixels = NULL;
}

static void shrinker_end_row(shrinker *shrinker, uint32_t target) {
    uint8_t *out = shrinker->pixels + (size_t)target * shrinker->width * 3;
    for (uint32_t x = 0; x < shrinker->width; x++) {
        uint64_t *sum = shrinker->sums + (size_t)x * 4, count = sum[3] == 0 ? 1 : sum[3];
        for (int part = 0; part < 3; part++) out[x * 3 + (uint32_t)part] = (uint8_t)(sum[part] / count);
    }
    memset(shrinker->sums, 0, (size_t)shrinker->width * 4 * sizeof *shrinker->sums);
}

/// Takes the next row, of `channels` bytes a pixel: 1 grey, 3 colours, 4 with how opaque it is.
static void shrinker_take(shrinker *shrinker, const uint8_t *row, int channels) {
    if (shrinker->row >= shrinker->from_height) return;
    uint32_t target = (uint32_t)((uint64_t)shrinker->row * shrinker->height / shrinker->from_height);
    // The place along the row, counted up without a division.
    uint32_t x = 0;
    uint64_t error = 0;
    for (uint32_t from = 0; from < shrinker->from_width; from++, row += channels) {
        uint64_t *sum = shrinker->sums + (size_t)x * 4;
        uint32_t red = row[0], green = channels < 3 ? red : row[1], blue = channels < 3 ? red : row[2];
        if (channels == 4) {
            uint32_t opaque = row[3], white = 255 * (255 - opaque);
            red = (red * opaque + white) / 255;
            green = (green * opaque + white) / 255;
            blue = (blue * opaque + white) / 255;
        }
        sum[0] += red;
        sum[1] += green;
        sum[2] += blue;
        sum[3] += 1;
        error += shrinker->width;
        if (error >= shrinker->from_width) {
            error -= shrinker->from_width;
            if (x + 1 < shrinker->width) x++;
        }
    }
    shrinker->row++;
    uint32_t next = (uint32_t)((uint64_t)shrinker->row * shrinker->height / shrinker->from_height);
    if (next != target || shrinker->row == shrinker->from_height) shrinker_end_row(shrinker, target);
}

/// Fills the rows that never came with white: of a file that was cut.
static void shrinker_complete(shrinker *shrinker) {
    uint32_t done = (uint32_t)((uint64_t)shrinker->row * shrinker->height / shrinker->from_height);
    memset(shrinker->pixels + (size_t)done * shrinker->width * 3, 255,
           (size_t)(shrinker->height - done) * shrinker->width * 3);
}

// MARK: - JPEG

#ifdef KITH_HAS_JPEG
typedef struct jpeg_failure {
    struct jpeg_error_mgr manager;
    jmp_buf place;
    int code;
} jpeg_failure;

static void jpeg_fail(j_common_ptr codec) {
    jpeg_failure *failure = (jpeg_failure *)codec->err;
    longjmp(failure->place, 1);
}
static void jpeg_silent(j_common_ptr codec) { (void)codec; }
static void jpeg_warned(j_common_ptr codec, int level) { (void)codec; (void)level; }

static struct jpeg_error_mgr *jpeg_errors(jpeg_failure *failure) {
    jpeg_std_error(&failure->manager);
    failure->manager.error_exit = jpeg_fail;
    failure->manager.output_message = jpeg_silent;
    failure->manager.emit_message = jpeg_warned;
    return &failure->manager;
}

static int decode_jpeg(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    struct jpeg_decompress_struct codec;
    jpeg_failure failure;
    // What changes between setjmp and longjmp.
    uint8_t *volatile row = NULL;
    volatile int begun = 0;
    codec.err = jpeg_errors(&failure);
    if (setjmp(failure.place)) {
        jpeg_destroy_decompress(&codec);
        free(row);
        // What came before the defect can be seen.
        if (begun && shrinker->row > 0) {
            shrinker_complete(shrinker);
            return 0;
        }
        return KITH_MEDIA_DAMAGED;
    }
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, bytes, (unsigned long)length);
    jpeg_read_header(&codec, TRUE);
    // Decoded at an eighth, a quarter or half where that is still twice what is wanted.
    uint32_t longer = codec.image_width > codec.image_height ? codec.image_width : codec.image_height;
    codec.scale_num = 8;
    codec.scale_denom = 8;
    for (unsigned part = 1; part < 8; part *= 2) {
        if ((uint64_t)longer * part / 8 >= (uint64_t)side * 2) {
            codec.scale_num = part;
            break;
        }
    }
    int is_cmyk = codec.jpeg_color_space == JCS_CMYK || codec.jpeg_color_space == JCS_YCCK;
    codec.out_color_space = is_cmyk ? JCS_CMYK : codec.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&codec);
    int result = (uint64_t)codec.output_width * codec.output_height > ROWS_LIMIT ? KITH_MEDIA_TOO_LARGE : 0;
    if (result == 0) result = shrinker_begin(shrinker, codec.output_width, codec.output_height, side);
    if (result == 0) row = malloc((size_t)codec.output_width * 4);
    if (result == 0 && row == NULL) result = KITH_MEDIA_NO_MEMORY;
    begun = result == 0;
    while (result == 0 && codec.output_scanline < codec.output_height) {
        JSAMPROW rows[1] = {row};
        jpeg_read_scanlines(&codec, rows, 1);
        if (is_cmyk) {
            // As Adobe writes it: the more, the lighter.
            for (uint32_t x = 0; x < codec.output_width; x++) {
                uint32_t black = row[x * 4 + 3];
                for (uint32_t part = 0; part < 3; part++) row[x * 3 + part] = (uint8_t)(row[x * 4 + part] * black / 255);
            }
        }
        shrinker_take(shrinker, row, is_cmyk ? 3 : (int)codec.output_components);
    }
    jpeg_destroy_decompress(&codec);
    free(row);
    return result;
}

static int encode(const uint8_t *pixels, uint32_t width, uint32_t height, kith_thumbnail *thumbnail) {
    struct jpeg_compress_struct codec;
    jpeg_failure failure;
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    codec.err = jpeg_errors(&failure);
    if (setjmp(failure.place)) {
        jpeg_destroy_compress(&codec);
        return KITH_MEDIA_NO_MEMORY;
    }
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &bytes, &length);
    codec.image_width = width;
    codec.image_height = height;
    codec.input_components = 3;
    codec.in_color_space = JCS_RGB;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, 85, TRUE);
    jpeg_start_compress(&codec, TRUE);
    while (codec.next_scanline < height) {
        JSAMPROW rows[1] = {(JSAMPROW)(pixels + (size_t)codec.next_scanline * width * 3)};
        jpeg_write_scanlines(&codec, rows, 1);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    thumbnail->bytes = bytes;
    thumbnail->length = length;
    thumbnail->width = width;
    thumbnail->height = height;
    return 0;
}
#else
static int decode_jpeg(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    (void)bytes; (void)length; (void)side; (void)shrinker;
    return KITH_MEDIA_UNSUPPORTED;
}
static int encode(const uint8_t *pixels, uint32_t width, uint32_t height, kith_thumbnail *thumbnail) {
    (void)pixels; (void)width; (void)height; (void)thumbnail;
    return KITH_MEDIA_UNSUPPORTED;
}
#endif

// MARK: - PNG

#ifdef KITH_HAS_PNG
typedef struct png_input {
    const uint8_t *bytes;
    size_t length, place;
} png_input;

static void png_take(png_structp codec, png_bytep bytes, png_size_t count) {
    png_input *input = png_get_io_ptr(codec);
    if (count > input->length - input->place) png_error(codec, "cut");
    memcpy(bytes, input->bytes + input->place, count);
    input->place += count;
}
static void png_fail(png_structp codec, png_const_charp text) {
    (void)text;
    png_longjmp(codec, 1);
}
static void png_silent(png_structp codec, png_const_charp text) { (void)codec; (void)text; }

static int decode_png(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    png_input input = {bytes, length, 0};
    png_infop info = NULL;
    png_structp codec = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, png_fail, png_silent);
    if (codec == NULL) return KITH_MEDIA_NO_MEMORY;
    info = png_create_info_struct(codec);
    if (info == NULL) {
        png_destroy_read_struct(&codec, NULL, NULL);
        return KITH_MEDIA_NO_MEMORY;
    }
    uint8_t *volatile memory = NULL;
    volatile int begun = 0;
    if (setjmp(png_jmpbuf(codec))) {
        png_destroy_read_struct(&codec, &info, NULL);
        free(memory);
        if (begun && shrinker->row > 0) {
            shrinker_complete(shrinker);
            return 0;
        }
        return KITH_MEDIA_DAMAGED;
    }
    png_set_read_fn(codec, &input, png_take);
    png_set_chunk_malloc_max(codec, 16u << 20);
    png_read_info(codec, info);
    uint32_t width = png_get_image_width(codec, info), height = png_get_image_height(codec, info);
    int is_interlaced = png_get_interlace_type(codec, info) != PNG_INTERLACE_NONE;
    if ((uint64_t)width * height > (is_interlaced ? WHOLE_LIMIT : ROWS_LIMIT)) {
        png_destroy_read_struct(&codec, &info, NULL);
        return KITH_MEDIA_TOO_LARGE;
    }
    png_set_expand(codec);
    png_set_scale_16(codec);
    png_set_gray_to_rgb(codec);
    png_set_add_alpha(codec, 255, PNG_FILLER_AFTER);
    int passes = png_set_interlace_handling(codec);
    png_read_update_info(codec, info);
    size_t row = png_get_rowbytes(codec, info);
    int result = row != (size_t)width * 4 ? KITH_MEDIA_DAMAGED : shrinker_begin(shrinker, width, height, side);
    if (result == 0) memory = malloc(passes > 1 ? row * height : row);
    if (result == 0 && memory == NULL) result = KITH_MEDIA_NO_MEMORY;
    begun = result == 0;
    if (result == 0) {
        for (int pass = 0; pass < passes; pass++) {
            for (uint32_t y = 0; y < height; y++) {
                uint8_t *at = memory + (passes > 1 ? row * y : 0);
                png_read_row(codec, at, NULL);
                if (pass == passes - 1) shrinker_take(shrinker, at, 4);
            }
        }
    }
    png_destroy_read_struct(&codec, &info, NULL);
    free(memory);
    return result;
}
#else
static int decode_png(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    (void)bytes; (void)length; (void)side; (void)shrinker;
    return KITH_MEDIA_UNSUPPORTED;
}
#endif

// MARK: - WebP

#ifdef KITH_HAS_WEBP
static int decode_webp(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return KITH_MEDIA_UNSUPPORTED;
    if (WebPGetFeatures(bytes, length, &config.input) != VP8_STATUS_OK) return KITH_MEDIA_DAMAGED;
    uint32_t width = (uint32_t)config.input.width, height = (uint32_t)config.input.height;
    if (config.input.has_animation) return KITH_MEDIA_UNSUPPORTED;
    if ((uint64_t)width * height > WHOLE_LIMIT) return KITH_MEDIA_TOO_LARGE;
    config.output.colorspace = MODE_RGBA;
    VP8StatusCode status = WebPDecode(bytes, length, &config);
    int result = status == VP8_STATUS_OK ? 0 : status == VP8_STATUS_OUT_OF_MEMORY ? KITH_MEDIA_NO_MEMORY : KITH_MEDIA_DAMAGED;
    if (result == 0) result = shrinker_begin(shrinker, width, height, side);
    for (uint32_t y = 0; result == 0 && y < height; y++) {
        shrinker_take(shrinker, config.output.u.RGBA.rgba + (size_t)y * (size_t)config.output.u.RGBA.stride, 4);
    }
    WebPFreeDecBuffer(&config.output);
    return result;
}
#else
static int decode_webp(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    (void)bytes; (void)length; (void)side; (void)shrinker;
    return KITH_MEDIA_UNSUPPORTED;
}
#endif

// MARK: - TIFF

#ifdef KITH_HAS_TIFF
typedef struct tiff_input {
    const uint8_t *bytes;
    uint64_t length, place;
} tiff_input;

static tmsize_t tiff_take(thandle_t handle, void *bytes, tmsize_t count) {
    tiff_input *input = handle;
    uint64_t left = input->place < input->length ? input->length - input->place : 0;
    uint64_t taken = count < 0 ? 0 : (uint64_t)count < left ? (uint64_t)count : left;
    memcpy(bytes, input->bytes + (taken > 0 ? input->place : 0), taken);
    input->place += taken;
    return (tmsize_t)taken;
}
static tmsize_t tiff_refuse(thandle_t handle, void *bytes, tmsize_t count) {
    (void)handle; (void)bytes; (void)count;
    return 0;
}
static toff_t tiff_seek(thandle_t handle, toff_t offset, int from) {
    tiff_input *input = handle;
    input->place = from == SEEK_SET ? offset : from == SEEK_CUR ? input->place + offset : input->length + offset;
    return input->place;
}
static int tiff_close(thandle_t handle) { (void)handle; return 0; }
static toff_t tiff_size(thandle_t handle) { return ((tiff_input *)handle)->length; }

static int decode_tiff(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    tiff_input input = {bytes, length, 0};
    // "m": not mapped, but through the functions.
    TIFF *tiff = TIFFClientOpen("", "rm", &input, tiff_take, tiff_refuse, tiff_seek, tiff_close, tiff_size, NULL, NULL);
    if (tiff == NULL) return KITH_MEDIA_DAMAGED;
    uint32_t width = 0, height = 0;
    uint16_t orientation = ORIENTATION_TOPLEFT;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &orientation);
    int result = (uint64_t)width * height > WHOLE_LIMIT ? KITH_MEDIA_TOO_LARGE : shrinker_begin(shrinker, width, height, side);
    uint32_t *pixels = result == 0 ? malloc((size_t)width * height * 4) : NULL;
    if (result == 0 && pixels == NULL) result = KITH_MEDIA_NO_MEMORY;
    // As it is stored: it is turned later.
    if (result == 0 && !TIFFReadRGBAImageOriented(tiff, width, height, pixels, orientation, 0)) result = KITH_MEDIA_DAMAGED;
    for (uint32_t y = 0; result == 0 && y < height; y++) {
        shrinker_take(shrinker, (const uint8_t *)(pixels + (size_t)y * width), 4);
    }
    free(pixels);
    TIFFClose(tiff);
    return result;
}
#else
static int decode_tiff(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    (void)bytes; (void)length; (void)side; (void)shrinker;
    return KITH_MEDIA_UNSUPPORTED;
}
#endif

// MARK: - HEIF

#ifdef KITH_HAS_HEIF
static int decode_heif(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    struct heif_context *context = heif_context_alloc();
    struct heif_image_handle *handle = NULL;
    struct heif_image *image = NULL;
    if (context == NULL) return KITH_MEDIA_NO_MEMORY;
#if LIBHEIF_NUMERIC_VERSION >= 0x010d0000
    heif_context_set_max_decoding_threads(context, 0);
#endif
    int result = KITH_MEDIA_DAMAGED;
    if (heif_context_read_from_memory_without_copy(context, bytes, length, NULL).code == heif_error_Ok
        && heif_context_get_primary_image_handle(context, &handle).code == heif_error_Ok) {
        uint64_t width = (uint64_t)heif_image_handle_get_width(handle);
        uint64_t height = (uint64_t)heif_image_handle_get_height(handle);
        if (width * height > WHOLE_LIMIT) {
            result = KITH_MEDIA_TOO_LARGE;
        } else if (
            heif_decode_image(handle, &image, heif_colorspace_RGB, heif_chroma_interleaved_RGBA, NULL).code
            == heif_error_Ok) {
            int stride = 0;
            const uint8_t *pixels = heif_image_get_plane_readonly(image, heif_channel_interleaved, &stride);
            int across = heif_image_get_width(image, heif_channel_interleaved);
            int down = heif_image_get_height(image, heif_channel_interleaved);
            if (pixels != NULL && across > 0 && down > 0 && stride >= across * 4) {
                result = shrinker_begin(shrinker, (uint32_t)across, (uint32_t)down, side);
                for (int y = 0; result == 0 && y < down; y++) shrinker_take(shrinker, pixels + (size_t)y * (size_t)stride, 4);
            }
        }
    }
    if (image != NULL) heif_image_release(image);
    if (handle != NULL) heif_image_handle_release(handle);
    heif_context_free(context);
    return result;
}
#else
static int decode_heif(const uint8_t *bytes, size_t length, uint32_t side, shrinker *shrinker) {
    (void)bytes; (void)length; (void)side; (void)shrinker;
    return KITH_MEDIA_UNSUPPORTED;
}
#endif

// MARK: - All of them

uint32_t kith_media_libraries(void) {
    uint32_t libraries = kith_media_pdf_library();
#ifdef KITH_HAS_JPEG
    libraries |= KITH_MEDIA_JPEG;
#endif
#ifdef KITH_HAS_PNG
    libraries |= KITH_MEDIA_PNG;
#endif
#ifdef KITH_HAS_WEBP
    libraries |= KITH_MEDIA_WEBP;
#endif
#ifdef KITH_HAS_TIFF
    libraries |= KITH_MEDIA_TIFF;
#endif
#ifdef KITH_HAS_HEIF
    libraries |= KITH_MEDIA_HEIF;
#endif
    return libraries;
}

#ifdef KITH_HAS_TIFF
static void prepare_tiff(void) {
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
}
#else
static void prepare_tiff(void) {}
#endif

#if defined(KITH_HAS_HEIF) && LIBHEIF_NUMERIC_VERSION >= 0x010d0000
static void prepare_heif(void) { heif_init(NULL); }
#else
static void prepare_heif(void) {}
#endif

void kith_media_prepare(void) {
    prepare_tiff();
    prepare_heif();
    kith_media_prepare_pdf();
}

/// Turns a picture as Exif's orientation says; `to` has as many bytes.
static void turn(const uint8_t *from, uint32_t width, uint32_t height, int orientation, uint8_t *to) {
    uint32_t across = orientation >= 5 ? height : width, down = orientation >= 5 ? width : height;
    for (uint32_t y = 0; y < down; y++) {
        for (uint32_t x = 0; x < across; x++) {
            uint32_t from_x = orientation >= 5 ? y : x, from_y = orientation >= 5 ? x : y;
            if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) from_x = width - 1 - from_x;
            if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) from_y = height - 1 - from_y;
            memcpy(to + ((size_t)y * across + x) * 3, from + ((size_t)from_y * width + from_x) * 3, 3);
        }
    }
}

static int starts(const uint8_t *bytes, size_t length, const char *mark, size_t count) {
    return length >= count && memcmp(bytes, mark, count) == 0;
}

int kith_media_thumbnail(
    const uint8_t *bytes, size_t length, int orientation, uint32_t side, kith_thumbnail *thumbnail) {
    shrinker shrinker;
    memset(&shrinker, 0, sizeof shrinker);
    int result = KITH_MEDIA_UNSUPPORTED;
    if (starts(bytes, length, "\xFF\xD8\xFF", 3)) {
        result = decode_jpeg(bytes, length, side, &shrinker);
    } else if (starts(bytes, length, "\x89PNG", 4)) {
        result = decode_png(bytes, length, side, &shrinker);
    } else if (starts(bytes, length, "RIFF", 4)) {
        result = decode_webp(bytes, length, side, &shrinker);
    } else if (starts(bytes, length, "II*\0", 4) || starts(bytes, length, "MM\0*", 4)) {
        result = decode_tiff(bytes, length, side, &shrinker);
    } else if (length > 8 && memcmp(bytes + 4, "ftyp", 4) == 0) {
        // It turns the picture itself.
        orientation = 1;
        result = decode_heif(bytes, length, side, &shrinker);
    }
    if (result == 0 && (orientation < 2 || orientation > 8)) {
        result = encode(shrinker.pixels, shrinker.width, shrinker.height, thumbnail);
    } else if (result == 0) {
        uint8_t *turned = malloc((size_t)shrinker.width * shrinker.height * 3);
        if (turned == NULL) {
            result = KITH_MEDIA_NO_MEMORY;
        } else {
            turn(shrinker.pixels, shrinker.width, shrinker.height, orientation, turned);
            int lies = orientation >= 5;
            result = encode(
                turned, lies ? shrinker.height : shrinker.width, lies ? shrinker.width : shrinker.height, thumbnail);
        }
        free(turned);
    }
    shrinker_free(&shrinker);
    return result;
}

int kith_media_encode(const uint8_t *pixels, uint32_t width, uint32_t height, kith_thumbnail *thumbnail) {
    return encode(pixels, width, height, thumbnail);
}
