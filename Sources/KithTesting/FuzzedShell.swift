internal import KithAPI
internal import KithShell
internal import KithWire

/// A caller's end of a shell, and the numbers that a device gets from a caller.
enum FuzzedShell {
    static func run(_ bytes: [UInt8]) async {
        frames(bytes)
        await session(bytes)
    }

    /// Reads the frames, in pieces of the first byte's size, and tells a window what they acknowledge.
    private static func frames(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let size = Int(first) % 61 + 1
        var decoder = ShellFrameDecoder()
        var window = OutputWindow(at: 0)
        var now = Duration.zero
        for start in stride(from: 1, to: bytes.count, by: size) {
            decoder.append(Array(bytes[start..<min(start + size, bytes.count)]))
            while let frame = try? decoder.next() {
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
