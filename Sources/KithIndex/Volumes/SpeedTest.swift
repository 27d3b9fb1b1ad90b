import CKithSystem
import Foundation
import KithIO
import KithWire

/// Measures how fast a volume is written and read: with one file, which has no name, so that nothing is left by a kill.
package struct SpeedTest: Sendable {
    /// What was measured.
    package struct Speed: Codable, Hashable, Sendable {
        /// The bytes that were written, and read.
        package var size: UInt64
        /// Bytes a second.
        package var write: UInt64
        package var read: UInt64
        /// Whether the cache was bypassed; else the disk was waited for, and the cache was asked to forget.
        package var bypassesCache: Bool
    }

    /// The sizes that can be measured with, in bytes.
    package static let sizes: ClosedRange<UInt64> = (1 << 20)...(16 << 30)
    private static let part = 4 << 20

    package var path: [UInt8]
    package var size: UInt64

    /// Prepares a test in a folder.
    package init(path: [UInt8], size: UInt64) {
        self.path = path
        self.size = size
    }

    /// Writes, waits for the disk, and reads again; on a thread that may block.
    ///
    /// - Parameter progress: Told of bytes, of twice the size in all; throws to end it.
    /// - Returns: what was measured.
    /// - Throws: `.denied`, `.exhausted` and what else the disk says.
    package func run(progress: (UInt64) throws -> Void) throws -> Speed {
        let shown = String(decoding: path, as: UTF8.self)
        guard Self.sizes.contains(size) else {
            throw KithError(.invalid, "A speed is measured with 1 MiB to 16 GiB.")
        }
        let folder = unsafe withCString(path) { unsafe kith_open(-1, $0, Int32(KITH_FILE_DIRECTORY), 0) }
        guard folder >= 0 else { throw Self.failure("open", shown, -folder) }
        defer { kith_file_close(folder) }
        var room = kith_volume_room()
        if unsafe kith_volume_measure(folder, &room) == 0, room.free < size {
            throw KithError(.exhausted, "\(shown) has \(room.free) bytes free, too few for a test with \(size).")
        }
        let name = Array(".kith-speed-\(UUID().uuidString)".utf8)
        let file = unsafe withCString(name) {
            unsafe kith_open(folder, $0, Int32(KITH_FILE_READ_WRITE | KITH_FILE_CREATE | KITH_FILE_NO_FOLLOW), 0o600)
        }
        guard file >= 0 else { throw Self.failure("write to", shown, -file) }
        defer { kith_file_close(file) }
        // From here on it goes with its descriptor, whatever happens.
        _ = unsafe withCString(name) { unsafe kith_file_unlink(folder, $0, 0) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.part, alignment: 4_096)
        defer { unsafe buffer.deallocate() }
        // Nothing that a disk could make small.
        var random = SystemRandomNumberGenerator()
        for offset in stride(from: 0, to: Self.part, by: 8) {
            unsafe buffer.storeBytes(of: random.next(), toByteOffset: offset, as: UInt64.self)
        }
        let bypasses = kith_volume_bypass_cache(file) == 0
        let whole = size / UInt64(Self.part) * UInt64(Self.part)
        let total = max(whole, UInt64(min(Self.part, 1 << 20)))
        func pass(_ body: (UInt64, Int) -> Int) throws -> UInt64 {
            let start = ContinuousClock.now
            var offset: UInt64 = 0
            while offset < total {
                let count = Int(min(UInt64(Self.part), total - offset))
                let done = body(offset, count)
                guard done > 0 else { throw Self.failure("measure", shown, done == 0 ? EIO : Int32(-done)) }
                offset += UInt64(done)
                try progress(UInt64(done))
            }
            if kith_file_sync(file) < 0 { throw Self.failure("write to", shown, EIO) }
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            return UInt64(min(Double(total) / max(seconds, 1e-6), 1e15))
        }
        let write = try pass { offset, count in
            unsafe Int(kith_file_write(file, buffer.baseAddress, count, Int64(offset)))
        }
        if !bypasses { _ = kith_volume_drop_cache(file) }
        let read = try pass { offset, count in
            unsafe Int(kith_file_read(file, buffer.baseAddress, count, Int64(offset)))
        }
        return Speed(size: total, write: write, read: read, bypassesCache: bypasses)
    }

    private static func failure(_ what: String, _ path: String, _ number: Int32) -> KithError {
        let code: KithError.Code =
            switch number {
            case ENOENT: .notFound
            case EACCES, EPERM, EROFS: .denied
            case ENOSPC, EDQUOT: .exhausted
            case ENOTDIR: .invalid
            default: .internal
            }
        return KithError(code, "Could not \(what) \(path): \(SystemError(number)).")
    }
}
