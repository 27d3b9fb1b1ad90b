import KithAPI
package import KithPixels
import KithWire
import Synchronization

/// Shows a session on another display, and records it.
package struct RecordingDisplay<Display: ScreenDisplay>: ScreenDisplay {
    private let display: Display
    private let recorder: ScreenRecorder
    private let isShown: Bool
    private let hasBegun = Locked(false)
    private let report: @Sendable (String) -> Void

    /// Shows a session on `display`; one that is shown nowhere (`isShown` false) is over when its recording is.
    ///
    /// `report` is told, in a sentence, of what a person should know.
    package init(
        _ display: Display, isShown: Bool = true, by recorder: ScreenRecorder,
        report: @escaping @Sendable (String) -> Void
    ) {
        self.display = display
        self.isShown = isShown
        self.recorder = recorder
        self.report = report
    }

    /// Shows what happened, and records it.
    ///
    /// - Throws: `KithError` `.denied` when the other end permits no recording from the beginning.
    package func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {
        switch event {
        case .opened(let output): try permit(output.permissions)
        case .permissions(let permissions): try permit(permissions)
        case .picture, .pointer: recorder.noteChange()
        case .displays, .control, .said: break
        }
        try await display.handle(event, of: viewer)
    }

    private func permit(_ permissions: Screen.Permissions) throws(KithError) {
        let isFirst = hasBegun.change { hasBegun in
            defer { hasBegun = true }
            return !hasBegun
        }
        switch recorder.permit(permissions.record == true) {
        case .given: report(isFirst ? "Recording into \(recorder.path)." : "The recording goes on.")
        case .withdrawn: report("The other device permits no recording any more: it pauses.")
        case .unchanged where isFirst:
            throw KithError(.denied, "The person at the other screen permits no recording.")
        case .unchanged: break
        }
    }

    /// Shows that the session begins, is lost and sought again, or is over.
    package func phaseChanged(_ phase: SessionState.Phase) async { await display.phaseChanged(phase) }

    /// Takes a person's input, and records, until they leave.
    ///
    /// - Throws: `KithError`: why a recording of what is shown nowhere ended.
    package func run(_ viewer: ScreenViewer) async throws {
        try await withThrowingTaskGroup(of: RecordingEnd.self) { group in
            group.addTask {
                try await display.run(viewer)
                return .left
            }
            group.addTask {
                await recorder.run(viewer)
                return .recorded
            }
            defer { group.cancelAll() }
            while let end = try await group.next() {
                guard case .recorded = end else { return }
                guard let failure = recorder.failure else { continue }
                guard isShown else { throw failure }
                // Who only looks on still sees it.
                report("\(failure.message) What came before is in the file.")
            }
        }
    }
}

/// What ended first of a session that is recorded.
private enum RecordingEnd {
    /// The person left.
    case left
    /// The recording did.
    case recorded
}
