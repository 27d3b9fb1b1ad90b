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
            """
            Keep it as a video, Matroska with H.264. What is there is not replaced; a screen that changes its size goes on \
            in file-2.
            """, valueName: "file"),
        completion: .file(extensions: ["mkv"]))
    var path: String?
    @Flag(name: .customLong("no-window"), help: "Only record.") var isWindowless = false

    func validate() throws {
        guard path != "" else { throw ValidationError("--record takes the name of a file.") }
        guard path != nil || !isWindowless else { throw ValidationError("--no-window is for --record.") }
    }

    /// The recorder that was asked for; its file is there before anything begins on the device.
    func recorder(of device: String, _ view: ScreenViewOptions) throws(KithError) -> ScreenRecorder? {
        guard let path else { return nil }
        var options = ScreenRecorder.Options(path: path, title: "The screen of \(device)")
        options.quality = view.quality
        options.rate = min(view.rate, 30)
        return try ScreenRecorder(options)
    }

    /// Says what was recorded.
    ///
    /// - Throws: `KithError`: why the recording ended before the session did.
    static func report(_ recorder: ScreenRecorder?, _ globals: GlobalOptions) throws {
        guard let recorder else { return }
        let summary = recorder.summary
        if globals.json {
            printLine(try jsonText(summary))
        } else if summary.files.isEmpty {
            if recorder.failure == nil { note("Nothing was seen, so nothing was recorded.") }
        } else {
            let seconds = summary.seconds.formatted(
                .number.precision(.fractionLength(1)).locale(Locale(identifier: "en")))
            note(
                "\(summary.files.map(printable).joined(separator: ", ")): \(seconds) s, \(summary.pictures) pictures, "
                    + "\(Wording.size(summary.bytes))")
        }
        if let failure = recorder.failure { throw failure }
    }
}

extension ScreenViewer {
    /// Shows a session on `display`, and has it recorded meanwhile where that was asked for.
    func show(
        on display: some ScreenDisplay, _ recorder: ScreenRecorder?, report: @escaping @Sendable (String) -> Void
    ) async throws {
        guard let recorder else { return try await show(on: display) }
        try await show(on: RecordingDisplay(display, by: recorder, report: report))
    }

    /// Has a session recorded that is shown nowhere.
    func record(by recorder: ScreenRecorder) async throws {
        let display = RecordingDisplay(NoDisplay(), isShown: false, by: recorder) { note("\($0) Ctrl-C ends it.") }
        try await show(on: display)
    }
}
