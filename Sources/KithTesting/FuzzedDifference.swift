internal import KithAPI
internal import KithShell
internal import KithTerminal
internal import KithWire

/// The output of a program on a terminal that is drawn elsewhere, by a viewer that acknowledges when it likes, asks for
/// lines, types, and changes its size.
///
/// As with ``FuzzedTerminal`` the first two bytes say the size, the third in what pieces the rest comes. What the
/// viewer does follows from the bytes.
struct FuzzedDifference {
    private var engine: ShellScreenEngine
    private var mirror = ScreenMirror()
    private var random: SeededRandom
    private var now = Duration.zero
    private var typed: UInt64 = 0
    private var shown: UInt64 = 0

    static func run(_ bytes: [UInt8]) {
        guard bytes.count >= 3 else { return }
        var run = FuzzedDifference(bytes)
        let size = Int(bytes[2]) % 61 + 1
        for start in stride(from: 3, to: bytes.count, by: size) {
            run.engine.output(Array(bytes[start..<min(start + size, bytes.count)]), at: run.now)
            run.act()
        }
        run.settle()
        run.engine.exited(.status(0))
        run.settle()
        precondition(run.mirror.exit?.code == 0, "The end is told")
    }

    private init(_ bytes: [UInt8]) {
        engine = ShellScreenEngine(
            columns: Int(bytes[0]) % 100 + 2, rows: Int(bytes[1]) % 50 + 1, prediction: .always, isInteractive: true,
            reportsTaken: true)
        random = SeededRandom(
            seed: bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 })
    }

    private mutating func act() {
        now += .milliseconds(Int.random(in: 0...20, using: &random))
        switch Int.random(in: 0...19, using: &random) {
        case 0...7: step()
        case 8...11: show()
        case 12:
            receive(
                .size(
                    Shell.Screen.Size(
                        columns: Int.random(in: 2...110, using: &random),
                        rows: Int.random(in: 1...50, using: &random))))
        case 13, 14:
            let key = ["a", "Enter", "Left", "Backspace", "é", "F5", "nothing"].randomElement(using: &random) ?? "a"
            receive(.key(Shell.Screen.Key(name: key)))
        case 15: receive(.mouse(Shell.Screen.Mouse(.wheel, x: 1, y: 1, delta: 2)))
        case 16:
            let first = (mirror.scrollback?.first ?? 0) + Int.random(in: -3...30, using: &random)
            receive(.lines(Shell.Screen.LineRange(from: max(0, first), count: 20)))
        case 17: engine.echoed(upTo: typed, roundTrip: .milliseconds(50), at: now)
        case 18: settle()
        default: break
        }
        while let input = engine.nextInput() {
            typed += UInt64(input.bytes.count)
            engine.passedOn(input)
        }
        precondition(engine.waitingInput == 0, "Nothing waits that was passed on")
    }

    private mutating func receive(_ action: Shell.Screen.Action) {
        do {
            _ = try engine.received(action, at: now)
        } catch {
            preconditionFailure("It is taken: \(action)")
        }
    }

    private mutating func show() {
        shown = UInt64.random(in: shown...mirror.number, using: &random)
        receive(.shown(shown))
    }

    /// Lets the viewer get what it may get now; returns until when nothing more comes.
    @discardableResult private mutating func step() -> Duration? {
        while true {
            switch engine.next(at: now) {
            case .send(let update): apply(update)
            case .wait, .finish: return nil
            case .waitUntil(let time):
                precondition(time > now, "It waits for what is to come")
                return time
            }
            if mirror.exit == nil {
                precondition(mirror.number - shown <= UInt64(ShellScreenEngine.pictureLimit), "Two are on their way")
            }
        }
    }

    private mutating func apply(_ update: Shell.Screen.Update) {
        var framed: [UInt8] = []
        var buffer = ReceiveBuffer()
        guard (try? update.append(to: &framed)) != nil else { preconditionFailure("An update can be written") }
        buffer.append(framed)
        guard let read = try? Shell.Screen.Update.next(from: &buffer), read == update else {
            preconditionFailure("An update survives, and is not too long")
        }
        do {
            try mirror.apply(update)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    /// Lets the viewer see everything, and compares.
    private mutating func settle() {
        for _ in 0..<1_000 {
            let (number, hasShown) = (mirror.number, shown == mirror.number)
            let time = step()
            shown = mirror.number
            receive(.shown(shown))
            if let time { now = time } else if hasShown, mirror.number == number { break }
        }
        let difference = mirror.difference(from: engine.terminal, ahead: engine.drawing)
        precondition(difference == nil, "The decoded difference is the screen: \(difference ?? "")")
    }
}
