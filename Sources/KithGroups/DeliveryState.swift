import Crypto
import KithMLS

/// The state of a delivery service, as the sum of its records: the engine of ``MemoryDelivery`` and ``FileDelivery``.
struct DeliveryState {
    /// One record; a log of these is all there is to keep.
    enum Record {
        case message(groupID: [UInt8], [UInt8])
        case welcome([UInt8])
        case keyPackage(client: ClientID, [UInt8])
        case taken(client: ClientID)
        case groupInfo(groupID: [UInt8], [UInt8])
        case refusal(groupID: [UInt8], [UInt8])
    }

    /// The number of records so far.
    private(set) var count: UInt64 = 0
    private var groups: [[UInt8]: Messages] = [:]
    private var clients: [ClientID: Client] = [:]
    private var welcomes: Set<SHA256Digest> = []

    private struct Messages {
        var all: [[UInt8]] = []
        var positions: [SHA256Digest: UInt64] = [:]
        /// The epoch after the last commit.
        var epoch: UInt64?
        var info: [UInt8]?
        /// The last commit, as long as its epoch may be opened again.
        var last: LastCommit?
    }

    /// A commit that was taken, and what is needed to take another in its place.
    private struct LastCommit {
        let bytes: [UInt8]
        /// The epoch that it ended.
        let epoch: UInt64
        /// The public state of that epoch; nil while nobody has published it.
        var info: [UInt8]?
        /// The members that cannot follow it.
        var refusals: Set<UInt32> = []
    }

    private struct Client {
        var packages: [[UInt8]] = []
        var lastResort: [UInt8]?
        var references: Set<[UInt8]> = []
        var welcomes: [[UInt8]] = []
    }

    /// The answer to a message, and whether the message is new.
    func answer(_ message: [UInt8], to groupID: [UInt8]) throws(DeliveryError) -> (DeliveryAnswer, isNew: Bool) {
        let known = groups[groupID] ?? Messages()
        if let position = known.positions[SHA256.hash(data: message)] { return (.accepted(position: position), false) }
        let parsed = try Self.decode(message)
        guard parsed.isFramed, let target = parsed.groupAndEpoch, target.groupID == groupID else {
            throw DeliveryError("The message is not one of that group.")
        }
        var current = known.epoch
        if current == nil, let info = known.info { current = try Self.epoch(info, groupID) }
        if let current, target.epoch != current { return (.refused, false) }
        return (.accepted(position: UInt64(known.all.count)), true)
    }

    func messages(of groupID: [UInt8], from position: UInt64, limit: Int) -> [DeliveredMessage] {
        Self.page(groups[groupID]?.all ?? [], position, limit)
    }

    func welcomes(for client: ClientID, from position: UInt64, limit: Int) -> [DeliveredMessage] {
        Self.page(clients[client]?.welcomes ?? [], position, limit)
    }

    func isKnown(welcome: [UInt8]) -> Bool { welcomes.contains(SHA256.hash(data: welcome)) }

    /// The key package that would be handed out next, and whether it is used up by that.
    func nextKeyPackage(of client: ClientID) -> (bytes: [UInt8], isUsedUp: Bool)? {
        guard let client = clients[client] else { return nil }
        return client.packages.first.map { ($0, true) } ?? client.lastResort.map { ($0, false) }
    }

    func keyPackageCount(of client: ClientID) -> (count: Int, hasLastResort: Bool) {
        (clients[client]?.packages.count ?? 0, clients[client]?.lastResort != nil)
    }

    func groupInfo(of groupID: [UInt8]) -> [UInt8]? { groups[groupID]?.info }

