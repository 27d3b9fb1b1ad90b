import CKithSystem
import Crypto
import Foundation
import KithIO

/// The digests by which the content of a file is known.
///
/// Of a file of up to 1 MiB that is its SHA-256. Of a larger one it is that of a sample at first, by which two files can be
/// told apart and nothing else, and the SHA-256 of the whole when it was asked for.
package struct ContentDigest: Hashable, Sendable {
    /// The SHA-256 of a sample; `nil` for a file of up to 1 MiB.
    package var sample: [UInt8]?
    /// The SHA-256 of all bytes; `nil` as long as only the sample was read.
    package var whole: [UInt8]?
}

/// How much of a large file is read.
package enum ContentDepth: String, Codable, Hashable, Sendable {
    /// A sample of what has more than 1 MiB.
    case sampled
    /// All of it.
    case whole
}

/// What is read of a file for its sample.
///
/// The digest is of this text, then the size in eight bytes (the least first), then the first 64 KiB, 14 blocks of 16 KiB
/// at equal distances between, and the last 64 KiB. The block `i` of 1…14 begins at 64 KiB + i·⌊(size − 144 KiB) / 15⌋.
enum ContentSample {
    /// The size above which a file has a sample.
    static let threshold: Int64 = 1 << 20
    static let text = "kith sample 1"
    static let edge: Int64 = 64 << 10
    static let block: Int64 = 16 << 10
    static let blocks: Int64 = 14

    /// The ranges that are read of a file of more than ``threshold`` bytes.
    static func ranges(_ size: Int64) -> [Range<Int64>] {
        let step = (size - 2 * edge - block) / (blocks + 1)
        var ranges = [0..<edge]
        for number in 1...blocks { ranges.append(edge + number * step..<edge + number * step + block) }
        ranges.append(size - edge..<size)
        return ranges
    }
}

/// A file of a location that is to be read, as the index knows it.
struct ContentItem: Sendable {
    /// The number of its entry.
    var entry: Int64
    /// The path of its folder.
    var folder: [UInt8]
    /// The file system that its folder lies on.
    var device: Int64
    var name: [UInt8]
    var size: Int64
    var modified: Int64
    var changed: Int64
    var inode: Int64
    /// What was read of it before, if anything.
    var known: ContentDigest?

    var path: [UInt8] { folder.appending(name: name) }

    /// True when a file that was opened is the one that the index knows, as it was then.
    func isSame(as attributes: FileAttributes) -> Bool {
        attributes.kind == .file && attributes.device == device && attributes.inode == inode && attributes.size == size
            && attributes.modified == modified && attributes.changed == changed
    }
}

/// What came of reading a file.
enum ContentOutcome: Sendable {
    case read(ContentDigest)
    /// It is not as the index knows it, or changed while it was read.
    case changed
    /// It is not there.
    case gone
    case unreadable(String)
}

/// Reads files of one location, and nothing that lies elsewhere.
///
/// Each step is a name in a folder held open, and no link is followed. Every call blocks while the disk works.
struct ContentReader {
    static let bufferSize = 256 << 10

    private let top: OpenFolder
    private let path: [UInt8]
    /// The folder at hand.
    private var folder: (path: [UInt8], folder: OpenFolder)?

    init(top: OpenFolder, path: [UInt8]) {
        self.top = top
        self.path = path
    }

    /// Opens a file of the location, and checks that it is what the index knows.
    mutating func open(_ item: ContentItem) throws(ContentFailure) -> ContentFile {
        let file: ContentFile
        let attributes: FileAttributes
        do throws(SystemError) {
            if folder?.path != item.folder {
                folder = nil
                guard item.folder.isWithin(path) else { throw SystemError(ENOENT) }
                var opened = top
                for name in item.folder.dropFirst(path.count).split(separator: UInt8(ascii: "/")) {
                    opened = try OpenFolder(Array(name), in: opened)
                }
                folder = (item.folder, opened)
            }
            guard let folder else { throw SystemError(ENOENT) }
            file = try ContentFile(item.name, in: folder.folder)
            attributes = try file.attributes()
        } catch {
            switch error.number {
            case ENOENT: throw .gone
            // A link, or something else, has taken its place.
            case ELOOP, ENOTDIR, ENXIO: throw .changed
            default: throw .unreadable(error.description)
            }
        }
        guard item.isSame(as: attributes) else { throw .changed }
        return file
    }

