import Foundation
import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithForward

/// Carries calls straight to the handlers of two services: this device's, and `laptop`'s behind its grants.
final class LocalCarrier: Carrier {
    let grants: [Grant]
    let here = ForwardService(logger: quiet)
    let laptop: ForwardService
    /// Names that were looked up on the laptop.
    let lookups = Locked<[String]>([])
    /// The device that calls the laptop: changed for a call of somebody else.
    let caller = Locked<UInt8>(7)

    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init(_ grants: String..., names: [String: [String]] = [:], options: ForwardService.Options = .init()) throws {
        self.grants = try grants.map { try Grant(parsing: $0) }
        let lookups = lookups
        let resolver = Resolver { name in
            lookups.set(lookups.value + [name])
            return .success((names[name] ?? []).compactMap { NetworkAddress($0) })
        }
        laptop = ForwardService(options: options, logger: Self.quiet, resolver: resolver)
    }

    func call<M: KithAPI.Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        let input = try roundTrip(input)
        guard case .call(let body) = try handler(method, input, on: device).body else { throw notServed }
        guard let output = try await body(input, try context(device, options)) as? M.Output else { throw notServed }
        return try roundTrip(output)
    }

    func open<M: KithAPI.StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        let input = try roundTrip(input)
        guard case .stream(let body) = try handler(method, input, on: device).body else { throw notServed }
        let pipe = KithAPI.Pipe()
        let (answers, answer) = AsyncThrowingStream.makeStream(of: M.Output.self)
        let context = try context(device, options)
        Task {
            do {
                try await body(input, context) { output in
                    guard let output = output as? M.Output else { throw self.notServed }
                    answer.yield(output)
                    return pipe.right
                }
                try await pipe.right.finish()
            } catch {
                answer.finish(throwing: error)
                pipe.right.abort((error as? KithError)?.code ?? .internal)
            }
        }
        for try await output in answers { return OpenedStream(output: output, stream: pipe.left) }
        throw notServed
    }

    private func handler<M: KithAPI.Method>(_ method: M.Type, _ input: M.Input, on device: String?) throws -> Handler {
        if device != nil, let refusal = try M.access(for: input).refusal(of: who(), holding: grants) {
            throw refusal
        }
        let service = device == nil ? here : laptop
        guard let handler = service.handlers.first(where: { $0.method.name == M.name }) else { throw notServed }
        return handler
    }

    private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
        try CBORDecoder().decode(Value.self, from: try CBOREncoder().encode(value))
    }

    private func who() throws -> Caller {
        .device(
            try DeviceID(publicKey: [UInt8](repeating: caller.value, count: 32)), name: "phone", paired: true)
    }

    private func context(_ device: String?, _ options: CallOptions) throws -> CallContext {
        let deadline = options.timeout.map { ContinuousClock.now + $0 }
        return try device == nil
            ? CallContext(caller: .owner, grants: [], deadline: deadline, client: Client(self))
            : CallContext(caller: who(), grants: grants, deadline: deadline, client: Client(self))
    }

    private var notServed: KithError { KithError(.unsupported, "not served") }
}

/// One of the counterparts in Tests/Interop/forward_peer.py.
final class Peer: Sendable {
    let process: ChildProcess
    /// The port it listens at; 0 at a Unix socket.
    let port: UInt16
    var endpoint: String { "127.0.0.1:\(port)" }

    init(_ arguments: String...) throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop/forward_peer.py").path
        process = try ChildProcess(
            "/usr/bin/env", ["python3", script] + arguments, output: .connected, errors: .inherited)
        let output = try #require(process.output)
        var line = Data()
        while !line.contains(10) {
            let more = output.availableData
            try #require(!more.isEmpty, "forward_peer.py ended before it was ready")
            line += more
        }
        port = UInt16(String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
    }

    deinit { process.kill() }
}

extension Client {
    /// A connection from the laptop.
    func connect(_ endpoint: String) async throws -> (output: Forward.Opening, stream: any ByteStream) {
        let endpoint = try #require(Forward.Endpoint(endpoint))
        let opened = try await open(Forward.Connect.self, Forward.Connect.Input(to: endpoint), on: "laptop")
        guard opened.output.outcome == .connected else { return (opened.output, opened.stream.bytes) }
        return (opened.output, ForwardStream(opened.stream.bytes))
    }
}

/// A connection of this process's own, to what is forwarded.
func dial(_ endpoint: Forward.Endpoint) async throws -> any ByteStream {
    let connector = Connector(reactor: try .forForwarding(), resolver: Resolver())
    let connection = try await connector.connect(to: endpoint, permission: OwnersPermission())
    return try #require(connection.stream, "\(connection.opening)")
}

extension ByteStream {
    /// Everything until the end.
    func readAll() async throws -> [UInt8] {
        var all: [UInt8] = []
        while let bytes = try await read(upTo: 256 << 10) { all += bytes }
        return all
    }

    func readText() async throws -> String { String(decoding: try await readAll(), as: UTF8.self) }

    /// So many bytes.
    func read(exactly count: Int) async throws -> [UInt8] {
        var all: [UInt8] = []
        while all.count < count {
            guard let bytes = try await read(upTo: count - all.count) else { break }
            all += bytes
        }
        return all
    }
}

/// Runs a rule through the laptop while `body` runs, which is told where is listened.
func forwarding<Result: Sendable>(
    _ option: Forward.Rule.Option, _ text: String, _ carrier: LocalCarrier, credentials: String? = nil,
    _ body: @escaping @Sendable (Forward.Endpoint) async throws -> Result
) async throws -> Result {
    var rule = try Forward.Rule(option, parsing: text)
    rule.credentials = credentials
    return try await ForwardSet([rule]).whileUp(to: "laptop", client: Client(carrier)) { running in
        try await body(try #require(running.rules.first?.listening.first))
    }
}

/// A port of this machine nobody listens at, nor will: a socket that stays as long as the tests has it.
func closedEndpoint() throws -> Forward.Endpoint {
    #if canImport(Darwin)
    let holder = socket(AF_INET, SOCK_STREAM, 0)
    #else
    let holder = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #endif
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    try unsafe withUnsafeMutablePointer(to: &address) { address in
        try unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            try #require(unsafe bind(holder, address, length) == 0 && getsockname(holder, address, &length) == 0)
        }
    }
    return try #require(Forward.Endpoint("127.0.0.1:\(UInt16(bigEndian: address.sin_port))"))
}

extension ForwardService.Core {
    /// The number of running calls of other devices.
    var count: Int { list.inbound.count }
    /// The bytes they have carried.
    var everything: UInt64 { list.inbound.reduce(0) { $0 + $1.sent + $1.received } }
}
