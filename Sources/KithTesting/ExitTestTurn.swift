import KithIO

/// One exit test at a time.
///
/// Until its process has ended, an exit test keeps a thread of the few that all tasks share: Swift Testing reads from a
/// pipe there. On two cores a second one would leave no thread to any other test.
///
///     let turn = await ExitTestTurn.take()
///     defer { turn.end() }
///     await #expect(processExitsWith: .success) { … }
public struct ExitTestTurn: Sendable {
    private static let running = AsyncMutex()

    /// Waits until no other exit test runs.
    public static func take() async -> Self {
        await running.lock()
        return Self()
    }

    /// Lets the next one begin.
    public func end() { Self.running.unlock() }
}
