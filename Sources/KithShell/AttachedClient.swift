import KithAPI
import KithWire

/// A client of a session and the stream it holds: carries frames between them until either ends.
///
/// The two directions know nothing of each other: however much output waits for a slow caller, a key is passed on.
struct AttachedClient: Sendable {
    /// A caller that was told why it is let go leaves by itself within this.
    private static let lastWordTime = Duration.seconds(5)

    let shell: HostedShell
    let client: HostedShell.Attached
    let stream: any ByteStream
    /// True while the caller is sent how it ended: then it may go.
    private let isToldEnd = Locked(false)

    init(_ client: HostedShell.Attached, of shell: HostedShell, over stream: any ByteStream) {
        self.shell = shell
        self.client = client
        self.stream = stream
    }

    /// Runs until the process has ended and the caller was told how.
    ///
    /// - Throws: `.closed` and the like when the caller has gone, `.cancelled` when it hung up, `.invalid` when it
    ///   breaks the protocol, `CancellationError` when the task is cancelled.
    func run() async throws {
        let sink = FrameSink(stream)
        do {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    try await send(to: sink)
                    return true
                }
                // What is typed goes to the process from the thread that hears it.
                group.addTask(executorPreference: stream.executor) {
                    try await receive()
                    return false
                }
                group.addTask {
                    try await sendEchoes(to: sink)
                    return false
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
                // Cut short when it has left in time.
                guard (try? await shell.clock.sleep(for: Self.lastWordTime)) != nil else { return }
                stream.fail(error)
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
                try? await shell.clock.sleep(for: patience)  // ends early only when cancelled
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    // MARK: - Out

    private func send(to sink: FrameSink) async throws {
        for await _ in client.wakes {
            steps: while true {
                switch shell.next(for: client.key) {
                case .send(let frames):
                    for frame in frames { try await sink.send(frame) }
                case .wait: break steps
                case .waitUntil(let time): try await shell.clock.sleep(until: time, tolerance: nil)
                case .exited(let exit):
                    isToldEnd.set(true)
                    return try await sink.send(.exited(exit))
                case .failed(let error): throw LastWord(error: error)
                }
            }
        }
        try Task.checkCancellation()
        throw HostedShellEngine.gone
    }

    /// Says that input has been processed once its echo has had the time to be written.
    private func sendEchoes(to sink: FrameSink) async throws {
        for await time in client.echoes {
            try await shell.clock.sleep(until: time, tolerance: nil)
            if let frame = shell.echo(for: client.key) { try await sink.send(frame) }
        }
    }

    // MARK: - In

    /// Takes frames off the stream.
    private func receive() async throws {
        var decoder = ReceiveBuffer()
        while let bytes = try await stream.read(upTo: 64 << 10) {
            decoder.append(bytes)
            while let frame = try ShellFrame.next(from: &decoder) { try shell.received(frame, by: client.key) }
        }
        guard isToldEnd.value else { throw KithError(.closed, "The caller hung up.") }
    }
}
