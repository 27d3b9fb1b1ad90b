import Synchronization

/// What tasks beside one another have counted and measured.
final class Tally: Sendable {
    private let counted = Atomic(0)
    private let measured = Mutex<[Double]>([])

    var count: Int { counted.load(ordering: .relaxed) }
    var samples: [Double] { measured.withLock(\.self) }

    func add() { counted.add(1, ordering: .relaxed) }

    func add(_ sample: Double) { measured.withLock { $0.append(sample) } }
}
