import KithAPI
import KithIO
import KithNode
import KithWire
import Synchronization

/// One `offer.deliver`: offers files of this device to another, and sends them when its person has accepted.
struct OfferDelivery: Sendable {
    private let input: Offers.Deliver.Input
    private let client: Client
    private let disk: DiskExecutor
    private let clock: any Ticker
    private let progress = TransferProgress()
    private let status = Status()

    private final class Status: Sendable {
        private let state = Mutex(Offers.State?.none)
        /// The state of the offer; `nil` before the other device has it.
        var current: Offers.State? {
            get { state.withLock { $0 } }
            set { state.withLock { $0 = newValue } }
        }
    }

    init(
        _ input: Offers.Deliver.Input, client: Client, disk: DiskExecutor, clock: any Ticker
    ) throws(KithError) {
        guard !input.paths.isEmpty else { throw KithError(.invalid, "Name at least one file or folder to send.") }
        self.input = input
        self.client = client
        self.disk = disk
        self.clock = clock
    }

    /// Offers and sends, and reports ten times a second.
    func run(_ pending: PendingStream<Offers.Deliver>) async throws {
        let (sources, offer) = try await disk.run { try await prepare() }
        let stream = try await pending.accept()
        var last: Offers.Delivery
        do {
            let state = try await withThrowingTaskGroup(of: Offers.State?.self) { group in
                defer { group.cancelAll() }
                group.addTask { try await deliver(sources, offer) }
                group.addTask {
                    while true {
                        if let state = status.current {
                            try await stream.send(Offers.Delivery(state: state, progress: progress.report()))
                        }
                        try await clock.sleep(for: .milliseconds(100))
                    }
                }
                while let part = try await group.next() {
                    if let state = part { return state }
                }
                throw CancellationError()
            }
            last = Offers.Delivery(state: state, progress: progress.report())
            if state == .arrived { last.failure = progress.failure.map(Files.Failure.init(leftOut:count:)) }
        } catch {
            last = Offers.Delivery(state: .failed, progress: progress.report(), failure: Files.Failure(error))
        }
        try await stream.send(last)
        // A caller that has read the last report may be gone already.
        try? await stream.finish()
    }

    /// Opens what is to be sent, and counts it.
    private func prepare() async throws -> (sources: [TreeSource], offer: Offers.Send.Input) {
        var sources: [TreeSource] = []
        var items: [Offers.Item] = []
        var (bytes, files) = (UInt64(0), UInt64(0))
        for path in input.paths {
            // A link that is named stands for what it leads to.
            let opened = try attempt("send", path) { () throws(Errno) in try Descriptor.open(path.bytes, [.path]).info()
            }
            let isFolder = opened.kind == .folder
            var real = path
            if isFolder, real.bytes.last != UInt8(ascii: "/") { real.bytes.append(UInt8(ascii: "/")) }
            let source = try TreeSource(try ConfinedPath(ownPath: real), recursive: isFolder)
            let total = try await TreeSource.total(of: [source], selection: Files.Selection())
            let name = Files.Path(bytes: source.name)
            guard !items.contains(where: { $0.name == name }) else {
                throw KithError(.invalid, "Two of the things to send are called \(name). Send them one by one.")
            }
            sources.append(source)
            items.append(Offers.Item(name: name, kind: opened.kind, size: total.bytes))
            bytes = try bytes.adding(announced: total.bytes)
            files += total.files
        }
        return (
            sources, Offers.Send.Input(items: items, bytes: bytes, files: files, waitSeconds: input.waitSeconds)
        )
    }

    /// Returns how it ended, when it ended without a fault.
    private func deliver(_ sources: [TreeSource], _ offer: Offers.Send.Input) async throws -> Offers.State {
        let stream = try await client.open(Offers.Send.self, offer, on: input.device).stream
        do {
            let state = try await converse(stream, sources)
            // The receiver has said its last word and may be gone.
            try? await stream.finish()
            return state
        } catch {
            stream.abort(Files.Failure(error).code)
            throw error
        }
    }

    /// A result of one of a delivery's tasks.
    private enum Part {
        case answered(Offers.State)
        case pushed(any Error)
        case pushedAll
        case waitedLongEnough
    }

    private func converse(_ answers: MethodStream<Offers.Answer, Nothing>, _ sources: [TreeSource]) async throws
        -> Offers.State
    {
        for try await answer in answers.messages {
            if let failure = answer.failure { throw failure.error }
            switch answer.state {
            case .waiting: status.current = .waiting
            case .accepted:
                guard let id = answer.id else {
                    throw KithError(
                        .invalid, "The other device accepted the offer without a number for it. Update Kith there.")
                }
                return try await push(sources, id, answers)
            default: return answer.state
            }
        }
        throw KithError(.closed, "The connection was lost before the offer was answered. Send it again.")
    }

    /// Sends the contents; the receiver's last word about them counts, not what became of the stream.
    private func push(
        _ sources: [TreeSource], _ id: String, _ answers: MethodStream<Offers.Answer, Nothing>
    ) async throws -> Offers.State {
        status.current = .receiving
        return try await withThrowingTaskGroup(of: Part.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                for try await answer in answers.messages {
                    if let failure = answer.failure { throw failure.error }
                    if answer.state != .accepted, answer.state != .receiving { return .answered(answer.state) }
                }
                throw KithError(.closed, "The connection was lost before all had arrived. Send it again.")
            }
            group.addTask {
                do {
                    try await send(sources, id)
                    return .pushedAll
                } catch {
                    return .pushed(error)
                }
            }
            var failure: (any Error)?
            while let part = try await group.next() {
                switch part {
                case .answered(let state):
                    if state == .failed, let failure { throw failure }
                    return state
                case .pushed(let error):
                    failure = error
                    // The other end knows better why, and says so in a moment if it can.
                    group.addTask {
                        try await clock.sleep(for: .seconds(2))
                        return .waitedLongEnough
                    }
                case .waitedLongEnough: if let failure { throw failure }
                case .pushedAll: break
                }
            }
            throw failure ?? KithError(.closed, "The connection was lost before all had arrived. Send it again.")
        }
    }

    private func send(_ sources: [TreeSource], _ id: String) async throws {
        let stream = try await client.open(Offers.Push.self, Offers.Push.Input(id: id), on: input.device).stream.bytes
        do {
            _ = try await Transfer.send(
                sources, selection: Files.Selection(), over: stream, on: disk, progress: progress)
        } catch {
            stream.abort(Files.Failure(error).code)
            throw error
        }
    }
}
