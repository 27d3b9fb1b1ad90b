import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTerminal
import KithWire

/// The decisions of a session on this device: what each client is sent and when, whose size the terminal has, when the
/// program is read and written, who may attach, and when all of it ends.
///
/// A pure state machine: it does no I/O and reads no clock. Tell it what happened and when, do what ``takeActions()``
/// returns, and ask ``next(for:at:)`` for the next step of each client's sender.
///
/// ```
///  running ──the program has ended──────────────────────────────▶ ended ──told, or nobody comes back──▶ closed
///     └── ended on purpose ──▶ ending ──the program has ended──────────────────────────────────────────▶
/// ```
///
/// The log holds the output that a client needs to go on after a lost connection; the screen what one needs that comes
/// new, or has fallen behind. On a terminal an interactive client holds the program back when it is slow, as a terminal
/// does; one that only views, or has another size, is drawn the screen of now instead. Without an interactive client a
/// program on a terminal runs freely, and one on pipes until the log is full.
struct HostedShellEngine {
    typealias Instant = ContinuousClock.Instant

    /// The circumstances in which a session was opened.
    struct Profile: Sendable {
        /// Its name.
        var id: String
        /// The command that a list shows.
        var command: String
        /// The caller who opened it.
        var owner: Caller
        /// When, in seconds since 1970.
        var opened: Int64
        /// The time it outlives its last interactive client; `nil`: it does not.
        var keep: Duration?
        /// The one command it was allowed; `nil`: any.
        var forcedCommand: String?
        /// The size of its terminal; `nil`: pipes.
        var size: Shell.Size?
    }

    /// The access of a caller to a session; more includes less.
    enum Access: Int, Comparable {
        case none, view, interactive

        static func < (first: Access, second: Access) -> Bool { first.rawValue < second.rawValue }
    }

    /// The rights of a client.
    enum Mode: Hashable, Sendable {
        /// It types, and its size may become the terminal's.
        case interactive
        /// It only views.
        case readOnly

        /// The least access that allows it.
        var access: Access { self == .interactive ? .interactive : .view }
    }

    /// The end of a program.
    enum Outcome: Equatable, Sendable {
        case exited(ShellExit)
        case failed(KithError)
    }

    /// The way a client goes.
    enum Departure: Equatable, Sendable {
        /// The program has ended, and the client was sent how; `isHeard`: it has said that it knows.
        case told(isHeard: Bool)
        /// The client, or the connection to it, is gone for this reason.
        case lost(KithError)
    }

    /// The place of a client that has attached.
    struct Attachment: Hashable, Sendable {
        /// The number that events and actions call it by.
        var key: UInt64
        /// The position of the first byte of output it is sent.
        var position: UInt64
        /// The amount of its input that has been received.
        var inputPosition: UInt64
    }

    /// Something for the driver to do.
    enum Action: Equatable, Sendable {
        /// Ask for the next step of a client's sender.
        case wake(UInt64)
        /// Ask for a client's ``echo(for:at:)`` at that time.
        case echo(UInt64, at: Instant)
        /// Read the program's output again.
        case read
        /// Write these bytes to the program, as far as it takes them, and report that as ``wrote(_:at:)``.
        case write(ArraySlice<UInt8>)
        /// Report as ``goOnWriting()`` from the program's own thread; when it takes input again, if `waits`.
        case writeOn(waits: Bool)
        /// Close the pipe to the program, or find the key that ends input, and report it as ``endedInput(typing:)``.
        case endInput
        /// Give the terminal this size.
        case resize(Shell.Size)
        /// Signal what runs.
        case signal(ShellSignal)
        /// Pass an answer of the ssh agent on; empty: the connection ends.
        case answerAgent(number: UInt64, bytes: [UInt8])
        /// Report as ``timedOut(at:)`` when that time has come.
        case expire(at: Instant)
        /// End the program, with all its processes, and forget the session once that is done.
        case end(KithError)
    }

    /// The next step of a client's sender.
    enum Step: Equatable, Sendable {
        case send([ShellFrame])
        case wait
        /// Nothing will change before that time.
        case waitUntil(Instant)
        /// Everything has been sent; this is how the program ended.
        case exited(ShellExit)
        /// The client gets no more, for this reason.
        case failed(KithError)
    }

