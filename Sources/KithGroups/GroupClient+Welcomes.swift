import Crypto
import KithMLS

extension GroupClient {
    /// Joins the groups that others have added this client to.
    ///
    /// A Welcome that cannot be used yet is tried again: the group it leads back into may not have said that this client is
    /// out of it, or a key that it names may still come.
    @discardableResult
    public func receiveWelcomes() async throws(GroupError) -> [GroupSession] {
        var progress = try WelcomeProgress(storage)
        var joined: [GroupSession] = []
        for waiting in progress.waiting {
            let (name, position) = (name, waiting.position)
            let page = try await reaching { () throws(DeliveryError) in
                try await delivery.welcomes(for: name, from: position, limit: 1).following(position)
            }
            guard let message = page.first else { continue }
            let (session, mayYet) = try await take(message.bytes)
            if let session { joined.append(session) }
            progress.tried(waiting, mayYet: mayYet)
            try keep(progress)
        }
        while true {
            let (name, from) = (name, progress.cursor)
            let page = try await reaching { () throws(DeliveryError) in
                try await delivery.welcomes(for: name, from: from, limit: 16).following(from)
            }
            guard !page.isEmpty else { return joined }
            for message in page {
                let (session, mayYet) = try await take(message.bytes)
                if let session { joined.append(session) }
                progress.passed(message.position, mayYet: mayYet)
            }
            try keep(progress)
        }
    }

    private func keep(_ progress: WelcomeProgress) throws(GroupError) {
        try storing { () throws(GroupStorageError) in try storage.put([progress.item]) }
    }

    /// Joins by a Welcome, if it is good; otherwise returns whether it may become so.
    private func take(_ welcome: [UInt8]) async throws(GroupError) -> (session: GroupSession?, mayYet: Bool) {
        do throws(GroupError) { return (try await join(welcome), false) } catch {
            switch error {
            case .refused(.groupAlreadyKnown), .refused(.unknownPSK), .refused(.credentialRejected): return (nil, true)
            // One group that is damaged must not keep the client out of others; it may be joined anew meanwhile.
            case .storage(.corrupt), .storage(.rolledBack), .storage(.laterFormat): return (nil, true)
            // Junk, a repetition, or for another: the next one may be good.
            case .refused, .notForUs: return (nil, false)
            default: throw error
            }
        }
    }
}

/// The progress of a client through its Welcomes.
private struct WelcomeProgress {
    /// One that could not be used yet.
    struct Waiting: Hashable {
        let position: UInt64
        /// The number of tries left.
        var triesLeft: UInt8
    }

    private static let key = StorageItem.Key(.note, Array("welcomes".utf8))
    /// The number kept: the delivery service could send any number.
    private static let limit = 64
    private static let tries: UInt8 = 16

    /// The first that was not looked at.
    private(set) var cursor: UInt64 = 0
    private(set) var waiting: [Waiting] = []

    init(_ storage: any GroupStorage) throws(GroupError) {
        let item: StorageItem?
        do throws(GroupStorageError) { item = try storage.item(Self.key) } catch { throw .storage(error) }
        guard let item else { return }
        (cursor, waiting) = try item.content.reading { reader throws(MLSError) in
            let cursor: UInt64 = try reader.integer()
            var waiting: [Waiting] = []
            for _ in 0..<(try reader.integer(as: UInt8.self)) {
                waiting.append(Waiting(position: try reader.integer(), triesLeft: try reader.integer()))
            }
            return (cursor, waiting)
        }
    }

    /// Notes that a Welcome was looked at for the first time.
    mutating func passed(_ position: UInt64, mayYet: Bool) {
        cursor = position + 1
        guard mayYet else { return }
        waiting.append(Waiting(position: position, triesLeft: Self.tries))
        if waiting.count > Self.limit { waiting.removeFirst() }
    }

    /// Notes that it was looked at again.
    mutating func tried(_ one: Waiting, mayYet: Bool) {
        guard let index = waiting.firstIndex(of: one) else { return }
        if mayYet, one.triesLeft > 1 {
            waiting[index].triesLeft -= 1
        } else {
            waiting.remove(at: index)
        }
    }

    var item: StorageItem {
        StorageItem(
            Self.key,
            StoredBytes { writer in
                writer.integer(cursor)
                writer.integer(UInt8(waiting.count))
                for one in waiting {
                    writer.integer(one.position)
                    writer.integer(one.triesLeft)
                }
            })
    }
}

/// A group state that a key package of last resort has opened: it would open it again, with keys that were used.
///
/// Its bytes could differ another time: the state is the same for all Welcomes with the same keys.
struct UsedWelcome {
    let key: StorageItem.Key

    init(of reference: [UInt8], to context: GroupContext) {
        key = StorageItem.Key(.note, Self.prefix(reference) + SHA256.hash(data: context.encoded))
    }

    var item: StorageItem { StorageItem(key, StoredBytes { _ in }) }

    /// The names of what a key package has opened begin so.
    private static func prefix(_ reference: [UInt8]) -> [UInt8] { Array("used welcome ".utf8) + reference }

    /// The notes of key packages that are no longer there.
    static func notes(
        of references: [[UInt8]], in storage: any GroupStorage
    ) throws(GroupStorageError) -> [StorageItem.Key] {
        guard !references.isEmpty else { return [] }
        return try storage.items(.note).map(\.key).filter { key in
            references.contains { key.name.starts(with: prefix($0)) }
        }
    }
}

extension GroupSession {
    /// Checks that the group may be joined anew: this client is out of it, and the Welcome is from after that.
    ///
    /// That it is behind is not a reason: whoever delivers the messages could make it believe so.
    func checkReplaceable(by epoch: UInt64) throws(GroupError) {
        let (known, isRemoved) = try lastKnown()
        guard isRemoved, epoch > known.epoch else { throw .refused(.groupAlreadyKnown) }
    }
}
