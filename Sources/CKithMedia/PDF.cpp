#include "CKithMedia.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <iconv.h>
#include <memory>
#include <string>

#include "../CPoppler/CPoppler.h"

extern "C" void kith_media_prepare_pdf(void);
extern "C" uint32_t kith_media_pdf_library(void);

#ifdef KITH_HAS_POPPLER
#include <poppler-global.h>

namespace {

/// No document has so many pages that people search for a word in it.
constexpr int page_limit = 5000;

void be_silent(const std::string &, void *) {}

/// UTF-8 of UTF-16; what is no character becomes U+FFFD.
std::string plain(const poppler::ustring &text) {
    std::string bytes;
    bytes.reserve(text.size());
    for (size_t index = 0; index < text.size(); index++) {
        uint32_t scalar = text[index];
        if (scalar >= 0xD800 && scalar < 0xDC00 && index + 1 < text.size() && text[index + 1] >= 0xDC00
            && text[index + 1] < 0xE000) {
            scalar = 0x10000 + ((scalar - 0xD800) << 10) + (text[++index] - 0xDC00u);
        } else if (scalar >= 0xD800 && scalar < 0xE000) {
            scalar = 0xFFFD;
        }
        if (scalar < 0x80) {
            bytes.push_back(static_cast<char>(scalar));
        } else if (scalar < 0x800) {
            bytes.push_back(static_cast<char>(0xC0 | scalar >> 6));
            bytes.push_back(static_cast<char>(0x80 | (scalar & 0x3F)));
        } else if (scalar < 0x10000) {
            bytes.push_back(static_cast<char>(0xE0 | scalar >> 12));
            bytes.push_back(static_cast<char>(0x80 | (scalar >> 6 & 0x3F)));
            bytes.push_back(static_cast<char>(0x80 | (scalar & 0x3F)));
        } else {
            bytes.push_back(static_cast<char>(0xF0 | scalar >> 18));
            bytes.push_back(static_cast<char>(0x80 | (scalar >> 12 & 0x3F)));
            bytes.push_back(static_cast<char>(0x80 | (scalar >> 6 & 0x3F)));
            bytes.push_back(static_cast<char>(0x80 | (scalar & 0x3F)));
        }
    }
    return bytes;
}

void keep(const std::string &text, char *room, size_t size) {
    size_t count = text.size() < size - 1 ? text.size() : size - 1;
    memcpy(room, text.data(), count);
    room[count] = 0;
}

}  // namespace

extern "C" uint32_t kith_media_pdf_library(void) { return KITH_MEDIA_PDF; }

extern "C" void kith_media_prepare_pdf(void) {
    poppler::set_debug_error_function(be_silent, nullptr);
    // The converters of the C library are files, and stay loaded as long as somebody uses them.
    static iconv_t to = iconv_open("UTF-16", "UTF-8"), from = iconv_open("UTF-8", "UTF-16");
    (void)to;
    (void)from;
    (void)poppler::ustring::from_utf8("a").to_utf8();
}

extern "C" int kith_media_pdf(const uint8_t *bytes, size_t length, size_t limit, kith_pdf *pdf) {
    memset(pdf, 0, sizeof *pdf);
    if (length > INT_MAX) return KITH_MEDIA_TOO_LARGE;
    try {
        std::unique_ptr<poppler::document> document(
            poppler::document::load_from_raw_data(reinterpret_cast<const char *>(bytes), static_cast<int>(length)));
        if (!document) return KITH_MEDIA_DAMAGED;
        if (document->is_locked()) return KITH_MEDIA_LOCKED;
        pdf->pages = document->pages();
        keep(plain(document->info_key("Title")), pdf->title, sizeof pdf->title);
        keep(plain(document->info_key("Author")), pdf->author, sizeof pdf->author);
        std::string text;
        for (int number = 0; number < pdf->pages && number < page_limit && text.size() < limit; number++) {
            std::unique_ptr<poppler::page> page(document->create_page(number));
            if (!page) continue;
            text += plain(page->text(poppler::rectf(), poppler::page::non_raw_non_physical_layout));
            text += '\n';
        }
        if (text.size() > limit) text.resize(limit);
        pdf->text = static_cast<uint8_t *>(malloc(text.size() + 1));
        if (pdf->text == nullptr) return KITH_MEDIA_NO_MEMORY;
        memcpy(pdf->text, text.data(), text.size());
        pdf->length = text.size();
        return 0;
    } catch (const std::bad_alloc &) {
        return KITH_MEDIA_NO_MEMORY;
    } catch (...) {
        return KITH_MEDIA_DAMAGED;
    }
}
#else
extern "C" uint32_t kith_media_pdf_library(void) { return 0; }

extern "C" void kith_media_prepare_pdf(void) {}

extern "C" int kith_media_pdf(const uint8_t *bytes, size_t length, size_t limit, kith_pdf *pdf) {
    (void)bytes;
    (void)length;
    (void)limit;
    memset(pdf, 0, sizeof *pdf);
    return KITH_MEDIA_UNSUPPORTED;
}
#endif
