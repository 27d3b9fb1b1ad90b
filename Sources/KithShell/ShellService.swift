import Foundation
import KithAPI
import KithIO
public import KithIdentity
public import KithNode
package import KithWire
public import Logging
import Synchronization

/// Shells and commands for the devices that hold a `shell` grant.
///
/// A shell is a session of processes on a terminal of its own, or on pipes, run as the account of this process. It
/// ends with its stream, unless its caller asked for it to be kept (``Shell/Open/Input/keep``): then it waits for
/// somebody to attach. When it ends, by itself or not, all its processes are ended, those in the background and behind
/// `nohup` too; only what left the session on purpose (`setsid`, `tmux`) stays. On pipes a command has ended when nobody
/// holds its output any more. A grant that is taken away ends the sessions opened with it, kept or not.
public struct ShellService: Service {
    /// The settings of the service.
    public struct Options: Sendable {
        /// The shell to run, absolute; `nil`: the account's.
        public var shell: String?
        /// The search path; `nil`: that of this process.
        public var path: String?
        /// The variables a caller may set; a `*` at the end stands for anything.
        public var acceptedEnvironment = ["LANG", "LANGUAGE", "LC_*", "COLORTERM", "TERM", "TZ", "NO_COLOR"]
        /// The number of sessions that may run at once; one more is refused with `.exhausted`.
        public var maximumSessions = 256
        /// The number of sessions of one device that may run at once, kept ones included; the owner has no such limit.
        public var maximumSessionsPerDevice = 64
        /// The longest time a session is kept when nobody is attached.
        public var maximumKeep = Duration.seconds(7 * 86_400)
        /// The time a process has after SIGHUP before it gets SIGTERM.
        public var hangUpGrace = Duration.milliseconds(500)
        /// The time it has after SIGTERM before it gets SIGKILL.
        public var terminateGrace = Duration.milliseconds(1000)
        /// The clock that says when a kept session is over, and how long anybody is waited for.
        package var clock: any Ticker = ContinuousClock()

        /// Makes the default options.
        public init() {}
    }

    private let options: Options
    private let logger: Logger
    let running: RunningShells
    let screens = ShellScreens()
    /// The clock of the screens that are drawn for callers.
    var screenClock: any Ticker { options.clock }

    /// Makes the service.
    public init(options: Options = Options(), logger: Logger) {
        self.options = options
        self.logger = logger
        running = RunningShells()
    }

    /// ``Shell/Open``, ``Shell/Attach``, ``Shell/Sessions``, ``Shell/Change`` and ``Shell/Screen``.
    public var handlers: [Handler] {
        [
            .stream(Shell.Open.self) { try await open($0, context: $1, pending: $2) },
            .stream(Shell.Attach.self) { try await attach($0, context: $1, pending: $2) },
            .call(Shell.Sessions.self) { _, context in
                running.all.filter { $0.access(of: context.caller, holding: context.grants) > .none }
                    .map { $0.description(for: context.caller) }
                    .sorted { ($0.opened, $0.id) < ($1.opened, $1.id) }
            },
            .call(Shell.Change.self) { try await change($0, context: $1) },
            .stream(Shell.Screen.self) { try await screen($0, context: $1, pending: $2) },
        ]
    }

    /// Ends the sessions a device may not have any more, and puts it out of those of others.
    public func grantsChanged(for device: DeviceID, to grants: [Grant]) {
        for shell in running.all { shell.grantsChanged(for: device, to: grants) }
    }

    /// Ends every session.
    public func stop() async {
        await withTaskGroup { group in
            for shell in running.all {
                group.addTask { await shell.end(KithError(.closed, "The device stops.")) }
            }
        }
    }

    // MARK: - The methods

