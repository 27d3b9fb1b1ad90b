import Synchronization

/// Runs independent pieces of work, perhaps side by side.
///
/// Adding thousands, joining a group of thousands and renewing keys in one are mostly independent work for each member.
/// The engine starts no threads; a client that has some to spare sets an executor (``GroupConfiguration/executor``).
public protocol WorkExecutor: Sendable {
    /// Calls `body` with every number below `count`, in any order, and returns when all calls have returned.
    ///
    /// A call of `body` may itself call ``perform(_:_:)``.
    func perform(_ count: Int, _ body: @Sendable (Int) -> Void)
}

/// The caller's own thread, which does one piece after the other.
public struct SerialWorkExecutor: WorkExecutor {
    /// Makes one.
    public init() {}

    /// Calls `body` with every number below `count`, in rising order.
    public func perform(_ count: Int, _ body: @Sendable (Int) -> Void) {
        for number in 0..<count { body(number) }
    }
}

extension WorkExecutor {
    /// Returns the results of `body` for every number below `count`, in their order.
    ///
    /// Numbers go out by the dozen, as the shortest work takes as long as a change of threads. Of several failures the
    /// one of the lowest number is thrown; a serial executor stops at it.
    func map<Element: Sendable>(
        _ count: Int, _ body: @Sendable (Int) throws(MLSError) -> Element
    ) throws(MLSError) -> [Element] {
        let dozen = 12
        var elements: [Element] = []
        elements.reserveCapacity(count)
        guard count > dozen, !(self is SerialWorkExecutor) else {
            for number in 0..<count { elements.append(try body(number)) }
            return elements
        }
        let parts = (count + dozen - 1) / dozen
        let results = Mutex<[Result<[Element], MLSError>?]>(Array(repeating: nil, count: parts))
        perform(parts) { part in
            let result: Result<[Element], MLSError>
            do throws(MLSError) {
                var made: [Element] = []
                for number in part * dozen..<min(count, (part + 1) * dozen) { made.append(try body(number)) }
                result = .success(made)
            } catch {
                result = .failure(error)
            }
            results.withLock { $0[part] = result }
        }
        for result in results.withLock({ $0 }) {
            switch result {
            case .success(let made)?: elements += made
            case .failure(let error)?: throw error
            case nil: preconditionFailure("an executor returns when its work is done")
            }
        }
        return elements
    }
}
