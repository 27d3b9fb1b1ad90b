import ArgumentParser
import Foundation
import KithReach
import NIOCore
import NIOPosix

/// Puts a load on a relay of this machine, and prints what came of it as JSON.
///
/// Used by scripts/bench.
@main
struct RelayLoad: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kith-relay-load", abstract: "Put a load on a relay of this machine.",
        subcommands: [Forward.self, Idle.self])

    /// The relay.
    struct Relay: ParsableArguments {
        @Argument(help: "The port of 127.0.0.1 at which the relay listens.")
        var port: Int

        @Flag(help: "Speak TLS; whatever certificate it shows is taken.")
        var tls = false
    }

    /// Prints a line at once, to a pipe too.
    static func say(_ values: [String: Double]) throws {
        let data = try JSONSerialization.data(withJSONObject: values, options: .sortedKeys)
        FileHandle.standardOutput.write(data + Data("\n".utf8))
    }
}

extension RelayLoad {
    struct Forward: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send datagrams of 1200 to 1400 bytes from clients to others: how many arrive, and how soon.")

        @OptionGroup var relay: Relay

        @Option(help: "The number of pairs of clients.")
        var pairs = 4

        @Option(help: "The time, in seconds.")
        var seconds = 5

        @Option(help: "The datagrams that travel in one frame.")
        var batch = 1

        @Option(help: "Send a datagram each so many milliseconds, and measure the time it takes; 0: as many as pass.")
        var every = 0

        @Option(help: "The threads of this program.")
        var threads = 1

        @Option(help: "Send by QUIC to the relay with this key, which stands in its URL.")
        var key: String?

        func run() async throws {
            let group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
            if let key { return try await runByQUIC(key, group) }
            var flows: [Flow] = []
            for _ in 0..<pairs {
                flows.append(
                    try await Flow.open(relay, on: group.next(), batch: batch, every: .milliseconds(Int64(every))))
            }
            let start = ContinuousClock.now
            for flow in flows { flow.begin() }
            try await Task.sleep(for: .seconds(seconds))
            var (bytes, datagrams, delays) = (0, 0, [Double]())
            for flow in flows {
                let result = try await flow.end()
                bytes += result.bytes
                datagrams += result.datagrams
                delays += result.delays
            }
            let took = (ContinuousClock.now - start) / .seconds(1)
            delays.sort()
            var values = ["bytes": Double(bytes), "datagrams": Double(datagrams), "seconds": took]
            if !delays.isEmpty {
                values["p50"] = delays[delays.count / 2]
                values["p99"] = delays[delays.count * 99 / 100]
            }
            try RelayLoad.say(values)
            try await group.shutdownGracefully()
        }

        private func runByQUIC(_ key: String, _ group: MultiThreadedEventLoopGroup) async throws {
            guard let address = RelayAddress("\(relay.tls ? "https" : "http")://127.0.0.1:\(relay.port)#\(key)") else {
                throw ValidationError("\(key) is not the key of a relay.")
            }
            var flows: [QUICFlow] = []
            for _ in 0..<pairs { flows.append(try await QUICFlow.open(address, on: group.next(), batch: batch)) }
            let start = ContinuousClock.now
            for flow in flows { flow.begin() }
            try await Task.sleep(for: .seconds(seconds))
            var (bytes, datagrams) = (0, 0)
            for flow in flows {
                let result = await flow.end()
                bytes += result.bytes
                datagrams += result.datagrams
            }
            let took = (ContinuousClock.now - start) / .seconds(1)
            try RelayLoad.say(["bytes": Double(bytes), "datagrams": Double(datagrams), "seconds": took])
            try await group.shutdownGracefully()
        }
    }

    struct Idle: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Hold clients that do nothing, until the end of the input; they come back when they are closed.")

        @OptionGroup var relay: Relay

        @Option(help: "The number of clients.")
        var clients = 1_000

        func run() async throws {
            var limit = rlimit()
            unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = limit.rlim_max
            unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let crowd = try Crowd(relay, count: clients, on: group.next())
            for await open in crowd.changes { try RelayLoad.say(open) }
        }
    }
}
