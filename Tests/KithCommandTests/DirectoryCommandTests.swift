import Foundation
import KithIdentity
import KithNet
import KithReach
import KithTesting
import KithWire
import Synchronization
import Testing

/// `kith directory`, as a process.
@Suite(.timeLimit(.minutes(4))) struct DirectoryCommandTests {
    private struct Started: Decodable {
        var directory: String
        var records: Int
        var failure: String?
    }

    /// Runs a directory until `body` is through; then it is killed, or ended as by Ctrl-C.
    private func withDirectory<Result>(
        _ machine: Machine, _ options: [String], isKilled: Bool = false, byEnvironment: Bool = false,
        _ body: (DirectoryAddress, Started) async throws -> Result
    ) async throws -> Result {
        let running = try machine.start(
            ["directory", "--listen", "127.0.0.1:0", "--json"] + options, byEnvironment: byEnvironment)
        do {
            try await eventually { running.soFar.contains("}") || !running.process.isRunning }
            let started = try JSONDecoder().decode(Started.self, from: Data(running.soFar.utf8))
            let result = try await body(try #require(DirectoryAddress(started.directory)), started)
            if isKilled { kill(running.process.processIdentifier, SIGKILL) } else { running.process.terminate() }
            let status = try await running.outcome(seconds: 30).status
            #expect(status == (isKilled ? 128 + SIGKILL : 0))
            return result
        } catch {
            running.process.terminate()
            throw error
        }
    }

    /// Publishes one new device after the other until a record is not kept.
    private static func write(
        to address: DirectoryAddress, by client: DirectoryClient, at time: UInt64, _ answered: Answered
    ) async {
        // An empty record is always short enough.
        while let record = try? DeviceRecord().signed(by: DeviceKey(), at: time),
            await client.publish(record).kept == [address]
        { answered.add(record) }
    }

    @Test func `killed while it writes, it opens again with everything it said it keeps`() async throws {
        let machine = try Machine("directory")
        var kept: [SignedRecord] = []
        var writers: [Task<Void, Never>] = []
        for round in 0..<4 {
            kept += try await withDirectory(machine, [], isKilled: true) { address, started in
                #expect(started.records >= kept.count)
                for record in kept.suffix(20) {
                    #expect(try await DirectoryClient([address]).resolve(record.device)?.record == record)
                }
                // It is killed amid these: when forty have been answered, others are on their way.
                let answered = Answered()
                let client = try DirectoryClient([address])
                for _ in 0..<8 {
                    writers.append(Task { await Self.write(to: address, by: client, at: UInt64(round + 1), answered) })
                }
                try await eventually { answered.records.count >= 40 }
                let before = answered.records
                return before
            }
            // Nobody answers them any more.
            for writer in writers { await writer.value }
            writers = []
        }
        #expect(kept.count >= 160)
        await machine.remove()
    }

    @Test(.enabled(if: EtcdCluster.isInstalled)) func `two processes on one etcd, and the relay beside them`()
        async throws
    {
        try await EtcdCluster.run { cluster in
            let machine = try Machine("shared")
            let etcd = ["--etcd", cluster.endpoints.joined(separator: ",")]
            try await withDirectory(machine, etcd, byEnvironment: true) { one, started in
                #expect(started.failure == nil)
                try await withDirectory(machine, etcd, byEnvironment: true) { two, _ in
                    let key = DeviceKey()
                    let record = try DeviceRecord().signed(by: key, at: 1)
                    #expect(try await DirectoryClient([one]).publish(record).kept == [one])
                    try await eventually { try await DirectoryClient([two]).resolve(key.id)?.record == record }
                    let relay = try machine.start(
                        ["relay", "--plain", "--listen", "127.0.0.1:0", "--stun", "none", "--json"] + etcd
                            + ["--public-url", "https://relay.example.org", "--region", "fra"], byEnvironment: true)
                    try await eventually {
                        try await cluster.control(["get", "kith/relay/", "--prefix"])
                            .contains(#""url":"https://relay.example.org""#)
                    }
                    relay.process.terminate()
                    #expect(try await relay.outcome(seconds: 30).status == 0)
                    try await eventually { try await cluster.control(["get", "kith/relay/", "--prefix"]).isEmpty }
                }
            }
            await machine.remove()
        }
    }

    @Test func `it takes a port alone, and a device that uses it says so`() async throws {
        let (machine, laptop) = (try Machine("directory"), try Machine("laptop"))
        let running = try machine.start(["directory", "--data", machine.data, "--listen", "0", "--json"])
        try await eventually { running.soFar.contains("}") || !running.process.isRunning }
        let started = try JSONDecoder().decode(Started.self, from: Data(running.soFar.utf8))
        let up = try await laptop.kith([
            "up", "--detach", "--no-invite", "--no-discovery", "--no-port-mapping", "--directory", started.directory,
        ])
        #expect(up.status == 0 && up.output.contains("  directory  \(started.directory)\n"), "\(up)")
        #expect(
            try await laptop.expect("status").contains(
                "  directory  \(started.directory)  nothing published yet, nothing asked yet\n"))
        #expect(try await laptop.expect("doctor", "--network").contains("directory \(started.directory): "))
        running.process.terminate()
        #expect(try await running.outcome(seconds: 30).status == 0)
        await laptop.remove()
        await machine.remove()
    }

    @Test func `what cannot be is said before anything is begun`() async throws {
        let machine = try Machine("directory")
        for (arguments, reason) in [
            (["directory"], "--data DIR, or --etcd URL"),
            (["directory", "--data", "x", "--etcd", "http://a"], "Choose where"),
            (["directory", "--etcd", "10.0.0.5"], "http://10.0.0.5:2379"),
            (["directory", "--etcd", "http://a:b@c"], "http://10.0.0.5:2379"),
            (["directory", "--etcd", "http://a", "--etcd-user", "u"], "go together"),
            (["directory", "--etcd", "http://a", "--etcd-cert", "u"], "go together"),
            (["directory", "--data", "x", "--etcd-ca", "u"], "--etcd says where it is"),
            (["directory", "--etcd", "http://a", "--etcd-ca", "/nowhere"], "cannot be read"),
            (
                ["directory", "--etcd", "http://a", "--etcd-user", "u", "--etcd-password", "@/nowhere"],
                "cannot be read"
            ),
            (["relay", "--plain", "--region", "fra"], "go with --etcd"),
            (["relay", "--plain", "--etcd", "http://a", "--public-url", "relay"], "--public-url takes"),
        ] {
            let outcome = try await machine.start(arguments, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status != 0 && outcome.error.contains(reason), "\(arguments): \(outcome)")
        }
        await machine.remove()
    }
}

/// The records that a directory has said it keeps.
private final class Answered: Sendable {
    private let all = Mutex<[SignedRecord]>([])
    var records: [SignedRecord] { all.withLock { $0 } }
    func add(_ record: SignedRecord) { all.withLock { $0.append(record) } }
}
