import Foundation
import KithAPI
import KithIO
import KithWire

/// Questions to the person at the terminal that can be withdrawn.
enum TerminalPrompt {
    /// True when there is a terminal to ask on, and this process is in its foreground.
    static var isPossible: Bool { canAsk }

    /// Asks a yes-or-no question; anything but `y` or `yes` is a no.
    static func agrees(to question: String) async throws -> Bool {
        let answer = try await line("\(question) [y/N] ")?.trimmingCharacters(in: .whitespaces).lowercased() ?? ""
        return answer == "y" || answer == "yes"
    }

    /// Shows `prompt` and waits for a line; `nil` at the end of the input.
    ///
    /// Earlier typing is thrown away: it was the answer to something else. Cancelling the task withdraws the
    /// question, and nothing that is typed later is lost.
    static func line(_ prompt: String) async throws -> String? {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw KithError(.exhausted, "Cannot ask: no file descriptor is free.") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (withdrawal, withdraw) = (ends[0], ends[1])
        defer {
            close(withdrawal)
            close(withdraw)
        }
        forgetTypedAhead()
        noteInLine(prompt)
        return try await withTaskCancellationHandler {
            let line = Promise<Result<String?, any Error>>()
            let thread = Thread { line.fulfil(Result { try read(until: withdrawal) }) }
            thread.name = "kith-prompt"
            thread.start()
            return try await line.value().get()
        } onCancel: {
            // A full pipe holds one already.
            var byte: UInt8 = 0
            _ = unsafe write(withdraw, &byte, 1)
        }
    }

    /// Reads a line, on a thread that may wait.
    private static func read(until withdrawal: Int32) throws -> String? {
        var typed: [UInt8] = []
        while true {
            var descriptors = [
                pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
                pollfd(fd: withdrawal, events: Int16(POLLIN), revents: 0),
            ]
            guard unsafe poll(&descriptors, 2, -1) >= 0 else {
                if errno == EINTR { continue }
                return nil
            }
            if descriptors[1].revents != 0 { throw CancellationError() }
            guard descriptors[0].revents != 0 else { continue }
            // One at a time, so that nothing of the next line is taken.
            var byte: UInt8 = 0
            let count = unsafe Foundation.read(STDIN_FILENO, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return typed.isEmpty ? nil : String(decoding: typed, as: UTF8.self) }
            if byte == UInt8(ascii: "\n") { return String(decoding: typed, as: UTF8.self) }
            // A terminal gives lines of at most 4 KiB; whoever pipes more has no answer.
            guard typed.count < 4_096 else { return nil }
            typed.append(byte)
        }
    }

    private static func forgetTypedAhead() {
        // From the background this would stop the process.
        guard tcgetpgrp(STDIN_FILENO) == getpgrp() else { return }
        tcflush(STDIN_FILENO, TCIFLUSH)
    }
}
