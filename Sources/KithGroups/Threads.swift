import Dispatch
public import KithMLS
import Synchronization

/// The system's threads, for the work of a group that is for each member apart.
public struct Threads: WorkExecutor {
    /// The number of threads that work at once, at most.
    public let width: Int

    /// Takes how many may work at once: one at least.
    public init(width: Int) { self.width = max(1, width) }

    /// Calls `body` with every number below `count`, and waits for it on the calling thread, which works as well.
    public func perform(_ count: Int, _ body: @Sendable (Int) -> Void) {
        let next = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: min(width, count)) { _ in
            while true {
                let number = next.wrappingAdd(1, ordering: .relaxed).oldValue
                guard number < count else { return }
                body(number)
            }
        }
    }
}
