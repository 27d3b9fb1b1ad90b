import Foundation
import Kith
import KithClient

extension Bench {
    /// A query that gives its input back.
    private enum Echo: Method {
        typealias Input = ByteString
        typealias Output = ByteString
        static let header = MethodHeader.query("bench.echo", by: .paired, "Gives its input back.")
    }

    private struct EchoService: Service {
        var handlers: [Handler] { [.call(Echo.self) { input, _ in input }] }
    }

    /// The least an asynchronous call in process costs.
    private actor Actor {
        func echo(_ input: ByteString) -> ByteString { input }
    }

    /// One small call after another: in process, over the socket and to another device on loopback, each beside what it
    /// rests on, in turn, as the machine is quicker at one moment than at another.
    static func calls(rounds: Int, into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var options = Device.Options()
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        options.services = .only([EchoService()])
        options.apiPort = 0
        let near = try await Device.open(directory: folder + "/near", options: options)
        (options.name, options.apiPort) = ("far", nil)
        let far = try await Device.open(directory: folder + "/far", options: options)
        var results: [Samples] = []
        try await far.whileRunning {
            try await near.whileRunning {
                try await pair(near, with: far)
                results = try await measureCalls(near, directory: folder + "/near", rounds: rounds)
            }
        }
        for samples in results {
            for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
                let value = percentile(share, of: samples.microseconds)
                if let goal = samples.goal, share == 0.5 {
                    report.add("\(samples.name), \(name)", value, "µs", atMost: goal)
                } else {
                    report.add("\(samples.name), \(name)", value, "µs")
                }
            }
            if let allocations = samples.allocations {
                report.add("\(samples.name), allocations", allocations, "")
            }
        }
    }

    /// What one kind of call took.
    private struct Samples {
        var name: String
        var goal: Double?
        var microseconds: [Double] = []
        var allocations: Double?
    }

    /// On the task pool: from the main actor, each call would cost two threads their waking.
    @concurrent private static func measureCalls(_ near: Device, directory: String, rounds: Int) async throws
        -> [Samples]
    {
        guard let carrier = try await SocketCarrier.connect(directory: directory) else {
            throw KithError(.closed, "The device is not there.")
        }
        guard let endpoint = try APIEndpoint.read(directory: directory) else {
            throw KithError(.closed, "The device has no port for programs.")
        }
        let loopback = try await SocketCarrier.connect(
            tcp: endpoint.port, token: endpoint.token, proof: endpoint.proof)
        let (client, outside, input) = (near.client, Client(carrier), ByteString([1, 2, 3, 4]))
        let overTCP = Client(loopback)
        let actor = Actor()
        let sockets = try SocketPair()
        let streams = try await pair()
        let incoming = streams.incoming
        let echoing = Task {
            for await stream in incoming.incomingStreams {
                do {
                    guard let bytes = try await stream.read(upTo: 4096) else { continue }
                    try await stream.write(bytes)
                    try await stream.finish()
                } catch {
                    stream.abort(.closed)  // the caller has its answer, and is gone
                }
            }
        }
        let outgoing = streams.outgoing
        let kinds: [(String, Double?, () async throws -> Void)] = [
            ("actor call", nil, { _ = await actor.echo(input) }),
            ("call in process", 5, { _ = try await client.call(Echo.self, input) }),
            ("socket pair, round trip of two threads", nil, { try sockets.roundTrip() }),
            ("call over the socket", 100, { _ = try await outside.call(Echo.self, input) }),
            ("call over loopback TCP", 200, { _ = try await overTCP.call(Echo.self, input) }),
            (
                "QUIC stream opened, round trip", nil,
                {
                    let stream = try await outgoing.openStream()
                    try await stream.write(input.bytes)
                    _ = try await stream.read(upTo: 4096)
                    // The other end has ended already.
                    try? await stream.finish()
                }
            ),
            ("call to another device", 250, { _ = try await client.call(Echo.self, input, on: "far") }),
        ]
        var results = kinds.map { Samples(name: $0.0, goal: $0.1) }
        for turn in 0..<5 {
            for (index, kind) in kinds.enumerated() {
                for _ in 0..<(turn == 0 ? 200 : 20) { try await kind.2() }
                let meter = Meter()
                var samples: [Double] = []
                samples.reserveCapacity(rounds / 5)
                for _ in 0..<rounds / 5 {
                    let began = ContinuousClock.now
                    try await kind.2()
                    samples.append((ContinuousClock.now - began).inSeconds * 1e6)
                }
                results[index].allocations = Double(meter.allocationCount) / Double(rounds / 5)
                results[index].microseconds += samples
            }
        }
        sockets.close()
        carrier.close()
        loopback.close()
        await close(streams)
        echoing.cancel()
        return results
    }

    /// Pairs two devices that run.
    static func pair(_ near: Device, with far: Device) async throws {
        let invitation = try await far.client.call(
            Invitations.Create.self, .init(grants: [], lifetimeSeconds: 60, isAutomatic: true))
        let joining = try await near.client.open(
            PairingMethods.Join.self, .init(invitation: invitation.text, grants: [])
        ).stream
        for try await event in joining.messages {
            switch event {
            case .compare: try await joining.send(.init(accept: true))
            case .paired: return
            case .failed(let code, let message): throw KithError(code, message)
            @unknown default: throw KithError(.unsupported, "The other device is of a later version.")
            }
        }
    }
}

/// Two sockets and a thread that echoes what it reads.
private struct SocketPair: Sendable {
    private let near: CInt
    private let far: CInt

    init() throws {
        var ends: [CInt] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else {
            throw KithError(.exhausted, "no socket pair")
        }
        let (near, far) = (ends[0], ends[1])
        (self.near, self.far) = (near, far)
        Thread.detachNewThread {
            var byte: UInt8 = 0
            while read(far, &byte, 1) == 1, write(far, &byte, 1) == 1 {}
        }
    }

    func roundTrip() throws {
        var byte: UInt8 = 1
        guard write(near, &byte, 1) == 1, read(near, &byte, 1) == 1 else { throw KithError(.closed, "no echo") }
    }

    func close() {
        shutdown(near, Int32(SHUT_RDWR))
        _ = Foundation.close(near)
    }
}
