#if Media && canImport(CKithMedia)
import CKithMedia
import Glibc
import KithContent

/// The system's libraries for images and PDF.
enum Libraries {
    /// The most bytes of a file that is given to one.
    private static let sizeLimit: UInt64 = 256 << 20

    /// Loads what cannot be loaded later.
    static func prepare() { kith_media_prepare() }

    /// Reads the text and the properties of a PDF.
    static func readPDF(_ source: FileSource, _ wanted: WantedContent, _ content: inout ReadContent) {
        var pdf = unsafe kith_pdf()
        let limit = wanted.contains(.text) ? ContentReading.textLimit : 0
        let status = unsafe source.withContent(limit: sizeLimit) {
            unsafe kith_media_pdf($0.baseAddress, $0.count, limit, &pdf)
        }
        content.properties.format = "PDF"
        guard status == 0 else { return }
        defer { unsafe free(pdf.text) }
        content.properties.pages = Int(unsafe pdf.pages)
        content.properties.title = unsafe withUnsafeBytes(of: pdf.title) { unsafe Self.text($0) }
        content.properties.author = unsafe withUnsafeBytes(of: pdf.author) { unsafe Self.text($0) }
        content.properties = content.properties.plausible
        let text = unsafe String(decoding: UnsafeBufferPointer(start: pdf.text, count: pdf.length), as: UTF8.self)
            .collected(limit: limit)
        content.text = text.isEmpty ? nil : text
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String? {
        let text = unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        return text.isEmpty ? nil : text
    }

    /// Makes a thumbnail of an image.
    static func thumbnail(
        of source: FileSource, _ properties: ContentProperties, side: Int
    ) -> Result<ContentExchange.Thumbnail, ExtractionFailure> {
        if source.bytes(at: 0, count: 4) == Array("GIF8".utf8) { return thumbnail(ofGIF: source, side: side) }
        var made = unsafe kith_thumbnail()
        let status = unsafe source.withContent(limit: sizeLimit) {
            unsafe kith_media_thumbnail(
                $0.baseAddress, $0.count, Int32(properties.orientation ?? 1), UInt32(side), &made)
        }
        guard let status else { return .failure(ExtractionFailure(message: "it is empty, or larger than 256 MiB")) }
        return unsafe result(status, made)
    }

    /// Makes a thumbnail of the first picture of a GIF: our own decoder needs no library.
    private static func thumbnail(
        ofGIF source: FileSource, side: Int
    ) -> Result<ContentExchange.Thumbnail, ExtractionFailure> {
        guard source.size <= UInt64(Self.gifLimit) else {
            return .failure(ExtractionFailure(message: "it is larger than 64 MiB"))
        }
        let picture: Picture
        do throws(ImageFailure) {
            picture = try GIFImage.decode(source.bytes(at: 0, count: Int(source.size)), on: 255)
        } catch {
            return .failure(
                ExtractionFailure(message: reason(error == .tooLarge ? KITH_MEDIA_TOO_LARGE : KITH_MEDIA_DAMAGED)))
        }
        let scale = min(1, Double(side) / Double(max(picture.width, picture.height)))
        let small = picture.scaled(
            width: Int(Double(picture.width) * scale), height: Int(Double(picture.height) * scale))
        var made = unsafe kith_thumbnail()
        let status = unsafe small.pixels.withUnsafeBufferPointer {
            unsafe kith_media_encode($0.baseAddress, UInt32(small.width), UInt32(small.height), &made)
        }
        return unsafe result(status, made)
    }

    /// The most bytes of a GIF that is read for its first picture.
    private static let gifLimit = 64 << 20

    /// Takes over what a library made.
    private static func result(
        _ status: Int32, _ made: kith_thumbnail
    ) -> Result<ContentExchange.Thumbnail, ExtractionFailure> {
        guard status == 0 else { return .failure(ExtractionFailure(message: reason(Int(status)))) }
        defer { unsafe free(made.bytes) }
        guard unsafe made.length <= ContentExchange.Thumbnail.limit else {
            return .failure(ExtractionFailure(message: "its thumbnail would be too large"))
        }
        return .success(
            ContentExchange.Thumbnail(
                width: Int(unsafe made.width), height: Int(unsafe made.height),
                bytes: unsafe Array(UnsafeBufferPointer(start: made.bytes, count: made.length))))
    }

    private static func reason(_ status: Int) -> String {
        switch status {
        case KITH_MEDIA_UNSUPPORTED: "thumbnails are not made of what it is"
        case KITH_MEDIA_TOO_LARGE: "it has more pixels than are worth the time"
        case KITH_MEDIA_NO_MEMORY: "it needs more memory than it may have"
        default: "it is damaged"
        }
    }
}
#endif
