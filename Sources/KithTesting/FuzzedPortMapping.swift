internal import KithReach
internal import KithWire

/// What a router, or whoever takes its place, sends when it is asked to pass a port on.
enum FuzzedPortMapping {
    private static let gateway = NetworkAddress(ipv4: (192, 168, 1, 1), port: 5_351)
    private static let local = NetworkAddress(ipv4: (192, 168, 1, 2), port: 4_433)

    private static let gateway6 = NetworkAddress(ipv6: 0xFE80 << 48, 1, port: 5_351, zone: 2)
    private static let local6 = NetworkAddress(ipv6: 0x2001_0DB8_0077_0000, 2, port: 4_433)

    private static func mapper(at now: ContinuousClock.Instant) -> PortMapper {
        var random = SeededRandom(seed: 1)
        var mapper = PortMapper(gateway: gateway, local: local, using: &random)
        mapper.start(at: now)
        while mapper.nextDatagram(at: now) != nil {}
        return mapper
    }

    /// A datagram, read in each way, from the router and from another.
    static func gateway(_ bytes: [UInt8]) {
        let now = ContinuousClock.Instant.now
        if let location = UPnPSearch.location(in: bytes, from: gateway6, to: local6) {
            let server = location.server
            precondition(
                server.ip == gateway6.ip || server.networkPrefix == local6.networkPrefix && server.ip != local6.ip,
                "A router describes itself")
        }
        if let location = UPnPSearch.location(in: bytes, from: gateway, to: local) {
            precondition(location.server.ip == gateway.ip, "A router describes itself")
            precondition(!location.path.utf8.contains { $0 <= 32 || $0 > 126 }, "A path is one word")
        }
        if let answer = try? PCPAnswer(bytes) {
            precondition(bytes.count >= (answer.mapping == nil ? 24 : 60), "An answer is whole")
        }
        _ = try? NATPMPAnswer(bytes)  // refusing is an answer
        var mapper = mapper(at: now)
        mapper.receive(bytes, from: NetworkAddress(ipv4: (192, 168, 1, 9), port: gateway.port), at: now)
        precondition(mapper.nextExchange() == nil && mapper.nextUpdate() == nil, "Only the router is believed")
        mapper.receive(bytes, from: gateway, at: now)
        mapper.receive(announcement: bytes, from: gateway, at: now)
        while let exchange = mapper.nextExchange() {
            precondition(exchange.server.ip == gateway.ip, "Only the router is asked")
        }
        var datagrams = 0
        while mapper.nextDatagram(at: now) != nil { datagrams += 1 }
        precondition(datagrams <= 2, "An answer causes two questions at the most")
    }

    /// An answer by HTTP to each question in turn.
    static func upnp(_ bytes: [UInt8]) {
        let now = ContinuousClock.Instant.now
        guard let answer = try? HTTPAnswer(bytes, isAll: true) else { return }
        precondition(answer.body.count <= bytes.count, "A body is part of the answer")
        if let element = try? XMLElement(document: answer.body) {
            precondition(element.all(element.name).count <= XMLElement.maxElements, "A document is bounded")
        }
        answer4(answer, at: now)
        var random = SeededRandom(seed: 1)
        var client = UPnPClient(gateway: gateway6, local: local6, using: &random)
        client.start(at: now)
        client.receive(gatewaySeeds[6], from: gateway6, at: now)
        precondition(client.nextExchange() != nil, "The description is read")
        for number in 1...UInt64(16) {
            client.receive(answer, to: number, at: now)
            if client.state == .found { client.map(at: now) }
            while let exchange = client.nextExchange() {
                precondition(exchange.server.networkPrefix == local6.networkPrefix, "Only the router is asked")
            }
            if case .mapped(let mapping) = client.state {
                precondition(mapping.external == local6, "A pinhole is at the device's own address")
            }
        }
        precondition(client.release().map { $0.server.networkPrefix == local6.networkPrefix } ?? true)
    }

