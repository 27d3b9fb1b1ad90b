import Foundation
import KithAPI
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithShell

/// Sessions that outlive their connection.
struct ShellKeepTests {
    let service = ShellService(
        options: Harness.options(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

    private static let terminal = Shell.Terminal(size: Shell.Size(columns: 80, rows: 24), type: "xterm-256color")
    private static let laptop = Caller.device(DeviceKey().id, name: "laptop", paired: true)
    private static let phone = Caller.device(DeviceKey().id, name: "phone", paired: true)

    private func open(
        _ carrier: CuttableCarrier, _ line: String, terminal: Shell.Terminal? = nil, keep: UInt32 = 60,
        sharing: Shell.Sharing = .none
    ) async throws -> ShellSession {
        try await ShellSession.open(
            Shell.Open.Input(terminal: terminal, commandLine: line, keep: keep, sharing: sharing), on: nil,
            client: Client(carrier))
    }

    /// A shell on a terminal that echoes nothing and has no prompt.
    private func quietShell(_ carrier: CuttableCarrier) async throws -> (ShellSession, Conversation) {
        let session = try await open(carrier, "exec sh", terminal: Self.terminal)
        let talk = Conversation(session)
        try await talk.type("PS1=; stty -echo; echo beg''un\n")
        try await talk.expect("begun\r\n")
        return (session, talk)
    }

    @Test(arguments: [1 as UInt64, 2, 3])
    func `a command's output and input are whole however often the connection is cut`(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let carrier = CuttableCarrier(service)
        let session = try await open(carrier, "cat; echo done >&2; exit 7")
        let input = random.bytes(3_000_000)
        let cuts = (0..<20).map { _ in Int.random(in: 0..<3_000_000, using: &random) }.sorted()
        print("seed \(seed)")
        let writer = Task {
            var at = 0
            while at < input.count {
                let end = min(input.count, at + 10_000)
                try await session.write(Array(input[at..<end]))
                at = end
            }
            try await session.endInput()
        }
        var output: [UInt8] = []
        var errors: [UInt8] = []
        var exit: ShellExit?
        var nextCut = 0
        var interruptions = 0
        while let event = try await session.next() {
            switch event {
            case .output(let bytes): output += bytes
            case .errorOutput(let bytes): errors += bytes
            case .exited(let how): exit = how
            case .interrupted: interruptions += 1
            default: break
            }
            while nextCut < cuts.count, output.count >= cuts[nextCut] {
                nextCut += 1
                carrier.cut()
            }
        }
        try await writer.value
        #expect(output == input)
        #expect(errors == Array("done\n".utf8))
        #expect(exit == .status(7))
        #expect(interruptions > 5)
        #expect(carrier.opened == interruptions + 1)
    }

    @Test func `a window that was replaced, and one whose shell was ended, is told so in words`() async throws {
        let client = Client(CuttableCarrier(service))
        let window = Shell.Client()
        let first = try await ShellSession.open(
            Shell.Open.Input(terminal: Self.terminal, commandLine: "exec sh", keep: 60, client: window), on: nil,
            client: client)
        // Somebody reads, as a person's window does.
        async let replaced = lastError(of: first)
        let second = try await ShellSession.attach(
            Shell.Attach.Input(session: first.id, size: Self.terminal.size, client: window), on: nil, client: client)
        #expect(try await replaced.code == .conflict)
        #expect(try await replaced.message.contains("attached again from elsewhere"))

        async let ended = lastError(of: second)
        _ = try await client.call(Shell.Change.self, Shell.Change.Input(session: second.id, ends: true))
        #expect(try await ended.message == "The shell was ended from elsewhere.")
    }

    /// Why a session's events end.
    private func lastError(of session: ShellSession) async throws -> KithError {
        do {
            while try await session.next() != nil {}
        } catch let error as KithError {
            return error
        }
        throw KithError(.internal, "The session ended without an error.")
    }

    @Test func `a shell goes on after a minute without network as if nothing had been`() async throws {
        let carrier = CuttableCarrier(service)
        let clock = ManualClock()
        let session = try await ShellSession.open(
            Shell.Open.Input(terminal: Self.terminal, commandLine: "exec sh", keep: 120), on: nil,
            client: Client(carrier), clock: clock)
        let talk = Conversation(session)
        try await talk.type("PS1=; stty -echo; x=kept; echo o''ne\n")
        try await talk.expect("one\r\n")
        carrier.cut(staysDown: true)
        // What is typed meanwhile arrives later, once.
        try await talk.type("n=$((n + 1)); echo $x-$n\n")
        let minute = Task {
            let end = clock.now + .seconds(60)
            while clock.now < end {
                // It looks for the device again and again.
                try await eventually { clock.sleeperCount > 0 }
                clock.advance(by: .seconds(3))
            }
            carrier.repair()
            try await eventually {
                if clock.sleeperCount > 0 { clock.advance(by: .seconds(3)) }
                return carrier.opened == 2
            }
        }
        #expect(try await talk.expect("\r\n") == "kept-1")
        try await minute.value
        #expect(talk.interruptions == 1)
        try await talk.type("n=$((n + 1)); echo $n; exit 3\n")
        #expect(try await talk.expect("\r\n") == "2")
        #expect(try await talk.exit() == .status(3))
    }

    @Test func `whoever detaches finds the shell in the list, and its screen when it attaches`() async throws {
        let carrier = CuttableCarrier(service, caller: Self.laptop, grants: [.shell])
        let client = Client(carrier)
        let session = try await open(carrier, "exec sh", terminal: Self.terminal)
        let talk = Conversation(session)
        try await talk.type("PS1=; stty -echo; for i in 1 2 3; do echo line-$i; done; echo rea''dy\n")
        try await talk.expect("ready\r\n")
        await session.detach()

        let list = try await client.call(Shell.Sessions.self, Nothing())
        let listed = try #require(list.first)
        #expect(list.count == 1)
        #expect(listed.id == session.id)
        #expect(listed.isOwn && listed.owner == "laptop" && listed.clients == 0 && listed.status == nil)
        let left = try #require(listed.endsIn)
        #expect((50...60).contains(left))

        // Another device sees nothing of it, and this device's own person does.
        let phone = Client(CuttableCarrier(service, caller: Self.phone, grants: [.shell]))
        #expect(try await phone.call(Shell.Sessions.self, Nothing()).isEmpty)
        await #expect(throws: KithError.self) {
            _ = try await ShellSession.attach(.init(session: session.id), on: nil, client: phone)
        }
        #expect(try await Client(CuttableCarrier(service)).call(Shell.Sessions.self, Nothing()).count == 1)

        let again = try await ShellSession.attach(
            .init(session: String(session.id.prefix(3)), size: Self.terminal.size), on: nil, client: client)
        let second = Conversation(again)
        let screen = try await second.expect("ready")
        #expect(screen.contains("line-1") && screen.contains("line-3"))
        try await second.type("echo still here\n")
        try await second.expect("still here\r\n")
        again.close()
        // Whoever has left is told nothing more, an error least of all.
        while try await again.next() != nil {}
        while !(try await client.call(Shell.Sessions.self, Nothing()).isEmpty) { await Task.yield() }
        #expect(!isAlive(session.process))
    }

    @Test func `two windows see the same, and one that may only look cannot type`() async throws {
        let carrier = CuttableCarrier(service, caller: Self.laptop, grants: [.shell])
        let session = try await open(carrier, "exec sh", terminal: Self.terminal, sharing: .view)
        let talk = Conversation(session)
        try await talk.type("PS1=; stty -echo; echo hel''lo\n")
        try await talk.expect("hello\r\n")

        let phone = Client(CuttableCarrier(service, caller: Self.phone, grants: [.shellView]))
        await #expect(throws: KithError.self) {
            _ = try await ShellSession.attach(.init(session: session.id), on: nil, client: phone)
        }
        let looking = try await ShellSession.attach(
            .init(session: session.id, isInteractive: false, size: Self.terminal.size), on: nil, client: phone)
        let view = Conversation(looking)
        try await view.expect("hello")
        try await talk.type("echo seen by both\n")
        try await talk.expect("seen by both\r\n")
        try await view.expect("seen by both\r\n")

        // What one that looks sends is refused, and nobody else notices.
        try await looking.write(Array("echo smuggled\n".utf8))
        await #expect(throws: KithError.self) { _ = try await view.exit() }
        try await talk.type("echo end\n")
        #expect(try await talk.expect("end\r\n").contains("smuggled") == false)

        // Not shared any more: whoever looks is put out.
        let second = try await ShellSession.attach(
            .init(session: session.id, isInteractive: false, size: Self.terminal.size), on: nil, client: phone)
        let change = Shell.Change.Input(session: session.id, sharing: Shell.Sharing.none)
        #expect(try await Client(carrier).call(Shell.Change.self, change).sharing == .none)
        await #expect(throws: KithError.self) { _ = try await Conversation(second).exit() }
        session.close()
    }

