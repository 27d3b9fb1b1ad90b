/// The format and the size of an image, from its first bytes.
package struct ImageHeader: Hashable, Sendable {
    /// `PNG`, `JPEG`, `GIF`, `WebP`.
    package var format: String
    package var width: Int
    package var height: Int

    /// True when images of the format are decoded.
    package var isDecoded: Bool { ["PNG", "JPEG", "GIF"].contains(format) }

    /// Tells whether a beginning may be that of a JPEG whose size comes further on: cameras put a small one before it.
    package static func mayFollow(_ head: [UInt8]) -> Bool { head.starts(with: [0xFF, 0xD8, 0xFF]) }

    /// Reads the beginning of a file; `nil` when it is none of these, or is cut before its size.
    package init?(_ bytes: [UInt8]) {
        func big(_ at: Int, _ count: Int) -> Int? {
            guard at >= 0, at + count <= bytes.count else { return nil }
            return bytes[at..<at + count].reduce(0) { $0 << 8 | Int($1) }
        }
        func little(_ at: Int, _ count: Int) -> Int? {
            guard at >= 0, at + count <= bytes.count else { return nil }
            return bytes[at..<at + count].reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        func text(_ at: Int, _ text: String) -> Bool {
            at + text.utf8.count <= bytes.count && bytes[at..<at + text.utf8.count].elementsEqual(text.utf8)
        }
        var size: (width: Int?, height: Int?) = (nil, nil)
        if text(1, "PNG\r\n\u{1A}\n"), bytes[0] == 0x89, text(12, "IHDR") {
            format = "PNG"
            size = (big(16, 4), big(20, 4))
        } else if text(0, "GIF87a") || text(0, "GIF89a") {
            format = "GIF"
            size = (little(6, 2), little(8, 2))
        } else if text(0, "RIFF"), text(8, "WEBP") {
            format = "WebP"
            if text(12, "VP8 ") {
                size = (little(26, 2).map { $0 & 0x3FFF }, little(28, 2).map { $0 & 0x3FFF })
            } else if text(12, "VP8L") {
                size = (little(21, 4).map { ($0 & 0x3FFF) + 1 }, little(21, 4).map { ($0 >> 14 & 0x3FFF) + 1 })
            } else if text(12, "VP8X") {
                size = (little(24, 3).map { $0 + 1 }, little(27, 3).map { $0 + 1 })
            }
        } else if big(0, 2) == 0xFFD8 {
            format = "JPEG"
            var at = 2
            // Segments: FF, a marker, a length that counts itself.
            while let marker = big(at, 2), marker > 0xFF00, let length = big(at + 2, 2) {
                if marker == 0xFFFF {
                    at += 1
                    continue
                }
                if (0xFFC0...0xFFCF).contains(marker), ![0xFFC4, 0xFFC8, 0xFFCC].contains(marker) {
                    size = (big(at + 7, 2), big(at + 5, 2))
                    break
                }
                guard length >= 2, marker != 0xFFDA else { break }
                at += 2 + length
            }
        } else {
            return nil
        }
        guard let width = size.width, let height = size.height, width > 0, height > 0 else { return nil }
        (self.width, self.height) = (width, height)
    }
}
