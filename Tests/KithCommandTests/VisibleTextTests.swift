import Logging
import Synchronization
import Testing

@testable import KithCommand

@Suite struct `Text from elsewhere` {
    private struct Heard: LogHandler {
        let lines: Lines
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]
        var metadataProvider: Logger.MetadataProvider?
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) { lines.all.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") } }
    }

    private final class Lines: Sendable { let all = Mutex<[String]>([]) }

    @Test func `in a log is one line of bounded length that no terminal obeys`() {
        let lines = Lines()
        let logger = Logger(label: "test") { _ in VisibleLogHandler(Heard(lines: lines)) }
        let evil = "\u{1B}]0;title\u{7}\r\nfake: line\u{9B}2J\u{202E}" + String(repeating: "x", count: 100_000)
        logger.error("a call failed: \(evil)", metadata: ["error": "\(evil)", "list": [.string(evil)]])
        let line = lines.all.withLock { $0.joined() }
        #expect(!line.isEmpty && line.utf8.count < 8_000, "\(line.utf8.count)")
        #expect(
            line.unicodeScalars.allSatisfy {
                !"\u{1B}\u{7}\r\n\u{9B}\u{202E}".unicodeScalars.contains($0)
            }, "\(line.prefix(300))")
        #expect(line.contains("fake: line"))
    }

    @Test func `in JSON that is printed is escaped, and the same value`() {
        #expect(
            TerminalText.visible(json: Array("{\n  \"a\" : \"é\u{9B}\u{202E}\u{2028}🙂\"\n}".utf8))
                == "{\n  " + #""a" : "é\u009b\u202e\u2028🙂""# + "\n}")
    }
}
