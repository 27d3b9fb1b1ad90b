/// The name of a pre-shared key, and the chance value it is used with (RFC 9420 §8.4).
public struct PreSharedKeyID: Hashable, Sendable {
    /// The purpose of a resumption key.
    @nonexhaustive
    public enum Usage: UInt8, Hashable, Sendable {
        /// Whatever the application wants.
        case application = 1
        /// A group that follows another (§11.2).
        case reInit = 2
        /// A group of some members of another (§11.3).
        case branch = 3
    }

    /// The key that is meant.
    @nonexhaustive
    public enum Key: Hashable, Sendable {
        /// One the application provides.
        case external(id: [UInt8])
        /// The one that an epoch of a group left behind.
        case resumption(Usage, groupID: [UInt8], epoch: UInt64)
    }

    /// The key that is meant.
    public var key: Key
    /// A fresh random value of `KDF.Nh` bytes.
    public var nonce: [UInt8]

    /// Names a key; ``nonce`` must be fresh for every use.
    public init(key: Key, nonce: [UInt8]) {
        self.key = key
        self.nonce = nonce
    }

    /// True when it ties a new group to an old one, which no proposal may do (§12.1.4).
    var startsGroup: Bool {
        switch key {
        case .resumption(.reInit, _, _), .resumption(.branch, _, _): true
        default: false
        }
    }
}

extension PreSharedKeyID: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        switch try reader.integer(as: UInt8.self) {
        case 1: key = .external(id: try reader.opaque())
        case 2:
            guard let usage = Usage(rawValue: try reader.integer()) else { throw .invalidPSKType }
            key = .resumption(usage, groupID: try reader.opaque(), epoch: try reader.integer())
        default: throw .invalidPSKType
        }
        nonce = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        switch key {
        case .external(let id):
            writer.integer(1 as UInt8)
            writer.opaque(id)
        case .resumption(let usage, let groupID, let epoch):
            writer.integer(2 as UInt8)
            writer.integer(usage.rawValue)
            writer.opaque(groupID)
            writer.integer(epoch)
        }
        writer.opaque(nonce)
    }
}
