import KithIdentity
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import KithNet

/// Directories that listen, ours and an independent one, and those who use them.
@Suite("Directories") struct DirectoryTests {
    private let loopback = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)
    /// An address whose ports nobody else takes while nobody listens there: to Linux all of 127.0.0.0/8 is this machine.
    private let key = DeviceKey()

    private func withServer(
        in folder: String, _ change: (inout DirectoryServer.Options) -> Void = { _ in },
        _ body: (DirectoryServer, DirectoryAddress) async throws -> Void
    ) async throws {
        var options = DirectoryServer.Options(
            folder: folder, address: loopback, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        change(&options)
        let server = try await DirectoryServer.open(options)
        do {
            try await body(server, try #require(DirectoryAddress("http://\(server.address)")))
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    private func record(_ host: String, at time: UInt64) throws -> SignedRecord {
        try DeviceRecord(relays: [#require(RelayAddress("https://\(host)"))]).signed(by: key, at: time)
    }

    /// A directory where nothing listens: no program gets a port below 1024 by chance.
    private let deadDirectory = DirectoryAddress("http://127.0.0.1:1")

    // MARK: - Ours

    @Test(.enabled(if: PythonPeer.isInstalled("cryptography")))
    func `an independent client publishes, reads and attacks over HTTP and DNS`() async throws {
        let folder = try TemporaryFolder()
        try await withServer(
            in: folder.path,
            {
                $0.origin = "dir.example.org"
                $0.dnsAddress = loopback
            }
        ) { server, _ in
            let dns = try #require(server.dnsAddress)
            let arguments = ["use", "\(server.address.port)", "\(dns.port)", "dir.example.org"]
            try await PythonPeer.run("pkarr_peer.py", arguments) { peer in
                struct Judged: Decodable { var verdict: String }
                let verdict = try await peer.next(Judged.self).verdict
                #expect(verdict == "ok")
            }
        }
    }

    @Test func `a record is there once it was published, also after the next start`() async throws {
        let folder = try TemporaryFolder()
        let record = try record("a.example", at: 7)
        try await withServer(in: folder.path) { server, address in
            let client = try DirectoryClient([address])
            #expect(client.standings == [DirectoryClient.Standing(directory: address)])
            #expect(try await client.resolve(key.id) == nil)
            #expect(client.standings.map(\.question) == [.worked] && client.standings[0].publication == .untried)
            #expect(await client.publish(record).kept == [address])
            #expect(client.standings.map(\.publication) == [.worked])
            #expect(server.recordCount == 1)
        }
        try await withServer(in: folder.path) { _, address in
            let found = try await DirectoryClient([address]).resolve(key.id)
            #expect(found == DirectoryClient.Resolution(record: record, isFresh: true))
        }
    }

    @Test func `seven days after it was last repeated a record is forgotten`() async throws {
        let folder = try TemporaryFolder()
        let record = try record("a.example", at: 7)
        let clock = MovedClock()
        try await withServer(
            in: folder.path,
            {
                $0.clock = { clock.read() }
            }
        ) { server, address in
            func resolve() async throws -> SignedRecord? {
                try await DirectoryClient([address]).resolve(key.id)?.record
            }
            #expect(try await DirectoryClient([address]).publish(record).kept == [address])
            clock.set(1_000_000 + 6 * 86_400)
            #expect(try await DirectoryClient([address]).publish(record).kept == [address])
            clock.set(1_000_000 + 13 * 86_400 - 1)
            #expect(try await resolve() == record)
            clock.set(1_000_000 + 13 * 86_400)
            #expect(try await resolve() == nil)
            // An older one is as good as any then.
            let older = try self.record("b.example", at: 1)
            #expect(try await DirectoryClient([address]).publish(older).kept == [address])
            #expect(try await resolve() == older)
        }
        // What was repeated is on disk: it holds as long after the next start.
        try await withServer(
            in: folder.path,
            {
                $0.clock = { 1_000_000 + 20 * 86_400 - 1 }
            }
        ) { server, _ in
            #expect(server.recordCount == 1)
        }
        try await withServer(
            in: folder.path,
            {
                $0.clock = { 1_000_000 + 20 * 86_400 }
            }
        ) { server, _ in
            #expect(server.recordCount == 0)
        }
    }

    @Test func `the records of one key are limited, and those of others are not`() async throws {
        let folder = try TemporaryFolder()
        try await withServer(
            in: folder.path,
            {
                $0.limits.writesPerKey = DirectoryLimits.Rate(perSecond: 0, burst: 2)
            }
        ) { _, address in
            let client = try DirectoryClient([address])
            // A forged one uses nothing up.
            var forged = try record("a.example", at: 9).body
            forged[0] ^= 1
            let lie = try SignedRecord(unverified: key.id, body: forged)
            for _ in 0..<4 { #expect(await client.publish(lie).failures[address] == KithError(.denied, "")) }
            for time in 1...2 {
                #expect(try await client.publish(record("a.example", at: UInt64(time))).kept == [address])
            }
            #expect(
                try await client.publish(record("a.example", at: 3)).failures[address] == KithError(.exhausted, ""))
            let other = try DeviceRecord().signed(by: DeviceKey(), at: 1)
            #expect(await client.publish(other).kept == [address])
        }
    }

    @Test func `one address is limited`() async throws {
        let folder = try TemporaryFolder()
        try await withServer(
            in: folder.path,
            {
                $0.limits.readsPerAddress = DirectoryLimits.Rate(perSecond: 0, burst: 2)
                $0.limits.writesPerAddress = DirectoryLimits.Rate(perSecond: 0, burst: 1)
            }
        ) { _, address in
            let client = try DirectoryClient([address])
            for _ in 0..<2 { #expect(try await client.resolve(key.id) == nil) }
            await #expect(throws: KithError(.exhausted, "")) { try await client.resolve(key.id) }
            #expect(try await client.publish(record("a.example", at: 1)).kept == [address])
            #expect(
                try await client.publish(record("a.example", at: 2)).failures[address] == KithError(.exhausted, ""))
        }
    }

    /// Publishes a device's record, and looks it up; false when either is refused.
    private static func isServed(_ key: DeviceKey, by address: DirectoryAddress) async -> Bool {
        do {
            let client = try DirectoryClient([address])
            let record = try DeviceRecord().signed(by: key, at: 1)
            let isKept = await client.publish(record).kept == [address]
            return try await client.resolve(key.id)?.record == record && isKept
        } catch {
            return false
        }
    }

    @Test func `a thousand devices behind one address publish and look up, and nobody is refused`() async throws {
        let folder = try TemporaryFolder()
        try await withServer(in: folder.path) { server, address in
            let keys = (0..<1_000).map { _ in DeviceKey() }
            let refused = await withTaskGroup(of: Int.self) { group in
                for part in 0..<16 {
                    let share = Array(keys[(keys.count * part / 16)..<(keys.count * (part + 1) / 16)])
                    group.addTask {
                        var refused = 0
                        for key in share where !(await Self.isServed(key, by: address)) { refused += 1 }
                        return refused
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(refused == 0)
            #expect(server.recordCount == 1_000)
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("http.server")))
    func `a directory that tells of another, or what nobody has signed, is not believed`() async throws {
        let folder = try TemporaryFolder()
        try await withServer(in: folder.path) { _, honest in
            try await PythonPeer.run("lying_directory.py", []) { peer in
                struct Listening: Decodable { var port: UInt16 }
                let port = try await peer.next(Listening.self).port
                let liar = try #require(DirectoryAddress("http://127.0.0.1:\(port)"))
                let (genuine, other) = (
                    try record("a.example", at: 5), try DeviceRecord().signed(by: DeviceKey(), at: 9)
                )
                var forged = try record("b.example", at: 9).body
                forged[0] ^= 1
                #expect(try await DirectoryClient([honest]).publish(genuine).kept == [honest])
                for lie in [
                    forged, other.body, [], [UInt8](repeating: 0, count: 80), [UInt8](repeating: 1, count: 9_999),
                ] {
                    peer.send(Hex.encode(lie))
                    struct Ready: Decodable { var bytes: Int }
                    #expect(try await peer.next(Ready.self).bytes == lie.count)
                    await #expect(throws: KithError(.corrupt, "")) { try await DirectoryClient([liar]).resolve(key.id) }
                    let client = try DirectoryClient([liar, honest])
                    #expect(try await client.resolve(key.id)?.record == genuine)
                }
                // One that was put back to before does not count beside one that was not.
                peer.send(Hex.encode(try record("old.example", at: 4).body))
                struct Ready: Decodable { var bytes: Int }
                _ = try await peer.next(Ready.self)
                var options = DirectoryClient.Options()
                options.grace = .seconds(60)
                #expect(try await DirectoryClient([liar, honest], options: options).resolve(key.id)?.record == genuine)
            }
        }
    }

    @Test func `in a full directory the oldest record gives way, on disk as well`() async throws {
        let folder = try TemporaryFolder()
        let clock = MovedClock()
        let keys = (0..<3).map { _ in DeviceKey() }
        func change(_ options: inout DirectoryServer.Options) {
            options.clock = { clock.read() }
            options.limits.records = 2
        }
        try await withServer(in: folder.path, change) { server, address in
            let client = try DirectoryClient([address])
            for (index, key) in keys.enumerated() {
                clock.set(1_000_000 + Int64(index))
                let record = try DeviceRecord().signed(by: key, at: 1)
                #expect(await client.publish(record).kept == [address])
            }
            #expect(server.recordCount == 2)
        }
        try await withServer(in: folder.path, change) { server, address in
            #expect(server.recordCount == 2)
            let client = try DirectoryClient([address])
            #expect(try await client.resolve(keys[0].id) == nil)
            for key in keys[1...] { #expect(try await client.resolve(key.id) != nil) }
        }
    }

    @Test func `a folder or a port that is taken is said so`() async throws {
        let (folder, other) = (try TemporaryFolder(), try TemporaryFolder())
        try await withServer(in: folder.path) { server, _ in
            await #expect(throws: KithError(.conflict, "")) { try await withServer(in: folder.path) { _, _ in } }
            await #expect(throws: KithError(.conflict, "")) {
                try await withServer(
                    in: other.path,
                    {
                        $0.address = server.address
                    }
                ) { _, _ in
                }
            }
        }
        await #expect(throws: KithError(.denied, "")) { try await withServer(in: "/proc/directory") { _, _ in } }
        await #expect(throws: KithError(.invalid, "")) {
            try await withServer(
                in: other.path,
                {
                    $0.origin = "a..b"
                }
            ) { _, _ in
            }
        }
        // What is no database is not overwritten.
        try other.write(Array("not a database, and long enough to be looked at".utf8), to: "records.sqlite")
        for name in try other.files() where name != "records.sqlite" { Issue.record("left behind: \(name)") }
        await #expect(throws: KithError(.corrupt, "")) { try await withServer(in: other.path) { _, _ in } }
        #expect(try other.bytes("records.sqlite").starts(with: Array("not a database".utf8)))
    }

    // MARK: - The client

    @Test(.enabled(if: PythonPeer.isInstalled("cryptography")))
    func `the client publishes to an independent directory, and reads what it keeps`() async throws {
        try await PythonPeer.run("pkarr_peer.py", ["serve"]) { peer in
            struct Listening: Decodable { var port: UInt16 }
            let port = try await peer.next(Listening.self).port
            let address = try #require(DirectoryAddress("http://127.0.0.1:\(port)"))
            let client = try DirectoryClient([address])
            let record = try record("a.example", at: 7)
            #expect(try await client.resolve(key.id) == nil)
            #expect(await client.publish(record).kept == [address])
            #expect(try await client.resolve(key.id)?.record == record)
            let older = try await client.publish(self.record("b.example", at: 6))
            #expect(older.kept.isEmpty && older.newerTime == 7)
            #expect(older.failures[address] == KithError(.conflict, ""))
        }
    }

    @Test func `of several directories the newest record counts, and one that is away does not matter`() async throws {
        let (first, second) = (try TemporaryFolder(), try TemporaryFolder())
        let (older, newer) = (try record("old.example", at: 1), try record("new.example", at: 2))
        let dead = try #require(deadDirectory)
        try await withServer(in: first.path) { _, one in
            try await withServer(in: second.path) { _, two in
                #expect(try await DirectoryClient([one]).publish(older).kept == [one])
                #expect(try await DirectoryClient([two]).publish(newer).kept == [two])
                var options = DirectoryClient.Options()
                options.grace = .seconds(60)
                let client = try DirectoryClient([one, dead, two], options: options)
                #expect(try await client.resolve(key.id)?.record == newer)
                let publication = try await client.publish(record("third.example", at: 3))
                #expect(Set(publication.kept) == [one, two])
                #expect(publication.failures[dead] == KithError(.unreachable, ""))
            }
        }
    }

    @Test func `what was found is remembered when the directory is away, and no rolled back one counts`() async throws {
        let (folder, empty) = (try TemporaryFolder(), try TemporaryFolder())
        let (older, newer) = (try record("old.example", at: 1), try record("new.example", at: 2))
        let clock = ManualClock()
        try await Door.run { door in
            let client = try DirectoryClient([door.address], options: DirectoryClient.Options(), ticker: clock)
            try await withServer(in: folder.path) { _, directory in
                door.lead(to: directory)
                #expect(await client.publish(newer).kept == [door.address])
                let found = try await client.resolve(key.id)
                #expect(found?.record == newer)
                door.lead(to: nil)
            }
            // Not asked again within its time; then asked, and nobody answers.
            let early = try await client.resolve(key.id)
            #expect(early?.isFresh == true)
            clock.advance(by: .seconds(31))
            let late = try await client.resolve(key.id)
            #expect(late == DirectoryClient.Resolution(record: newer, isFresh: false))
            await #expect(throws: KithError(.unreachable, "")) { try await client.resolve(DeviceKey().id) }
            try await withServer(in: empty.path) { _, directory in
                door.lead(to: directory)
                let publication = try await DirectoryClient([directory]).publish(older)
                #expect(publication.kept == [directory])
                let found = try await client.resolve(key.id)
                #expect(found?.record == newer)
            }
        }
    }

    @Test func `a directory that says nothing is not waited for`() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        let silent = try #require(DirectoryAddress("http://127.0.0.1:\(port)"))
        var options = DirectoryClient.Options()
        options.patience = .milliseconds(100)
        let client = try DirectoryClient([silent], options: options)
        await #expect(throws: KithError(.timedOut, "")) { try await client.resolve(key.id) }
        #expect(try await client.publish(record("a.example", at: 1)).failures[silent] == KithError(.timedOut, ""))
        try await listener.close()
    }

    @Test func `a publisher whose clock was set back and memory lost goes on where a directory is`() async throws {
        let folder = try TemporaryFolder()
        try await withServer(in: folder.path) { _, address in
            #expect(try await DirectoryClient([address]).publish(record("old.example", at: 5_000)).kept == [address])
            let kept = KeptTimes()
            let clock = ManualClock()
            let publisher = RecordPublisher(
                key: key, client: try DirectoryClient([address]), ticker: clock, clock: { 17 },
                keepTime: { kept.note($0) })
            let relay = try #require(RelayAddress("https://new.example"))
            await publisher.publish(DeviceRecord(relays: [relay]))
            try await withThrowingTaskGroup { group in
                group.addTask { await publisher.run() }
                try await eventually {
                    let found = try await DirectoryClient([address]).resolve(key.id)?.record
                    return try found.map { try DeviceRecord($0).relays == [relay] } ?? false
                }
                #expect(kept.all == [17, 5_001])
                // A change is published at once, here after the least time between two.
                await publisher.publish(DeviceRecord(userData: "hello"))
                try await eventually {
                    clock.advance(by: .seconds(1))
                    return try await DirectoryClient([address]).resolve(key.id)?.record.time == 5_002
                }
                group.cancelAll()
            }
        }
    }
}

/// A clock for a server that a test moves.
private final class MovedClock: Sendable {
    private let now = Mutex<Int64>(1_000_000)
    func read() -> Int64 { now.withLock { $0 } }
    func set(_ value: Int64) { now.withLock { $0 = value } }
}

/// The times a publisher kept.
private final class KeptTimes: Sendable {
    private let times = Mutex<[UInt64]>([])
    var all: [UInt64] { times.withLock { $0 } }
    func note(_ time: UInt64) { times.withLock { $0.append(time) } }
}
