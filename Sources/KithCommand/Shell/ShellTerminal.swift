import CKithSystem
import Foundation
import KithAPI
import KithShell
import KithTerminal
import KithWire

/// The person's end of a shell: this process's own terminal, or its standard input and output.
///
/// Two threads wait in read(2), one for keys and one for signals, so that nothing ever waits for a task. The one for
/// keys sends them as well: waking another thread would cost each key its time. The terminal is in raw mode while a
/// remote one is attached; KithTerminal.h says how it gets its own mode back in every case.
struct ShellTerminal: Sendable {
    /// An event that the threads report.
    private enum Event: Sendable {
        case endOfInput
        /// A key said to leave.
        case left
        case signal(Int32)
    }

    private let session: ShellSession
    private let client: Client
    private let device: String
    /// True when the other end has a terminal.
    private let isTerminal: Bool
    /// True when nothing that is typed goes to the other end.
    private let onlyLooks: Bool
    private let escape: UInt8?
    /// True when ours is one, to be put into raw mode.
    private let isRaw: Bool
    private let display: ShellDisplay
    /// True when the device reports what it has echoed.
    private let showsSilence: Bool
    /// Keys of somebody who only looks.
    private let uselessKeys = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// The status when the connection is lost or given up.
    static let lost: Int32 = 255

    /// Attaches to a session.
    init(
        session: ShellSession, device: String, client: Client, isTerminal: Bool, onlyLooks: Bool, escape: UInt8?,
        options: ShellDisplay.Options
    ) throws {
        self.session = session
        self.client = client
        self.device = device
        self.isTerminal = isTerminal
        self.onlyLooks = onlyLooks
        self.escape = escape
        isRaw = isTerminal && isatty(STDIN_FILENO) == 1
        showsSilence = isRaw && options.prediction != .never
        display = try ShellDisplay(
            isRaw: isRaw, size: Self.size().map { (Int($0.columns), Int($0.rows)) }, options: options)
    }

    /// The description of our terminal for the other end; a plain one of 80 by 24 when there is none.
    static func description() -> Shell.Terminal {
        let type = ProcessInfo.processInfo.environment["TERM"] ?? "dumb"
        return Shell.Terminal(size: size() ?? Shell.Size(columns: 80, rows: 24), type: type)
    }

