public import KithIdentity
public import KithWire

/// What a device says of itself in public, signed: a pkarr packet, of which a directory keeps the newest.
///
/// ```
///  key 32 │ Ed25519 signature 64 │ time in µs since 1970, big-endian 8 │ DNS message, at most 1000
/// ```
/// The signature is of `3:seqi`, the time in decimal, `e1:v`, the length of the message in decimal, `:`, the message
/// (BEP 44). A directory is told and tells all but the key, which stands in the address asked for.
public struct SignedRecord: Hashable, Sendable {
    /// The most bytes of the message.
    public static let maxMessageLength = 1_000
    /// The bytes before the message, without the key.
    public static let prefixLength = 72
    /// The most bytes of ``body``.
    public static let maxBodyLength = prefixLength + maxMessageLength

    /// Whose record it is.
    public let device: DeviceID
    /// The signature, 64 bytes, which is valid.
    public let signature: [UInt8]
    /// The time it was signed at, in microseconds since 1970; it counts the versions.
    public let time: UInt64
    /// The DNS message.
    public let message: [UInt8]

    /// Signs `message`.
    ///
    /// - Throws: `KithError` `.invalid` for a message that is too long.
    public init(signing message: [UInt8], at time: UInt64, by key: DeviceKey) throws(KithError) {
        guard message.count <= Self.maxMessageLength else {
            throw KithError(
                .invalid,
                "A record holds at most \(Self.maxMessageLength) bytes, and this one would have \(message.count): "
                    + "publish fewer relays or addresses.")
        }
        signature = try key.signature(for: Self.signed(message, time))
        device = key.id
        self.time = time
        self.message = message
    }

    /// Takes what a directory was told or tells of `device`: all but the key.
    ///
    /// - Throws: `WireError` for bytes of the wrong count, or that this device has not signed.
    public init(_ device: DeviceID, body: [UInt8]) throws(WireError) {
        try self.init(unverified: device, body: body)
        guard isGenuine else { throw .invalid("a record is signed by its device") }
    }

    /// Takes a record that was verified before, and kept where nobody else writes.
    ///
    /// - Throws: `WireError` for bytes of the wrong count.
    package init(unverified device: DeviceID, body: [UInt8]) throws(WireError) {
        guard body.count <= Self.maxBodyLength else {
            throw .tooLong(limit: Self.maxBodyLength, actual: body.count)
        }
        var reader = ByteReader(body)
        signature = try reader.bytes(64)
        time = try reader.integer()
        message = try reader.bytes(reader.remaining)
        self.device = device
    }

    /// Tells whether the device signed it; takes about 80 µs.
    package var isGenuine: Bool { device.isValid(signature: signature, for: Self.signed(message, time)) }

    /// The record as directories are told, and tell: all but the key.
    public var body: [UInt8] {
        var writer = ByteWriter(capacity: Self.prefixLength + message.count)
        writer.bytes(signature)
        writer.integer(time)
        writer.bytes(message)
        return writer.bytes
    }

    /// True when it takes the place of `other`: it is newer, or as old and its message larger, byte by byte.
    public func replaces(_ other: SignedRecord) -> Bool {
        time == other.time ? other.message.lexicographicallyPrecedes(message) : time > other.time
    }

    private static func signed(_ message: [UInt8], _ time: UInt64) -> [UInt8] {
        Array("3:seqi\(time)e1:v\(message.count):".utf8) + message
    }
}

extension DeviceID {
    /// The key in z-base-32, 52 letters, as it stands in the addresses of records.
    public var zBase32: String { ZBase32.encode(bytes) }

    /// Reads the key in z-base-32; `nil` when it is not one.
    public init?(zBase32 text: some StringProtocol) {
        guard text.utf8.count == 52, let bytes = ZBase32.decode(text), let id = try? DeviceID(publicKey: bytes) else {
            return nil
        }
        self = id
    }
}

/// The times of a device's records: each later than the one before, also when the clock was set back.
public struct RecordClock: Hashable, Sendable {
    /// The time of the latest record, in microseconds since 1970.
    public private(set) var last: UInt64

    /// Goes on after `last`.
    public init(after last: UInt64 = 0) { self.last = last }

    /// The time of the next record, when the clock says `now`; `nil` once no later one can be written.
    public mutating func next(at now: UInt64) -> UInt64? {
        let (following, overflow) = last.addingReportingOverflow(1)
        guard !overflow else { return nil }
        last = max(now, following)
        return last
    }

    /// Takes notice of a record of this device that others know.
    public mutating func saw(_ time: UInt64) { last = max(last, time) }
}
