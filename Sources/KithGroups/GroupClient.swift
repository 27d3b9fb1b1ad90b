public import KithMLS
import Synchronization

/// A device or program in any number of groups: its name and key, its groups, and the key packages others add it with.
///
/// One per process. Two processes may share a storage; the client's groups are then the same in both.
public final class GroupClient: Sendable {
    /// The settings a client chooses for itself.
    public struct Options: Sendable {
        /// The cipher suite of the groups it makes and the key packages it offers.
        public var suite: any CipherSuite = CipherSuites.all[0]
        /// The settings of each group, the check of identities, and the executor for many members: four threads by
        /// default.
        ///
        /// Nobody comes in unasked: unlike the engine's own defaults, those here accept no commit by which an outsider joins and
        /// no proposal of somebody to be added. Members who still have their key may replace a lost appearance of theirs.
        public var configuration: GroupConfiguration
        /// Tells whether a credential is that of the client to be added under a name: by default a basic one with the
        /// name's bytes.
        ///
        /// The delivery service hands out the key packages; without this it could have another one added.
        public var isCredential: @Sendable (_ credential: Credential, _ client: ClientID) -> Bool = {
            $0 == .basic(identity: Array($1.utf8))
        }
        /// The features it supports.
        public var capabilities = Capabilities()
        /// The number of key packages it keeps published.
        public var keyPackages = 20
        /// For how many seconds a key package is valid: by default 12 weeks.
        public var keyPackageLifetime: UInt64 = 12 * 7 * 86_400
        /// The number of operations it runs at once where one waits for another machine or a processor.
        public var width = 4
        /// Whether ``GroupSession/send(_:authenticatedData:)`` first commits the proposals that wait; where false it throws
        /// `commitRequired`, and somebody commits when they see fit.
        public var commitsBeforeSending = true
        /// The number of events of a group that may wait for the application; beyond that nothing more is fetched for
        /// it.
        public var waitingEvents = 10_000
        /// The number of messages of a group that may wait for the delivery service; beyond that nothing more is taken
        /// for it.
        public var waitingMessages = 1_000
        /// The largest size of one message in bytes: 16 MiB by default.
        ///
        /// A delivery service may take less.
        public var largestMessage = 16 << 20
        /// The largest size in bytes of a message or Welcome that is taken in: 64 MiB by default.
        ///
        /// All members of a group must take what one of them sends: a Welcome grows with the group.
        public var largestReceived = 64 << 20
        /// The time in seconds since 1970.
        public var now: @Sendable () -> UInt64

        /// The defaults: by them every identity is held to the first key that was seen of it, in all groups of the
        /// client (``GroupClient/pins``).
        public init(
            authentication: any AuthenticationService = PinningAuthenticationService(),
            now: @escaping @Sendable () -> UInt64
        ) {
            configuration = GroupConfiguration(authentication: authentication)
            configuration.executor = Threads(width: width)
            configuration.acceptsExternalCommits = false
            configuration.acceptsNewMemberProposals = false
            self.now = now
        }
    }

    /// The name by which the delivery service knows it.
    public let name: ClientID
    /// The identity, keys and capabilities it presents.
    public let profile: LeafProfile
    /// The settings it chose for itself.
    public let options: Options
    let signatureKey: SignaturePrivateKey
    let storage: any GroupStorage
    let delivery: any GroupDelivery
    private let sessions = Mutex<[[UInt8]: GroupSession]>([:])
    let news = Mutex(ClientNews())

    /// Opens a client: with the key that is in the storage, or a new one.
    ///
    /// `credential` is by default the name, which somebody must vouch for: see `AuthenticationService`. With a `signer`, its
    /// key is the client's, and the storage never sees the private half.
    ///
    /// - Throws: ``GroupError/otherSignatureKey`` when the client had another key before, ``GroupError/storage(_:)``.
    public init(
        name: ClientID, credential: Credential? = nil, signer: (any GroupSigner)? = nil, storage: any GroupStorage,
        delivery: any GroupDelivery, options: Options
    ) throws(GroupError) {
        var options = options
        if let pins = options.configuration.authentication as? PinningAuthenticationService, pins.storage == nil {
            options.configuration.authentication = PinningAuthenticationService(storage: storage)
        }
        if let signer {
            let suite = SignerSuite(base: options.suite, signer: signer)
            guard suite.isValidSignatureKey(signer.publicKey) else { throw .refused(.invalidPublicKey) }
            options.suite = suite
            options.configuration.suites = [suite] + options.configuration.suites.filter { $0.id != suite.id }
        }
        self.name = name
        self.storage = storage
        self.delivery = delivery
        self.options = options
        profile = LeafProfile(
            credential: credential ?? .basic(identity: Array(name.utf8)), capabilities: options.capabilities)
        let key = StorageItem.Key(.identity, Array("\(options.suite.id.rawValue)".utf8))
        do throws(GroupStorageError) {
            if try storage.item(key) == nil {
                var changes = StorageChanges()
                changes.added = [
                    StorageItem(identity: key.name, options.suite.generateSignatureKey(), suite: options.suite.id)
                ]
                do throws(GroupStorageError) { try storage.commit(changes) } catch {
                    // Of two processes that make one at once, the first has it.
                    guard error == .conflict else { throw error }
                }
            }
            guard let item = try storage.item(key) else { throw .itemMissing }
            signatureKey = try item.identity(options.configuration.suites).key
        } catch { throw .storage(error) }
        if let signer, signer.publicKey != signatureKey.publicKey { throw .otherSignatureKey }
    }