    @Test func `both of two windows type, the larger one's bytes are not for the smaller`() async throws {
        let carrier = CuttableCarrier(service)
        let (session, talk) = try await quietShell(carrier)
        let other = try await ShellSession.attach(
            .init(session: session.id, size: Shell.Size(columns: 40, rows: 10)), on: nil, client: Client(carrier))
        let second = Conversation(other)
        try await second.expect("begun")
        try await second.type("stty size; echo typed by the second\n")
        // The terminal has the size of who came last; the first one is drawn what it shows.
        #expect(try await second.expect("typed by the second\r\n").contains("10 40"))
        try await talk.expect("typed by the second")
        #expect(talk.screens > 0)
        try await talk.session.resize(Shell.Size(columns: 80, rows: 24))
        try await talk.type("stty size\n")
        try await talk.expect("24 80")
        session.close()
        other.close()
    }

    @Test func `when one of two windows is closed the terminal has the other one's size`() async throws {
        let carrier = CuttableCarrier(service)
        let (session, _) = try await quietShell(carrier)
        let other = try await ShellSession.attach(
            .init(session: session.id, size: Shell.Size(columns: 40, rows: 10)), on: nil, client: Client(carrier))
        try await Conversation(other).expect("begun")
        await other.detach()
        var size: Shell.Size?
        try await eventually {
            size = try await Client(carrier).call(Shell.Sessions.self, Nothing()).first?.size
            return size == Self.terminal.size
        }
        session.close()
    }

