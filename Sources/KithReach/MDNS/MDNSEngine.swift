package import KithWire

/// Multicast DNS and DNS-SD on one link, by one version of IP: offers this device's services, and finds others'.
///
/// RFC 6762 and RFC 6763. A value: it does no I/O and reads no clock. Tell it what came and when, and after each call drain
/// ``takeDatagrams()`` and ``takeTexts()``. Nothing it is told is believed but that a service says something: who says
/// it, and whether that is so, is for whoever reads the text. No address of a record is ever returned.
///
/// What comes is read only from the link, as far as can be told: it was sent to the group, which no router forwards, or
/// from an address of the link; and an answer only from port 5353 (§11).
package struct MDNSEngine: Sendable {
    /// Why a datagram was not read.
    package enum Refusal: Hashable, Sendable, CaseIterable {
        /// It came from elsewhere, or an answer from another port.
        case otherLink
        /// It is no message, or a message of another kind.
        case malformed
        /// More came than are read.
        case tooMany
    }

    /// The datagrams that are read in a second, and at once.
    package static let perSecond = 300

    private var responder: MDNSResponder
    private var querier: MDNSQuerier
    private var networks: [NetworkPrefix]
    private var budget: TokenBucket
    private var random: any RandomNumberGenerator & Sendable
    private var outbox: [MDNSDatagram] = []
    /// Datagrams that were not read, by reason.
    package private(set) var refused: [Refusal: Int] = [:]

    /// Begins to look for services of a type, such as `_kith._udp`.
    ///
    /// `networks` are those of the link. `isWanted` tells whether what a service says is to be asked for, by its label; it
    /// is quick.
    package init(
        type: String, networks: [NetworkPrefix], random: any RandomNumberGenerator & Sendable,
        at now: ContinuousClock.Instant, isWanted: @escaping @Sendable (String) -> Bool
    ) {
        guard let name = DNSName(type)?.appending(MDNS.domain) else {
            preconditionFailure("the type of a service is a name")
        }
        var random = random
        responder = MDNSResponder(at: now)
        let start = now + .milliseconds(Int.random(in: 20...120, using: &random))
        querier = MDNSQuerier(name, from: start) { service in
            guard let label = service.labels.first, let text = String(validating: label, as: UTF8.self) else {
                return false
            }
            return isWanted(text)
        }
        self.networks = networks
        self.random = random
        budget = TokenBucket(perSecond: Double(Self.perSecond), burst: Double(Self.perSecond), at: now)
    }

    // MARK: - From this device

    /// Offers these services, in place of those before.
    package mutating func offer(_ services: [MDNSService], at now: ContinuousClock.Instant) {
        responder.offer(services, at: now, using: &random)
    }

    /// Notes that the link may be another, with these networks: probes, announces and asks again.
    package mutating func restart(networks: [NetworkPrefix], at now: ContinuousClock.Instant) {
        self.networks = networks
        responder.restart(at: now, using: &random)
        querier.restart(from: now + .milliseconds(Int.random(in: 20...120, using: &random)))
    }

    /// Notes that other services may be wanted than before.
    package mutating func examine(at now: ContinuousClock.Instant) {
        querier.restart(from: now + .milliseconds(Int.random(in: 20...120, using: &random)))
    }

    /// Says these last words by the names of the services, and goodbye; it offers nothing any more.
    package mutating func leave(_ services: [MDNSService] = [], at now: ContinuousClock.Instant) {
        responder.leave(services, at: now)
    }

    /// True once the services are known to the others on the link.
    package var isRegistered: Bool {
        !responder.registrations.isEmpty && responder.registrations.allSatisfy(\.answers)
    }

    /// True when others have every name that one of the services may go by.
    package var hasFailed: Bool { responder.registrations.contains { $0.phase == .failed } }

    /// The names that the services go by, as text.
    package var names: [String] { responder.registrations.map { "\($0.records.instance)" } }

    /// The number of records that are remembered.
    package var cached: Int { querier.cache.count }

    // MARK: - From the network

    /// Takes a datagram in; `isUnicast` says whether it came to this device alone.
    package mutating func receive(
        _ bytes: [UInt8], from source: NetworkAddress, isUnicast: Bool, at now: ContinuousClock.Instant
    ) {
        let isOnLink = source.isIPv6 && source.isLinkLocal || networks.contains { $0.contains(source) }
        guard isOnLink || !isUnicast else { return refuse(.otherLink) }
        guard budget.takeIfThere(at: now) else { return refuse(.tooMany) }
        guard bytes.count <= MDNS.maxLength, let message = try? DNSMessage(bytes), message.operation == 0,
            message.code == .success
        else { return refuse(.malformed) }
        if message.isResponse {
            guard source.port == MDNS.port else { return refuse(.otherLink) }
            for record in message.answers + message.additional {
                responder.heard(record, at: now, using: &random)
                querier.heard(record, at: now, using: &random)
            }
        } else {
            responder.received(
                message, from: source, isUnicast: isUnicast, isOnLink: isOnLink, at: now, using: &random)
            if !isUnicast, source.port == MDNS.port { querier.heardQuery(message, at: now) }
        }
        drain()
    }

    private mutating func refuse(_ reason: Refusal) { refused[reason, default: 0].saturatingAdd(1) }

    // MARK: - Time

    /// The time at which ``timedOut(at:)`` is to be called.
    package var nextDeadline: ContinuousClock.Instant {
        responder.nextDeadline.map { min($0, querier.nextDeadline) } ?? querier.nextDeadline
    }

    /// Does what is due.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        responder.timedOut(at: now, using: &random)
        outbox += querier.timedOut(at: now, using: &random).map { MDNSDatagram(bytes: $0, destination: nil) }
        drain()
    }

    private mutating func drain() { outbox += responder.takeDatagrams() }

    /// Takes the datagrams that are to be sent, in order.
    package mutating func takeDatagrams() -> [MDNSDatagram] {
        drain()
        defer { outbox = [] }
        return outbox
    }

    /// Takes the texts that are new, by the labels of their services: anybody can have written them.
    package mutating func takeTexts() -> [(service: String, strings: [[UInt8]])] {
        querier.takeTexts().compactMap { name, strings in
            guard let label = name.labels.first else { return nil }
            return (String(decoding: label, as: UTF8.self), strings)
        }
    }
}
