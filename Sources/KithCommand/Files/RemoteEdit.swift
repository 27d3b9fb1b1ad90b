import ArgumentParser
import Crypto
import Foundation
import KithAPI
import KithWire

/// Edits a file on a device with the editor of this one.
struct RemoteEdit {
    let device: String
    let path: Files.Path
    let client: Client

    /// The most that is edited: it is held in memory.
    private static let sizeLimit = 256 << 20

    /// Fetches it, runs the editor on this process's terminal, and writes what was changed; returns whether there was
    /// anything.
    func run() async throws -> Bool {
        let file = try await resolved(path)
        let original = try await contents(of: file)
        let copy = try PrivateCopy(named: file, holding: original ?? [])
        var isKept = false
        defer { if !isKept { copy.wipe() } }
        do {
            let status = try await Editor.run(on: copy.path)
            guard status == 0 else {
                throw KithError(.cancelled, "The editor ended with status \(status). Nothing was written.")
            }
            let edited = try copy.contents(limit: Self.sizeLimit)
            if edited == original || (original == nil && edited.isEmpty) { return false }
            try await write(edited, to: file, replacing: original)
            return true
        } catch {
            guard copy.isEdited(from: original ?? []) else { throw error }
            // Whatever went wrong, what was written is the person's: also what an editor left beside it for such a case.
            isKept = true
            guard let known = error as? KithError else {
                note("Your copy is kept in \(copy.path)")
                throw error
            }
            throw KithError(known.code, "\(known.message) Your copy is kept in \(copy.path)", cause: error)
        }
    }

    /// Follows links to the file itself: the link stays what it is.
    private func resolved(_ path: Files.Path) async throws -> Files.Path {
        var path = path
        for _ in 0..<40 {
            let entry: Files.Entry
            do {
                entry = try await client.describe(path, on: device)
            } catch let error as KithError where error.code == .notFound && error.message.contains("no such file") {
                return path
            }
            switch entry.kind {
            case .file: return path
            case .folder: throw KithError(.conflict, "Cannot edit \(path): it is a folder.")
            case .special: throw KithError(.unsupported, "Cannot edit \(path): it is not a regular file.")
            case .link: break
            }
            guard let target = entry.target else { return path }
            if target.bytes.first == UInt8(ascii: "/") {
                path = target
            } else {
                let folder = path.bytes.lastIndex(of: UInt8(ascii: "/")).map { Array(path.bytes[...$0]) } ?? []
                guard !target.bytes.split(separator: UInt8(ascii: "/")).contains(Array("..".utf8)[...]) else {
                    throw KithError(
                        .unsupported, "\(path) is a link to \(target). Edit that by its own path.")
                }
                path = Files.Path(bytes: folder + target.bytes)
            }
        }
        throw KithError(.invalid, "Cannot edit \(path): links lead in a circle.")
    }

    /// The file as it is; `nil` when there is none.
    private func contents(of file: Files.Path) async throws -> [UInt8]? {
        var reading: RemoteReading
        do {
            reading = try await RemoteReading(Files.Read.Input(path: file), on: device, client)
        } catch let error as KithError where error.code == .notFound && error.message.contains("no such file") {
            return nil
        }
        var bytes: [UInt8] = []
        while let part = try await reading.next() {
            bytes += part
            guard bytes.count <= Self.sizeLimit else {
                reading.stop()
                throw KithError(.exhausted, "\(path) is larger than 256 MiB: fetch it with kith cp and edit the copy.")
            }
        }
        await reading.finish()
        return bytes
    }

    private func write(
        _ bytes: [UInt8], to file: Files.Path, replacing original: [UInt8]?
    ) async throws {
        let input = Files.Write.Input(
            path: file, overwrite: original != nil, replacing: original.map { ByteString(Array(SHA256.hash(data: $0))) }
        )
        let stream = try await client.open(Files.Write.self, input, on: device).stream
        for start in stride(from: 0, to: bytes.count, by: 256 << 10) {
            try await stream.write(Array(bytes[start..<min(start + 256 << 10, bytes.count)]))
        }
        try await stream.finish()
        guard let written = try await stream.receive() else {
            throw KithError(.closed, "The connection was lost before \(path) was written for certain.")
        }
        if let failure = written.failure { throw failure.error }
        guard written.sha256.bytes == Array(SHA256.hash(data: bytes)) else {
            throw KithError(.corrupt, "What arrived of \(path) is not what was sent (SHA-256).")
        }
    }
}
