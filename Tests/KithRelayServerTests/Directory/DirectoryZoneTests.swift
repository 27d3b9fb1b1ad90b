import KithIdentity
import KithReach
import KithWire
import Testing

@testable import KithRelayServer

@Suite("Zones of directories") struct DirectoryZoneTests {
    private let key: DeviceKey
    private let record: SignedRecord
    private let zone: DirectoryZone

    init() throws {
        key = try DeviceKey(seed: Array(0..<32))
        let relay = try #require(RelayAddress("https://relay.example.org#\(key.id)"))
        record = try DeviceRecord(relays: [relay]).signed(by: key, at: 1)
        let origin = try #require(DNSName("Dir.example.org"))
        let address = try #require(NetworkAddress("[2001:db8::1]:53"))
        zone = try #require(
            DirectoryZone(origin: origin, addresses: [NetworkAddress(ipv4: (192, 0, 2, 1), port: 53), address]))
    }

    private func ask(
        _ name: String, _ type: DNSType, overUDP: Bool = true, size: UInt16? = 1_232, isLimited: Bool = false,
        record: SignedRecord? = nil, change: (inout DNSMessage) -> Void = { _ in }
    ) throws -> (answer: DNSMessage, query: Int, answered: Int, result: DirectoryZone.Result) {
        var message = DNSMessage(id: 7, asking: try #require(DNSName(name)), for: type)
        message.wantsRecursion = true
        if let size { message.additional = [.options(datagramSize: size)] }
        change(&message)
        let query = try message.encoded()
        let known = record ?? self.record
        let (bytes, result) = zone.answer(query, overUDP: overUDP, isLimited: isLimited) { device in
            device == known.device ? known : nil
        }
        let answer = try #require(bytes)
        return (try DNSMessage(answer), query.count, answer.count, result)
    }

    @Test func `a device's record is answered as it stands in the record`() throws {
        let name = "_iroh.\(key.id.zBase32).dir.EXAMPLE.org"
        let (answer, _, _, result) = try ask(name, .txt)
        #expect(result == .answered)
        #expect(answer.isResponse && answer.isAuthoritative && !answer.offersRecursion && answer.id == 7)
        #expect(
            answer.answers == [
                DNSRecord(
                    try #require(DNSName(name)), timeToLive: 30, .text([Array("relay=https://relay.example.org".utf8)]))
            ])
        let own = try ask("_kith.\(key.id.zBase32).dir.example.org", .any)
        #expect(own.answer.answers.map(\.content) == [.text([Array("relay=https://relay.example.org#\(key.id)".utf8)])])
    }

    @Test func `the origin has its start and its server`() throws {
        let start = try ask("dir.example.org", .soa)
        #expect(start.answer.answers.map(\.type) == [.soa])
        let server = try ask("dir.example.org", .ns)
        #expect(server.answer.answers.map(\.content) == [.server(try #require(DNSName("ns.dir.example.org")))])
        #expect(try ask("ns.dir.example.org", .a).answer.answers.map(\.type) == [.a])
        #expect(try ask("ns.dir.example.org", .aaaa).answer.answers.map(\.type) == [.aaaa])
    }

    @Test func `what is not there is said so, for seconds`() throws {
        let other = try DeviceKey(seed: [UInt8](repeating: 9, count: 32)).id.zBase32
        for name in ["_iroh.\(other)", other, "_iroh.x", "x", "_other.\(key.id.zBase32)", "a._iroh.\(key.id.zBase32)"] {
            let (answer, _, _, result) = try ask("\(name).dir.example.org", .txt)
            #expect(result == .missing && answer.code == .nameError && answer.answers.isEmpty)
            let start = try #require(answer.authorities.first)
            #expect(start.timeToLive == 5 && start.type == .soa && start.name == zone.origin)
        }
        // The name is there, and has nothing of this type.
        for name in ["_iroh.\(key.id.zBase32)", key.id.zBase32] {
            let (answer, _, _, _) = try ask("\(name).dir.example.org", .a)
            #expect(answer.code == .success && answer.answers.isEmpty && answer.authorities.count == 1)
        }
    }

    @Test func `it answers for nobody else, and transfers nothing`() throws {
        for (name, type) in [("example.org", DNSType.txt), ("dir.example.org", DNSType(rawValue: 252)), (".", .ns)] {
            let (answer, _, _, result) = try ask(name, type)
            #expect(result == .refused && answer.code == .refused && answer.answers.isEmpty)
        }
        #expect(try ask("dir.example.org", .soa) { $0.questions[0].questionClass = 3 }.answer.code == .refused)
        #expect(try ask("dir.example.org", .soa) { $0.operation = 5 }.answer.code == .notImplemented)
        #expect(try ask("dir.example.org", .soa) { $0.questions = [] }.answer.code == .formatError)
        #expect(try ask("dir.example.org", .soa) { $0.questions += $0.questions }.answer.code == .formatError)
        // A version of EDNS that nobody knows: BADVERS.
        let (answer, _, _, _) = try ask("dir.example.org", .soa) {
            $0.additional = [.options(datagramSize: 1_232, version: 1)]
        }
        #expect(answer.options?.timeToLive == 1 << 24 && answer.answers.isEmpty)
    }

    @Test func `answers are not answered, and what is no message gets a short word`() throws {
        var message = DNSMessage(id: 7, asking: zone.origin, for: .soa)
        message.isResponse = true
        #expect(zone.answer(try message.encoded(), overUDP: true) { _ in nil }.bytes == nil)
        #expect(zone.answer([1, 2, 3], overUDP: true) { _ in nil }.bytes == nil)
        let broken = zone.answer([1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], overUDP: true) { _ in nil }.bytes
        #expect(broken?.count == 12)
        #expect(try DNSMessage(#require(broken)).code == .formatError)
    }

    @Test func `over UDP no answer is more than three times the question, and TCP has it whole`() throws {
        let addresses = (1...16).map { NetworkAddress(ipv4: (192, 0, 2, UInt8($0)), port: 4_433) }
        let large = try DeviceRecord(addresses: addresses).signed(by: key, at: 2)
        let name = "_iroh.\(key.id.zBase32).dir.example.org"
        for size in [nil, 512, 1_232, 4_096] as [UInt16?] {
            let (answer, query, answered, result) = try ask(name, .txt, size: size, record: large)
            #expect(result == .truncated && answer.isTruncated && answer.answers.isEmpty)
            #expect(answered <= query)
            #expect((answer.options == nil) == (size == nil))
        }
        let (answer, _, _, result) = try ask(name, .txt, overUDP: false, record: large)
        #expect(result == .answered && answer.answers.count == 16 && !answer.isTruncated)
        for (name, type) in [("dir.example.org", DNSType.any), ("ns.dir.example.org", .any), (name, .txt), ("x", .a)] {
            let (_, query, answered, _) = try ask(name, type, size: nil)
            #expect(answered + 28 <= 3 * (query + 28))
        }
    }

    @Test func `who asks too much over UDP is sent to TCP`() throws {
        let (answer, query, answered, result) = try ask(
            "_iroh.\(key.id.zBase32).dir.example.org", .txt, isLimited: true)
        #expect(result == .truncated && answer.isTruncated && answer.answers.isEmpty && answered <= query)
    }
}
