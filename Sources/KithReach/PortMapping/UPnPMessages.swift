package import KithWire

/// A place on a router that is asked by HTTP.
package struct UPnPLocation: Hashable, Sendable {
    /// The most bytes of a path.
    static let maxPath = 512

    /// The address and port.
    package let server: NetworkAddress
    /// The path, from its slash on, with what follows it.
    package let path: String

    /// Reads `http://192.0.2.1:5000/path`; `nil` for a name instead of an address, or characters no path has.
    package init?(_ url: String) {
        guard url.utf8.count <= Self.maxPath, url.lowercased().hasPrefix("http://") else { return nil }
        let rest = url.dropFirst(7)
        let host = rest.prefix { $0 != "/" }
        let path = rest.dropFirst(host.count)
        guard let server = NetworkAddress(String(host)) ?? NetworkAddress("\(host):80"), server.port != 0 else {
            return nil
        }
        self.init(server: server, path: path.isEmpty ? "/" : String(path))
    }

    /// The same place in the zone of a router, where the address is one of the link alone.
    func inZone(of gateway: NetworkAddress) -> UPnPLocation {
        guard server.isIPv6, server.isLinkLocal, server.zone == 0 else { return self }
        let (high, low) = server.halves
        let zoned = NetworkAddress(ipv6: high, low, port: server.port, zone: gateway.zone)
        return UPnPLocation(server: zoned, path: path) ?? self
    }

    private init?(server: NetworkAddress, path: String) {
        guard path.utf8.count <= Self.maxPath, path.utf8.allSatisfy({ (33...126).contains($0) }) else { return nil }
        (self.server, self.path) = (server, path)
    }

    /// The place that a document from here means by `text`: on the same host, or `nil`.
    package func resolving(_ text: String) -> UPnPLocation? {
        if text.lowercased().hasPrefix("http://") {
            guard let other = UPnPLocation(text), other.server.hasSameIP(as: server) else { return nil }
            return other.inZone(of: server)
        }
        if text.hasPrefix("/") { return UPnPLocation(server: server, path: text) }
        let folder = path.prefix { $0 != "?" }
        let end = folder.lastIndex(of: "/").map { folder[...$0] } ?? "/"
        return UPnPLocation(server: server, path: end + text)
    }

    /// The address and port, as HTTP names them.
    var host: String {
        // A zone is this device's alone.
        let (high, low) = server.halves
        return server.isIPv6 ? NetworkAddress(ipv6: high, low, port: server.port).description : server.description
    }
}

/// The search for a router by UPnP (SSDP).
package enum UPnPSearch {
    /// The group at which devices listen.
    package static let group = NetworkAddress(ipv4: (239, 255, 255, 250), port: 1_900)
    /// The group of a family, on a router's link.
    static func group(beside gateway: NetworkAddress) -> NetworkAddress {
        gateway.isIPv6 ? NetworkAddress(ipv6: 0xFF02 << 48, 0xC, port: group.port, zone: gateway.zone) : group
    }

    /// The devices that are searched; those of version 2 answer for version 1 as well, but not all do.
    static let targets = [1, 2].map { "urn:schemas-upnp-org:device:InternetGatewayDevice:\($0)" }

    /// The datagrams of a search.
    static func datagrams(to server: NetworkAddress) -> [[UInt8]] {
        targets.map { target in
            Array(
                """
                M-SEARCH * HTTP/1.1\r
                HOST: \(server.isIPv6 ? "[FF02::C]:1900" : server.description)\r
                MAN: "ssdp:discover"\r
                MX: 1\r
                ST: \(target)\r
                \r

                """.utf8)
        }
    }

    /// Reads an answer; returns where the description of the router is.
    ///
    /// `nil` for what is no answer of a router, and for a place on another host than `source`; of IPv6, where a router has
    /// an address of its link and others, for one outside the network of `local`.
    package static func location(
        in datagram: [UInt8], from source: NetworkAddress, to local: NetworkAddress
    ) -> UPnPLocation? {
        guard datagram.count <= 2_048, let answer = try? HTTPAnswer(datagram, isAll: true), answer.status == 200,
            let target = answer["ST"], targets.contains(target), let text = answer["LOCATION"],
            let location = UPnPLocation(text),
            location.server.hasSameIP(as: source)
                || local.isIPv6 && location.server.isIPv6 && !local.isLinkLocal && !location.server.hasSameIP(as: local)
                    && location.server.networkPrefix == local.networkPrefix
        else { return nil }
        return location.inZone(of: source)
    }
}

