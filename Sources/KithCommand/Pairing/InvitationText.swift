import CKithSystem
import Foundation
import KithWire

/// The ways in which `kith pair` is given an invitation's text.
enum InvitationText {
    /// Makes the invitations on this process's command line unreadable in the system's list of processes.
    ///
    /// The command works with a copy, made before.
    static func hideArguments() {
        guard CommandLine.arguments.contains(where: { $0.lowercased().contains(mark) }) else { return }
        unsafe mark.withCString { unsafe kith_hide_arguments($0) }
    }

    private static let mark = "kith-invite1"
    /// More than any invitation takes.
    private static let limit = 64 << 10

    /// Reads it from a file.
    ///
    /// - Throws: `.notFound` or `.denied` when the file cannot be read, `.invalid` when it is too long for an invitation.
    static func read(file: String) throws -> String {
        let path = (file as NSString).expandingTildeInPath
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let reason = unsafe String(cString: strerror(errno))
            throw KithError(errno == ENOENT ? .notFound : .denied, "Cannot read \(file): \(reason).")
        }
        return try read(FileHandle(fileDescriptor: descriptor, closeOnDealloc: true), file)
    }

    /// Reads it from standard input.
    static func readInput() throws -> String { try read(.standardInput, "standard input") }

    /// Asks for it at the terminal.
    static func ask() async throws -> String {
        guard TerminalPrompt.isPossible else {
            throw KithError(
                .invalid, "There is no invitation, and no terminal to ask for one: kith pair - reads standard input.")
        }
        guard let line = try await TerminalPrompt.line("The invitation, as the other device shows it: ") else {
            throw CancellationError()
        }
        return line.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Reads it from the picture of a QR code, with `zbarimg`.
    ///
    /// - Throws: `.unsupported` when that program is not installed, `.notFound` when there is no picture or no invitation
    ///   in it, `.invalid` when there are several.
    static func scan(_ file: String) throws -> String {
        // An absolute path is neither an option nor one of the other things that an image library takes a name for.
        let path = URL(fileURLWithPath: (file as NSString).expandingTildeInPath).standardizedFileURL.path
        guard unsafe access(path, R_OK) == 0 else {
            let reason = unsafe String(cString: strerror(errno))
            throw KithError(errno == ENOENT ? .notFound : .denied, "Cannot read \(file): \(reason).")
        }
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw KithError(.exhausted, "No file descriptor is free.") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let output = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        let pid: pid_t
        do throws(ProcessSpawn.Failure) {
            defer { close(ends[1]) }
            let words = ["zbarimg", "--quiet", "--raw", "--nodbus", "-Sdisable", "-Sqrcode.enable", path]
            pid = try ProcessSpawn(words, mode: .reading(output: ends[1])).start()
        } catch {
            throw KithError(
                error.number == ENOENT ? .unsupported : .internal,
                """
                Reading QR codes needs the program zbarimg (\(error)). Install zbar-tools, or zbar with Homebrew; or \
                read the code with a phone's camera and give its text to `kith pair`.
                """)
        }
        defer {
            var status: Int32 = 0
            while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
        }
        let text = try read(output, file)
        let invitations = Set(text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) })
            .filter { $0.lowercased().hasPrefix(mark) }
        guard let invitation = invitations.first else {
            throw KithError(.notFound, "\(file) shows no invitation that could be read. Is all of the QR code in it?")
        }
        guard invitations.count == 1 else {
            throw KithError(.invalid, "\(file) shows \(invitations.count) invitations. Use a picture of one.")
        }
        return invitation
    }

    private static func read(_ handle: FileHandle, _ name: String) throws -> String {
        var data = Data()
        do {
            while data.count <= limit, let more = try handle.read(upToCount: limit), !more.isEmpty { data += more }
        } catch {
            throw KithError(.denied, "Cannot read \(name): \(error.localizedDescription)")
        }
        guard data.count <= limit else { throw KithError(.invalid, "\(name) is too long for an invitation.") }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
