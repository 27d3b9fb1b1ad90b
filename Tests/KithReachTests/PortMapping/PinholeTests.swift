import KithTesting
import KithWire
import Testing

@testable import KithReach

/// Pinholes in a router's firewall for IPv6, by UPnP.
@Suite("Pinholes") struct PinholeTests {
    private let gateway = NetworkAddress(ipv6: 0xFE80 << 48, 1, port: 0, zone: 3)
    private let local = NetworkAddress(ipv6: 0x2001_0DB8_0077_0000, 2, port: 4_433)

    private func search(at place: String) -> [UInt8] {
        Array(
            "HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\nLOCATION: \(place)\r\n\r\n"
                .utf8)
    }

    private func answer(_ body: String, status: Int = 200) throws -> HTTPAnswer {
        try HTTPAnswer(Array("HTTP/1.1 \(status) X\r\n\r\n\(body)".utf8), isAll: true)
    }

    private func soap(_ action: String, _ inside: String = "") throws -> HTTPAnswer {
        try answer("<s:Envelope><s:Body><u:\(action)Response>\(inside)</u:\(action)Response></s:Body></s:Envelope>")
    }

    private func refusal(_ code: Int) throws -> HTTPAnswer {
        try answer(
            "<s:Envelope><s:Body><s:Fault><UPnPError><errorCode>\(code)</errorCode></UPnPError></s:Fault></s:Body></s:Envelope>",
            status: 500)
    }

    private let description = """
        <root><device><serviceList><service><serviceType>urn:schemas-upnp-org:service:WANIPConnection:2</serviceType>\
        <controlURL>/ctl/4</controlURL></service><service><serviceType>\
        urn:schemas-upnp-org:service:WANIPv6FirewallControl:1</serviceType><controlURL>/ctl/6</controlURL></service>\
        </serviceList></device></root>
        """

    /// The next request, as text; it is sent to the router.
    private func request(_ client: inout UPnPClient) throws -> (text: String, number: UInt64) {
        let next = client.nextExchange()
        let exchange = try #require(next)
        #expect(exchange.server.description == "[2001:db8:77::1]:5000")
        return (String(decoding: exchange.request, as: UTF8.self), exchange.number)
    }

    private func found(at now: ContinuousClock.Instant) throws -> UPnPClient {
        var random = SeededRandom(seed: 1)
        var client = UPnPClient(gateway: gateway, local: local, using: &random)
        client.start(at: now)
        var asked: Set<String> = []
        while let (bytes, to) = client.nextDatagram() {
            asked.insert(to.description)
            #expect(String(decoding: bytes, as: UTF8.self).contains("HOST: [FF02::C]:1900\r\n"))
        }
        #expect(asked == ["[ff02::c%3]:1900", "[fe80::1%3]:1900"])
        client.receive(search(at: "http://[2001:db8:77::1]:5000/root.xml"), from: gateway.withPort(1_900), at: now)
        let describing = try request(&client)
        #expect(describing.text.hasPrefix("GET /root.xml HTTP/1.1\r\nHost: [2001:db8:77::1]:5000\r\n"))
        client.receive(try answer(description), to: describing.number, at: now)
        return client
    }

    private func opened(at now: ContinuousClock.Instant) throws -> UPnPClient {
        var client = try found(at: now)
        let status = try request(&client)
        #expect(status.text.contains("POST /ctl/6 ") && status.text.contains("#GetFirewallStatus\""))
        client.receive(
            try soap(
                "GetFirewallStatus",
                "<FirewallEnabled>1</FirewallEnabled><InboundPinholeAllowed>1</InboundPinholeAllowed>"),
            to: status.number, at: now)
        #expect(client.state == .found)
        client.map(at: now)
        let adding = try request(&client)
        for part in [
            "#AddPinhole\"", "<InternalClient>2001:db8:77::2</InternalClient>", "<InternalPort>4433</InternalPort>",
            "<Protocol>17</Protocol>", "<LeaseTime>7200</LeaseTime>", "<RemoteHost></RemoteHost>",
        ] {
            #expect(adding.text.contains(part), "\(part)")
        }
        client.receive(try soap("AddPinhole", "<UniqueID>9</UniqueID>"), to: adding.number, at: now)
        return client
    }

