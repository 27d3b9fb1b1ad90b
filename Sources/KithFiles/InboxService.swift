import Foundation
import KithAPI
import KithIO
public import KithIdentity
public import KithNode
package import KithWire
public import Logging
import Synchronization

/// The storage of an inbox for what must outlast the process, and the devices it knows.
public struct InboxStorage: Sendable {
    /// A device this one is paired with.
    public struct Peer: Hashable, Sendable {
        /// Its key.
        public var id: DeviceID
        /// The name it has here.
        public var name: String
        /// When it was paired, in seconds since 1970.
        public var pairedAt: Int64

        /// Describes a device.
        public init(id: DeviceID, name: String, pairedAt: Int64) {
            self.id = id
            self.name = name
            self.pairedAt = pairedAt
        }
    }

    let setting: @Sendable (String) throws -> String?
    let setSetting: @Sendable (String, String) throws -> Void
    let peer: @Sendable (String) throws -> Peer
    let now: @Sendable () -> Int64
    let environment: [String: String]

    /// Connects an inbox with the store: reading and writing a setting by its name, finding a paired device by its
    /// name or key, and the time in seconds since 1970.
    ///
    /// `environment`: what says where downloads go; `nil`: this process's own.
    public init(
        setting: @escaping @Sendable (String) throws -> String?,
        setSetting: @escaping @Sendable (String, String) throws -> Void,
        peer: @escaping @Sendable (String) throws -> Peer, now: @escaping @Sendable () -> Int64,
        environment: [String: String]? = nil
    ) {
        self.setting = setting
        self.setSetting = setSetting
        self.peer = peer
        self.now = now
        self.environment = environment ?? ProcessInfo.processInfo.environment
    }
}

/// Files that people send each other, each asked before: offering to other devices, and the inbox of this one.
///
/// Contents are received into a hidden folder beside their place and get their names, none of which is taken, when all
/// of them are there. No more is received than was offered.
public final class InboxService: Service {
    private struct State {
        var table: InboxTable
        /// Tells the sender of an offer how it stands.
        var answers: [String: AsyncStream<Offers.Answer>.Continuation] = [:]
        var watchers: [UInt64: AsyncStream<Inbox.Entry>.Continuation] = [:]
        var nextWatcher: UInt64 = 0
    }

    private let storage: InboxStorage
    private let logger: Logger
    private let clock: any Ticker
    private let disk = DiskExecutor()
    private let active = ActivePartials()
    private let state: Mutex<State>

    private static let pastSetting = "inbox.past"

    /// Makes the service; reads what has arrived before.
    public convenience init(_ storage: InboxStorage, logger: Logger) throws {
        try self.init(storage, logger: logger, clock: ContinuousClock())
    }

