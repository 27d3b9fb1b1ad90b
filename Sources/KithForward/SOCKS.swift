import KithAPI
import KithIdentity
import KithWire

/// The messages of SOCKS version 5 (RFC 1928), and of its password sub-negotiation (RFC 1929).
///
/// Parsers take what has come so far and give the message with the count of its bytes, or `nil` while it is not whole.
enum SOCKS {
    /// The ways a client may show who it is (§3).
    enum Authentication: UInt8 {
        case none = 0
        case password = 2
        case unacceptable = 0xFF
    }

    /// The request of a client (§4).
    enum Command: UInt8 {
        case connect = 1
        case bind = 2
        case associate = 3
    }

    /// The answer to a client (§6).
    enum Reply: UInt8 {
        case succeeded = 0
        case generalFailure = 1
        case notAllowed = 2
        case networkUnreachable = 3
        case hostUnreachable = 4
        case connectionRefused = 5
        /// Used for a host that does not answer.
        case expired = 6
        case commandNotSupported = 7
        case addressTypeNotSupported = 8
    }

    /// A request.
    struct Request: Hashable {
        /// The command asked for; `nil` for one that does not exist.
        var command: Command?
        /// The destination; `nil` for an unknown form of address, or an invalid name.
        var endpoint: Forward.Endpoint?
        /// True when the address has a known form.
        var isAddressTypeKnown: Bool
    }

    /// The methods a client offers: version, count, methods.
    static func greeting(_ bytes: [UInt8]) throws(KithError) -> (methods: [UInt8], count: Int)? {
        guard bytes.count >= 2 else { return nil }
        guard bytes[0] == 5 else { throw KithError(.invalid, "Only version 5 of SOCKS is spoken here.") }
        let count = 2 + Int(bytes[1])
        guard bytes.count >= count else { return nil }
        return (Array(bytes[2..<count]), count)
    }

    /// A name and a password (RFC 1929 §2): version 1, then each with its length.
    static func password(_ bytes: [UInt8]) throws(KithError) -> (user: [UInt8], password: [UInt8], count: Int)? {
        guard bytes.count >= 2 else { return nil }
        guard bytes[0] == 1 else { throw KithError(.invalid, "That is not a SOCKS password.") }
        let user = 2 + Int(bytes[1])
        guard bytes.count > user else { return nil }
        let end = user + 1 + Int(bytes[user])
        guard bytes.count >= end else { return nil }
        return (Array(bytes[2..<user]), Array(bytes[(user + 1)..<end]), end)
    }

    /// A request (§4): version, command, reserved, address.
    static func request(_ bytes: [UInt8]) throws(KithError) -> (request: Request, count: Int)? {
        guard bytes.count >= 5 else { return nil }
        guard bytes[0] == 5 else { throw KithError(.invalid, "Only version 5 of SOCKS is spoken here.") }
        let command = Command(rawValue: bytes[1])
        guard let address = address(bytes[3...]) else { return nil }
        return (
            Request(command: command, endpoint: address.endpoint, isAddressTypeKnown: address.isKnown),
            3 + address.count
        )
    }

    /// An answer (§6) with the address of the port here, if there is one.
    static func reply(_ reply: Reply, _ address: NetworkAddress = NetworkAddress(ipv4: 0, port: 0)) -> [UInt8] {
        [5, reply.rawValue, 0] + encoded(address)
    }

    /// A datagram with where it goes (§7); `nil` for one that is malformed, or part of a larger one, which this end
    /// need not put together.
    static func datagram(_ bytes: [UInt8]) -> (endpoint: Forward.Endpoint, payload: [UInt8])? {
        guard bytes.count >= 5, bytes[2] == 0, let address = address(bytes[3...]), let endpoint = address.endpoint
        else {
            return nil
        }
        return (endpoint, Array(bytes[(3 + address.count)...]))
    }

    /// A datagram with where it came from.
    static func datagram(from address: NetworkAddress, _ payload: [UInt8]) -> [UInt8] {
        [0, 0, 0] + encoded(address) + payload
    }

    /// An address (§5): form, address, port; `nil` while it is not whole.
    private static func address(_ bytes: ArraySlice<UInt8>) -> (endpoint: Forward.Endpoint?, isKnown: Bool, count: Int)?
    {
        let bytes = Array(bytes)
        guard let form = bytes.first else { return nil }
        let start: Int
        let length: Int
        switch form {
        case 1: (start, length) = (1, 4)
        case 4: (start, length) = (1, 16)
        case 3:
            guard bytes.count >= 2 else { return nil }
            (start, length) = (2, Int(bytes[1]))
        default: return (nil, false, bytes.count)
        }
        let end = start + length + 2
        guard bytes.count >= end else { return nil }
        let host = Array(bytes[start..<(start + length)])
        let port = UInt16(bytes[end - 2]) << 8 | UInt16(bytes[end - 1])
        let endpoint: Forward.Endpoint? =
            form == 3
            ? Self.endpoint(String(decoding: host, as: UTF8.self), port)
            : NetworkAddress(ip: host, port: port).map { .address($0) }
        return (endpoint, true, end)
    }

    /// A host as clients name it: some send addresses as text.
    private static func endpoint(_ host: String, _ port: UInt16) -> Forward.Endpoint? {
        switch Forward.Endpoint(host: host, port: port) {
        case .every, nil: nil
        case let endpoint?: endpoint
        }
    }

    private static func encoded(_ address: NetworkAddress) -> [UInt8] {
        [address.isIPv6 ? 4 : 1] + address.ip + [UInt8(address.port >> 8), UInt8(address.port & 0xFF)]
    }
}

extension SOCKS.Reply {
    /// Makes the answer to a client about an opening.
    init(_ opening: Forward.Opening) {
        self =
            switch opening.outcome {
            case .connected: .succeeded
            case .refused: .connectionRefused
            case .unreachable, .notFound: .hostUnreachable
            case .timedOut: .expired
            }
    }

    /// Makes the answer to a client about an error.
    init(_ error: any Error) {
        self =
            switch (error as? KithError)?.code {
            case .denied, .unpaired: .notAllowed
            case .unreachable, .closed: .networkUnreachable
            case .timedOut: .expired
            default: .generalFailure
            }
    }
}
