/// Anything that one client sends to others (RFC 9420 §6).
@nonexhaustive
public enum MLSMessage: Hashable, Sendable {
    /// A message that is signed and not encrypted.
    case publicMessage(PublicMessage)
    /// A message that only members can read.
    case privateMessage(PrivateMessage)
    /// The secrets with which new members join.
    case welcome(Welcome)
    /// A group's public state.
    case groupInfo(GroupInfo)
    /// A client's offer to be added.
    case keyPackage(KeyPackage)

    /// Reads a message that takes all of `bytes`.
    public init(_ bytes: [UInt8]) throws(MLSError) { try self.init(decoding: bytes) }

    /// The message's bytes.
    public var bytes: [UInt8] { encoded }

    /// The kind of message it carries.
    public var wireFormat: WireFormat {
        switch self {
        case .publicMessage: .publicMessage
        case .privateMessage: .privateMessage
        case .welcome: .welcome
        case .groupInfo: .groupInfo
        case .keyPackage: .keyPackage
        }
    }

    /// The group and epoch it belongs to, when they stand in the clear.
    public var groupAndEpoch: (groupID: [UInt8], epoch: UInt64)? {
        switch self {
        case .publicMessage(let message): (message.groupID, message.epoch)
        case .privateMessage(let message): (message.groupID, message.epoch)
        case .groupInfo(let info): (info.groupContext.groupID, info.groupContext.epoch)
        case .welcome, .keyPackage: nil
        }
    }
}

extension MLSMessage: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        guard try ProtocolVersion(from: &reader) == .mls10 else { throw .unsupportedVersion }
        switch try WireFormat(from: &reader) {
        case .publicMessage: self = .publicMessage(try PublicMessage(from: &reader))
        case .privateMessage: self = .privateMessage(try PrivateMessage(from: &reader))
        case .welcome: self = .welcome(try Welcome(from: &reader))
        case .groupInfo: self = .groupInfo(try GroupInfo(from: &reader))
        case .keyPackage:
            let package = try KeyPackage(from: &reader)
            guard package.version == .mls10 else { throw .keyPackageVersionMismatch }
            self = .keyPackage(package)
        default: throw .unexpectedWireFormat
        }
    }

    package func encode(into writer: inout TLSWriter) {
        ProtocolVersion.mls10.encode(into: &writer)
        wireFormat.encode(into: &writer)
        switch self {
        case .publicMessage(let message): message.encode(into: &writer)
        case .privateMessage(let message): message.encode(into: &writer)
        case .welcome(let welcome): welcome.encode(into: &writer)
        case .groupInfo(let info): info.encode(into: &writer)
        case .keyPackage(let package): package.encode(into: &writer)
        }
    }
}
