import KithWire
import Logging

/// Writes a log in which text from elsewhere cannot pass for lines of its own, nor drive the terminal it is read on.
struct VisibleLogHandler: LogHandler {
    /// The most bytes of a message or of one piece of metadata.
    private static let limit = 1_000

    private var base: any LogHandler

    /// Writes by `base`.
    init(_ base: any LogHandler) { self.base = base }

    var logLevel: Logger.Level {
        get { base.logLevel }
        set { base.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = newValue }
    }

    var metadataProvider: Logger.MetadataProvider? {
        get { base.metadataProvider }
        set { base.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        var event = event
        event.message = "\(Self.visible(event.message.description))"
        event.metadata = event.metadata?.mapValues { .string(Self.visible("\($0)")) }
        base.log(event: event)
    }

    private static func visible(_ text: String) -> String {
        TerminalText.visible(text.prefix(bytes: limit)).replacing("\n", with: "⏎")
    }
}