    /// Makes the service, which waits by `clock`.
    package init(_ storage: InboxStorage, logger: Logger, clock: any Ticker) throws {
        self.storage = storage
        self.logger = logger
        self.clock = clock
        var past: [Inbox.Entry] = []
        if let text = try storage.setting(Self.pastSetting) {
            do {
                past = try JSONDecoder().decode([Inbox.Entry].self, from: Data(text.utf8))
            } catch {
                logger.warning("the list of what has arrived cannot be read and begins anew")
            }
        }
        state = Mutex(State(table: InboxTable(past: past)))
    }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .stream(Offers.Send.self) { try await self.offer($0, $1, $2) },
            .stream(Offers.Push.self) { try await self.push($0, $1, $2) },
            .stream(Offers.Deliver.self) { input, context, pending in
                try await OfferDelivery(input, client: context.client, disk: self.disk, clock: self.clock).run(pending)
            },
            .call(Inbox.List.self) { _, _ in self.state.withLock { $0.table.entries(at: self.storage.now()) } },
            .stream(Inbox.Watch.self) { _, _, pending in try await self.watch(pending) }.endingAtShutdown(),
            .call(Inbox.Decide.self) { input, _ in try await self.disk.run { try self.decide(input) } },
            .call(Inbox.SetRule.self) { input, _ in try self.rule(input) },
        ]
    }

    // MARK: - Rules

    /// A rule as it is kept: one made for a pairing that has ended does not hold for the next.
    private struct KeptRule: Codable {
        var rule: Inbox.Rule
        var pairedAt: Int64
    }

    private func rule(for peer: InboxStorage.Peer) -> Inbox.Rule {
        do {
            guard let text = try storage.setting("inbox.rule.\(peer.id)") else { return Inbox.Rule(action: .ask) }
            let kept = try JSONDecoder().decode(KeptRule.self, from: Data(text.utf8))
            return kept.pairedAt == peer.pairedAt ? kept.rule : Inbox.Rule(action: .ask)
        } catch {
            logger.warning("a rule of the inbox cannot be read: a person decides")
            return Inbox.Rule(action: .ask)
        }
    }

    private func rule(_ input: Inbox.SetRule.Input) throws -> Inbox.Rule {
        let peer = try storage.peer(input.device)
        guard var rule = input.rule else { return self.rule(for: peer) }
        if let folder = rule.folder {
            guard folder.hasPrefix("/") else { throw KithError(.invalid, "The folder \(folder) must begin with /.") }
            _ = try Files.Path(folder).parsed()
        }
        if rule.action != .accept { (rule.folder, rule.maximum) = (nil, nil) }
        let text = try JSONEncoder().encode(KeptRule(rule: rule, pairedAt: peer.pairedAt))
        try storage.setSetting("inbox.rule.\(peer.id)", String(decoding: text, as: UTF8.self))
        return rule
    }

    // MARK: - Deciding

    private func decide(_ input: Inbox.Decide.Input) throws -> Inbox.Entry {
        let offer = try state.withLock { state throws(KithError) in try state.table.waiting(input.id) }
        let id = offer.entry.id
        guard input.accepts else {
            guard let entry = end(id, .rejected) else { throw KithError(.conflict, "The offer \(id) is over.") }
            return entry
        }
        return try accept(id, bytes: offer.entry.bytes, into: input.folder)
    }

    private func accept(_ id: String, bytes: UInt64, into folder: String?) throws -> Inbox.Entry {
        let folder = try folder ?? InboxFolder.usual(environment: storage.environment)
        guard folder.hasPrefix("/") else { throw KithError(.invalid, "The folder \(folder) must begin with /.") }
        try InboxFolder.checkRoom(for: bytes, in: folder)
        try InboxFolder.make(folder)
        let entry = try state.withLock { state throws(KithError) in
            let entry = try state.table.accept(id, into: folder, at: storage.now())
            state.answers[id]?.yield(Offers.Answer(state: .accepted, id: id))
            return entry
        }
        notify(entry)
        return entry
    }

    /// Ends an offer, tells everybody, and keeps it in mind.
    private func end(
        _ id: String, _ result: Offers.State, names: [Files.Path] = [], failure: Files.Failure? = nil
    ) -> Inbox.Entry? {
        let (entry, past) = state.withLock { state in
            let entry = state.table.end(id, result, names: names, failure: failure)
            if entry != nil {
                state.answers[id]?.yield(Offers.Answer(state: result, failure: failure))
                state.answers[id]?.finish()
                state.answers[id] = nil
            }
            return (entry, state.table.past)
        }
        guard let entry else { return nil }
        notify(entry)
        do {
            let text = try JSONEncoder().encode(past)
            try storage.setSetting(Self.pastSetting, String(decoding: text, as: UTF8.self))
        } catch {
            logger.warning("what has arrived could not be noted", metadata: ["error": "\(error)"])
        }
        return entry
    }

    private func notify(_ entry: Inbox.Entry) {
        for watcher in state.withLock({ Array($0.watchers.values) }) { watcher.yield(entry) }
    }

    private func watch(_ pending: PendingStream<Inbox.Watch>) async throws {
        // Whoever does not read misses the oldest news, and finds them in the list.
        let (news, continuation) = AsyncStream.makeStream(of: Inbox.Entry.self, bufferingPolicy: .bufferingNewest(256))
        let number = state.withLock { state in
            state.nextWatcher += 1
            state.watchers[state.nextWatcher] = continuation
            for offer in state.table.open { continuation.yield(offer.entry) }
            return state.nextWatcher
        }
        defer { state.withLock { $0.watchers[number] = nil } }
        let stream = try await pending.accept()
        try await withThrowingTaskGroup { group in
            group.addTask { for await entry in news { try await stream.send(entry) } }
            group.addTask { try await stream.end() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    // MARK: - Receiving

    private func sender(_ context: CallContext) throws(KithError) -> (id: DeviceID, name: String) {
        guard case .device(let id, let name, _) = context.caller else {
            throw KithError(.invalid, "Name another device: files cannot be sent to this one itself.")
        }
        return (id, name)
    }

    private func offer(
        _ input: Offers.Send.Input, _ context: CallContext, _ pending: PendingStream<Offers.Send>
    ) async throws {
        let sender = try sender(context)
        let rule = rule(for: try storage.peer(sender.id.description))
        guard rule.action != .reject else {
            throw KithError(.denied, "The other device takes no files from this one.")
        }
        let letters = Array("abcdefghijkmnpqrstuvwxyz23456789")
        let id = String((0..<8).map { _ in letters[Int.random(in: 0..<letters.count)] })
        let (answers, continuation) = AsyncStream.makeStream(of: Offers.Answer.self)
        let entry = try state.withLock { state throws(KithError) in
            let entry = try state.table.offer(
                input, id: id, from: sender.id, name: sender.name, isWelcome: rule.action == .accept, at: storage.now())
            state.answers[id] = continuation
            return entry
        }
        // Whatever ends this call ends the offer.
        defer { if !state.withLock({ $0.table.isReceiving(id) }) { _ = end(id, .withdrawn) } }
        let stream = try await pending.accept()
        try await stream.send(Offers.Answer(state: .waiting, id: id))
        if Self.isAccepted(entry, by: rule) {
            do {
                _ = try await disk.run { try self.accept(id, bytes: entry.bytes, into: rule.folder) }
            } catch {
                logger.info("an offer could not be accepted by rule", metadata: ["error": "\(error)"])
                notify(entry)
            }
        } else {
            notify(entry)
        }
        try await withThrowingTaskGroup { group in
            group.addTask { for await answer in answers { try await stream.send(answer) } }
            group.addTask { try await stream.end() }
            group.addTask {
                while let deadline = self.state.withLock({ $0.table.deadline(of: id) }) {
                    let left = min(max(deadline - self.storage.now(), 0), 5)
                    try await self.clock.sleep(for: .milliseconds(left * 1_000 + 50))
                    if let over = self.state.withLock({ $0.table.expiry(of: id, at: self.storage.now()) }) {
                        _ = self.end(id, over, failure: over == .failed ? Self.neverBegun : nil)
                    }
                }
                // The last answer is on its way; the sender ends the stream when it has it.
                try await self.clock.sleep(for: .seconds(5))
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Tells whether a rule accepts an offer unasked: at most its bytes, and at most a file for each block of them.
    private static func isAccepted(_ entry: Inbox.Entry, by rule: Inbox.Rule) -> Bool {
        guard rule.action == .accept else { return false }
        guard let maximum = rule.maximum else { return true }
        return entry.bytes <= maximum && entry.files <= max(1_000, maximum / 4_096)
    }

    private static var neverBegun: Files.Failure {
        Files.Failure(code: .timedOut, message: "What was accepted was never sent.")
    }

    private func push(
        _ input: Offers.Push.Input, _ context: CallContext, _ pending: PendingStream<Offers.Push>
    ) async throws {
        let sender = try sender(context)
        let offer = try state.withLock { state throws(KithError) in
            try state.table.begin(input.id, from: sender.id)
        }
        notify(offer.entry)
        do {
            let stream = try await pending.accept().bytes
            let names = try await receive(offer, from: stream, protecting: context.protection)
            _ = end(input.id, .arrived, names: names)
        } catch {
            let failure =
                error is CancellationError
                ? Files.Failure(code: .closed, message: "The sender went away before all had come.")
                : Files.Failure(error)
            _ = end(input.id, .failed, failure: failure)
            throw error
        }
    }

    /// Receives what was offered, and puts it in place.
    private func receive(
        _ offer: InboxTable.Offer, from stream: any ByteStream, protecting protection: ProtectedFiles?
    ) async throws -> [Files.Path] {
        guard let folder = offer.entry.folder else { throw KithError(.internal, "An accepted offer has no folder.") }
        let stream = BoundedStream(stream, limit: Self.mostBytes(of: offer.entry), beyond: Self.tooMuch)
        // All of it on the disk's threads: what is not delivered is removed when the staging goes, at the end.
        return try await disk.run {
            let staging = try InboxStaging(in: folder, protecting: protection)
            let progress = TransferProgress()
            try await withThrowingTaskGroup { group in
                group.addTask {
                    let path = try ConfinedPath(ownPath: staging.path, shown: "the inbox", protecting: protection)
                    _ = try await Transfer.receive(
                        into: path, options: Files.ReceiveOptions(overwrite: false, intoFolder: true),
                        origin: .download,
                        // The bytes that come are counted: they must not grow here.
                        compress: .never,
                        over: stream, on: self.disk, active: self.active, progress: progress)
                }
                group.addTask {
                    while true {
                        try await self.clock.sleep(for: .milliseconds(50))
                        let report = progress.report()
                        self.state.withLock { $0.table.received(report.bytes, of: offer.entry.id) }
                        try Self.check(report, against: offer.entry)
                    }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
            let report = progress.report()
            self.state.withLock { $0.table.received(report.bytes, of: offer.entry.id) }
            try Self.check(report, against: offer.entry)
            if let (error, count) = progress.failure {
                self.logger.info("the sender left out \(count) things", metadata: ["first": "\(error)"])
            }
            let count = try staging.removeLinks()
            if count > 0 { self.logger.info("left out \(count) links") }
            return try staging.deliver(offer.items)
        }
    }

    /// Refuses more than was agreed to.
    private static func check(_ report: Files.Progress, against entry: Inbox.Entry) throws(KithError) {
        guard report.bytes <= entry.bytes, report.files <= entry.files else {
            throw tooMuch
        }
    }

    private static var tooMuch: KithError {
        KithError(.invalid, "More was sent than had been offered. Nothing was kept.")
    }

    /// Computes the most that may come for an offer: contents, names, and as many folders as anybody would send.
    static func mostBytes(of entry: Inbox.Entry) -> UInt64 {
        let (names, isTooMuch) = entry.files.multipliedReportingOverflow(by: 8 << 10)
        let (all, overflow) = entry.bytes.addingReportingOverflow(isTooMuch ? .max : names)
        let (sum, last) = all.addingReportingOverflow(1 << 20)
        return overflow || last ? .max : sum
    }
}
