import KithAPI
import KithWire

/// One viewer of a session and the stream it holds: carries frames between them until either ends.
///
/// The two directions know nothing of each other: however much output waits for a slow caller, a key is passed on.
struct ShellViewing: Sendable {
    /// The echo of a key is expected to have been written within this.
    private static let echoTime = Duration.milliseconds(50)

    /// A caller that was told why it is let go leaves by itself within this.
    private static let lastWordTime = Duration.seconds(5)

    let shell: HostedShell
    let key: UInt64
    let wakes: AsyncStream<Void>
    let stream: any ByteStream
    let wantsEchoes: Bool
    /// True while the caller is sent how it ended: then it may go.
    private let isToldEnd = Locked(false)

    init(
        shell: HostedShell, key: UInt64, wakes: AsyncStream<Void>, stream: any ByteStream, wantsEchoes: Bool
    ) {
        self.shell = shell
        self.key = key
        self.wakes = wakes
        self.stream = stream
        self.wantsEchoes = wantsEchoes
    }

    /// Runs until the process has ended and the caller was told how.
    ///
    /// - Throws: `.closed` and the like when the caller has gone, `.cancelled` when it hung up, `.invalid` when it
    ///   breaks the protocol, `CancellationError` when the task is cancelled.
    func run() async throws {
        let sink = FrameSink(stream)
        let (echoes, echo) = AsyncStream.makeStream(
            of: (position: UInt64, at: ContinuousClock.Instant).self, bufferingPolicy: .bufferingNewest(1))
        do {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    try await send(to: sink)
                    return true
                }
                // What is typed goes to the process from the thread that hears it.
                group.addTask(executorPreference: stream.executor) {
                    try await receive(echo: echo)
                    return false
                }
                if wantsEchoes {
                    group.addTask {
                        try await tellEchoes(echoes, to: sink)
                        return false
                    }
                }
                while let isDone = try await group.next() {
                    if isDone { return }
                }
            }
            try await sink.finish()
        } catch let last as LastWord {
            await say(last.error, to: sink)
            stream.abort(last.error.code)
            throw last.error
        } catch {
            stream.abort((error as? KithError)?.code ?? .cancelled)
            throw error
        }
    }

    /// Why the caller is let go.
    private struct LastWord: Error {
        var error: KithError
    }

    /// Says why the caller is let go, and lets it go by itself: an aborted stream loses what is on its way.
    ///
    /// Nothing that it sends meanwhile is taken, and one that takes nothing any more is not waited for. An older caller
    /// skips the frame, and learns as much as the code of the stream's end says.
    private func say(_ error: KithError, to sink: FrameSink) async {
        await withTaskGroup { group in
            group.addTask {
                // One that has gone already needs no word.
                guard (try? await sink.send(.ended(error.code, message: error.message))) != nil else { return }
                _ = await drain(for: Self.lastWordTime)
            }
            group.addTask {
                guard (try? await Task.sleep(for: Self.lastWordTime)) != nil else { return }  // it has left in time
                stream.abort(error.code)
            }
            await group.next()
            group.cancelAll()
        }
    }

    /// Takes what the caller had already sent, so that a write it is still in the middle of ends.
    ///
    /// Returns whether the caller has ended its direction, which it does when it knows how the session ended.
    func drain(for patience: Duration = .seconds(5)) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                do {
                    while try await stream.read(upTo: 64 << 10) != nil {}
                    return true
                } catch {
                    return false  // whatever happened to the caller, nothing runs for it any more
                }
            }
            group.addTask {
                try? await Task.sleep(for: patience)  // ends early only when cancelled
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    // MARK: - Out

    private func send(to sink: FrameSink) async throws {
        var taken: UInt64 = 0
        for await _ in wakes {
            steps: while true {
                let now = shell.inputTaken(by: key)
                // Rarely: typing never causes an answer of its own.
                if now - min(taken, now) >= UInt64(ShellFrame.inputWindow / 8) {
                    taken = now
                    try await sink.send(.taken(now))
                }
                switch shell.next(for: key) {
                case .send(let frames):
                    for frame in frames { try await sink.send(frame) }
                case .wait: break steps
                case .waitUntil(let time): try await Task.sleep(until: time, clock: .continuous)
                case .exited(let exit):
                    isToldEnd.set(true)
                    return try await sink.send(.exited(exit))
                case .failed(let error): throw LastWord(error: error)
                }
            }
        }
        try Task.checkCancellation()
        throw HostedShell.gone
    }

    /// Says that input has been processed once its echo has had the time to be written.
    private func tellEchoes(
        _ echoes: AsyncStream<(position: UInt64, at: ContinuousClock.Instant)>, to sink: FrameSink
    ) async throws {
        for await typed in echoes {
            try await Task.sleep(until: typed.at + Self.echoTime, clock: .continuous)
            try await sink.send(.echoed(input: typed.position, held: .now - typed.at))
        }
    }

    // MARK: - In

    /// Takes frames off the stream.
    ///
    /// Never waits for the process, so a signal always gets through.
    private func receive(
        echo: AsyncStream<(position: UInt64, at: ContinuousClock.Instant)>.Continuation
    ) async throws {
        defer { echo.finish() }
        var decoder = ReceiveBuffer()
        while let bytes = try await stream.read(upTo: 64 << 10) {
            decoder.append(bytes)
            while let frame = try ShellFrame.next(from: &decoder) {
                switch frame {
                case .input(let bytes):
                    if let position = try shell.type(bytes, by: key) { echo.yield((position, .now)) }
                case .endOfInput: try shell.endInput(by: key)
                case .resize(let size): shell.resize(size, by: key)
                case .signal(let signal): try shell.signal(signal, by: key)
                case .received(let position): try shell.received(position, by: key)
                case .agent(let number, let bytes): shell.agentAnswered(number, bytes, by: key)
                case .output, .errorOutput, .exited, .taken, .jump, .screen, .echoed, .ended:
                    throw KithError(.invalid, "The caller sent what only a device sends.")
                }
            }
        }
        guard isToldEnd.value else { throw KithError(.closed, "The caller hung up.") }
    }
}
