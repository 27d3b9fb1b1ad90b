package import KithAPI
import KithIO
import KithNode
package import KithWire

/// The hosting end of a shell, with a caller that sends what somebody made up: for fuzzers.
package struct ShellInspection: Sendable {
    private let reactor: Reactor

    /// Starts the thread that waits for the processes.
    package init() throws(KithError) { reactor = try .forShells() }

    /// Hosts `cat`, on a terminal of `size` or on pipes, for a caller that sends these bytes in pieces and hangs up.
    ///
    /// - Returns: how much output and input was held at the end.
    /// - Throws: what the caller would be told.
    package func host(
        _ bytes: [UInt8], inPiecesOf pieceSize: Int, size: Shell.Size?, isInteractive: Bool, position: UInt64?
    ) async throws -> (output: Int, input: Int) {
        let plan = ShellProcess.Plan(
            path: "/bin/cat", arguments: ["cat"], environment: [:], directory: "/", terminal: size)
        let shell = HostedShell(
            try ShellProcess(plan, on: reactor),
            profile: HostedShellEngine.Profile(id: "fuzz", command: "cat", owner: .owner, opened: 0, size: size),
            sharing: .none, onEnd: { _ in })
        let client = try shell.attach(
            Shell.Client(wantsEchoes: true), of: .owner, as: isInteractive ? .interactive : .readOnly, size: size,
            position: position, scrollback: 100)
        shell.start()
        let pipe = Pipe()
        let attached = AttachedClient(client, of: shell, over: pipe.right)
        let failure = await withTaskGroup(of: (any Error)?.self) { group in
            group.addTask {
                do { try await attached.run() } catch { return error }
                return nil
            }
            group.addTask {
                // It is cut off where it broke the protocol.
                guard (try? await Self.send(bytes, inPiecesOf: pieceSize, to: pipe.left)) != nil else { return nil }
                while ((try? await pipe.left.read(upTo: 64 << 10)) ?? nil) != nil {}
                return nil
            }
            var failure: (any Error)?
            for await end in group { failure = failure ?? end }
            return failure
        }
        let held = shell.held
        await shell.end(HostedShellEngine.gone)
        if let failure { throw failure }
        return held
    }

    private static func send(_ bytes: [UInt8], inPiecesOf size: Int, to stream: any ByteStream) async throws {
        for start in stride(from: 0, to: bytes.count, by: size) {
            try await stream.write(Array(bytes[start..<min(start + size, bytes.count)]))
        }
        try await stream.finish()
    }
}
