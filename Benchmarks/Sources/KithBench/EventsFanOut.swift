import Foundation
import Kith

extension Bench {
    private struct Reading: Codable, Sendable {
        var number: Int
        var room: String
    }

    /// Events to subscribers that read, beside as many that never do: deliveries a second, and none of them lost.
    static func fanOut(into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var options = Device.Options()
        options.listens = false
        let device = try await Device.open(directory: folder, options: options)
        for slow in [0, 10] {
            let result = try await deliver(50_000, to: 10, beside: slow, of: device)
            let name = "events to 10 readers, \(slow) that never read"
            report.add("\(name), deliveries", result.perSecond, "/s", atLeast: 100_000)
            report.add("\(name), lost by readers", Double(result.lost), "", atMost: 0)
        }
    }

    /// On the task pool: from the main actor, each event would cost two threads their waking.
    @concurrent private static func deliver(
        _ count: Int, to readers: Int, beside slow: Int, of device: Device
    ) async throws -> (perSecond: Double, lost: UInt64) {
        var options = SubscriptionOptions()
        options.buffer = 4_096
        let sleeping = try (0..<slow).map { _ in try device.subscribe("bench/>", as: Reading.self) }
        let reading = try (0..<readers).map { _ in try device.subscribe("bench/>", as: Reading.self, options: options) }
        let taken = reading.map { _ in Tally() }
        let meter = Meter()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (subscription, taken) in zip(reading, taken) {
                group.addTask {
                    for try await event in subscription {
                        taken.add()
                        if event.message.number == count - 1 { break }
                    }
                }
            }
            for number in 0..<count {
                try device.publish(Reading(number: number, room: "kitchen"), to: "bench/kitchen")
                // No further ahead of the slowest than there is room for: whoever publishes faster loses events.
                while number % 1_000 == 999, taken.contains(where: { $0.count < number - 3_000 }) {
                    await Task.yield()
                }
            }
            try await group.waitForAll()
        }
        let seconds = meter.seconds
        for subscription in sleeping { subscription.cancel() }
        return (
            Double(taken.reduce(0) { $0 + $1.count }) / seconds, reading.reduce(0) { $0 + $1.lostCount }
        )
    }
}
