import Foundation
import KithAPI
import KithShell
import KithTerminal
import KithWire
import Synchronization

/// What stands between a shell's output and the person's terminal: takes out what a program there must not do here,
/// shows what is typed before it is echoed, says when the connection is gone, and keeps a recording.
///
/// Everything that is shown goes through one turnstile, so that no two things are mixed.
final class ShellWindow: Sendable {
    /// Whoever read our output (`| head`) has enough.
    struct BrokenPipe: Error {}

    /// What a person asked for.
    struct Options {
        var prediction = PredictiveEcho.Mode.adaptive
        var clipboard = OutputFilter.Policy.ask
        /// The file that gets a recording.
        var recording: String?
        /// What the recording says it shows.
        var command: String?
    }

    private struct State {
        /// `nil` where nobody watches: a pipe.
        var filter: OutputFilter?
        /// `nil` unless our terminal is the other end's.
        var echo: PredictiveEcho?
        var recorder: Asciicast.Writer?
        var hasBanner = false
        /// What a program last wanted on the clipboard.
        var offered: (selection: String, text: [UInt8])?
    }

    private let state: Mutex<State>
    private let recording: FileHandle?
    private let readiness: Readiness
    private let turn = Turnstile()
    private let start = ContinuousClock.now

    /// - Throws: `KithError` `.conflict` when the recording's file is there already.
    init(isRaw: Bool, size: (columns: Int, rows: Int)?, options: Options) throws {
        readiness = try Readiness()
        var state = State()
        let (columns, rows) = size ?? (80, 24)
        if isatty(STDOUT_FILENO) == 1 { state.filter = OutputFilter(clipboardWrites: options.clipboard) }
        if isRaw {
            state.echo = PredictiveEcho(
                terminal: Terminal(columns: columns, rows: rows, scrollbackLimit: 0), mode: options.prediction)
        }
        if let file = options.recording {
            let descriptor = unsafe Foundation.open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else {
                guard errno != EEXIST else {
                    throw KithError(.conflict, "\(file) is there already: give the recording another name.")
                }
                throw unsafe KithError(.invalid, "Cannot record into \(file): \(String(cString: strerror(errno))).")
            }
            let recording = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
            let writer = Asciicast.Writer()
            let environment = ProcessInfo.processInfo.environment
            try recording.write(
                contentsOf: writer.header(
                    Asciicast.Header(
                        columns: columns, rows: rows, timestamp: Int(Date().timeIntervalSince1970),
                        command: options.command,
                        environment: environment.filter { ["TERM", "SHELL"].contains($0.key) })))
            state.recorder = writer
            self.recording = recording
        } else {
            recording = nil
        }
        self.state = Mutex(state)
    }

    private var now: Duration { ContinuousClock.now - start }

    // MARK: - Showing

    /// Shows output.
    func show(_ bytes: [UInt8]) async throws {
        let (now, recorded) = (now, Locked<[UInt8]>([]))
        try await write(to: STDOUT_FILENO) { state in
            let passed = state.filter?.filter(bytes) ?? bytes
            for case .clipboardWrite(let selection, let text, _) in state.filter?.takeEvents() ?? [] {
                state.offered = (selection, text)
            }
            recorded.set(state.recorder?.output(passed, at: now) ?? [])
            return state.echo?.arrived(passed, now: now) ?? passed
        }
        try record(recorded.value)
    }

    /// Shows what came from standard error.
    func showError(_ bytes: [UInt8]) async throws { try await write(to: STDERR_FILENO) { _ in bytes } }

    /// Shows a text of our own.
    func say(_ text: String) async throws { try await write(to: STDERR_FILENO) { _ in Array(text.utf8) } }

    /// Shows what is being typed, when it can be foreseen; `position` is that of the input before it.
    func typed(_ bytes: [UInt8], at position: UInt64) async throws {
        let now = now
        try await write(to: STDOUT_FILENO) { $0.echo?.typed(bytes, inputPosition: position, now: now) ?? [] }
    }

    /// The device has dealt with input.
    func echoed(upTo position: UInt64, roundTrip: Duration) async throws {
        let now = now
        try await write(to: STDOUT_FILENO) { state in
            if roundTrip > .zero { state.echo?.roundTrip(roundTrip) }
            return state.echo?.echoed(upTo: position, now: now) ?? []
        }
    }