    /// The signature keys that identities are held to; nil where another `AuthenticationService` says who is who.
    ///
    /// When somebody's key was lost, and the new one was compared: `try client.pins?.pin(key, to: credential)`.
    public var pins: PinningAuthenticationService? {
        options.configuration.authentication as? PinningAuthenticationService
    }

    // MARK: Groups

    /// The groups there are.
    public func groups() throws(GroupError) -> [GroupSession] {
        try storing { () throws(GroupStorageError) in try storage.groups() }.map { session($0) }
    }

    /// A group, or nil when there is none of that name.
    public func group(_ groupID: [UInt8]) throws(GroupError) -> GroupSession? {
        let version = try storing { () throws(GroupStorageError) in try storage.version(of: groupID) }
        return version == nil ? nil : session(groupID)
    }

    /// Makes a group with this client as its only member.
    public func createGroup(
        id: [UInt8]? = nil, extensions: [Extension] = []
    ) async throws(GroupError) -> GroupSession {
        let group: Group
        do throws(MLSError) {
            group = try Group(
                options.suite, groupID: id, profile: profile, signatureKey: signatureKey, lifetime: lifetime(),
                extensions: extensions, configuration: options.configuration)
        } catch { throw .refused(error) }
        let session = session(group.groupID)
        try await session.begin(group, replacing: .nothing, publishes: true)
        return session
    }

    /// Joins the group of a Welcome.
    ///
    /// - Throws: ``GroupError/notForUs`` when it names no key package of this client's,
    ///   ``GroupError/refused(_:)`` with `groupAlreadyKnown` when the client is a member already, or was one in that epoch or
    ///   later.
    public func join(_ welcome: [UInt8]) async throws(GroupError) -> GroupSession {
        let parsed: Welcome
        guard welcome.count <= options.largestReceived else { throw .refused(.messageTooLong) }
        do throws(MLSError) {
            guard case .welcome(let message) = try MLSMessage(welcome) else { throw .unexpectedWireFormat }
            parsed = message
        } catch { throw .refused(error) }
        guard let (item, bundle) = try bundle(for: parsed) else { throw .notForUs }
        let group = try join(parsed, bundle)
        let session = session(group.groupID)
        let isKnown = try storing { () throws(GroupStorageError) in try storage.version(of: group.groupID) } != nil
        if isKnown { try await session.checkReplaceable(by: group.epoch) }
        // A key package that is used once goes; what one of last resort has opened is remembered instead.
        let used = UsedWelcome(of: item.name, to: group.context)
        if item.kind == .lastResort {
            let isUsed = try storing { () throws(GroupStorageError) in try storage.item(used.key) } != nil
            guard !isUsed else { throw .refused(.groupAlreadyKnown) }
        }
        try await session.begin(
            group, replacing: isKnown ? .membership : .nothing, taken: item.kind == .keyPackage ? [item] : [],
            added: item.kind == .lastResort ? [used.item] : [], publishes: false)
        return session
    }

    private func join(_ welcome: Welcome, _ bundle: KeyPackageBundle) throws(GroupError) -> Group {
        var join = JoinOptions()
        join.now = options.now()
        join.psks = try storing { () throws(GroupStorageError) in try storage.presharedKeys() }
        do throws(MLSError) {
            return try Group(joining: welcome, with: bundle, join, configuration: options.configuration)
        } catch {
            guard error == .unknownPSK else { throw .refused(error) }
        }
        // It may follow or branch off a group that is here.
        join.lineages = try lineages()
        do throws(MLSError) {
            return try Group(joining: welcome, with: bundle, join, configuration: options.configuration)
        } catch {
            throw .refused(error)
        }
    }

    // MARK: Groups that come from others

    /// Makes the group that a ReInit asked for, with one client of every other member (RFC 9420 §11.2).
    public func foundSuccessor(
        of session: GroupSession, with clients: [ClientID]
    ) async throws(GroupError) -> (session: GroupSession, outcome: CommitOutcome) {
        let packages = try await keyPackages(of: clients)
        return try await begin(try await session.foundSuccessor(packages))
    }

    /// Makes a group of some of another group's members (RFC 9420 §11.3).
    public func foundBranch(
        of session: GroupSession, with clients: [ClientID]
    ) async throws(GroupError) -> (session: GroupSession, outcome: CommitOutcome) {
        let packages = try await keyPackages(of: clients)
        return try await begin(try await session.foundBranch(packages))
    }

