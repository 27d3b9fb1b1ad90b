import KithMLS
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A delivery service that is a file, shared by the programs of one machine: for demonstrations and for tests with real
/// processes.
///
/// The file is a log of records, each with its length (4 bytes) before it. Whoever adds one holds the kernel's lock on the
/// file; one that a killed process left unfinished at the end is cut off by the next. An answer is given when the record
/// is on the disk.
public final class FileDelivery: StateDelivery {
    /// The largest record that is taken for one.
    private static let limit = 64 << 20

    private struct Content {
        var state = DeliveryState()
        var offset: off_t = 0
    }

    private let descriptor: Int32
    private let content = Mutex(Content())

    /// Opens the file, making it when it is not there.
    public init(path: String) throws(DeliveryError) {
        descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw DeliveryError("Could not open \(path): \(unsafe String(cString: strerror(errno))).")
        }
    }

    deinit { close(descriptor) }

    func ask<Value: Sendable>(
        _ body: (borrowing DeliveryState) throws(DeliveryError) -> (Value, [DeliveryState.Record])
    ) async throws(DeliveryError) -> Value {
        let result: Result<Value, DeliveryError> = content.withLock { content in
            while flock(descriptor, LOCK_EX) != 0 {
                guard errno == EINTR else { return .failure(Self.failure("lock")) }
            }
            defer { flock(descriptor, LOCK_UN) }
            do throws(DeliveryError) {
                try catchUp(&content)
                let (value, records) = try body(content.state)
                guard !records.isEmpty else { return .success(value) }
                var bytes: [UInt8] = []
                for record in records {
                    try DeliveryState.check(record)
                    let encoded = record.encoded
                    guard encoded.count <= Self.limit else { throw DeliveryError("The message is too large.") }
                    for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: encoded.count >> shift)) }
                    bytes += encoded
                }
                try append(bytes, at: content.offset)
                // Only now, and from the file: what is known is what others will know.
                try catchUp(&content)
                return .success(value)
            } catch { return .failure(error) }
        }
        return try result.get()
    }

    /// Looks for something new every few milliseconds.
    public func news(after count: UInt64) async throws(DeliveryError) -> UInt64 {
        while true {
            let known = try await ask { state in (state.count, []) }
            guard known <= count else { return known }
            do { try await Task.sleep(for: .milliseconds(10)) } catch {
                throw DeliveryError("The wait was called off.")
            }
        }
    }

    /// Reads the records that were added since.
    private func catchUp(_ content: inout Content) throws(DeliveryError) {
        while true {
            let header = try read(4, at: content.offset)
            guard header.count == 4 else { return }
            let count = header.reduce(0) { $0 << 8 | Int($1) }
            guard count <= Self.limit else { throw DeliveryError("The delivery file is damaged.") }
            let bytes = try read(count, at: content.offset + 4)
            guard bytes.count == count else { return }
            let record: DeliveryState.Record
            do { record = try DeliveryState.Record(decoding: bytes) } catch {
                throw DeliveryError("The delivery file is damaged.")
            }
            try content.state.apply(record)
            content.offset += off_t(4 + count)
        }
    }

    private func read(_ count: Int, at offset: off_t) throws(DeliveryError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let got = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe pread(descriptor, buffer.baseAddress?.advanced(by: done), count - done, offset + off_t(done))
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw Self.failure("read") }
            if got == 0 { break }
            done += got
        }
        return Array(bytes.prefix(done))
    }

    private func append(_ bytes: [UInt8], at offset: off_t) throws(DeliveryError) {
        // What a killed process left unfinished.
        guard ftruncate(descriptor, offset) == 0 else { throw Self.failure("write") }
        var done = 0
        while done < bytes.count {
            let put = unsafe bytes.withUnsafeBytes { buffer in
                unsafe pwrite(
                    descriptor, buffer.baseAddress?.advanced(by: done), bytes.count - done, offset + off_t(done))
            }
            if put < 0, errno == EINTR { continue }
            guard put > 0 else { throw Self.failure("write") }
            done += put
        }
        guard fsync(descriptor) == 0 else { throw Self.failure("write") }
    }

    private static func failure(_ what: String) -> DeliveryError {
        DeliveryError("Could not \(what) the delivery file: \(unsafe String(cString: strerror(errno))).")
    }
}
