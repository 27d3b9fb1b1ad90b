import Crypto
import KithAPI
import KithWire
import Synchronization

/// A place for a file that a page sends, in one piece or, after a cut, in several.
///
/// What has come lies beside its place, under a name of its own, and takes its real name when it is whole. That name is
/// made from the browser, the place, the size and the page's own key for it: asking again finds it. It has the form of
/// those that `kith cp` leaves, and like them goes after a week, with the next transfer to that folder.
final class UploadTicket: Sendable {
    /// The file as it is called in the end.
    let path: Files.Path
    let size: UInt64
    private let device: String?
    private let folder: Files.Path
    private let part: Files.Path
    private let conflict: WebRequests.Upload.Conflict
    private let client: Client
    private let busy: UploadsUnderWay

    /// - Throws: `KithError` `.invalid` for what is no path below a folder.
    init(
        _ wanted: WebRequests.Upload, on device: String?, browser: String, client: Client, busy: UploadsUnderWay
    ) throws(KithError) {
        let relative = Files.Path(wanted.path)
        guard relative.levelsBeneath != nil, relative.bytes.count <= 4_096 else {
            throw KithError(
                .invalid, "`path` is a file below the folder, such as holidays/beach.jpg, without “..” and empty names."
            )
        }
        guard wanted.size <= 1 << 53 else { throw KithError(.invalid, "No file is that large.") }
        path = wanted.folder.appending(relative.bytes)
        let end = path.bytes.lastIndex(of: UInt8(ascii: "/")) ?? 0
        folder = Files.Path(bytes: Array(path.bytes[..<max(end, 1)]))
        var digest = SHA256()
        for text in [browser, device ?? "", String(wanted.size), wanted.key ?? ""] {
            digest.update(data: Array(text.utf8))
            digest.update(data: [0])
        }
        digest.update(data: path.bytes)
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
        part = folder.appending(
            Array(".kith-resume-".utf8) + digest.finalize().prefix(20).map { letters[Int($0 & 31)] })
        (size, self.device, conflict, self.client) = (wanted.size, device, wanted.conflict ?? .refuse, client)
        self.busy = busy
    }

    /// Makes room for the file: the folders it goes into, and what it is until it is whole.
    ///
    /// - Returns: the bytes that are there already.
    /// - Throws: what the device says against it; `.conflict` when a file is there that is not to be replaced.
    func begin() async throws -> UInt64 {
        if conflict == .refuse { try await refuseIfThere() }
        _ = try await client.call(Files.MakeFolder.self, .init(path: folder, parents: true), on: device)
        if let there = try await offset() {
            if there <= size { return there }
        }
        let empty = try await client.open(Files.Write.self, .init(path: part), on: device).stream
        try await empty.finish()
        if let failure = try await empty.receive()?.failure { throw failure.error }
        return 0
    }

    private func refuseIfThere() async throws {
        if try await client.call(Files.Exists.self, .init(path: path), on: device).kind != nil {
            throw KithError(.conflict, "“\(path)” is there already.")
        }
    }

    /// The bytes that have come so far; `nil` when nothing is there.
    func offset() async throws -> UInt64? {
        do {
            let entry = try await client.call(Files.Stat.self, .init(path: part), on: device)
            guard entry.kind == .file else {
                throw KithError(.conflict, "“\(part)” is in the way.")
            }
            return entry.size
        } catch let error as KithError where error.code == .notFound {
            return nil
        }
    }

    /// Receives bytes from `offset` on; `next` gives them, `nil` when the page has sent all it had.
    ///
    /// - Returns: the path of the file, when it is whole now; else how many bytes are there.
    /// - Throws: what the device says against it; `.conflict` when other bytes are to come next, or others are being sent.
    func receive(
        from offset: UInt64, _ next: () async throws -> [UInt8]?
    ) async throws -> (path: Files.Path?, offset: UInt64) {
        guard busy.begin(part, on: device) else { throw KithError(.conflict, "This file is being sent already.") }
        defer { busy.end(part, on: device) }
        let there = try await self.offset()
        guard there == offset else {
            throw KithError(.conflict, "The next byte to send is \(there ?? 0). Ask for the upload again.")
        }
        var count = offset
        if count < size {
            let stream = try await client.open(Files.Write.self, .init(path: part, offset: offset), on: device).stream
            do {
                while let bytes = try await next() {
                    guard UInt64(bytes.count) <= size - count else {
                        throw KithError(.invalid, "The file is longer than was said: \(size) bytes.")
                    }
                    count += UInt64(bytes.count)
                    try await stream.write(bytes)
                }
                try await stream.finish()
            } catch {
                // What has come stays, for the next time.
                stream.abort(.cancelled)
                throw error
            }
            guard let written = try await stream.receive() else {
                throw KithError(.closed, "The device did not say what became of the file.")
            }
            if let failure = written.failure { throw failure.error }
        }
        guard count == size else { return (nil, count) }
        return (try await place(), count)
    }

    /// Gives the file its name.
    private func place() async throws -> Files.Path {
        guard conflict == .keepBoth else {
            _ = try await client.call(
                Files.Rename.self, .init(from: part, to: path, overwrite: conflict == .replace), on: device)
            return path
        }
        for number in 1...1_000 {
            let path = number == 1 ? self.path : Self.numbered(self.path, number)
            do {
                _ = try await client.call(Files.Rename.self, .init(from: part, to: path), on: device)
                return path
            } catch let error as KithError where error.code == .conflict {
                continue
            }
        }
        throw KithError(.conflict, "“\(path)” is there already, and so are a thousand with numbers.")
    }

    /// The path with a number: `beach (2).jpg`.
    static func numbered(_ path: Files.Path, _ number: Int) -> Files.Path {
        let start = path.bytes.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
        let name = path.bytes[start...]
        let dot = name.dropFirst().lastIndex(of: UInt8(ascii: ".")) ?? name.endIndex
        return Files.Path(bytes: Array(path.bytes[..<dot]) + Array(" (\(number))".utf8) + Array(path.bytes[dot...]))
    }
}

/// The uploads that come in now, by where they lie: several tickets may be of one.
final class UploadsUnderWay: Sendable {
    private struct Place: Hashable {
        var device: String?
        var path: [UInt8]
    }

    private let places = Mutex<Set<Place>>([])

    /// False where one comes in already.
    func begin(_ path: Files.Path, on device: String?) -> Bool {
        places.withLock { $0.insert(Place(device: device, path: path.bytes)).inserted }
    }

    func end(_ path: Files.Path, on device: String?) {
        places.withLock { _ = $0.remove(Place(device: device, path: path.bytes)) }
    }
}
