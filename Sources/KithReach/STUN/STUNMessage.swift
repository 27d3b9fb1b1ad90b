package import KithWire

/// A STUN message of the Binding method (RFC 8489), with what RFC 5780 adds to find out how a NAT behaves.
///
///     0   type        2   class and method
///     2   length      2   of what follows the header, a multiple of 4
///     4   cookie      4   0x2112A442
///     8   transaction 12
///     20  attributes      type 2 ‖ length 2 ‖ value ‖ padding to a multiple of 4
///
/// Of an attribute that occurs twice the first counts. Those after a MESSAGE-INTEGRITY are passed over, except
/// FINGERPRINT, which must be right where it is present, and last.
package struct STUNMessage: Hashable, Sendable {
    /// What a message is for.
    package enum Class: UInt16, Hashable, Sendable, CaseIterable {
        /// A question, which is answered.
        case request = 0x001
        /// A message that nobody answers.
        case indication = 0x011
        /// The answer to a request.
        case success = 0x101
        /// A refusal of a request.
        case failure = 0x111
    }

    /// A request to be answered from another address of the server (RFC 5780 §7.2).
    package struct ChangeRequest: Hashable, Sendable {
        /// From its other IP address.
        package var changesIP: Bool
        /// From its other port.
        package var changesPort: Bool

        /// Makes a request.
        package init(changesIP: Bool, changesPort: Bool) {
            (self.changesIP, self.changesPort) = (changesIP, changesPort)
        }
    }

    /// Why a server refuses a request (RFC 8489 §14.8).
    package struct Refusal: Hashable, Sendable {
        /// The number, 300…699.
        package var code: UInt16
        /// The attributes that a request must not have, with code 420.
        package var unknownAttributes: [UInt16]

        /// Makes a refusal.
        package init(code: UInt16, unknownAttributes: [UInt16] = []) {
            (self.code, self.unknownAttributes) = (code, unknownAttributes)
        }
    }

    /// The types of attributes that are read or written here.
    enum Attribute {
        static let mappedAddress: UInt16 = 0x0001
        static let changeRequest: UInt16 = 0x0003
        static let messageIntegrity: UInt16 = 0x0008
        static let errorCode: UInt16 = 0x0009
        static let unknownAttributes: UInt16 = 0x000A
        static let messageIntegritySHA256: UInt16 = 0x001C
        static let xorMappedAddress: UInt16 = 0x0020
        static let software: UInt16 = 0x8022
        static let fingerprint: UInt16 = 0x8028
        static let responseOrigin: UInt16 = 0x802B
        static let otherAddress: UInt16 = 0x802C
        /// Those of RFC 8489 that must be understood and say nothing here: USERNAME, REALM, NONCE and the others of
        /// authentication, which a server without accounts passes over.
        static let passedOver: Set<UInt16> = [0x0006, 0x0014, 0x0015, 0x001D, 0x001E]
    }

    /// The bytes of the header.
    package static let headerLength = 20
    /// The cookie, at byte 4 of every message.
    package static let cookie: UInt32 = 0x2112_A442
    /// The longest message that is read.
    package static let maxLength = 1_280

    /// What it is for.
    package var kind: Class
    /// What a request and its answer have in common.
    package var transaction: STUNTransactionID
    /// The address that the server sees the request come from, of XOR-MAPPED-ADDRESS.
    package var xorMappedAddress: NetworkAddress?
    /// The same of MAPPED-ADDRESS, which some routers rewrite.
    package var plainMappedAddress: NetworkAddress?
    /// The address that the answer was sent from.
    package var responseOrigin: NetworkAddress?
    /// The server's other IP address and port.
    package var otherAddress: NetworkAddress?
    /// What a request asks for.
    package var changeRequest: ChangeRequest?
    /// What a failure says.
    package var refusal: Refusal?
    /// Bytes of a SOFTWARE attribute that make a request as long as its answer, at most 124; not read.
    package var paddingLength = 0
    /// True when it carries a FINGERPRINT.
    package var hasFingerprint = false
    /// Attributes of a received message that must be understood and are not.
    package internal(set) var unknownAttributes: [UInt16] = []

    /// Makes a message without attributes.
    package init(_ kind: Class, transaction: STUNTransactionID) {
        (self.kind, self.transaction) = (kind, transaction)
    }

    /// The address that the server sees the request come from.
    package var mappedAddress: NetworkAddress? { xorMappedAddress ?? plainMappedAddress }

    /// Returns whether a datagram is STUN, on a socket that it shares with QUIC.
    ///
    /// Both have 00 at the top of the first byte only where the QUIC bit is greased (RFC 9287): the cookie at byte 4
    /// and a length that fits tell them apart. No connection id that is issued has the cookie where it would be taken
    /// for this one.
    @inlinable
    package static func isSTUN<Bytes: RandomAccessCollection<UInt8>>(_ datagram: Bytes) -> Bool
    where Bytes.Index == Int {
        let start = datagram.startIndex
        guard datagram.count >= 20, datagram[start] & 0xC0 == 0, datagram[start + 4] == 0x21,
            datagram[start + 5] == 0x12, datagram[start + 6] == 0xA4, datagram[start + 7] == 0x42
        else { return false }
        let length = Int(datagram[start + 2]) << 8 | Int(datagram[start + 3])
        return length % 4 == 0 && length + 20 == datagram.count
    }
}

/// What a STUN request and its answer have in common: 12 random bytes.
package struct STUNTransactionID: Hashable, Sendable {
    let first: UInt32
    let rest: UInt64

    /// Makes one of its two parts, big-endian.
    package init(_ first: UInt32, _ rest: UInt64) { (self.first, self.rest) = (first, rest) }

    /// Makes a random one.
    package init(using random: inout some RandomNumberGenerator) {
        self.init(UInt32.random(in: 0 ... .max, using: &random), UInt64.random(in: 0 ... .max, using: &random))
    }
}