    /// The phases of the session.
    private enum Phase {
        case running
        case ending(KithError)
        case ended(Outcome)
        case closed(Outcome)
    }

    /// The work of whoever writes to the program: one at a time, so that input stays in order.
    private enum Writer {
        case idle
        case writing(Chunk)
        /// The program takes no more at once.
        case waiting(Chunk)
        case endingInput
    }

    /// The work of whoever reads from the program.
    private enum Reader {
        case reading
        /// Held back, until clients have been sent what they lack.
        case held
    }

    /// Something for the program to read, in the order it came.
    private enum Chunk {
        /// Bytes, and up to which position of which client's input, if of any.
        case bytes(ArraySlice<UInt8>, of: Origin?)
        case end
    }

    private struct Origin {
        var client: [UInt8]
        var position: UInt64
    }

    /// A client that is attached, or was put out and does not know yet.
    private struct Client {
        enum Standing {
            case attached
            case dismissed(KithError)
        }

        let key: UInt64
        let id: [UInt8]
        let caller: Caller
        let mode: Mode
        let wantsEchoes: Bool
        var standing = Standing.attached
        var size: Shell.Size?
        var window: OutputWindow
        /// The redraw that goes before any output.
        var redraw: Redraw?
        var lastDrawn: Instant?
        /// Frames of the ssh agent that go before anything else.
        var agentFrames: [ShellFrame] = []
        /// The position of its input that it was last told of.
        var toldInput: UInt64 = 0
        var echo = Echo.none

        var isAttached: Bool { if case .attached = standing { true } else { false } }
        var isInteractive: Bool { isAttached && mode == .interactive }
    }

    /// A drawing of the screen that a client is to get.
    private struct Redraw {
        /// The number of lines before the screen.
        var scrollback: Int
        /// Output goes on arriving for a moment after an interrupt; the screen is drawn when it pauses, or then.
        var awaitsPause: Instant?
    }

    /// Input whose echo, if any, is sent shortly after.
    private enum Echo {
        struct Typed {
            var position: UInt64
            var at: Instant
        }

        case none
        case due(Typed, next: Typed?)
    }

    /// The input of one client, as positions.
    private struct Input {
        let client: [UInt8]
        var received: UInt64 = 0
        /// The input that the program has been given.
        var taken: UInt64 = 0
        /// The position at which the client's sender was last woken to report it.
        var reported: UInt64 = 0
    }

    /// The number of bytes the program may run ahead of the senders.
    static let ahead = 128 << 10
    /// Beyond how much unread input the terminal's own answers are left out.
    static let repliesAhead = 64 << 10
    /// The number of clients whose input positions are remembered.
    static let rememberedInputs = 32
    /// The interval at which a client of another size is drawn the screen.
    static let frameInterval = Duration.milliseconds(50)
    /// The echo of a key is expected to have been written within this.
    static let echoTime = Duration.milliseconds(50)
    /// The longest time that output is waited out after an interrupt.
    static let interruptTime = Duration.milliseconds(150)

    static let replaced = KithError(.conflict, "This window was attached again from elsewhere, and goes on there.")
    static let gone = KithError(.notFound, "That shell has ended.")
    static let readOnly = KithError(.denied, "This window may only view the shell, not type.")
    static let abandoned = KithError(.timedOut, "Nobody came back to this shell in time.")

    let profile: Profile
    private let opened: Instant
    private(set) var sharing: Shell.Sharing
    private var phase = Phase.running
    private var log = OutputLog()
    private var screen: Terminal?
    private var size: Shell.Size?
    /// In the order they came.
    private var clients: [Client] = []
    private var nextKey: UInt64 = 0
    /// The input of the last few clients that came.
    private var inputs: [Input] = []
    private var reader = Reader.reading
    private var writer = Writer.idle
    /// The input behind what is being written, and the number of bytes in both.
    private var queue = Ring<Chunk>()
    private var queued = 0
    private var isPaused = true
    private var lastActivity: Instant
    /// Without an interactive client since then.
    private var abandonedSince: Instant?
    /// The client whose ssh agent programs may ask.
    private var agentClient: [UInt8]?
    private var actions: [Action] = []

