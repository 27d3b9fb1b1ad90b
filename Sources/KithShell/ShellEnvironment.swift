import Foundation
package import KithAPI
import KithIdentity
package import KithNode
package import KithWire

extension ShellService.Options {
    /// The plan for what a caller asks for.
    ///
    /// - Throws: `.invalid` for a request that contradicts itself or is larger than any honest one.
    package func plan(
        for input: Shell.Open.Input, account: ShellAccount, caller: Caller, inherited: [String: String]
    ) throws(KithError) -> ShellProcess.Plan {
        guard input.command == nil || input.commandLine == nil else {
            throw KithError(.invalid, "A shell takes a command or a command line, not both.")
        }
        guard input.command?.isEmpty != true else { throw KithError(.invalid, "The command is empty.") }
        guard input.environment.count <= 256 else {
            throw KithError(.invalid, "At most 256 environment variables can be sent.")
        }
        let shell = self.shell ?? account.shell
        let line = input.commandLine ?? input.command.map(Self.commandLine(for:))
        let ownName = shell.split(separator: "/").last.map(String.init) ?? shell
        return ShellProcess.Plan(
            path: shell,
            // By custom a dash before its name makes a shell a login shell.
            arguments: line.map { [ownName, "-c", $0] } ?? ["-" + ownName],
            environment: environment(
                for: input, shell: shell, account: account, caller: caller, inherited: inherited),
            directory: input.directory.map { absolute($0, home: account.home) } ?? account.home,
            fallbackDirectory: input.directory == nil ? "/" : nil,
            terminal: input.terminal?.size,
            hangUpGrace: hangUpGrace,
            terminateGrace: terminateGrace)
    }

    private func absolute(_ path: String, home: String) -> String {
        if path == "~" || path.isEmpty { return home }
        if path.hasPrefix("~/") { return home + path.dropFirst() }
        return path.hasPrefix("/") ? path : home + "/" + path
    }

    private func environment(
        for input: Shell.Open.Input, shell: String, account: ShellAccount, caller: Caller,
        inherited: [String: String]
    ) -> [String: String] {
        var result: [String: String] = [:]
        for name in ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "XDG_RUNTIME_DIR", "TMPDIR"] { result[name] = inherited[name] }
        for (name, value) in input.environment where accepts(name) { result[name] = value }
        result["HOME"] = account.home
        result["USER"] = account.name
        result["LOGNAME"] = account.name
        result["SHELL"] = shell
        result["PATH"] = path ?? ShellAccount.path(inherited)
        if let terminal = input.terminal {
            result["TERM"] = Self.isTerminalType(terminal.type) ? terminal.type : "dumb"
        }
        if case .device(let id, let name, _) = caller {
            result["KITH_PEER"] = name
            result["KITH_PEER_ID"] = id.description
        }
        return result
    }

    /// Tells whether a text can be the name of a terminal's description, and not a path to another.
    static func isTerminalType(_ type: String) -> Bool {
        (1...64).contains(type.utf8.count)
            && type.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2D, 0x2E, 0x5F: true  // letters, digits, + - . _
                default: false
                }
            } && type.utf8.first != 0x2E
    }

    /// Tells whether a caller may set a variable.
    package func accepts(_ name: String) -> Bool {
        guard !name.isEmpty, !name.utf8.contains(where: { $0 == 0x3D || $0 == 0 }) else { return false }
        return acceptedEnvironment.contains { pattern in
            pattern.hasSuffix("*") ? name.hasPrefix(pattern.dropLast()) : name == pattern
        }
    }

    /// A line that a POSIX shell, and fish, splits into exactly these words.
    package static func commandLine(for words: [String]) -> String {
        words.map(shellWord).joined(separator: " ")
    }
}
