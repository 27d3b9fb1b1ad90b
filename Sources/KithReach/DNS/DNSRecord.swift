public import KithWire

/// The type of a record, or of those that are asked for.
public struct DNSType: RawRepresentable, Hashable, Sendable {
    /// The number (IANA, "Domain Name System Parameters").
    public let rawValue: UInt16

    /// Makes the type of a number.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// An IPv4 address.
    public static let a = DNSType(rawValue: 1)
    /// A server of a zone.
    public static let ns = DNSType(rawValue: 2)
    /// The name that another stands for.
    public static let cname = DNSType(rawValue: 5)
    /// The start of a zone.
    public static let soa = DNSType(rawValue: 6)
    /// A name that something points to.
    public static let ptr = DNSType(rawValue: 12)
    /// Text.
    public static let txt = DNSType(rawValue: 16)
    /// An IPv6 address.
    public static let aaaa = DNSType(rawValue: 28)
    /// The host and port of a service.
    public static let srv = DNSType(rawValue: 33)
    /// Not a record: what its sender can do (RFC 6891).
    public static let opt = DNSType(rawValue: 41)
    /// The types that a name has: it has no other (RFC 4034 §4).
    public static let nsec = DNSType(rawValue: 47)
    /// In a question: every type.
    public static let any = DNSType(rawValue: 255)
}

/// The start of a zone: whose it is, and for how long what is not there may be taken as missing (RFC 1035 §3.3.13).
public struct DNSAuthority: Hashable, Sendable {
    /// The first server of the zone.
    public var server: DNSName
    /// The mailbox of whoever is responsible, with a dot for the at sign.
    public var mailbox: DNSName
    /// The version of the zone.
    public var serial: UInt32
    /// The seconds after which another server asks for changes.
    public var refresh: UInt32
    /// The seconds after which it asks again.
    public var retry: UInt32
    /// The seconds after which it gives up.
    public var expire: UInt32
    /// The seconds that an answer of "there is none" holds (RFC 2308).
    public var minimum: UInt32

    /// Makes one.
    public init(
        server: DNSName, mailbox: DNSName, serial: UInt32, refresh: UInt32, retry: UInt32, expire: UInt32,
        minimum: UInt32
    ) {
        self.server = server
        self.mailbox = mailbox
        self.serial = serial
        self.refresh = refresh
        self.retry = retry
        self.expire = expire
        self.minimum = minimum
    }
}

/// One record of a message.
public struct DNSRecord: Hashable, Sendable {
    /// The internet's class, of all records here.
    public static let internet: UInt16 = 1

    /// The data of a record.
    @nonexhaustive
    public enum Content: Hashable, Sendable {
        /// Addresses, of either family; the port is 0.
        case address(NetworkAddress)
        /// A server of the zone.
        case server(DNSName)
        /// The name that this one stands for.
        case alias(DNSName)
        /// The name that this one points to.
        case pointer(DNSName)
        /// Strings of at most 255 bytes each, one at least.
        case text([[UInt8]])
        /// Where a service is offered.
        case service(priority: UInt16, weight: UInt16, port: UInt16, host: DNSName)
        /// The start of the zone.
        case authority(DNSAuthority)
        /// The next name of the zone, and the types that this one has, in order: it has no other.
        case denial(next: DNSName, types: [DNSType])
        /// The data of another type, as it stands on the wire.
        ///
        /// What a pointer in it would lead to is not followed.
        case other(DNSType, [UInt8])
    }

    /// The name it is about.
    public var name: DNSName
    /// The class: the internet's.
    ///
    /// mDNS has a flag in its highest bit, and OPT the size of a datagram here.
    public var recordClass: UInt16
    /// The seconds that it holds.
    public var timeToLive: UInt32
    /// What it says.
    public var content: Content

    /// Makes a record.
    public init(
        _ name: DNSName, recordClass: UInt16 = internet, timeToLive: UInt32, _ content: Content
    ) {
        self.name = name
        self.recordClass = recordClass
        self.timeToLive = timeToLive
        self.content = content
    }

    /// The OPT record that says how large a datagram may be (RFC 6891 §6.1).
    public static func options(
        datagramSize: UInt16, extendedCode: UInt8 = 0, version: UInt8 = 0
    ) -> DNSRecord {
        DNSRecord(
            .root, recordClass: datagramSize, timeToLive: UInt32(extendedCode) << 24 | UInt32(version) << 16,
            .other(.opt, []))
    }

    /// The type of its content.
    public var type: DNSType {
        switch content {
        case .address(let address): address.isIPv6 ? .aaaa : .a
        case .server: .ns
        case .alias: .cname
        case .pointer: .ptr
        case .text: .txt
        case .service: .srv
        case .authority: .soa
        case .denial: .nsec
        case .other(let type, _): type
        }
    }
}

// MARK: - Wire

extension DNSRecord {
    func write(to writer: inout DNSWriter) throws(WireError) {
        writer.name(name)
        writer.integer(type.rawValue)
        writer.integer(recordClass)
        writer.integer(timeToLive)
        try writer.prefixed { (data: inout DNSWriter) throws(WireError) in try content.write(to: &data) }
    }
}

