import Foundation
import Kith
import KithClient

extension Bench {
    /// A query that gives its input back.
    private enum Echo: Method {
        typealias Input = ByteString
        typealias Output = ByteString
        static let header = MethodHeader.query("bench.socket", by: .paired, "Gives its input back.")
    }

    private struct EchoService: Service {
        var handlers: [Handler] { [.call(Echo.self) { input, _ in input }] }
    }

    private struct Reading: Codable, Sendable {
        var number: Int
    }

    /// A thousand clients of the socket, each with a connection of its own, beside a hundred thousand events a second.
    ///
    /// Each client makes a call about every second. What they wait is measured without events and with them; and the
    /// events without clients and with them.
    static func socket(clients count: Int, into report: inout Report) async throws {
        // Both ends of each connection are in this process.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, rlim_t(count * 4 + 512)))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var options = Device.Options()
        // One that does not listen has no socket, either.
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        options.services = .only([EchoService()])
        let device = try await Device.open(directory: folder, options: options)
        var lines = Report()
        try await device.whileRunning {
            let carriers = try await connect(count, directory: folder)
            defer { for carrier in carriers { carrier.close() } }
            let quiet = try await call(carriers, for: .seconds(5))
            let events = try await publish(device, for: .seconds(5)) {}
            var beside: [Double] = []
            let both = try await publish(device, for: .seconds(5)) {
                beside = try await call(carriers, for: .seconds(5))
            }
            lines.add("\(count) clients of the socket, a call, p50", percentile(0.5, of: quiet), "ms")
            lines.add("\(count) clients of the socket, a call, p95", percentile(0.95, of: quiet), "ms")
            lines.add("  beside events, p50", percentile(0.5, of: beside), "ms")
            lines.add("  beside events, p95", percentile(0.95, of: beside), "ms", atMost: 50)
            lines.add("  calls a second beside events", Double(beside.count) / 5, "/s")
            lines.add("events delivered, no clients", events.perSecond, "/s", atLeast: 100_000)
            lines.add("  beside the clients", both.perSecond, "/s", atLeast: 100_000)
            lines.add("  lost by their readers", Double(events.lost + both.lost), "", atMost: 0)
            if let memory = residentMegabytes { lines.add("memory of both ends", memory, "MB") }
        }
        report.lines += lines.lines
    }

    @concurrent private static func connect(_ count: Int, directory: String) async throws -> [SocketCarrier] {
        var carriers: [SocketCarrier] = []
        // A device that has just begun makes its socket beside this.
        for _ in 0..<500 {
            guard try await SocketCarrier.connect(directory: directory) == nil else { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        for _ in 0..<count {
            guard let carrier = try await SocketCarrier.connect(directory: directory) else {
                throw KithError(.closed, "The device is not there.")
            }
            carriers.append(carrier)
        }
        return carriers
    }

    /// Each client calls about once a second, at a moment of its own; returns the milliseconds of each call.
    @concurrent private static func call(_ carriers: [SocketCarrier], for time: Duration) async throws -> [Double] {
        let samples = Tally()
        let end = ContinuousClock.now + time
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, carrier) in carriers.enumerated() {
                group.addTask {
                    let client = Client(carrier)
                    try await Task.sleep(for: .milliseconds(number * 1_000 / carriers.count))
                    while ContinuousClock.now < end {
                        let began = ContinuousClock.now
                        _ = try await client.call(Echo.self, ByteString([1, 2, 3, 4]))
                        samples.add((ContinuousClock.now - began).inSeconds * 1e3)
                        try await Task.sleep(for: .seconds(1))
                    }
                }
            }
            try await group.waitForAll()
        }
        return samples.samples
    }

    /// Publishes ten thousand events a second to ten readers while `body` runs, and at least for a time.
    @concurrent private static func publish(
        _ device: Device, for time: Duration, _ body: () async throws -> Void
    ) async throws -> (perSecond: Double, lost: UInt64) {
        var options = SubscriptionOptions()
        options.buffer = 4_096
        let readers = try (0..<10).map { _ in try device.subscribe("bench/>", as: Reading.self, options: options) }
        let taken = Tally()
        let meter = Meter()
        let publishing = Task {
            let start = ContinuousClock.now
            for round in 1...(Int(time.inSeconds) * 100) {
                for number in 0..<105 { try device.publish(Reading(number: number), to: "bench/kitchen") }
                try await Task.sleep(until: start + .milliseconds(round * 10), clock: .continuous)
            }
            for reader in readers { reader.cancel() }
            return meter.seconds
        }
        let reading = Task {
            await withTaskGroup(of: Void.self) { group in
                for reader in readers {
                    group.addTask {
                        // It ends when it is cancelled.
                        do { for try await _ in reader { taken.add() } } catch {}
                    }
                }
            }
        }
        try await body()
        // What runs beside it may take longer.
        let seconds = try await publishing.value
        await reading.value
        return (Double(taken.count) / seconds, readers.reduce(0) { $0 + $1.lostCount })
    }
}
