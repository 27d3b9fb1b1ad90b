public import KithWire

/// A DNS message (RFC 1035 §4): questions, answers, and what helps with them.
///
/// The same for DNS over UDP and TCP, for mDNS, and in signed records.
///
/// ```
///  id 2 │ flags 2 │ counts of questions, answers, authorities, additional records: 2 each │ all of them
///  flags: response 1 bit, operation 4, authoritative 1, truncated 1, recursion desired 1, available 1, 3, code 4
/// ```
public struct DNSMessage: Hashable, Sendable {
    /// A question: a name and the type of records wanted.
    public struct Question: Hashable, Sendable {
        /// The name asked about.
        public var name: DNSName
        /// The type wanted.
        public var type: DNSType
        /// The class wanted; mDNS has a flag in its highest bit.
        public var questionClass: UInt16

        /// Makes a question.
        public init(_ name: DNSName, _ type: DNSType, questionClass: UInt16 = DNSRecord.internet) {
            self.name = name
            self.type = type
            self.questionClass = questionClass
        }
    }

    /// The outcome of a question (RFC 1035 §4.1.1).
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The number, 0 to 15.
        public let rawValue: UInt8

        /// Makes the code of a number; its lower four bits count.
        public init(rawValue: UInt8) { self.rawValue = rawValue & 15 }

        /// Answered.
        public static let success = Code(rawValue: 0)
        /// The message was not understood.
        public static let formatError = Code(rawValue: 1)
        /// The server failed.
        public static let serverFailure = Code(rawValue: 2)
        /// There is no such name.
        public static let nameError = Code(rawValue: 3)
        /// The operation is not known.
        public static let notImplemented = Code(rawValue: 4)
        /// The server does not answer this.
        public static let refused = Code(rawValue: 5)
    }

    /// The most bytes of a message.
    public static let maxLength = 65_535
    /// The most bytes over UDP for those who said nothing else.
    public static let plainDatagramLength = 512
    /// The bytes of the header.
    public static let headerLength = 12

    /// The number that a question and its answer share.
    public var id: UInt16
    /// True for an answer.
    public var isResponse = false
    /// The operation: 0 for a question.
    public var operation: UInt8 = 0
    /// True when the answer is the zone's own.
    public var isAuthoritative = false
    /// True when not all fit.
    public var isTruncated = false
    /// True when whoever asks wants the server to ask others.
    public var wantsRecursion = false
    /// True when the server would.
    public var offersRecursion = false
    /// Three bits: one that is zero, then authentic data and checking disabled (RFC 4035).
    public var checking: UInt8 = 0
    /// The outcome.
    public var code = Code.success
    /// The questions.
    public var questions: [Question] = []
    /// The answers.
    public var answers: [DNSRecord] = []
    /// Records about who is responsible.
    public var authorities: [DNSRecord] = []
    /// Other records that help.
    public var additional: [DNSRecord] = []

    /// Makes an empty message.
    public init(id: UInt16 = 0) { self.id = id }

    /// Makes a question.
    public init(id: UInt16, asking name: DNSName, for type: DNSType) {
        self.id = id
        questions = [Question(name, type)]
    }

    /// The OPT record, when there is one.
    public var options: DNSRecord? { additional.first { $0.type == .opt } }
}

// MARK: - Wire

extension DNSMessage {
    /// Reads a message; nothing may follow.
    ///
    /// A name has at most 127 labels and pointers, and takes six bytes at least with its type and class: reading takes
    /// steps in proportion to the bytes.
    ///
    /// - Throws: `WireError` for bytes that are not one.
    public init(_ bytes: [UInt8]) throws(WireError) {
        guard bytes.count <= Self.maxLength else { throw .tooLong(limit: Self.maxLength, actual: bytes.count) }
        var reader = ByteReader(bytes)
        id = try reader.integer()
        flags = try reader.integer()
        let questionCount: UInt16 = try reader.integer()
        let answerCount: UInt16 = try reader.integer()
        let authorityCount: UInt16 = try reader.integer()
        let additionalCount: UInt16 = try reader.integer()
        for _ in 0..<questionCount {
            let name = try reader.dnsName(in: bytes)
            questions.append(
                Question(name, DNSType(rawValue: try reader.integer()), questionClass: try reader.integer()))
        }
        for _ in 0..<answerCount { answers.append(try reader.dnsRecord(in: bytes)) }
        for _ in 0..<authorityCount { authorities.append(try reader.dnsRecord(in: bytes)) }
        for _ in 0..<additionalCount { additional.append(try reader.dnsRecord(in: bytes)) }
        try reader.finish()
    }

    /// Returns the message as it is sent.
    ///
    /// - Throws: `WireError` when it would have more than `limit` bytes, more than 65,535 records, or a string too long.
    public func encoded(limit: Int = maxLength) throws(WireError) -> [UInt8] {
        var writer = DNSWriter()
        writer.integer(id)
        writer.integer(flags)
        for count in [questions.count, answers.count, authorities.count, additional.count] {
            guard let count = UInt16(exactly: count) else { throw .tooLong(limit: 65_535, actual: count) }
            writer.integer(count)
        }
        for question in questions {
            writer.name(question.name)
            writer.integer(question.type.rawValue)
            writer.integer(question.questionClass)
        }
        for record in answers + authorities + additional { try record.write(to: &writer) }
        let bytes = writer.bytes
        guard bytes.count <= min(limit, Self.maxLength) else {
            throw .tooLong(limit: min(limit, Self.maxLength), actual: bytes.count)
        }
        return bytes
    }

    private var flags: UInt16 {
        get {
            var flags = UInt16(code.rawValue) | UInt16(checking & 7) << 4 | UInt16(operation & 15) << 11
            if isResponse { flags |= 0x8000 }
            if isAuthoritative { flags |= 0x0400 }
            if isTruncated { flags |= 0x0200 }
            if wantsRecursion { flags |= 0x0100 }
            if offersRecursion { flags |= 0x0080 }
            return flags
        }
        set {
            code = Code(rawValue: UInt8(newValue & 15))
            checking = UInt8(newValue >> 4 & 7)
            operation = UInt8(newValue >> 11 & 15)
            isResponse = newValue & 0x8000 != 0
            isAuthoritative = newValue & 0x0400 != 0
            isTruncated = newValue & 0x0200 != 0
            wantsRecursion = newValue & 0x0100 != 0
            offersRecursion = newValue & 0x0080 != 0
        }
    }
}