extension DNSRecord.Content {
    fileprivate func write(to writer: inout DNSWriter) throws(WireError) {
        switch self {
        case .address(let address): writer.bytes(address.ip)
        case .server(let name), .alias(let name), .pointer(let name): writer.name(name)
        case .text(let strings):
            guard !strings.isEmpty else { throw .invalid("a text has one string at least") }
            for string in strings {
                guard let count = UInt8(exactly: string.count) else {
                    throw .tooLong(limit: 255, actual: string.count)
                }
                writer.integer(count)
                writer.bytes(string)
            }
        case .service(let priority, let weight, let port, let host):
            writer.integer(priority)
            writer.integer(weight)
            writer.integer(port)
            // RFC 2782: the host is not compressed.
            writer.name(host, compressed: false)
        case .authority(let authority):
            writer.name(authority.server)
            writer.name(authority.mailbox)
            for number in [
                authority.serial, authority.refresh, authority.retry, authority.expire, authority.minimum,
            ] { writer.integer(number) }
        case .denial(let next, let types):
            // RFC 4034 §4.1.1: the name is not compressed.
            writer.name(next, compressed: false)
            for (window, types) in Dictionary(grouping: types, by: { $0.rawValue >> 8 }).sorted(by: { $0.key < $1.key })
            {
                var bits: [UInt8] = []
                for type in types.map({ Int($0.rawValue & 0xFF) }) {
                    if bits.count <= type / 8 { bits += [UInt8](repeating: 0, count: type / 8 + 1 - bits.count) }
                    bits[type / 8] |= 0x80 >> UInt8(type % 8)
                }
                writer.integer(UInt8(window))
                writer.integer(UInt8(bits.count))
                writer.bytes(bits)
            }
        case .other(_, let bytes): writer.bytes(bytes)
        }
    }
}

extension DNSRecord.Content {
    /// The data as it stands on the wire with no name compressed; empty for what cannot be written.
    package var uncompressed: [UInt8] {
        var writer = DNSWriter(compresses: false)
        // A text of no strings, or of too long ones, is none of a message that was read.
        return (try? write(to: &writer)) == nil ? [] : writer.bytes
    }
}

extension ByteReader {
    @_lifetime(self: copy self)
    mutating func dnsRecord(in message: [UInt8]) throws(WireError) -> DNSRecord {
        let name = try dnsName(in: message)
        let type = DNSType(rawValue: try integer())
        let recordClass: UInt16 = try integer()
        let timeToLive: UInt32 = try integer()
        let length = Int(try integer(as: UInt16.self))
        guard length <= remaining else { throw .truncated(needed: length, left: remaining) }
        let end = position + length
        let content = try dnsContent(of: type, length: length, in: message)
        guard position == end else { throw .invalid("the data of a record has the length it says") }
        return DNSRecord(name, recordClass: recordClass, timeToLive: timeToLive, content)
    }

    @_lifetime(self: copy self)
    private mutating func dnsContent(
        of type: DNSType, length: Int, in message: [UInt8]
    ) throws(WireError) -> DNSRecord.Content {
        switch type {
        case .a:
            let ip = try bytes(length)
            guard length == 4, let address = NetworkAddress(ip: ip, port: 0) else {
                throw .invalid("an IPv4 address has four bytes")
            }
            return .address(address)
        case .aaaa:
            let ip = try bytes(length)
            guard length == 16, let address = NetworkAddress(ip: ip, port: 0) else {
                throw .invalid("an IPv6 address has sixteen bytes")
            }
            // An IPv4 address in the form of IPv6 would be written as another type.
            return address.isIPv6 ? .address(address) : .other(.aaaa, ip)
        case .ns: return .server(try dnsName(in: message))
        case .cname: return .alias(try dnsName(in: message))
        case .ptr: return .pointer(try dnsName(in: message))
        case .txt: return .text(try dnsStrings(length))
        case .srv:
            return .service(
                priority: try integer(), weight: try integer(), port: try integer(), host: try dnsName(in: message))
        case .soa:
            let server = try dnsName(in: message)
            let mailbox = try dnsName(in: message)
            return .authority(
                DNSAuthority(
                    server: server, mailbox: mailbox, serial: try integer(), refresh: try integer(),
                    retry: try integer(), expire: try integer(), minimum: try integer()))
        case .nsec:
            let end = position + length
            let next = try dnsName(in: message)
            return .denial(next: next, types: try dnsTypes(until: end))
        default: return .other(type, try bytes(length))
        }
    }

    /// Reads the bits of types up to a place: windows in order, each with 1 to 32 bytes.
    @_lifetime(self: copy self)
    private mutating func dnsTypes(until end: Int) throws(WireError) -> [DNSType] {
        var types: [DNSType] = []
        var last = -1
        while position < end {
            let window = Int(try integer(as: UInt8.self))
            let count = Int(try integer(as: UInt8.self))
            guard window > last, (1...32).contains(count) else {
                throw .invalid("the types of a name are in windows, in order")
            }
            last = window
            for (index, bits) in try bytes(count).enumerated() where bits != 0 {
                for bit in 0..<8 where bits & 0x80 >> UInt8(bit) != 0 {
                    types.append(DNSType(rawValue: UInt16(window << 8 | index << 3 | bit)))
                }
            }
        }
        return types
    }

    @_lifetime(self: copy self)
    private mutating func dnsStrings(_ length: Int) throws(WireError) -> [[UInt8]] {
        let end = position + length
        var strings: [[UInt8]] = []
        while position < end { strings.append(try bytes(Int(try integer(as: UInt8.self)))) }
        guard !strings.isEmpty else { throw .invalid("a text has one string at least") }
        return strings
    }
}
