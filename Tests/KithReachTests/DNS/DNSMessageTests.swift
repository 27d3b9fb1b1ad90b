import KithReach
import KithTesting
import KithWire
import Testing

@Suite("DNS messages") struct DNSMessageTests {
    private func name(_ text: String) throws -> DNSName { try #require(DNSName(text)) }

    private func expected() throws -> DNSMessage {
        let example = try name("example.org")
        func below(_ label: String) throws -> DNSName { try name("\(label).example.org") }
        var message = DNSMessage(id: 0xBEEF, asking: try below("www"), for: .a)
        message.isResponse = true
        message.isAuthoritative = true
        message.wantsRecursion = true
        message.answers = [
            DNSRecord(try below("www"), timeToLive: 300, .address(NetworkAddress(ipv4: (192, 0, 2, 7), port: 0))),
            DNSRecord(try below("www"), timeToLive: 300, .address(try #require(NetworkAddress("[2001:db8::7]:0")))),
            DNSRecord(example, timeToLive: 300, .server(try below("ns"))),
            DNSRecord(try below("a"), timeToLive: 300, .alias(try below("www"))),
            DNSRecord(try name("7.2.0.192.in-addr.arpa"), timeToLive: 300, .pointer(try below("www"))),
            DNSRecord(try below("t"), timeToLive: 300, .text(["one", "two=2", ""].map { Array($0.utf8) })),
            DNSRecord(
                try below("_x._udp"), timeToLive: 300,
                .service(priority: 1, weight: 2, port: 3_478, host: try below("host"))),
            DNSRecord(
                try below("m"), timeToLive: 300,
                .other(DNSType(rawValue: 15), [0, 10, 4, 0x6D, 0x61, 0x69, 0x6C, 0xC0, 0x10])),
        ]
        message.authorities = [
            DNSRecord(
                example, timeToLive: 5,
                .authority(
                    DNSAuthority(
                        server: try below("ns"), mailbox: try below("host\\.master"), serial: 7, refresh: 3_600,
                        retry: 600, expire: 86_400, minimum: 5)))
        ]
        message.additional = [.options(datagramSize: 8_192)]
        return message
    }

    @Test func `what another implementation wrote is read`() throws {
        let message = try DNSMessage(RecordVectors.everyType)
        #expect(message == (try expected()))
        #expect(message.questions.first?.name.description == "Www.Example.ORG")
    }

    @Test func `what is written reads the same, and names are written once`() throws {
        let message = try expected()
        let bytes = try message.encoded()
        #expect(try DNSMessage(bytes) == message)
        #expect(bytes.count <= RecordVectors.everyType.count)
    }

    @Test(arguments: ["", "..", ".a", "a..b", String(repeating: "a", count: 64), #"a\25"#, #"a\256"#, "a\\"])
    func `what is no name is refused`(text: String) {
        #expect(DNSName(text) == nil)
    }

    @Test func `a name may have 255 bytes on the wire and no more`() {
        let labels = [[UInt8]](repeating: [UInt8](repeating: 97, count: 63), count: 3)
        #expect(DNSName(labels: labels + [[UInt8](repeating: 97, count: 61)])?.length == 255)
        #expect(DNSName(labels: labels + [[UInt8](repeating: 97, count: 62)]) == nil)
    }

    @Test func `names are told apart by labels, not by dots or case`() throws {
        #expect(try name("A.b") == name("a.B."))
        #expect(try name(#"a\.b"#) != name("a.b"))
        #expect(try name("x.Example.org").removing(name("example.ORG")) == name("x"))
        #expect(try name("xexample.org").removing(name("example.org")) == nil)
        #expect(DNSName(".") == .root)
        #expect(DNSName(labels: [[0, 0x2E, 0xFF]])?.description == #"\000\.\255"#)
    }

    private static let head: [UInt8] = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]

    @Test(arguments: [
        head + [0xC0, 12, 0, 1, 0, 1],  // to itself
        head + [0xC0, 14, 0, 0, 1, 0, 1],  // ahead
        head + [1, 97, 0xC0, 12, 0, 1, 0, 1],  // round and round
        head + [0x40, 0, 0, 1, 0, 1], head + [0x80, 0, 0, 1, 0, 1],  // reserved lengths
        head + [0, 0, 1, 0, 1, 0],  // a byte too many
        head + [0, 0, 1, 0], Array(head.prefix(11)),
        Array(head.prefix(7)) + [1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 3, 1, 2, 3],  // A of 3
        Array(head.prefix(7)) + [1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 16, 0, 1, 0, 0, 0, 1, 0, 0],  // TXT of nothing
        Array(head.prefix(7)) + [1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 16, 0, 1, 0, 0, 0, 1, 0, 2, 2, 97],
        Array(head.prefix(7)) + [1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 1, 0, 2, 0, 0],
    ])
    func `what is no message is refused`(bytes: [UInt8]) {
        #expect(throws: WireError.self) { try DNSMessage(bytes) }
    }

    @Test func `pointers to pointers are followed for as long as a name could need`() throws {
        // 8,000 pointers, each to the one before it, and as many questions as fit behind them: minutes of work.
        var bytes: [UInt8] = [0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0]
        while bytes.count < 16_384 {
            let target = bytes.count == 13 ? 12 : bytes.count - 2
            bytes += [0xC0 | UInt8(target >> 8), UInt8(target & 0xFF)]
        }
        while bytes.count + 6 <= 65_535 { bytes += [0xFF, 0xFE, 0, 1, 0, 1] }
        #expect(throws: WireError.self) { try DNSMessage(bytes) }
    }
}