    mutating func apply(_ record: Record) throws(DeliveryError) {
        count += 1
        switch record {
        case .message(let groupID, let message):
            var group = groups.removeValue(forKey: groupID) ?? Messages()
            group.positions[SHA256.hash(data: message)] = UInt64(group.all.count)
            group.all.append(message)
            if try Self.isCommit(message), let epoch = try Self.decode(message).groupAndEpoch?.epoch {
                group.epoch = epoch &+ 1
                group.last = LastCommit(bytes: message, epoch: epoch)
                if let info = group.info, try Self.epoch(info, groupID) == epoch { group.last?.info = info }
            }
            groups[groupID] = group
        case .welcome(let message):
            welcomes.insert(SHA256.hash(data: message))
            guard case .welcome(let welcome) = try Self.decode(message) else { return }
            let named = Set(welcome.secrets.map(\.newMember))
            for name in clients.keys where clients[name]?.references.isDisjoint(with: named) == false {
                clients[name]?.welcomes.append(message)
            }
        case .keyPackage(let client, let bytes):
            let (reference, package) = try Self.reference(bytes)
            guard clients[client, default: Client()].references.insert(reference).inserted else { return }
            if package.isLastResort {
                clients[client]?.lastResort = bytes
            } else {
                clients[client]?.packages.append(bytes)
            }
        case .taken(let client):
            if clients[client]?.packages.isEmpty == false { clients[client]?.packages.removeFirst() }
        case .groupInfo(let groupID, let info):
            var group = groups.removeValue(forKey: groupID) ?? Messages()
            if let last = group.last, last.info == nil, try Self.epoch(info, groupID) == last.epoch {
                group.last?.info = info
            } else {
                group.info = info
            }
            groups[groupID] = group
        case .refusal(let groupID, let bytes):
            guard let (leaf, members) = try refusal(bytes, of: groupID), let last = groups[groupID]?.last else {
                return
            }
            groups[groupID]?.last?.refusals.insert(leaf)
            // Its maker is no judge of it.
            guard 2 * (last.refusals.count + 1) > members - 1 else { return }
            groups[groupID]?.epoch = last.epoch
            groups[groupID]?.info = last.info
            groups[groupID]?.last = nil
        }
    }

    /// Checks that a record can be applied: what was written and cannot be read again would be the end of the service.
    static func check(_ record: Record) throws(DeliveryError) {
        switch record {
        case .message(_, let message): _ = try isCommit(message)
        case .welcome(let message):
            guard case .welcome = try decode(message) else { throw DeliveryError("That is no Welcome.") }
        case .keyPackage(_, let bytes): _ = try reference(bytes)
        case .groupInfo(let groupID, let info): _ = try epoch(info, groupID)
        case .refusal(_, let bytes): _ = try refusal(bytes)
        case .taken: break
        }
    }

    /// The member whose word about a group's last commit is new, and the number of members; nil when it does not count.
    func refusal(
        _ bytes: [UInt8], of groupID: [UInt8]
    ) throws(DeliveryError) -> (leaf: UInt32, members: Int)? {
        let refusal = try Self.refusal(bytes)
        guard let last = groups[groupID]?.last, refusal.groupID == groupID, refusal.epoch == last.epoch,
            !last.refusals.contains(refusal.leaf), let bytes = last.info,
            case .groupInfo(let info) = try Self.decode(bytes),
            let suite = CipherSuites[id: info.groupContext.cipherSuite],
            let data = info.extensions.first(where: { $0.type == .ratchetTree })?.data
        else { return nil }
        // A public state that cannot be read has no members that could say anything.
        guard let tree = try? RatchetTree(data), let key = tree.leaf(refusal.leaf)?.signatureKey,
            refusal.isValid(suite, about: last.bytes, by: key)
        else { return nil }
        return (refusal.leaf, tree.memberCount)
    }

    private static func refusal(_ bytes: [UInt8]) throws(DeliveryError) -> CommitRefusal {
        do { return try CommitRefusal(bytes) } catch {
            throw DeliveryError("These bytes are not a word about a commit.")
        }
    }

