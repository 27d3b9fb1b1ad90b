public import KithIdentity
public import KithReach
public import KithWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// The directories that a device uses: tells them its record, and asks them for those of others.
///
/// They are all told and asked at once, and none is believed: each record is verified, and the newest one counts, of all
/// answers and of what is remembered. A directory that is away, slow or rolled back only makes things slower.
public final class DirectoryClient: Sendable {
    /// How a client asks.
    public struct Options: Sendable {
        /// The time a directory has to answer.
        public var patience = Duration.seconds(5)
        /// The time others have to answer with a newer record, once there is one.
        public var grace = Duration.milliseconds(150)
        /// The time for which a record is not asked for again.
        public var freshness = Duration.seconds(Int64(DeviceRecord.timeToLive))
        /// The most records remembered; beyond, the one that was asked for longest ago is forgotten.
        public var remembered = 1_024
        /// More certificates to trust, in PEM, beside those of the system.
        public var certificates: [UInt8]?

        /// Makes the default options.
        public init() {}
    }

    /// A record, and whether it was just heard of.
    public struct Resolution: Hashable, Sendable {
        /// The newest record known.
        public var record: SignedRecord
        /// False when no directory knew it now, and it is remembered from before.
        public var isFresh: Bool
    }

    /// What became of a record that was published.
    public struct Publication: Sendable {
        /// The directories that keep it.
        public var kept: [DirectoryAddress] = []
        /// The reasons of those that do not.
        public var failures: [DirectoryAddress: KithError] = [:]
        /// The time of a newer record of this device, where a directory has one.
        public var newerTime: UInt64?
    }

    /// What became of the last publication in a directory, and of the last question to it.
    public struct Standing: Hashable, Sendable {
        /// The outcome of one of them.
        @nonexhaustive
        public enum Outcome: Hashable, Sendable {
            /// It has not been tried.
            case untried
            /// The directory did what it was asked.
            case worked
            /// It did not, for this reason: a sentence.
            case failed(String)
        }

        /// The directory.
        public var directory: DirectoryAddress
        /// The last publication of this device's record.
        public var publication = Outcome.untried
        /// The last question for another device's record.
        public var question = Outcome.untried
    }

    private struct Remembered {
        var record: SignedRecord
        var asked: ContinuousClock.Instant
        var used: ContinuousClock.Instant
    }

    /// The directories.
    public let directories: [DirectoryAddress]
    private let options: Options
    private let ticker: any Ticker
    private let exchange: RecordExchange
    private let memory = Mutex<[DeviceID: Remembered]>([:])
    private let outcomes: Mutex<[Standing]>

    /// Makes a client of some directories.
    ///
    /// - Throws: `KithError` `.invalid` for certificates that cannot be read.
    public convenience init(_ directories: [DirectoryAddress], options: Options = Options()) throws(KithError) {
        try self.init(directories, options: options, ticker: ContinuousClock())
    }

    /// Makes a client that lives by another clock.
    package init(_ directories: [DirectoryAddress], options: Options, ticker: any Ticker) throws(KithError) {
        self.directories = directories
        outcomes = Mutex(directories.map { Standing(directory: $0) })
        self.options = options
        self.ticker = ticker
        var tls = TLSConfiguration.makeClientConfiguration()
        do {
            if let certificates = options.certificates {
                tls.additionalTrustRoots = [.certificates(try NIOSSLCertificate.fromPEMBytes(certificates))]
            }
            let context = try NIOSSLContext(configuration: tls)
            exchange = RecordExchange(
                group: MultiThreadedEventLoopGroup.singleton, tls: context, patience: options.patience)
        } catch {
            throw KithError(.invalid, "The certificates for directories cannot be read.", cause: error)
        }
    }

    /// What became of the last publication in each directory, and of the last question to it.
    public var standings: [Standing] { outcomes.withLock { $0 } }

    private func note(
        _ failure: KithError?, of kind: WritableKeyPath<Standing, Standing.Outcome>, at directory: DirectoryAddress
    ) {
        // One that was overtaken by another directory, or given up, says nothing.
        guard failure?.code != .cancelled else { return }
        outcomes.withLock { outcomes in
            guard let index = outcomes.firstIndex(where: { $0.directory == directory }) else { return }
            outcomes[index][keyPath: kind] = failure.map { .failed($0.message) } ?? .worked
        }
    }

    // MARK: - Publishing

