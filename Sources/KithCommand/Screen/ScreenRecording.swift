import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithScreen
import KithWire

/// The options of a session that is recorded.
struct ScreenRecordOptions: ParsableArguments {
    @Option(
        name: .customLong("record"),
        help: ArgumentHelp(
            "Keep it as a video, Matroska with H.264; what is there is not replaced.", valueName: "file"),
        completion: .file(extensions: ["mkv"]))
    var path: String?
    @Flag(name: .customLong("no-window"), help: "Only record.") var isHidden = false

    func validate() throws {
        guard path != nil || !isHidden else { throw ValidationError("--no-window is for --record.") }
    }

    /// The recorder that was asked for; its file is there before anything begins on the device.
    func recorder(of device: String, _ view: ScreenViewOptions) throws(KithError) -> ScreenRecorder? {
        guard let path else { return nil }
        var options = ScreenRecorder.Options(path: path, title: "The screen of \(device)")
        options.quality = view.quality
        options.rate = view.rate
        return try ScreenRecorder(options)
    }

    /// Says what was recorded.
    ///
    /// - Throws: `KithError`: why the recording ended before the session did.
    static func report(_ recorder: ScreenRecorder?, _ globals: GlobalOptions) throws {
        guard let summary = try recorder?.summary() else { return }
        if globals.json { return printLine(try jsonText(summary)) }
        guard !summary.files.isEmpty else { return note("Nothing was seen, so nothing was recorded.") }
        let seconds = summary.seconds.formatted(.number.precision(.fractionLength(1)).locale(Locale(identifier: "en")))
        note(
            "\(summary.files.map(printable).joined(separator: ", ")): \(seconds) s, \(summary.pictures) pictures, "
                + "\(Wording.size(summary.bytes))")
    }
}

extension ScreenViewer {
    /// Shows a session on `display`, and has it recorded meanwhile where that was asked for.
    func show(
        on display: some ScreenDisplay, _ recorder: ScreenRecorder?, report: @escaping @Sendable (String) -> Void
    ) async throws {
        guard let recorder else { return try await show(on: display) }
        try await show(on: RecordedDisplay(display, by: recorder, report: report))
    }
}
