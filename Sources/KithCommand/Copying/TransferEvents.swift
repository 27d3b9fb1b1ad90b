import Foundation
import KithAPI
import KithWire

/// The output of `--json` for a transfer: one object on a line of its own for each event, the last being the outcome.
///
/// | event | with |
/// | --- | --- |
/// | `progress` | bytes, totalBytes, sent, wire, files, totalFiles, current; waiting: why it waits |
/// | `skipped` | path, code, message |
/// | `change` | path, kind: new, changed, deleted |
/// | `state` | state of an offer: waiting, accepted, receiving |
/// | `result` | all of `Files.Summary` |
/// | `failure` | code, message |
struct TransferEvents {
    /// True when anything is printed.
    let isOn: Bool
    /// True when the progress is printed, too.
    let showsProgress: Bool
    private var last: Step?
    private var state: Offers.State?

    /// The lines of help about it.
    static let help = """
        With --json each line is an object with an "event": progress (bytes of totalBytes, files of totalFiles, what was
        sent and as how many bytes on the wire), skipped, change (with --itemize or --dry-run), and last of all result or
        failure. -q leaves out the progress.
        """

    init(isOn: Bool, showsProgress: Bool) {
        self.isOn = isOn
        self.showsProgress = showsProgress
    }

    /// A step of progress.
    private struct Step: Encodable, Hashable {
        let event = "progress"
        var bytes: UInt64
        var totalBytes: UInt64?
        var sent: UInt64
        var wire: UInt64
        var files: UInt64
        var totalFiles: UInt64?
        var current: Files.Path?
        var waiting: String?

        private enum CodingKeys: String, CodingKey {
            case event, bytes, totalBytes, sent, wire, files, totalFiles, current, waiting
        }
    }

    private struct Left: Encodable {
        let event = "skipped"
        var path: Files.Path
        var code: KithError.Code
        var message: String
        private enum CodingKeys: String, CodingKey { case event, path, code, message }
    }

    private struct Changed: Encodable {
        let event = "change"
        var path: Files.Path
        var kind: Files.Change.Kind
        private enum CodingKeys: String, CodingKey { case event, path, kind }
    }

    private struct StateLine: Encodable {
        let event = "state"
        var state: Offers.State
        private enum CodingKeys: String, CodingKey { case event, state }
    }

    private struct Failed: Encodable {
        let event = "failure"
        var code: KithError.Code
        var message: String
        private enum CodingKeys: String, CodingKey { case event, code, message }
    }

    private struct Result<Body: Encodable>: Encodable {
        var body: Body

        private enum CodingKeys: String, CodingKey { case event }

        func encode(to encoder: any Encoder) throws {
            try body.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode("result", forKey: .event)
        }
    }

    /// Prints a report; the same twice is printed once.
    mutating func report(_ progress: Files.Progress) throws {
        guard isOn else { return }
        for skipped in progress.skipped {
            try line(Left(path: skipped.path, code: skipped.failure.code, message: skipped.failure.message))
        }
        for change in progress.changes { try line(Changed(path: change.path, kind: change.kind)) }
        let step = Step(
            bytes: progress.bytes, totalBytes: progress.totalBytes, sent: progress.sent, wire: progress.wire,
            files: progress.files, totalFiles: progress.totalFiles, current: progress.current,
            waiting: progress.waiting)
        guard showsProgress, step != last else { return }
        last = step
        try line(step)
    }

    /// Prints the state of an offer when it has changed.
    mutating func report(_ state: Offers.State) throws {
        guard isOn, state != self.state else { return }
        self.state = state
        try line(StateLine(state: state))
    }

    /// Prints the result of success.
    func result(_ body: some Encodable) throws {
        if isOn { try line(Result(body: body)) }
    }

    /// Runs a transfer; prints why when it fails.
    func whileWatching<Outcome>(_ body: () async throws -> Outcome) async throws -> Outcome {
        do {
            return try await body()
        } catch let error as KithError where isOn {
            try line(Failed(code: error.code, message: error.message))
            throw error
        }
    }

    private func line(_ event: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        printLine(String(decoding: try encoder.encode(event), as: UTF8.self))
    }
}
