import Foundation
import KithBrowser
import KithContent
import KithExtractor
import KithWire

/// Previews of files that the browser does not decode itself, by the confined process that reads files for a library.
///
/// The bytes come from wherever the file is, and are handed over in a file without a name. Without `kith-extract` beside
/// `kith` there are none.
struct ExtractedPreview: Sendable {
    /// The most pixels of a picture's longer side.
    private static let side = 512

    private let extractor: ContentExtractor?

    /// Uses the program at a path; `nil`: there is none.
    init(program: String? = ExtractorProgram.path) {
        var limits = ContentExtractor.Limits()
        // Somebody waits for it.
        limits.milliseconds = 5_000
        extractor = program.map { ContentExtractor(path: $0, limits: limits) }
    }

    /// Tells whether all of a file is needed: whether its beginning is that of a format to be read.
    func wantsWhole(_ head: [UInt8], size: UInt64) -> Bool {
        extractor != nil && size <= UInt64(Preview.imageSizeLimit) && Self.format(head) != nil
    }

    /// The preview of a whole file; `nil` when nothing came of it.
    ///
    /// - Throws: `CancellationError`.
    func preview(of bytes: [UInt8]) async throws -> Preview? {
        guard let extractor, let format = Self.format(bytes), let file = Self.file(holding: bytes) else { return nil }
        defer { try? file.close() }
        let wanted: WantedContent = format.isPicture ? [.properties, .thumbnail] : [.properties, .text]
        do throws(ContentExtractor.Fault) {
            let result = try await extractor.read(file.fileDescriptor, wanted, side: Self.side)
            let properties = result.content.properties
            if let thumbnail = result.thumbnail {
                let about = properties.width.flatMap { width in
                    properties.height.map { ", \(width) × \($0)" }
                }
                return Preview(thumbnail: thumbnail.bytes, about: "\(format.name) image\(about ?? "")")
            }
            guard let text = result.content.text else { return nil }
            return Preview(text: text)
        } catch {
            if error == .cancelled { throw CancellationError() }
            // It ends the process that reads it, or none can be started: its bytes are shown then.
            return nil
        }
    }

    /// The format that a file's beginning says; `nil` for one that is not read here.
    private static func format(_ head: [UInt8]) -> (name: String, isPicture: Bool)? {
        func has(_ mark: [UInt8], at offset: Int = 0) -> Bool {
            head.count >= offset + mark.count && head[offset..<(offset + mark.count)].elementsEqual(mark)
        }
        if has(Array("RIFF".utf8)), has(Array("WEBP".utf8), at: 8) { return ("WebP", true) }
        if has(Array("II*\0".utf8)) || has(Array("MM\0*".utf8)) { return ("TIFF", true) }
        if has(Array("ftyp".utf8), at: 4),
            ["heic", "heix", "mif1", "avif"].contains(where: { has(Array($0.utf8), at: 8) })
        {
            return (has(Array("avif".utf8), at: 8) ? "AVIF" : "HEIC", true)
        }
        if has(Array("%PDF-".utf8)) { return ("PDF", false) }
        // An office document, or any other archive: of that nothing comes.
        if has([0x50, 0x4B, 3, 4]) { return ("office", false) }
        return nil
    }

    /// A file without a name that holds bytes.
    private static func file(holding bytes: [UInt8]) -> FileHandle? {
        var template = Array((NSTemporaryDirectory() + "/kith-preview-XXXXXX").utf8CString)
        let descriptor = unsafe mkstemp(&template)
        guard descriptor >= 0 else { return nil }
        unsafe unlink(template)
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // A full disk is no reason to show nothing else.
        guard (try? file.write(contentsOf: Data(bytes))) != nil else { return nil }
        return file
    }
}
