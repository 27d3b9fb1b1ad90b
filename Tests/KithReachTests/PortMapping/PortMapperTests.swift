import KithTesting
import KithWire
import Testing

@testable import KithReach

private let gateway = NetworkAddress(ipv4: (192, 168, 1, 1), port: 5_351)
private let local = NetworkAddress(ipv4: (192, 168, 1, 2), port: 4_433)
private let outside = NetworkAddress(ipv4: (9, 1, 1, 1), port: 0)

/// A router, as its protocols' documents say it answers.
private struct Router {
    var speaks: Set<PortMapping.Method>
    var epoch: UInt32 = 100
    var external = outside
    var port: UInt16 = 50_001
    var lifetime: UInt32 = 7_200
    /// The UPnP errors that come first.
    var errors: [Int] = []
    var asked: [String] = []
    var version = 1

    mutating func answer(_ bytes: [UInt8]) -> [UInt8]? {
        if bytes.first == 2 {
            guard speaks.contains(.pcp) else { return speaks.contains(.natPMP) ? [0, 129, 0, 1, 0, 0, 0, 1] : nil }
            asked.append("PCP \(bytes[1]) \(bytes[6]) \(bytes[7])")
            var writer = ByteWriter()
            writer.bytes([2, bytes[1] | 0x80, 0, 0])
            writer.integer(lifetime)
            writer.integer(epoch)
            writer.bytes([UInt8](repeating: 0, count: 12))
            guard bytes[1] == 1 else { return writer.bytes }
            writer.bytes(bytes[24..<42])
            writer.integer(port)
            writer.bytes([UInt8](repeating: 0, count: 10) + [0xFF, 0xFF] + external.ip)
            return writer.bytes
        }
        guard bytes.first == 0, speaks.contains(.natPMP) else { return nil }
        asked.append("NAT-PMP \(bytes[1])")
        var writer = ByteWriter()
        writer.bytes([0, bytes[1] | 0x80, 0, 0])
        writer.integer(epoch)
        if bytes[1] == 0 {
            writer.bytes(external.ip)
        } else {
            writer.bytes(bytes[4..<6])
            writer.integer(port)
            writer.integer(lifetime)
        }
        return writer.bytes
    }

    var searchAnswer: [UInt8]? {
        guard speaks.contains(.upnp) else { return nil }
        return Array(
            """
            HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r
            Location: http://192.168.1.1:5000/rootDesc.xml\r\n\r\n
            """.utf8)
    }

    mutating func answer(http request: [UInt8]) -> HTTPAnswer? {
        let text = String(decoding: request, as: UTF8.self)
        var body = """
            <?xml version="1.0"?><root><device><serviceList><service><serviceType>\
            urn:schemas-upnp-org:service:WANIPConnection:\(version)</serviceType><controlURL>/ctl</controlURL>\
            </service></serviceList></device></root>
            """
        var status = 200
        if text.hasPrefix("POST /ctl ") {
            let action = text.split(separator: "#")[1].prefix { $0 != "\"" }
            let arguments = text.components("NewExternalPort") + " " + text.components("NewLeaseDuration")
            asked.append("\(action) \(arguments)")
            if action != "GetExternalIPAddress", !errors.isEmpty {
                status = 500
                body = """
                    <s:Fault><detail><UPnPError><errorCode>\(errors.removeFirst())</errorCode></UPnPError></detail></s:Fault>
                    """
            } else {
                body = """
                    <u:\(action)Response><NewExternalIPAddress>9.1.1.1</NewExternalIPAddress>\
                    <NewReservedPort>\(port)</NewReservedPort></u:\(action)Response>
                    """
            }
            body = "<s:Envelope><s:Body>\(body)</s:Body></s:Envelope>"
        }
        return try? HTTPAnswer(Array("HTTP/1.1 \(status) x\r\n\r\n\(body)".utf8), isAll: true)
    }
}

