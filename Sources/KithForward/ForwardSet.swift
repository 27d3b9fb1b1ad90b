public import KithAPI
import KithWire

/// Forwards for as long as something lasts: a command that waits, a shell.
///
/// ```swift
/// let forwards = ForwardSet([try Forward.Rule(.local, parsing: "8080:localhost:80")])
/// try await forwards.whileUp(to: "laptop", client: client) { running in
///     print(running.rules.flatMap(\.listening))
/// }
/// ```
/// The device that `client` speaks to listens and carries; the connections do not pass through this process unless it is
/// that device.
public struct ForwardSet: Sendable {
    /// The rules; with none, nothing happens.
    public var rules: [Forward.Rule]

    /// Makes a set.
    public init(_ rules: [Forward.Rule] = []) { self.rules = rules }

    /// Keeps the rules up while `body` runs, which is told where is listened.
    ///
    /// `changed` is told how they do, about once a second in which something changed. When the device that keeps them up
    /// stops, `body` is cancelled.
    ///
    /// - Throws: why a rule could not begin, before `body` runs; `.closed` when they ended before it.
    public func whileUp<Result: Sendable>(
        to device: String, client: Client, changed: @escaping @Sendable (Forward.Running) -> Void = { _ in },
        _ body: @escaping @Sendable (Forward.Running) async throws -> Result
    ) async throws -> Result {
        guard !rules.isEmpty else {
            return try await body(Forward.Running(id: 0, device: device, isAttached: true, rules: []))
        }
        let opened = try await client.open(Forward.Run.self, Forward.Plan(device: device, rules: rules))
        defer { opened.stream.abort(.cancelled) }
        return try await withThrowingTaskGroup(of: Result?.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await body(opened.output) }
            group.addTask {
                for try await running in opened.stream.messages { changed(running) }
                throw KithError(.closed, "The device ended the forwards. `kith forward --list` shows what is up.")
            }
            while let part = try await group.next() {
                if let result = part { return result }
            }
            throw CancellationError()
        }
    }
}
