import KithAPI
import KithIdentity
import KithRPC
import KithTesting
import KithWire
import Logging

@testable import KithCompatibility

func makeDevice() throws -> DeviceID { try DeviceID(publicKey: [UInt8](repeating: 7, count: 32)) }

/// A device that answers our methods with what a test says, and notes what it was asked.
final class FakeCarrier: Carrier {
    typealias Answer = @Sendable (JSONValue) throws -> JSONValue

    let asked = Locked<[(method: String, input: JSONValue)]>([])
    private let answers: [String: Answer]
    private let streams: [String: [JSONValue]]

    init(_ answers: [String: Answer], streams: [String: [JSONValue]] = [:]) {
        (self.answers, self.streams) = (answers, streams)
    }

    /// What a method was asked for, each time.
    func inputs(of method: String) -> [JSONValue] { asked.value.filter { $0.method == method }.map(\.input) }

    func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        let json = try await call(named: M.name, json: JSONText(encoding: input).bytes, on: device, options: options)
        return try JSONText(json).decode(M.Output.self)
    }

    func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> { throw KithError(.unsupported, "No streams here.") }

    func call(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws -> [UInt8] {
        let input = try JSONText(json).value()
        asked.change { $0.append((name, input)) }
        guard let answer = answers[name] else { throw KithError(.unsupported, "\(name) is not known here.") }
        return try JSONText(encoding: try answer(input)).bytes
    }

    func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        asked.change { $0.append((name, (try? JSONText(json).value()) ?? .null)) }
        guard let messages = streams[name] else { throw KithError(.unsupported, "\(name) is not known here.") }
        return FakeStream(messages)
    }
}

/// A stream of what a test says.
private final class FakeStream: NamedStream {
    let answer: [UInt8] = Array("{}".utf8)
    private let messages: Locked<[JSONValue]>

    init(_ messages: [JSONValue]) { self.messages = Locked(messages) }

    func receive() async throws -> NamedStreamItem? {
        let next = messages.change { $0.isEmpty ? nil : $0.removeFirst() }
        return try next.map { .message(try JSONText(encoding: $0).bytes) }
    }

    func send(_ json: [UInt8]) async throws {}
    func send(bytes: [UInt8]) async throws {}
    func finish() async throws {}
    func cancel() {}
}

let library = "11111111-2222-4333-8444-555555555555"

func makeAdapter(
    _ answers: [String: JSONValue] = [:], _ more: [String: FakeCarrier.Answer] = [:],
    streams: [String: [JSONValue]] = [:]
) throws -> (CompatibilityAdapter, FakeCarrier) {
    let libraries: JSONValue = [
        "libraries": [["id": .string(library), "name": "Home", "isDefault": true, "state": "open"]]
    ]
    var all: [String: FakeCarrier.Answer] = ["libraries.list": { _ in libraries }]
    for (name, answer) in answers { all[name] = { _ in answer } }
    all.merge(more) { $1 }
    let carrier = FakeCarrier(all, streams: streams)
    let adapter = CompatibilityAdapter(
        client: Client(carrier), id: try makeDevice(), name: "Ana's Laptop", directory: "/data",
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    return (adapter, carrier)
}

/// What a session has said.
final class Said: LineSender {
    let lines = Locked<[String]>([])

    func send(_ line: [UInt8]) async throws { lines.change { $0.append(String(decoding: line, as: UTF8.self)) } }
    func next() async throws -> [UInt8]? { nil }
}

func answer(_ line: String, _ adapter: CompatibilityAdapter) async throws -> [String] {
    let said = Said()
    try await EnvelopeSession(adapter, said).run(Array(line.utf8))
    return said.lines.value
}
