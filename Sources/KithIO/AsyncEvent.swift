/// Something that happens once, for any number of tasks to wait for.
package final class AsyncEvent: Sendable {
    private let promise = Promise<Void>()

    /// Makes an event that has not happened.
    package init() {}

    /// True once it has happened.
    package var hasHappened: Bool { promise.isFulfilled }

    /// Lets it happen; again does nothing.
    package func happen() { promise.fulfil(()) }

    /// Waits until it has happened, or the task is cancelled.
    ///
    /// - Returns: whether it has happened.
    @discardableResult package func wait() async -> Bool {
        do {
            try await promise.valueUnlessCancelled()
            return true
        } catch {
            return false
        }
    }
}
