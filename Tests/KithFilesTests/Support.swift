import Foundation
import KithAPI
import KithFiles
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Logging
import Synchronization

#if canImport(Glibc)
import CDispatch
import CoreFoundation
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// Carries calls straight to the handlers of two files services: this device's, and `laptop`'s behind its grants.
struct LocalCarrier: Carrier {
    var grants: [Grant]
    /// The hook by which bytes on their way to the laptop may be damaged.
    var tamper: (@Sendable ([UInt8]) -> [UInt8])?
    /// After how many bytes, both ways together, the next stream to the laptop is cut; `nil`: it is not.
    var cut: (@Sendable () -> Int?)?
    /// Methods the laptop does not know, as one with an older kith.
    var unknown: Set<String> = []
    /// The behaviour of `evil`, a device that keeps to no protocol, when something is pulled from it.
    var evil: (@Sendable (Files.Pull.Input, any ByteStream) async throws -> Void)?
    /// The streams that are being served.
    let running = Running()
    let service = FilesService(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

    func call<M: KithAPI.Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        let input = try roundTrip(input)
        guard case .call(let body) = try handler(method, input, on: device).body else { throw notServed }
        guard let output = try await body(input, try context(device)) as? M.Output else { throw notServed }
        return try roundTrip(output)
    }

    func open<M: KithAPI.StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        let input = try roundTrip(input)
        if device == "evil", let pull = input as? Files.Pull.Input, let evil, let nothing = Nothing() as? M.Output {
            let pipe = KithAPI.Pipe()
            running.add(1)
            Task {
                // That it is turned away is what it is made for.
                try? await evil(pull, pipe.right)
                try? await pipe.right.finish()
                running.add(-1)
            }
            return OpenedStream(output: nothing, stream: pipe.left)
        }
        guard case .stream(let body) = try handler(method, input, on: device).body else { throw notServed }
        let pipe = KithAPI.Pipe()
        let (answers, answer) = AsyncThrowingStream.makeStream(of: M.Output.self)
        let context = try context(device)
        running.add(1)
        let far: any ByteStream = tamper.map { Tampering(pipe.right, $0) } ?? pipe.right
        Task {
            do {
                try await body(input, context) { output in
                    guard let output = output as? M.Output else { throw notServed }
                    answer.yield(output)
                    return far
                }
                try await far.finish()
            } catch {
                answer.finish(throwing: error)
                far.abort((error as? KithError)?.code ?? .internal)
            }
            running.add(-1)
        }
        for try await output in answers {
            guard device != nil, let limit = cut?() else { return OpenedStream(output: output, stream: pipe.left) }
            return OpenedStream(output: output, stream: Cutting(pipe.left, after: limit))
        }
        throw notServed
    }

    private func handler<M: KithAPI.Method>(_ method: M.Type, _ input: M.Input, on device: String?) throws -> Handler {
        if device != nil, let refusal = try M.access(for: input).refusal(of: caller(), holding: grants) {
            throw refusal
        }
        if device != nil, unknown.contains(M.name) { throw notServed }
        guard let handler = service.handlers.first(where: { $0.method.name == M.name }) else { throw notServed }
        return handler
    }

    private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
        try CBORDecoder().decode(Value.self, from: try CBOREncoder().encode(value))
    }

    private func caller() throws -> Caller {
        .device(try DeviceID(publicKey: [UInt8](repeating: 7, count: 32)), name: "phone", paired: true)
    }

    private func context(_ device: String?) throws -> CallContext {
        try device == nil
            ? CallContext(caller: .owner, grants: [], client: Client(self))
            : CallContext(caller: caller(), grants: grants, client: Client(self))
    }

    private var notServed: KithError { KithError(.unsupported, "not served") }
}

/// The number of streams being served.
final class Running: Sendable {
    private let count = Atomic(0)

    func add(_ change: Int) { count.add(change, ordering: .relaxed) }

    /// Waits until both ends of every stream have seen its end.
    func end() async throws {
        try await eventually { count.load(ordering: .relaxed) <= 0 }
    }
}

/// A stream whose reader sees changed bytes.
private final class Tampering: StreamWrapper {
    let base: any ByteStream
    private let change: @Sendable ([UInt8]) -> [UInt8]

    init(_ base: any ByteStream, _ change: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.base = base
        self.change = change
    }

    func read(upTo limit: Int) async throws -> [UInt8]? { try await base.read(upTo: limit).map(change) }
}

/// A stream whose link breaks after some bytes.
private final class Cutting: StreamWrapper {
    let base: any ByteStream
    private let left: Mutex<Int>

    init(_ base: any ByteStream, after count: Int) {
        self.base = base
        left = Mutex(count)
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        // Small steps, so that the cut can be anywhere.
        guard let bytes = try await base.read(upTo: min(limit, 8_192)) else { return nil }
        _ = try take(bytes.count)
        return bytes
    }

    func write(_ bytes: [UInt8]) async throws {
        let fits = (try? take(bytes.count)) ?? bytes.count / 2
        try await base.write(Array(bytes.prefix(fits)))
        guard fits == bytes.count else { throw broken() }
    }

    private func take(_ count: Int) throws -> Int {
        let isThere = left.withLock { left in
            left -= count
            return left >= 0
        }
        guard isThere else { throw broken() }
        return count
    }

    private func broken() -> KithError {
        base.abort(.closed)
        return KithError(.closed, "The link is cut.")
    }
}

/// A folder for one test: `local` is this device's, `srv` the laptop's.
final class Folders: Sendable {
    let top: String
    var local: String { top + "/local" }
    var srv: String { top + "/srv" }

