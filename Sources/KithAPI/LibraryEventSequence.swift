import KithWire

/// The events of a library, and the gaps among them, from ``EventsNamespace/callAsFunction(_:on:options:)``.
///
/// The subscription begins with the first element that is asked for, and lasts until the iterator is dropped or the task
/// is cancelled. Whoever is slow gets a gap, and harms nobody. After an error, or in another process, begin again with
/// ``LibraryEvents/Follow/Input/after`` as the last ``LibraryEvents/Numbered/position``: what was missed comes first.
///
/// ```swift
/// for try await delivery in client.events(.init(types: [.fileAdded], path: "/srv/photos")) {
///     switch delivery {
///     case .event(let event): print(event.sequence, event.event)
///     case .gap: reload()
///     default: break
///     }
/// }
/// ```
public struct LibraryEventSequence: AsyncSequence, Sendable {
    /// An event, or that some are missing.
    public typealias Element = LibraryEvents.Delivery

    fileprivate let client: Client
    fileprivate let input: LibraryEvents.Follow.Input
    fileprivate let device: String?
    fileprivate let options: CallOptions

    /// Begins a subscription of its own.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// Gives one delivery after the other.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let sequence: LibraryEventSequence
        private var open: Subscription?

        /// Ends the stream with the last reference.
        private final class Subscription: Sendable {
            let stream: MethodStream<LibraryEvents.Delivery, Nothing>

            init(_ stream: MethodStream<LibraryEvents.Delivery, Nothing>) { self.stream = stream }

            deinit { stream.abort(.cancelled) }
        }

        fileprivate init(_ sequence: LibraryEventSequence) { self.sequence = sequence }

        /// Waits for the next one; `nil` when the service has ended the stream.
        ///
        /// - Throws: `KithError` `.closed` when the device stops, `.denied` without the grant `library`, `.notFound` for a
        ///   library that is not there, `.cancelled`.
        public mutating func next() async throws -> LibraryEvents.Delivery? {
            let subscription: Subscription
            if let open {
                subscription = open
            } else {
                subscription = Subscription(
                    try await sequence.client.open(
                        LibraryEvents.Follow.self, sequence.input, on: sequence.device, options: sequence.options
                    ).stream)
                open = subscription
            }
            return try await subscription.stream.receive()
        }
    }
}

extension LibraryEvents.Numbered {
    /// Its place among the device's events.
    public var position: LibraryEvents.Position { LibraryEvents.Position(epoch: epoch, sequence: sequence) }
}

extension EventsNamespace {
    /// What happens to the library of this device, or of another one that has given this one the grant `library`.
    public func callAsFunction(
        _ wanted: LibraryEvents.Follow.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) -> LibraryEventSequence {
        LibraryEventSequence(client: client, input: wanted, device: device, options: options)
    }
}

extension SearchNamespace {
    /// Finds files in the library by a query; at most `limit` of them, 1…1,000.
    public func find(
        _ query: String, limit: Int = 50, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> [Library.Entry] {
        try await files(.init(query: query, limit: limit), on: device, options: options).entries
    }
}
