package import KithWire

/// The numbers and names of multicast DNS (RFC 6762) and of looking for services by it (RFC 6763).
package enum MDNS {
    /// The port that all responders share.
    package static let port: UInt16 = 5_353
    /// The group of IPv4.
    package static let group = NetworkAddress(ipv4: (224, 0, 0, 251), port: port)
    /// The group of IPv6, on one link.
    package static let group6 = NetworkAddress(ipv6: 0xFF02 << 48, 0xFB, port: port)
    /// The longest message that is read, in bytes (§17).
    package static let maxLength = 9_000
    /// The longest one that is sent where its records can be parted: one frame of Ethernet carries it.
    static let usualLength = 1_440
    /// The domain of the link.
    static let domain = DNSName(checked: [Array("local".utf8)])
    /// The name at which types of services are listed (RFC 6763 §9).
    static let types = DNSName(checked: ["_services", "_dns-sd", "_udp", "local"].map { Array($0.utf8) })
    /// The class that stands for every class, in a question.
    static let anyClass: UInt16 = 255
    /// The seconds that a record with a host in it holds (§10).
    static let hostLifetime: UInt32 = 120
    /// The seconds that other records hold.
    static let lifetime: UInt32 = 4_500
    /// The seconds that a record holds for who asks as ordinary DNS does (§6.7).
    static let legacyLifetime: UInt32 = 10
    /// The highest bit of a class: in a question, that the answer may come to the asker alone (§5.4); in a record, that it
    /// replaces all that were known by its name and type (§10.2).
    static let flag: UInt16 = 0x8000
}

extension DNSMessage.Question {
    /// True when the answer may come to the asker alone.
    var wantsUnicast: Bool { questionClass & MDNS.flag != 0 }
    /// The class without the flag.
    var plainClass: UInt16 { questionClass & ~MDNS.flag }
}

extension DNSRecord {
    /// True when it replaces all that were known by its name and type.
    var flushesCache: Bool { recordClass & MDNS.flag != 0 }
    /// The record without the flag.
    var plain: DNSRecord {
        var record = self
        record.recordClass &= ~MDNS.flag
        return record
    }
    /// The record with the flag.
    var flushing: DNSRecord {
        var record = self
        record.recordClass |= MDNS.flag
        return record
    }

    /// The record as it is said to hold for another time, in seconds.
    func holding(_ seconds: UInt32) -> DNSRecord {
        var record = self
        record.timeToLive = seconds
        return record
    }

    /// Returns whether both say the same, for whatever time.
    func saysTheSame(as other: DNSRecord) -> Bool {
        type == other.type && plain.recordClass == other.plain.recordClass && name == other.name
            && content == other.content
    }
}

/// A datagram that is to be sent.
package struct MDNSDatagram: Hashable, Sendable {
    /// The message.
    package let bytes: [UInt8]
    /// Who asked for it alone; `nil`: the group.
    package let destination: NetworkAddress?
}

/// Messages of multicast DNS, parted so that each fits into a frame.
enum MDNSMessages {
    /// Answers to all; what helps is left out where it does not fit.
    static func answers(_ answers: [DNSRecord], additional: [DNSRecord] = []) -> [[UInt8]] {
        var message = DNSMessage()
        (message.isResponse, message.isAuthoritative) = (true, true)
        (message.answers, message.additional) = (answers, additional)
        // Not encoded when it is too long; a record of this device's has nothing else that cannot be written.
        if let bytes = try? message.encoded(limit: MDNS.usualLength) { return [bytes] }
        if !additional.isEmpty { return self.answers(answers) }
        guard answers.count > 1 else {
            return (try? message.encoded(limit: MDNS.maxLength)).map { [$0] } ?? []
        }
        let half = answers.count / 2
        return self.answers(Array(answers[..<half])) + self.answers(Array(answers[half...]))
    }

    /// Questions, with what the asker knows already: the first message says that more follow, and so on (§7.2).
    static func queries(_ questions: [DNSMessage.Question], known: [DNSRecord]) -> [[UInt8]] {
        var messages: [DNSMessage] = []
        for start in stride(from: 0, to: questions.count, by: 16) {
            var message = DNSMessage()
            message.questions = Array(questions[start..<min(start + 16, questions.count)])
            messages.append(message)
        }
        guard var last = messages.popLast() else { return [] }
        var room = MDNS.usualLength - last.questions.reduce(DNSMessage.headerLength) { $0 + $1.name.length + 4 }
        for record in known {
            let length = record.name.length + 10 + record.content.uncompressed.count
            if length > room {
                last.isTruncated = true
                messages.append(last)
                (last, room) = (DNSMessage(), MDNS.usualLength - DNSMessage.headerLength)
            }
            last.answers.append(record)
            room -= length
        }
        // Each is shorter than the limit of a message, and has few records.
        return (messages + [last]).compactMap { try? $0.encoded() }
    }
}
