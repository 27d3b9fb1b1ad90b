import ArgumentParser
import Foundation
import KithAPI
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A file only this person can read, in a folder of its own.
struct PrivateCopy {
    /// The path of the copy.
    let path: String
    private let folder: String

    /// Makes it, with the name of the original so that the editor knows its kind.
    init(named original: Files.Path, holding bytes: [UInt8]) throws {
        let environment = ProcessInfo.processInfo.environment
        let base =
            environment["XDG_RUNTIME_DIR"].flatMap { unsafe access($0, W_OK) == 0 ? $0 : nil }
            ?? environment["TMPDIR"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        var template = Array((base + "/kith-edit-XXXXXX").utf8CString)
        // mkdtemp makes it 0700.
        let made = unsafe template.withUnsafeMutableBufferPointer { buffer -> String? in
            guard let start = buffer.baseAddress, let made = unsafe mkdtemp(start) else { return nil }
            return unsafe String(cString: made)
        }
        guard let made else { throw KithError(.denied, "Cannot make a private folder in \(base).") }
        folder = made
        let last = original.bytes.split(separator: UInt8(ascii: "/")).last.map { String(decoding: $0, as: UTF8.self) }
        let name = String((last ?? "file").map { $0.isLetter || $0.isNumber || "-_.".contains($0) ? $0 : "_" })
        // Never an option of the editor, never hidden, never longer than a name may be.
        path = folder + "/" + (name.hasPrefix("-") || name.hasPrefix(".") ? "_" : "") + String(name.suffix(60))
        let file = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw KithError(.denied, "Cannot make the private copy \(path).") }
        do {
            let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
            try handle.write(contentsOf: Data(bytes))
            try handle.close()
        } catch {
            wipe()
            throw KithError(.exhausted, "Cannot write the private copy \(path): \(error.localizedDescription)")
        }
    }

    /// The present content; editors replace the file, so it is opened by its name.
    func contents(limit: Int) throws -> [UInt8] {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else {
            throw KithError(.notFound, "The editor left no file behind. Nothing was written.")
        }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        guard let data = try handle.read(upToCount: limit + 1) else { return [] }
        guard data.count <= limit else {
            throw KithError(.exhausted, "What was edited is larger than 256 MiB. Nothing was written.")
        }
        return [UInt8](data)
    }

    /// Tells whether there is anything else than `bytes` now, or that is not known.
    func isEdited(from bytes: [UInt8]) -> Bool {
        guard (try? contents(limit: bytes.count)) == bytes else { return true }
        return (try? FileManager.default.contentsOfDirectory(atPath: folder))?.count != 1
    }

    /// Overwrites and removes it, and what the editor left beside it.
    func wipe() {
        // What cannot be removed is in a folder nobody else can enter.
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            let file = unsafe open(folder + "/" + name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
            guard file >= 0 else { continue }
            let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
            let size = (try? handle.seekToEnd()) ?? 0
            try? handle.seek(toOffset: 0)
            var left = size
            while left > 0 {
                let count = min(left, 1 << 20)
                guard (try? handle.write(contentsOf: Data(count: Int(count)))) != nil else { break }
                left -= count
            }
        }
        try? FileManager.default.removeItem(atPath: folder)
    }
}
