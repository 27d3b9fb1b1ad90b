/// Finds out whether the path carries larger datagrams than the 1200 bytes every path does (RFC 9000 §14.3).
///
/// ```
///  idle ──start──▶ wanted ──sent──▶ outstanding ──acknowledged──▶ done
///                    ▲                  │ lost, third time: next smaller size, or done
///                    └──────────────────┘
/// ```
struct SizeProbe {
    private enum State {
        case idle, wanted, outstanding, done
    }

    /// How often a size is tried.
    static let attempts = 3

    private var state = State.idle
    private var sizes: [Int] = []
    private var failures = 0

    /// The size to send a probe of; nil when none is wanted now.
    var wanted: Int? { state == .wanted ? sizes.first : nil }

    /// Begins, towards `target` bytes.
    mutating func start(target: Int) {
        sizes = [target] + [1400, 1280].filter { $0 < target }
        state = target > 1200 ? .wanted : .done
    }

    /// Notes that the probe is on its way.
    mutating func sent() { state = .outstanding }

    /// Notes that the probe arrived; answers the size that is now usable.
    mutating func acknowledged() -> Int? {
        guard state == .outstanding, let size = sizes.first else { return nil }
        state = .done
        return size
    }

    /// Notes that the probe was lost.
    mutating func lost() {
        guard state == .outstanding else { return }
        failures += 1
        if failures >= Self.attempts {
            failures = 0
            sizes.removeFirst()
        }
        state = sizes.isEmpty ? .done : .wanted
    }
}