    @Test(.timeLimit(.minutes(4)))
    func `what is dealt with is acknowledged before more is waited for, were it all that may be sent`() async throws {
        let pipe = KithAPI.Pipe()
        let opened = Shell.Open.Output(process: 1, shell: "/bin/sh", user: "me", session: "abcdefgh", keep: nil)
        let session = ShellSession(
            OpenedStream(output: opened, stream: pipe.left), Shell.Open.Input(terminal: Self.terminal))
        try await pipe.right.write(ShellFrame.output([UInt8](repeating: 0x78, count: OutputWindow.minimum)).encoded)
        guard case .output(let bytes) = try await session.next() else { throw KithError(.internal, "No output.") }
        #expect(bytes.count == OutputWindow.minimum)
        async let next = session.next()
        var decoder = ReceiveBuffer()
        decoder.append(try #require(try await pipe.right.read(upTo: 64)))
        #expect(try ShellFrame.next(from: &decoder) == .received(UInt64(OutputWindow.minimum)))
        try await pipe.right.write(ShellFrame.exited(.status(0)).encoded)
        guard case .exited(.status(0)) = try await next else { throw KithError(.internal, "No end.") }
    }

    @Test func `a window of another size that stands still holds nothing back and fills no memory`() async throws {
        let carrier = CuttableCarrier(service)
        let still = try await open(carrier, "exec sh", terminal: Self.terminal)
        let session = try await ShellSession.attach(
            .init(session: still.id, size: Shell.Size(columns: 40, rows: 10)), on: nil, client: Client(carrier))
        try await session.write(Array("head -c 4000000 /dev/zero | tr '\\0' x; echo all-do''ne; sleep 60\n".utf8))
        // The screen may be drawn anew meanwhile, in place of bytes.
        var end: [UInt8] = []
        while !String(decoding: end, as: UTF8.self).contains("all-done"), let event = try await session.next() {
            switch event {
            case .output(let bytes), .screen(let bytes): end = Array((end + bytes).suffix(4_096))
            default: break
            }
        }
        #expect(try #require(service.running.all.first).held.output <= 2 << 20)
        session.close()
        still.close()
    }

    @Test func `a program that asks its terminal and never reads is not answered without end`() async throws {
        let folder = try TemporaryFolder()
        let carrier = CuttableCarrier(service)
        let session = try await open(carrier, "exec sh", terminal: Self.terminal)
        let talk = Conversation(session)
        try await talk.type("PS1=; stty raw -echo; echo beg''un\n")
        try await talk.expect("begun")
        // All of it is shown before the shell goes on, and nobody reads the answers.
        let asking = "awk 'BEGIN { for (i = 0; i < 100000; i++) printf \"\\033[c\" }'"
        try await talk.type("\(asking); : >'\(folder.path)/asked'; sleep 60\n")
        await session.detach()
        try await eventually { FileManager.default.fileExists(atPath: folder.path + "/asked") }
        #expect(try #require(service.running.all.first).held.input <= 128 << 10)
        session.close()
    }

    @Test func `a shell nobody comes back to is ended, and one that is over waits for nothing`() async throws {
        let clock = ManualClock()
        var options = Harness.options()
        options.clock = clock
        let service = ShellService(
            options: options, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let carrier = CuttableCarrier(service)
        let client = Client(carrier)
        let session = try await open(carrier, "exec cat", terminal: Self.terminal, keep: 3_600)
        await session.detach()
        try await eventually { try await client.call(Shell.Sessions.self, Nothing()).first?.endsIn == 3_600 }
        clock.advance(by: .seconds(3_599))
        #expect(try await client.call(Shell.Sessions.self, Nothing()).first?.endsIn == 1)
        // Who comes back has all the time again.
        let again = try await ShellSession.attach(
            .init(session: session.id, size: Self.terminal.size), on: nil, client: client)
        clock.advance(by: .seconds(3_600))
        await again.detach()
        try await eventually { try await client.call(Shell.Sessions.self, Nothing()).first?.endsIn == 3_600 }
        #expect(isAlive(session.process))
        clock.advance(by: .seconds(3_600))
        try await eventually { !isAlive(session.process) }
        try await eventually { try await client.call(Shell.Sessions.self, Nothing()).isEmpty }

        let other = try await open(carrier, "exec cat", terminal: Self.terminal, keep: 3_600)
        await other.detach()
        try await eventually { try await client.call(Shell.Sessions.self, Nothing()).first?.endsIn != nil }
        _ = try await client.call(Shell.Change.self, Shell.Change.Input(session: other.id, ends: true))
        try await eventually { clock.sleeperCount == 0 }
    }

    @Test func `a guest whose grant is taken is put out and told so, and the shell goes on`() async throws {
        let carrier = CuttableCarrier(service, caller: Self.laptop, grants: [.shell])
        let session = try await open(carrier, "exec sh", terminal: Self.terminal, sharing: .view)
        let talk = Conversation(session)
        try await talk.type("PS1=; stty -echo; echo beg''un\n")
        try await talk.expect("begun\r\n")
        let phone = Client(CuttableCarrier(service, caller: Self.phone, grants: [.shellView]))
        let viewing = try await ShellSession.attach(
            .init(session: session.id, isInteractive: false, size: Self.terminal.size), on: nil, client: phone)
        try await Conversation(viewing).expect("begun")
        async let reason = lastError(of: viewing)
        service.grantsChanged(for: try #require(Self.phone.device), to: [])
        #expect(try await reason.message == "The grant this shell needs was taken away.")
        try await talk.type("echo st''ill\n")
        try await talk.expect("still\r\n")
        session.close()
    }

    @Test func `a kept shell ends when its grant does`() async throws {
        let carrier = CuttableCarrier(service, caller: Self.laptop, grants: [.shell])
        let kept = try await open(carrier, "exec sleep 1000", terminal: Self.terminal)
        await kept.detach()
        guard case .device(let id, _, _) = Self.laptop else { return }
        service.grantsChanged(for: id, to: [.shell, .library])
        #expect(isAlive(kept.process))
        service.grantsChanged(for: id, to: [.shellView])
        try await eventually { !isAlive(kept.process) }
    }

    @Test func `every kept shell ends when the device stops`() async throws {
        let carrier = CuttableCarrier(service)
        let first = try await open(carrier, "exec sleep 1000", terminal: Self.terminal)
        let second = try await open(carrier, "trap '' HUP; sleep 1000")
        await first.detach()
        carrier.cut()
        await service.stop()
        #expect(!isAlive(first.process) && !isAlive(second.process))
    }

    @Test func `a command on pipes whose caller hangs up is not kept`() async throws {
        let carrier = CuttableCarrier(service)
        let session = try await open(carrier, "echo $$; sleep 1000")
        _ = try await session.next()
        session.close()
        try await eventually { !isAlive(session.process) }
    }

    @Test func `an interrupt key is answered before an hour of old output`() async throws {
        let carrier = CuttableCarrier(service)
        let session = try await open(carrier, "exec sh", terminal: Self.terminal)
        let talk = Conversation(session)
        try await talk.type("PS1=; echo rea''dy; seq 1 100000000\n")
        try await talk.expect("ready\r\n")
        // Nobody reads while output piles up.
        try await eventually { (service.running.all.first?.backlog ?? 0) >= 64 << 10 }
        try await session.write([3])
        try await session.write(Array("echo en''d\n".utf8))
        let before = try await talk.expect("end\r\n")
        #expect(talk.screens > 0)
        #expect(before.utf8.count < 400_000)
        session.close()
    }

    @Test func `a grant for one command runs that one, whatever is asked`() async throws {
        let forced = CuttableCarrier(service, caller: Self.laptop, grants: [.shellCommand("echo forced $KITH_COMMAND")])
        let session = try await open(forced, "rm -rf /nothing")
        #expect(try await collect(session).output == Array("forced rm -rf /nothing\n".utf8))
        let two = CuttableCarrier(
            service, caller: Self.laptop, grants: [.shellCommand("echo a"), .shellCommand("echo b")])
        #expect(try await collect(try await open(two, "echo b")).output == Array("b\n".utf8))
        await #expect(throws: KithError.self) { _ = try await open(two, "echo c") }
        let none = CuttableCarrier(service, caller: Self.laptop, grants: [.shellView, .shellAgent])
        await #expect(throws: KithError.self) { _ = try await open(none, "echo c") }
    }
}

struct OutputLogTests {
    @Test func `what is appended is found at its position until it is let go of`() {
        var log = OutputLog()
        var random = SeededRandom(seed: 7)
        var all: [(byte: UInt8, source: ShellProcess.Source)] = []
        for _ in 0..<500 {
            let source: ShellProcess.Source = Bool.random(using: &random) ? .output : .errorOutput
            let bytes = random.bytes(Int.random(in: 0..<5_000, using: &random))
            log.append(bytes, from: source)
            all += bytes.map { ($0, source) }
            if Int.random(in: 0..<4, using: &random) == 0 {
                log.forget(before: UInt64.random(in: log.start...log.end, using: &random))
            }
            #expect(log.end == UInt64(all.count))
            #expect(log.start <= log.end)
        }
        var position = log.start
        while let piece = log.piece(from: position, limit: 700) {
            #expect(!piece.bytes.isEmpty && piece.bytes.count <= 700)
            let there = all[Int(position)..<Int(position) + piece.bytes.count]
            #expect(there.allSatisfy { $0.source == piece.source })
            #expect(there.map(\.byte) == Array(piece.bytes))
            position += UInt64(piece.bytes.count)
        }
        #expect(position == log.end)
    }

    @Test func `the window follows what the link carries`() {
        // 1 MB a second, 20 ms there and back.
        var window = OutputWindow(at: 0)
        var now = Duration.zero
        var inFlight: [(position: UInt64, arrives: Duration)] = []
        var linkFree = Duration.zero
        for _ in 0..<20_000 {
            while let first = inFlight.first, first.arrives <= now {
                let isSound = window.received(first.position, at: now)
                #expect(isSound)
                inFlight.removeFirst()
            }
            while window.room >= 4_096 {
                window.sent(4_096, at: now)
                linkFree = max(linkFree, now) + .microseconds(4_096)
                inFlight.append((window.sent, linkFree + .milliseconds(20)))
            }
            now += .microseconds(500)
        }
        // The link is busy, and the queue before it is about the time that was meant.
        #expect(window.sent > 9_000_000)
        #expect(window.limit > 50_000 && window.limit < 300_000)
        let isSound = window.received(window.sent + 1, at: now)
        #expect(!isSound)
    }
}

/// The person's ssh agent, asked from a session.
struct AgentTests {
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/ssh-agent"), "OpenSSH is not installed"))
    func `a real ssh agent lists and signs through a session, and only with the grant`() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-agent-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let socket = folder.appendingPathComponent("a").path
        let agent = Process()
        agent.executableURL = URL(fileURLWithPath: "/usr/bin/ssh-agent")
        agent.arguments = ["-D", "-a", socket]
        agent.standardOutput = FileHandle.nullDevice
        agent.standardError = FileHandle.nullDevice
        try agent.run()
        defer { agent.end() }
        try await eventually { FileManager.default.fileExists(atPath: socket) }

        let service = ShellService(
            options: Harness.options(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let id = DeviceKey().id
        let caller = Caller.device(id, name: "laptop", paired: true)
        let line = """
            cd \(folder.path) && ssh-keygen -q -t ed25519 -N '' -f key && ssh-add -q key && rm key && ssh-add -L \
            && echo text | ssh-keygen -Y sign -n test -f key.pub && stat -c %a $(dirname $SSH_AUTH_SOCK) \
            && echo $SSH_AUTH_SOCK
            """
        let without = CuttableCarrier(service, caller: caller, grants: [.shell])
        await #expect(throws: KithError.self) {
            _ = try await ShellSession.open(
                .init(commandLine: line, forwardsAgent: true), on: nil, client: Client(without))
        }
        let with = CuttableCarrier(service, caller: caller, grants: [.shell, .shellAgent])
        let session = try await ShellSession.open(
            .init(commandLine: line, forwardsAgent: true), on: nil, client: Client(with))
        try session.forwardAgent(at: socket)
        let result = try await collect(session)
        let output = String(decoding: result.output, as: UTF8.self)
        #expect(result.exit == .status(0), "\(String(decoding: result.error, as: UTF8.self))")
        #expect(output.contains("ssh-ed25519 ") && output.contains("BEGIN SSH SIGNATURE") && output.contains("700\n"))
        let there = try #require(output.split(separator: "\n").last)
        try await eventually { !FileManager.default.fileExists(atPath: String(there)) }
    }
}
