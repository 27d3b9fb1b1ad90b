import Foundation
import KithAPI
import KithRPC
import KithTesting
import KithWire
import Testing

@testable import KithSocket

/// Runs a server until it ends by itself once it is told to admit no more, or as told: what is stuck in it keeps it.
private func untilDrained(
    over transport: Transport, _ body: @Sendable (_ connect: () throws -> RawPeer, FakeDispatcher) async throws -> Void,
    ending end: @Sendable (SocketServer) async -> Void = { $0.beginGracefulShutdown() }
) async throws {
    let folder = try TemporaryFolder()
    let dispatcher = FakeDispatcher()
    let loopback = transport == .loopback ? try Loopback() : nil
    let listener =
        try loopback.map {
            SocketListener(owning: $0.number, name: "loopback", mayHalfClose: false, admits: { _ in true })
        } ?? .unix(directory: folder.path)
    let server = try SocketServer(listener, dispatcher: dispatcher, logger: .quiet)
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await server.run() }
        try await body(
            { try loopback.map { RawPeer(owning: try Loopback.connect($0.port)) } ?? RawPeer(folder.path) }, dispatcher)
        await end(server)
        try await group.waitForAll()
    }
}

private func request(_ id: Int, _ method: String, _ params: String = "{}") -> String {
    #"{"jsonrpc":"2.0","id":\#(id),"method":"\#(method)","params":\#(params)}"# + "\n"
}

/// A frame of a raw stream, as the caller writes it.
private func frame(_ count: Int) -> [UInt8] {
    [UInt8(count >> 24), UInt8(count >> 16 & 0xFF), UInt8(count >> 8 & 0xFF), UInt8(count & 0xFF)]
        + [UInt8](repeating: 7, count: count)
}

