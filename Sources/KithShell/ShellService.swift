import Foundation
import KithAPI
public import KithNode
import KithWire
public import Logging
import Synchronization

/// Shells and commands for the devices that hold the `shell` grant.
///
/// A shell is a session of processes on a terminal of its own, run as the account of this process. It ends with its
/// stream: when the caller goes, its connection breaks, or its grant is taken away, all its processes are ended,
/// those in the background and behind `nohup` too; only what left the session on purpose (`setsid`, `tmux`) stays.
/// When the first process ends by itself, what it left in the background gets SIGHUP and no more.
public struct ShellService: Service {
    /// What an owner may want otherwise.
    public struct Options: Sendable {
        /// The shell to run, absolute; `nil`: the account's.
        public var shell: String?
        /// The search path; `nil`: that of this process.
        public var path: String?
        /// The variables a caller may set; a `*` at the end stands for anything.
        public var acceptedEnvironment = ["LANG", "LANGUAGE", "LC_*", "COLORTERM", "TERM", "TZ", "NO_COLOR"]
        /// How many sessions may run at once; one more is refused with `.exhausted`.
        public var maximumSessions = 256
        /// How long a process may take over SIGHUP before it gets SIGTERM.
        public var hangUpGrace = Duration.milliseconds(500)
        /// How long it may take over SIGTERM before it gets SIGKILL.
        public var terminateGrace = Duration.milliseconds(1000)

        /// Makes the default options.
        public init() {}
    }

    private let options: Options
    private let logger: Logger
    private let running: Running

    /// Makes the service.
    public init(options: Options = Options(), logger: Logger) {
        self.options = options
        self.logger = logger
        running = Running()
    }

    /// The one method, ``Shell/Open``.
    public var handlers: [Handler] {
        [.stream(Shell.Open.self) { try await open($0, context: $1, pending: $2) }]
    }

    private func open(
        _ input: Shell.Open.Input, context: CallContext, pending: PendingStream<Shell.Open.Output>
    ) async throws {
        let account = ShellAccount.current()
        let plan = try options.plan(
            for: input, account: account, caller: context.caller,
            inherited: ProcessInfo.processInfo.environment)
        try running.enter(limit: options.maximumSessions)
        defer { running.leave() }

        let process = try ShellProcess(plan, readiness: try running.readiness())
        logger.debug("shell started", metadata: ["process": "\(process.leader)", "caller": "\(context.caller)"])
        defer { logger.debug("shell ended", metadata: ["process": "\(process.leader)"]) }
        let stream: any ByteStream
        do {
            stream = try await pending.accept(
                Shell.Open.Output(process: process.leader, shell: plan.path, user: account.name))
        } catch {
            await process.close(endingAll: true)
            throw error
        }
        try await ShellServerSession(process: process, stream: stream).run()
    }
}

/// How many sessions run, and the one thread that waits for all of them.
private final class Running: Sendable {
    private struct State {
        var count = 0
        var readiness: Readiness?
    }

    private let state = Mutex(State())

    func enter(limit: Int) throws(KithError) {
        let isFull = state.withLock { state in
            guard state.count < limit else { return true }
            state.count += 1
            return false
        }
        if isFull { throw KithError(.exhausted, "This device runs \(limit) shells already. Close one, or try later.") }
    }

    func leave() { state.withLock { $0.count -= 1 } }

    /// The waiting thread, started with the first shell.
    func readiness() throws -> Readiness {
        try state.withLock { state in
            if let readiness = state.readiness { return readiness }
            let readiness = try Readiness()
            state.readiness = readiness
            return readiness
        }
    }
}
