import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithShell
import KithTerminal
import KithWire
import Synchronization

/// The display of a shell on the person's terminal: takes out what a program there must not do here, shows what is
/// typed before it is echoed, shows when the connection is gone, and keeps a recording.
///
/// Everything that is shown waits for one lock, so that no two things are mixed.
final class ShellDisplay: Sendable {
    /// Whoever read our output (`| head`) has enough.
    struct BrokenPipe: Error {}
    /// Our output cannot be written for another reason.
    struct OutputFailure: Error {
        var error: KithError
    }

    /// The options that a person asked for.
    struct Options {
        var prediction = PredictiveEcho.Mode.adaptive
        var clipboard = OutputFilter.Policy.ask
        /// The recording to write, if any.
        var recording: ShellRecording?
        /// The command that the recording names.
        var command: String?
    }

    private struct State {
        /// `nil` where nobody watches: a pipe.
        var filter: OutputFilter?
        /// `nil` unless our terminal is the other end's.
        var echo: PredictiveEcho?
        var recorder: Asciicast.Writer?
        /// The bytes that restore the terminal for the person, should this process end now.
        var farewell: [UInt8] = []
        /// The person has left: nothing more is shown.
        var isClosed = false
        /// The text that a program last wanted on the clipboard.
        var offered: (selection: String, text: [UInt8])?
        /// True once the person was notified of such a wish.
        var hasShownOffer = false
        /// True once a wish was denied, as the person had asked before.
        var hasDenied = false
    }

    /// The outcome of ``takeOffer()``.
    enum OfferOutcome {
        /// It is on the clipboard.
        case copied
        /// There was one, and `--clipboard deny` says no.
        case denied
        /// There is none.
        case nothing
    }

    private let policy: OutputFilter.Policy
    private let state: Mutex<State>
    private let recording: ShellRecording?
    private let reactor: Reactor
    private let writeLock = AsyncMutex()
    private let start = ContinuousClock.now
    private let offers = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// The first time that a program wants something on the clipboard and does not get it there.
    var firstOffer: AsyncStream<Void> { offers.stream }