    /// Reads a file, and says what it is; `progress` is told the bytes of each step.
    mutating func digest(
        _ item: ContentItem, _ depth: ContentDepth, _ buffer: UnsafeMutableRawBufferPointer,
        progress: (Int) throws(CancellationError) -> Void
    ) throws(CancellationError) -> ContentOutcome {
        do throws(ContentFailure) {
            let file = try open(item)
            var digest = ContentDigest()
            if item.size > ContentSample.threshold {
                var hash = SHA256()
                hash.update(data: Array(ContentSample.text.utf8))
                hash.update(data: (0..<8).map { UInt8(truncatingIfNeeded: item.size >> ($0 * 8)) })
                for range in ContentSample.ranges(item.size) {
                    try unsafe file.read(range, buffer, progress) { unsafe hash.update(bufferPointer: $0) }
                }
                digest.sample = Array(hash.finalize())
            }
            if depth == .whole || item.size <= ContentSample.threshold {
                var hash = SHA256()
                try unsafe file.read(0..<item.size, buffer, progress) { unsafe hash.update(bufferPointer: $0) }
                digest.whole = Array(hash.finalize())
            }
            guard item.isSame(as: try file.checked()) else { return .changed }
            return .read(digest)
        } catch {
            switch error {
            case .changed: return .changed
            case .gone: return .gone
            case .unreadable(let why): return .unreadable(why)
            case .cancelled: throw CancellationError()
            }
        }
    }
}

/// Why a file was not read.
enum ContentFailure: Error {
    case changed
    case gone
    case unreadable(String)
    case cancelled
}

/// A regular file that is read; closed when nobody holds it any more.
final class ContentFile: Sendable {
    private let number: Int32

    /// Opens a name in a folder; a link is not followed, and a pipe or device that has taken its place is not waited for.
    init(_ name: [UInt8], in folder: OpenFolder) throws(SystemError) {
        number = unsafe withCString(name) { unsafe kith_open(folder.number, $0, Int32(KITH_FILE_NO_FOLLOW), 0) }
        guard number >= 0 else { throw SystemError(-number) }
    }

    deinit { if number >= 0 { kith_file_close(number) } }

    func attributes() throws(SystemError) -> FileAttributes {
        var info = kith_file_info()
        let status = unsafe withCString([]) { unsafe kith_file_stat(number, $0, &info) }
        guard status >= 0 else { throw SystemError(-status) }
        return FileAttributes(info)
    }

    func checked() throws(ContentFailure) -> FileAttributes {
        do throws(SystemError) { return try attributes() } catch { throw .unreadable(error.description) }
    }

    /// Reads a range a buffer at a time; one that ends early has changed.
    func read(
        _ range: Range<Int64>, _ buffer: UnsafeMutableRawBufferPointer,
        _ progress: (Int) throws(CancellationError) -> Void, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(ContentFailure) {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = try unsafe read(at: offset, buffer, upTo: Int(clamping: range.upperBound - offset))
            guard count > 0 else { throw .changed }
            unsafe body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += Int64(count)
            do throws(CancellationError) { try progress(count) } catch { throw .cancelled }
        }
    }

    /// Reads at a place until so many bytes are there, the buffer is full, or the file ends.
    func read(
        at offset: Int64, _ buffer: UnsafeMutableRawBufferPointer, upTo limit: Int
    ) throws(ContentFailure) -> Int {
        let wanted = min(buffer.count, limit)
        var count = 0
        while count < wanted {
            let read = unsafe kith_file_read(
                number, buffer.baseAddress?.advanced(by: count), wanted - count, offset + Int64(count))
            guard read >= 0 else { throw .unreadable(SystemError(Int32(clamping: -read)).description) }
            if read == 0 { break }
            count += read
        }
        return count
    }
}
