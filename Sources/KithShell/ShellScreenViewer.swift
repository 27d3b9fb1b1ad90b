import KithAPI
import KithIO
import KithWire
import Synchronization

/// A shell whose screen is drawn elsewhere: carries what ``ShellScreenEngine`` decides between a session and a viewer.
///
///     session ──events──▶ engine ──updates──▶ viewer
///     session ◀──input─── engine ◀──actions── viewer
final class ShellScreenViewer: Sendable {
    typealias Stream = MethodStream<Shell.Screen.Action, Shell.Screen.Update>

    /// The way in which a viewer's stream has ended well.
    private enum Outcome {
        /// The shell has ended, and the viewer was told.
        case exited
        /// The viewer has hung up.
        case hungUp
    }

    /// What of the viewer's input has been passed on.
    struct Taken: Sendable {
        /// Whole messages.
        var messages: UInt64 = 0
        /// Bytes of the next one.
        var bytes = 0
    }

    /// Input on its way to the session, from its position on.
    private struct Writing {
        var input: ShellScreenEngine.Input
        var start: UInt64
    }

    private struct State {
        var engine: ShellScreenEngine
        var writing: Writing?
        var timer: Task<Void, Never>?
        var dueAt: Duration?
    }

    /// What was typed last is passed on for so long when the viewer is gone.
    private static let lastInputTime = Duration.seconds(2)

    private let session: ShellSession
    private let clock: any Ticker
    private let start: ContinuousClock.Instant
    private let state: Mutex<State>
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let inputs = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let room = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    init(_ session: ShellSession, _ engine: ShellScreenEngine, clock: any Ticker) {
        self.session = session
        self.clock = clock
        start = clock.now
        state = Mutex(State(engine: engine))
    }

    private var now: Duration { clock.now - start }

    /// What of the viewer's input has been passed on so far.
    var taken: Taken {
        state.withLock { state in
            let bytes = state.writing.map { $0.input.endsMessage ? Int(session.inputPosition - $0.start) : 0 }
            return Taken(messages: state.engine.taken, bytes: bytes ?? 0)
        }
    }

    /// Carries until the shell has ended, the viewer has hung up or gone, or `isReplaced` happens.
    ///
    /// However it ends, the session is let go: it goes on for as long as it is kept, unless the viewer has hung up.
    func run(over stream: Stream, until isReplaced: AsyncEvent) async throws {
        do {
            let outcome = try await withThrowingTaskGroup(of: Outcome?.self) { group in
                defer { group.cancelAll() }
                group.addTask(executorPreference: session.executor) { try await self.show() }
                group.addTask { try await self.send(over: stream) }
                group.addTask { try await self.receive(from: stream) }
                group.addTask { try await self.passOn() }
                group.addTask {
                    await isReplaced.wait()
                    try Task.checkCancellation()
                    throw KithError(.conflict, "This window was opened again from elsewhere, and goes on there.")
                }
                while let outcome = try await group.next() {
                    if let outcome { return outcome }
                }
                throw CancellationError()
            }
            endTimer()
            switch outcome {
            case .exited: try await stream.finish()
            case .hungUp: session.close()
            }
        } catch {
            endTimer()
            // Not in this task: it may be cancelled.
            await Task(name: "kith screen leaves") { await self.leave() }.value
            throw error
        }
    }

    /// Passes on what was typed last, and leaves the shell running.
    private func leave() async {
        await withTaskGroup { group in
            group.addTask {
                if let writing = self.state.withLock({ $0.writing }) {
                    let count = Int(self.session.inputPosition - writing.start)
                    guard (try? await self.session.write(Array(writing.input.bytes.dropFirst(count)))) != nil else {
                        return
                    }
                    self.wrote(writing.input)
                }
                // What cannot be written any more is sent again by a viewer that comes back.
                try? await self.writeInput()
            }
            group.addTask { try? await self.clock.sleep(for: Self.lastInputTime) }
            await group.next()
            group.cancelAll()
        }
        await session.detach()
    }

    // MARK: - The shell

    private func show() async throws -> Outcome? {
        for try await event in session.events {
            let now = now
            state.withLock { state in
                switch event {
                case .output(let bytes), .screen(let bytes), .errorOutput(let bytes):
                    state.engine.output(bytes, at: now)
                case .echoed(let position, let roundTrip):
                    state.engine.echoed(upTo: position, roundTrip: roundTrip, at: now)
                case .interrupted: state.engine.connected(false)
                case .stillInterrupted: break
                case .resumed: state.engine.connected(true)
                case .exited(let exit): state.engine.exited(exit)
                }
            }
            wakes.continuation.yield()
            inputs.continuation.yield()
        }
        return nil
    }

    private func passOn() async throws -> Outcome? {
        for await _ in inputs.stream { try await writeInput() }
        return nil
    }

    private func writeInput() async throws {
        while true {
            let position = session.inputPosition
            let input = state.withLock { state in
                let input = state.engine.nextInput()
                state.writing = input.map { Writing(input: $0, start: position) }
                return input
            }
            guard let input else { return }
            if !input.bytes.isEmpty { try await session.write(input.bytes) }
            wrote(input)
        }
    }

    private func wrote(_ input: ShellScreenEngine.Input) {
        state.withLock { state in
            state.engine.passedOn(input)
            state.writing = nil
        }
        room.continuation.yield()
        wakes.continuation.yield()
    }

    // MARK: - The viewer

    private func receive(from stream: Stream) async throws -> Outcome? {
        var hasRoom = room.stream.makeAsyncIterator()
        while let action = try await stream.receive() {
            while !state.withLock({ $0.engine.takesInput }) {
                guard await hasRoom.next() != nil else { throw CancellationError() }
            }
            let now = now
            let size = try state.withLock { state throws(KithError) in try state.engine.received(action, at: now) }
            inputs.continuation.yield()
            wakes.continuation.yield()
            if let size {
                try await session.resize(Shell.Size(columns: UInt16(size.columns), rows: UInt16(size.rows)))
            }
        }
        return .hungUp
    }

    private func send(over stream: Stream) async throws -> Outcome? {
        wakes.continuation.yield()
        for await _ in wakes.stream {
            steps: while true {
                let now = now
                switch state.withLock({ $0.engine.next(at: now) }) {
                case .send(let update): try await stream.send(update)
                case .wait: break steps
                case .waitUntil(let time):
                    wake(at: time)
                    break steps
                case .finish: return .exited
                }
            }
        }
        throw CancellationError()
    }

    private func wake(at time: Duration) {
        let (clock, instant, continuation) = (clock, start + time, wakes.continuation)
        state.withLock { state in
            if state.dueAt == time { return }
            state.dueAt = time
            state.timer?.cancel()
            state.timer = Task(name: "kith screen timer") {
                // One that is cancelled has been replaced.
                if (try? await clock.sleep(until: instant, tolerance: nil)) != nil { continuation.yield() }
            }
        }
    }

    private func endTimer() { state.withLock { $0.timer?.cancel() } }
}
