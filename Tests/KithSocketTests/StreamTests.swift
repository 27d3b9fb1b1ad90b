import Foundation
import KithAPI
import KithRPC
import KithTesting
import KithWire
import Testing

@testable import KithSocket

/// What this caller says and hears, each one line.
extension RawPeer {
    fileprivate func say(_ json: String) async { await send(json + "\n") }

    /// Says hello and opens a stream as request 1.
    fileprivate func open(_ method: String, _ more: String = "") async {
        await say(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":{"protocol":2}}"#)
        let capabilities = #""capabilities":["streams","raw","services","errors"]"#
        #expect(await line() == #"{"jsonrpc":"2.0","id":0,"result":{"protocol":2,\#(capabilities)}}"#)
        await say(#"{"jsonrpc":"2.0","id":1,"method":"\#(method)"\#(more)}"#)
    }

    fileprivate func say(message: String) async {
        await say(#"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"message":\#(message)}}"#)
    }

    fileprivate func number() async -> String? {
        let text = await line()
        let start = #"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"message":{"value":"#
        return text.hasPrefix(start) ? String(text.dropFirst(start.count).dropLast(3)) : nil
    }

    fileprivate func echo(_ id: Int) async {
        await say(#"{"jsonrpc":"2.0","id":\#(id),"method":"test.echo","params":{"text":"hi"}}"#)
        #expect(await line() == #"{"jsonrpc":"2.0","id":\#(id),"result":{"text":"hi"}}"#)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `Streams on a connection that carries others` {
    @Test func `messages go both ways beside calls, until both ends have finished`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.count")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            await peer.say(message: #"{"value":2}"#)
            #expect(await peer.number() == "0")
            #expect(await peer.number() == "1")
            await peer.echo(2)
            await peer.say(message: #"{"value":1}"#)
            #expect(await peer.number() == "0")
            await peer.say(#"{"jsonrpc":"2.0","method":"$/finish","params":{"id":1}}"#)
            #expect(await peer.number() == "-1")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","method":"$/finish","params":{"id":1}}"#)
            #expect(await peer.line() == #"{"jsonrpc":"2.0","method":"$/end","params":{"id":1}}"#)
            await peer.echo(3)
        }
    }

    @Test func `a stream that its service lets go of ends with an error`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.dropped")
            _ = await peer.line()
            #expect(await peer.line().contains("-3"))
        }
    }

    @Test func `no message comes without credit`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.count", #","credit":2"#)
            _ = await peer.line()
            await peer.say(message: #"{"value":5}"#)
            #expect(await peer.number() == "0")
            #expect(await peer.number() == "1")
            for id in 2..<50 { await peer.echo(id) }
            await peer.say(#"{"jsonrpc":"2.0","method":"$/credit","params":{"id":1,"messages":3}}"#)
            for value in 2..<5 { #expect(await peer.number() == "\(value)") }
        }
    }

    @Test func `what a service fails with after it accepted arrives with its sentence`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.count")
            _ = await peer.line()
            await peer.say(message: #"{"value":-7}"#)
            let end = await peer.line()
            #expect(end.contains(#""method":"$/end""#) && end.contains("Not below zero."), "\(end)")
            await peer.echo(2)
        }
    }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"message":{"valeu":1}}}"#,
        #"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"message":7}}"#,
        #"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"bytes":"AAAA"}}"#,
    ])
    func `a message that is none ends its stream with the reason, and nothing else`(message: String) async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.count")
            _ = await peer.line()
            await peer.say(message)
            let end = await peer.line()
            #expect(end.contains(#""method":"$/end""#) && end.contains("-32602"), "\(end)")
            await peer.echo(2)
        }
    }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","method":"$/message","params":{"id":9,"message":{"value":1}}}"#,
        #"{"jsonrpc":"2.0","method":"$/message","params":{"message":{"value":1}}}"#,
        #"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"bytes":"=A"}}"#,
        #"{"jsonrpc":"2.0","method":"$/credit","params":{"id":1,"messages":-1}}"#,
        #"{"jsonrpc":"2.0","method":"$/credit","params":{"id":1,"messages":9223372036854775807}}"#,
        #"{"jsonrpc":"2.0","method":"$/end","params":{"id":1}}"#,
        #"{"jsonrpc":"2.0","method":"$/unheard","params":{"id":1}}"#,
        #"{"jsonrpc":"2.0","method":"$/finish"}"#,
    ])
    func `a notice that makes no sense changes nothing`(notice: String) async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.count")
            _ = await peer.line()
            await peer.say(notice)
            await peer.say(message: #"{"value":1}"#)
            #expect(await peer.number() == "0")
        }
    }

    @Test func `a stream that is called off ends, and its handler`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            await peer.open("test.idle")
            _ = await peer.line()
            #expect(await peer.line().contains(#""bytes":"AQ==""#))
            await peer.say(#"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":1}}"#)
            await dispatcher.cancelled.wait()
            #expect(await peer.line().contains(#""method":"$/end""#))
            await peer.echo(2)
        }
    }

    @Test func `two streams cannot share an identifier, nor a batch`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.open("test.count")
            _ = await peer.line()
            await peer.say(#"{"jsonrpc":"2.0","id":1,"method":"test.count"}"#)
            #expect(await peer.line().contains("\"error\""))
            await peer.say(#"[{"jsonrpc":"2.0","id":3,"method":"test.count"}]"#)
            #expect(await peer.line().contains("cannot be opened in a batch"))
            await peer.say(message: #"{"value":1}"#)
            #expect(await peer.number() == "0")
        }
    }

    @Test func `what an older caller put into the parameters is refused, not done here`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            await peer.say(#"{"jsonrpc":"2.0","id":1,"method":"test.echo","params":{"text":"a","on":"laptop"}}"#)
            let answer = await peer.line()
            #expect(answer.contains("`on` stands beside `params`"), "\(answer)")
            #expect(dispatcher.last.value == nil)
            await peer.say(#"{"jsonrpc":"2.0","id":2,"method":"test.echo","on":"laptop","params":{"text":"a"}}"#)
            #expect(await peer.line().contains("\"result\""))
            #expect(dispatcher.last.value?.device == "laptop")
        }
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A stream opened by name` {
    @Test func `forty share one connection, with more bytes each than any of them holds`() async throws {
        try await withServer { directory, _ in
            let carrier = try #require(try await SocketCarrier.connect(directory: directory))
            let sent = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<40 {
                    group.addTask {
                        let stream = try await carrier.open(named: Loop.name, json: Array("{}".utf8), on: nil)
                        async let sending: Void = {
                            try await stream.send(bytes: sent)
                            try await stream.finish()
                        }()
                        var received: [UInt8] = []
                        while case .bytes(let bytes)? = try await stream.receive() { received += bytes }
                        try await sending
                        return received == sent
                    }
                }
                for try await isSame in group { #expect(isSame) }
            }
        }
    }

    @Test func `many messages come in order, and the end with its reason`() async throws {
        try await withServer { directory, _ in
            let carrier = try #require(try await SocketCarrier.connect(directory: directory))
            let stream = try await carrier.open(named: Count.name, json: Array("{}".utf8), on: nil)
            try await stream.send(Array(#"{"value":1000}"#.utf8))
            for value in 0..<1_000 {
                #expect(try await stream.receive() == .message(Array(#"{"value":\#(value)}"#.utf8)))
            }
            try await stream.send(Array(#"{"value":-1}"#.utf8))
            await #expect(throws: KithError(.denied, "")) { try await stream.receive() }
            #expect(try await Client(carrier).call(Echo.self, Echo.Payload(text: "on")).text == "on")
        }
    }

    @Test func `one that nobody holds is called off`() async throws {
        try await withServer { directory, dispatcher in
            let carrier = try #require(try await SocketCarrier.connect(directory: directory))
            _ = try await carrier.open(named: Idle.name, json: Array("{}".utf8), on: nil)
            await dispatcher.cancelled.wait()
        }
    }

    @Test func `a refusal is the error of the open, and a device that stops that of the stream`() async throws {
        let carrier = Locked<SocketCarrier?>(nil)
        let kept = Locked<(any NamedStream)?>(nil)
        try await withServer { directory, _ in
            let connected = try #require(try await SocketCarrier.connect(directory: directory))
            carrier.set(connected)
            await #expect(throws: KithError(.denied, "")) {
                _ = try await connected.open(named: Refuse.name, json: Array("{}".utf8), on: nil)
            }
            kept.set(try await connected.open(named: Listen.name, json: Array("{}".utf8), on: nil))
        }
        await #expect(throws: KithError.self) { try await kept.value?.receive() }
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A caller at the socket that goes` {
    @Test func `ends a stream whose service takes nothing, however much waits to be read`() async throws {
        try await withServer { directory, dispatcher in
            var peer: RawPeer? = try RawPeer(directory)
            await peer?.open("test.idle")
            _ = await peer?.line()
            let bytes = Base64.encode([UInt8](repeating: 7, count: 64 << 10))
            // The service's pipe is full, and so is what waits for it: nobody reads the rest, nor the end.
            for _ in 0..<5 {
                await peer?.say(#"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"bytes":"\#(bytes)"}}"#)
            }
            for _ in 0..<64 {
                await peer?.say(#"{"jsonrpc":"2.0","method":"$/message","params":{"id":1,"bytes":"AAAA"}}"#)
            }
            peer = nil
            await dispatcher.cancelled.wait()
        }
    }

    @Test func `ends a stream although another call had its identifier`() async throws {
        try await withServer { directory, dispatcher in
            var peer: RawPeer? = try RawPeer(directory)
            await peer?.open("test.idle")
            _ = await peer?.line()
            _ = await peer?.line()
            await peer?.echo(1)
            peer = nil
            await dispatcher.cancelled.wait()
        }
    }

    @Test func `ends a call whose answer it did not want`() async throws {
        try await withServer { directory, dispatcher in
            var peer: RawPeer? = try RawPeer(directory)
            await peer?.say(#"{"jsonrpc":"2.0","method":"test.hang"}"#)
            await dispatcher.started.wait()
            peer = nil
            await dispatcher.cancelled.wait()
        }
    }

    @Test func `finds what it sends waiting up to a limit, one thing that is longer alone`() async throws {
        let room = ByteRoom(10)
        #expect(room.offer(20) && !room.offer(1))
        room.giveBack(20)
        #expect(room.offer(6) && room.offer(4) && !room.offer(1))
        async let waiting: Void = room.take(5)
        room.giveBack(4)
        room.giveBack(6)
        try await waiting
        #expect(room.offer(5) && !room.offer(1))
        let cancelled = Task { try await room.take(5) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
    }
}
