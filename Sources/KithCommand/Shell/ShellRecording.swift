import Foundation
import KithAPI
import KithWire

/// The file of `kith shell --record`, made before anything is started on the device.
final class ShellRecording: Sendable {
    private let file: FileHandle
    private let path: String
    private let isBegun = Locked(false)

    /// Makes the file.
    ///
    /// - Throws: `KithError` `.invalid` when it is there already, or cannot be made.
    init(path: String) throws(KithError) {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
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

    /// Adds to it.
    func write(_ bytes: [UInt8]) throws(KithError) {
        isBegun.set(true)
        do {
            try file.write(contentsOf: bytes)
        } catch {
            throw KithError(
                .exhausted, "The recording could not be written: \(error.localizedDescription)", cause: error)
        }
    }

    /// Ends it.
    func close() {
        // A disk that is full has said so before.
        try? file.close()
    }

    /// Takes the file away when there was nothing to record.
    func discardIfEmpty() {
        guard !isBegun.value else { return }
        close()
        unsafe unlink(path)
    }
}
