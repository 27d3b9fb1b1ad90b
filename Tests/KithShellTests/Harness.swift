import Foundation
import KithAPI
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithShell

/// Calls a shell service through a pipe in this process, as a node would.
final class Harness: Sendable {
    let service: ShellService
    let caller: Caller

    init(options: ShellService.Options = Harness.options(), caller: Caller = .owner) {
        service = ShellService(options: options, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        self.caller = caller
    }

    /// Calls a service that another one calls too.
    init(service: ShellService, caller: Caller) {
        self.service = service
        self.caller = caller
    }

    /// A shell every machine has, that reads no profile of the account.
    static func options() -> ShellService.Options {
        var options = ShellService.Options()
        options.shell = "/bin/sh"
        options.hangUpGrace = .milliseconds(300)
        options.terminateGrace = .milliseconds(300)
        return options
    }

    /// A session with the task that serves it; the service has let go of everything when the task is done.
    struct Running {
        let session: ShellSession
        let serving: Task<Void, any Error>
        let pipe: KithAPI.Pipe
    }

    func open(_ input: Shell.Open.Input) async throws -> Running {
        let pipe = KithAPI.Pipe()
        let (accepted, acceptance) = AsyncThrowingStream.makeStream(of: Shell.Open.Output.self)
        guard case .stream(let body) = service.handlers[0].body else { fatalError("shell.open is a stream") }
        let context = CallContext(
            caller: caller, grants: caller == .owner ? [] : [.shell], client: Client(NoCarrier()))
        let serving = Task {
            do {
                try await body(input, context) { output in
                    if let output = output as? Shell.Open.Output { acceptance.yield(output) }
                    return pipe.right
                }
            } catch {
                acceptance.finish(throwing: error)
                throw error
            }
        }
        for try await output in accepted {
            return Running(
                session: ShellSession(OpenedStream(output: output, stream: pipe.left), input), serving: serving,
                pipe: pipe)
        }
        throw KithError(.internal, "never accepted")
    }

    /// Runs a line on pipes to its end.
    func run(
        _ line: String, input: [UInt8] = [], environment: [String: String] = [:], directory: String? = nil
    ) async throws -> (output: String, error: String, exit: ShellExit?) {
        let running = try await open(
            Shell.Open.Input(commandLine: line, environment: environment, directory: directory))
        let session = running.session
        async let fed: Void = {
            try await session.write(input)
            try await session.endInput()
        }()
        let result = try await collect(session)
        try await fed
        try await running.serving.value
        return (
            String(decoding: result.output, as: UTF8.self), String(decoding: result.error, as: UTF8.self), result.exit
        )
    }
}

struct NoCarrier: Carrier {
    func call<M: KithAPI.Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output { throw KithError(.unsupported, "no carrier") }

    func open<M: KithAPI.StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> { throw KithError(.unsupported, "no carrier") }
}

/// Everything a session says until it has exited.
func collect(_ session: ShellSession) async throws -> (output: [UInt8], error: [UInt8], exit: ShellExit?) {
    var output: [UInt8] = []
    var error: [UInt8] = []
    for try await event in session.events {
        switch event {
        case .output(let bytes): output += bytes
        case .errorOutput(let bytes): error += bytes
        case .exited(let exit): return (output, error, exit)
        default: break
        }
    }
    return (output, error, nil)
}

/// A session on a terminal, read by what is expected next.
final class Conversation {
    let session: ShellSession
    private var seen: [UInt8] = []
    /// How often the connection was lost, and how often the screen was drawn.
    private(set) var interruptions = 0
    private(set) var screens = 0

    init(_ session: ShellSession) { self.session = session }

    func type(_ text: String) async throws { try await session.write(Array(text.utf8)) }

    /// Reads on until `text` has appeared, and gives what came before it.
    @discardableResult
    func expect(_ text: String) async throws -> String {
        let wanted = Array(text.utf8)
        while true {
            if let at = seen.firstRange(of: wanted) {
                let before = String(decoding: seen[..<at.lowerBound], as: UTF8.self)
                seen.removeFirst(at.upperBound)
                return before
            }
            guard let event = try await session.next() else {
                throw KithError(.closed, "ended before \(text.debugDescription) came")
            }
            switch event {
            case .output(let bytes): seen += bytes
            case .screen(let bytes):
                seen += bytes
                screens += 1
            case .interrupted: interruptions += 1
            default: break
            }
            if case .exited(let exit) = event {
                throw KithError(.closed, "exited \(exit) before \(text.debugDescription) came")
            }
        }
    }

    func exit() async throws -> ShellExit? {
        while let event = try await session.next() {
            if case .exited(let exit) = event { return exit }
        }
        return nil
    }
}

/// Whether a process is alive: there, and no zombie.
func isAlive(_ process: Int32) -> Bool {
    guard kill(process, 0) == 0 else { return false }
    guard let stat = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else {
        return FileManager.default.fileExists(atPath: "/proc") ? false : true
    }
    return !(stat.split(separator: ")").last?.hasPrefix(" Z") ?? false)
}
