package import KithAPI
package import KithTerminal
package import KithWire

/// The decisions of a shell whose screen is drawn elsewhere: what the viewer is sent and when, and what of its input goes
/// to the shell.
///
/// A pure state machine: it does no I/O and reads no clock. Tell it what happened and when, ask ``next(at:)`` what to send,
/// and pass ``nextInput()`` on.
///
/// Whatever is written there goes into a terminal at once, and the viewer is sent what the screen looks like when it has
/// shown what it was sent before. So one that is slow, or acknowledges nothing, costs a screen and holds nobody up.
package struct ShellScreenEngine: Sendable {
    /// The next step of the viewer's sender.
    package enum Step: Equatable, Sendable {
        case send(Shell.Screen.Update)
        case wait
        /// Nothing will change before that time.
        case waitUntil(Duration)
        /// All is sent, and the shell has ended.
        case finish
    }

    /// Input for the shell.
    package struct Input: Equatable, Sendable {
        package var bytes: [UInt8]
        /// True when it ends one of the viewer's messages.
        package var endsMessage: Bool
    }

    /// The most pictures that may be unacknowledged.
    package static let pictureLimit = 2
    /// The time between pictures while one is unacknowledged.
    package static let frameTime = Duration.milliseconds(16)
    /// The least time between pictures.
    package static let leastTime = Duration.milliseconds(4)
    /// The longest time that a program may keep what it draws from being shown (mode 2026).
    package static let synchronizedTime = Duration.milliseconds(150)
    /// The most unread input for which the terminal still answers what the program asks.
    package static let replyLimit = 64 << 10
    /// The most unread input that more is taken to.
    package static let inputLimit = 1 << 20
    /// The most messages of input that wait.
    package static let messageLimit = 4_096
    /// The most questions for lines that wait.
    package static let questionLimit = 16
    /// The most time in which a viewer is told what was taken.
    package static let takenTime = Duration.milliseconds(250)
    /// The least time between two reports of the round trip.
    package static let stateTime = Duration.seconds(2)

    private var echo: PredictiveEcho
    private var filter: OutputFilter
    private var encoder = ScreenEncoder()
    private let isInteractive: Bool
    private let reportsTaken: Bool

    // What waits for the viewer.
    private var isDirty = true
    private var clipboard: String?
    private var questions: [Shell.Screen.LineRange] = []
    private var state: Shell.Screen.State?
    private var exit: Shell.Screen.Exit?
    private var isFinished = false
    private var number: UInt64 = 0
    private var shown: UInt64 = 0
    private var lastSent: Duration?
    private var synchronizedSince: Duration?

    // Input.
    private var queue: [Input] = []
    private var queueStart = 0
    /// The number of bytes in the queue.
    package private(set) var waitingInput = 0
    /// The bytes of input so far, with those that wait.
    private var inputPosition: UInt64 = 0
    /// The number of the viewer's messages that were passed on.
    package private(set) var taken: UInt64
    private var toldTaken: UInt64
    private var toldTakenAt: Duration?
    /// The bytes at the beginning of the next message that were passed on by the viewer's last stream.
    private var skipped: Int

    // The way to the device.
    private var isConnected = true
    private var roundTrip: Duration?
    private var toldRoundTrip: Duration?
    private var toldStateAt: Duration?

    /// Begins with an empty screen.
    ///
    /// `taken` and `skipped` are what a viewer that comes back has had passed on: whole messages, and bytes of the next.
    package init(
        columns: Int, rows: Int, prediction: PredictiveEcho.Mode, isInteractive: Bool, reportsTaken: Bool = false,
        taken: UInt64 = 0, skipped: Int = 0
    ) {
        echo = PredictiveEcho(
            terminal: Terminal(columns: columns, rows: rows), mode: isInteractive ? prediction : .never)
        filter = OutputFilter(clipboardWrites: .ask, clipboardReads: .deny)
        self.isInteractive = isInteractive
        self.reportsTaken = reportsTaken
        self.taken = taken
        toldTaken = taken
        self.skipped = skipped
    }

    /// True while more of the viewer's messages are taken: else it waits, as for a program that does not read.
    package var takesInput: Bool {
        waitingInput < Self.inputLimit && queue.count - queueStart < Self.messageLimit
    }

    /// The terminal as it is.
    package var terminal: Terminal { echo.terminal }
    /// What is drawn ahead of the echo.
    package var drawing: (row: Int, cells: [Int: Cell], cursor: Int?) { echo.drawing }

    // MARK: - The shell

    /// Takes output, or a drawing of the screen.
    package mutating func output(_ bytes: [UInt8], at now: Duration) {
        _ = echo.arrived(filter.filter(bytes), now: now)
        for case .clipboardWrite(_, let text, _) in filter.takeEvents() {
            clipboard = String(decoding: text, as: UTF8.self)
        }
        let replies = echo.takeReplies()
        // A program that does not read what it asks for is not told more.
        if isInteractive, !replies.isEmpty, waitingInput < Self.replyLimit { enqueue(replies, endsMessage: false) }
        isDirty = true
    }

    /// The device has processed the input up to a position.
    package mutating func echoed(upTo position: UInt64, roundTrip: Duration, at now: Duration) {
        if roundTrip > .zero {
            echo.roundTrip(roundTrip)
            self.roundTrip = self.roundTrip.map { $0 + (roundTrip - $0) / 8 } ?? roundTrip
        }
        _ = echo.echoed(upTo: position, now: now)
        isDirty = true
    }

    /// The way to the device is lost, or is back.
    package mutating func connected(_ isConnected: Bool) {
        self.isConnected = isConnected
        state = Shell.Screen.State(connected: isConnected, roundTrip: isConnected ? Self.milliseconds(roundTrip) : nil)
    }

    /// The shell has ended.
    package mutating func exited(_ exit: ShellExit) {
        self.exit =
            switch exit {
            case .status(let status): Shell.Screen.Exit(code: status)
            case .signal(let signal, _): Shell.Screen.Exit(signal: signal.name)
            }
    }

    // MARK: - The viewer

    /// Takes an action of the viewer; returns the size to give the shell, if there is a new one.
    ///
    /// - Throws: `.invalid` when it acknowledges what it was not sent.
    package mutating func received(
        _ action: Shell.Screen.Action, at now: Duration
    ) throws(KithError) -> Shell.Screen.Size? {
        switch action {
        case .shown(let number):
            guard number <= self.number else {
                throw KithError(.invalid, "The caller acknowledged a picture it was not sent.")
            }
            shown = max(shown, number)
        case .size(let size):
            guard size.columns != terminal.columns || size.rows != terminal.rowCount else { return nil }
            _ = echo.resize(columns: size.columns, rows: size.rows, now: now)
            isDirty = true
            return size
        case .lines(let range):
            if questions.count >= Self.questionLimit { questions.removeFirst() }
            questions.append(range)
        default: type(action, at: now)
        }
        return nil
    }

    private mutating func type(_ action: Shell.Screen.Action, at now: Duration) {
        guard isInteractive, exit == nil else { return enqueue([], endsMessage: true) }
        var bytes = InputEncoder(terminal).bytes(for: action, on: terminal)
        if skipped > 0 {
            bytes.removeFirst(min(skipped, bytes.count))
            skipped = 0
        }
        if !bytes.isEmpty {
            _ = echo.typed(bytes, inputPosition: inputPosition, now: now)
            isDirty = true
        }
        enqueue(bytes, endsMessage: true)
    }

    private mutating func enqueue(_ bytes: [UInt8], endsMessage: Bool) {
        inputPosition += UInt64(bytes.count)
        waitingInput += bytes.count
        queue.append(Input(bytes: bytes, endsMessage: endsMessage))
    }

    /// Takes the next input to pass on; nil when there is none.
    package mutating func nextInput() -> Input? {
        guard queueStart < queue.count else { return nil }
        defer {
            queueStart += 1
            if queueStart == queue.count || queueStart > 1_024 {
                queue.removeFirst(queueStart)
                queueStart = 0
            }
        }
        let input = queue[queueStart]
        queue[queueStart].bytes = []
        return input
    }

    /// Notes that input was passed on.
    package mutating func passedOn(_ input: Input) {
        waitingInput -= input.bytes.count
        if input.endsMessage { taken += 1 }
    }

    // MARK: - Sending

    /// The next step of the viewer's sender.
    package mutating func next(at now: Duration) -> Step {
        if isFinished { return .finish }
        if let due = echo.deadline, due <= now {
            _ = echo.timedOut(now: now)
            isDirty = true
        }
        if !questions.isEmpty {
            let question = questions.removeFirst()
            let lines = encoder.lines(from: question.from, count: question.count, of: terminal)
            return .send(Shell.Screen.Update(lines: lines, from: question.from))
        }
        if let update = stateUpdate(at: now) { return .send(update) }
        var due = echo.deadline
        if isDirty || clipboard != nil {
            switch pictureTime(at: now) {
            case nil: break
            case let time? where time <= now: if let picture = picture(at: now) { return .send(picture) }
            case let time?: due = min(due ?? time, time)
            }
        }
        if let exit {
            isFinished = true
            var update = takenUpdate() ?? Shell.Screen.Update()
            update.exit = exit
            return .send(update)
        }
        if reportsTaken, taken != toldTaken {
            let time = (toldTakenAt ?? now - Self.takenTime) + Self.takenTime
            if time <= now, let update = takenUpdate() {
                toldTakenAt = now
                return .send(update)
            }
            due = min(due ?? time, time)
        }
        return due.map { .waitUntil($0) } ?? .wait
    }

    /// When the next picture may be sent; nil: not before one is acknowledged.
    private mutating func pictureTime(at now: Duration) -> Duration? {
        // What the program showed last is seen, whatever the viewer has to say.
        if exit != nil { return now }
        guard number - shown < Self.pictureLimit else { return nil }
        var time = lastSent.map { $0 + (number == shown ? Self.leastTime : Self.frameTime) } ?? now
        if terminal.modes.synchronizedUpdate {
            let since = synchronizedSince ?? now
            synchronizedSince = since
            time = max(time, since + Self.synchronizedTime)
        } else {
            synchronizedSince = nil
        }
        return time
    }

    private mutating func picture(at now: Duration) -> Shell.Screen.Update? {
        let difference = encoder.encode(echo)
        isDirty = encoder.hasMore
        synchronizedSince = nil
        guard difference != nil || clipboard != nil else { return nil }
        var update = Shell.Screen.Update(difference ?? ScreenDifference())
        update.clipboard = clipboard
        clipboard = nil
        if reportsTaken, taken != toldTaken {
            update.taken = taken
            toldTaken = taken
            toldTakenAt = now
        }
        number += 1
        update.number = number
        lastSent = now
        return update
    }

    private mutating func takenUpdate() -> Shell.Screen.Update? {
        guard reportsTaken, taken != toldTaken else { return nil }
        toldTaken = taken
        var update = Shell.Screen.Update()
        update.taken = taken
        return update
    }

    private mutating func stateUpdate(at now: Duration) -> Shell.Screen.Update? {
        if state == nil, isConnected, let roundTrip, toldStateAt.map({ now - $0 >= Self.stateTime }) ?? true {
            let told = toldRoundTrip ?? .zero
            // Loopback trembles by a millisecond.
            if max(roundTrip, told) - min(roundTrip, told) > max(.milliseconds(2), told / 4) {
                state = Shell.Screen.State(connected: true, roundTrip: Self.milliseconds(roundTrip))
            }
        }
        guard let state else { return nil }
        self.state = nil
        toldStateAt = now
        toldRoundTrip = roundTrip
        var update = Shell.Screen.Update()
        update.state = state
        return update
    }

    private static func milliseconds(_ duration: Duration?) -> Double? {
        duration.map { ($0 / .milliseconds(1) * 10).rounded() / 10 }
    }
}
