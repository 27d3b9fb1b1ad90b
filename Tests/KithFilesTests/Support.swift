import Foundation
import KithAPI
import KithFiles
import KithIdentity
import KithNode
import KithWire
import Logging
import Synchronization

/// Carries calls straight to the handlers of two files services: this device's, and `laptop`'s behind its grants.
struct LocalCarrier: Carrier {
    var grants: [Grant]
    /// Where bytes on their way to the laptop may be damaged.
    var tamper: (@Sendable ([UInt8]) -> [UInt8])?
    let service = FilesService(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

    func call<M: KithAPI.Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        let input = try roundTrip(input)
        guard case .call(let body) = try handler(method, input, on: device).body else { throw notServed }
        guard let output = try await body(input, try context(device)) as? M.Output else { throw notServed }
        return try roundTrip(output)
    }

    func open<M: KithAPI.Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M.Output> {
        let input = try roundTrip(input)
        guard case .stream(let body) = try handler(method, input, on: device).body else { throw notServed }
        let pipe = KithAPI.Pipe()
        let (answers, answer) = AsyncThrowingStream.makeStream(of: M.Output.self)
        let context = try context(device)
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
        }
        for try await output in answers { return OpenedStream(output: output, stream: pipe.left) }
        throw notServed
    }

    private func handler<M: KithAPI.Method>(_ method: M.Type, _ input: M.Input, on device: String?) throws -> Handler {
        if device != nil, let refusal = try M.access(for: input).refusal(of: caller(), holding: grants, method: M.name)
        {
            throw refusal
        }
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

/// A stream whose reader sees changed bytes.
private final class Tampering: ByteStream {
    private let inner: any ByteStream
    private let change: @Sendable ([UInt8]) -> [UInt8]

    init(_ inner: any ByteStream, _ change: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.inner = inner
        self.change = change
    }

    func read(upTo limit: Int) async throws -> [UInt8]? { try await inner.read(upTo: limit).map(change) }
    func write(_ bytes: [UInt8]) async throws { try await inner.write(bytes) }
    func finish() async throws { try await inner.finish() }
    func abort(_ code: KithError.Code) { inner.abort(code) }
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

    deinit { try? FileManager.default.removeItem(atPath: top) }

    /// A client whose laptop grants `srv`.
    func client(_ access: Grant.FileAccess = .write, tamper: (@Sendable ([UInt8]) -> [UInt8])? = nil) -> Client {
        Client(LocalCarrier(grants: [.files(access, root: srv)], tamper: tamper))
    }

    func write(_ path: String, _ bytes: Data) throws {
        let full = top + "/" + path
        try FileManager.default.createDirectory(
            atPath: (full as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try bytes.write(to: URL(fileURLWithPath: full))
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
        landing: Files.Landing = Files.Landing()
    ) async throws -> (summary: Files.Summary, skipped: [Files.Skipped]) {
        let stream = try await open(
            Files.Copy.self,
            Files.Copy.Input(sources: sources, destination: destination, recursive: recursive, landing: landing)
        ).stream
        let messages = MessageStream(stream)
        var skipped: [Files.Skipped] = []
        while let progress = try await messages.receive(Files.Progress.self) {
            skipped += progress.skipped
            if let failure = progress.failure { throw failure.error }
            if let summary = progress.summary { return (summary, skipped) }
        }
        throw KithError(.closed, "no summary")
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
