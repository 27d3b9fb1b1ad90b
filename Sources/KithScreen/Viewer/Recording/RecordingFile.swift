import Foundation
import KithVideo
import KithWire

/// A file that a recording is written into, readable by this person only.
///
/// What was written plays at any moment: a program that is killed leaves a file without an end, not one that is broken.
struct RecordingFile: ~Copyable {
    /// Where it is.
    let path: String
    /// The bytes that it has.
    private(set) var length: UInt64 = 0
    private let file: FileHandle

    /// The reason why there is no file.
    enum Failure: Error {
        /// There is one already.
        case exists
        case system(String)
    }

    /// Makes the file.
    init(path: String) throws(Failure) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            if errno == EEXIST { throw .exists }
            throw .system(unsafe String(cString: strerror(errno)))
        }
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        self.path = path
    }

    /// Writes what a ``MatroskaWriter`` gave; all of it, or the file is as it was.
    ///
    /// - Throws: `KithError` `.exhausted` when the disk takes no more.
    mutating func write(_ output: MatroskaWriter.Output) throws(KithError) {
        do {
            try file.write(contentsOf: output.appended)
            for patch in output.patches {
                try file.seek(toOffset: patch.offset)
                try file.write(contentsOf: patch.bytes)
            }
            length += UInt64(output.appended.count)
            if !output.patches.isEmpty { try file.seekToEnd() }
        } catch {
            // Half a picture at the end is of no use. A disk that does not even take that away has no better answer.
            try? file.truncate(atOffset: length)
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
