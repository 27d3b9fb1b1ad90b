import CKithSystem
import Foundation
import KithAPI
import KithShell
import KithWire

/// The person's end of a shell: this process's own terminal, or its standard input and output.
///
/// Two threads wait in read(2), one for keys and one for signals, so that nothing ever waits for a task. The terminal
/// is in raw mode while a remote one is attached; KithTerminal.h says how it gets its own mode back in every case.
struct ShellTerminal: Sendable {
    /// What the threads report.
    private enum Happening: Sendable {
        case typed([UInt8])
        case endOfInput
        case signal(Int32)
    }

    /// Whoever read our output (`| head`) has enough.
    private struct BrokenPipe: Error {}

    private let session: ShellSession
    private let device: String
    /// Whether the other end has a terminal.
    private let isTerminal: Bool
    private let escape: UInt8?
    /// Whether ours is one, to be put into raw mode.
    private let isRaw: Bool
    private let readiness: Readiness

    /// The status when the connection is lost or given up.
    static let lost: Int32 = 255

    /// Attaches to a session.
    init(session: ShellSession, device: String, isTerminal: Bool, escape: UInt8?) throws {
        self.session = session
        self.device = device
        self.isTerminal = isTerminal
        self.escape = escape
        isRaw = isTerminal && isatty(STDIN_FILENO) == 1
        readiness = try Readiness()
    }

    /// What the other end is told about our terminal; a plain one of 80 by 24 when there is none.
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
        let (happenings, mailbox) = AsyncStream.makeStream(of: Happening.self)
        // Sixteen reads may wait for the connection; then the keyboard, or the pipe, waits. Begun at 0 and raised,
        // because Dispatch traps on a semaphore that goes with less than it was begun with.
        let room = DispatchSemaphore(value: 0)
        for _ in 0..<16 { room.signal() }
        readSignals(into: mailbox)
        readInput(into: mailbox, room: room)

        return await withTaskGroup(of: Int32.self) { group in
            group.addTask { await show() }
            group.addTask { await handle(happenings, room: room) }
            let status = await group.next() ?? Self.lost
            session.close()
            group.cancelAll()
            return status
        }
    }

    // MARK: - Out

    private func show() async -> Int32 {
        do {
            for try await event in session.events {
                switch event {
                case .output(let bytes), .screen(let bytes): try await write(bytes, to: STDOUT_FILENO)
                case .errorOutput(let bytes): try await write(bytes, to: STDERR_FILENO)
                case .interrupted, .stillInterrupted, .resumed, .echoed: break
                case .exited(let exit): return exit.shellStatus
                }
            }
        } catch is CancellationError {
            return Self.lost
        } catch is BrokenPipe {
            return 128 + SIGPIPE
        } catch let error as KithError {
            kith_terminal_restore()
            let reason = error.code == .closed ? "" : " (\(error.message))"
            note("\(isRaw ? "\n" : "")kith: the connection to \(device) was lost\(reason); the shell there has ended.")
        } catch {
            kith_terminal_restore()
            note("kith: the shell's output could not be written: \(error).")
        }
        return Self.lost
    }

    /// Writes all of it without ever blocking a thread other tasks need.
    private func write(_ bytes: [UInt8], to descriptor: Int32) async throws {
        var rest = bytes[...]
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

    // MARK: - In

    private func handle(_ happenings: AsyncStream<Happening>, room: DispatchSemaphore) async -> Int32 {
        var keys = EscapeKeys(escape: isRaw ? escape : nil)
        var interrupts = 0
        do {
            for await happening in happenings {
                switch happening {
                case .typed(let bytes):
                    defer { room.signal() }
                    for action in keys.typed(bytes) {
                        let isLast = try await perform(action)
                        if isLast { return Self.lost }
                    }
                case .endOfInput: try await session.endInput()
                case .signal(SIGWINCH):
                    if isTerminal, let size = Self.size() { try await session.resize(size) }
                case .signal(let number):
                    interrupts += 1
                    // The first is the command's to handle; a person who asks again means us.
                    if number == SIGHUP {
                        await session.detach()
                        return 128 + number
                    }
                    if interrupts > 1 { return 128 + number }
                    try await session.signal(ShellSignal(number: number))
                }
            }
        } catch {
            // A stream that takes no more has also said why to whoever reads it: show() ends and tells.
        }
        // Only cancellation ends this; the other task has the status.
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
        return Self.lost
    }

    /// Does what a key asks for; returns whether to disconnect.
    private func perform(_ action: EscapeKeys.Action) async throws -> Bool {
        switch action {
        case .send(let bytes): try await session.write(bytes)
        case .disconnect:
            kith_terminal_restore()
            note("\nkith: hung up; the shell on \(device) has ended.")
            return true
        case .detach:
            kith_terminal_restore()
            await session.detach()
            note("\nkith: detached. Go on with: kith shell \(device) --attach \(session.id)")
            return true
        case .suspend:
            kith_terminal_restore()
            kith_terminal_suspend()
            kith_terminal_raw(STDIN_FILENO)
            if let size = Self.size() { try await session.resize(size) }
        case .help:
            let key = escape.map { String(UnicodeScalar($0)) } ?? ""
            let lines = [
                "", "Escapes, at the beginning of a line:", "  \(key).   hang up, which ends the shell",
                "  \(key)d   detach; the shell goes on for \(Self.span(session.keep))", "  \(key)^Z  suspend this end",
                "  \(key)\(key)   type \(key)", "  \(key)?   this text", "",
            ]
            try await write(Array(lines.joined(separator: "\r\n").utf8), to: STDERR_FILENO)
        }
        return false
    }

    private static func span(_ keep: Duration?) -> String {
        guard let keep else { return "no time: it ends" }
        return keep.formatted(.units(allowed: [.days, .hours, .minutes, .seconds], width: .wide))
    }

    /// Reads standard input on a thread of its own until it ends; the thread lasts as long as the process.
    private func readInput(into mailbox: AsyncStream<Happening>.Continuation, room: DispatchSemaphore) {
        let thread = Thread {
            var buffer = [UInt8](repeating: 0, count: 32 << 10)
            while true {
                room.wait()
                let count = unsafe read(STDIN_FILENO, &buffer, buffer.count)
                if count < 0, errno == EINTR {
                    room.signal()
                    continue
                }
                if count < 0, errno == EAGAIN {
                    // Somebody before us left it non-blocking.
                    var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
                    unsafe poll(&ready, 1, -1)
                    room.signal()
                    continue
                }
                guard count > 0 else { break }
                mailbox.yield(.typed(Array(buffer[..<count])))
            }
            mailbox.yield(.endOfInput)
        }
        thread.name = "kith-keys"
        thread.start()
    }

    /// Turns signals into happenings: a new size, and without a raw terminal also the requests to end.
    private func readSignals(into mailbox: AsyncStream<Happening>.Continuation) {
        let signals = kith_terminal_signals(isRaw ? 0 : 1)
        guard signals >= 0 else { return }
        let thread = Thread {
            var number: UInt8 = 0
            while true {
                let count = unsafe read(signals, &number, 1)
                if count == 1 {
                    mailbox.yield(.signal(Int32(number)))
                } else if !(count < 0 && errno == EINTR) {
                    return
                }
            }
        }
        thread.name = "kith-signals"
        thread.start()
    }
}
