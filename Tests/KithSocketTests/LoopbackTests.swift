import Foundation
import KithAPI
import KithRPC
import KithTesting
import KithWire
import Testing

@testable import KithSocket

/// Runs a server at the loopback addresses.
private func withLoopback(
    patience: Duration = .seconds(600),
    _ body: @Sendable (APIEndpoint, _ directory: String, FakeDispatcher, [TokenGate]) async throws -> Void
) async throws {
    let folder = try TemporaryFolder()
    let dispatcher = FakeDispatcher()
    let access = try LoopbackAccess.open(directory: folder.path, port: 0, patience: patience)
    let servers = try access.listeners.map { try SocketServer($0, dispatcher: dispatcher, logger: .quiet) }
    try await withThrowingTaskGroup(of: Void.self) { group in
        for server in servers { group.addTask { try await server.run() } }
        try await body(access.endpoint, folder.path, dispatcher, access.listeners.compactMap(\.gate))
        for server in servers { server.beginGracefulShutdown() }
        try await group.waitForAll()
    }
    #expect(!FileManager.default.fileExists(atPath: folder.path + "/api.json"))
}

private func caller(_ endpoint: APIEndpoint) throws -> RawPeer {
    RawPeer(owning: try Loopback.connect(endpoint.port.bigEndian))
}

/// Connects, and is let in.
private func greet(_ endpoint: APIEndpoint) async throws {
    let peer = try caller(endpoint)
    await peer.send(hello(endpoint.token))
    #expect(await peer.line().contains(endpoint.proof))
}

private func hello(_ token: String) -> String {
    #"{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2,"token":"\#(token)"}}"# + "\n"
}

private let echo = #"{"jsonrpc":"2.0","id":1,"method":"test.echo","params":{"text":"hi"}}"# + "\n"

