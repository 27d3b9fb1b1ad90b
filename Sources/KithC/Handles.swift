import CKith
import KithWire
import Synchronization

/// The objects behind the numbers that C holds.
///
/// A number is a place and the generation of what stands there, so one that was freed stays wrong when its place is taken
/// again.
final class Handles: Sendable {
    /// Those of the process.
    static let all = Handles()

    private struct Slot {
        var generation: UInt32 = 1
        var object: (any AnyObject & Sendable)?
    }

    private struct State {
        var slots: [Slot] = []
        var free: [Int] = []

        func place(of handle: kith_handle) -> Int? {
            let place = Int(handle & 0xFFFF_FFFF) - 1
            guard slots.indices.contains(place), slots[place].generation == handle >> 32 else { return nil }
            return place
        }
    }

    private let state = Mutex(State())

    /// Gives an object a number.
    func add(_ object: any AnyObject & Sendable) throws -> kith_handle {
        try state.withLock { state throws in
            let place: Int
            if let free = state.free.popLast() {
                place = free
            } else {
                guard state.slots.count < Int(UInt32.max) - 1 else {
                    throw KithError(.exhausted, "There are too many handles; free some.")
                }
                place = state.slots.count
                state.slots.append(Slot())
            }
            state.slots[place].object = object
            return kith_handle(state.slots[place].generation) << 32 | kith_handle(place + 1)
        }
    }

    /// The object with a number, if it is of that type.
    func object<Object: AnyObject & Sendable>(_ handle: kith_handle, as type: Object.Type) throws -> Object {
        let object = state.withLock { state in state.place(of: handle).flatMap { state.slots[$0].object } }
        guard let object = object as? Object else { throw Self.stale }
        return object
    }

    /// Takes the number away; `nil` when it is none of that type any more.
    @discardableResult
    func remove<Object: AnyObject & Sendable>(_ handle: kith_handle, as type: Object.Type) -> Object? {
        state.withLock { state -> Object? in
            guard let place = state.place(of: handle), let object = state.slots[place].object as? Object else {
                return nil
            }
            state.slots[place].object = nil
            let (next, hasOverflowed) = state.slots[place].generation.addingReportingOverflow(1)
            // A place whose generations are used up is never taken again; 0 is no generation.
            state.slots[place].generation = next
            if !hasOverflowed { state.free.append(place) }
            return object
        }
    }

    /// Takes the number away.
    ///
    /// - Throws: `KithError` `.notFound` when it is none of that type any more.
    func take<Object: AnyObject & Sendable>(_ handle: kith_handle, as type: Object.Type) throws -> Object {
        guard let object = remove(handle, as: type) else { throw Self.stale }
        return object
    }

    static var stale: KithError {
        KithError(.notFound, "The handle is none: it was freed or has ended, or it is one of another kind.")
    }
}