    private func open(
        _ input: Shell.Open.Input, context: CallContext, pending: PendingStream<Shell.Open>
    ) async throws {
        let account = ShellAccount.current()
        var input = input
        let forced = try Self.forcedCommand(for: input, context)
        let asked = input.commandLine ?? input.command.map(Options.commandLine(for:)) ?? ""
        if let forced {
            input.command = nil
            input.commandLine = forced
            // The line was written to run there, and so.
            input.directory = nil
            input.environment = [:]
        }
        guard input.client.id.count == 16 else { throw KithError(.invalid, "The client's name is not 16 bytes.") }
        var plan = try options.plan(
            for: input, account: account, caller: context.caller,
            inherited: ProcessInfo.processInfo.environment)
        if forced != nil, !asked.isEmpty { plan.environment["KITH_COMMAND"] = asked }
        let keep = input.keep.map { min(Duration.seconds($0), options.maximumKeep) }.flatMap { $0 > .zero ? $0 : nil }
        if input.forwardsAgent, context.caller != .owner, !context.grants.allows(.shellAgent) {
            throw KithError(
                .denied,
                "Forwarding the ssh agent needs the grant shell:agent on the other device, or leave out -A.")
        }
        let device = context.caller.device
        try running.reserve(
            for: device, limit: options.maximumSessions, perDevice: options.maximumSessionsPerDevice)
        let shell: HostedShell
        var agent: AgentRelay.Listener?
        var protected: ProtectedFiles.Entry?
        do {
            if input.forwardsAgent {
                let listener = try AgentRelay.Listener()
                agent = listener
                protected = try context.protection?.protect(listener.path)
                plan.environment["SSH_AUTH_SOCK"] = listener.path
            }
            let process = try ShellProcess(plan, on: try running.reactor())
            shell = HostedShell(
                process,
                profile: HostedShellEngine.Profile(
                    id: running.freshName(), command: asked.prefix(bytes: 1_024), owner: context.caller,
                    opened: Int64(Date().timeIntervalSince1970), keep: keep, forcedCommand: forced,
                    size: input.terminal?.size),
                sharing: input.sharing, clock: options.clock,
                onEnd: { [running] in running.remove($0) })
        } catch {
            agent?.close()
            if let protected { context.protection?.release(protected) }
            running.release(device)
            throw error
        }
        running.insert(shell)
        if let agent {
            let (client, reactor) = (input.client.id, try running.reactor())
            let offering = Task(name: "kith agent of \(shell.profile.id)") {
                await shell.offerAgent(of: client, at: agent, reactor)
            }
            let (entry, protection) = (protected, context.protection)
            Task(name: "kith agent end") {
                await shell.processEnded()
                offering.cancel()
                await offering.value
                if let entry { protection?.release(entry) }
            }
        }
        logger.debug(
            "shell started",
            metadata: ["process": "\(shell.process.leader)", "caller": "\(context.caller)"])
        let client = try shell.attach(
            input.client, of: context.caller, as: .interactive, size: input.terminal?.size, position: 0)
        shell.start()
        let stream: any ByteStream
        do {
            stream = try await pending.accept(
                Shell.Open.Output(
                    process: shell.process.leader, shell: plan.path, user: account.name, session: shell.profile.id,
                    keep: keep.map { UInt32(clamping: Int64($0 / .seconds(1))) })
            ).bytes
        } catch {
            await shell.end(KithError(.cancelled, "The caller was gone before the shell began."))
            throw error
        }
        try await serve(AttachedClient(client, of: shell, over: stream), context)
    }

    /// The one command a caller may run; `nil` when it may run any.
    private static func forcedCommand(
        for input: Shell.Open.Input, _ context: CallContext
    ) throws(KithError) -> String? {
        if context.caller == .owner || context.grants.allows(.shell) { return nil }
        let commands = context.grants.compactMap { if case .shellCommand(let line) = $0 { line } else { nil } }
        guard let only = commands.first else {
            throw KithError(
                .denied, "A new shell needs the grant shell; with shell:view, attach to one that is shared.")
        }
        if commands.count == 1 { return only }
        guard let line = input.commandLine, commands.contains(line) else {
            throw KithError(
                .denied, "The other device lets this one run: \(commands.joined(separator: "; ")). Name one of them.")
        }
        return line
    }

    private func attach(
        _ input: Shell.Attach.Input, context: CallContext, pending: PendingStream<Shell.Attach>
    ) async throws {
        guard input.client.id.count == 16 else { throw KithError(.invalid, "The client's name is not 16 bytes.") }
        let (shell, access) = try find(input.session, context)
        guard access == .interactive || !input.isInteractive else { throw Self.sharedForViewing(shell) }
        let client = try shell.attach(
            input.client, of: context.caller, as: input.isInteractive ? .interactive : .readOnly, size: input.size,
            position: input.position, scrollback: Int(min(input.scrollback, 100_000)))
        let stream: any ByteStream
        do {
            stream = try await pending.accept(
                Shell.Attach.Output(
                    session: shell.description(for: context.caller),
                    keep: shell.profile.keep.map { UInt32(clamping: Int64($0 / .seconds(1))) },
                    inputPosition: client.inputPosition, position: client.position)
            ).bytes
        } catch {
            await shell.detach(client.key, .lost((error as? KithError) ?? KithError(.closed, "The caller is gone.")))
            throw error
        }
        try await serve(AttachedClient(client, of: shell, over: stream), context)
    }

    /// Serves a client until it goes or the session ends, and lets it go.
    private func serve(_ attached: AttachedClient, _ context: CallContext) async throws {
        let (shell, key) = (attached.shell, attached.client.key)
        do {
            try await withTaskExecutorPreference(shell.process.executor) { try await attached.run() }
        } catch {
            await shell.detach(key, .lost(await Self.reason(error, shell, context)))
            throw error
        }
        await shell.detach(key, .told(isHeard: await attached.drain()))
    }