    private static func size() -> Shell.Size? {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
            var size = Shell.Size(columns: 0, rows: 0)
            if unsafe kith_terminal_size(descriptor, &size.columns, &size.rows, &size.pixelWidth, &size.pixelHeight)
                == 0,
                size.columns > 0, size.rows > 0
            {
                return size
            }
        }
        return nil
    }

    /// Carries bytes until the other end has exited; returns the status to leave with.
    func run() async throws -> Int32 {
        if isRaw {
            let result = kith_terminal_raw(STDIN_FILENO)
            guard result == 0 else {
                throw KithError(
                    .internal, unsafe "Cannot set the terminal's mode: \(String(cString: strerror(-result))).")
            }
        }
        defer { kith_terminal_restore() }
        let (events, mailbox) = AsyncStream.makeStream(of: Event.self)
        // Without a raw terminal also the requests to end.
        let arriving = Signals.arriving(endings: !isRaw)
        let signals = Task(name: "kith signals") {
            for await number in arriving { mailbox.yield(.signal(number)) }
        }
        defer { signals.cancel() }
        readInput(into: mailbox)

        return await withTaskExecutorPreference(session.executor) { await carry(events) }
    }

    private func carry(_ events: AsyncStream<Event>) async -> Int32 {
        await withTaskGroup(of: Int32.self) { group in
            group.addTask { await show() }
            group.addTask { await handle(events) }
            group.addTask {
                // Ends with the others: what cannot be shown is met by show() as well.
                try? await display.watchPredictions()
                return await Self.never()
            }
            if onlyLooks {
                group.addTask {
                    try? await hint()
                    return await Self.never()
                }
            }
            if isRaw {
                group.addTask {
                    try? await showOffer()
                    return await Self.never()
                }
            }
            if showsSilence {
                group.addTask {
                    try? await showSilence()
                    return await Self.never()
                }
            }
            let status = await group.next() ?? Self.lost
            session.close()
            group.cancelAll()
            display.finish()
            return status
        }
    }

    // MARK: - Out

    private func show() async -> Int32 {
        var lostAt: ContinuousClock.Instant?
        var hasNoted = false
        do {
            for try await event in session.events {
                switch event {
                case .output(let bytes), .screen(let bytes): try await display.show(bytes)
                case .errorOutput(let bytes): try await display.showError(bytes)
                case .echoed(let position, let roundTrip):
                    try await display.echoed(upTo: position, roundTrip: roundTrip)
                case .interrupted: lostAt = .now
                case .stillInterrupted:
                    // The first moments are nobody's business: most connections are back by then.
                    let seconds = Int64((.now - (lostAt ?? .now)) / .seconds(1))
                    guard seconds >= 1 else { break }
                    if isRaw {
                        try await display.showBanner(
                            "kith: no connection to \(device) for \(seconds) s; trying again. ~. hangs up, ~d detaches")
                    } else if !hasNoted {
                        hasNoted = true
                        note("kith: the connection to \(device) was lost; trying again")
                    }
                case .resumed:
                    try await display.hideBanner()
                    if hasNoted { note("kith: connected to \(device) again") }
                    hasNoted = false
                case .exited(let exit): return exit.shellStatus
                }
            }
            // This end has left: the key that said so has the status.
            return await Self.never()
        } catch is CancellationError {
            return Self.lost
        } catch is ShellDisplay.BrokenPipe {
            return 128 + SIGPIPE
        } catch let failure as ShellDisplay.OutputFailure {
            await restoreTerminal()
            note("kith: \(failure.error.message)")
            return failure.error.code.exitStatus
        } catch let error as KithError {
            await restoreTerminal()
            let start = isRaw ? "\n" : ""
            if (error.cause as? KithError)?.code == .notFound {
                note("\(start)kith: \(printable(error.message))")
            } else if error.code == .closed || error.code == .unreachable || error.code == .timedOut {
                note("\(start)kith: the connection to \(device) was lost. \(printable(error.message))")
            } else {
                note("\(start)kith: \(printable(error.message))")
            }
        } catch {
            await restoreTerminal()
            note("kith: the shell's output could not be written: \(error).")
        }
        return Self.lost
    }

    /// Gives the terminal back to the person: nothing more is shown, and what programs there have switched on is
    /// switched off.
    private func restoreTerminal() async {
        await display.close()
        kith_terminal_restore()
    }

    /// Says once, for a while, why keys do nothing.
    private func hint() async throws {
        for await _ in uselessKeys.stream {
            let key = escape.map { String(UnicodeScalar($0)) } ?? ""
            try await display.showBanner("kith: viewing only; \(key)d leaves")
            try await Task.sleep(for: .seconds(3))
            return try await display.hideBanner()
        }
    }

    /// Says once, for a while, that a program there would have something on the clipboard here.
    private func showOffer() async throws {
        let way = escape.map { "\(UnicodeScalar($0))c takes it" } ?? "--clipboard allow would let it"
        for await _ in display.firstOffer {
            // What the program shows besides takes the words away: again, until they have stood for two seconds.
            var (tries, stood) = (0, 0)
            while tries < 40, stood < 4 {
                try await Task.sleep(for: .milliseconds(500))
                if tries > 0, display.hasBanner {
                    stood += 1
                } else {
                    stood = 0
                    try await display.showOffer("kith: a program offers text for the clipboard; \(way)")
                }
                tries += 1
            }
            try await Task.sleep(for: .seconds(8))
            return try await display.hideBanner()
        }
    }

    /// Says so when what was typed is not answered: the network is silent long before a connection counts as lost.
    private func showSilence() async throws {
        var isShown = false
        while true {
            try await Task.sleep(for: .milliseconds(500))
            let silence = session.unansweredSince.map { ContinuousClock.now - $0 } ?? .zero
            if silence > .seconds(3) {
                isShown = true
                try await display.showBanner(
                    "kith: no answer from \(device) for \(Int64(silence / .seconds(1))) s. ~. hangs up, ~d detaches")
            } else if isShown {
                isShown = false
                try await display.hideBanner()
            }
        }
    }

    // MARK: - In

    private func handle(_ events: AsyncStream<Event>) async -> Int32 {
        var interrupts = 0
        do {
            for await event in events {
                switch event {
                case .left: return Self.lost
                case .endOfInput:
                    // A raw terminal has no end but its own: the window was closed.
                    guard !isRaw else {
                        await session.detach()
                        return 128 + SIGHUP
                    }
                    if !onlyLooks { try await session.endInput() }
                case .signal(SIGWINCH):
                    if isTerminal, let size = Self.size() {
                        try await display.resize(columns: Int(size.columns), rows: Int(size.rows))
                        try await session.resize(size)
                    }
                case .signal(let number):
                    interrupts += 1
                    // The first is the command's to handle; a person who asks again means us.
                    if number == SIGHUP {
                        await session.detach()
                        return 128 + number
                    }
                    if interrupts > 1 || onlyLooks { return 128 + number }
                    try await session.signal(ShellSignal(number: number))
                }
            }
        } catch {
            // A stream that takes no more has also reported why to its reader: show() ends and shows it.
        }
        return await Self.never()
    }

    /// Only cancellation ends this; another task has the status.
    private static func never() async -> Int32 {
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
        return lost
    }

    /// Begins a task on this thread, and goes on elsewhere only once it waits; on older systems elsewhere at once.
    private static func begin(_ name: String, _ operation: sending @escaping @isolated(any) () async -> Void) {
        if #available(macOS 26, iOS 26, *) {
            Task.immediate(name: name, operation: operation)
        } else {
            Task(name: name, operation: operation)
        }
    }

    /// Does what a key asks for; returns whether to disconnect.
    private func perform(_ action: EscapeKeys.Action) async throws -> Bool {
        switch action {
        case .send where onlyLooks: uselessKeys.continuation.yield()
        case .send(let bytes):
            if isRaw { try await display.typed(bytes, at: session.inputPosition) }
            try await session.write(bytes)
        case .disconnect:
            await restoreTerminal()
            if onlyLooks {
                note("\nkith: Stopped viewing.")
                return true
            }
            let fate =
                switch await outlook() {
                case .goesOn: "goes on in another window"
                case .hasEnded: "has ended"
                case .unknown: "ends, unless another window has it"
                }
            note("\nkith: hung up; the shell on \(device) \(fate).")
            return true
        case .detach:
            await restoreTerminal()
            await session.detach()
            let looking = onlyLooks ? " --view" : ""
            note("\nkith: detached. Go on with: kith shell \(device) --attach \(session.id)\(looking)")
            return true
        case .suspend:
            try await display.whileAway {
                kith_terminal_restore()
                kith_terminal_suspend()
                kith_terminal_raw(STDIN_FILENO)
            }
            if let size = Self.size() { try await session.resize(size) }
        case .help:
            let key = escape.map { String(UnicodeScalar($0)) } ?? ""
            let lines = [
                "", "Escapes, at the beginning of a line:",
                "  \(key).   hang up, which ends the shell unless another window has it",
                "  \(key)d   detach; the shell goes on for \(Self.span(session.keep))",
                "  \(key)c   put on this clipboard what a program there wants on it", "  \(key)^Z  suspend this end",
                "  \(key)\(key)   type \(key)", "  \(key)?   this text", "",
            ]
            try await display.showMessage(lines.joined(separator: "\r\n"))
        case .takeClipboard:
            let words =
                switch try await display.takeOffer() {
                case .copied: "copied"
                case .denied: "--clipboard deny has kept what a program there offered from the clipboard"
                case .nothing: "no program there wants anything on the clipboard"
                }
            try await display.showMessage("\r\nkith: \(words)\r\n")
        }
        return false
    }

    /// The future of a shell that this window hangs up.
    private enum Outlook {
        /// Another window types in it, too.
        case goesOn
        case hasEnded
        /// The device does not say so at once, as one whose network is gone.
        case unknown
    }

    private func outlook() async -> Outlook {
        let sessions = try? await client.call(
            Shell.Sessions.self, Nothing(), on: device, options: CallOptions(timeout: .milliseconds(500)))
        guard let shell = sessions?.first(where: { $0.id == session.id }) else { return .unknown }
        return shell.interactiveClients > 1 ? .goesOn : .hasEnded
    }

    private static func span(_ keep: Duration?) -> String {
        guard let keep else { return "no time: it ends" }
        return keep.formatted(.units(allowed: [.days, .hours, .minutes, .seconds], width: .wide))
    }

    /// Reads standard input on a thread of its own, and sends it, until it ends or somebody leaves.
    private func readInput(into mailbox: AsyncStream<Event>.Continuation) {
        let thread = Thread {
            kith_terminal_allow_stops()
            var keys = EscapeKeys(escape: isRaw ? escape : nil, anywhere: onlyLooks)
            let isSent = DispatchSemaphore(value: 0)
            let isOver = Locked(false)
            var buffer = [UInt8](repeating: 0, count: 32 << 10)
            while true {
                let count = unsafe read(STDIN_FILENO, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                if count < 0, errno == EAGAIN {
                    // Somebody before us left it non-blocking.
                    var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
                    unsafe poll(&ready, 1, -1)
                    continue
                }
                guard count > 0 else { break }
                let actions = keys.typed(Array(buffer[..<count]))
                // Runs on this thread as far as nothing makes it wait, which is to the end but for a slow connection.
                Self.begin("kith keys") {
                    defer { isSent.signal() }
                    do {
                        for action in actions where try await perform(action) {
                            isOver.set(true)
                            mailbox.yield(.left)
                            return
                        }
                    } catch {
                        // A stream that takes no more has also reported why to its reader: show() ends and shows it.
                        isOver.set(true)
                    }
                }
                isSent.wait()
                if isOver.value { return }
            }
            mailbox.yield(.endOfInput)
        }
        thread.name = "kith-keys"
        thread.start()
    }
}
