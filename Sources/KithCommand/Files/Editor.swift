import ArgumentParser
import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The editor of the person at the keyboard.
enum Editor {
    /// The line of a shell that was chosen.
    private static var chosen: String? {
        let environment = ProcessInfo.processInfo.environment
        return ["VISUAL", "EDITOR"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    }

    /// True when there is an editor that can work: a chosen one may need no terminal.
    static var isPossible: Bool { chosen != nil || isatty(STDIN_FILENO) == 1 }

    /// Runs it on a file, on this terminal, and waits; returns its exit status.
    static func run(on path: String) async throws -> Int32 {
        let environment = ProcessInfo.processInfo.environment
        let command = chosen ?? "vi"
        // The variable is a line for a shell: it may hold options.
        return try await ChildProcess.run(
            ["/bin/sh", "-c", "\(command) \"$1\"", "sh", path], environment: environment)
    }
}
