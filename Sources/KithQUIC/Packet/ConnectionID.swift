import KithWire

/// A QUIC connection id: up to 20 bytes that route a datagram to its connection (RFC 9000 §5.1).
///
/// Held in place, without heap: it is a key of the routing table and stands on the packet path.
public struct ConnectionID: Hashable, Sendable {
    private var first: UInt64 = 0
    private var second: UInt64 = 0
    private var third: UInt32 = 0
    private var length: UInt8 = 0

    /// The length of every id this engine issues.
    public static let localLength = 8
    /// The longest id QUIC version 1 allows.
    public static let maximumLength = 20

    /// The empty id.
    public init() {}

    /// Makes an id of `bytes`; nil when there are more than 20.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.maximumLength else { return nil }
        length = UInt8(bytes.count)
        for (index, byte) in bytes.enumerated() { set(byte, at: index) }
    }

    /// Copies an id out of a packet; the caller has checked that there are at most 20 bytes.
    init(copying bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count <= Self.maximumLength, "a connection id has at most 20 bytes")
        length = UInt8(bytes.count)
        var storage: (UInt64, UInt64, UInt64) = (0, 0, 0)
        unsafe withUnsafeMutableBytes(of: &storage) { unsafe $0.copyMemory(from: bytes) }
        first = storage.0
        second = storage.1
        third = UInt32(truncatingIfNeeded: UInt64(littleEndian: storage.2)).littleEndian
    }

    /// An id of the length this engine issues, from 64 random bits.
    ///
    /// It never makes a short packet look like STUN, whose cookie is in bytes 4 to 7 of a message: the two share a
    /// socket, and the first byte does not tell them apart where the QUIC bit is greased (RFC 8489 §5, RFC 9287).
    init(random: UInt64) {
        first = random
        length = UInt8(Self.localLength)
        // Any other cookie will do, and the complement is one.
        if random.littleEndian >> 24 & 0xFFFF_FFFF == UInt64(Self.stunCookie.byteSwapped) { first = ~random }
    }

    /// The magic cookie of STUN messages, big-endian (RFC 8489 §5).
    private static let stunCookie: UInt32 = 0x2112_A442

    private mutating func set(_ byte: UInt8, at index: Int) {
        switch index {
        case 0..<8: first = (first.littleEndian | UInt64(byte) << (8 * index)).littleEndian
        case 8..<16: second = (second.littleEndian | UInt64(byte) << (8 * (index - 8))).littleEndian
        default: third = (third.littleEndian | UInt32(byte) << (8 * (index - 16))).littleEndian
        }
    }

    /// The number of bytes in the id.
    public var count: Int { Int(length) }

    /// The bytes, copied out.
    public var bytes: [UInt8] {
        var storage = (first, second, UInt64(third.littleEndian).littleEndian)
        return unsafe withUnsafeBytes(of: &storage) { unsafe [UInt8]($0.prefix(count)) }
    }

    /// Writes the bytes to `pointer`, which has room for ``count`` of them.
    @inline(__always)
    func copy(to pointer: UnsafeMutableRawPointer) {
        if length == 8 {
            unsafe pointer.storeBytes(of: first, as: UInt64.self)
            return
        }
        var storage = (first, second, UInt64(third.littleEndian).littleEndian)
        unsafe withUnsafeBytes(of: &storage) {
            unsafe pointer.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: count)
        }
    }
}

extension ConnectionID: CustomStringConvertible {
    /// The bytes in hexadecimal.
    public var description: String { Hex.encode(bytes) }
}

/// The 16 bytes that prove a stateless reset (RFC 9000 §10.3).
public struct ResetToken: Hashable, Sendable {
    private var first: UInt64
    private var second: UInt64

    /// Copies a token from 16 bytes.
    init(copying bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count == 16, "a stateless reset token has 16 bytes")
        first = unsafe bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self)
        second = unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }

    /// Makes a token from 16 bytes; nil for any other count.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self = unsafe bytes.withUnsafeBytes { unsafe ResetToken(copying: $0) }
    }

    /// The 16 bytes.
    package var bytes: [UInt8] {
        var storage = (first, second)
        return unsafe withUnsafeBytes(of: &storage) { unsafe [UInt8]($0) }
    }

    /// Compares without revealing by its timing how much agrees (RFC 9000 §10.3.1).
    func matches(_ other: ResetToken) -> Bool { (first ^ other.first) | (second ^ other.second) == 0 }
}