    /// Tells whether a group's public state is of the epoch that its last commit began, as far as is known.
    func isCurrent(info: [UInt8], of groupID: [UInt8]) throws(DeliveryError) -> Bool {
        let epoch = try Self.epoch(info, groupID)
        guard let known = groups[groupID] else { return true }
        if let current = known.epoch {
            // That of the epoch before, if nobody has published it, tells who may refuse the last commit.
            return epoch == current || known.last.map { $0.info == nil && $0.epoch == epoch } ?? false
        }
        guard let last = known.info else { return true }
        return try epoch >= Self.epoch(last, groupID)
    }

    private static func epoch(_ info: [UInt8], _ groupID: [UInt8]) throws(DeliveryError) -> UInt64 {
        guard case .groupInfo(let info) = try decode(info), info.groupContext.groupID == groupID else {
            throw DeliveryError("These bytes are not a public state of that group.")
        }
        return info.groupContext.epoch
    }

    private static func reference(_ bytes: [UInt8]) throws(DeliveryError) -> (reference: [UInt8], KeyPackage) {
        guard case .keyPackage(let package) = try decode(bytes), let suite = CipherSuites[id: package.cipherSuite]
        else { throw DeliveryError("These bytes are not a key package of a known cipher suite.") }
        return (package.reference(suite), package)
    }

    private static func page(_ all: [[UInt8]], _ position: UInt64, _ limit: Int) -> [DeliveredMessage] {
        guard position < all.count else { return [] }
        return all[Int(position)...].prefix(limit).enumerated().map {
            DeliveredMessage(position: position + UInt64($0.offset), bytes: $0.element)
        }
    }

    private static func decode(_ message: [UInt8]) throws(DeliveryError) -> MLSMessage {
        do { return try MLSMessage(message) } catch { throw DeliveryError("These bytes are not a message of a group.") }
    }

    private static func isCommit(_ message: [UInt8]) throws(DeliveryError) -> Bool {
        switch try decode(message) {
        case .publicMessage(let message): message.contentType == .commit
        case .privateMessage(let message): message.contentType == .commit
        default: false
        }
    }
}

extension MLSMessage {
    /// True for a message of a group's members, and not about a group.
    fileprivate var isFramed: Bool {
        switch self {
        case .publicMessage, .privateMessage: true
        case .welcome, .groupInfo, .keyPackage: false
        }
    }
}

extension KeyPackage {
    /// True when it may be used again when no other is left.
    var isLastResort: Bool { extensions.contains { $0.type == .lastResort } }
}

extension DeliveryState.Record {
    var encoded: [UInt8] {
        var writer = TLSWriter()
        switch self {
        case .message(let groupID, let bytes):
            writer.integer(1 as UInt8)
            writer.opaque(groupID)
            writer.opaque(bytes)
        case .welcome(let bytes):
            writer.integer(2 as UInt8)
            writer.opaque(bytes)
        case .keyPackage(let client, let bytes):
            writer.integer(3 as UInt8)
            writer.opaque(Array(client.utf8))
            writer.opaque(bytes)
        case .taken(let client):
            writer.integer(4 as UInt8)
            writer.opaque(Array(client.utf8))
        case .groupInfo(let groupID, let bytes):
            writer.integer(5 as UInt8)
            writer.opaque(groupID)
            writer.opaque(bytes)
        case .refusal(let groupID, let bytes):
            writer.integer(6 as UInt8)
            writer.opaque(groupID)
            writer.opaque(bytes)
        }
        return writer.bytes
    }

    init(decoding bytes: [UInt8]) throws(MLSError) {
        var reader = TLSReader(bytes)
        switch try reader.integer(as: UInt8.self) {
        case 1: self = .message(groupID: try reader.opaque(), try reader.opaque())
        case 2: self = .welcome(try reader.opaque())
        case 3: self = .keyPackage(client: String(decoding: try reader.opaque(), as: UTF8.self), try reader.opaque())
        case 4: self = .taken(client: String(decoding: try reader.opaque(), as: UTF8.self))
        case 5: self = .groupInfo(groupID: try reader.opaque(), try reader.opaque())
        case 6: self = .refusal(groupID: try reader.opaque(), try reader.opaque())
        default: throw .unexpectedWireFormat
        }
        try reader.finish()
    }
}

