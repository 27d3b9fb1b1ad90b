import Foundation
import KithAPI
import KithNode
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithShell

/// Numbers of the other end that a shell's arithmetic cannot hold.
struct ShellNumberTests {
    @Test func `a signal that no system has is none`() throws {
        for name in ["2147483647", "2147483648", "65", "0", "-1", "99999999999"] {
            guard let signal = ShellSignal(name) else { continue }
            #expect(signal.number == nil)
            #expect(ShellExit.signal(signal, dumpedCore: false).shellStatus == 128)
        }
        #expect(try #require(ShellSignal("64")).number == 64)
    }

    private func session(hearing frames: [ShellFrame], over pipe: KithAPI.Pipe) async throws -> ShellSession {
        for frame in frames { try await pipe.right.write(frame.encoded) }
        try await pipe.right.finish()
        let output = Shell.Open.Output(process: 1, shell: "/bin/sh", user: "", session: "a")
        return ShellSession(OpenedStream(output: output, stream: pipe.left), Shell.Open.Input())
    }

    @Test func `a jump to where no output ends is refused, and one to the last place is not`() async throws {
        let piece = ShellFrame.output([UInt8](repeating: 65, count: 60_000))
        let pipes = [KithAPI.Pipe(), KithAPI.Pipe()]
        let far = try await session(
            hearing: [.jump(1 << 62 - 1)] + Array(repeating: piece, count: 4), over: pipes[0])
        let error = await #expect(throws: KithError.self) { while try await far.next() != nil {} }
        #expect(error?.code == .invalid)
        let last = try await session(
            hearing: [.jump(ShellFrame.lastPosition)] + Array(repeating: piece, count: 4) + [.exited(.status(3))],
            over: pipes[1])
        var exit: ShellExit?
        while let event = try await last.next() { if case .exited(let status) = event { exit = status } }
        #expect(exit == .status(3))
        // Both ends stay open until here.
        for pipe in pipes { pipe.right.abort(.closed) }
    }

    /// A device whose shell says that it stands at a place.
    private struct Device: Carrier {
        let position: UInt64
        let pipe = KithAPI.Pipe()

        func call<M: KithAPI.Method>(
            _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
        ) async throws -> M.Output { throw KithError(.unsupported, M.name) }

        func open<M: KithAPI.StreamMethod>(
            _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
        ) async throws -> OpenedStream<M> {
            let session = Shell.Session(
                id: "a", process: 1, command: "", title: "", size: nil, owner: "", isOwn: true, sharing: .none,
                opened: .min, idle: .min, clients: .max, interactiveClients: .min, endsIn: .max, status: .min)
            let output = Shell.Attach.Output(session: session, keep: .max, inputPosition: .max, position: position)
            return OpenedStream(output: try #require(output as? M.Output), stream: pipe.left)
        }
    }

    @Test(arguments: [UInt64.max, 1 << 63, 1 << 61 + 1] as [UInt64])
    func `a shell that stands where none does is not attached to`(
        position: UInt64
    ) async throws {
        let device = Device(position: position)
        let error = await #expect(throws: KithError.self) {
            _ = try await ShellSession.attach(.init(session: "a"), on: nil, client: Client(device))
        }
        #expect(error?.code == .invalid)
    }

    @Test func `how long an echo was held is said as far as a number goes`() throws {
        var decoder = ReceiveBuffer()
        for held: Duration in [.seconds(Int64.max), .zero - .seconds(1), .microseconds(1 << 61)] {
            decoder.append(ShellFrame.echoed(input: 1, held: held).encoded)
            let expected = min(max(held, .zero), .microseconds(1 << 61))
            #expect(try ShellFrame.next(from: &decoder) == .echoed(input: 1, held: expected))
        }
    }

    @Test func `a window that was forgotten while its input waited comes back and types`() async throws {
        let go = FileManager.default.temporaryDirectory.path + "/kith-go-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: go) }
        let service = ShellService(
            options: Harness.options(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let carrier = CuttableCarrier(service)
        let line = "while [ ! -e '\(go)' ]; do sleep 0.02; done; exec cat >/dev/null"
        let session = try await ShellSession.open(
            Shell.Open.Input(commandLine: line, keep: 60), on: nil, client: Client(carrier))
        let shell = try #require(service.running.all.first)
        let window = Shell.Client()
        func attach(_ client: Shell.Client) throws -> HostedShell.Attached {
            try shell.attach(client, of: .owner, as: .interactive, size: nil, position: nil)
        }
        let lost = HostedShellEngine.Departure.lost(KithError(.closed, ""))
        // More than a pipe holds, so that most of it waits for the program to read.
        var key = try attach(window).key
        for _ in 0..<10 { try shell.received(.input([UInt8](repeating: 65, count: 50_000)), by: key) }
        await shell.detach(key, lost)
        for _ in 0..<40 { await shell.detach(try attach(Shell.Client()).key, lost) }
        let back = try attach(window)
        #expect(back.inputPosition == 0)
        key = back.key
        #expect(FileManager.default.createFile(atPath: go, contents: nil))
        while shell.held.input > 0 { await Task.yield() }
        try shell.received(.input([66]), by: key)
        #expect(shell.inputTaken(by: key) <= 1)
        session.close()
        await shell.end(HostedShellEngine.gone)
    }
}