    /// Begins with a program that has just been started.
    init(_ profile: Profile, sharing: Shell.Sharing, at now: Instant) {
        self.profile = profile
        self.sharing = sharing
        opened = now
        lastActivity = now
        size = profile.size
        screen = profile.size.map { Terminal(columns: Self.columns($0), rows: Self.rows($0)) }
    }

    /// The actions that what happened so far calls for, each once.
    mutating func takeActions() -> [Action] {
        defer { actions = [] }
        return actions
    }

    private var isTerminal: Bool { profile.size != nil }
    /// The number of bytes held for a client that comes back.
    private var retained: Int { isTerminal ? 1 << 20 : 4 << 20 }

    private static func columns(_ size: Shell.Size) -> Int { min(max(Int(size.columns), 2), 1_000) }
    private static func rows(_ size: Shell.Size) -> Int { min(max(Int(size.rows), 1), 1_000) }

    private func index(of key: UInt64) -> Int? { clients.firstIndex { $0.key == key } }

    private mutating func wakeAll() { for client in clients { actions.append(.wake(client.key)) } }
}

// MARK: - Output

extension HostedShellEngine {
    /// Asks whether to read more output from the program; after `false`, ``Action/read`` says when.
    mutating func mayRead() -> Bool {
        let hasRoom = hasRoomForOutput
        reader = hasRoom ? .reading : .held
        return hasRoom
    }

    private var hasRoomForOutput: Bool {
        // Nothing of a pipe may be lost; on a terminal there is the screen.
        if !isTerminal, log.count >= retained { return false }
        return clients.allSatisfy { client in
            !getsBytes(client)
                || log.end - client.window.sent < Self.ahead && log.end - client.window.received < retained
        }
    }

    private mutating func readOn() {
        guard case .held = reader, hasRoomForOutput else { return }
        reader = .reading
        actions.append(.read)
    }

    /// Takes output of the program.
    mutating func output(_ bytes: [UInt8], from source: ShellProcess.Source, at now: Instant) {
        isPaused = false
        log.append(bytes, from: source)
        screen?.feed(bytes)
        lastActivity = now
        trim()
        wakeAll()
        // A program that asks what terminal it has is answered by the person's, or in its absence by ours.
        guard let replies = screen?.takeReplies(), !replies.isEmpty,
            !clients.contains(where: { $0.isInteractive && !isDrawn($0) })
        else { return }
        // A program that does not read what it asks for is not told more.
        if queued < Self.repliesAhead { write(.bytes(replies[...], of: nil)) }
    }

    /// True while a client is to be drawn the screen once the program pauses: then a pause has to be seen.
    var awaitsPause: Bool { clients.contains { $0.redraw != nil } }

    /// The program writes nothing at the moment.
    mutating func paused() {
        isPaused = true
        for client in clients where client.redraw != nil { actions.append(.wake(client.key)) }
    }

    /// Lets go of output nobody will ask for.
    private mutating func trim() {
        // Those who are drawn the screen need no bytes, and may stand still for hours.
        let received = clients.reduce(into: UInt64?.none) { least, client in
            if getsBytes(client) { least = min(least ?? .max, client.window.received) }
        }
        if let received {
            log.forget(before: min(received, log.end))
        } else if isTerminal {
            // Whoever comes back within this goes on byte for byte.
            log.forget(before: log.end - min(log.end, UInt64(retained)))
        }
    }

    /// Tells whether a client is interactive and is sent every byte, and not the screen as it is.
    private func getsBytes(_ client: Client) -> Bool {
        client.isInteractive && client.redraw == nil && !isDrawn(client)
    }

    /// Tells whether a client is drawn the screen because the bytes are meant for another size than it has.
    private func isDrawn(_ client: Client) -> Bool {
        guard let theirs = client.size, let size else { return false }
        return theirs.columns != size.columns || theirs.rows != size.rows
    }

    /// The next step of a client's sender.
    mutating func next(for key: UInt64, at now: Instant) -> Step {
        guard let index = index(of: key) else { return .failed(Self.gone) }
        var client = clients[index]
        if case .dismissed(let reason) = client.standing { return .failed(reason) }
        let step = step(for: &client, at: now)
        clients[index] = client
        if case .send = step { readOn() }
        return step
    }