    /// Shows what was typed and is overdue, until cancelled.
    func watchPredictions() async throws {
        while true {
            let deadline = state.withLock { $0.echo?.deadline }
            try await Task.sleep(for: deadline.map { max($0 - now, .milliseconds(5)) } ?? .milliseconds(100))
            guard deadline != nil else { continue }
            let time = now
            try await write(to: STDOUT_FILENO) { state in
                guard let due = state.echo?.deadline, due <= time else { return [] }
                return state.echo?.timedOut(now: time) ?? []
            }
        }
    }

    /// Our terminal has a new size.
    func resize(columns: Int, rows: Int) async throws {
        let (now, recorded) = (now, Locked<[UInt8]>([]))
        try await write(to: STDOUT_FILENO) { state in
            recorded.set(state.recorder?.resize(columns: columns, rows: rows, at: now) ?? [])
            return state.echo?.resize(columns: columns, rows: rows) ?? []
        }
        try record(recorded.value)
    }

    /// Says in the first row that the connection is gone.
    func showBanner(_ text: String) async throws {
        guard !isPlainTerminal else { return note("\r\nkith: \(text)\r") }
        try await write(to: STDOUT_FILENO) { state in
            guard let echo = state.echo else { return [] }
            state.hasBanner = true
            let line = String(text.prefix(max(1, echo.terminal.columns - 1)))
            return Array("\u{1B}7\u{1B}[1;1H\u{1B}[0;7m\(line)\u{1B}[0m\u{1B}[K\u{1B}8".utf8)
        }
    }

    /// Takes the banner away.
    func hideBanner() async throws {
        try await write(to: STDOUT_FILENO) { state in
            guard state.hasBanner, let echo = state.echo else { return [] }
            state.hasBanner = false
            // What a full-screen program shows is known; what a person's terminal showed before the shell is not.
            return echo.terminal.isAlternate
                ? echo.terminal.snapshot(scrollbackLines: 0) : Array("\u{1B}7\u{1B}[1;1H\u{1B}[0m\u{1B}[K\u{1B}8".utf8)
        }
    }

    /// Puts on the clipboard what a program offered; returns whether there was anything.
    func takeOffer() async throws -> Bool {
        let isThere = Locked(false)
        try await write(to: STDOUT_FILENO) { state in
            guard let offered = state.offered else { return [] }
            isThere.set(true)
            state.offered = nil
            let selection = offered.selection.isEmpty ? "c" : offered.selection
            return Array("\u{1B}]52;\(selection);\(Data(offered.text).base64EncodedString())\u{07}".utf8)
        }
        return isThere.value
    }

    /// Ends the recording.
    func finish() {
        let now = now
        // A disk that is full has said so before.
        try? record(state.withLock { $0.recorder?.finish(at: now) ?? [] })
        try? recording?.close()
    }

    // MARK: - Writing

    private func record(_ bytes: [UInt8]) throws {
        guard !bytes.isEmpty, let recording else { return }
        do {
            try recording.write(contentsOf: bytes)
        } catch {
            state.withLock { $0.recorder = nil }
            throw KithError(.exhausted, "The recording could not be written: \(error.localizedDescription)")
        }
    }

    /// Writes what `make` gives, all of it, without ever blocking a thread other tasks need.
    private func write(to descriptor: Int32, _ make: (inout State) -> [UInt8]) async throws {
        await turn.enter()
        defer { turn.leave() }
        var rest = state.withLock { make(&$0) }[...]
        while !rest.isEmpty {
            var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            if unsafe poll(&ready, 1, 0) == 0 {
                try await readiness.wait(anyOf: [descriptor], .writing)
                continue
            }
            // What poll promises is room for this much.
            let count = unsafe rest.prefix(4096).withUnsafeBytes {
                unsafe Foundation.write(descriptor, $0.baseAddress, $0.count)
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                throw BrokenPipe()
            } else if errno != EINTR, errno != EAGAIN {
                throw unsafe KithError(.internal, String(cString: strerror(errno)))
            }
        }
    }
}
