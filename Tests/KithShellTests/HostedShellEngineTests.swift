import KithAPI
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Testing

@testable import KithShell

/// The device's side of a session as a value, by a clock that stands still.
@Suite struct HostedShellEngineTests {
    private static let size = Shell.Size(columns: 80, rows: 24)
    private static let small = Shell.Size(columns: 40, rows: 10)
    private static let laptop = Caller.device(DeviceKey().id, name: "laptop", paired: true)
    private static let phone = Caller.device(DeviceKey().id, name: "phone", paired: true)
    private static let lost = KithError(.closed, "The connection ended.")

    /// A session, with what a driver would do for it.
    private struct Session {
        var engine: HostedShellEngine
        let clock = ManualClock()

        init(size: Shell.Size? = HostedShellEngineTests.size, keep: Duration? = .seconds(60), owner: Caller = .owner) {
            engine = HostedShellEngine(
                HostedShellEngine.Profile(
                    id: "a", command: "", owner: owner, opened: 0, keep: keep, forcedCommand: nil, size: size),
                sharing: .none, at: clock.now)
        }

        var now: ContinuousClock.Instant { clock.now }

        mutating func attach(
            _ client: Shell.Client = Shell.Client(), of caller: Caller = .owner,
            as mode: HostedShellEngine.Mode = .interactive, size: Shell.Size? = HostedShellEngineTests.size,
            position: UInt64? = 0, scrollback: Int = 0
        ) throws -> UInt64 {
            try engine.attach(
                client, of: caller, as: mode, size: size, position: position, scrollback: scrollback, at: now
            ).key
        }

        mutating func output(_ bytes: [UInt8]) { engine.output(bytes, from: .output, at: now) }
        mutating func output(_ text: String) { output(Array(text.utf8)) }

        mutating func next(_ key: UInt64) -> HostedShellEngine.Step { engine.next(for: key, at: now) }

        /// Everything a client is sent until it has to wait.
        mutating func drain(_ key: UInt64) -> [ShellFrame] {
            var frames: [ShellFrame] = []
            while case .send(let more) = next(key) { frames += more }
            return frames
        }

        /// Writes for the program as long as it is asked to, at most so many bytes; returns what was written.
        mutating func write(_ most: Int = .max, interrupts: Bool = false) -> [UInt8] {
            var written: [UInt8] = []
            var actions = engine.takeActions()[...]
            while let action = actions.popFirst() {
                switch action {
                case .write(let bytes):
                    let count = min(bytes.count, most - written.count)
                    written += bytes.prefix(count)
                    engine.wrote(count == 0 ? .full : .bytes(count, interrupts: interrupts), at: now)
                case .writeOn(waits: false): engine.goOnWriting()
                case .endInput:
                    written.append(UInt8(ascii: "$"))
                    engine.endedInput(typing: [])
                default: break
                }
                actions += engine.takeActions()
            }
            return written
        }
    }