    private mutating func step(for client: inout Client, at now: Instant) -> Step {
        // Rarely: typing never causes an answer of its own.
        if let taken = input(of: client.id)?.taken, Self.isReportable(taken, after: client.toldInput) {
            client.toldInput = taken
            return .send([.taken(taken)])
        }
        if !client.agentFrames.isEmpty {
            defer { client.agentFrames = [] }
            return .send(client.agentFrames)
        }
        if isDrawn(client), client.redraw == nil, client.window.sent < log.end {
            client.redraw = Redraw(scrollback: 0)
        }
        if client.window.sent < log.start {
            // It only views, and was slower than those that are interactive.
            guard screen != nil else {
                client.window.jump(to: log.start)
                return .send([.jump(log.start)])
            }
            client.redraw = client.redraw ?? Redraw(scrollback: 0)
        }
        if let redraw = client.redraw, screen != nil {
            if let late = redraw.awaitsPause, !isPaused, now < late, case .running = phase { return .waitUntil(late) }
            // A viewer may ask for it as often as it likes: by its size, which may be this one's.
            if isDrawn(client) || !client.isInteractive, let last = client.lastDrawn, now < last + Self.frameInterval {
                return .waitUntil(last + Self.frameInterval)
            }
            client.redraw = nil
            client.lastDrawn = now
            client.window.jump(to: log.end)
            return .send([.jump(log.end)] + draw(redraw, for: client))
        }
        // In halves of the window: a caller of before acknowledges a piece when it is given the next.
        let limit = min(32 << 10, isTerminal ? min(client.window.room, client.window.limit / 2) : .max)
        guard let piece = log.piece(from: client.window.sent, limit: limit) else {
            guard client.window.sent == log.end else { return .wait }
            switch phase {
            case .running, .ending: return .wait
            case .ended(.exited(let exit)), .closed(.exited(let exit)): return .exited(exit)
            case .ended(.failed(let error)), .closed(.failed(let error)): return .failed(error)
            }
        }
        client.window.sent(piece.bytes.count, at: now - opened)
        return .send([piece.source == .output ? .output(Array(piece.bytes)) : .errorOutput(Array(piece.bytes))])
    }

    private func draw(_ redraw: Redraw, for client: Client) -> [ShellFrame] {
        guard var screen else { return [] }
        if let size = client.size, isDrawn(client) {
            screen.resize(columns: Self.columns(size), rows: Self.rows(size))
        }
        let bytes = screen.snapshot(scrollbackLines: redraw.scrollback)
        return stride(from: 0, to: bytes.count, by: 32 << 10).map {
            .screen(Array(bytes[$0..<min(bytes.count, $0 + 32 << 10)]))
        }
    }

    /// Takes the position of the output that a client has dealt with.
    ///
    /// - Throws: `.invalid` for output it was not sent.
    mutating func received(_ position: UInt64, by key: UInt64, at now: Instant) throws(KithError) {
        guard let index = index(of: key), clients[index].isAttached else { return }
        guard clients[index].window.received(position, at: now - opened) else {
            throw KithError(.invalid, "The caller acknowledged output it was not sent.")
        }
        trim()
        actions.append(.wake(key))
        readOn()
    }

    /// Forgets output that clients have not been sent, as the terminal itself does for a key that interrupts.
    private mutating func interrupted(at now: Instant) {
        for index in clients.indices where clients[index].isAttached && clients[index].redraw == nil {
            guard log.end - clients[index].window.sent > UInt64(Self.ahead / 8) else { continue }
            clients[index].redraw = Redraw(scrollback: 0, awaitsPause: now + Self.interruptTime)
            actions.append(.wake(clients[index].key))
        }
        readOn()
    }
}

// MARK: - Input

extension HostedShellEngine {
    /// Takes input of a client; of one that only views it is dropped, and the client is told so and put out.
    ///
    /// - Throws: `.invalid` when it is more than the client may send.
    mutating func typed(_ bytes: [UInt8], by key: UInt64, at now: Instant) throws(KithError) {
        guard let index = interactiveIndex(of: key, at: now) else { return }
        let id = clients[index].id
        let slot = remember(id)
        let position = inputs[slot].received + UInt64(bytes.count)
        guard position - inputs[slot].taken <= UInt64(ShellFrame.inputWindow) else {
            throw KithError(.invalid, "The caller sent more input than it was allowed to.")
        }
        inputs[slot].received = position
        lastActivity = now
        write(.bytes(bytes[...], of: Origin(client: id, position: position)))
        guard clients[index].wantsEchoes else { return }
        let typed = Echo.Typed(position: position, at: now)
        switch clients[index].echo {
        case .none:
            clients[index].echo = .due(typed, next: nil)
            actions.append(.echo(key, at: now + Self.echoTime))
        case .due(let first, _): clients[index].echo = .due(first, next: typed)
        }
    }