@Suite(.timeLimit(.minutes(4))) struct `The loopback TCP port` {
    @Test func `serves whoever has the token, calls and streams`() async throws {
        try await withLoopback { endpoint, _, _, _ in
            let carrier = try await SocketCarrier.connect(
                tcp: endpoint.port, token: endpoint.token, proof: endpoint.proof)
            defer { carrier.close() }
            let client = Client(carrier)
            #expect(try await client.call(Echo.self, Echo.Payload(text: "hi")).text == "hi")
            let opened = try await client.open(Loop.self, Nothing())
            #expect(opened.output == "ready")
            try await opened.stream.write([1, 2, 3])
            #expect(try await opened.stream.read(upTo: 16) == [1, 2, 3])
        }
    }

    @Test func `names itself in a file that its user alone can read`() async throws {
        try await withLoopback { endpoint, directory, _, gates in
            #expect(try APIEndpoint.read(directory: directory) == endpoint)
            let path = directory + "/api.json"
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(endpoint.addresses.first == "127.0.0.1:\(endpoint.port)")
            #expect(endpoint.token.count == 64 && endpoint.token != endpoint.proof)
            #expect(gates.count == endpoint.addresses.count)
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            #expect(throws: KithError(.denied, "")) { try APIEndpoint.read(directory: directory) }
        }
    }

    @Test(arguments: [
        "x", #"{"jsonrpc":"2.0","id":7,"method":"test.echo","params":{"text":"hi"}}"#, "{}", "{",
        #"{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2}}"#,
        #"{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2,"token":""}}"#,
        #"{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2,"token":["TOKEN"]}}"#,
        #"{"jsonrpc":"2.0","method":"rpc.hello","params":{"protocol":2,"token":"TOKEN"}}"#,
        #"{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2,"token":"TOKEN0"}}"#,
        #"{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2,"token":"TOKEN","token":"x"}}"#,
        #"[{"jsonrpc":"2.0","id":7,"method":"rpc.hello","params":{"protocol":2,"token":"TOKEN"}}]"#,
        "GET / HTTP/1.1", "POST /rpc HTTP/1.1", "\u{16}\u{3}\u{1}", "\"Ping\"",
        #"{"Query":{"method":"query:core.status","library_id":null,"payload":null}}"#,
    ])
    func `ends a connection that begins with anything else`(line: String) async throws {
        try await withLoopback { endpoint, _, dispatcher, _ in
            let peer = try caller(endpoint)
            // A browser's page chooses the body of a request, which follows on the same connection.
            await peer.send(line.replacing("TOKEN", with: endpoint.token) + "\n" + hello(endpoint.token) + echo)
            let answer = await peer.line()
            if line.hasPrefix("{") {
                #expect(answer.contains(#""code":-32002"#) || answer.contains("api.json"), "\(answer)")
            } else {
                #expect(answer == "")
            }
            #expect(await peer.line() == "")
            #expect(dispatcher.last.value == nil)
        }
    }

    @Test func `gives one error for a wrong token, and takes no longer line than a hello`() async throws {
        try await withLoopback { endpoint, _, dispatcher, gates in
            let wrong = try caller(endpoint)
            await wrong.send(hello(String(endpoint.token.reversed())) + echo)
            let answer = await wrong.line()
            #expect(answer.hasPrefix(#"{"jsonrpc":"2.0","id":7,"error":"#) && !answer.contains(endpoint.token))
            #expect(await wrong.line() == "")
            let long = try caller(endpoint)
            await long.send("{" + String(repeating: " ", count: 1 << 20))
            #expect(await long.line().contains("api.json"))
            #expect(await long.line() == "")
            #expect(dispatcher.last.value == nil)
            try await eventually { gates.allSatisfy { $0.pendingCount == 0 } }
        }
    }

    @Test func `reads what follows the hello at once, however long`() async throws {
        try await withLoopback { endpoint, _, _, _ in
            let peer = try caller(endpoint)
            let text = String(repeating: "x", count: 1 << 20)
            await peer.send(hello(endpoint.token) + echo.replacing("hi", with: text))
            #expect(await peer.line().contains(endpoint.proof))
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":1,"result":{"text":"\#(text)"}}"#)
        }
    }

    @Test func `closes a connection that says nothing`() async throws {
        try await withLoopback(patience: .milliseconds(1)) { endpoint, _, _, gates in
            let peer = try caller(endpoint)
            #expect(await peer.line() == "")
            try await eventually { gates.allSatisfy { $0.pendingCount == 0 } }
        }
    }

    @Test func `lets in who has the token beside any number that say nothing`() async throws {
        try await withLoopback { endpoint, _, _, gates in
            var silent: [RawPeer] = []
            for number in 0..<200 {
                silent.append(try caller(endpoint))
                await silent.last?.send("{")
                // More callers than may wait would keep this thread: each comes after those before it.
                if number % 50 == 49 { try await greet(endpoint) }
            }
            let peer = try caller(endpoint)
            await peer.send(hello(endpoint.token) + echo)
            #expect(await peer.line().contains(endpoint.proof))
            #expect(await peer.line().contains(#""text":"hi""#))
            #expect(gates.allSatisfy { $0.pendingCount <= TokenGate.pendingLimit })
            // The oldest was closed for the newer ones; who is let in is not among them any more.
            #expect(await silent[0].line() == "")
            for number in 0..<100 {
                silent.append(try caller(endpoint))
                if number % 50 == 49 { try await greet(endpoint) }
            }
            await peer.send(echo)
            #expect(await peer.line().contains(#""text":"hi""#))
        }
    }

    @Test func `is not taken for the device when another program answers`() async throws {
        let loopback = try Loopback()
        let impostor = Task {
            let accepted = RawPeer(owning: await OnThread.accept(loopback.number))
            _ = await accepted.line()
            await accepted.send(#"{"jsonrpc":"2.0","id":0,"result":{"protocol":2}}"# + "\n")
            return await accepted.line()
        }
        await #expect(throws: KithError(.denied, "")) {
            try await SocketCarrier.connect(
                tcp: UInt16(bigEndian: loopback.port), token: "a", proof: "b")
        }
        #expect(await impostor.value == "")
    }

    @Test func `says that nobody listens, that a port is taken, and that a token is wrong`() async throws {
        try await withLoopback { endpoint, directory, _, _ in
            await #expect(throws: KithError(.denied, "")) {
                try await SocketCarrier.connect(tcp: endpoint.port, token: "wrong")
            }
            let other = try TemporaryFolder()
            #expect(throws: KithError(.conflict, "")) {
                try LoopbackAccess.open(directory: other.path, port: endpoint.port)
            }
            #expect(try APIEndpoint.read(directory: other.path) == nil)
        }
        let loopback = try Loopback()
        close(loopback.number)
        await #expect(throws: KithError(.notFound, "")) {
            try await SocketCarrier.connect(tcp: UInt16(bigEndian: loopback.port), token: "a")
        }
    }
}

/// Waits for a caller without keeping one of the few threads that tasks run on.
private enum OnThread {
    static func accept(_ number: Int32) async -> Int32 {
        _ = fcntl(number, F_SETFL, O_NONBLOCK)
        while true {
            let accepted = systemAccept(number)
            if accepted >= 0 || Task.isCancelled { return accepted }
            await Task.yield()
        }
    }
}

private func systemAccept(_ number: Int32) -> Int32 { accept(number, nil, nil) }