extension String {
    /// What stands in the element of that name.
    fileprivate func components(_ name: String) -> String {
        guard let start = firstRange(of: "<\(name)>") else { return "-" }
        return String(self[start.upperBound...].prefix { $0 != "<" })
    }
}

/// A mapper, its router, and the time.
private struct World {
    var router: Router
    var mapper: PortMapper
    var now = ContinuousClock.Instant.now
    var updates: [PortMappingUpdate] = []
    var datagrams = 0

    init(_ speaks: Set<PortMapping.Method>) {
        router = Router(speaks: speaks)
        var random = SeededRandom(seed: 7)
        mapper = PortMapper(gateway: gateway, local: local, using: &random)
        mapper.start(at: now)
        settle()
    }

    mutating func settle() {
        var isBusy = true
        while isBusy {
            isBusy = false
            while let (bytes, to) = mapper.nextDatagram(at: now) {
                isBusy = true
                datagrams += 1
                if to.port == 5_351 {
                    if let answer = router.answer(bytes) { mapper.receive(answer, from: gateway, at: now) }
                } else if let answer = router.searchAnswer {
                    mapper.receive(answer, from: gateway.withPort(1_900), at: now)
                }
            }
            while let exchange = mapper.nextExchange() {
                isBusy = true
                mapper.receive(router.answer(http: exchange.request), to: exchange.number, at: now)
            }
        }
        while let update = mapper.nextUpdate() { updates.append(update) }
    }

    /// Lets time pass; the router's runs with it.
    mutating func pass(_ duration: Duration) {
        let end = now + duration
        while let deadline = mapper.nextDeadline, deadline <= end {
            let next = max(deadline, now)
            router.epoch += UInt32((next - now).components.seconds)
            now = next
            mapper.timedOut(at: now)
            settle()
        }
        router.epoch += UInt32((end - now).components.seconds)
        now = end
    }
}

private func mapping(_ method: PortMapping.Method, _ port: UInt16 = 50_001, _ life: Duration? = .seconds(7_200))
    -> PortMapping
{
    PortMapping(external: outside.withPort(port), local: local, lifetime: life, method: method)
}

@Suite struct PortMapperTests {
    @Test func `a router that speaks all three is asked by PCP alone for a mapping, in one exchange`() {
        var world = World([.pcp, .natPMP, .upnp])
        #expect(world.updates == [.mapped(mapping(.pcp))])
        world.pass(.seconds(10))
        #expect(world.updates.count == 1)
        #expect(world.router.asked.filter { $0.contains("Add") || $0 == "NAT-PMP 1" } == [])
    }

    @Test func `NAT-PMP is used as soon as PCP is refused, and UPnP after half a second without either`() {
        let world = World([.natPMP, .upnp])
        #expect(world.updates == [.mapped(mapping(.natPMP))])
        var other = World([.upnp])
        #expect(other.updates == [])
        other.pass(PortMapper.patience)
        #expect(other.updates == [.mapped(mapping(.upnp, 4_433))])
    }

    @Test(arguments: [PortMapping.Method.pcp, .natPMP])
    func `a mapping is renewed at half its life, and asked for again at once when the router forgot it`(
        method: PortMapping.Method
    ) {
        var world = World([method])
        world.pass(.seconds(1))
        #expect(world.updates == [.mapped(mapping(method))])
        let map = method == .pcp ? "PCP 1 28 32" : "NAT-PMP 1"
        let first = world.router.asked.count { $0 == map }
        world.pass(.seconds(3_500))
        #expect(world.router.asked.count { $0 == map } == first)
        world.pass(.seconds(200))
        #expect(world.router.asked.count { $0 == map } == first + 1)
        // Started anew, with another port: seen at the next look, or at once when it says so.
        world.router.epoch = 0
        world.router.port = 50_002
        world.pass(GatewayClient.checkInterval)
        #expect(world.updates.last == .mapped(mapping(method, 50_002)))
        world.router.epoch = 1
        world.router.port = 50_003
        var announcement: [UInt8] = [0, 128, 0, 0, 0, 0, 0, 1, 9, 1, 1, 1]
        if method == .pcp {
            announcement = [2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 12)
        }
        let stranger = NetworkAddress(ipv4: (192, 168, 1, 66), port: 5_351)
        world.mapper.receive(announcement: announcement, from: stranger, at: world.now)
        world.settle()
        #expect(world.updates.count == 2)
        world.mapper.receive(announcement: announcement, from: gateway, at: world.now)
        world.settle()
        #expect(world.updates.last == .mapped(mapping(method, 50_003)))
    }