    /// The frame that says that input has been processed, once its echo has had the time to be written.
    mutating func echo(for key: UInt64, at now: Instant) -> ShellFrame? {
        guard let index = index(of: key), case .due(let typed, let next) = clients[index].echo,
            now >= typed.at + Self.echoTime
        else { return nil }
        clients[index].echo = .none
        if let next {
            clients[index].echo = .due(next, next: nil)
            actions.append(.echo(key, at: next.at + Self.echoTime))
        }
        return .echoed(input: typed.position, held: now - typed.at)
    }

    /// Takes the end of a client's input.
    mutating func inputEnded(by key: UInt64, at now: Instant) {
        guard interactiveIndex(of: key, at: now) != nil else { return }
        write(.end)
    }

    /// Takes a signal of a client.
    mutating func signalled(_ signal: ShellSignal, by key: UInt64, at now: Instant) {
        guard interactiveIndex(of: key, at: now) != nil else { return }
        actions.append(.signal(signal))
    }

    /// The index of a client that may type; another is put out.
    private mutating func interactiveIndex(of key: UInt64, at now: Instant) -> Int? {
        guard let index = index(of: key), clients[index].isAttached else { return nil }
        guard clients[index].mode == .interactive else {
            dismiss(index, Self.readOnly, at: now)
            return nil
        }
        return index
    }

    /// Takes the size of a client's window; that of an interactive one becomes the terminal's.
    mutating func resized(to size: Shell.Size, by key: UInt64) {
        guard let index = index(of: key), clients[index].isAttached else { return }
        clients[index].size = size
        if clients[index].mode == .interactive { return resize(to: size) }
        clients[index].redraw = screen.map { _ in Redraw(scrollback: 0) }
        actions.append(.wake(key))
    }

    private mutating func resize(to new: Shell.Size) {
        guard screen != nil, new.columns > 0, new.rows > 0, size != new else { return }
        size = new
        screen?.resize(columns: Self.columns(new), rows: Self.rows(new))
        // Those who now differ are drawn the screen; those who do no longer get its bytes again, from a fresh one.
        for index in clients.indices where clients[index].size != nil && clients[index].lastDrawn != nil {
            clients[index].redraw = Redraw(scrollback: 0)
            actions.append(.wake(clients[index].key))
        }
        actions.append(.resize(new))
        readOn()
    }

    // MARK: Writing

    /// The number of bytes the program has not read yet.
    var unreadInput: Int { queued }

    /// Queues something for the program to read; what comes after its end goes nowhere.
    private mutating func write(_ chunk: Chunk) {
        guard case .running = phase else { return done(chunk) }
        switch chunk {
        case .bytes(let bytes, let origin):
            if bytes.isEmpty { return }
            queued += bytes.count
            // Small pieces are gathered: what waits is bounded by its bytes.
            if case .bytes(let before, let other)? = queue.last, other?.client == origin?.client,
                before.count < 1 << 10
            {
                _ = queue.popLast()
                queue.append(.bytes(before + bytes, of: origin))
            } else {
                queue.append(chunk)
            }
        case .end:
            // Once is enough.
            if case .end? = queue.last { return }
            queue.append(chunk)
        }
        writeNext()
    }

    private mutating func writeNext() {
        guard case .idle = writer, let chunk = queue.popFirst() else { return }
        switch chunk {
        case .bytes(let bytes, _):
            writer = .writing(chunk)
            actions.append(.write(bytes))
        case .end:
            writer = .endingInput
            actions.append(.endInput)
        }
    }

