import KithWire

/// A domain name: its labels from the left, without the root (RFC 1035 §3.1).
///
/// Names that differ in the case of ASCII letters are equal; each is written as it was given.
public struct DNSName: Sendable {
    /// The most bytes of a name on the wire, with the lengths and the root.
    public static let maxLength = 255
    /// The most bytes of a label.
    public static let maxLabelLength = 63
    /// The root of all names.
    public static let root = DNSName(checked: [])

    /// The labels, each of 1 to 63 bytes.
    public let labels: [[UInt8]]

    /// Takes labels that are known to be right.
    package init(checked labels: [[UInt8]]) { self.labels = labels }

    /// Makes a name; `nil` for a label that is empty or too long, or when they are too long together.
    public init?(labels: [[UInt8]]) {
        guard labels.allSatisfy({ (1...Self.maxLabelLength).contains($0.count) }),
            labels.reduce(1, { $0 + 1 + $1.count }) <= Self.maxLength
        else { return nil }
        self.labels = labels
    }

    /// The number of bytes it has on the wire when nothing is compressed.
    public var length: Int { labels.reduce(1) { $0 + 1 + $1.count } }

    /// The name with `zone` behind it; `nil` when it would be too long.
    public func appending(_ zone: DNSName) -> DNSName? { DNSName(labels: labels + zone.labels) }

    /// The name as it stands in `zone`, without the labels of that; `nil` for a name outside of it.
    public func removing(_ zone: DNSName) -> DNSName? {
        guard labels.count >= zone.labels.count else { return nil }
        let ending = DNSName(checked: Array(labels.suffix(zone.labels.count)))
        return ending == zone ? DNSName(checked: Array(labels.dropLast(zone.labels.count))) : nil
    }

    fileprivate static func folded(_ label: [UInt8]) -> [UInt8] {
        label.map { (65...90).contains($0) ? $0 | 0x20 : $0 }
    }
}

extension DNSName: Hashable {
    /// Compares without regard to the case of ASCII letters (RFC 4343).
    public static func == (left: DNSName, right: DNSName) -> Bool {
        left.labels == right.labels
            || left.labels.count == right.labels.count
                && zip(left.labels, right.labels).allSatisfy { folded($0) == folded($1) }
    }

    /// Feeds what makes it itself to a hasher.
    public func hash(into hasher: inout Hasher) { for label in labels { hasher.combine(Self.folded(label)) } }
}

extension DNSName: LosslessStringConvertible {
    /// The text form, without a dot at the end; the root is a single dot.
    ///
    /// A dot or backslash within a label stands behind a backslash, bytes that are not printable ASCII as `\DDD`
    /// (RFC 1035 §5.1).
    public var description: String {
        guard !labels.isEmpty else { return "." }
        return labels.map { label in
            label.map { byte in
                switch byte {
                case UInt8(ascii: "."), UInt8(ascii: "\\"): return "\\" + String(UnicodeScalar(byte))
                case 33...126: return String(UnicodeScalar(byte))
                default: return "\\\(byte / 100)\(byte / 10 % 10)\(byte % 10)"
                }
            }.joined()
        }.joined(separator: ".")
    }

    /// Reads the text form; `nil` when it is not one.
    ///
    /// A dot at the end does not matter.
    public init?(_ description: String) {
        let bytes = Array(description.utf8)
        guard bytes.count <= 4 * Self.maxLength, !bytes.isEmpty else { return nil }
        if bytes == [UInt8(ascii: ".")] {
            self = .root
            return
        }
        var labels: [[UInt8]] = [[]]
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            if byte == UInt8(ascii: ".") {
                labels.append([])
            } else if byte == UInt8(ascii: "\\") {
                guard index < bytes.count else { return nil }
                let digits = bytes[index...].prefix(3)
                if (48...57).contains(bytes[index]) {
                    guard digits.count == 3, digits.allSatisfy({ (48...57).contains($0) }),
                        let value = UInt8(String(decoding: digits, as: UTF8.self))
                    else { return nil }
                    labels[labels.count - 1].append(value)
                    index += 3
                } else {
                    labels[labels.count - 1].append(bytes[index])
                    index += 1
                }
            } else {
                labels[labels.count - 1].append(byte)
            }
        }
        if labels.last?.isEmpty == true { labels.removeLast() }
        self.init(labels: labels)
    }
}

