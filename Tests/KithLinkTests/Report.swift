import KithIO
import Synchronization
import Testing

/// What became of every case: one table, printed when all are through.
enum Report {
    private enum Outcome {
        case passed(seconds: Double, remark: String)
        case failed(String)
    }

    private static let outcomes = Mutex<[Peer: [Case: Outcome]]>([:])
    private static let gate = Gate(4)

    /// Runs a case and notes how it went.
    static func run(_ name: Case, with peer: Peer, _ body: @Sendable () async throws -> String) async throws {
        try await gate.pass {
            let start = ContinuousClock.now
            let outcome: Outcome
            do {
                let remark = try await body()
                outcome = .passed(seconds: (ContinuousClock.now - start) / .seconds(1), remark: remark)
            } catch {
                outcome = .failed("\(error)")
                outcomes.withLock { $0[peer, default: [:]][name] = outcome }
                throw error
            }
            outcomes.withLock { $0[peer, default: [:]][name] = outcome }
        }
    }

    /// The table, the remarks, and why what was not run was not.
    static func table() -> String {
        let outcomes = outcomes.withLock { $0 }
        func row(_ cells: [String]) -> String {
            cells[0].padding(to: 21) + cells.dropFirst().map { $0.padding(to: 16) }.joined()
        }
        var lines = ["The interop runner's cases over an emulated link (seed \(Scenario.seed)), in seconds:"]
        lines.append(row([""] + Peer.allCases.map(\.rawValue)))
        var remarks: [String] = []
        var reasons: [String: [Case: [Peer]]] = [:]
        for name in Case.allCases {
            var cells = [name.rawValue]
            for peer in Peer.allCases {
                switch outcomes[peer]?[name] {
                case .passed(let seconds, let remark):
                    cells.append("passed in \((seconds * 10).rounded() / 10)")
                    if !remark.isEmpty { remarks.append("\(name.rawValue), \(peer.rawValue): \(remark)") }
                case .failed(let reason):
                    cells.append("FAILED")
                    remarks.append("\(name.rawValue), \(peer.rawValue): FAILED: \(reason)")
                case nil:
                    cells.append("-")
                    let reason = Plan.obstacle(name, peer) ?? unavailable(peer) ?? "left out by the filter"
                    reasons[reason, default: [:]][name, default: []].append(peer)
                }
            }
            lines.append(row(cells))
        }
        lines.append("Not run:")
        for (reason, cases) in reasons.sorted(by: { $0.key < $1.key }) {
            let all = Case.allCases.filter { cases[$0] != nil }
            let peers = Peer.allCases.filter { peer in cases.values.contains { $0.contains(peer) } }
            let what = all.count == Case.allCases.count ? "all" : all.map(\.rawValue).joined(separator: " ")
            lines.append("  \(what), \(peers.map(\.rawValue).joined(separator: ", ")): \(reason)")
        }
        lines.append("What was seen:")
        return (lines + remarks.map { "  " + $0 }).joined(separator: "\n")
    }

    private static func unavailable(_ peer: Peer) -> String? {
        if let obstacle = Link.obstacle { return obstacle }
        return switch peer {
        case .ourselves: nil
        case .aioquicServer, .aioquicClient: Python.isAioquicInstalled ? nil : "aioquic is not installed"
        case .ngtcp2Server: NGTCP2.isServerInstalled ? nil : "gtlsserver is not installed"
        case .ngtcp2Client: NGTCP2.isClientInstalled ? nil : "gtlsclient is not installed"
        case .irohServer, .irohClient: Python.isIrohInstalled ? nil : "iroh is not installed"
        }
    }
}

/// Lets so many through at once: a case waits for its link most of the time, but not all of it.
private struct Gate {
    private let free: AsyncSemaphore

    init(_ free: Int) { self.free = AsyncSemaphore(free) }

    func pass(_ body: @Sendable () async throws -> Void) async throws {
        _ = try await free.take()
        defer { free.add(1) }
        try await body()
    }
}

extension String {
    fileprivate func padding(to width: Int) -> String {
        self + String(repeating: " ", count: max(1, width - count))
    }
}

/// Prints the table after the last case of the suite.
struct PrintsReport: SuiteTrait, TestScoping {
    @concurrent func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        defer { print(Report.table()) }
        try await function()
    }
}

extension Trait where Self == PrintsReport {
    /// Prints what became of every case.
    static var printsReport: Self { Self() }
}
