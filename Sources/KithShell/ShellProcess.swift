import CKithSystem
import Foundation
package import KithAPI
package import KithIO
package import KithWire
import Synchronization

/// A running shell or command, with its supervisor: see KithSpawn.h for who ends whom.
package final class ShellProcess: Sendable {
    /// The program to start.
    package struct Plan: Hashable, Sendable {
        /// The program, absolute.
        package var path: String
        /// Its arguments, the first being its own name.
        package var arguments: [String]
        /// Its whole environment.
        package var environment: [String: String]
        /// The folder it starts in.
        package var directory: String
        /// The folder it starts in when that cannot be entered; `nil` makes it an error.
        package var fallbackDirectory: String?
        /// The size of its terminal; `nil`: pipes.
        package var terminal: Shell.Size?
        /// The time a process has after SIGHUP before it gets SIGTERM.
        package var hangUpGrace = Duration.milliseconds(500)
        /// The time it has after SIGTERM before it gets SIGKILL.
        package var terminateGrace = Duration.milliseconds(1000)
    }

    /// The result of a read.
    package enum Read: Sendable {
        case bytes([UInt8])
        case nothingYet
        case end
    }

    /// The outcome of a write.
    package enum Written: Hashable, Sendable {
        /// So many bytes were taken, at least one; `interrupts`: they interrupt, quit or stop what runs.
        case bytes(Int, interrupts: Bool)
        /// The program does not read now.
        case full
        /// The program will never read any more.
        case gone
    }

    /// The stream a program writes to.
    package enum Source: Hashable, Sendable {
        case output, errorOutput
    }

    /// The number of the process.
    package let leader: Int32
    private let session: Int32
    package let isTerminal: Bool
    private let supervisor: Int32
    private let watches: Watches
    /// The executor on which tasks that read and write it run best.
    package var executor: any TaskExecutor { watches.control.executor }
    private let control: Int32
    private let output: Int32
    private let errorOutput: Int32
    private let input: Mutex<Input>
    /// True until ``close()``: then the numbers of its descriptors may soon be another's.
    private let isOpen = Mutex(true)

    /// Where tasks wait for its descriptors.
    private struct Watches {
        let reactor: Reactor
        let control: Watch
        let output: Watch
        let errorOutput: Watch?

        init(_ spawned: kith_spawned, on reactor: Reactor) throws(KithError) {
            self.reactor = reactor
            control = try reactor.watch(terminal: spawned.control)
            output = try reactor.watch(terminal: spawned.output)
            errorOutput = spawned.error >= 0 ? try reactor.watch(terminal: spawned.error) : nil
        }
    }

    /// Where it is written to, until that is closed.
    private struct Input {
        let descriptor: Int32
        let watch: Watch
        var isClosed = false

        mutating func close() {
            if isClosed { return }
            isClosed = true
            watch.close()
            _ = Foundation.close(descriptor)
        }
    }

    /// Starts it, and returns when it runs.
    ///
    /// - Throws: `.notFound` or `.denied` for a folder or a program that cannot be used, `.exhausted` when there is
    ///   no room for another process, `.invalid` for text with a NUL.
    package init(_ plan: Plan, on reactor: Reactor) throws(KithError) {
        let arguments = try Self.packed(plan.arguments)
        let environment = try Self.packed(plan.environment.map { "\($0.key)=\($0.value)" }.sorted())
        var options = kith_spawn_options()
        if let size = plan.terminal {
            options.terminal = 1
            options.columns = size.columns
            options.rows = size.rows
            options.pixel_width = size.pixelWidth
            options.pixel_height = size.pixelHeight
        }
        options.hangup_milliseconds = UInt32(clamping: Int(plan.hangUpGrace / .milliseconds(1)))
        options.terminate_milliseconds = UInt32(clamping: Int(plan.terminateGrace / .milliseconds(1)))
        var spawned = kith_spawned()
        var stage: Int32 = 0
        let result = unsafe kith_spawn(
            plan.path, arguments, arguments.count, environment, environment.count, plan.directory,
            plan.fallbackDirectory ?? "", &options, &spawned, &stage)
        guard result == 0 else { throw Self.failure(-result, stage: Int(stage), plan) }
        leader = spawned.leader
        session = spawned.session
        isTerminal = plan.terminal != nil
        supervisor = spawned.supervisor
        control = spawned.control
        output = spawned.output
        errorOutput = spawned.error
        do {
            watches = try Watches(spawned, on: reactor)
            input = Mutex(
                Input(
                    descriptor: spawned.input, watch: try reactor.watch(terminal: spawned.input, reads: false)))
        } catch {
            Self.giveUp(spawned)
            throw error
        }
    }

    /// Ends what nobody can wait for.
    private static func giveUp(_ spawned: kith_spawned) {
        for descriptor in [spawned.input, spawned.output, spawned.error] where descriptor >= 0 {
            _ = Foundation.close(descriptor)
        }
        kith_spawn_hang_up(spawned.control)
        // As long as the graces and a little more: not here.
        Thread.detachNewThread {
            let isEnded = kith_spawn_reap(spawned.supervisor) != 0
            _ = Foundation.close(spawned.control)
            if !isEnded { kith_spawn_kill_session(spawned.session) }
        }
    }

    private static func packed(_ strings: [String]) throws(KithError) -> [CChar] {
        var bytes: [CChar] = []
        for string in strings {
            for byte in string.utf8 {
                guard byte != 0 else {
                    throw KithError(.invalid, "A command, a folder or a variable may not hold a NUL character.")
                }
                bytes.append(CChar(bitPattern: byte))
            }
            bytes.append(0)
        }
        return bytes
    }

    private static func failure(_ error: Int32, stage: Int, _ plan: Plan) -> KithError {
        let reason = unsafe String(cString: strerror(error))
        let code: KithError.Code
        switch error {
        case ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG: code = .notFound
        case EACCES, EPERM, ENOEXEC: code = .denied
        case E2BIG: code = .invalid
        case EAGAIN, ENOMEM, EMFILE, ENFILE, ENOSPC: code = .exhausted
        default: code = .internal
        }
        return switch stage {
        case KITH_SPAWN_DIRECTORY: KithError(code, "Cannot start in \(plan.directory): \(reason).")
        case KITH_SPAWN_EXECUTE: KithError(code, "Cannot run \(plan.path): \(reason).")
        default: KithError(code, "Cannot start a process: \(reason).")
        }
    }

    // MARK: - Reading

    /// Reads what is there, at most `buffer.count` bytes.
    package func read(_ source: Source, using buffer: inout [UInt8]) throws(KithError) -> Read {
        let count = unsafe kith_read_available(descriptor(source), &buffer, buffer.count)
        if count > 0 { return .bytes(Array(buffer[..<count])) }
        if count == 0 { return .end }
        if Int32(-count) == EAGAIN { return .nothingYet }
        throw KithError(
            .internal, unsafe "Reading a shell's output failed: \(String(cString: strerror(Int32(-count)))).")
    }

    /// The exit of the process; `nil` while it runs.
    ///
    /// - Throws: `.internal` when its supervisor was killed.
    package func exit() throws(KithError) -> ShellExit? {
        var end = kith_spawn_end()
        let result = unsafe kith_spawn_ended(control, &end)
        if result == 0 { return nil }
        guard result == 1 else { throw KithError(.internal, "The process that watches over the shell was killed.") }
        if end.by_signal == 0 { return .status(end.code) }
        return .signal(ShellSignal(number: end.code), dumpedCore: end.dumped_core != 0)
    }

    /// Waits until one of the sources has something or, with `exit`, the process has ended.
    package func wait(for sources: [Source], exit: Bool) async throws {
        var waited = exit ? [watches.control] : []
        for source in sources {
            if let watch = source == .output ? watches.output : watches.errorOutput { waited.append(watch) }
        }
        await watches.reactor.wait(for: .reading, ofAny: waited)
        try Task.checkCancellation()
    }

    private func descriptor(_ source: Source) -> Int32 { source == .output ? output : errorOutput }

    // MARK: - Writing

    /// Waits until its standard input takes bytes again, after a write has found it full.
    package func waitForRoom() async throws {
        let watch = input.withLock { $0.isClosed ? nil : $0.watch }
        await watch?.wait(for: .writing)
        try Task.checkCancellation()
    }

    private func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
        isTerminal
            ? unsafe kith_write_terminal(descriptor, bytes.baseAddress, bytes.count)
            : unsafe kith_write_available(descriptor, bytes.baseAddress, bytes.count)
    }

    /// Writes to its standard input what is taken at once, which must be a byte at least.
    package func write(_ bytes: ArraySlice<UInt8>) -> Written {
        input.withLock { input in
            guard !input.isClosed else { return .gone }
            // Asked before: what is interrupted may change what its terminal makes of a key.
            let interrupts = interrupts(bytes)
            let count = unsafe bytes.withUnsafeBytes { unsafe write($0, to: input.descriptor) }
            if count > 0 { return .bytes(count, interrupts: interrupts) }
            if Int32(-count) == EAGAIN { return .full }
            if !isTerminal { input.close() }
            return .gone
        }
    }

    /// Tells whether typing these bytes now interrupts, quits or stops what runs, and makes the terminal forget its
    /// output.
    private func interrupts(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard isTerminal else { return false }
        return unsafe bytes.withUnsafeBufferPointer {
            unsafe kith_spawn_interrupts(output, $0.baseAddress, $0.count) != 0
        }
    }

    /// Ends its standard input by closing the pipe; of a terminal, returns what to type for that.
    package func endInput() -> [UInt8] {
        guard isTerminal else {
            input.withLock { $0.close() }
            return []
        }
        let key = isOpen.withLock { isOpen -> UInt8? in
            var key: UInt8 = 0
            guard isOpen, unsafe kith_spawn_end_of_file(output, &key) != 0 else { return nil }
            return key
        }
        guard let key else { return [] }
        // On a line already begun the first only sends the line.
        return [key, key]
    }

    /// Tells it the new size of its terminal; without one it does nothing.
    package func resize(_ size: Shell.Size) {
        guard isTerminal else { return }
        isOpen.withLock { isOpen in
            guard isOpen else { return }
            // A size that cannot be set leaves the old one, which is what a person would see anyway.
            _ = kith_spawn_resize(output, size.columns, size.rows, size.pixelWidth, size.pixelHeight)
        }
    }

    /// Signals what runs in the foreground of its terminal, or without one its first process's group.
    package func signal(_ signal: ShellSignal) {
        guard let number = signal.number, number > 0, number < 65 else { return }
        isOpen.withLock { isOpen in
            guard isOpen else { return }
            // A process that has just ended needs no signal.
            _ = kith_spawn_signal(control, isTerminal ? output : -1, number)
        }
    }

    // MARK: - The end

    /// Ends every process that is left of the session, and returns when its supervisor has done its work.
    ///
    /// Call it once, after the last use. Does not react to cancellation; takes at most the two graces and two seconds.
    package func close() async {
        input.withLock { $0.close() }
        isOpen.withLock { $0 = false }
        watches.output.close()
        _ = Foundation.close(output)
        if let watch = watches.errorOutput {
            watch.close()
            _ = Foundation.close(errorOutput)
        }
        // Half-closing tells the supervisor; its own exit then shows as the end of what can be read.
        kith_spawn_hang_up(control)
        var end = kith_spawn_end()
        var status = unsafe kith_spawn_ended(control, &end)
        while status >= 0 {
            await watches.control.wait(for: .reading, isCancellable: false)
            status = unsafe kith_spawn_ended(control, &end)
        }
        watches.control.close()
        _ = Foundation.close(control)
        if kith_spawn_reap(supervisor) == 0 { kith_spawn_kill_session(session) }
    }
}
