internal import KithAPI
internal import KithNode
internal import KithShell
internal import KithWire

/// A caller's end of a shell, and the numbers that a device gets from a caller.
enum FuzzedShell {
    static func run(_ bytes: [UInt8]) async {
        frames(bytes)
        await session(bytes)
    }

    private static let inspection = try? ShellInspection()

    /// The device's end of a shell, and a hostile caller: the first byte says on what, the second in which pieces the
    /// rest comes; or that the rest asks for a shell, which is planned and never started.
    static func host(_ bytes: [UInt8]) async {
        guard bytes.count > 1, let inspection else { return }
        let (flags, rest) = (bytes[0], Array(bytes.dropFirst(2)))
        if flags & 128 != 0 { return plan(rest) }
        let size = Shell.Size(columns: UInt16(bytes[1]) + 1, rows: 24)
        // A refusal is an answer.
        let held = try? await inspection.host(
            rest, inPiecesOf: Int(bytes[1]) + 1, size: flags & 1 == 0 ? nil : size, isInteractive: flags & 2 == 0,
            position: flags & 4 == 0 ? 0 : flags & 8 == 0 ? nil : .max)
        if let held {
            precondition(held.input <= 2 * ShellFrame.inputWindow && held.output <= 8 << 20, "What is held is bounded")
        }
    }

    private static func plan(_ bytes: [UInt8]) {
        guard let input = try? CBORDecoder().decode(Shell.Open.Input.self, from: bytes) else { return }
        var account = ShellAccount.current()
        (account.home, account.shell) = ("/home/a", "/bin/sh")
        guard
            let plan = try? ShellService.Options().plan(
                for: input, account: account, caller: .owner, inherited: ["PATH": "/bin"])
        else { return }
        precondition(plan.path == "/bin/sh" && plan.directory.hasPrefix("/"), "A shell begins somewhere")
        precondition(plan.environment["HOME"] == "/home/a", "Nobody else says where home is")
        precondition(plan.environment["LD_PRELOAD"] == nil, "Only variables that are accepted are set")
    }

    /// Reads the frames, in pieces of the first byte's size, and tells a window what they acknowledge.
    private static func frames(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let size = Int(first) % 61 + 1
        var decoder = ReceiveBuffer()
        var window = OutputWindow(at: 0)
        var now = Duration.zero
        for start in stride(from: 1, to: bytes.count, by: size) {
            decoder.append(Array(bytes[start..<min(start + size, bytes.count)]))
            while let frame = try? ShellFrame.next(from: &decoder) {
                _ = frame.encoded
                now += .milliseconds(7)
                window.sent(min(window.room, 1_000), at: now)
                switch frame {
                case .received(let position): _ = window.received(position, at: now)
                case .exited(let exit): _ = exit.shellStatus
                default: break
                }
                precondition(window.received <= window.sent, "Nothing is acknowledged that was not sent")
            }
        }
    }

    private static func session(_ bytes: [UInt8]) async {
        let pipe = Pipe()
        let output = Shell.Open.Output(process: 1, shell: "/bin/sh", user: "", session: "fuzz")
        let session = ShellSession(OpenedStream(output: output, stream: pipe.left), Shell.Open.Input())
        guard (try? await session.write(Array(repeating: 7, count: 100))) != nil,
            (try? await pipe.right.write(bytes)) != nil, (try? await pipe.right.finish()) != nil
        else { return }
        var count = 0
        // It ends with the stream at the latest, and that is an error.
        while let event = (try? await session.next()) ?? nil {
            count += 1
            precondition(count <= bytes.count + 1, "An event has a byte at least")
            if case .exited(let exit) = event { _ = exit.shellStatus }
        }
        session.close()
        // Its end stays open until here: what the session tells it must not fail for that.
        pipe.right.abort(.closed)
    }
}
