import KithAPI
import KithIO
import KithRPC
import KithWire
import Synchronization

/// A service that the process at the other end of a connection has registered: sends it requests, and receives its
/// answers.
///
/// Requests go the other way on that connection, with identifiers of their own: strings that begin with `$`. A process
/// that does not answer, or does not even read, delays nobody: a caller that is called off leaves at once.
final class RegisteredService: ExternalService {
    /// The most calls and streams it may have at once; the next is refused with `.exhausted`.
    static let callLimit = 128
    /// The most bytes of requests that may wait for it to read them; the next is refused with `.exhausted`.
    static let outboxLimit = 16 << 20
    /// The most messages of a stream that may come before the first was taken.
    static let window = 16

    let name: String
    let methods: [DynamicMethod]
    private let connection: LineConnection
    private let outbox = ByteRoom(outboxLimit)
    /// The event that the process has been told that it is registered.
    private let ready = AsyncEvent()
    private let callEnded: @Sendable () -> Void
    private let state = Mutex(State())

    private typealias Answer = Promise<Result<JSONText, KithError>>

    private struct State {
        var last: UInt64 = 0
        var running = 0
        var answers: [UInt64: Answer] = [:]
        var streams: [UInt64: Arrivals] = [:]
        var ended: KithError?
    }

    /// Makes the service of a registration; `callEnded` is called for each call that has ended.
    init(_ registration: Registration, _ connection: LineConnection, callEnded: @escaping @Sendable () -> Void) {
        name = registration.service
        methods = registration.methods
        self.connection = connection
        self.callEnded = callEnded
    }

    /// True when nothing runs that it must answer.
    var isIdle: Bool { state.withLock { $0.running == 0 } }

    /// Lets requests go out.
    func begin() { ready.happen() }

    /// Ends every call; no more begin.
    func end(_ reason: KithError) {
        let (answers, streams) = state.withLock { state in
            state.ended = state.ended ?? reason
            defer {
                state.answers = [:]
                state.streams = [:]
            }
            return (Array(state.answers.values), Array(state.streams.values))
        }
        ready.happen()
        for answer in answers { answer.fulfil(.failure(reason)) }
        for stream in streams { stream.fail(reason) }
    }

    // MARK: - Messages from the process

    /// Tells whether an identifier is one of those for the process to answer.
    static func isOwn(_ id: RPCIdentifier) -> Bool {
        if case .string(let text) = id { text.hasPrefix("$") } else { false }
    }

    private static func number(_ id: RPCIdentifier) -> UInt64? {
        guard case .string(let text) = id, text.hasPrefix("$") else { return nil }
        return UInt64(text.dropFirst())
    }

    private static func identifier(_ number: UInt64) -> RPCIdentifier { .string("$\(number)") }

    /// Takes an answer; a second one, and one without a request, are ignored.
    func take(_ response: RPCResponse) {
        guard let number = Self.number(response.id) else { return }
        state.withLock { $0.answers.removeValue(forKey: number) }?.fulfil(response.result.mapError(\.kithError))
    }

    /// Takes a message of the process about a stream; one about a stream that is over is ignored.
    func take(_ id: RPCIdentifier, _ notice: StreamNotice) {
        guard let number = Self.number(id) else { return }
        state.withLock { $0.streams[number] }?.take(notice)
    }

    // MARK: - What it is asked

    func call(_ call: ExternalCall) async throws -> JSONText {
        let (number, answer) = try begin(nil)
        defer { end(number) }
        return try await ask(call, number, answer, credit: nil)
    }

    func serve(
        _ call: ExternalCall, accept: @escaping @Sendable (JSONText) async throws -> any ByteStream
    ) async throws {
        let arrivals = Arrivals(connection.room)
        let (number, answer) = try begin(arrivals)
        defer {
            end(number)
            arrivals.letGo()
        }
        let output = try await ask(call, number, answer, credit: Self.window)
        do {
            let stream = TranscodedStream(
                try await accept(output), incoming: call.method.upstream, outgoing: call.method.downstream)
            // Of its own: to write to a process that does not read takes as long as that lives.
            let upward = Task(name: "kith stream") {
                do { try await pump(from: stream, number, arrivals) } catch { arrivals.fail(error) }
            }
            defer { upward.cancel() }
            try await pump(arrivals, number, to: stream)
        } catch {
            if !arrivals.isOver { notify(RPCRequest.cancel(Self.identifier(number))) }
            throw error
        }
    }

    private func begin(_ arrivals: Arrivals?) throws -> (UInt64, Answer) {
        try state.withLock { state throws in
            if let ended = state.ended { throw ended }
            guard state.running < Self.callLimit else {
                throw KithError(.exhausted, "\(name) has \(Self.callLimit) calls to answer already. Try again later.")
            }
            let answer = Answer()
            state.running += 1
            state.last += 1
            state.answers[state.last] = answer
            state.streams[state.last] = arrivals
            return (state.last, answer)
        }
    }

    private func end(_ number: UInt64) {
        state.withLock { state in
            state.running -= 1
            state.answers[number] = nil
            state.streams[number] = nil
        }
        callEnded()
    }