    private static func text(_ frames: [ShellFrame]) -> String {
        var bytes: [UInt8] = []
        for frame in frames {
            switch frame {
            case .output(let more), .errorOutput(let more), .screen(let more): bytes += more
            default: break
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: - Output

    @Test func `output reaches every client, and a key goes to the program`() throws {
        var session = Session()
        let (first, second) = (try session.attach(), try session.attach())
        _ = session.engine.takeActions()
        session.output("hello")
        #expect(session.engine.takeActions() == [.wake(first), .wake(second)])
        #expect(session.next(first) == .send([.output(Array("hello".utf8))]))
        #expect(session.next(first) == .wait)
        #expect(session.next(second) == .send([.output(Array("hello".utf8))]))
        try session.engine.typed([0x78], by: first, at: session.now)
        #expect(session.write() == [0x78])
        #expect(session.engine.inputTaken(by: first) == 1 && session.engine.inputTaken(by: second) == 0)
    }

    @Test func `a slow client that views, or has another size, holds nobody back`() throws {
        var session = Session()
        let fast = try session.attach()
        let viewing = try session.attach(as: .readOnly)
        let small = try session.attach(size: Self.small)
        // The size of who came last; the two of the other are drawn the screen.
        session.engine.resized(to: Self.size, by: fast)
        for _ in 0..<10 {
            session.output([UInt8](repeating: 0x78, count: 32 << 10))
            while case .send(let frames) = session.next(fast) {
                #expect(!frames.contains { if case .screen = $0 { true } else { false } })
            }
            session.clock.advance(by: .milliseconds(1))
            let sent = session.engine.positionSent(to: fast)
            try session.engine.received(sent, by: fast, at: session.now)
            let mayRead = session.engine.mayRead()
            #expect(mayRead)
        }
        #expect(session.engine.heldOutput <= 64 << 10)
        // When they look again, they see what is there now.
        session.output("\u{1B}[2J\u{1B}[Hnow")
        #expect(Self.text(session.drain(viewing)).contains("now"))
        #expect(Self.text(session.drain(small)).contains("now"))
    }

    @Test func `a slow client that views a command on pipes goes on behind what is gone`() throws {
        var session = Session(size: nil)
        let (fast, viewing) = (try session.attach(size: nil), try session.attach(as: .readOnly, size: nil))
        for _ in 0..<4 {
            session.output([UInt8](repeating: 0x78, count: 32 << 10))
            _ = session.drain(fast)
            try session.engine.received(session.engine.positionSent(to: fast), by: fast, at: session.now)
        }
        session.output("now")
        #expect(session.drain(viewing) == [.jump(128 << 10), .output(Array("now".utf8))])
        #expect(session.next(viewing) == .wait)
    }

    @Test func `a slow interactive client holds the program back until it has caught up`() throws {
        var session = Session()
        let slow = try session.attach()
        for _ in 0..<4 { session.output([UInt8](repeating: 0x78, count: 32 << 10)) }
        let mayRead = session.engine.mayRead()
        #expect(!mayRead)
        _ = session.engine.takeActions()
        _ = session.drain(slow)
        #expect(session.engine.takeActions() == [.read], "what was sent makes room, once")
        // On pipes nothing may be lost: without a client as well.
        var piped = Session(size: nil)
        for _ in 0..<128 { piped.output([UInt8](repeating: 0x78, count: 32 << 10)) }
        let mayReadPipe = piped.engine.mayRead()
        #expect(!mayReadPipe)
    }

    @Test func `whoever comes new gets the lines that left the screen, and who comes back goes on byte for byte`()
        throws
    {
        var session = Session()
        let first = try session.attach()
        for line in 1...100 { session.output("line-\(line).\r\n") }
        _ = session.drain(first)
        let position = session.engine.positionSent(to: first)
        let new = try session.attach(position: nil, scrollback: 50)
        let drawn = Self.text(session.drain(new))
        #expect(drawn.contains("line-100.") && drawn.contains("line-40.") && !drawn.contains("line-20."))
        let none = try session.attach(position: nil)
        #expect(!Self.text(session.drain(none)).contains("line-40."))

        let client = Shell.Client()
        let kept = try session.attach(client, position: position)
        session.output("while away")
        session.engine.detach(kept, .lost(Self.lost), at: session.now)
        let back = try session.attach(client, position: position)
        #expect(session.drain(back) == [.output(Array("while away".utf8))])
        // A position that is not there is not believed.
        let wrong = try session.attach(position: .max)
        #expect(Self.text(session.drain(wrong)).contains("line-100."))
    }

    @Test func `a client of another size is drawn the screen twenty times a second at the most`() throws {
        var session = Session()
        let first = try session.attach()
        _ = try session.attach(size: Self.small)
        _ = session.drain(first)
        session.output("a")
        guard case .send(let frames) = session.next(first), case .jump? = frames.first else {
            Issue.record("the larger one is drawn the screen")
            return
        }
        session.output("b")
        #expect(session.next(first) == .waitUntil(session.now + HostedShellEngine.frameInterval))
        session.clock.advance(by: HostedShellEngine.frameInterval)
        #expect(Self.text(session.drain(first)).contains("ab"))
    }

    @Test func `output before an interrupt is skipped, and the screen drawn when it pauses or at last`() throws {
        for pauses in [true, false] {
            var session = Session()
            let key = try session.attach()
            session.output([UInt8](repeating: 0x78, count: 64 << 10))
            try session.engine.typed([3], by: key, at: session.now)
            #expect(session.write(interrupts: true) == [3])
            let late = session.now + HostedShellEngine.interruptTime
            session.output("more")
            #expect(session.next(key) == .waitUntil(late))
            if pauses { session.engine.paused() } else { session.clock.advance(by: HostedShellEngine.interruptTime) }
            guard case .send(let frames) = session.next(key) else {
                Issue.record("the screen is drawn")
                return
            }
            #expect(frames.first == .jump((64 << 10) + 4))
        }
    }

    // MARK: - Input

    @Test func `input stays in order however little the program takes, and its end comes behind it`() throws {
        var session = Session(size: nil)
        let (first, second) = (try session.attach(), try session.attach())
        try session.engine.typed(Array("abc".utf8), by: first, at: session.now)
        var written = session.write(2)
        try session.engine.typed(Array("de".utf8), by: second, at: session.now)
        try session.engine.typed(Array("f".utf8), by: second, at: session.now)
        session.engine.inputEnded(by: first, at: session.now)
        session.engine.inputEnded(by: first, at: session.now)
        #expect(session.engine.inputTaken(by: first) == 0, "a part of it is not yet the program's")
        #expect(session.write().isEmpty, "nobody writes while the program reads nothing")
        #expect(session.engine.unreadInput == 4)
        session.engine.goOnWriting()
        written += session.write()
        #expect(String(decoding: written, as: UTF8.self) == "abcdef$")
        #expect(session.engine.inputTaken(by: first) == 3 && session.engine.inputTaken(by: second) == 3)
        #expect(session.engine.unreadInput == 0)
    }

    @Test func `input beyond what may be sent breaks the protocol, and what is taken is reported now and then`() throws
    {
        var session = Session()
        let key = try session.attach()
        let eighth = [UInt8](repeating: 0x78, count: ShellFrame.inputWindow / 8)
        for _ in 0..<8 { try session.engine.typed(eighth, by: key, at: session.now) }
        #expect(throws: KithError(.invalid, "")) { try session.engine.typed([1], by: key, at: session.now) }
        #expect(session.write(eighth.count - 1).count == eighth.count - 1)
        #expect(session.next(key) == .wait)
        session.engine.goOnWriting()
        _ = session.write()
        #expect(session.next(key) == .send([.taken(UInt64(ShellFrame.inputWindow))]))
        #expect(session.next(key) == .wait)
    }

    @Test func `a program that asks and does not read is answered only so much, and not at all behind a client's back`()
        throws
    {
        var session = Session()
        let key = try session.attach()
        session.output("\u{1B}[c")
        #expect(session.write().isEmpty, "the client's terminal answers")
        session.engine.detach(key, .lost(Self.lost), at: session.now)
        session.output("\u{1B}[c")
        #expect(!session.write().isEmpty)
        for _ in 0..<20_000 {
            session.output("\u{1B}[c")
            _ = session.write(0)
        }
        #expect(session.engine.unreadInput < 2 * HostedShellEngine.repliesAhead)
    }

    @Test func `an echo is told of once it has had time, and of many keys the first and the last`() throws {
        var session = Session()
        let key = try session.attach(Shell.Client(wantsEchoes: true))
        _ = session.engine.takeActions()
        let start = session.now
        for _ in 0..<3 { try session.engine.typed([1], by: key, at: session.now) }
        #expect(session.engine.takeActions().contains(.echo(key, at: start + HostedShellEngine.echoTime)))
        #expect(session.engine.echo(for: key, at: session.now) == nil)
        session.clock.advance(by: .milliseconds(60))
        #expect(session.engine.echo(for: key, at: session.now) == .echoed(input: 1, held: .milliseconds(60)))
        #expect(session.engine.takeActions() == [.echo(key, at: start + HostedShellEngine.echoTime)])
        #expect(session.engine.echo(for: key, at: session.now) == .echoed(input: 3, held: .milliseconds(60)))
        #expect(session.engine.echo(for: key, at: session.now) == nil)
    }

    // MARK: - Clients

    @Test func `the terminal has the size of who came last, and then of who stays`() throws {
        var session = Session()
        let first = try session.attach()
        let second = try session.attach(size: Self.small)
        #expect(session.engine.takeActions().contains(.resize(Self.small)))
        _ = try session.attach(as: .readOnly, size: Shell.Size(columns: 10, rows: 10))
        #expect(!session.engine.takeActions().contains { if case .resize = $0 { true } else { false } })
        session.engine.detach(second, .lost(Self.lost), at: session.now)
        #expect(session.engine.takeActions().contains(.resize(Self.size)))
        session.engine.resized(to: Self.small, by: first)
        #expect(session.engine.takeActions().contains(.resize(Self.small)))
        session.engine.resized(to: Shell.Size(columns: 0, rows: 0), by: first)
        let described = session.engine.description(for: .owner, process: 1, at: session.now)
        #expect(described.size == Self.small && described.clients == 2 && described.interactiveClients == 1)
    }

    @Test func `a client that was replaced hears why, and is not listened to any more`() throws {
        var session = Session()
        let client = Shell.Client()
        let first = try session.attach(client)
        try session.engine.typed([1], by: first, at: session.now)
        _ = session.write()
        let again = try session.engine.attach(
            client, of: .owner, as: .interactive, size: Self.size, position: 0, scrollback: 0, at: session.now)
        #expect(again.inputPosition == 1)
        guard case .failed(let reason) = session.next(first) else {
            Issue.record("the first is put out")
            return
        }
        #expect(reason.message.contains("attached again from elsewhere"))
        try session.engine.typed([2], by: first, at: session.now)
        session.engine.inputEnded(by: first, at: session.now)
        #expect(session.write().isEmpty)
        // That it goes then changes nothing.
        session.engine.detach(first, .lost(reason), at: session.now)
        #expect(session.engine.takeActions().isEmpty && session.next(again.key) == .wait)
        // Another device's client of the same name is another client.
        session.engine.share(.interactive, at: session.now)
        _ = try session.attach(client, of: Self.phone)
        #expect(session.next(again.key) == .wait)
    }

    @Test func `a client that only views hears that it may not type`() throws {
        var session = Session()
        _ = try session.attach()
        let viewing = try session.attach(as: .readOnly)
        try session.engine.typed([1], by: viewing, at: session.now)
        #expect(session.write().isEmpty)
        #expect(session.next(viewing) == .failed(HostedShellEngine.readOnly))
        #expect(session.engine.description(for: .owner, process: 1, at: session.now).clients == 1)
    }

    // MARK: - The end

    @Test func `a kept session ends when nobody has come back in time, and not a moment before`() throws {
        var session = Session(keep: .seconds(60))
        let client = Shell.Client()
        session.engine.detach(try session.attach(client), .lost(Self.lost), at: session.now)
        #expect(session.engine.takeActions().contains(.expire(at: session.now + .seconds(60))))
        session.clock.advance(by: .seconds(59))
        session.engine.timedOut(at: session.now)
        #expect(session.engine.description(for: .owner, process: 1, at: session.now).endsIn == 1)
        // Somebody who only views does not keep it; who types does.
        let viewing = try session.attach(as: .readOnly)
        let back = try session.attach(client)
        session.clock.advance(by: .seconds(3_600))
        session.engine.timedOut(at: session.now)
        #expect(session.next(back) == .wait)
        session.engine.detach(back, .lost(Self.lost), at: session.now)
        session.clock.advance(by: .seconds(60))
        _ = session.engine.takeActions()
        session.engine.timedOut(at: session.now)
        session.engine.timedOut(at: session.now)
        #expect(session.engine.takeActions() == [.end(HostedShellEngine.abandoned)])
        session.engine.programEnded(.failed(KithError(.cancelled, "")))
        guard case .failed(let reason) = session.next(viewing) else {
            Issue.record("who views hears it")
            return
        }
        #expect(reason.message == HostedShellEngine.abandoned.message)
    }

    @Test(arguments: [
        (KithError.Code.cancelled, true, true), (.closed, true, false), (.internal, true, false),
        (.cancelled, false, true), (.closed, false, false), (.internal, false, true),
    ])
    func `a session is kept when its connection is lost, and not when somebody hangs up`(
        code: KithError.Code, isTerminal: Bool, ends: Bool
    ) throws {
        var session = Session(size: isTerminal ? Self.size : nil)
        let key = try session.attach(size: nil)
        _ = session.engine.takeActions()
        session.engine.detach(key, .lost(KithError(code, "Gone.")), at: session.now)
        #expect(session.engine.takeActions().contains(.end(KithError(code, ""))) == ends)
        // With another who types it goes on in any case, and without a time to be kept it ends in any.
        var shared = Session()
        let (first, second) = (try shared.attach(), try shared.attach())
        shared.engine.detach(first, .lost(KithError(code, "Gone.")), at: shared.now)
        #expect(shared.next(second) == .wait && !shared.engine.takeActions().contains(.end(KithError(code, ""))))
        var unkept = Session(keep: nil)
        unkept.engine.detach(try unkept.attach(), .lost(KithError(code, "Gone.")), at: unkept.now)
        #expect(unkept.engine.takeActions().contains(.end(KithError(code, ""))))
    }

    @Test func `how a program ended waits for who has not heard it`() throws {
        var session = Session()
        let client = Shell.Client()
        let first = try session.attach(client)
        session.output("last")
        session.engine.programEnded(.exited(.status(7)))
        #expect(Self.text(session.drain(first)) == "last" && session.next(first) == .exited(.status(7)))
        session.engine.detach(first, .told(isHeard: false), at: session.now)
        #expect(!session.engine.takeActions().contains(.end(HostedShellEngine.gone)))
        let back = try session.attach(client, position: 4)
        #expect(session.next(back) == .exited(.status(7)))
        session.engine.detach(back, .told(isHeard: true), at: session.now)
        #expect(session.engine.takeActions().contains(.end(HostedShellEngine.gone)))
        #expect(throws: HostedShellEngine.gone) { _ = try session.attach(client) }
    }

    @Test(arguments: 0..<100)
    func `whenever it is ended, it ends once, everybody hears why, and nothing is written any more`(seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        var session = Session(size: Bool.random(using: &random) ? Self.size : nil)
        var keys: [UInt64] = []
        var ends = 0
        func count(_ actions: [HostedShellEngine.Action]) {
            ends += actions.count { if case .end = $0 { true } else { false } }
        }
        // One stays, so that it does not end by itself.
        keys.append(try session.attach())
        for _ in 0..<Int.random(in: 0..<60, using: &random) {
            let key = keys.randomElement(using: &random) ?? 0
            switch Int.random(in: 0..<12, using: &random) {
            case 0: keys.append(try session.attach(as: .readOnly, size: Self.small, position: nil, scrollback: 9))
            case 1: keys.append(try session.attach(size: Self.small, position: nil))
            case 2 where key != keys[0]: session.engine.detach(key, .lost(Self.lost), at: session.now)
            case 3: session.output(random.bytes(Int.random(in: 0..<10_000, using: &random)))
            case 4: try session.engine.typed(random.bytes(100), by: key == keys[0] ? key : 0, at: session.now)
            case 5: _ = session.write(Int.random(in: 0..<200, using: &random))
            case 6: session.engine.goOnWriting()
            case 7: _ = session.drain(key)
            case 8: session.engine.resized(to: Bool.random(using: &random) ? Self.size : Self.small, by: key)
            case 9: session.clock.advance(by: .milliseconds(Int.random(in: 0..<100, using: &random)))
            case 10: _ = session.engine.mayRead()
            default: session.engine.timedOut(at: session.now)
            }
        }
        count(session.engine.takeActions())
        #expect(ends == 0)
        let reason = KithError(.denied, "Ended on purpose.")
        session.engine.end(reason)
        session.engine.end(Self.lost)
        count(session.engine.takeActions())
        session.engine.programEnded(.failed(KithError(.cancelled, "Killed.")))
        _ = session.engine.takeActions()
        session.engine.goOnWriting()
        try session.engine.typed([1], by: keys[0], at: session.now)
        session.clock.advance(by: .seconds(1))
        for key in keys {
            var step = session.next(key)
            while case .send = step {
                try session.engine.received(session.engine.positionSent(to: key), by: key, at: session.now)
                session.clock.advance(by: .seconds(1))
                step = session.next(key)
            }
            guard case .failed(let error) = step else {
                Issue.record("\(step)")
                continue
            }
            #expect(error.message == reason.message || error == HostedShellEngine.gone)
            session.engine.detach(key, .lost(error), at: session.now)
        }
        let actions = session.engine.takeActions()
        count(actions)
        #expect(ends == 1 && !actions.contains { if case .write = $0 { true } else { false } })
        #expect(session.engine.unreadInput == 0)
    }

    // MARK: - Rights

    @Test func `a guest whose grant is taken is put out, and who opened the shell keeps it`() throws {
        var session = Session(owner: Self.laptop)
        session.engine.share(.interactive, at: session.now)
        let phone = try #require(Self.phone.device)
        let own = try session.attach(of: Self.laptop)
        let guest = try session.attach(of: Self.phone)
        session.engine.grantsChanged(for: phone, to: [.shell], at: session.now)
        #expect(session.next(guest) == .wait)
        session.engine.grantsChanged(for: phone, to: [.shellView], at: session.now)
        #expect(session.next(guest) == .failed(KithError(.denied, "")) && session.next(own) == .wait)
        // Nor does a guest who is put out take a kept shell along.
        session.engine.detach(own, .lost(Self.lost), at: session.now)
        let second = try session.attach(of: Self.phone)
        _ = session.engine.takeActions()
        session.engine.share(.none, at: session.now)
        #expect(session.next(second) == .failed(KithError(.denied, "")))
        session.engine.detach(second, .lost(KithError(.denied, "")), at: session.now)
        #expect(!session.engine.takeActions().contains(.end(KithError(.denied, ""))))
        let back = try session.attach(of: Self.laptop)
        #expect(session.next(back) == .wait)
        // The owner's own grant is another matter.
        session.engine.grantsChanged(for: try #require(Self.laptop.device), to: [.shellView], at: session.now)
        #expect(session.engine.takeActions().contains(.end(KithError(.denied, ""))))
    }

    @Test func `a program's question to the agent goes to one client, or is answered by silence`() throws {
        var session = Session()
        let client = Shell.Client()
        let (first, other) = (try session.attach(client), try session.attach())
        session.engine.offerAgent(of: client.id)
        _ = session.engine.takeActions()
        session.engine.agentAsked(1, [7])
        #expect(session.engine.takeActions() == [.wake(first)])
        #expect(session.next(first) == .send([.agent(1, [7])]) && session.next(other) == .wait)
        session.engine.agentAnswered(1, [8], by: other)
        #expect(session.engine.takeActions().isEmpty)
        session.engine.agentAnswered(1, [8], by: first)
        #expect(session.engine.takeActions() == [.answerAgent(number: 1, bytes: [8])])
        session.engine.detach(first, .lost(Self.lost), at: session.now)
        _ = session.engine.takeActions()
        session.engine.agentAsked(2, [7])
        #expect(session.engine.takeActions() == [.answerAgent(number: 2, bytes: [])])
    }
}
