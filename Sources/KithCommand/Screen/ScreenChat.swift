import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIO
import KithWire

/// `kith screen chat`.
struct ScreenChatCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chat", abstract: "Write to those who see this screen, and read what they write.",
        discussion: helpText(
            """
            Each line that is typed goes to everybody who sees this screen in a window, or to one session. They write in
            their windows (Ctrl+Alt+Shift+C), and are read here and for half a minute in the corner of the screen, by
            everybody who sees it. Ctrl-D leaves. Nothing of it is stored, here or there.

              kith screen chat
              kith screen chat k7m3                   with one of them
              echo "Back in a minute" | kith screen chat
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The session, or the beginning of its name; without it, all.") var session: String?

    func run() async throws {
        let (globals, session) = (globals, session)
        let isTerminal = isatty(STDIN_FILENO) == 1
        let ending = try await Signals.untilInterrupted {
            let client = try await runningClient(globals)
            let stream = try await client.open(ScreenSessions.Talk.self, .init(session: session)).stream
            if isTerminal, !globals.json {
                let sessions = try await client.call(ScreenSessions.List.self, Nothing()).sessions
                let names = sessions.filter { $0.state == .active }.map { printable($0.name) }
                note(names.isEmpty ? "Nobody sees this screen now." : "Seen by \(names.joined(separator: ", ")).")
            }
            let unread = Locked<String?>(nil)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while let line = try await stream.receive() {
                        if let failure = line.failure { unread.set(failure) }
                        try Self.show(line, globals, isTyped: isTerminal)
                    }
                }
                group.addTask {
                    for await text in Self.typedLines() where !text.allSatisfy(\.isWhitespace) {
                        let line: Screen.ChatLine
                        do throws(KithError) {
                            line = try Screen.ChatLine(text)
                        } catch {
                            guard isTerminal else { throw error }
                            note(error.message)
                            continue
                        }
                        try await stream.send(line)
                    }
                    // The other end has read all of it before it ends.
                    try await stream.finish()
                    if isTerminal { throw CancellationError() }
                }
                defer { group.cancelAll() }
                do { while let _ = try await group.next() {} } catch is CancellationError {}
            }
            // A script is to notice.
            if !isTerminal, let failure = unread.value { throw KithError(.notFound, failure) }
        }
        if let signal = ending.signal { throw ExitCode(128 + signal) }
    }

    private static func show(
        _ line: ScreenSessions.Talk.Line, _ globals: GlobalOptions, isTyped: Bool
    ) throws {
        // One object a line, as a stream has no end.
        if globals.json { return printLine(try jsonLine(line)) }
        if let failure = line.failure { return note("“\(line.line.text)” was not read: \(failure)") }
        // What was typed stands there already.
        if line.isOwn, isTyped { return }
        printLine("\(line.isOwn ? "to \(printable(line.name))" : printable(line.name)): \(line.line.text)")
    }

    /// What is typed, until the end.
    private static func typedLines() -> AsyncStream<String> {
        AsyncStream { continuation in
            // Reading cannot be called off, and so needs a thread of its own.
            Thread.detachNewThread {
                while let line = readLine() { continuation.yield(line) }
                continuation.finish()
            }
        }
    }
}
