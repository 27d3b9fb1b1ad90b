import Foundation
import Kith

extension Bench {
    /// A small message.
    private struct Reading: Codable, Sendable {
        var celsius: Double
        var room: String
    }

    /// One set of subscriptions.
    private struct Audience {
        var name: String
        var patterns: [String]
        var rounds: Int
    }

    /// Events within one process: what publishing costs its caller, and the time until every subscriber has them.
    static func events(into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var options = Device.Options()
        options.listens = false
        let device = try await Device.open(directory: folder, options: options)
        let topic = "bench/kitchen/temperature"
        let audiences = [
            Audience(name: "1 → 0", patterns: [], rounds: 4_000),
            Audience(name: "1 → 1", patterns: [topic], rounds: 4_000),
            Audience(name: "1 → 100", patterns: Array(repeating: topic, count: 100), rounds: 1_000),
            Audience(name: "1 → 10,000", patterns: Array(repeating: topic, count: 10_000), rounds: 50),
            Audience(
                name: "1 → 100 by *", patterns: Array(repeating: "bench/*/temperature", count: 100), rounds: 1_000),
            Audience(name: "1 → 100 by >", patterns: Array(repeating: "bench/>", count: 100), rounds: 1_000),
            Audience(
                name: "1 → 1 among 10,000 others", patterns: [topic] + (0..<10_000).map { "bench/\($0)/*" },
                rounds: 4_000),
        ]
        for audience in audiences {
            let result = try await measure(audience, topic, device)
            let count = Double(max(1, audience.patterns.count(where: { $0 == topic || !$0.hasSuffix("/*") })))
            let published = result.call / count
            if count == 1 {
                report.add("publish \(audience.name)", published, "µs")
            } else {
                report.add("publish \(audience.name), per subscriber", published, "µs", atMost: 1)
            }
            report.add("publish \(audience.name), allocations", result.allocations / count, "")
            guard !audience.patterns.isEmpty else { continue }
            report.add("publish \(audience.name), until it is there", result.delivery / count, "µs each")
        }
    }

    /// On the task pool: from the main actor, each event would cost two threads their waking.
    @concurrent private static func measure(
        _ audience: Audience, _ topic: String, _ device: Device
    ) async throws -> (call: Double, delivery: Double, allocations: Double) {
        var options = SubscriptionOptions()
        options.buffer = 4_096
        let rounds = audience.rounds
        let subscriptions = try audience.patterns.map { pattern in
            (try device.subscribe(pattern, as: Reading.self, options: options), pattern)
        }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for (subscription, pattern) in subscriptions where pattern == topic || !pattern.hasSuffix("/*") {
                group.addTask {
                    var iterator = subscription.makeAsyncIterator()
                    for _ in 0..<rounds {
                        guard try await iterator.next()?.message.celsius == 21.5 else {
                            throw KithError(.internal, "An event was lost.")
                        }
                    }
                }
            }
            let message = Reading(celsius: 21.5, room: "kitchen")
            let meter = Meter()
            for _ in 0..<rounds { try device.publish(message, to: topic) }
            let (call, allocations) = (meter.seconds, meter.allocationCount)
            try await group.waitForAll()
            let perRound = 1e6 / Double(rounds)
            return (call * perRound, meter.seconds * perRound, Double(allocations) / Double(rounds))
        }
    }
}