/// The calls of ``GroupDelivery`` as questions to a ``DeliveryState`` and records for it.
enum DeliveryRequest {
    static func send(
        _ message: [UInt8], to groupID: [UInt8], _ state: borrowing DeliveryState
    ) throws(DeliveryError) -> (DeliveryAnswer, [DeliveryState.Record]) {
        let (answer, isNew) = try state.answer(message, to: groupID)
        return (answer, isNew ? [.message(groupID: groupID, message)] : [])
    }

    static func takeKeyPackage(
        of client: ClientID, _ state: borrowing DeliveryState
    ) -> ([UInt8]?, [DeliveryState.Record]) {
        guard let next = state.nextKeyPackage(of: client) else { return (nil, []) }
        return (next.bytes, next.isUsedUp ? [.taken(client: client)] : [])
    }
}

/// A delivery service that is a state somebody guards.
protocol StateDelivery: GroupDelivery {
    /// Asks the state, with everything that is known, and adds what follows to it: whole, and before anybody else asks.
    func ask<Value: Sendable>(
        _ body: (borrowing DeliveryState) throws(DeliveryError) -> (Value, [DeliveryState.Record])
    ) async throws(DeliveryError) -> Value
}

extension StateDelivery {
    /// Takes a message of a group.
    public func send(_ message: [UInt8], to groupID: [UInt8]) async throws(DeliveryError) -> DeliveryAnswer {
        try await ask { state throws(DeliveryError) in try DeliveryRequest.send(message, to: groupID, state) }
    }

    /// Takes a member's word that it cannot follow the last commit; with enough of them another is taken.
    public func send(refusal: [UInt8], to groupID: [UInt8]) async throws(DeliveryError) {
        try await ask { state throws(DeliveryError) in
            ((), try state.refusal(refusal, of: groupID) == nil ? [] : [.refusal(groupID: groupID, refusal)])
        }
    }

    /// A group's messages from a position on.
    public func messages(
        of groupID: [UInt8], from position: UInt64, limit: Int
    ) async throws(DeliveryError) -> [DeliveredMessage] {
        try await ask { state in (state.messages(of: groupID, from: position, limit: limit), []) }
    }

    /// Takes a Welcome.
    public func send(welcome: [UInt8]) async throws(DeliveryError) {
        try await ask { state in ((), state.isKnown(welcome: welcome) ? [] : [.welcome(welcome)]) }
    }

    /// The Welcomes for a client from a position on.
    public func welcomes(
        for client: ClientID, from position: UInt64, limit: Int
    ) async throws(DeliveryError) -> [DeliveredMessage] {
        try await ask { state in (state.welcomes(for: client, from: position, limit: limit), []) }
    }

    /// Takes key packages that a client offers.
    public func publish(keyPackages: [[UInt8]], for client: ClientID) async throws(DeliveryError) {
        try await ask { state in ((), keyPackages.map { .keyPackage(client: client, $0) }) }
    }

    /// Hands out one of a client's key packages.
    public func takeKeyPackage(of client: ClientID) async throws(DeliveryError) -> [UInt8]? {
        try await ask { state in DeliveryRequest.takeKeyPackage(of: client, state) }
    }

    /// Counts the key packages that a client has left.
    public func keyPackageCount(
        of client: ClientID
    ) async throws(DeliveryError) -> (count: Int, hasLastResort: Bool) {
        try await ask { state in (state.keyPackageCount(of: client), []) }
    }

    /// Takes a group's public state.
    public func publish(groupInfo: [UInt8], of groupID: [UInt8]) async throws(DeliveryError) {
        try await ask { state throws(DeliveryError) in
            ((), try state.isCurrent(info: groupInfo, of: groupID) ? [.groupInfo(groupID: groupID, groupInfo)] : [])
        }
    }

    /// The last public state of a group.
    public func groupInfo(of groupID: [UInt8]) async throws(DeliveryError) -> [UInt8]? {
        try await ask { state in (state.groupInfo(of: groupID), []) }
    }
}
