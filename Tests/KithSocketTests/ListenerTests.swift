import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithSocket

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

#if canImport(Glibc)
private let streamSocket = Int32(SOCK_STREAM.rawValue)
#else
private let streamSocket = SOCK_STREAM
#endif

/// Something callers connect to.
enum Transport: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case unix, loopback
    var testDescription: String { rawValue }
}

/// A TCP socket on 127.0.0.1, for tests alone.
struct Loopback {
    let number: Int32
    let port: UInt16

    init() throws {
        let number = socket(AF_INET, streamSocket, 0)
        self.number = number
        var address = Self.address(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(number, $0, length) == 0 && listen(number, 16) == 0 ? getsockname(number, $0, &length) : -1
            }
        }
        guard status == 0 else { throw KithError(.unreachable, "errno \(errno)") }
        port = address.sin_port
    }

    /// A connection to `port`, which stands as the network writes it.
    static func connect(_ port: UInt16) throws -> Int32 {
        let number = socket(AF_INET, streamSocket, 0)
        var address = address(port: port)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                systemConnect(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw KithError(.unreachable, "errno \(errno)") }
        return number
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}

private func systemConnect(_ number: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    connect(number, address, length)
}

/// Runs a server whose callers come over `transport`, and gives one of them.
func withPeer(
    over transport: Transport, admits: @escaping @Sendable (PeerCredentials) -> Bool = { _ in true },
    _ body: @Sendable (RawPeer, FakeDispatcher) async throws -> Void
) async throws {
    let folder = try TemporaryFolder()
    let dispatcher = FakeDispatcher()
    let listener: SocketListener
    let port: UInt16
    switch transport {
    case .unix:
        listener = try .unix(directory: folder.path)
        port = 0
    case .loopback:
        let loopback = try Loopback()
        listener = SocketListener(owning: loopback.number, name: "loopback", mayHalfClose: false, admits: admits)
        port = loopback.port
    }
    let server = try SocketServer(listener, dispatcher: dispatcher, logger: .quiet)
    try await whileRunning(server) {
        let peer =
            transport == .unix ? try RawPeer(folder.path) : RawPeer(owning: try Loopback.connect(port))
        try await body(peer, dispatcher)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A server over any transport` {
    @Test(arguments: Transport.allCases)
    func `answers calls and carries streams beside them`(transport: Transport) async throws {
        try await withPeer(over: transport) { peer, _ in
            await peer.send(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":{"protocol":2}}"# + "\n")
            #expect(await peer.line().contains(#""protocol":2"#))
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.count","credit":2}"# + "\n")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            func say(_ method: String, _ more: String = "") async {
                await peer.send(#"{"jsonrpc":"2.0","method":"\#(method)","params":{"id":1\#(more)}}"# + "\n")
            }
            await say("$/message", #","message":{"value":3}"#)
            for value in 0..<2 { #expect(await peer.line().contains(#""message":{"value":\#(value)}"#)) }
            await peer.send(#"{"jsonrpc":"2.0","id":2,"method":"test.echo","params":{"text":"hi"}}"# + "\n")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":2,"result":{"text":"hi"}}"#)
            await say("$/credit", #","messages":8"#)
            #expect(await peer.line().contains(#""message":{"value":2}"#))
            await say("$/finish")
            #expect(await peer.line().contains(#""message":{"value":-1}"#))
            #expect(await peer.line().contains("$/finish"))
            #expect(await peer.line() == #"{"jsonrpc":"2.0","method":"$/end","params":{"id":1}}"#)
        }
    }

    @Test(arguments: Transport.allCases)
    func `lets a stream take over the connection`(transport: Transport) async throws {
        try await withPeer(over: transport) { peer, _ in
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.loop","raw":true}"# + "\n")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":1,"result":"ready"}"#)
            // A frame of four bytes, one of which ends what this peer takes for a line.
            await peer.send("\0\0\0\u{4}abc\n")
            #expect(await peer.line() == "\0\0\0\u{4}abc")
        }
    }

    @Test(arguments: Transport.allCases)
    func `calls off what runs when its caller goes`(transport: Transport) async throws {
        let kept = Locked<RawPeer?>(nil)
        try await withPeer(over: transport) { peer, dispatcher in
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.hang"}"# + "\n")
            await dispatcher.started.wait()
            peer.hangUp()
            await dispatcher.cancelled.wait()
            kept.set(peer)
        }
    }

    @Test func `lets in whom the listener admits, and the system vouches for nobody over TCP`() async throws {
        let asked = Locked<PeerCredentials?>(nil)
        try await withPeer(
            over: .loopback,
            admits: {
                asked.set($0)
                return $0.isOwnUser
            }
        ) { peer, _ in
            #expect(await peer.line() == "")
        }
        #expect(asked.value == PeerCredentials(user: nil))
    }

    @Test func `answers one connection more than it takes with an error`() async throws {
        let folder = try TemporaryFolder()
        let server = try SocketServer(
            .unix(directory: folder.path), dispatcher: FakeDispatcher(), connectionLimit: 3, logger: .quiet)
        try await whileRunning(server) {
            let peers = try (0..<3).map { _ in try RawPeer(folder.path) }
            let late = try RawPeer(folder.path)
            let answer = await late.line()
            #expect(answer.contains(#""code":-32008"#) && answer.contains("More than 3 connections"), "\(answer)")
            #expect(await late.line() == "")
            for peer in peers {
                await peer.send(#"{"jsonrpc":"2.0","id":2,"method":"test.echo","params":{"text":"hi"}}"# + "\n")
                #expect(await peer.line().contains(#""result":{"text":"hi"}"#))
            }
        }
        #expect(SocketServer.connectionLimit == 2_048)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A device of another version` {
    /// Answers each of the first `count` lines with `answer`, in which ID is that of the request.
    private func answering(_ count: Int, _ answer: String, at directory: String) throws -> Task<[String], Never> {
        let listener = try SocketListener.unix(directory: directory)
        return Task {
            var accepted: RawPeer?
            while accepted == nil, !Task.isCancelled {
                let number = accept(listener.descriptor.number, nil, nil)
                if number >= 0 { accepted = RawPeer(owning: number) } else { await Task.yield() }
            }
            var lines: [String] = []
            for id in 1...count {
                guard let line = await accepted?.line(), !line.isEmpty else { break }
                lines.append(line)
                await accepted?.send(answer.replacing("ID", with: "\(id)") + "\n")
            }
            return lines
        }
    }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"No such method."}}"#,
        #"{"jsonrpc":"2.0","id":ID,"result":{"protocol":3}}"#,
    ])
    func `is not connected to`(answer: String) async throws {
        let folder = try TemporaryFolder()
        let device = try answering(1, answer, at: folder.path)
        await #expect(throws: KithError(.unsupported, "")) {
            try await SocketCarrier.connect(directory: folder.path)
        }
        #expect(await device.value.first?.contains("rpc.hello") == true)
    }

    @Test func `can be called by who asks for any version`() async throws {
        let folder = try TemporaryFolder()
        let device = try answering(1, #"{"jsonrpc":"2.0","id":ID,"result":{"text":"old"}}"#, at: folder.path)
        let carrier = try #require(try await SocketCarrier.connect(directory: folder.path, isAnyVersion: true))
        #expect(try await Client(carrier).call(Echo.self, Echo.Payload(text: "a")).text == "old")
        // Nothing was asked before.
        #expect(await device.value.first?.contains("test.echo") == true)
    }
}
