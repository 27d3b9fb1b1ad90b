import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith send`.
struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send files to a device whose person is asked first; no grant is needed.",
        discussion: helpText(
            """
              kith send holiday.jpg laptop
              kith send --wait 1h report.pdf photos/ laptop

            The other person sees names and sizes, and accepts or rejects (`kith inbox` there), or has a rule for
            this device. Contents are sent only then. What is sent never replaces anything. Ends with status 5 when
            it was rejected, 8 when nobody answered in time.

            With --json each line is an object with an "event": state (waiting, accepted, receiving), progress, and last
            of all result or failure. -q leaves out the progress.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: ArgumentHelp("How long to wait for an answer, at most 1h.", valueName: "time"))
    var wait = TimeArgument(seconds: 600)
    @Flag(name: [.customShort("q"), .long], help: "Show no progress.") var quiet = false
    @Argument(
        help: ArgumentHelp(
            "The files and folders, then the device.", valueName: CommandDescription.Argument.filesThenDevice),
        completion: .file())
    var words: [String]

    /// The last line of `--json`.
    private struct Report: Encodable {
        var device: String
        var state: Offers.State
        var bytes: UInt64
        var files: UInt64
    }

    func validate() throws {
        guard words.count >= 2 else { throw ValidationError("send takes files, then a device.") }
        guard wait.seconds <= 3_600 else { throw ValidationError("--wait takes at most 1h.") }
    }

    func run() async throws {
        guard var device = words.last else { return }
        if device.hasSuffix(":") { device.removeLast() }
        guard !device.isEmpty, !device.contains("/"), !device.contains(":") else {
            throw KithError(
                .invalid, "\(device) is not a paired device. Name the files, then the device: kith send FILE laptop")
        }
        let paths = try words.dropLast().map { word in
            let path = RemotePath(word)
            guard path.device == nil else {
                throw KithError(.invalid, "\(word) is on another device. Only files of this one are sent.")
            }
            return try path.location().path
        }
        let input = Offers.Deliver.Input(paths: paths, device: device, waitSeconds: wait.seconds)
        let events = TransferEvents(isOn: globals.json, showsProgress: !quiet)
        let progress = try await events.whileWatching { try await follow(input, events) }
        try events.result(Report(device: device, state: .arrived, bytes: progress.bytes, files: progress.files))
        if !quiet, !globals.json {
            let files = progress.files == 1 ? "1 file" : "\(progress.files) files"
            note("Sent \(files), \(ProgressLine.size(progress.bytes)), to \(printable(device)).")
        }
    }

    /// Says what was left out.
    private func showSkipped(_ progress: Files.Progress, _ line: inout DeliveryLine) {
        guard !quiet, !globals.json, !progress.skipped.isEmpty else { return }
        line.clear()
        for skipped in progress.skipped {
            note(leftOut(skipped.path.description, because: skipped.failure.message, of: skipped.path))
        }
    }

    /// Waits until all has arrived; returns how much that was.
    private func follow(_ input: Offers.Deliver.Input, _ begun: TransferEvents) async throws -> Files.Progress {
        var (line, events) = (DeliveryLine(isShown: !quiet && !globals.json), begun)
        let name = printable(input.device)
        let last = try await withClient(globals) { client in
            let stream = try await client.open(Offers.Deliver.self, input).stream
            var last: Offers.Delivery?
            var isShown = false
            for try await delivery in stream.messages {
                last = delivery
                showSkipped(delivery.progress, &line)
                switch delivery.state {
                case .waiting:
                    try events.report(delivery.state)
                    if !isShown, !quiet, !globals.json { note("Waiting for \(name) to accept.") }
                    isShown = true
                case .accepted, .receiving:
                    try events.report(delivery.state)
                    try events.report(delivery.progress)
                    line.show(DeliveryLine.progress(delivery.progress.bytes, of: delivery.progress.totalBytes ?? 0))
                case .arrived:
                    try events.report(delivery.progress)
                    return last
                default: return last
                }
            }
            return last
        }
        line.clear()
        guard let last else { throw KithError(.closed, "Sending ended unexpectedly. Try again.") }
        if let failure = last.failure { throw failure.error }
        switch last.state {
        case .arrived: return last.progress
        case .rejected: throw KithError(.denied, "\(name) rejected what was offered. Nothing was sent.")
        case .expired: throw KithError(.timedOut, "Nobody at \(name) answered in time. Nothing was sent.")
        default: throw KithError(.closed, "What was sent to \(name) did not arrive: \(last.state.rawValue).")
        }
    }
}