    @Test func `what is mapped is given back, by the protocol it was made by`() throws {
        var world = World([.pcp])
        let release = world.mapper.release()
        let last = try #require(release.datagrams.first)
        #expect(last.count == 60 && last[1] == 1 && last[4..<8].allSatisfy { $0 == 0 })
        #expect(world.mapper.nextDeadline == nil && world.mapper.mapping == nil)

        world = World([.natPMP])
        #expect(world.mapper.release().datagrams.last == [0, 1, 0, 0, 0x11, 0x51, 0, 0, 0, 0, 0, 0])

        world = World([.upnp])
        world.pass(.seconds(1))
        let request = String(decoding: try #require(world.mapper.release().exchange).request, as: UTF8.self)
        #expect(request.contains("#DeletePortMapping\"") && request.contains("<NewExternalPort>4433<"))
    }

    @Test func `UPnP: 725 asks for a mapping without end, 718 for another port, a refusal is said in plain words`() {
        var world = World([])
        world.router.speaks = [.upnp]
        world.router.errors = [725, 718]
        world.pass(.seconds(2))
        let added = world.router.asked.filter { $0.hasPrefix("Add") }
        #expect(added.prefix(2) == ["AddPortMapping 4433 7200", "AddPortMapping 4433 0"])
        #expect(added.count == 3 && added[2].hasSuffix(" 0"))
        #expect(world.mapper.mapping?.lifetime == .some(nil))

        world = World([])
        world.router.speaks = [.upnp]
        world.router.errors = [606]
        world.pass(.seconds(2))
        let reason = "this device is not allowed to, or the router has that switched off"
        #expect(world.updates == [.unavailable(.refused(reason))])

        world = World([])
        world.router.speaks = [.upnp]
        world.router.version = 2
        world.pass(.seconds(2))
        #expect(world.mapper.mapping?.external.port == 50_001)
        #expect(world.router.asked.last == "AddAnyPortMapping 4433 7200")
    }

    @Test func `when nothing answers that is said once, and asked again after 1, 2, 4 minutes, up to an hour`() {
        var world = World([])
        world.pass(.seconds(30))
        #expect(world.updates == [.unavailable(.silent)])
        let first = world.datagrams
        world.pass(.seconds(86_400))
        #expect(world.updates.count == 1)
        // 24 hours with an attempt each, and the six before they are an hour apart.
        #expect(world.datagrams <= first * 31)
        world.router.speaks = [.pcp]
        world.pass(.seconds(3_700))
        #expect(world.updates.last == .mapped(mapping(.pcp)))
    }

    @Test func `a mapping that is not renewed holds until its end, and is then gone`() {
        var world = World([.pcp])
        world.router.speaks = []
        world.pass(.seconds(7_100))
        #expect(world.updates.count == 1)
        world.pass(.seconds(200))
        #expect(world.updates.last == .unavailable(.silent))
    }

    @Test func `answers of others, to other questions, and with another number change nothing`() {
        var random = SeededRandom(seed: 1)
        var mapper = PortMapper(gateway: gateway, local: local, using: &random)
        let now = ContinuousClock.Instant.now
        mapper.start(at: now)
        var router = Router(speaks: [.pcp])
        var answers: [[UInt8]] = []
        while let (bytes, to) = mapper.nextDatagram(at: now), to.port == 5_351 {
            if let answer = router.answer(bytes) { answers.append(answer) }
        }
        let answer = answers[0]
        mapper.receive(answer, from: NetworkAddress(ipv4: (192, 168, 1, 3), port: 5_351), at: now)
        mapper.receive(answer, from: gateway.withPort(5_352), at: now)
        var forged = answer
        forged[30] ^= 1
        mapper.receive(forged, from: gateway, at: now)
        #expect(mapper.nextUpdate() == nil)
        mapper.receive(answer, from: gateway, at: now)
        #expect(mapper.nextUpdate() == .mapped(mapping(.pcp)))

        let search = Router(speaks: [.upnp]).searchAnswer!
        #expect(UPnPSearch.location(in: search, from: gateway, to: local) != nil)
        let other = NetworkAddress(ipv4: (192, 168, 1, 3), port: 1_900)
        #expect(UPnPSearch.location(in: search, from: other, to: local) == nil)
        let place = UPnPLocation("http://192.168.1.1:5000/a/b.xml")!
        #expect(place.resolving("c")?.path == "/a/c" && place.resolving("/c")?.path == "/c")
        #expect(place.resolving("http://192.168.1.66/c") == nil && place.resolving("/c d\r\nX: y") == nil)
    }

    @Test func `a router behind another NAT is known by its address`() {
        var inner = mapping(.pcp)
        #expect(!inner.isBehindAnotherNAT)
        for address in ["10.0.0.5:1", "100.64.3.2:1", "192.168.178.2:1", "172.16.9.9:1"] {
            inner.external = NetworkAddress(address)!
            #expect(inner.isBehindAnotherNAT)
        }
    }

    @Test func `a document of XML is read without attributes, entities of its own, or more depth than is allowed`()
        throws
    {
        func read(_ text: String) throws -> XMLElement { try XMLElement(document: Array(text.utf8)) }
        let root = try read(
            "<?xml version='1.0'?><!-- > --><n:a x='>' y=\"</a>\"> 1 &lt;&#65;&#x42; <b/><b>2</b><![CDATA[<&]]></n:a>")
        #expect(root.name == "a" && root.text == "1 <AB <&" && root.children.map(\.text) == ["", "2"])
        for text in [
            "", "<a>", "<a></b>", "</a>", "x<a/>", "<a b='></a>", "<a>&x;</a>", "<a>&#0;</a>", "<a>&amp</a>", "<!--",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "<a><![CDATA[</a>", "< a/>",
            String(repeating: "<a>", count: 33) + String(repeating: "</a>", count: 33),
            "<a>" + String(repeating: "<b/>", count: 2_048) + "</a>",
        ] {
            #expect(throws: WireError.self, "\(text.prefix(40))") { try read(text) }
        }
    }

    @Test func `an answer of HTTP is read whole, in pieces or to its end, and no further than its length`() throws {
        func body(_ text: String, isAll: Bool = false) throws -> String {
            String(decoding: try HTTPAnswer(Array(text.utf8), isAll: isAll).body, as: UTF8.self)
        }
        #expect(try body("HTTP/1.1 200 OK\r\ncontent-length:  3\r\n\r\nabcd") == "abc")
        #expect(try body("HTTP/1.0 200 OK\n\nabc", isAll: true) == "abc")
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
        #expect(try body(chunked + "2;x\r\nab\r\n1\r\nc\r\n0\r\n\r\n") == "abc")
        for text in ["HTTP/1.1 200 OK\r\nA: b\r\n", chunked + "2\r\nab\r\n", "HTTP/1.1 200 OK\r\n\r\nabc"] {
            #expect { try body(text) } throws: { if case WireError.truncated = $0 { true } else { false } }
        }
        for text in [
            "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 2x0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            chunked + "fffffffff\r\n", chunked + "2\r\nabcd\r\n",
        ] {
            #expect(throws: WireError.self, "\(text)") { try body(text, isAll: true) }
        }
    }
}