    @Test func `a pinhole is opened at the device's own address, renewed, and given back by its number`() throws {
        let start = ContinuousClock.Instant.now
        var client = try opened(at: start)
        let mapping = PortMapping(external: local, local: local, lifetime: .seconds(7_200), method: .upnp)
        #expect(client.state == .mapped(mapping) && !mapping.isBehindAnotherNAT)
        let later = start + UPnPClient.refreshInterval
        #expect(client.nextDeadline == later)
        client.timedOut(at: later)
        let updating = try request(&client)
        #expect(updating.text.contains("#UpdatePinhole\"") && updating.text.contains("<UniqueID>9</UniqueID>"))
        client.receive(try soap("UpdatePinhole"), to: updating.number, at: later)
        #expect(client.state == .mapped(mapping) && client.nextDeadline == later + UPnPClient.refreshInterval)
        let given = client.release()
        let release = try #require(given)
        let text = String(decoding: release.request, as: UTF8.self)
        #expect(text.contains("#DeletePinhole\"") && text.contains("<UniqueID>9</UniqueID>"))
        #expect(client.state == .idle && client.nextDeadline == nil)
    }

    @Test func `a router that was started anew is asked for another`() throws {
        let start = ContinuousClock.Instant.now
        var client = try opened(at: start)
        let later = start + UPnPClient.refreshInterval
        client.timedOut(at: later)
        client.receive(try refusal(704), to: try request(&client).number, at: later)
        let adding = try request(&client)
        #expect(adding.text.contains("#AddPinhole\""))
        client.receive(try soap("AddPinhole", "<UniqueID>12</UniqueID>"), to: adding.number, at: later)
        let given = client.release()
        let release = try #require(given)
        #expect(String(decoding: release.request, as: UTF8.self).contains("<UniqueID>12</UniqueID>"))
    }

    @Test func `a router that is not renewed keeps its word until its end`() throws {
        let start = ContinuousClock.Instant.now
        var client = try opened(at: start)
        var now = start + UPnPClient.refreshInterval
        while now < start + .seconds(7_100) {
            client.timedOut(at: now)
            while let exchange = client.nextExchange() { client.receive(nil, to: exchange.number, at: now) }
            if case .mapped = client.state {} else { Issue.record("given up after \(now - start)") }
            now += .seconds(10)
        }
        client.timedOut(at: start + .seconds(7_201))
        #expect(client.state == .failed(.silent))
    }

    @Test(arguments: [("0", "1", "its firewall is off"), ("1", "0", "its owner does not let")])
    func `a firewall that is off, or closed to devices, is said to be`(
        enabled: String, allowed: String, reason: String
    ) throws {
        let now = ContinuousClock.Instant.now
        var client = try found(at: now)
        client.receive(
            try soap(
                "GetFirewallStatus",
                "<FirewallEnabled>\(enabled)</FirewallEnabled><InboundPinholeAllowed>\(allowed)</InboundPinholeAllowed>"
            ),
            to: try request(&client).number, at: now)
        guard case .failed(.refused(let why)) = client.state else {
            Issue.record("\(client.state)")
            return
        }
        #expect(why.hasPrefix(reason))
    }

    @Test(arguments: [
        "http://[2001:db8:77::2]:5000/", "http://[2001:db8:78::1]:5000/", "http://192.168.77.1:5000/",
        "http://[::1]:5000/", "http://[fe80::2]:5000/", "http://router:5000/", "http://127.0.0.1:5000/",
    ])
    func `a router does not name another host`(place: String) {
        #expect(UPnPSearch.location(in: search(at: place), from: gateway, to: local) == nil)
    }

    @Test func `a router is known by the address of its link, in its zone`() throws {
        let place = try #require(
            UPnPSearch.location(in: search(at: "http://[fe80::1]:5000/x"), from: gateway, to: local))
        #expect(place.server.zone == 3 && place.host == "[fe80::1]:5000")
        let other = NetworkAddress(ipv6: 0xFE80 << 48, 2, port: 1_900, zone: 3)
        #expect(
            UPnPSearch.location(in: search(at: "http://[2001:db8:77::1]:5000/x"), from: gateway, to: local)?.path
                == "/x")
        var random = SeededRandom(seed: 1)
        var client = UPnPClient(gateway: gateway, local: local, using: &random)
        client.start(at: .now)
        client.receive(search(at: "http://[2001:db8:77::1]:5000/x"), from: other, at: .now)
        let next = client.nextExchange()
        #expect(next == nil)
    }
}
