package import KithAPI
import KithIO
import KithWire
import Synchronization

/// One end of the exchange of clipboards: the host's and the viewer's are the same.
///
/// What the other end offers is announced here at once, and fetched when somebody pastes; what is here is offered there, and
/// read when it is asked for. Nothing is read unless the other end asked for what was offered last.
package final class ClipboardLink: Sendable {
    /// The clipboard of this end.
    package struct Local: Sendable {
        /// Reads the clipboard here.
        package var read: @Sendable (ScreenClipboard.Selection, ScreenClipboard.Format) async throws -> [UInt8]
        /// Announces here what the other end has, and where its content comes from.
        package var announce:
            @Sendable (
                ScreenClipboard.Selection, [ScreenClipboard.Format],
                @escaping @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
            ) async throws -> Void

        /// Describes a clipboard.
        package init(
            read: @escaping @Sendable (ScreenClipboard.Selection, ScreenClipboard.Format) async throws -> [UInt8],
            announce:
                @escaping @Sendable (
                    ScreenClipboard.Selection, [ScreenClipboard.Format],
                    @escaping @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
                ) async throws -> Void
        ) {
            self.read = read
            self.announce = announce
        }
    }

    /// A content on its way here.
    private struct Fetch {
        var bytes: [UInt8] = []
        let promise: Promise<Result<[UInt8], KithError>>
    }

    private struct Key: Hashable {
        var change: UInt64
        var format: ScreenClipboard.Format
    }

    private struct State {
        /// Here, by their numbers: the last of each selection.
        var offered: [ScreenClipboard.Selection: (change: UInt64, formats: [ScreenClipboard.Format])] = [:]
        var lastChange: UInt64 = 0
        var fetches: [Key: Fetch] = [:]
        var isOver = false
    }

    private let local: Local
    private let outgoing = BoundedQueue<ScreenClipboard>(capacity: 64)
    private let state = Mutex(State())

    /// The time the other end has to send a content, 10 MB over a slow link included.
    private static let patience = Duration.seconds(60)

    /// Makes an end for the clipboard here.
    package init(_ local: Local) { self.local = local }

    /// Offers what is on the clipboard here now.
    package func offer(_ selection: ScreenClipboard.Selection, _ formats: [ScreenClipboard.Format]) {
        let offer = state.withLock { state -> ScreenClipboard in
            state.lastChange += 1
            state.offered[selection] = (state.lastChange, formats)
            return .offer(change: state.lastChange, selection: selection, formats: formats)
        }
        // One that copies faster than the other end listens offers the next time.
        _ = outgoing.offered(offer)
    }

    /// Exchanges until the other end finishes, or the task is cancelled.
    package func run(over stream: MethodStream<ScreenClipboard, ScreenClipboard>) async throws {
        defer { end() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [outgoing] in
                while let message = try await outgoing.receive() { try await stream.send(message) }
            }
            group.addTask { [self] in
                // One content is read and sent at a time: what the other end asks meanwhile waits with it.
                while let message = try await stream.receive() { try await received(message) }
                outgoing.finish()
            }
            defer { group.cancelAll() }
            try await group.next()
            try await group.next()
        }
    }

    private func end() {
        let fetches = state.withLock { state in
            state.isOver = true
            defer { state.fetches = [:] }
            return Array(state.fetches.values)
        }
        for fetch in fetches {
            fetch.promise.fulfil(.failure(KithError(.closed, "The other end of the clipboard is gone.")))
        }
        outgoing.finish()
    }

    private func received(_ message: ScreenClipboard) async throws {
        switch message {
        case .offer(let change, let selection, let formats):
            try await local.announce(selection, formats) { [weak self] format in
                guard let self else { throw KithError(.closed, "The other end of the clipboard is gone.") }
                return try await self.fetch(change, format)
            }
        case .request(let change, let format): try await answer(change, format)
        case .content(let change, let format, let bytes, let isLast):
            received(bytes.bytes, isLast: isLast, of: Key(change: change, format: format))
        case .refused(let change, let text):
            for format in ScreenClipboard.Format.allCases {
                finish(Key(change: change, format: format), .failure(KithError(.notFound, text)))
            }
        }
    }

    private func answer(_ change: UInt64, _ format: ScreenClipboard.Format) async throws {
        let selection = state.withLock { state in
            state.offered.first { $0.value.change == change && $0.value.formats.contains(format) }?.key
        }
        guard let selection else {
            return try await outgoing.send(.refused(change: change, message: "The clipboard has changed."))
        }
        let bytes: [UInt8]
        do {
            bytes = try await local.read(selection, format)
        } catch let error as KithError {
            return try await outgoing.send(.refused(change: change, message: error.message))
        }
        guard bytes.count <= ScreenClipboard.contentLimit else {
            return try await outgoing.send(.refused(change: change, message: "At most 10 MB are copied."))
        }
        var start = 0
        repeat {
            let end = min(start + ScreenClipboard.partLimit, bytes.count)
            try await outgoing.send(
                .content(
                    change: change, format: format, bytes: ByteString(Array(bytes[start..<end])),
                    isLast: end == bytes.count))
            start = end
        } while start < bytes.count
    }

    /// Asks the other end for a content.
    private func fetch(_ change: UInt64, _ format: ScreenClipboard.Format) async throws -> [UInt8] {
        let key = Key(change: change, format: format)
        let (promise, isFirst) = try state.withLock { state throws(KithError) in
            guard !state.isOver else { throw KithError(.closed, "The other end of the clipboard is gone.") }
            if let fetch = state.fetches[key] { return (fetch.promise, false) }
            guard state.fetches.count < 8 else { throw KithError(.exhausted, "Too much is being pasted at once.") }
            let promise = Promise<Result<[UInt8], KithError>>()
            state.fetches[key] = Fetch(promise: promise)
            return (promise, true)
        }
        if isFirst { try await outgoing.send(.request(change: change, format: format)) }
        do {
            return try await withDeadline(Self.patience) { try await promise.valueUnlessCancelled().get() }
        } catch {
            finish(key, .failure(KithError(.timedOut, "The other end did not send its clipboard in time.")))
            throw error
        }
    }

    private func received(_ bytes: [UInt8], isLast: Bool, of key: Key) {
        let whole = state.withLock { state -> Result<[UInt8], KithError>? in
            guard let count = state.fetches[key]?.bytes.count else { return nil }
            guard count + bytes.count <= ScreenClipboard.contentLimit else {
                return .failure(KithError(.exhausted, "The other end's clipboard has more than 10 MB."))
            }
            // In its place: a copy for each part would be the other end's to ask for.
            state.fetches[key]?.bytes += bytes
            return isLast ? (state.fetches[key]?.bytes).map { .success($0) } : nil
        }
        if let whole { finish(key, whole) }
    }

    private func finish(_ key: Key, _ result: Result<[UInt8], KithError>) {
        let fetch = state.withLock { $0.fetches.removeValue(forKey: key) }
        fetch?.promise.fulfil(result)
    }
}
