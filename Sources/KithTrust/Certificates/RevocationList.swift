public import KithIdentity
public import KithWire

/// The devices that a root has cut off for good, signed by it.
///
/// ```
///  v     1
///  id    the public key of the root, 65 bytes (X9.63)
///  sig   the ECDSA signature (P-256, SHA-256, 64 bytes) of "kith revocation list 1", a zero byte, the key, and the body
///  body  the CBOR of { n: its number, t: when it was signed,
///        r: [{ d: the key of a device, 32 bytes, t: when it was revoked, w: why }] }, as bytes
/// ```
///
/// Each has a greater number than the one before; one with a lower number is refused.
public struct RevocationList: Hashable, Sendable {
    /// The most devices on one.
    public static let entryLimit = 1_000
    /// The longest one read, in bytes.
    public static let sizeLimit = 96 << 10

    /// The reason for a revocation.
    @nonexhaustive
    public enum Reason: String, Hashable, Sendable, Codable, CaseIterable {
        /// None was given.
        case unspecified
        /// The device is lost or stolen.
        case lost
        /// Somebody else may have its key.
        case compromised
        /// It is not used any more.
        case retired
    }

    /// A device that was revoked.
    public struct Entry: Hashable, Sendable {
        /// The device.
        public var device: DeviceID
        /// The time, in seconds since 1970.
        public var time: Int64
        /// The reason; one that a later version of Kith gave is ``Reason/unspecified``.
        public var reason: Reason

        /// Makes an entry.
        public init(device: DeviceID, time: Int64, reason: Reason) {
            self.device = device
            self.time = time
            self.reason = reason
        }
    }

    /// The bytes that are sent.
    public let bytes: [UInt8]
    /// Its number.
    public let number: UInt64
    /// The time it was signed, in seconds since 1970.
    public let time: Int64
    /// The devices, each once.
    public let entries: [Entry]

    /// Signs the list that follows `last`, with one device more, or without: to say that there is nothing newer.
    ///
    /// - Throws: `KithError` `.exhausted` when there are too many, `.conflict` when the device is on it already.
    public init(
        after last: RevocationList?, adding entry: Entry?, by authority: CertificateAuthority, now: Int64
    ) throws(KithError) {
        var entries = last?.entries ?? []
        if let entry {
            guard last?.revokes(entry.device) != true else {
                throw KithError(.conflict, "\(entry.device.short) is revoked already.")
            }
            guard entries.count < Self.entryLimit else {
                throw KithError(
                    .exhausted, "\(Self.entryLimit) devices are revoked already. Begin a new root, without them.")
            }
            entries.append(entry)
        }
        let (number, overflow) = (last?.number ?? 0).addingReportingOverflow(1)
        guard !overflow else { throw KithError(.exhausted, "The numbers of the revocation list are used up.") }
        try self.init(number: number, entries, by: authority, now: now)
    }

    init(number: UInt64, _ entries: [Entry], by authority: CertificateAuthority, now: Int64) throws(KithError) {
        do {
            let body = try CBOREncoder().encode(
                Body(
                    n: number, t: now,
                    r: entries.map { Body.Row(d: ByteString($0.device.bytes), t: $0.time, w: $0.reason.rawValue) }))
            let key = authority.root.publicKey
            let signature = try authority.signature(for: Self.message(key, body))
            bytes = try CBOREncoder().encode(
                SignedEnvelope(v: 1, id: ByteString(key), sig: ByteString(signature), body: ByteString(body)))
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "Could not sign the revocation list.", cause: error)
        }
        (self.number, time, self.entries) = (number, now, entries)
    }

    /// Reads one that `root` has signed.
    ///
    /// - Throws: `KithError` `.corrupt` for what is not a list, `.denied` for one that another key has signed.
    public init(_ bytes: [UInt8], by root: RootCertificate) throws(KithError) {
        guard bytes.count <= Self.sizeLimit,
            let envelope = try? CBORDecoder().decode(SignedEnvelope.self, from: bytes), envelope.v == 1
        else { throw Self.malformed }
        guard envelope.id.bytes == root.publicKey,
            root.isValid(
                signature: envelope.sig.bytes, for: Self.message(root.publicKey, envelope.body.bytes))
        else {
            throw KithError(.denied, "The revocation list is not signed by the root that is pinned here.")
        }
        guard let body = try? CBORDecoder().decode(Body.self, from: envelope.body.bytes),
            body.r.count <= Self.entryLimit
        else { throw Self.malformed }
        var entries: [Entry] = []
        var seen: Set<DeviceID> = []
        for row in body.r {
            guard let device = try? DeviceID(publicKey: row.d.bytes), seen.insert(device).inserted else {
                throw Self.malformed
            }
            entries.append(Entry(device: device, time: row.t, reason: Reason(rawValue: row.w) ?? .unspecified))
        }
        self.bytes = bytes
        (number, time, self.entries) = (body.n, body.t, entries)
    }

    /// Tells whether a device is on it.
    public func revokes(_ device: DeviceID) -> Bool { entries.contains { $0.device == device } }

    /// Tells whether it replaces `known`.
    ///
    /// - Throws: `KithError` `.conflict` for one that is older: somebody plays back what was true once.
    public func replaces(_ known: RevocationList?) throws(KithError) -> Bool {
        guard let known, number <= known.number else { return true }
        guard number == known.number else {
            throw KithError(
                .conflict,
                "The revocation list has the number \(number), and \(known.number) is known already: it is an old one.")
        }
        return false
    }

    private static var malformed: KithError { KithError(.corrupt, "That is not a revocation list.") }

    /// The bytes that are signed: no other signature of a root key is of bytes that begin so.
    private static func message(_ root: [UInt8], _ body: [UInt8]) -> [UInt8] {
        Array("kith revocation list 1".utf8) + [0] + root + body
    }

    private struct Body: Codable {
        struct Row: Codable {
            var d: ByteString
            var t: Int64
            var w: String
        }
        var n: UInt64
        var t: Int64
        var r: [Row]
    }
}
