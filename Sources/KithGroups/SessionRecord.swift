import KithMLS

/// The position of a session in the delivery service's order, and in its own numbers.
struct SessionRecord: Hashable {
    /// The first of the group's messages that was not looked at.
    var cursor: UInt64 = 0
    /// The epoch this client joined in: what was sent before is not for it.
    var firstEpoch: UInt64 = 0
    var nextOutgoing: UInt64 = 0
    var nextEvent: UInt64 = 0
    /// True once the application was notified that this client must join anew.
    var needsRejoin = false
    /// True when the group's public state is to be published, as this client has begun its epoch.
    var publishes = false
    /// The last epochs that commits of this client's began: who made one may find that another process has settled it.
    private(set) var confirmed: [UInt64] = []

    /// Notes an epoch that an own commit began.
    mutating func confirm(_ epoch: UInt64) { confirmed = confirmed.suffix(7) + [epoch] }

    init() {}

    init(_ row: GroupRow) throws(GroupError) {
        self = try row.content.reading { reader throws(MLSError) in
            var record = SessionRecord()
            record.cursor = try reader.integer()
            record.firstEpoch = try reader.integer()
            record.nextOutgoing = try reader.integer()
            record.nextEvent = try reader.integer()
            record.needsRejoin = try reader.flag()
            record.publishes = try reader.flag()
            for _ in 0..<(try reader.integer(as: UInt8.self)) { record.confirmed.append(try reader.integer()) }
            return record
        }
    }

    var row: GroupRow {
        GroupRow(
            GroupRow.Key(.session),
            StoredBytes { writer in
                writer.integer(cursor)
                writer.integer(firstEpoch)
                writer.integer(nextOutgoing)
                writer.integer(nextEvent)
                writer.flag(needsRejoin)
                writer.flag(publishes)
                writer.integer(UInt8(confirmed.count))
                for epoch in confirmed { writer.integer(epoch) }
            })
    }
}

/// A message that is to be handed to the delivery service.
struct Outgoing: Hashable {
    enum Kind: Hashable {
        /// A proposal, of no use once its epoch is over.
        case proposal
        /// Refused when another one was first.
        case commit
        case welcome
        /// A word about a commit that was taken, and is none.
        case refusal
        /// Encrypted again, from what it says, when its epoch was over before it had a place.
        case data([UInt8], authenticated: [UInt8])
    }

    let number: UInt64
    let kind: Kind
    /// The bytes for the delivery service: empty for data that is to be encrypted again.
    var bytes: [UInt8]

    var isData: Bool { if case .data = kind { true } else { false } }

    init(number: UInt64, kind: Kind, bytes: [UInt8]) {
        self.number = number
        self.kind = kind
        self.bytes = bytes
    }

    init(_ row: GroupRow) throws(GroupError) {
        let (kind, bytes): (Kind, [UInt8]) = try row.content.reading { reader throws(MLSError) in
            let kind: Kind =
                switch try reader.integer(as: UInt8.self) {
                case 1: .proposal
                case 2: .commit
                case 3: .welcome
                case 5: .refusal
                case 4: .data(try reader.opaque(), authenticated: try reader.opaque())
                default: throw .invalidContentType
                }
            return (kind, try reader.opaque())
        }
        self.init(number: row.key.number, kind: kind, bytes: bytes)
    }

    var row: GroupRow {
        GroupRow(
            GroupRow.Key(.outbox, number: number),
            StoredBytes { writer in
                switch kind {
                case .proposal: writer.integer(1 as UInt8)
                case .commit: writer.integer(2 as UInt8)
                case .welcome: writer.integer(3 as UInt8)
                case .refusal: writer.integer(5 as UInt8)
                case .data(let data, let authenticated):
                    writer.integer(4 as UInt8)
                    writer.opaque(data)
                    writer.opaque(authenticated)
                }
                writer.opaque(bytes)
            })
    }
}

extension NumberedEvent {
    init(_ row: GroupRow) throws(GroupError) {
        self.init(
            number: row.key.number,
            event: try row.content.reading { reader throws(MLSError) in try GroupEvent(from: &reader) })
    }

    var row: GroupRow {
        GroupRow(GroupRow.Key(.inbox, number: number), StoredBytes { event.encode(into: &$0) })
    }
}

extension StoredBytes {
    /// The form that rows of sessions are written in; they say it in their first byte.
    private static let format: UInt8 = 1

    convenience init(_ body: (inout TLSWriter) -> Void) {
        var writer = TLSWriter(capacity: 512)
        writer.integer(Self.format)
        body(&writer)
        self.init(copying: writer.bytes)
        writer.wipe()
    }

    func reading<Value>(_ body: (inout TLSReader) throws(MLSError) -> Value) throws(GroupError) -> Value {
        try withBytes { bytes throws(GroupError) in
            var reader = TLSReader(bytes)
            do throws(MLSError) {
                let format: UInt8 = try reader.integer()
                guard format <= Self.format else { throw .unsupportedVersion }
                guard format == Self.format else { throw .invalidContentType }
                let value = try body(&reader)
                try reader.finish()
                return value
            } catch {
                throw .storage(error == .unsupportedVersion ? .laterFormat : .corrupt)
            }
        }
    }
}