    init() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("kith-files-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path + "/local", withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: path + "/srv", withIntermediateDirectories: true)
        top = path
    }

    private let writes = Atomic(0)

    deinit { try? FileManager.default.removeItem(atPath: top) }

    /// A client whose laptop grants `srv`.
    func client(
        _ access: Grant.FileAccess = .write, cut: (@Sendable () -> Int?)? = nil,
        tamper: (@Sendable ([UInt8]) -> [UInt8])? = nil
    ) -> Client {
        Client(LocalCarrier(grants: [.files(access, root: srv)], tamper: tamper, cut: cut))
    }

    /// Writes a file, at a time no other file has that was written here: a kernel gives all within a few milliseconds
    /// the same, and two files of one size and one time are taken for equal.
    func write(_ path: String, _ bytes: Data) throws {
        let full = top + "/" + path
        try FileManager.default.createDirectory(
            atPath: (full as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try bytes.write(to: URL(fileURLWithPath: full))
        let write = writes.add(1, ordering: .relaxed).newValue
        let times = [timespec](repeating: timespec(tv_sec: time(nil), tv_nsec: write), count: 2)
        guard utimensat(AT_FDCWD, full, times, 0) == 0 else { throw KithError(.internal, "utimensat: \(errno)") }
    }

    func write(_ path: String, _ text: String) throws { try write(path, Data(text.utf8)) }
    func data(_ path: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: top + "/" + path)) }
    func text(_ path: String) throws -> String { String(decoding: try data(path), as: UTF8.self) }
    func names(_ path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: top + "/" + path).sorted()
    }
    func exists(_ path: String) -> Bool { (try? FileManager.default.attributesOfItem(atPath: top + "/" + path)) != nil }
}

extension Client {
    /// Copies, and returns the last report and what was left out.
    @discardableResult
    func copy(
        _ sources: [Files.Location], to destination: Files.Location, recursive: Bool = true,
        selection: Files.Selection = Files.Selection(), receiving: Files.ReceiveOptions = Files.ReceiveOptions(),
        retrySeconds: UInt32 = 0, compress: Files.Compression = .auto, parallel: UInt32? = nil
    ) async throws -> (summary: Files.Summary, skipped: [Files.Skipped]) {
        try await follow(
            Files.Copy.Input(
                sources: sources, destination: destination, recursive: recursive, selection: selection,
                receiving: receiving, retrySeconds: retrySeconds, compress: compress, parallel: parallel)
        ) { _ in }
    }

    /// Copies, and passes on each report.
    func follow(
        _ input: Files.Copy.Input, _ report: (Files.Progress) -> Void
    ) async throws -> (summary: Files.Summary, skipped: [Files.Skipped]) {
        do {
            let result = try await followed(input, report)
            try await (carrier as? LocalCarrier)?.running.end()
            return result
        } catch {
            try await (carrier as? LocalCarrier)?.running.end()
            throw error
        }
    }

    private func followed(
        _ input: Files.Copy.Input, _ report: (Files.Progress) -> Void
    ) async throws -> (summary: Files.Summary, skipped: [Files.Skipped]) {
        let stream = try await open(Files.Copy.self, input).stream
        let messages = stream
        var skipped: [Files.Skipped] = []
        while let progress = try await messages.receive() {
            skipped += progress.skipped
            report(progress)
            if let failure = progress.failure { throw failure.error }
            if let summary = progress.summary { return (summary, skipped) }
        }
        throw KithError(.closed, "no summary")
    }
}

extension ByteStream {
    /// Says hello and then these messages, as a sender or a receiver made by hand.
    func say(_ frames: [TransferFrame]) async throws {
        var bytes: [UInt8] = []
        for frame in [.hello(version: TransferFrame.version, features: [])] + frames { try frame.append(to: &bytes) }
        try await write(bytes)
    }

    /// Reads until the other end says this; false when it ends without.
    func hears(_ wanted: TransferFrame) async throws -> Bool {
        var parser = TransferParser()
        while let bytes = try await read(upTo: 1_000) {
            parser.feed(bytes)
            while let frame = try parser.next() { if frame == wanted { return true } }
        }
        return false
    }

    /// Sends these messages and returns the other end's refusal; `nil` when it ends without one.
    func refusal(of frames: [TransferFrame]) async throws -> Files.Failure? {
        try await say(frames)
        return try await failure()
    }

    /// All that the other end says until it ends, in whatever way.
    func everything() async -> [TransferFrame] {
        var parser = TransferParser()
        var frames: [TransferFrame] = []
        while let bytes = try? await read(upTo: 100_000) {
            parser.feed(bytes)
            while let frame = try? parser.next() { frames.append(frame) }
        }
        return frames
    }

    /// The failure the other end tells of; `nil` when it ends without one.
    func failure() async throws -> Files.Failure? {
        var parser = TransferParser()
        while let bytes = try await read(upTo: 1_000) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                if case .failure(let failure) = frame { return failure }
            }
        }
        return nil
    }
}

func here(_ path: String) -> Files.Location { Files.Location(device: nil, path: Files.Path(path)) }
func there(_ path: String) -> Files.Location { Files.Location(device: "laptop", path: Files.Path(path)) }

/// Bytes that look random and are the same for the same seed.
func bytes(_ count: Int, seed: UInt64) -> Data {
    var state = seed
    var data = Data(capacity: count + 8)
    while data.count < count {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        Swift.withUnsafeBytes(of: state) { data.append(contentsOf: $0) }
    }
    return data.prefix(count)
}