    /// Why a caller is gone.
    ///
    /// A command on pipes waits for one whose connection was lost, not for one that has died: that resets its stream,
    /// with the code a lost connection has, and its connection stands.
    private static func reason(_ error: any Error, _ shell: HostedShell, _ context: CallContext) async -> KithError {
        var reason = context.calledOff()
        if !shell.process.isTerminal, shell.profile.keep != nil, context.caller != .owner {
            for _ in 0..<10 where reason == nil {
                // Ends early when the call is called off, as wanted.
                try? await shell.clock.sleep(for: .milliseconds(50))
                reason = context.calledOff()
            }
            if reason == nil { return KithError(.cancelled, "The caller is gone.", cause: error) }
        }
        return reason ?? (error as? KithError) ?? KithError(.closed, "The call was called off.")
    }

    private static func sharedForViewing(_ shell: HostedShell) -> KithError {
        KithError(
            .denied, "This shell is shared for viewing only: --attach \(shell.profile.id) --view.")
    }

    private func change(_ input: Shell.Change.Input, context: CallContext) async throws -> Shell.Session {
        let (shell, _) = try find(input.session, context)
        guard context.caller == .owner || shell.isOwn(context.caller) else {
            throw KithError(.denied, "Only the device that opened a shell, and its own, may change it.")
        }
        if let sharing = input.sharing { shell.share(sharing) }
        let description = shell.description(for: context.caller)
        if input.ends { await shell.end(KithError(.closed, "The shell was ended from elsewhere.")) }
        return description
    }

    /// The session a name, or the beginning of one, stands for among those the caller may see.
    private func find(
        _ name: String, _ context: CallContext
    ) throws(KithError) -> (HostedShell, HostedShellEngine.Access) {
        let found = running.all.compactMap { shell -> (HostedShell, HostedShellEngine.Access)? in
            guard shell.profile.id.hasPrefix(name) else { return nil }
            let access = shell.access(of: context.caller, holding: context.grants)
            return access > .none ? (shell, access) : nil
        }
        guard let only = found.first, !name.isEmpty else {
            throw KithError(
                .notFound, "No shell \(name.prefix(16)) runs here. kith shell DEVICE --list shows those that do.")
        }
        guard found.count == 1 else {
            throw KithError(.invalid, "\(name.prefix(16)) is the beginning of more than one shell's name.")
        }
        return only
    }
}

/// The sessions of a device, and the one thread that waits for all of them.
final class RunningShells: Sendable {
    private struct State {
        var count = 0
        /// The number of sessions of each device.
        var counts: [DeviceID: Int] = [:]
        var shells: [String: HostedShell] = [:]
        var reactor: Reactor?
    }

    private let state = Mutex(State())

    var all: [HostedShell] { state.withLock { Array($0.shells.values) } }

    /// Counts a session of a device, or of the owner.
    func reserve(for device: DeviceID?, limit: Int, perDevice: Int) throws(KithError) {
        let refusal = state.withLock { state -> KithError? in
            if let device, state.counts[device, default: 0] >= perDevice {
                return KithError(
                    .exhausted, "This device runs \(perDevice) shells for that one already. Close one, or try later.")
            }
            guard state.count < limit else {
                return KithError(.exhausted, "This device runs \(limit) shells already. Close one, or try later.")
            }
            state.count += 1
            if let device { state.counts[device, default: 0] += 1 }
            return nil
        }
        if let refusal { throw refusal }
    }

    func release(_ device: DeviceID?) { state.withLock { Self.release(device, &$0) } }

    private static func release(_ device: DeviceID?, _ state: inout State) {
        state.count -= 1
        guard let device, let count = state.counts[device] else { return }
        state.counts[device] = count > 1 ? count - 1 : nil
    }

    func insert(_ shell: HostedShell) { state.withLock { $0.shells[shell.profile.id] = shell } }

    func remove(_ shell: HostedShell) {
        state.withLock { state in
            if state.shells.removeValue(forKey: shell.profile.id) != nil {
                Self.release(shell.profile.owner.device, &state)
            }
        }
    }

    /// A name no session has: eight letters and digits that cannot be taken for each other.
    func freshName() -> String {
        let letters = Array("abcdefghjkmnpqrstuvwxyz23456789")
        return state.withLock { state in
            while true {
                let name = String((0..<8).map { _ in letters[Int.random(in: 0..<letters.count)] })
                if state.shells[name] == nil { return name }
            }
        }
    }

    /// The waiting thread, started with the first shell.
    func reactor() throws -> Reactor {
        try state.withLock { state in
            if let reactor = state.reactor { return reactor }
            let reactor = try Reactor.forShells()
            state.reactor = reactor
            return reactor
        }
    }
}