// MARK: - Wire

extension ByteReader {
    /// Reads a name that may end in a pointer to an earlier place of `message`, which this reader reads.
    ///
    /// A pointer leads back, before everything read of this name so far: none can lead into a circle. At most 127 are
    /// followed, since each may lead to another.
    ///
    /// - Throws: `WireError` for a name that ends too early or is too long, and for a pointer that leads elsewhere.
    @_lifetime(self: copy self)
    mutating func dnsName(in message: [UInt8]) throws(WireError) -> DNSName {
        var labels: [[UInt8]] = []
        var length = 1
        var start = position
        guard var target = try dnsLabels(&labels, &length) else { return DNSName(checked: labels) }
        // As many as labels there may be: whoever writes a name needs no more.
        for _ in 0..<DNSName.maxLength / 2 {
            guard target < start else { throw .invalid("a pointer of a name leads back") }
            start = target
            var earlier = ByteReader(message)
            try earlier.skip(target)
            guard let next = try earlier.dnsLabels(&labels, &length) else { return DNSName(checked: labels) }
            target = next
        }
        throw .invalid("a name has as many pointers as labels at the most")
    }

    /// Reads labels up to the root or a pointer, whose target it returns.
    @_lifetime(self: copy self)
    private mutating func dnsLabels(_ labels: inout [[UInt8]], _ length: inout Int) throws(WireError) -> Int? {
        while true {
            let first: UInt8 = try integer()
            switch first {
            case 0: return nil
            case 1...63:
                length += 1 + Int(first)
                guard length <= DNSName.maxLength else {
                    throw .tooLong(limit: DNSName.maxLength, actual: length)
                }
                labels.append(try bytes(Int(first)))
            case 0xC0...0xFF:
                let second: UInt8 = try integer()
                return Int(first & 0x3F) << 8 | Int(second)
            default: throw .invalid("a label has at most 63 bytes")
            }
        }
    }
}

/// Writes a message, and remembers where names stand, so that later ones point there.
struct DNSWriter {
    private(set) var bytes: [UInt8] = []
    private var places: [[[UInt8]]: Int] = [:]
    private let compresses: Bool

    init(compresses: Bool = true) { self.compresses = compresses }

    mutating func integer(_ value: some FixedWidthInteger & UnsignedInteger) {
        var writer = ByteWriter()
        writer.integer(value)
        bytes += writer.bytes
    }

    mutating func bytes(_ more: [UInt8]) { bytes += more }

    /// Writes what `body` writes, behind the number of its bytes in two bytes.
    mutating func prefixed(_ body: (inout DNSWriter) throws(WireError) -> Void) throws(WireError) {
        integer(UInt16(0))
        let start = bytes.count
        try body(&self)
        guard let length = UInt16(exactly: bytes.count - start) else {
            throw .tooLong(limit: Int(UInt16.max), actual: bytes.count - start)
        }
        bytes[start - 2] = UInt8(length >> 8)
        bytes[start - 1] = UInt8(length & 0xFF)
    }

    /// Writes a name; with `compressed` its end may be a pointer to the same labels, letter by letter, before it.
    mutating func name(_ name: DNSName, compressed: Bool = true) {
        var rest = name.labels[...]
        while let label = rest.first {
            let ending = Array(rest)
            if compressed, compresses, let place = places[ending] { return integer(UInt16(0xC000 | place)) }
            if places[ending] == nil, bytes.count < 0x4000 { places[ending] = bytes.count }
            integer(UInt8(label.count))
            bytes += label
            rest = rest.dropFirst()
        }
        integer(UInt8(0))
    }
}