    /// Asks, and waits for the answer.
    private func ask(_ call: ExternalCall, _ number: UInt64, _ answer: Answer, credit: Int?) async throws -> JSONText {
        let id = Self.identifier(number)
        var request = RPCCall.request(
            id: id, method: call.method.name, input: call.input.bytes, on: nil, options: call.options, credit: credit)
        if let caller = call.caller {
            request.envelope["caller"] = JSONText(members: [
                ("id", JSONText(scanned: JSONText.quoted(caller.id))),
                ("name", JSONText(scanned: JSONText.quoted(caller.name))),
            ])
        }
        let line = request.json
        guard outbox.offer(line.count) else {
            throw KithError(.exhausted, "\(name) does not read what it is asked. Restart the program that serves it.")
        }
        let sending = Task(name: "kith request") { [connection, outbox, ready] in
            defer { outbox.giveBack(line.count) }
            await ready.wait()
            do throws(KithError) { try await connection.send(line) } catch { answer.fulfil(.failure(error)) }
        }
        do {
            return try await answer.valueUnlessCancelled().get()
        } catch is CancellationError {
            notify(RPCRequest.cancel(id), after: sending)
            throw CancellationError()
        }
    }

    /// Sends a message that needs no answer.
    private func notify(_ notice: RPCRequest, after sending: Task<Void, Never>? = nil) {
        Task(name: "kith notice") { [connection] in
            await sending?.value
            try? await connection.send(notice.json)  // a process that is gone needs no notice
        }
    }

    /// Hands on what the process sends, until it has ended the stream.
    private func pump(_ arrivals: Arrivals, _ number: UInt64, to stream: TranscodedStream) async throws {
        var hasFinished = false
        var taken = 0
        while let part = try await arrivals.next() {
            defer { arrivals.giveBack(part) }
            if hasFinished {
                throw KithError(.invalid, "\(name) said that nothing more comes, and sent more.")
            }
            switch part {
            case .message(let message): try await stream.send(message.bytes)
            case .bytes(let bytes): try await stream.send(bytes: bytes)
            case .finish:
                hasFinished = true
                try await stream.finish()
            }
            taken += 1
            if taken == Self.window / 2 {
                notify(StreamNotice.credit(taken).request(Self.identifier(number)))
                taken = 0
            }
        }
    }

    /// Hands on what the caller sends, until it has finished.
    private func pump(from stream: TranscodedStream, _ number: UInt64, _ arrivals: Arrivals) async throws {
        let id = Self.identifier(number)
        while let item = try await stream.receive() {
            _ = try await arrivals.credit.take()
            switch item {
            case .message(let message):
                try await connection.send(StreamNotice.message(JSONText(scanned: message)).request(id).json)
            case .bytes(let bytes): try await connection.send(StreamNotice.bytes(bytes).request(id).json)
            }
        }
        try await connection.send(StreamNotice.finish.request(id).json)
    }

    /// The messages of a stream that the process has sent and its caller has not taken yet.
    private final class Arrivals: Sendable {
        enum Part: Sendable {
            case message(JSONText)
            case bytes([UInt8])
            case finish

            var size: Int {
                switch self {
                case .message(let text): text.bytes.count
                case .bytes(let bytes): bytes.count
                case .finish: 0
                }
            }
        }

        /// As many messages as the process was allowed to send, and the end.
        private let parts = BoundedQueue<Part>(capacity: 2 * RegisteredService.window + 1)
        private let room: ByteRoom
        private let over = Locked(false)
        /// The messages that may be sent to the process.
        let credit = AsyncSemaphore(StreamNotice.initialCredit)

        init(_ room: ByteRoom) { self.room = room }

        /// True when the process has ended the stream.
        var isOver: Bool { over.value }

        func take(_ notice: StreamNotice) {
            switch notice {
            case .message(let text): add(.message(text))
            case .bytes(let bytes): add(.bytes(bytes))
            case .finish: add(.finish)
            case .credit(let count): credit.add(count)
            case .end(let error):
                over.set(true)
                parts.finish(throwing: error?.kithError)
            case .cancel: break  // for who is asked to say
            }
        }

        private func add(_ part: Part) {
            guard room.offer(part.size) else {
                return fail(KithError(.exhausted, "Too much waits for the callers of this service to take it."))
            }
            // After the end of a stream nothing is kept.
            guard let isKept = try? parts.offer(part), isKept else {
                room.giveBack(part.size)
                return fail(KithError(.exhausted, "The service sent more than it was asked for."))
            }
        }

        func next() async throws -> Part? { try await parts.receive() }
        func giveBack(_ part: Part) { room.giveBack(part.size) }

        /// Ends it for this side; does nothing when the process has ended it.
        func fail(_ error: any Error) {
            if !over.value { parts.finish(throwing: error) }
        }

        /// Gives back the room of messages that will not be taken any more.
        func letGo() {
            parts.finish()
            while let part = try? parts.poll() { giveBack(part) }
        }
    }
}