    /// Takes the outcome of a write.
    mutating func wrote(_ result: ShellProcess.Written, at now: Instant) {
        guard case .writing(.bytes(let bytes, let origin)) = writer else { return }
        switch result {
        case .full:
            writer = .waiting(.bytes(bytes, of: origin))
            actions.append(.writeOn(waits: true))
        case .bytes(let count, let interrupts):
            let rest = bytes.dropFirst(count)
            queued -= bytes.count - rest.count
            if rest.isEmpty {
                writer = .idle
                done(.bytes([], of: origin))
            } else {
                writer = .waiting(.bytes(rest, of: origin))
                actions.append(.writeOn(waits: false))
            }
            if interrupts { interrupted(at: now) }
        case .gone:
            // Input nobody will ever read any more is dropped, as a pipe would.
            queued -= bytes.count
            writer = .idle
            done(.bytes([], of: origin))
        }
        writeNext()
    }

    /// Goes on with a write that the program did not take whole.
    mutating func goOnWriting() {
        guard case .waiting(let chunk) = writer, case .bytes(let bytes, _) = chunk else { return }
        writer = .writing(chunk)
        actions.append(.write(bytes))
    }

    /// Input has been ended, or is by typing these keys.
    mutating func endedInput(typing keys: [UInt8]) {
        guard case .endingInput = writer else { return }
        if keys.isEmpty {
            writer = .idle
            return writeNext()
        }
        queued += keys.count
        writer = .writing(.bytes(keys[...], of: nil))
        actions.append(.write(keys[...]))
    }

    /// Notes input that was passed on, of a client that may have come back under another key meanwhile.
    private mutating func done(_ chunk: Chunk) {
        guard case .bytes(_, let origin?) = chunk,
            let slot = inputs.firstIndex(where: { $0.client == origin.client })
        else { return }
        // A client that was forgotten and came back has begun to count anew.
        inputs[slot].taken = min(max(inputs[slot].taken, origin.position), inputs[slot].received)
        guard Self.isReportable(inputs[slot].taken, after: inputs[slot].reported) else { return }
        inputs[slot].reported = inputs[slot].taken
        for client in clients where client.id == origin.client { actions.append(.wake(client.key)) }
    }

    private static func isReportable(_ taken: UInt64, after last: UInt64) -> Bool {
        taken - min(last, taken) >= UInt64(ShellFrame.inputWindow / 8)
    }

    /// The amount of a client's input that the program has been given.
    func inputTaken(by key: UInt64) -> UInt64 { index(of: key).flatMap { input(of: clients[$0].id)?.taken } ?? 0 }

    private func input(of client: [UInt8]) -> Input? { inputs.first { $0.client == client } }

    private mutating func remember(_ client: [UInt8]) -> Int {
        if let slot = inputs.firstIndex(where: { $0.client == client }) { return slot }
        if inputs.count >= Self.rememberedInputs {
            let idle = inputs.firstIndex { input in !clients.contains { $0.id == input.client } }
            if let idle { inputs.remove(at: idle) }
        }
        inputs.append(Input(client: client))
        return inputs.count - 1
    }
}

// MARK: - Clients

extension HostedShellEngine {
    /// Lets a client in.
    ///
    /// One of the same name is put out: it is the same window, whose connection was lost.
    ///
    /// - Throws: `.notFound` when the session is over.
    mutating func attach(
        _ client: Shell.Client, of caller: Caller, as mode: Mode, size: Shell.Size?, position: UInt64?,
        scrollback: Int, at now: Instant
    ) throws(KithError) -> Attachment {
        switch phase {
        case .running, .ended: break
        case .ending, .closed: throw Self.gone
        }
        for index in clients.indices where clients[index].id == client.id && clients[index].isAttached {
            guard Self.isSame(clients[index].caller, caller) else { continue }
            clients[index].standing = .dismissed(Self.replaced)
            actions.append(.wake(clients[index].key))
        }
        let known = position.flatMap { $0 >= log.start && $0 <= log.end ? $0 : nil }
        // On pipes nothing can be drawn; what is gone is gone.
        let start = known ?? (screen == nil ? log.start : log.end)
        nextKey += 1
        let key = nextKey
        clients.append(
            Client(
                key: key, id: client.id, caller: caller, mode: mode, wantsEchoes: client.wantsEchoes, size: size,
                window: OutputWindow(at: start),
                redraw: known == nil && screen != nil ? Redraw(scrollback: scrollback) : nil))
        let slot = remember(client.id)
        if mode == .interactive {
            abandonedSince = nil
            if let size { resize(to: size) }
        }
        // The client it replaces may have been the last that was interactive.
        if !hasInteractiveClient, abandonedSince == nil { abandon(isKept: profile.keep != nil, Self.gone, at: now) }
        actions.append(.wake(key))
        readOn()
        return Attachment(key: key, position: start, inputPosition: inputs[slot].received)
    }

