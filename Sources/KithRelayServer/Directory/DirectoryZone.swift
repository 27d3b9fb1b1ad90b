import KithIdentity
import KithReach
import KithWire

/// The DNS form of a directory: what is answered to a message, as a value.
///
/// ```
///  ORIGIN             SOA, NS ns.ORIGIN
///  ns.ORIGIN          A, AAAA
///  _iroh.KEY.ORIGIN   TXT, as in the record of the device; KEY in z-base-32
///  _kith.KEY.ORIGIN   the same
/// ```
/// Nothing else is answered: it resolves nothing for others, transfers no zone and lists nothing. An answer over UDP is
/// with its IP and UDP headers at most three times as long as the question, and at most 1232 bytes; what is longer is
/// said to be truncated, with nothing in it, and asked for again over TCP, where nobody can pretend to be another.
struct DirectoryZone: Hashable {
    /// What kind of answer it is.
    enum Result: Hashable {
        case answered
        case missing
        case truncated
        case refused
    }

    /// The seconds that an answer of "there is none" holds: a record should be seen soon after it is published.
    static let negativeTimeToLive: UInt32 = 5
    private static let datagramSize: UInt16 = 1_232
    private static let zoneTimeToLive: UInt32 = 3_600
    /// The bytes of the headers of IPv4 and UDP.
    private static let headersLength = 28
    private static let irohLabel = Array(DeviceRecord.irohName.utf8)
    private static let kithLabel = Array(DeviceRecord.kithName.utf8)

    /// The name below which the records are.
    let origin: DNSName
    /// The addresses of this server, for those who ask; the ports do not matter.
    let addresses: [NetworkAddress]
    private let server: DNSName
    private let mailbox: DNSName

    /// Makes a zone; `nil` for a name that leaves no room for keys.
    init?(origin: DNSName, addresses: [NetworkAddress]) {
        guard !origin.labels.isEmpty,
            let server = DNSName(labels: [Array("ns".utf8)] + origin.labels),
            let mailbox = DNSName(labels: [Array("hostmaster".utf8)] + origin.labels),
            DNSName(labels: [Self.irohLabel, [UInt8](repeating: 0, count: 52)] + origin.labels) != nil
        else { return nil }
        self.origin = origin
        self.addresses = addresses
        self.server = server
        self.mailbox = mailbox
    }

    /// Answers a message by the records of devices; no bytes for one that must not be answered.
    ///
    /// With `isLimited` it says over UDP only that the question should come over TCP.
    func answer(
        _ query: [UInt8], overUDP: Bool, isLimited: Bool = false, record: (DeviceID) -> SignedRecord?
    ) -> (bytes: [UInt8]?, result: Result) {
        // An answer is never answered, or two servers would go on for ever.
        guard query.count >= DNSMessage.headerLength, query[2] & 0x80 == 0 else { return (nil, .refused) }
        guard let question = try? DNSMessage(query) else {
            var answer = DNSMessage(id: UInt16(query[0]) << 8 | UInt16(query[1]))
            answer.isResponse = true
            answer.operation = query[2] >> 3 & 15
            answer.code = .formatError
            return (try? answer.encoded(), .refused)
        }
        var answer = DNSMessage(id: question.id)
        answer.isResponse = true
        answer.operation = question.operation
        answer.wantsRecursion = question.wantsRecursion
        answer.questions = question.questions
        let result = fill(&answer, question, record)
        var limit = DNSMessage.maxLength
        if overUDP {
            let offered = question.options.map { max($0.recordClass, UInt16(DNSMessage.plainDatagramLength)) }
            limit = min(
                Int(min(offered ?? UInt16(DNSMessage.plainDatagramLength), Self.datagramSize)),
                3 * (query.count + Self.headersLength) - Self.headersLength)
        }
        if !(overUDP && isLimited && result != .refused), let bytes = try? answer.encoded(limit: limit) {
            return (bytes, result)
        }
        answer.answers = []
        answer.authorities = []
        answer.additional.removeAll { $0.type != .opt }
        answer.isTruncated = true
        return (try? answer.encoded(limit: limit), .truncated)
    }

    private func fill(
        _ answer: inout DNSMessage, _ question: DNSMessage, _ record: (DeviceID) -> SignedRecord?
    ) -> Result {
        if let options = question.options {
            let version = UInt8(truncatingIfNeeded: options.timeToLive >> 16)
            // BADVERS is 16: 1 in the eight bits that the OPT record adds (RFC 6891 §6.1.3).
            answer.additional = [
                .options(datagramSize: Self.datagramSize, extendedCode: version > 0 ? 1 : 0)
            ]
            guard version == 0 else { return .refused }
        }
        guard question.operation == 0 else {
            answer.code = .notImplemented
            return .refused
        }
        guard question.questions.count == 1, let asked = question.questions.first, question.answers.isEmpty else {
            answer.code = .formatError
            return .refused
        }
        guard let rest = asked.name.removing(origin), asked.questionClass == DNSRecord.internet,
            !(251...254).contains(asked.type.rawValue)  // transfers of zones and mailboxes
        else {
            answer.code = .refused
            return .refused
        }
        answer.isAuthoritative = true
        guard let all = records(at: rest, named: asked.name, record) else {
            answer.code = .nameError
            answer.authorities = [authority]
            return .missing
        }
        answer.answers = all.filter { asked.type == .any || $0.type == asked.type }
        guard answer.answers.isEmpty else { return .answered }
        answer.authorities = [authority]
        return .missing
    }

    /// The records of a name, given without the origin; `nil` when there is no such name.
    private func records(
        at rest: DNSName, named name: DNSName, _ record: (DeviceID) -> SignedRecord?
    ) -> [DNSRecord]? {
        let labels = rest.labels
        switch labels.count {
        case 0:
            return [
                DNSRecord(name, timeToLive: Self.zoneTimeToLive, .server(server)), authority(named: name),
            ]
        case 1:
            if name == server {
                return addresses.map { address in
                    var address = address
                    address.port = 0
                    return DNSRecord(name, timeToLive: Self.zoneTimeToLive, .address(address))
                }
            }
            return Self.device(labels[0]).flatMap(record) == nil ? nil : []
        case 2:
            let known = [Self.irohLabel, Self.kithLabel].first {
                DNSName(checked: [$0]) == DNSName(checked: [labels[0]])
            }
            guard let known, let device = Self.device(labels[1]), let record = record(device),
                let message = try? DNSMessage(record.message)
            else { return nil }
            let inside = DNSName(checked: [known, Array(device.zBase32.utf8)])
            return message.answers.compactMap { answer in
                guard answer.name == inside, case .text = answer.content else { return nil }
                return DNSRecord(
                    name, timeToLive: min(answer.timeToLive, DeviceRecord.timeToLive), answer.content)
            }
        default: return nil
        }
    }

    private static func device(_ label: [UInt8]) -> DeviceID? {
        label.count == 52 ? DeviceID(zBase32: String(decoding: label, as: UTF8.self)) : nil
    }

    /// The start of the zone, as it stands in answers of "there is none".
    private var authority: DNSRecord {
        var record = authority(named: origin)
        record.timeToLive = Self.negativeTimeToLive
        return record
    }

    private func authority(named name: DNSName) -> DNSRecord {
        DNSRecord(
            name, timeToLive: Self.zoneTimeToLive,
            .authority(
                DNSAuthority(
                    server: server, mailbox: mailbox, serial: 1, refresh: 3_600, retry: 600, expire: 604_800,
                    minimum: Self.negativeTimeToLive)))
    }
}
