import KithAPI
import KithIdentity
import KithWire
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

@testable import KithNode

/// What the audit log says of calls, and what it costs.
@Suite struct AuditTests {
    @Test(arguments: [KithError.Code.denied, .exhausted, .invalid])
    func `what a service refuses was never allowed`(code: KithError.Code) async throws {
        let friends = try Friends(grants: [])
        for _ in 0..<3 {
            await #expect(throws: KithError(code, "")) {
                _ = try await friends.phone.client.open(Fails.self, .init(code: code, accepts: false), on: "laptop")
            }
        }
        // Each is written before its caller learns of it.
        #expect(friends.laptopDirectory.audit.map(\.isAllowed) == [false, false, false])
        #expect(friends.laptopDirectory.audit.first?.detail == "paired: As asked.")
    }

    @Test func `what fails once it was accepted was allowed`() async throws {
        let friends = try Friends(grants: [])
        let opened = try await friends.phone.client.open(
            Fails.self, .init(code: .denied, accepts: true), on: "laptop")
        await #expect(throws: KithError.self) { while try await opened.stream.read(upTo: 1) != nil {} }
        await friends.laptop.audit.waitUntilWritten()
        #expect(friends.laptopDirectory.audit.map(\.isAllowed) == [true])
    }

    @Test func `a failed call with a grant was allowed, unless it was refused`() {
        let notes = Locked<[String]>([])
        func failed(_ access: Access, _ kind: MethodKind, _ code: KithError.Code, changes: Bool = false) -> [String] {
            notes.set([])
            let note = CallNote(access, kind) { notes.set(notes.value + ["\($0 ? "allowed" : "denied") \($1)"]) }
            if changes { note.allowed() }
            note.failed(KithError(code, "Why."))
            return notes.value
        }
        #expect(failed(.granted(.shell), .stream, .notFound) == ["allowed shell"])
        #expect(failed(.granted(.shell), .stream, .exhausted) == ["denied shell: Why."])
        #expect(failed(.granted(.shell), .action, .denied, changes: true) == ["allowed shell"])
        #expect(failed(.paired, .stream, .notFound) == ["denied paired: Why."])
        #expect(failed(.paired, .query, .notFound) == [])
        #expect(failed(.paired, .query, .exhausted) == ["denied paired: Why."])
        // The presentation of an invitation notes what comes of it itself.
        #expect(failed(.anyone, .stream, .denied, changes: true) == [])
    }

    @Test func `a device with too many calls of a method is refused, and that is noted`() async throws {
        var options = Node.Options()
        options.callsPerDevice = 1
        let friends = try Friends(grants: [.shell], options: options)
        let opened = try await friends.phone.client.open(Pour.self, Nothing(), on: "laptop")
        await #expect(throws: KithError(.exhausted, "")) {
            try await friends.phone.client.call(Guarded.self, .init(rule: .shell), on: "laptop")
        }
        try await opened.stream.finish()
        #expect(friends.laptopDirectory.audit.map(\.isAllowed) == [true, false])
    }

    @Test func `a refusal is written before its caller learns of it, however slow the disk is`() async throws {
        let directory = SlowDirectory(try Friends.id(2))
        let laptop = Node(id: try Friends.id(1), directory: directory, logger: .quiet)
        try laptop.add(TestService())
        let phone = Node(
            id: try Friends.id(2),
            directory: MemoryDirectory(
                KnownDevice(
                    id: try Friends.id(1), name: "laptop", grants: [],
                    addresses: [NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)])),
            methods: TestService().handlers.map(\.method), logger: .quiet)
        phone.use(PipeDialer(try Friends.id(2), peers: [try Friends.id(1): laptop]))
        directory.onFirst.set { usleep(100_000) }  // Real time: the disk is slow.
        await #expect(throws: KithError(.denied, "")) {
            try await phone.client.call(Guarded.self, .init(rule: .owner), on: "laptop")
        }
        #expect(directory.batches.value.joined().map(\.method) == [Guarded.name])
    }

    @Test func `records that wait are written at once, in their order`() async throws {
        let directory = SlowDirectory(nil)
        let writer = AuditWriter(directory, logger: .quiet)
        func record(_ number: Int) throws -> AuditRecord {
            AuditRecord(
                device: try Friends.id(2), name: "phone", isPaired: true, method: "\(number)", isAllowed: true,
                detail: "")
        }
        let later = try (1...500).map(record)
        // While the first is on its way to the disk, the others come.
        directory.onFirst.set { for record in later { writer.write(record) } }
        writer.write(try record(0))
        while directory.batches.value.isEmpty { await Task.yield() }
        await writer.waitUntilWritten()
        #expect(directory.batches.value.map(\.count) == [1, 500])
        #expect(directory.batches.value.joined().map(\.method) == (0...500).map(String.init))
    }
}

/// A directory that does something else while it writes for the first time.
private final class SlowDirectory: DeviceDirectory {
    private let paired: DeviceID?
    let batches = Locked<[[AuditRecord]]>([])
    let onFirst = Locked<(@Sendable () -> Void)?>(nil)

    /// Knows one device, if any.
    init(_ paired: DeviceID?) { self.paired = paired }

    func record(_ records: [AuditRecord]) throws {
        if batches.value.isEmpty { onFirst.value?() }
        batches.set(batches.value + [records])
    }

    func device(_ id: DeviceID) throws -> KnownDevice? {
        id == paired ? KnownDevice(id: id, name: "phone", grants: [], addresses: []) : nil
    }
    func devices() throws -> [KnownDevice] { [] }
    func seen(_ id: DeviceID, at addresses: [NetworkAddress]) throws {}
    func announced(_ id: DeviceID, _ addresses: [NetworkAddress]) throws {}
    func standing(_ id: DeviceID, _ grants: [Grant]?) throws {}
}
