import CKithSystem
import KithContent
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// `kith-extract`: reads the files that a device hands it, confined so that a file that takes it over has gained nothing.
///
/// Descriptor 0 is the socket on which requests come and answers go (``ContentExchange``). It is started by a device, and by
/// nobody else.
@main
struct Extract {
    /// Memory with all libraries, and processor time for all files until it is replaced.
    private static let limits = kith_sandbox_limits(memory: 1 << 30, processor_seconds: 120)

    static func main() {
        Libraries.prepare()
        var limits = limits
        let status = unsafe kith_sandbox_enter(&limits)
        guard status == 0 else {
            // The first thing that is sent: the device then sends no file.
            send([1] + (0..<4).map { UInt8(truncatingIfNeeded: -status >> (8 * $0)) })
            return
        }
        send([0, 0, 0, 0, 0])
        while let (request, descriptor) = next() {
            answer(request, FileSource(taking: descriptor))
        }
    }

    private static func next() -> (ContentExchange.Request, Int32)? {
        var bytes = [UInt8](repeating: 0, count: ContentExchange.Request.size)
        var descriptor: Int32 = -1
        let status = unsafe bytes.withUnsafeMutableBytes {
            unsafe kith_helper_receive(0, $0.baseAddress, $0.count, &descriptor, -1)
        }
        guard status == 0, descriptor >= 0, let request = ContentExchange.Request(bytes) else { return nil }
        return (request, descriptor)
    }

    private static func answer(_ request: ContentExchange.Request, _ source: FileSource) {
        var content = ContentReading.read(source, request.wanted)
        if ContentReading.isPDF(source) { Libraries.readPDF(source, request.wanted, &content) }
        if request.wanted.contains(.properties), !content.properties.isEmpty {
            // Bounded texts and numbers: it always fits.
            if let bytes = try? CBOREncoder().encode(content.properties) {
                send(ContentExchange.Frame.properties.bytes(bytes))
            }
        }
        if request.wanted.contains(.text), let text = content.text {
            send(ContentExchange.Frame.text.bytes(Array(text.utf8)))
        }
        if request.wanted.contains(.thumbnail) {
            switch Libraries.thumbnail(of: source, content.properties, side: request.side) {
            case .success(let thumbnail):
                let (width, height) = (UInt16(thumbnail.width), UInt16(thumbnail.height))
                let head = [UInt8(width & 0xFF), UInt8(width >> 8), UInt8(height & 0xFF), UInt8(height >> 8)]
                send(ContentExchange.Frame.thumbnail.bytes(head + thumbnail.bytes))
            case .failure(let failure): send(ContentExchange.Frame.failure.bytes(Array(failure.message.utf8)))
            }
        }
        send(ContentExchange.Frame.end.bytes())
    }

    private static func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes[sent...].withUnsafeBytes { unsafe write(0, $0.baseAddress, $0.count) }
            // Nobody reads any more.
            guard count > 0 else { exit(1) }
            sent += count
        }
    }
}

/// The reason there is no thumbnail, as a sentence.
struct ExtractionFailure: Error {
    var message: String
}

/// A file by its descriptor, read through a window so that small reads cost nothing; closed with it.
final class FileSource: ByteSource {
    private static let windowSize = 64 << 10

    private let descriptor: Int32
    let size: UInt64
    private var window: [UInt8] = []
    private var start: UInt64 = 0

    init(taking descriptor: Int32) {
        self.descriptor = descriptor
        size = UInt64(max(0, lseek(descriptor, 0, SEEK_END)))
    }

    deinit { close(descriptor) }

    func bytes(at offset: UInt64, count: Int) -> [UInt8] {
        guard count > 0, offset < size else { return [] }
        let count = Int(min(UInt64(count), size - offset))
        guard count <= Self.windowSize else { return read(offset, count) }
        if offset < start || offset + UInt64(count) > start + UInt64(window.count) {
            start = offset
            window = read(offset, Int(min(UInt64(Self.windowSize), size - offset)))
        }
        let from = min(Int(offset - start), window.count)
        return Array(window[from..<min(from + count, window.count)])
    }

    private func read(_ offset: UInt64, _ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var length = 0
        while length < count {
            let got = unsafe bytes[length...].withUnsafeMutableBytes {
                unsafe pread(descriptor, $0.baseAddress, $0.count, off_t(clamping: offset) + off_t(length))
            }
            guard got > 0 else { break }
            length += got
        }
        return Array(bytes[..<length])
    }

    /// Calls back with all bytes, mapped into memory; `nil` when there are more than `limit`, or none.
    func withContent<Result>(limit: UInt64, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        guard size > 0, size <= limit else { return nil }
        let count = Int(size)
        guard let memory = unsafe mmap(nil, count, PROT_READ, MAP_PRIVATE, descriptor, 0), unsafe memory != MAP_FAILED
        else { return nil }
        defer { unsafe munmap(memory, count) }
        return unsafe body(UnsafeRawBufferPointer(start: memory, count: count))
    }
}
