internal import KithAPI
internal import KithCompatibility
internal import KithIdentity
internal import KithRPC
internal import KithWire
internal import Logging

/// Requests of clients of Spacedrive, to a device that answers our methods with what could be.
enum FuzzedReference {
    /// The adapter, over a device that is always the same.
    private static let adapter: CompatibilityAdapter? = {
        // The key of a device is any 32 bytes here.
        guard let id = try? DeviceID(publicKey: [UInt8](repeating: 7, count: 32)) else { return nil }
        return CompatibilityAdapter(
            client: Client(CannedCarrier()), id: id, name: "Ana's Laptop", directory: "/data",
            logger: Logger(label: "kith", factory: { _ in SwiftLogNoOpLogHandler() }))
    }()

    /// Feeds a line of the envelope, or a name and its parameters.
    static func run(_ bytes: [UInt8]) async {
        guard let adapter else { preconditionFailure("32 bytes are a key") }
        if adapter.begins(with: bytes) {
            let said = Said()
            await adapter.serve(bytes, sending: said)
            let lines = said.lines.value
            precondition((1...2).contains(lines.count), "A request has one answer, a subscription two")
            for line in lines { precondition((try? JSONText(line)) != nil, "What is answered is JSON") }
        }
        let end = bytes.firstIndex(of: 0x0A) ?? bytes.count
        let name = String(decoding: bytes[..<end], as: UTF8.self)
        guard adapter.owns(name) else { return }
        precondition(!name.contains("/"), "A path is not a name of the reference's")
        // What follows may be no JSON: then there are no parameters.
        let params = try? JSONText(Array(bytes[min(end + 1, bytes.count)...]))
        do {
            let answer = try await adapter.answer(name, params)
            precondition((try? JSONText(answer.bytes)) != nil, "What is answered is JSON")
        } catch let error as KithError {
            precondition(error.message.utf8.count < 64 << 10, "A message is for a person")
        } catch {
            // Another error is one of Swift's about numbers that JSON has not.
        }
    }

    /// The exact bytes of its clients, and each of its parts.
    static let seeds: [[UInt8]] = [
        #""Ping""#,
        #"{"Query":{"method":"query:libraries.list.v1","library_id":null,"payload":{"include_stats":false}}}"#,
        #"{"Action":{"method":"action:libraries.create.input.v1","library_id":"\#(CannedCarrier.library)","payload":{"name":"N","path":null}}}"#,
        #"{"Query":{"method":"query:jobs.list.v1","library_id":"\#(CannedCarrier.library)","payload":{}}}"#,
        #"{"Subscribe":{"event_types":["JobStarted"],"filter":{"resource_type":"file","path_scope":{"Physical":{"device_slug":"","path":"/a"}}}}}"#,
        "query:search.files\n"
            + #"{"library_id":"\#(CannedCarrier.library)","input":{"query":"a","scope":{"Path":{"path":"/a"}},"filters":{"file_types":["a"],"date_range":{"start":"2024-01-01"},"size_range":{"min":1}},"sort":{"field":"Name"},"pagination":{"limit":9223372036854775807,"offset":-1}}}"#,
        "query:files.directory_listing\n"
            + #"{"library_id":"\#(CannedCarrier.library)","input":{"path":"local://ana-s-laptop/a","limit":1,"sort_by":"Size"}}"#,
        "action:files.copy.input\n"
            + #"{"library_id":"\#(CannedCarrier.library)","input":{"sources":{"paths":["/a"]},"destination":{"Physical":{"device_slug":"","path":"/b","path_bytes":"/w=="}},"on_conflict":"Skip"}}"#,
        "action:tags.apply\n"
            + #"{"library_id":"\#(CannedCarrier.library)","input":{"targets":{"Entry":[-9223372036854775808,1e400]},"tag_ids":["00000000-0000-5000-8000-000000000000"]}}"#,
    ].map { Array($0.utf8) }
}

/// What a session has said.
private final class Said: LineSender {
    let lines = Locked<[[UInt8]]>([])

    func send(_ line: [UInt8]) async throws { lines.change { $0.append(line) } }
    func next() async throws -> [UInt8]? { Array("\"Unsubscribe\"".utf8) }
}

/// Answers our methods with one of each thing, with numbers that arithmetic stumbles over.
private struct CannedCarrier: Carrier {
    static let library = "11111111-2222-4333-8444-555555555555"

    private static let entry: JSONValue = [
        "id": 9_223_372_036_854_775_807, "path": ["bytes": "L2Ev/w=="], "name": "a", "kind": "file",
        "category": "image",
        "size": 9_223_372_036_854_775_807, "modified": -9_223_372_036_854_775_808, "tags": ["work/clients"],
    ]
    private static let answers: [String: JSONValue] = [
        "libraries.list": ["libraries": [["id": .string(library), "name": "Home"]]],
        "libraries.create": ["id": .string(library), "name": "Home"],
        "locations.list": ["locations": [["id": 1, "path": "/a", "name": "a", "entries": 2]]],
        "locations.browse": ["entries": [entry]], "files.list": ["entries": [entry], "hasMore": false],
        "files.stat": entry, "files.exists": ["kind": "folder"], "search.files": ["entries": [entry], "total": 1],
        "search.facets": [
            "total": 9_223_372_036_854_775_807,
            "kinds": [["value": "image", "count": 9_223_372_036_854_775_807], ["value": "image", "count": 1]],
            "locations": [["value": "a", "count": 1]], "tags": [["value": "work", "count": 1]],
        ],
        "tags.list": ["tags": [["name": "work/clients", "uses": 1]]], "tags.change": [:], "files.mkdir": [:],
        "jobs.list": [
            "jobs": [["id": "j", "kind": "copy", "state": "running", "progress": ["completed": 1, "total": 0]]]
        ],
        "jobs.get": ["job": ["id": "j", "state": "done"]], "jobs.pause": [:], "jobs.cancel": [:],
        "volumes.list": ["volumes": [["path": "/", "kind": "internal", "capacity": 1]]], "volumes.eject": [:],
        "operations.plan": ["id": "p", "totals": ["unresolved": 0]], "operations.confirm": ["job": "j"],
    ]

    func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        let answer = try await call(
            named: M.name, json: JSONText(encoding: input).bytes, on: device, options: options)
        return try JSONText(answer).decode(M.Output.self)
    }

    func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> { throw KithError(.unsupported, "There are no streams here.") }

    func call(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws -> [UInt8] {
        _ = try JSONText(json)
        guard let answer = Self.answers[name] else { throw KithError(.unsupported, "\(name) is not known here.") }
        return try JSONText(encoding: answer).bytes
    }

    func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output { throw KithError(.unsupported, "There are no providers here.") }

    func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> { throw KithError(.unsupported, "There are no streams here.") }
}
