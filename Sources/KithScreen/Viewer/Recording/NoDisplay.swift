import KithIO
package import KithPixels

/// Shows a session nowhere: for one that is only recorded.
package struct NoDisplay: ScreenDisplay {
    /// Makes one.
    package init() {}

    /// Does nothing.
    package func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws {}

    /// Does nothing.
    package func phaseChanged(_ phase: SessionState.Phase) async {}

    /// Waits until the session is over.
    package func run(_ viewer: ScreenViewer) async throws {
        let never = Promise<Void>()
        try await never.valueUnlessCancelled()
    }
}