    /// - Throws: `KithError` `.exhausted` when there is no room for the recording.
    init(isRaw: Bool, size: (columns: Int, rows: Int)?, options: Options) throws {
        reactor = try .forShells()
        var state = State()
        let (columns, rows) = size ?? (80, 24)
        policy = options.clipboard
        if isatty(STDOUT_FILENO) == 1 {
            // What is denied is to be shown, when somebody asks.
            state.filter = OutputFilter(clipboardWrites: policy == .deny ? .ask : policy)
        }
        if isRaw {
            state.echo = PredictiveEcho(
                terminal: Terminal(columns: columns, rows: rows, scrollbackLimit: 0), mode: options.prediction)
        }
        recording = options.recording
        if let recording {
            let writer = Asciicast.Writer()
            let environment = ProcessInfo.processInfo.environment
            try recording.write(
                writer.header(
                    Asciicast.Header(
                        columns: columns, rows: rows, timestamp: Int(Date().timeIntervalSince1970),
                        command: options.command,
                        environment: environment.filter { ["TERM", "SHELL"].contains($0.key) })))
            state.recorder = writer
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
                guard policy == .ask else {
                    state.hasDenied = true
                    continue
                }
                state.offered = (selection, text)
                guard !state.hasShownOffer else { continue }
                state.hasShownOffer = true
                offers.continuation.yield()
            }
            recorded.set(state.recorder?.output(passed, at: now) ?? [])
            let shown = state.echo?.arrived(passed, now: now) ?? passed
            Self.noteFarewell(&state)
            return shown
        }
        try record(recorded.value)
    }

    /// Shows what came from standard error.
    func showError(_ bytes: [UInt8]) async throws { try await write(to: STDERR_FILENO) { _ in bytes } }

    /// Shows a text of our own.
    ///
    /// On a terminal that shows what is typed before it is echoed it goes the way of all output: what is foreseen has to
    /// know where the cursor is.
    func showMessage(_ text: String) async throws {
        let now = now
        guard state.withLock({ $0.echo != nil }) else {
            return try await write(to: STDERR_FILENO) { _ in Array(text.utf8) }
        }
        try await write(to: STDOUT_FILENO) { $0.echo?.arrived(Array(text.utf8), now: now) ?? [] }
    }

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
            return state.echo?.resize(columns: columns, rows: rows, now: now) ?? []
        }
        try record(recorded.value)
    }

    /// Says something in a row of its own, as that the connection is gone, until more output comes.
    func showBanner(_ text: String) async throws {
        guard !isPlainTerminal else { return try await showMessage("\r\n\(text)\r\n") }
        let now = now
        try await write(to: STDOUT_FILENO) { $0.echo?.showNotice(text, now: now) ?? [] }
    }

    /// Says in a row of its own that a program offers something for the clipboard, unless that has been taken.
    func showOffer(_ text: String) async throws {
        guard !isPlainTerminal else { return try await showMessage("\r\n\(text)\r\n") }
        let now = now
        try await write(to: STDOUT_FILENO) { state in
            state.offered == nil ? [] : state.echo?.showNotice(text, now: now) ?? []
        }
    }

    /// True while a banner stands, or the text shown instead: not in the middle of a sequence, and until more output
    /// comes.
    var hasBanner: Bool { isPlainTerminal || state.withLock { $0.echo?.showsNotice ?? true } }

    /// Takes the banner away, and shows again what it covers.
    func hideBanner() async throws {
        let now = now
        try await write(to: STDOUT_FILENO) { $0.echo?.hideNotice(now: now) ?? [] }
    }

    /// Puts on the clipboard what a program offered.
    func takeOffer() async throws -> OfferOutcome {
        let outcome = Locked(state.withLock { $0.hasDenied } ? OfferOutcome.denied : .nothing)
        try await write(to: STDOUT_FILENO) { state in
            guard let offered = state.offered else { return [] }
            outcome.set(.copied)
            state.offered = nil
            let selection = offered.selection.isEmpty ? "c" : offered.selection
            return Array("\u{1B}]52;\(selection);\(Data(offered.text).base64EncodedString())\u{07}".utf8)
        }
        return outcome.value
    }

    /// Ends the recording.
    func finish() {
        let now = now
        // A disk that is full has said so before.
        try? record(state.withLock { $0.recorder?.finish(at: now) ?? [] })
        recording?.close()
    }

    // MARK: - Leaving

    /// Shows nothing from now on: the terminal is about to be the person's again.
    func close() async {
        state.withLock { $0.isClosed = true }
        // Whoever is in the middle of a write ends it soon.
        await writeLock.lock()
        writeLock.unlock()
    }

    /// Shows nothing while `body` has the terminal be the person's, and then brings back what programs had switched on.
    func whileAway(_ body: () -> Void) async throws {
        await writeLock.lock()
        defer { writeLock.unlock() }
        body()
        try await put(state.withLock { $0.echo?.terminal.returning() ?? [] }, to: STDOUT_FILENO)
    }

    /// Has ``kith_terminal_restore`` leave the terminal as programs found it.
    private static func noteFarewell(_ state: inout State) {
        guard let farewell = state.echo?.terminal.leaving(), farewell != state.farewell else { return }
        state.farewell = farewell
        guard isatty(STDOUT_FILENO) == 1 else { return }
        unsafe farewell.withUnsafeBytes { unsafe kith_terminal_farewell(STDOUT_FILENO, $0.baseAddress, $0.count) }
    }

    // MARK: - Writing

    private func record(_ bytes: [UInt8]) throws {
        guard !bytes.isEmpty, let recording else { return }
        do {
            try recording.write(bytes)
        } catch {
            state.withLock { $0.recorder = nil }
            throw error
        }
    }

    /// Writes what `make` gives, all of it, without ever blocking a thread other tasks need.
    private func write(to descriptor: Int32, _ make: (inout State) -> [UInt8]) async throws {
        await writeLock.lock()
        defer { writeLock.unlock() }
        try await put(state.withLock { $0.isClosed ? [] : make(&$0) }, to: descriptor)
    }

    private func put(_ bytes: [UInt8], to descriptor: Int32) async throws {
        var rest = bytes[...]
        while !rest.isEmpty, !state.withLock({ $0.isClosed }) {
            var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            if unsafe poll(&ready, 1, 0) == 0 {
                let watch = try reactor.watch(terminal: descriptor, reads: false)
                defer { watch.close() }
                await watch.wait(for: .writing)
                try Task.checkCancellation()
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
                throw OutputFailure(error: outputError(errno))
            }
        }
    }
}
