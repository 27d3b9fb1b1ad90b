import KithWire

/// The messages between a device and the process that reads files for it.
///
/// One file at a time: the device sends a request with the file's descriptor beside it, the process answers with frames and
/// an ending one. Neither end believes the other: what the process sends, a file may have made it send.
package enum ContentExchange {
    /// What is asked of a file.
    package struct Request: Hashable, Sendable {
        /// The number of its bytes.
        package static let size = 12
        package var wanted: WantedContent
        /// The most pixels of the thumbnail's longer side, 16…1,024.
        package var side: Int

        package init(wanted: WantedContent, side: Int = 256) {
            self.wanted = wanted
            self.side = side
        }

        /// `KXR1`, what is wanted, 0, the side (2 bytes), 0 (4 bytes); numbers are little-endian.
        package var bytes: [UInt8] {
            let side = UInt16(clamping: side)
            return Array("KXR1".utf8) + [wanted.rawValue, 0, UInt8(side & 0xFF), UInt8(side >> 8), 0, 0, 0, 0]
        }

        /// - Returns: `nil` for bytes that are no request.
        package init?(_ bytes: [UInt8]) {
            guard bytes.count == Self.size, bytes.starts(with: Array("KXR1".utf8)), bytes[5] == 0,
                bytes[8...].allSatisfy({ $0 == 0 })
            else { return nil }
            wanted = WantedContent(rawValue: bytes[4])
            side = Int(bytes[6]) | Int(bytes[7]) << 8
            guard wanted.isSubset(of: [.properties, .text, .thumbnail]), (16...1_024).contains(side) else { return nil }
        }
    }

    /// A part of an answer: its kind, the number of its bytes (4, little-endian), its bytes.
    package enum Frame: UInt8, CaseIterable, Sendable {
        /// That was all. No bytes.
        case end = 0
        /// ``ContentProperties`` in CBOR.
        case properties = 1
        /// Text in UTF-8.
        case text = 2
        /// Width and height (2 bytes each, little-endian), then a JPEG.
        case thumbnail = 3
        /// A sentence that says why the thumbnail could not be made.
        case failure = 4

        /// The number of bytes before the content.
        package static let headSize = 5

        /// The most bytes of the content.
        package var limit: Int {
            switch self {
            case .end: 0
            case .properties: 16 << 10
            case .text: ContentReading.textLimit
            case .thumbnail: Thumbnail.limit + 4
            case .failure: 1_024
            }
        }

        /// The bytes of a frame.
        package func bytes(_ content: [UInt8] = []) -> [UInt8] {
            precondition(content.count <= limit, "a frame is within its limit")
            let count = UInt32(content.count)
            return [rawValue] + (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * UInt32($0))) } + content
        }
    }

    /// A small picture.
    package struct Thumbnail: Hashable, Sendable {
        /// The most bytes.
        package static let limit = 512 << 10
        package var width: Int
        package var height: Int
        /// The file, a JPEG.
        package var bytes: [UInt8]

        package init(width: Int, height: Int, bytes: [UInt8]) {
            (self.width, self.height, self.bytes) = (width, height, bytes)
        }
    }

    /// Takes an answer together, frame by frame, and refuses what cannot be one.
    package struct Answer: Sendable {
        /// The reason it is not one.
        package struct Fault: Error, Hashable {}

        package private(set) var content = ReadContent()
        package private(set) var thumbnail: Thumbnail?
        package private(set) var failure: String?
        private var seen: Set<Frame> = []

        package init() {}

        /// The kind and the number of bytes that a head announces.
        package func next(_ head: [UInt8]) throws(Fault) -> (frame: Frame, count: Int) {
            guard head.count == Frame.headSize, let frame = Frame(rawValue: head[0]) else { throw Fault() }
            let count = (1...4).reduce(0) { $0 | Int(head[$1]) << (8 * ($1 - 1)) }
            guard count <= frame.limit, !seen.contains(frame) else { throw Fault() }
            return (frame, count)
        }

        /// Takes one frame; returns true at the end.
        package mutating func received(_ frame: Frame, _ bytes: [UInt8]) throws(Fault) -> Bool {
            guard bytes.count <= frame.limit, seen.insert(frame).inserted else { throw Fault() }
            switch frame {
            case .end: return true
            case .properties:
                let read: ContentProperties
                do { read = try CBORDecoder().decode(ContentProperties.self, from: bytes) } catch { throw Fault() }
                content.properties = read.plausible
            case .text:
                // As if it came from the file itself.
                let text = String(decoding: bytes, as: UTF8.self).collected(limit: ContentReading.textLimit)
                content.text = text.isEmpty ? nil : text
            case .thumbnail:
                guard bytes.count > 7, bytes[4...].starts(with: [0xFF, 0xD8, 0xFF]) else { throw Fault() }
                let (width, height) = (Int(bytes[0]) | Int(bytes[1]) << 8, Int(bytes[2]) | Int(bytes[3]) << 8)
                guard (1...1_024).contains(width), (1...1_024).contains(height) else { throw Fault() }
                thumbnail = Thumbnail(width: width, height: height, bytes: Array(bytes[4...]))
            case .failure: failure = ContentProperties.plain(String(decoding: bytes, as: UTF8.self))
            }
            return false
        }
    }
}
