import Foundation
import KithAPI
import KithJobs
import KithNode
import KithWire

extension LibraryService {
    var eventHandlers: [Handler] {
        [
            .stream(LibraryEvents.Follow.self) { try await self.follow($0, $1, $2) }.limited(to: 16).endingAtShutdown()
        ]
    }

    private func follow(
        _ input: LibraryEvents.Follow.Input, _ context: CallContext, _ pending: PendingStream<LibraryEvents.Follow>
    ) async throws {
        guard (1...4_096).contains(input.buffer) else {
            throw KithError(.invalid, "`buffer` must be 1 to 4,096.")
        }
        guard input.types.count <= 64, input.resources.count <= 64, input.path?.bytes.count ?? 0 <= 4_096 else {
            throw KithError(
                .invalid, "`types` and `resources` list at most 64 each, and `path` has at most 4,096 bytes.")
        }
        guard let hub = await collection.events else {
            throw KithError(.unsupported, "Events need a node, and here is none.")
        }
        let isOwner = context.caller == .owner
        var (input, library) = (input, String?.none)
        if let job = input.job {
            guard isOwner else { throw KithError(.denied, "The jobs of a device are for its own person.") }
            input.job = try await Self.job(job, in: jobs.queue()).uuidString.lowercased()
        }
        if let word = input.library { library = try await keeper(word, for: context).id.uuidString.lowercased() }
        let access = try ContentAccess(by: context, purpose: "events")
        await collection.publishEvents()
        if isOwner { await deviceEvents.want() }
        let subscription = try LibraryTopics.follow(
            library, in: hub, isOwner: isOwner, buffer: Int(input.buffer), after: input.after)
        defer { subscription.cancel() }
        let stream = try await pending.accept(
            LibraryEvents.Position(epoch: hub.epoch, sequence: subscription.sequence))
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { [input] in
                for try await delivery in subscription.deliveries {
                    switch delivery {
                    case .gap(let gap): try await stream.send(.gap(gap))
                    case .event(let event):
                        guard let wanted = input.wanted(of: event.message) else { continue }
                        let numbered = LibraryEvents.Numbered(event, wanted)
                        guard await self.mayBeSeen(numbered, by: context, access) else { continue }
                        try await stream.send(.event(numbered))
                    }
                }
            }
            group.addTask { try await stream.end() }
            try await group.next()
        }
        try await stream.finish()
    }

    /// Whether the caller may know of an event: another device may not of those of a library that is unconfirmed, nor,
    /// without the grant for it, of what a person has noted.
    private func mayBeSeen(
        _ event: LibraryEvents.Numbered, by context: CallContext, _ access: ContentAccess
    ) async -> Bool {
        guard context.caller != .owner else { return true }
        guard event.library != LibraryEvents.ofDevice else { return false }
        if case .annotations = event.event, !access.isGranted { return false }
        // One that is not there any more is nobody's business.
        return (try? await collection.library(event.library, isOwner: false)) != nil
    }
}

extension LibraryEvents.Numbered {
    fileprivate init(_ event: Event<LibraryEvent>, _ wanted: LibraryEvent) {
        var library = LibraryEvents.ofDevice
        // `$library/ID/…`; what is of the device has two parts.
        if event.topic.segments.count > 2, case .literal(let id) = event.topic.segments[1] { library = id }
        self.init(
            library: library, epoch: event.epoch, sequence: event.sequence, time: event.time, event: wanted)
    }
}