/// A service of a router that passes ports on.
package struct UPnPService: Hashable, Sendable {
    /// The services, the best first.
    static let types = ["WANIPConnection:2", "WANIPConnection:1", "WANPPPConnection:1"].map {
        "urn:schemas-upnp-org:service:\($0)"
    }

    /// The service that opens the firewall for IPv6.
    static let firewall = "urn:schemas-upnp-org:service:WANIPv6FirewallControl:1"

    /// Its type.
    package let type: String
    /// The place where it is asked.
    package let control: UPnPLocation

    /// True when it finds a free port by itself (IGD 2).
    package var findsPorts: Bool { type == Self.types[0] }

    /// Finds the best one of a family in a router's description; `nil` when there is none on the router itself.
    package init?(description: [UInt8], at location: UPnPLocation, isIPv6: Bool = false) {
        // A damaged description is as good as none.
        guard let root = try? XMLElement(document: description) else { return nil }
        let base = root["URLBase"].flatMap { $0.isEmpty ? nil : location.resolving($0) } ?? location
        let services = root.all("service")
        for type in isIPv6 ? [Self.firewall] : Self.types {
            for service in services where service["serviceType"] == type {
                guard let text = service["controlURL"], let control = base.resolving(text) else { continue }
                (self.type, self.control) = (type, control)
                return
            }
        }
        return nil
    }

    /// A request of one action, as bytes of HTTP.
    func request(_ action: String, _ arguments: [(name: String, value: String)] = []) -> [UInt8] {
        let inside = arguments.map { "<\($0.name)>\(escapedForXML($0.value))</\($0.name)>" }.joined()
        let body = """
            <?xml version="1.0"?>\r
            <s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" \
            s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"><s:Body>\
            <u:\(action) xmlns:u="\(type)">\(inside)</u:\(action)></s:Body></s:Envelope>\r

            """
        let head = """
            POST \(control.path) HTTP/1.1\r
            Host: \(control.host)\r
            Content-Type: text/xml; charset="utf-8"\r
            SOAPAction: "\(type)#\(action)"\r
            Content-Length: \(body.utf8.count)\r
            Connection: close\r
            \r

            """
        return Array((head + body).utf8)
    }
}

/// The answer of a router to an action.
package enum UPnPAnswer: Hashable, Sendable {
    /// Done, with what it says.
    case done([String: String])
    /// Refused, with that number.
    case refused(Int)

    /// Reads an answer; `nil` for what is none.
    package init?(_ answer: HTTPAnswer, to action: String) {
        guard let root = try? XMLElement(document: answer.body), root.name == "Envelope",
            let body = root.children.first(where: { $0.name == "Body" })
        else { return nil }
        if let fault = body.all("UPnPError").first {
            guard let text = fault["errorCode"], let code = Int(text) else { return nil }
            self = .refused(code)
        } else if answer.status == 200, let element = body.children.first(where: { $0.name == "\(action)Response" }) {
            self = .done(Dictionary(element.children.map { ($0.name, $0.text) }) { first, _ in first })
        } else {
            return nil
        }
    }

    /// A refusal in plain words.
    static func reason(_ code: Int) -> String {
        switch code {
        case 401, 602: "it cannot do that"
        case 701: "it has no room for more"
        case 702: "its firewall is off, so that there is nothing to open"
        case 703: "its owner does not let devices open the firewall"
        case 606: "this device is not allowed to, or the router has that switched off"
        case 718: "the ports are taken"
        case 728: "it has no room for more"
        default: "UPnP error \(code)"
        }
    }
}
