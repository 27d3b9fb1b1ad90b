import Foundation
import KithIO
import KithWire
import UnixSignals

/// A command run in the foreground, on this process's own terminal.
enum ChildProcess {
    /// Runs a program with its arguments and waits for it; returns the status a shell would give.
    ///
    /// It stays in this process's group, so that the keys of the terminal reach it; signals sent to this process alone are
    /// passed on.
    ///
    /// - Throws: `.notFound` for a program that is not there, `.denied` for one that may not be run.
    static func run(_ command: [String], environment: [String: String]) async throws -> Int32 {
        guard let program = command.first else { throw KithError(.invalid, "There is no command to run.") }
        // From here on none is lost: what comes before the command runs waits for it.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sighup, .sigusr1, .sigusr2)
        // The keys of the terminal are for the command: it decides what they mean.
        let keys = [SIGINT, SIGQUIT].map { number in (number, signal(number, SIG_IGN)) }
        defer { for (number, handler) in keys { signal(number, handler) } }
        let pid = try start(program, ProcessSpawn(command, environment: environment))
        let passing = Task(name: "kith signals") {
            for await received in signals { kill(pid, Self.number(received)) }
        }
        defer { passing.cancel() }
        let end = Promise<Int32>()
        Thread.detachNewThread {
            var status: Int32 = 0
            while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
            let signal = status & 0x7F
            end.fulfil(signal == 0 ? status >> 8 & 0xFF : 128 + signal)
        }
        return await end.value()
    }

    private static func number(_ received: UnixSignal) -> Int32 {
        switch received {
        case .sighup: SIGHUP
        case .sigusr1: SIGUSR1
        case .sigusr2: SIGUSR2
        default: SIGTERM
        }
    }

    private static func start(_ program: String, _ spawn: ProcessSpawn) throws -> pid_t {
        do throws(ProcessSpawn.Failure) {
            return try spawn.start()
        } catch {
            switch error.number {
            case ENOENT, ENOTDIR: throw KithError(.notFound, "“\(program)”: command not found.")
            case EACCES, EPERM: throw KithError(.denied, "No permission to run “\(program)”.")
            default: throw KithError(.internal, "Could not run “\(program)”: \(error).")
            }
        }
    }
}