    private var hasInteractiveClient: Bool { clients.contains(where: \.isInteractive) }

    /// Lets a client go, and decides whether the session goes on without it.
    mutating func detach(_ key: UInt64, _ departure: Departure, at now: Instant) {
        guard let index = index(of: key) else { return }
        let client = clients.remove(at: index)
        switch departure {
        case .told(isHeard: true) where client.mode == .interactive: end(Self.gone)
        // How it ended may have been lost with the connection: then it waits to be asked again.
        case .told: left(client, isKept: profile.keep != nil, Self.gone, at: now)
        case .lost(let reason): left(client, isKept: isKept(after: reason), reason, at: now)
        }
    }

    /// Tells whether the session waits for a client to come back, when the last interactive one goes for this reason.
    private func isKept(after reason: KithError) -> Bool {
        guard profile.keep != nil else { return false }
        return switch reason.code {
        // It hung up, or must not be here.
        case .cancelled, .denied, .unpaired, .invalid: false
        default: isTerminal || reason.code == .closed || reason.code == .timedOut
        }
    }

    /// Goes on without a client, which is attached no more.
    private mutating func left(_ client: Client, isKept: Bool, _ reason: KithError, at now: Instant) {
        trim()
        readOn()
        // One that was put out has left before.
        guard client.isInteractive else { return }
        let others = clients.filter(\.isInteractive)
        if others.isEmpty { return abandon(isKept: isKept, reason, at: now) }
        // The size was that of who leaves: then of the one that came last.
        if !others.contains(where: { !isDrawn($0) }), let size = others.last?.size { resize(to: size) }
    }

    /// Goes on without any interactive client for as long as the session is kept, or ends it.
    private mutating func abandon(isKept: Bool, _ reason: KithError, at now: Instant) {
        switch phase {
        case .ending, .closed: return
        case .running, .ended: break
        }
        guard isKept, let keep = profile.keep else { return end(reason) }
        abandonedSince = now
        actions.append(.expire(at: now + keep))
    }

    /// Ends the session when nobody has come back in time.
    mutating func timedOut(at now: Instant) {
        guard let since = abandonedSince, let keep = profile.keep, now >= since + keep else { return }
        end(Self.abandoned)
    }

    /// Puts a client out: it hears why, and is not listened to any more.
    ///
    /// The session waits for another if it is kept.
    private mutating func dismiss(_ index: Int, _ reason: KithError, at now: Instant) {
        let client = clients[index]
        clients[index].standing = .dismissed(reason)
        actions.append(.wake(client.key))
        left(client, isKept: profile.keep != nil, reason, at: now)
    }

    private mutating func dismiss(_ concerned: [Client], _ reason: KithError, at now: Instant) {
        for client in concerned where client.isAttached {
            if let index = index(of: client.key) { dismiss(index, reason, at: now) }
        }
    }
}

// MARK: - Rights

extension HostedShellEngine {
    /// The access a caller has to it.
    func access(of caller: Caller, holding grants: [Grant]) -> Access {
        if caller == .owner || isOwn(caller) { return .interactive }
        switch sharing {
        case .none: return .none
        case .view: return grants.allows(.shellView) ? .view : .none
        case .interactive: return grants.allows(.shell) ? .interactive : grants.allows(.shellView) ? .view : .none
        }
    }

    /// Tells whether a caller is the one who opened it.
    func isOwn(_ caller: Caller) -> Bool { Self.isSame(caller, profile.owner) }

    private static func isSame(_ first: Caller, _ second: Caller) -> Bool {
        switch (first, second) {
        case (.owner, .owner): true
        case (.device(let first, _, _), .device(let second, _, _)): first == second
        default: false
        }
    }

