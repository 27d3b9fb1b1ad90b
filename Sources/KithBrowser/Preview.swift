import KithAPI
import KithCommandLine
package import KithContent

/// The preview of a file beside the list.
package enum Preview: Hashable, Sendable {
    /// Its first lines.
    case text([[VisibleText.Span]])
    /// Its first bytes, as numbers; the format, if it is a known one.
    case bytes([UInt8], about: String?)
    /// An image, and what it is.
    case picture(Picture, about: String)
    /// The first items of a folder.
    case folder([Item], hasMore: Bool)
    /// The reason there is nothing to show.
    case failure(String)

    /// So many bytes are fetched of a file that is not decoded whole.
    package static let headSize = 16 << 10
    /// Images of more bytes are not decoded.
    package static let imageSizeLimit = 16 << 20
    /// So many pixels are kept of an image, in either direction.
    private static let pixelLimit = 512

    /// Tells whether more than the head is needed: an image that can be decoded.
    package static func wantsWhole(_ head: [UInt8], size: UInt64) -> Bool {
        size > UInt64(head.count) && size <= UInt64(imageSizeLimit)
            && (ImageHeader(head)?.isDecoded ?? ImageHeader.mayFollow(head))
    }

    private static func decoded(_ bytes: [UInt8], _ format: String) throws(ImageFailure) -> Picture {
        switch format {
        case "JPEG": try JPEGImage.decode(bytes)
        case "GIF": try GIFImage.decode(bytes)
        default: try PNGImage.decode(bytes)
        }
    }

    /// Makes the preview of a file from its beginning, or from all of it.
    package init(bytes: [UInt8], size: UInt64) {
        if let header = ImageHeader(bytes) {
            let about = "\(header.format) image, \(header.width) × \(header.height)"
            if header.isDecoded, UInt64(bytes.count) >= size {
                do throws(ImageFailure) {
                    let picture = try Self.decoded(bytes, header.format)
                    self = .picture(picture.fitted(columns: Self.pixelLimit, rows: Self.pixelLimit / 2), about: about)
                } catch {
                    self = .bytes(Array(bytes.prefix(4_096)), about: "\(about), \(error.rawValue)")
                }
            } else {
                self = .bytes(Array(bytes.prefix(4_096)), about: about)
            }
            return
        }
        guard !VisibleText.isBinary(bytes) else {
            self = .bytes(Array(bytes.prefix(4_096)), about: nil)
            return
        }
        let lines = bytes.split(separator: 0x0A, maxSplits: 200, omittingEmptySubsequences: false).prefix(200)
        self = .text(lines.map { VisibleText.spans(($0.last == 0x0D ? $0.dropLast() : $0).prefix(1_024)) })
    }

    /// Makes the preview of a small picture that was made of a file, a JPEG; `nil` when it is not one.
    package init?(thumbnail bytes: [UInt8], about: String) {
        do throws(ImageFailure) { self = .picture(try JPEGImage.decode(bytes), about: about) } catch { return nil }
    }

    /// Makes the preview of the text that is in a file.
    package init(text: String) {
        let lines = text.utf8.split(separator: 0x0A, maxSplits: 200, omittingEmptySubsequences: false).prefix(200)
        self = .text(lines.map { VisibleText.spans(Array($0.prefix(1_024))) })
    }
}