    /// Tells every directory this device's record, and returns once each has answered or is not waited for.
    public func publish(_ record: SignedRecord) async -> Publication {
        await withTaskGroup(of: (DirectoryAddress, Result<UInt64?, KithError>).self) { group in
            for directory in directories {
                group.addTask {
                    let result = await self.publish(record, to: directory)
                    let failure: KithError? = if case .failure(let error) = result { error } else { nil }
                    self.note(failure, of: \.publication, at: directory)
                    return (directory, result)
                }
            }
            var publication = Publication()
            for await (directory, result) in group {
                switch result {
                case .success(nil): publication.kept.append(directory)
                case .success(let newer?):
                    publication.newerTime = max(publication.newerTime ?? 0, newer)
                    publication.failures[directory] = KithError(
                        .conflict, "The directory \(directory) knows a newer record of this device.")
                case .failure(let error): publication.failures[directory] = error
                }
            }
            return publication
        }
    }

    /// The time of the newer record that the directory has; `nil` when it keeps this one.
    private func publish(
        _ record: SignedRecord, to directory: DirectoryAddress
    ) async -> Result<UInt64?, KithError> {
        do throws(KithError) {
            let answer = try await exchange.answer(.PUT, directory, record.device.zBase32, body: record.body)
            switch answer.status {
            case 200..<300: return .success(nil)
            case 409: return .success(try await ask(directory, record.device)?.time ?? record.time)
            case 429, 503:
                throw KithError(.exhausted, "The directory \(directory) takes no more records now. It is tried again.")
            default:
                throw KithError(.denied, "The directory \(directory) refused this device's record (\(answer.status)).")
            }
        } catch {
            return .failure(error)
        }
    }

    // MARK: - Resolving

    /// The newest record of a device; `nil` when no directory has one.
    ///
    /// - Throws: `KithError` as the last directory did, when none answers and nothing is remembered.
    public func resolve(_ device: DeviceID) async throws(KithError) -> Resolution? {
        let now = ticker.now
        let known = memory.withLock { memory in
            memory[device]?.used = now
            return memory[device]
        }
        if let known, now - known.asked < options.freshness { return Resolution(record: known.record, isFresh: true) }
        let (found, hasAnswer, failure) = await race(device)
        if let found {
            let newest = known.map { $0.record.replaces(found) ? $0.record : found } ?? found
            remember(newest, at: ticker.now)
            return Resolution(record: newest, isFresh: true)
        }
        if let known { return Resolution(record: known.record, isFresh: false) }
        if !hasAnswer, let failure { throw failure }
        return nil
    }

    private func race(_ device: DeviceID) async -> (found: SignedRecord?, hasAnswer: Bool, failure: KithError?) {
        enum Event: Sendable {
            case answer(SignedRecord?)
            case failure(KithError)
            case enough
        }
        return await withTaskGroup(of: Event.self) { group in
            for directory in directories {
                group.addTask {
                    do throws(KithError) {
                        let answer = try await self.ask(directory, device)
                        self.note(nil, of: \.question, at: directory)
                        return .answer(answer)
                    } catch {
                        self.note(error, of: \.question, at: directory)
                        return .failure(error)
                    }
                }
            }
            defer { group.cancelAll() }
            var (found, hasAnswer, left): (SignedRecord?, Bool, Int) = (nil, false, directories.count)
            var failure: KithError?
            while left > 0, let event = await group.next() {
                switch event {
                case .answer(let record):
                    left -= 1
                    hasAnswer = true
                    guard let record else { continue }
                    if found == nil, left > 0 {
                        let (ticker, end) = (ticker, ticker.now + options.grace)
                        group.addTask {
                            try? await ticker.sleep(until: end, tolerance: nil)  // ends early only when cancelled
                            return .enough
                        }
                    }
                    if found.map({ record.replaces($0) }) ?? true { found = record }
                case .failure(let error):
                    left -= 1
                    failure = error
                case .enough: left = 0
                }
            }
            return (found, hasAnswer, failure)
        }
    }

    /// The record that one directory has; `nil` when it has none.
    private func ask(_ directory: DirectoryAddress, _ device: DeviceID) async throws(KithError) -> SignedRecord? {
        let answer = try await exchange.answer(.GET, directory, device.zBase32)
        switch answer.status {
        case 200:
            do {
                return try SignedRecord(device, body: answer.body)
            } catch {
                throw KithError(
                    .corrupt, "The directory \(directory) answered with what \(device.short) has not signed.",
                    cause: error)
            }
        case 404: return nil
        case 429, 503: throw KithError(.exhausted, "The directory \(directory) answers no more questions now.")
        default: throw KithError(.denied, "The directory \(directory) does not answer (\(answer.status)).")
        }
    }

    private func remember(_ record: SignedRecord, at now: ContinuousClock.Instant) {
        memory.withLock { memory in
            if memory[record.device] == nil, memory.count >= options.remembered,
                let oldest = memory.min(by: { $0.value.used < $1.value.used })?.key
            {
                memory[oldest] = nil
            }
            memory[record.device] = Remembered(record: record, asked: now, used: now)
        }
    }
}
