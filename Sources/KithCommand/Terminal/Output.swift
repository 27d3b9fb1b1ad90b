import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithRPC
import KithWire

/// Asks whether to go on with what cannot be taken back.
///
/// - Throws: `.invalid`, saying what to pass, when there is no terminal to ask on.
func confirm(_ question: String, orPass flag: String) throws -> Bool {
    guard canAsk else {
        throw KithError(.invalid, "\(question) There is no terminal to ask on: pass \(flag) to mean it.")
    }
    return try ask(question)
}

/// Tells whether an option stands on the command line, by itself or with its value; one of the settings does not.
func isTyped(_ option: String) -> Bool {
    CommandLine.arguments.prefix { $0 != "--" }.contains { $0 == option || $0.hasPrefix(option + "=") }
}

/// Tells whether a file descriptor is a terminal that wants colours: never when `NO_COLOR` is set, and never plainly.
func wantsColour(_ descriptor: Int32) -> Bool {
    let environment = ProcessInfo.processInfo.environment
    return isatty(descriptor) == 1 && environment["NO_COLOR", default: ""].isEmpty && !isPlainTerminal
}

/// True when output is to stay as it was written, without colours and movements: `TERM=dumb`, `KITH_PLAIN`, `--plain`.
///
/// For people who have their terminal read to them.
let isPlainTerminal: Bool = {
    let environment = ProcessInfo.processInfo.environment
    return environment["TERM"] == "dumb"
        || Configuration.boolean(environment["KITH_PLAIN", default: "no"]) ?? true
}()

/// The emphasis of a piece of text, on terminals only.
enum Style: String {
    case bold = "1"
    case dim = "2"
    case green = "32"
    case yellow = "33"
    case red = "31"
}

/// Wraps `text` in a style when `descriptor` is a terminal.
func styled(_ text: String, _ style: Style, on descriptor: Int32 = STDOUT_FILENO) -> String {
    wantsColour(descriptor) ? "\u{1B}[\(style.rawValue)m\(text)\u{1B}[0m" : text
}

/// Writes a line to standard error.
///
/// When nobody reads that any more, there is nobody left to tell.
func note(_ line: String) { noteInLine(line + "\n") }

/// Writes to standard error, without ending the line.
func noteInLine(_ text: String) { try? FileHandle.standardError.write(contentsOf: Data(text.utf8)) }

/// Writes a line to standard output at once, also into a pipe.
///
/// The process ends when it cannot: what follows would be missing a line.
func printLine(_ line: String = "") {
    do throws(KithError) {
        try writeOutput(Data((line + "\n").utf8))
    } catch {
        report(error, json: false)
        leave(error.code.exitStatus)
    }
}

/// Writes bytes to standard output, all of them.
///
/// When the reader has enough (`| head`), the process ends in silence as one that a broken pipe ends.
///
/// - Throws: `.exhausted` when the disk is full, `.internal` for another failure of it.
func writeOutput(_ data: Data) throws(KithError) {
    var rest = data[...]
    while !rest.isEmpty {
        let count = unsafe rest.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
        if count > 0 {
            rest = rest.dropFirst(count)
            continue
        }
        switch errno {
        case EINTR: continue
        case EAGAIN:
            // Somebody made it non-blocking for us all.
            var ready = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
            _ = unsafe poll(&ready, 1, -1)
        case EPIPE: leave(128 + SIGPIPE)
        case let number: throw outputError(number)
        }
    }
}

/// The error of output that cannot be written, from an errno.
func outputError(_ number: Int32) -> KithError {
    switch number {
    case ENOSPC, EDQUOT: KithError(.exhausted, "The output cannot be written: the disk is full.")
    case EBADF: KithError(.internal, "The output cannot be written: standard output is closed.")
    default: unsafe KithError(.internal, "The output cannot be written: \(String(cString: strerror(number))).")
    }
}

/// Words an error for a person, or for a program when `--json` was given; on standard error either way.
func report(_ error: KithError, json: Bool) {
    if json {
        struct Report: Encodable {
            var code: KithError.Code
            var message: String
        }
        if let text = try? jsonText(["error": Report(code: error.code, message: error.message)]) { note(text) }
    } else {
        note("\(styled("kith:", .red, on: STDERR_FILENO)) \(printable(error.message))")
    }
}

/// JSON as `--json` prints it: two-space indentation, sorted keys, plain slashes.
func jsonText(_ value: some Encodable) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(value), as: UTF8.self)
}

/// Text that came from elsewhere, with everything a terminal might obey made visible.
func printable(_ text: String) -> String { Wording.printable(text) }

/// Text that came from elsewhere as bytes, with everything a terminal might obey made visible.
func printable(_ bytes: [UInt8]) -> [UInt8] {
    // What most names are needs no looking up.
    if bytes.allSatisfy({ (0x20..<0x7F).contains($0) }) { return bytes }
    return Array(printable(String(decoding: bytes, as: UTF8.self)).utf8)
}

/// Shows why something was left out, with its path once: of a message that names it too, only the reason.
func leftOut(_ name: String, because message: String, of path: Files.Path) -> String {
    "kith: left out \(printable(name)): \(printable(reason(message, of: path)))"
}

/// The reason in a message that begins with what was attempted with a path.
func reason(_ message: String, of path: Files.Path) -> String {
    message.range(of: "\(path): ").map { String(message[$0.upperBound...]) } ?? message
}

/// `3 min ago`, `in 2 h`: a point in time as a person says it.
func relative(_ seconds: Int64, now: Int64 = Int64(Date().timeIntervalSince1970)) -> String {
    Wording.relative(seconds, now: now)
}

/// True when there is a terminal with somebody at it: one that this process is in front of, not in the background.
var canAsk: Bool { isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp() }

/// Asks a yes-or-no question on the terminal; anything but `y` or `yes` is a no.
///
/// - Throws: `.invalid` when there is no terminal to ask on.
func ask(_ question: String) throws -> Bool {
    guard canAsk else {
        throw KithError(.invalid, "There is no terminal to ask on. Compare the codes and pass --yes.")
    }
    noteInLine("\(question) [y/N] ")
    let answer = readLine(strippingNewline: true)?.lowercased() ?? ""
    return answer == "y" || answer == "yes"
}

/// Puts something that can be neither read nor written in the place of each standard stream that is closed.
///
/// Otherwise the next socket or database would become standard output, and be written to.
func occupyStandardStreams() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
        // It gets the lowest free number, which is this one.
        _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
}

/// Puts an empty input in the place of standard input, so that somebody else may read it.
func replaceInput() {
    let empty = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
    guard empty >= 0 else { return }
    dup2(empty, STDIN_FILENO)
    close(empty)
}

/// A reader that went away (`kith ls … | head`) is an error of a write, not the end of the process.
func ignoreBrokenPipes() {
    signal(SIGPIPE, SIG_IGN)
}

/// Ends the process after what was printed has been written.
func leave(_ status: Int32) -> Never {
    fflush(nil)
    exit(status)
}

/// A value as JSON on one line, for a stream of them.
func jsonLine(_ value: some Encodable) throws -> String { String(decoding: try JSONText.encode(value), as: UTF8.self) }
