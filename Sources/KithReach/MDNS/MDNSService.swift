package import KithWire

/// A service that a device offers on one link: names to try one after the other, and what it says by each.
package struct MDNSService: Hashable, Sendable {
    /// The names of the service and of its host, one label each, and the text that goes with them.
    package struct Identity: Hashable, Sendable {
        /// The label of the service.
        package let instance: String
        /// The label of its host.
        package let host: String
        /// The strings of the TXT record.
        package let text: [[UInt8]]

        /// Makes the names and the text of one attempt.
        package init(instance: String, host: String, text: [[UInt8]]) {
            (self.instance, self.host, self.text) = (instance, host, text)
        }
    }

    /// The type with its domain: `_kith._udp.local`.
    package let type: DNSName
    /// The names, in the order in which they are tried.
    package let identities: [Identity]
    /// The port of its SRV record.
    package let port: UInt16
    /// The addresses of the host, whose ports do not count.
    package let addresses: [NetworkAddress]

    /// Makes a service; `nil` when one of its names or texts is none, or there is no name.
    package init?(type: String, identities: [Identity], port: UInt16, addresses: [NetworkAddress]) {
        guard let name = DNSName(type)?.appending(MDNS.domain), !identities.isEmpty,
            identities.allSatisfy({ identity in
                !identity.text.isEmpty && identity.text.allSatisfy { $0.count <= 255 }
                    && DNSName(labels: [Array(identity.instance.utf8)])?.appending(name) != nil
                    && DNSName(labels: [Array(identity.host.utf8)]) != nil
            })
        else { return nil }
        (self.type, self.identities, self.port, self.addresses) = (name, identities, port, addresses)
    }

    /// Returns whether both would go by the same names.
    func hasSameNames(as other: MDNSService) -> Bool {
        type == other.type
            && identities.map { [$0.instance, $0.host] } == other.identities.map { [$0.instance, $0.host] }
    }
}

/// The records of a service by one of its names (RFC 6763 §§4 to 6, 9).
///
/// ```
/// _services._dns-sd._udp.local  PTR   TYPE.local            shared with others
/// TYPE.local                    PTR   INSTANCE.TYPE.local   shared with others
/// INSTANCE.TYPE.local           SRV   HOST.local, port      this device's alone, as all that follow
///                               TXT
/// HOST.local                    A, AAAA
/// both                          NSEC  the types above: there are no others
/// ```
struct MDNSRecordSet: Hashable {
    let type: DNSName
    let instance: DNSName
    let host: DNSName
    let shared: [DNSRecord]
    let unique: [DNSRecord]
    let denials: [DNSRecord]

    init(_ service: MDNSService, attempt: Int) {
        let identity = service.identities[attempt]
        type = service.type
        let instance = DNSName(checked: [Array(identity.instance.utf8)] + service.type.labels)
        let host = DNSName(checked: [Array(identity.host.utf8)] + MDNS.domain.labels)
        (self.instance, self.host) = (instance, host)
        shared = [
            DNSRecord(service.type, timeToLive: MDNS.lifetime, .pointer(instance)),
            DNSRecord(MDNS.types, timeToLive: MDNS.lifetime, .pointer(service.type)),
        ]
        var addresses: [NetworkAddress] = []
        for address in service.addresses.compactMap({ NetworkAddress(ip: $0.ip, port: 0) })
        where !addresses.contains(address) { addresses.append(address) }
        unique =
            [
                DNSRecord(
                    instance, timeToLive: MDNS.hostLifetime,
                    .service(priority: 0, weight: 0, port: service.port, host: host)),
                DNSRecord(instance, timeToLive: MDNS.lifetime, .text(identity.text)),
            ] + addresses.map { DNSRecord(host, timeToLive: MDNS.hostLifetime, .address($0)) }
        let families = [DNSType.a, .aaaa].filter { type in addresses.contains { $0.isIPv6 == (type == .aaaa) } }
        denials = [
            DNSRecord(instance, timeToLive: MDNS.lifetime, .denial(next: instance, types: [.txt, .srv])),
            DNSRecord(host, timeToLive: MDNS.hostLifetime, .denial(next: host, types: families)),
        ]
    }

    var all: [DNSRecord] { shared + unique + denials }

    /// True for a name that nobody else may have.
    func owns(_ name: DNSName) -> Bool { name == instance || name == host }

    /// The answers to a question; one that says so, when its name has nothing of that type (§6.1).
    func answers(to question: DNSMessage.Question) -> [DNSRecord] {
        guard question.plainClass == DNSRecord.internet || question.plainClass == MDNS.anyClass else { return [] }
        let found = (shared + unique).filter {
            $0.name == question.name && (question.type == $0.type || question.type == .any)
        }
        return found.isEmpty ? denials.filter { $0.name == question.name } : found
    }

    /// What whoever gets these answers asks for next.
    func additional(to answers: [DNSRecord]) -> [DNSRecord] {
        var more: [DNSRecord] = []
        if answers.contains(shared[0]) { more += unique.filter { $0.name == instance } }
        if (answers + more).contains(where: { $0.type == .srv && owns($0.name) })
            || answers.contains(where: { $0.name == host })
        {
            more += unique.filter { $0.name == host }
        }
        more += denials.filter { denial in (answers + more).contains { $0.name == denial.name } }
        return more.filter { !answers.contains($0) }
    }

    /// The record as it is sent: one of this device's alone replaces those before.
    func sent(_ record: DNSRecord) -> DNSRecord { owns(record.name) ? record.flushing : record }
}