    /// Ends the session when its owner may not have it any more, and puts a device out that may not attach any more.
    mutating func grantsChanged(for device: DeviceID, to grants: [Grant], at now: Instant) {
        let reason = KithError(.denied, "The grant this shell needs was taken away.")
        if profile.owner.device == device,
            !grants.allows(profile.forcedCommand.map { .shellCommand($0) } ?? .shell)
        {
            return end(reason)
        }
        let concerned = clients.filter { client in
            client.caller.device == device && access(of: client.caller, holding: grants) < client.mode.access
        }
        dismiss(concerned, reason, at: now)
    }

    /// Shares it with others, or no longer, and puts out those who may not be attached any more.
    mutating func share(_ sharing: Shell.Sharing, at now: Instant) {
        self.sharing = sharing
        let concerned = clients.filter { client in
            guard client.caller != .owner, !isOwn(client.caller) else { return false }
            return switch sharing {
            case .interactive: false
            case .view: client.mode == .interactive
            case .none: true
            }
        }
        dismiss(concerned, KithError(.denied, "This shell is not shared any more."), at: now)
    }
}

// MARK: - The ssh agent

extension HostedShellEngine {
    /// Lets programs ask the agent of one client, which comes and goes; `nil`: none any more.
    mutating func offerAgent(of client: [UInt8]?) { agentClient = client }

    /// Takes what a program asks the agent.
    mutating func agentAsked(_ number: UInt64, _ bytes: [UInt8]) {
        guard let id = agentClient,
            let index = clients.firstIndex(where: { $0.id == id && $0.isAttached }),
            clients[index].agentFrames.count < 1_024
        else { return actions.append(.answerAgent(number: number, bytes: [])) }
        clients[index].agentFrames.append(.agent(number, bytes))
        actions.append(.wake(clients[index].key))
    }

    /// Takes an answer of a client's agent.
    mutating func agentAnswered(_ number: UInt64, _ bytes: [UInt8], by key: UInt64) {
        guard let agentClient, let index = index(of: key), clients[index].isAttached, clients[index].id == agentClient
        else { return }
        actions.append(.answerAgent(number: number, bytes: bytes))
    }
}

// MARK: - The end

extension HostedShellEngine {
    /// The program has ended.
    mutating func programEnded(_ outcome: Outcome) {
        switch phase {
        case .running: phase = .ended(outcome)
        case .ending(let reason):
            if case .failed = outcome { phase = .closed(.failed(reason)) } else { phase = .closed(outcome) }
        case .ended, .closed: return
        }
        // Nobody reads any more.
        while let chunk = queue.popFirst() { done(chunk) }
        queued = 0
        writer = .idle
        wakeAll()
    }

    /// Ends the session.
    mutating func end(_ reason: KithError) {
        switch phase {
        case .running: phase = .ending(reason)
        case .ended(let outcome): phase = .closed(outcome)
        case .ending, .closed: return
        }
        abandonedSince = nil
        actions.append(.end(reason))
    }

    // MARK: What is known of it

    /// The amount of output that waits to be sent to the client that is furthest behind.
    var backlog: Int { clients.map { Int(log.end - min($0.window.sent, log.end)) }.max() ?? 0 }

    /// The position of the output that a client has been sent.
    func positionSent(to key: UInt64) -> UInt64 { index(of: key).map { clients[$0].window.sent } ?? 0 }

    /// The amount of output that is held.
    var heldOutput: Int { log.count }

    /// The session as a list shows it to a caller.
    func description(for caller: Caller, process: Int32, at now: Instant) -> Shell.Session {
        let owner = if case .device(_, let name, _) = profile.owner { name } else { "" }
        let endsAt = abandonedSince.flatMap { since in profile.keep.map { since + $0 } }
        let exit: ShellExit? =
            switch phase {
            case .ended(.exited(let exit)), .closed(.exited(let exit)): exit
            default: nil
            }
        return Shell.Session(
            id: profile.id, process: process, command: profile.command,
            title: screen.map { String(decoding: $0.title, as: UTF8.self) } ?? "",
            size: size, owner: owner, isOwn: isOwn(caller), sharing: sharing, opened: profile.opened,
            idle: Int64((now - lastActivity) / .seconds(1)), clients: clients.count(where: \.isAttached),
            interactiveClients: clients.count(where: \.isInteractive),
            endsIn: endsAt.map { max(0, Int64(($0 - now) / .seconds(1))) }, status: exit?.shellStatus)
    }
}
