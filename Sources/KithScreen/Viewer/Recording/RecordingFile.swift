import Foundation
import KithVideo
import KithWire

/// A file that a recording is written into, readable by this person only.
///
/// What was written plays at any moment: a program that is killed leaves a file without an end, not one that is broken.
struct RecordingFile: ~Copyable {
    /// Where it is.
    let path: String
    /// The bytes that were written at its end.
    private(set) var length: UInt64 = 0
    private let file: FileHandle

    /// Makes the file.
    ///
    /// - Throws: `KithError` `.invalid` when it is there already, or cannot be made.
    init(path: String) throws(KithError) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason =
                errno == EEXIST
                ? "it is there already. Give the recording another name."
                : unsafe "\(String(cString: strerror(errno)))."
            throw KithError(.invalid, "Cannot record into \(path): \(reason)")
        }
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        self.path = path
    }

    /// Writes what a ``MatroskaWriter`` gave.
    ///
    /// - Throws: `KithError` `.exhausted` when the disk takes no more.
    mutating func write(_ output: MatroskaWriter.Output) throws(KithError) {
        do {
            try file.write(contentsOf: output.appended)
            length += UInt64(output.appended.count)
            guard !output.replaced.isEmpty else { return }
            for (offset, bytes) in output.replaced {
                try file.seek(toOffset: offset)
                try file.write(contentsOf: bytes)
            }
            try file.seekToEnd()
        } catch {
            throw KithError(
                .exhausted, "The recording could not be written: \(error.localizedDescription)", cause: error)
        }
    }

    /// Has the disk keep it.
    func synchronize() {
        // A disk that fails has said so before.
        try? file.synchronize()
    }

    /// Takes it away, when there is nothing in it.
    func removeIfEmpty() { if length == 0 { unsafe unlink(path) } }
}
