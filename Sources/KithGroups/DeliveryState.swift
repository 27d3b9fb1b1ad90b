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
        /// A group's public state, and whether it is known to be a member's.
        case groupInfo(groupID: [UInt8], [UInt8], isProven: Bool)
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
        /// The public state for those who join.
        var info: [UInt8]?
        /// The last public state that was signed by somebody in the one before it; the first is believed.
        ///
        /// Anybody could make up another: it says who may refuse a commit, and who may show the next one.
        var proven: [UInt8]?
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
        /// What its members say: true for those that cannot follow it, false for those that cannot tell.
        var words: [UInt32: Bool] = [:]
        /// What was said while ``info`` was not there to tell whether a member says so.
        var unjudged: [[UInt8]] = []

        /// Tells whether it is none, which it is when more than half of those that could follow it cannot.
        ///
        /// Its maker is no judge of it.
        func isRefused(members: Int) -> Bool {
            let refusals = words.values.count { $0 }
            return refusals > 0 && 2 * refusals > members - 1 - (words.count - refusals)
        }
    }

    /// The number and size of the words about a commit that are kept to be judged later.
    private static let unjudgedWords = (count: 1_000, size: 16 << 10)

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
        if current == nil, let info = known.proven { current = try Self.epoch(info, groupID) }
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
                if let info = group.proven, try Self.epoch(info, groupID) == epoch { group.last?.info = info }
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
        case .groupInfo(let groupID, let info, let isProven):
            if isProven, let last = groups[groupID]?.last, last.info == nil, try Self.epoch(info, groupID) == last.epoch
            {
                groups[groupID]?.last?.info = info
                groups[groupID]?.last?.unjudged = []
                for word in last.unjudged { try count(word, groupID) }
            } else {
                groups[groupID, default: Messages()].info = info
                if isProven { groups[groupID]?.proven = info }
            }
        case .refusal(let groupID, let bytes): try count(bytes, groupID)
        }
    }

    /// Counts a member's word about the last commit, and opens its epoch again when that makes it none.
    private mutating func count(_ bytes: [UInt8], _ groupID: [UInt8]) throws(DeliveryError) {
        switch try word(bytes, of: groupID) {
        case .void: return
        case .unjudged: groups[groupID]?.last?.unjudged.append(bytes)
        case .good(let word, let members):
            groups[groupID]?.last?.words[word.leaf] = !word.isAbstention
            guard let last = groups[groupID]?.last, last.isRefused(members: members) else { return }
            groups[groupID]?.epoch = last.epoch
            groups[groupID]?.info = last.info
            groups[groupID]?.proven = last.info
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
        case .groupInfo(let groupID, let info, _): _ = try epoch(info, groupID)
        case .refusal(_, let bytes): _ = try refusal(bytes)
        case .taken: break
        }
    }

    /// A member's word about a group's last commit.
    enum Word {
        /// It is about another commit, not a member's, or known.
        case void
        /// Nobody has shown yet who the members are.
        case unjudged
        case good(CommitRefusal, members: Int)
    }

    /// Reads a word about a group's last commit.
    ///
    /// - Throws: for bytes that are none, and when no more can be kept of those that cannot be judged.
    func word(_ bytes: [UInt8], of groupID: [UInt8]) throws(DeliveryError) -> Word {
        let refusal = try Self.refusal(bytes)
        guard let last = groups[groupID]?.last, refusal.groupID == groupID, refusal.epoch == last.epoch,
            last.words[refusal.leaf] == nil
        else { return .void }
        guard let shown = last.info else {
            guard !last.unjudged.contains(bytes), bytes.count <= Self.unjudgedWords.size else { return .void }
            guard last.unjudged.count < Self.unjudgedWords.count else {
                throw DeliveryError("Nobody has published the group's state yet, and too much waits for it.")
            }
            return .unjudged
        }
        // A public state that cannot be read has no members that could say anything.
        guard let (info, suite, tree) = try Self.publicState(shown), let key = tree.leaf(refusal.leaf)?.signatureKey,
            refusal.isValid(suite, about: last.bytes, by: key), info.groupContext.groupID == groupID
        else { return .void }
        return .good(refusal, members: tree.memberCount)
    }

    private static func refusal(_ bytes: [UInt8]) throws(DeliveryError) -> CommitRefusal {
        do { return try CommitRefusal(bytes) } catch {
            throw DeliveryError("These bytes are not a word about a commit.")
        }
    }

    /// The place of a public state that somebody shows.
    enum InfoStanding {
        /// It is of another epoch than the current one, or beside a better one.
        case void
        /// It may be somebody's invention: those who join check it, and nothing else rests on it.
        case unproven
        case proven
    }

    /// Checks a public state of the epoch that a group's last commit began, as far as is known.
    ///
    /// - Throws: for bytes that are none, or are not signed by a member that stands in them.
    func standing(ofInfo info: [UInt8], of groupID: [UInt8]) throws(DeliveryError) -> InfoStanding {
        let epoch = try Self.epoch(info, groupID)
        let known = groups[groupID] ?? Messages()
        // That of the epoch before, if nobody has published it, tells who may refuse the last commit.
        let isPrevious = known.last.map { $0.info == nil && $0.epoch == epoch } ?? false
        guard known.epoch == nil || known.epoch == epoch || isPrevious else { return .void }
        let isProven = try isProven(info, known)
        if isPrevious { return isProven ? .proven : .void }
        guard known.epoch != nil else {
            guard let proven = known.proven else { return isProven ? .proven : .unproven }
            let isOlder = try epoch < Self.epoch(proven, groupID)
            return isProven && !isOlder ? .proven : .void
        }
        guard let proven = known.proven, try Self.epoch(proven, groupID) == epoch else {
            return isProven ? .proven : .unproven
        }
        // One epoch has one state; another member's word for the same may let others join than the first one's.
        guard isProven, try Self.context(info) == Self.context(proven) else { return .void }
        return .proven
    }

    /// Tells whether a public state is signed by somebody who stands in the last one that was, or is the first.
    private func isProven(_ bytes: [UInt8], _ known: Messages) throws(DeliveryError) -> Bool {
        // Of a suite that is not known here, or without its tree, nothing can be said.
        guard let (info, suite, tree) = try Self.publicState(bytes) else { return false }
        guard let key = tree.leaf(info.signer)?.signatureKey, info.hasValidSignature(suite, by: key),
            tree.hash(suite) == info.groupContext.treeHash
        else { throw DeliveryError("That public state is not signed by a member of it.") }
        guard let proven = known.proven, let (_, _, members) = try Self.publicState(proven) else { return true }
        return members.members.contains { $0.leaf.signatureKey == key }
    }

    /// A public state with its tree; nil for one without, or of a suite that is not known here.
    private static func publicState(
        _ bytes: [UInt8]
    ) throws(DeliveryError) -> (info: GroupInfo, suite: any CipherSuite, tree: RatchetTree)? {
        guard case .groupInfo(let info) = try decode(bytes),
            let suite = CipherSuites[id: info.groupContext.cipherSuite],
            let data = info.extensions.first(where: { $0.type == .ratchetTree })?.data,
            let tree = try? RatchetTree(data)
        else { return nil }
        return (info, suite, tree)
    }

    private static func context(_ bytes: [UInt8]) throws(DeliveryError) -> GroupContext? {
        guard case .groupInfo(let info) = try decode(bytes) else { return nil }
        return info.groupContext
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
        case .groupInfo(let groupID, let bytes, let isProven):
            writer.integer(isProven ? 5 : 7 as UInt8)
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
        case 5: self = .groupInfo(groupID: try reader.opaque(), try reader.opaque(), isProven: true)
        case 7: self = .groupInfo(groupID: try reader.opaque(), try reader.opaque(), isProven: false)
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
            switch try state.word(refusal, of: groupID) {
            case .void: ((), [])
            case .unjudged, .good: ((), [.refusal(groupID: groupID, refusal)])
            }
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
            switch try state.standing(ofInfo: groupInfo, of: groupID) {
            case .void: ((), [])
            case .unproven: ((), [.groupInfo(groupID: groupID, groupInfo, isProven: false)])
            case .proven: ((), [.groupInfo(groupID: groupID, groupInfo, isProven: true)])
            }
        }
    }

    /// The last public state of a group.
    public func groupInfo(of groupID: [UInt8]) async throws(DeliveryError) -> [UInt8]? {
        try await ask { state in (state.groupInfo(of: groupID), []) }
    }
}
