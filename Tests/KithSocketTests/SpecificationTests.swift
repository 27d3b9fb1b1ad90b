import Foundation
import KithAPI
import KithRPC
import KithTesting
import KithWire
import Testing

@testable import KithSocket

/// Serves the methods of the examples in the specification of JSON-RPC 2.0.
private struct ExampleDispatcher: Dispatcher {
    let heard = Locked<[String]>([])

    func entry(_ method: String) -> AnyMethod? { nil }

    func dispatch(_ call: IncomingCall) async throws -> Payload {
        guard case .json(let bytes) = call.input else { throw KithError(.internal, "Not JSON.") }
        let input = try JSONText(bytes).value()
        heard.change { $0.append(call.method) }
        func whole(_ value: JSONValue?) throws -> Int64 {
            guard case .integer(let number)? = value else { throw KithError(.invalid, "Not a number.") }
            return number
        }
        switch (call.method, input) {
        case ("subtract", .array(let list)) where list.count == 2:
            return .json(Array("\(try whole(list[0]) - whole(list[1]))".utf8))
        case ("subtract", .object(let members)):
            return .json(Array("\(try whole(members["minuend"]) - whole(members["subtrahend"]))".utf8))
        case ("sum", .array(let list)): return .json(Array("\(try list.reduce(0) { $0 + (try whole($1)) })".utf8))
        case ("get_data", _): return .json(Array(#"["hello",5]"#.utf8))
        case ("update", _), ("notify_hello", _), ("notify_sum", _): return .json(Array("null".utf8))
        case ("subtract", _), ("sum", _): throw KithError(.invalid, "Two numbers are needed.")
        case ("fail", _): throw KithError(.internal, "It failed.")
        case (API.Document.name, _): return .json(Array(#"{"openrpc":"1.3.2"}"#.utf8))
        default: throw KithError(.unsupported, "Method not found")
        }
    }

    func dispatch(
        stream call: IncomingCall, accept: @escaping @Sendable (Payload) async throws -> any ByteStream
    ) async throws { throw KithError(.unsupported, "Method not found") }
}

/// A request and what must be answered: the members of the answer that matter, as JSON, or nothing at all.
private struct Example: CustomTestStringConvertible, Sendable {
    var name: String
    var request: String
    var answer: String?
    var testDescription: String { name }

    init(_ name: String, _ request: String, _ answer: String?) {
        (self.name, self.request, self.answer) = (name, request, answer)
    }
}

/// The examples of the specification, section 7, in its order; its messages are its own, ours may differ.
private let examples = [
    Example(
        "positional parameters", #"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
        #"{"jsonrpc": "2.0", "result": 19, "id": 1}"#),
    Example(
        "positional parameters, the other way",
        #"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
        #"{"jsonrpc": "2.0", "result": -19, "id": 2}"#),
    Example(
        "named parameters",
        #"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
        #"{"jsonrpc": "2.0", "result": 19, "id": 3}"#),
    Example(
        "named parameters, the other way",
        #"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
        #"{"jsonrpc": "2.0", "result": 19, "id": 4}"#),
    Example("a notification", #"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, nil),
    Example("a notification of an unknown method", #"{"jsonrpc": "2.0", "method": "foobar"}"#, nil),
    Example(
        "an unknown method", #"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
        #"{"jsonrpc": "2.0", "error": {"code": -32601}, "id": "1"}"#),
    Example(
        "invalid JSON", #"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        #"{"jsonrpc": "2.0", "error": {"code": -32700}, "id": null}"#),
    Example(
        "an invalid request", #"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#,
        #"{"jsonrpc": "2.0", "error": {"code": -32600}, "id": null}"#),
    Example(
        "a batch of invalid JSON",
        #"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]"#,
        #"{"jsonrpc": "2.0", "error": {"code": -32700}, "id": null}"#),
    Example("an empty batch", "[]", #"{"jsonrpc": "2.0", "error": {"code": -32600}, "id": null}"#),
    Example("an invalid batch", "[1]", #"[{"jsonrpc": "2.0", "error": {"code": -32600}, "id": null}]"#),
    Example(
        "a batch of three that are invalid", "[1,2,3]",
        #"""
        [{"jsonrpc": "2.0", "error": {"code": -32600}, "id": null},{"jsonrpc": "2.0", "error": {"code": -32600}, "id": null},
        {"jsonrpc": "2.0", "error": {"code": -32600}, "id": null}]
        """#),
    Example(
        "a batch",
        #"""
        [{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]
        """#,
        #"""
        [{"jsonrpc": "2.0", "result": 7, "id": "1"},{"jsonrpc": "2.0", "result": 19, "id": "2"},
        {"jsonrpc": "2.0", "error": {"code": -32600}, "id": null},
        {"jsonrpc": "2.0", "error": {"code": -32601}, "id": "5"},
        {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}]
        """#),
    Example(
        "a batch of notifications",
        #"""
        [{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]
        """#, nil),
    // What the text of the specification says beyond its examples.
    Example(
        "an identifier that is null", #"{"jsonrpc":"2.0","method":"sum","params":[1],"id":null}"#,
        #"{"jsonrpc":"2.0","result":1,"id":null}"#),
    Example(
        "an identifier with a fraction", #"{"jsonrpc":"2.0","method":"sum","params":[1],"id":1.50}"#,
        #"{"jsonrpc":"2.0","result":1,"id":1.50}"#),
    Example(
        "an identifier beyond all whole numbers",
        #"{"jsonrpc":"2.0","method":"sum","params":[1],"id":123456789012345678901234567890}"#,
        #"{"jsonrpc":"2.0","result":1,"id":123456789012345678901234567890}"#),
    Example(
        "an identifier that is an object", #"{"jsonrpc":"2.0","method":"sum","params":[1],"id":{}}"#,
        #"{"jsonrpc":"2.0","error":{"code":-32600},"id":null}"#),
    Example(
        "another version", #"{"jsonrpc":"1.0","method":"sum","params":[1],"id":1}"#,
        #"{"jsonrpc":"2.0","error":{"code":-32600},"id":1}"#),
    Example(
        "parameters that do not fit", #"{"jsonrpc":"2.0","method":"subtract","params":[1],"id":1}"#,
        #"{"jsonrpc":"2.0","error":{"code":-32602},"id":1}"#),
    Example(
        "a failure inside", #"{"jsonrpc":"2.0","method":"fail","id":1}"#,
        #"{"jsonrpc":"2.0","error":{"code":-32603},"id":1}"#),
    Example(
        "a member twice", #"{"jsonrpc":"2.0","method":"sum","method":"fail","id":1}"#,
        #"{"jsonrpc":"2.0","error":{"code":-32600},"id":null}"#),
    Example(
        "too much nesting", String(repeating: "[", count: 200) + String(repeating: "]", count: 200),
        #"{"jsonrpc":"2.0","error":{"code":-32700},"id":null}"#),
    Example(
        "OpenRPC's discovery", #"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#,
        #"{"jsonrpc":"2.0","result":{"openrpc":"1.3.2"},"id":1}"#),
]

/// What of an answer is compared: of an error its code, identifiers as they were written, a batch in any order.
private func compared(_ text: String) throws -> [String] {
    func one(_ answer: RPCMessage) throws -> String {
        guard case .response(let response) = answer else { throw KithError(.corrupt, "Not an answer: \(text)") }
        switch response.result {
        case .success(let value): return "\(String(decoding: response.id.json, as: UTF8.self)) \(try value.value())"
        case .failure(let error): return "\(String(decoding: response.id.json, as: UTF8.self)) \(error.code)"
        }
    }
    switch RPCPacket(parsing: Array(text.utf8)) {
    case .single(let message): return ["single", try one(message)]
    case .batch(let messages): return ["batch"] + (try messages.map(one).sorted())
    }
}

/// An answer of the specification, with the message that an error must have.
private func expected(_ text: String) -> String {
    text.replacing(#"{"code": "#, with: #"{"message":"","code": "#).replacing(
        #"{"code":-"#, with: #"{"message":"","code":-"#)
}

private func withExamples(_ body: @Sendable (RawPeer, ExampleDispatcher) async throws -> Void) async throws {
    let folder = try TemporaryFolder()
    let dispatcher = ExampleDispatcher()
    let server = try SocketServer(directory: folder.path, dispatcher: dispatcher, logger: .quiet)
    try await whileRunning(server) { try await body(try RawPeer(folder.path), dispatcher) }
}

@Suite(.timeLimit(.minutes(4))) struct `JSON-RPC 2.0 at the socket` {
    @Test(arguments: examples) fileprivate func `answers as the specification says`(example: Example) async throws {
        try await withExamples { peer, _ in
            await peer.send(example.request.split(separator: "\n").joined(separator: " ") + "\n")
            // What follows shows that nothing else was answered, and that the connection lives.
            await peer.send(#"{"jsonrpc":"2.0","method":"sum","params":[1,1],"id":"end"}"# + "\n")
            var lines: [String] = []
            let isLast = { (line: String) in line == #"{"jsonrpc":"2.0","id":"end","result":2}"# }
            let count = example.answer == nil ? 1 : 2
            for _ in 0..<count { lines.append(await peer.line()) }
            #expect(lines.count(where: isLast) == 1, "\(lines)")
            if let answer = example.answer {
                let line = try #require(lines.first { !isLast($0) })
                #expect(try compared(line) == compared(expected(answer)))
            }
        }
    }

    @Test(arguments: [
        ("garbage", "expected"), ("{}", "jsonrpc"), (#"{"jsonrpc":"2.0","id":1,"method":"no"}"#, "method"),
    ])
    func `says in its data what is wrong with what`(line: String, data: String) async throws {
        try await withExamples { peer, _ in
            await peer.send(line + "\n")
            let answer = await peer.line()
            #expect(answer.contains(#""data":"#) && answer.contains(data), "\(answer)")
        }
    }

    @Test func `answers a line that is not UTF-8, and goes on`() async throws {
        try await withExamples { peer, _ in
            await peer.send(
                bytes: Array(#"{"jsonrpc":"2.0","id":1,"method":""#.utf8) + [0xFF, 0xC0] + Array("\"}\n".utf8))
            #expect(await peer.line().contains("-32700"))
            await peer.send(#"{"jsonrpc":"2.0","method":"sum","params":[1,1],"id":2}"# + "\n")
            #expect(await peer.line().contains(#""result":2"#))
        }
    }

    @Test func `survives any number of lines that are garbage without growing`() async throws {
        let count = environment("KITH_GARBAGE_LINES").flatMap { Int($0) } ?? 100_000
        try await withExamples { peer, _ in
            var random = SplitMix(state: environment("KITH_SEED").flatMap { UInt64($0) } ?? 16)
            let alphabet = Array(#"{}[]",:\"jsonrpcid20methodparams \u00null123.e-"#.utf8)
            /// Sends so many lines, and reads as many answers.
            func flood(_ lines: Int) async {
                var left = lines
                while left > 0 {
                    let batch = min(left, 500)
                    left -= batch
                    var bytes: [UInt8] = []
                    for _ in 0..<batch {
                        // Neither a request nor an empty line: each is answered.
                        bytes.append(UInt8(ascii: "#"))
                        for _ in 0..<Int.random(in: 0..<40, using: &random) {
                            bytes.append(alphabet[Int.random(in: 0..<alphabet.count, using: &random)])
                        }
                        bytes.append(0x0A)
                    }
                    await peer.send(bytes: bytes)
                    for _ in 0..<batch {
                        let line = await peer.line()
                        guard line.contains("-32700") else {
                            Issue.record("\(line)")
                            return
                        }
                    }
                }
            }
            await flood(count / 10)
            // What grows does so each time; what other tests of this process take meanwhile does not count.
            var growth = Int.max
            for _ in 0..<5 {
                let before = residentBytes()
                await flood(count / 5)
                growth = min(growth, residentBytes() - before)
            }
            #expect(growth < 12 << 20, "\(growth >> 10) KiB more after \(count / 5) lines, each time")
        }
    }

    @Test func `serves a caller beside any number that never read`() async throws {
        let folder = try TemporaryFolder()
        let server = try SocketServer(
            .unix(directory: folder.path), dispatcher: FakeDispatcher(), connectionLimit: 300, logger: .quiet)
        try await whileRunning(server) {
            var deaf: [RawPeer] = []
            for _ in 0..<200 {
                let peer = try RawPeer(folder.path)
                // It is answered once it was accepted: more callers than may wait would keep this thread.
                await peer.send(#"{"jsonrpc":"2.0","id":0,"method":"test.echo","params":{"text":"hi"}}"# + "\n")
                #expect(await peer.line().contains("hi"))
                // Each asks for more than the system keeps for it, and takes none of it.
                await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.flood","raw":true}"# + "\n")
                deaf.append(peer)
            }
            let client = try #require(try await SocketCarrier.connect(directory: folder.path))
            for number in 0..<500 {
                let answer = try await Client(client).call(Echo.self, Echo.Payload(text: "\(number)"))
                #expect(answer.text == "\(number)")
            }
            for peer in deaf { peer.hangUp() }
            client.close()
        }
    }
}

/// The memory of this process that is in use.
private func residentBytes() -> Int {
    #if os(Linux)
    let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
    return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
    #else
    return 0
    #endif
}

// MARK: - A protocol of other programs

/// Says back what it hears, in capital letters.
private struct Shouting: ForeignProtocol {
    func owns(_ method: String) -> Bool { method.hasPrefix("query:") }
    func answer(_ method: String, _ params: JSONText?) async throws -> JSONText {
        if method == "query:fail" { throw KithError(.conflict, "As asked.") }
        return try JSONText(Array(#"{"method":"\#(method)"}"#.utf8))
    }
    func begins(with line: [UInt8]) -> Bool { line.first == UInt8(ascii: "\"") }
    func serve(_ line: [UInt8], over exchange: LineExchange) async {
        var next: [UInt8]? = line
        while let line = next {
            try? await exchange.send(Array(String(decoding: line, as: UTF8.self).uppercased().utf8))
            if line == Array("\"end\"".utf8) { return }
            next = try? await exchange.next()
        }
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A server that speaks another protocol as well` {
    private func withShouting(_ body: @Sendable (String) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let server = try SocketServer(
            directory: folder.path, dispatcher: FakeDispatcher(), foreign: Shouting(), logger: .quiet)
        try await whileRunning(server) { try await body(folder.path) }
    }

    @Test func `knows it by the first line, and closes the connection at its end`() async throws {
        try await withShouting { directory in
            let peer = try RawPeer(directory)
            await peer.send("\"ping\"\n{\"jsonrpc\":1}\n\"end\"\n\"more\"\n")
            #expect(await peer.line() == "\"PING\"")
            #expect(await peer.line() == "{\"JSONRPC\":1}")
            #expect(await peer.line() == "\"END\"")
            #expect(await peer.line() == "")
        }
    }

    @Test func `takes the end of a caller's direction for the end of the line`() async throws {
        try await withShouting { directory in
            let peer = try RawPeer(directory)
            await peer.send("\"ping\"")
            peer.endSending()
            #expect(await peer.line() == "\"PING\"")
            #expect(await peer.line() == "")
            let empty = try RawPeer(directory)
            empty.endSending()
            #expect(await empty.line() == "")
        }
    }

    @Test func `answers its names among the methods`() async throws {
        try await withShouting { directory in
            let peer = try RawPeer(directory)
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"query:a","params":{}}"# + "\n")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":1,"result":{"method":"query:a"}}"#)
            await peer.send(#"{"jsonrpc":"2.0","id":2,"method":"query:fail"}"# + "\n")
            #expect(await peer.line().contains("-32002"))
            // Only the first line can begin it.
            await peer.send("\"ping\"\n")
            #expect(await peer.line().contains("-32600"))
            await peer.send(#"{"jsonrpc":"2.0","id":3,"method":"test.echo","params":{"text":"hi"}}"# + "\n")
            #expect(await peer.line().contains("hi"))
        }
    }
}
