package import KithPixels
import KithAPI
import KithWire

/// A place where a session is shown that is recorded meanwhile.
package struct RecordedDisplay<Display: ScreenDisplay>: ScreenDisplay {
    private let display: Display
    private let recorder: ScreenRecorder
    private let report: @Sendable (String) -> Void

    /// Shows a session on `display`, and records it; `report` is told, in a sentence, of what a person should know.
    package init(_ display: Display, by recorder: ScreenRecorder, report: @escaping @Sendable (String) -> Void) {
        self.display = display
        self.recorder = recorder
        self.report = report
    }

    /// Shows what happened, and records it.
    ///
    /// - Throws: `KithError` `.denied` when the other end permits no recording.
    package func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {
        switch event {
        case .opened(let output):
            guard output.permissions.record == true else {
                throw KithError(
                    .denied,
                    "The other device permits no recording. Its owner can: kith grant NAME --add screen:record there, "
                        + "and kith screen allow when it asks.")
            }
            recorder.permit(true)
        case .permissions(let permissions):
            let isPermitted = permissions.record == true
            if recorder.permit(isPermitted) {
                report(isPermitted ? "The recording goes on." : "The other device permits no recording any more.")
            }
        case .picture, .pointer: recorder.noteChange()
        case .displays, .control: break
        }
        try await display.handle(event, of: viewer)
    }

    /// Shows that the session begins, is lost and sought again, or is over.
    package func phaseChanged(_ phase: SessionState.Phase) async { await display.phaseChanged(phase) }

    /// Takes a person's input, and records, until they leave.
    package func run(_ viewer: ScreenViewer) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await display.run(viewer)
                return true
            }
            group.addTask {
                await recorder.run(viewer)
                return false
            }
            defer { group.cancelAll() }
            while let isLeaving = try await group.next() {
                if isLeaving { return }
                do throws(KithError) {
                    _ = try recorder.summary()
                } catch {
                    // Who only looks on still sees it.
                    report("\(error.message) What came before is in the file.")
                }
            }
        }
    }
}