/// Callers that mean harm, or take no care.
@Suite(.serialized, .timeLimit(.minutes(4))) struct HostileCallerTests {
    @Test(arguments: [
        String(repeating: "#", count: 40), "[1,2,3,4,5,6,7,8]", #"{"jsonrpc":"2.0","id":1,"method":"test.nothing"}"#,
    ])
    func `who reads no answers is not read from without end, and gets them all once it reads`(text: String) async throws
    {
        let line = text + "\n"
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            let lines = 400_000
            let chunk = Array(String(repeating: line, count: 1_000).utf8)
            var (sent, stalls) = (0, 0)
            // More than any buffer between the two holds.
            while sent < lines * line.utf8.count, stalls < 200 {
                let count = peer.offer(Array(chunk[(sent % line.utf8.count)...]))
                sent += count
                stalls = count > 0 ? 0 : stalls + 1
                // Real time: the server takes no more for a while.
                if count == 0 { try await Task.sleep(for: .milliseconds(10)) }
            }
            #expect(stalls == 200, "the server took \(sent) bytes")
            // Others are served meanwhile.
            let client = try await connected(directory)
            #expect(try await client.call(Echo.self, Echo.Payload(text: "hi")).text == "hi")
            // To the end of a line, while it reads.
            let whole = sent % line.utf8.count
            let rest = whole == 0 ? [] : Array(line.utf8.dropFirst(whole))
            let ending = Task { await peer.send(bytes: rest) }
            let count = (sent + line.utf8.count - 1) / line.utf8.count
            for number in 0..<count {
                let answer = await peer.line()
                guard answer.contains(#""error""#) else {
                    Issue.record("\(answer) as answer \(number) of \(count)")
                    break
                }
            }
            await ending.value
            await peer.send(request(2, "test.echo", #"{"text":"hi"}"#))
            #expect(await peer.line().contains(#""result":{"text":"hi"}"#))
        }
    }

    @Test func `a first line without end is refused at its limit`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            let chunk = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 20)
            // It ends when the server does not take any more.
            let sending = Task { for _ in 0..<64 { await peer.send(bytes: chunk) } }
            #expect(await peer.line().contains("-32600"))
            #expect(await peer.line() == "")
            await sending.value
            let client = try await connected(directory)
            #expect(try await client.call(Echo.self, Echo.Payload(text: "hi")).text == "hi")
        }
    }

    @Test func `what nests deeper than it may is refused, and the connection goes on`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            for deep in [
                String(repeating: "[", count: 2_000_000),
                String(repeating: #"{"a":"#, count: 500_000) + "1" + String(repeating: "}", count: 500_000),
                request(1, "test.echo", String(repeating: "[", count: 65) + String(repeating: "]", count: 65)),
            ] {
                await peer.send(deep + (deep.hasSuffix("\n") ? "" : "\n"))
                #expect(await peer.line().contains("-32700"))
            }
            await peer.send(request(2, "test.echo", #"{"text":"hi"}"#))
            #expect(await peer.line().contains(#""text":"hi""#))
        }
    }

    @Test func `batches of garbage are answered in bounded lines`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            let garbage = "[" + [String](repeating: "1", count: 1_000).joined(separator: ",") + "]\n"
            for _ in 0..<20 {
                await peer.send(garbage)
                var answers = JSONScanner(Array(await peer.line().utf8))
                #expect(try answers.elements().count == 1_000)
            }
            await peer.send("[" + [String](repeating: "1", count: 1_001).joined(separator: ",") + "]\n")
            #expect(await peer.line().contains("-32600"))
            // Three answers of a megabyte each: two megabytes are sent.
            let text = String(repeating: "x", count: 1_000_000)
            let calls = (1...3).map { request($0, "test.echo", #"{"text":"\#(text)"}"#).dropLast() }
            await peer.send("[" + calls.joined(separator: ",") + "]\n")
            let line = await peer.line()
            #expect(line.utf8.count < 3_000_000 && line.contains(#""error""#) && line.contains("2 MiB"))
            var answers = JSONScanner(Array(line.utf8))
            #expect(try answers.elements().count == 3)
        }
    }

    @Test func `calls that are called off at once leave nothing behind`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            let count = 10_000
            let sending = Task {
                for number in 0..<count {
                    // Each identifier twice: it means the call that began last.
                    await peer.send(
                        request(number / 2, "test.hang")
                            + #"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":\#(number / 2)}}"# + "\n")
                }
            }
            var refused = 0
            for _ in 0..<count {
                let answer = await peer.line()
                guard answer.contains(#""error""#) else {
                    Issue.record("\(answer)")
                    break
                }
                if answer.contains("calls at once") { refused += 1 }
            }
            await sending.value
            #expect(refused < count)
            // As many as may run can run again.
            for number in 0..<ServerConnection.callLimit { await peer.send(request(number, "test.hang")) }
            await peer.send(request(-1, "test.echo", #"{"text":"hi"}"#))
            #expect(await peer.line().contains("calls at once"))
            for number in 0..<ServerConnection.callLimit {
                await peer.send(#"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":\#(number)}}"# + "\n")
                #expect(await peer.line().contains(#""error""#))
            }
            await peer.send(request(-2, "test.echo", #"{"text":"hi"}"#))
            #expect(await peer.line().contains(#""text":"hi""#))
        }
    }

    @Test func `a call is called off by an identifier that an earlier one had`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            for _ in 0..<200 {
                await peer.send(request(1, "test.echo", #"{"text":"hi"}"#))
                #expect(await peer.line().contains(#""text":"hi""#))
                await peer.send(request(1, "test.hang"))
                await peer.send(#"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":1}}"# + "\n")
                #expect(await peer.line().contains(#""error""#))
            }
        }
    }

    @Test func `a flood of notifications runs as many as may run`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            let notice = #"{"jsonrpc":"2.0","method":"test.hang"}"# + "\n"
            for _ in 0..<20 { await peer.send(String(repeating: notice, count: 1_000)) }
            await peer.send(request(1, "test.echo", #"{"text":"hi"}"#))
            #expect(await peer.line().contains("calls at once"))
            let client = try await connected(directory)
            #expect(try await client.call(Echo.self, Echo.Payload(text: "hi")).text == "hi")
            peer.hangUp()
            await dispatcher.cancelled.wait()
        }
    }

    @Test func `a thousand who say nothing keep nobody out`() async throws {
        try await withServer { directory, _ in
            var idle: [RawPeer] = []
            for _ in 0..<1_000 {
                let peer = try RawPeer(directory)
                // Accepted: more callers than may wait for that would keep this thread.
                await peer.send("#\n")
                #expect(await peer.line().contains("-32700"))
                idle.append(peer)
            }
            let client = try await connected(directory)
            for number in 0..<100 {
                #expect(try await client.call(Echo.self, Echo.Payload(text: "\(number)")).text == "\(number)")
            }
            for peer in idle { peer.hangUp() }
        }
    }

    // MARK: - Raw streams

    @Test(arguments: Transport.allCases)
    func `one that dies within a stream that says nothing is noticed`(transport: Transport) async throws {
        try await untilDrained(over: transport) { connect, dispatcher in
            let peer = try connect()
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.idle","params":{},"raw":true}"# + "\n")
            #expect(await peer.line().contains(#""result":{}"#))
            peer.hangUp()
            await dispatcher.cancelled.wait()
        }
    }

    @Test(arguments: Transport.allCases)
    func `a stream ends when its service has, whatever its caller still sends`(transport: Transport) async throws {
        try await untilDrained(over: transport) { connect, _ in
            let peer = try connect()
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.short","params":{},"raw":true}"# + "\n")
            #expect(await peer.line().contains(#""result":{}"#))
            // Far more than any buffer holds: it is taken, and thrown away.
            let bytes = frame(1 << 20)
            for _ in 0..<40 { await peer.send(bytes: bytes) }
            // What the service has sent, and its end.
            #expect(await peer.line() == String(decoding: frame(3) + frame(0), as: UTF8.self))
        }
    }

    // MARK: - When the device stops

    /// A way to keep a connection busy, for a caller that never reads.
    enum Deaf: String, CaseIterable {
        case says, answers, batch, raw, messages, halfClosed, registers

        /// What it sends.
        var lines: String {
            switch self {
            // The beginning of a line.
            case .says: #"{"jsonrpc":"2.0","id":1,"meth"#
            // Answers of twenty megabytes.
            case .answers, .halfClosed: (1...20).map { Deaf.echo($0) + "\n" }.joined()
            case .batch: (1...20).map { "[" + Deaf.echo($0) + "]\n" }.joined()
            case .raw: #"{"jsonrpc":"2.0","id":1,"method":"test.flood","params":{},"raw":true}"# + "\n"
            case .messages:
                Deaf.hello + request(1, "test.count")
                    + #"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"message":{"value":1000000}}}"# + "\n"
            case .registers:
                Deaf.hello
                    + request(1, "rpc.register", #"{"service":"deaf","methods":[{"name":"now","kind":"query"}]}"#)
            }
        }

        private static let hello = request(0, "rpc.hello", #"{"protocol":2}"#)

        private static func echo(_ id: Int) -> String {
            String(request(id, "test.echo", #"{"text":"\#(String(repeating: "x", count: 1_000_000))"}"#).dropLast())
        }
    }

    @Test(arguments: Deaf.allCases, Transport.allCases)
    func `who reads nothing does not keep a device from stopping`(deaf: Deaf, transport: Transport) async throws {
        let (peers, sending) = (Locked<[RawPeer]>([]), Locked<[Task<Void, Never>]>([]))
        try await untilDrained(over: transport) { connect, dispatcher in
            for _ in 0..<3 {
                let peer = try connect()
                peers.set(peers.value + [peer])
                // It ends when the server takes no more, or has ended.
                let task = Task {
                    await peer.send(deaf.lines)
                    if deaf == .halfClosed { peer.endSending() }
                }
                sending.set(sending.value + [task])
            }
            // Somebody who reads is served all the same, and then the others have had their turn.
            let reader = try connect()
            for number in 0..<200 {
                await reader.send(request(number, "test.echo", #"{"text":"hi"}"#))
                #expect(await reader.line().contains(#""text":"hi""#))
            }
        } ending: { server in
            await server.end()
        }
        // Still there, they find that they were left.
        for task in sending.value { await task.value }
    }
}
