import KithAPI
import KithWire

/// A file of a device that is being read: it, and no more of it than was asked for.
struct RemoteReading {
    private let stream: any ByteStream
    private let input: Files.Read.Input
    private let device: String?
    /// The number of bytes that may still come.
    private var left: UInt64?

    /// Opens the file.
    ///
    /// - Throws: `.denied` when the device answers with another one.
    init(_ input: Files.Read.Input, on device: String?, _ client: Client) async throws {
        let opened = try await client.open(Files.Read.self, input, on: device)
        self.input = input
        self.device = device
        stream = opened.stream.bytes
        left = input.length
        do {
            try opened.output.check(is: input.path, from: device)
        } catch {
            stop()
            throw error
        }
    }

    /// The next bytes; `nil` at the end.
    ///
    /// - Throws: `.denied` when there are more than were asked for; none of those are returned.
    mutating func next() async throws -> [UInt8]? {
        guard let bytes = try await stream.read(upTo: 256 << 10) else { return nil }
        guard let left else { return bytes }
        guard UInt64(bytes.count) <= left else {
            stop()
            throw KithError(
                .denied,
                "\(device ?? "This device") sent more than the \(input.length ?? 0) bytes of \(input.path) asked for.")
        }
        self.left = left - UInt64(bytes.count)
        return bytes
    }

    /// Ends it where all has come; nobody at the other end need hear it.
    func finish() async { try? await stream.finish() }

    /// Ends it where no more is wanted.
    func stop() { stream.abort(.cancelled) }
}

extension Client {
    /// Describes one file or folder.
    ///
    /// - Throws: `.denied` when the device describes another one.
    func describe(_ path: Files.Path, followsLinks: Bool = false, on device: String?) async throws -> Files.Entry {
        let entry = try await call(
            Files.Stat.self, Files.Stat.Input(path: path, followsLinks: followsLinks), on: device)
        try entry.check(is: path, from: device)
        return entry
    }
}

extension Files.Entry {
    /// Refuses the description of something else than was asked for.
    func check(is path: Files.Path, from device: String?) throws(KithError) {
        guard name == path else {
            throw KithError(
                .denied, "\(device ?? "This device") answered about “\(name)”, and \(path) was asked for.")
        }
    }
}