    private static func answer4(_ answer: HTTPAnswer, at now: ContinuousClock.Instant) {
        var random = SeededRandom(seed: 1)
        var client = UPnPClient(gateway: gateway, local: local, using: &random)
        client.start(at: now)
        client.receive(gatewaySeeds[3], from: gateway, at: now)
        precondition(client.nextExchange() != nil, "The description is read")
        for number in 1...UInt64(16) {
            client.receive(answer, to: number, at: now)
            if client.state == .found { client.map(at: now) }
            while let exchange = client.nextExchange() {
                precondition(exchange.server.ip == gateway.ip, "Only the router is asked")
                precondition(
                    exchange.request.count { $0 == 10 } == 9 || exchange.request.starts(with: "GET ".utf8),
                    "A request has the lines it was given")
            }
        }
    }

    /// Datagrams that are right, for the fuzzer to begin with.
    static let gatewaySeeds: [[UInt8]] = {
        var random = SeededRandom(seed: 1)
        let nonce = PCPNonce(using: &random)
        let external = [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF, 9, 1, 1, 1]
        let head: [UInt8] = [2, 0x81, 0, 0, 0, 0, 0x1C, 0x20, 0, 0, 0, 9] + [UInt8](repeating: 0, count: 12)
        return [
            head + nonce.bytes + [17, 0, 0, 0, 0x11, 0x51, 0x11, 0x51] + external,
            [0, 128, 0, 0, 0, 0, 0, 9, 9, 1, 1, 1],
            [0, 129, 0, 0, 0, 0, 0, 9, 0x11, 0x51, 0x11, 0x51, 0, 0, 0x1C, 0x20],
            Array(
                """
                HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r
                LOCATION: http://192.168.1.1:5000/rootDesc.xml\r\n\r\n
                """.utf8),
            [2, 0x80, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9] + [UInt8](repeating: 0, count: 12), [0, 0, 0, 1],
            Array(
                """
                HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r
                LOCATION: http://[2001:db8:77::1]:5000/rootDesc.xml\r\n\r\n
                """.utf8),
        ]
    }()

    /// Answers that are right, for the fuzzer to begin with.
    static let upnpSeeds: [[UInt8]] = {
        let description = """
            <?xml version="1.0"?><root xmlns="urn:schemas-upnp-org:device-1-0"><device><serviceList><service>\
            <serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType><controlURL>/ctl/IPConn\
            </controlURL></service></serviceList></device></root>
            """
        let address = """
            <s:Envelope><s:Body><u:GetExternalIPAddressResponse><NewExternalIPAddress>9.1.1.1</NewExternalIPAddress>\
            </u:GetExternalIPAddressResponse></s:Body></s:Envelope>
            """
        let refusal = """
            <s:Envelope><s:Body><s:Fault><detail><UPnPError><errorCode>725</errorCode></UPnPError></detail>\
            </s:Fault></s:Body></s:Envelope>
            """
        let firewall = """
            <?xml version="1.0"?><root><device><serviceList><service><serviceType>\
            urn:schemas-upnp-org:service:WANIPv6FirewallControl:1</serviceType><controlURL>/ctl/6</controlURL></service>\
            </serviceList></device></root>
            """
        let status = """
            <s:Envelope><s:Body><u:GetFirewallStatusResponse><FirewallEnabled>1</FirewallEnabled>\
            <InboundPinholeAllowed>1</InboundPinholeAllowed></u:GetFirewallStatusResponse></s:Body></s:Envelope>
            """
        let pinhole = """
            <s:Envelope><s:Body><u:AddPinholeResponse><UniqueID>7</UniqueID></u:AddPinholeResponse></s:Body></s:Envelope>
            """
        return [description, address, refusal, firewall, status, pinhole].map {
            Array("HTTP/1.1 200 OK\r\n\r\n\($0)".utf8)
        }
            + [Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<a/>\r\n0\r\n\r\n".utf8)]
    }()
}