    private func begin(
        _ founding: consuming GroupFounding
    ) async throws(GroupError) -> (session: GroupSession, outcome: CommitOutcome) {
        let group = founding.take()
        let session = session(group.groupID)
        try await session.begin(group, replacing: .nothing, publishes: false)
        return (session, try await session.sendPendingCommit())
    }

    private func lineages() throws(GroupError) -> [GroupLineage] {
        var result: [GroupLineage] = []
        for name in try storing({ () throws(GroupStorageError) in try storage.groups() }) {
            result += try storing { () throws(GroupStorageError) -> [GroupLineage] in
                // One that is damaged is not an ancestor of another.
                guard let stored = try? storage.load(name),
                    let lineage = try? Group.restored(from: stored, configuration: options.configuration).lineage
                else { return [] }
                return [lineage]
            }
        }
        return result
    }

    private func bundle(
        for welcome: Welcome
    ) throws(GroupError) -> (key: StorageItem.Key, bundle: KeyPackageBundle)? {
        let named = Set(welcome.secrets.map(\.newMember))
        return try storing { () throws(GroupStorageError) in
            for kind in [StorageItem.Kind.keyPackage, .lastResort] {
                for item in try storage.items(kind) where named.contains(item.key.name) {
                    return (item.key, try item.keyPackage(options.configuration.suites))
                }
            }
            return nil
        }
    }

    /// Joins a group by a commit of this client's own, with the public state that the delivery service has.
    ///
    /// Of a group that this client knows nothing of any more, that state is believed: it may be a fork that a removed
    /// member has made. To be sure, have a member remove this client and add it again.
    public func joinExternally(_ groupID: [UInt8]) async throws(GroupError) -> GroupSession {
        let session = session(groupID)
        try await session.join()
        return session
    }

    /// The session of a group, made when it is first asked for: all callers get the same.
    private func session(_ groupID: [UInt8]) -> GroupSession {
        sessions.withLock { sessions in
            if let known = sessions[groupID] { return known }
            let session = GroupSession(groupID, client: self)
            sessions[groupID] = session
            return session
        }
    }

    func dropped(_ groupID: [UInt8]) {
        _ = sessions.withLock { $0.removeValue(forKey: groupID) }
        news.withLock { $0.drop(groupID) }
    }

    /// Ends all sessions after what they are doing, and ``events``.
    public func close() async {
        let all = sessions.withLock { sessions in
            defer { sessions = [:] }
            return Array(sessions.values)
        }
        for session in all { await session.close() }
        news.withLock { $0.close() }
    }

    func lifetime() -> Lifetime {
        let now = options.now()
        // An hour for clocks that are behind.
        return Lifetime(notBefore: now - min(now, 3_600), notAfter: now + options.keyPackageLifetime)
    }

    func storing<Value: ~Copyable>(_ body: () throws(GroupStorageError) -> Value) throws(GroupError) -> Value {
        do throws(GroupStorageError) { return try body() } catch { throw .storage(error) }
    }

    func reaching<Value>(_ body: () async throws(DeliveryError) -> Value) async throws(GroupError) -> Value {
        do throws(DeliveryError) { return try await body() } catch { throw .unreachable(error) }
    }

    // MARK: Together

    /// Synchronises all groups, a few at a time, joins what it was added to, and makes up for used key packages.
    ///
    /// - Throws: the first error of a group, after everything was tried.
    public func synchronise() async throws(GroupError) {
        // The groups first: a Welcome may follow from what happened there, as one back into a group that removed this client.
        let failure = await synchronise(try groups())
        let failureInNew = await synchronise(try await receiveWelcomes())
        try await replenishKeyPackages()
        _ = try storing { () throws(GroupStorageError) in try storage.maintain(limit: 256) }
        if let error = failure ?? failureInNew { throw error }
    }

    private func synchronise(_ sessions: [GroupSession]) async -> GroupError? {
        let results = await concurrently(sessions, width: options.width) { session -> GroupError? in
            do throws(GroupError) {
                try await session.synchronise()
                return nil
            } catch { return error }
        }
        return results.compactMap { $0 }.first
    }
}

/// Does something for each element, at most `width` at a time; the results are in the elements' order.
func concurrently<Element: Sendable, Value: Sendable>(
    _ elements: [Element], width: Int, _ body: @escaping @Sendable (Element) async -> Value
) async -> [Value] {
    await withTaskGroup(of: (Int, Value).self) { group in
        var results = [Value?](repeating: nil, count: elements.count)
        var next = 0
        func start() {
            guard next < elements.count else { return }
            let index = next
            next += 1
            group.addTask { (index, await body(elements[index])) }
        }
        for _ in 0..<max(1, width) { start() }
        while let (index, value) = await group.next() {
            results[index] = value
            start()
        }
        return results.compactMap { $0 }
    }
}
