import Foundation
import Kith
import KithNet
import KithQUIC
import NIOCore

extension Bench {
    /// Gives its input back, at once or late, and sends as much as is asked for.
    private struct EchoService: Service {
        let info = ServiceInfo("node-bench")
        var handlers: [Handler] {
            [
                .query("echo", access: .paired) { (input: ByteString, _) in input },
                .query("late", access: .paired) { (seconds: Int, _) in
                    try await Task.sleep(for: .seconds(seconds))
                    return seconds
                },
                .stream("bulk", access: .paired) { (count: Int, _, stream: ValueStream<Nothing, ByteString>) in
                    let piece = ByteString([UInt8](repeating: 0x5A, count: 64 << 10))
                    for _ in 0..<count { try await stream.send(piece) }
                },
            ]
        }
    }

    /// The least an asynchronous call in process costs.
    private actor Actor {
        func echo(_ input: ByteString) -> ByteString { input }
    }

    private static let path = "node-bench/echo"

    /// What a device costs besides its calls, and calls over bad links.
    static func node(into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        report.lines += try await routes("\(folder)/routes").lines
        report.lines += try await restarts("\(folder)/restarts", rounds: 100).lines
        report.lines += try await badLinks().lines
    }

    /// Requests to services on other devices.
    static func peers(into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var devices: [Device] = []
        for name in ["near", "far", "other"] {
            var options = Device.Options()
            options.name = name
            options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
            options.services = .only(name == "near" ? [] : [EchoService()])
            devices.append(try await Device.open(directory: "\(folder)/\(name)", options: options))
        }
        let leaving = devices[2]
        var lines = Report()
        try await devices[0].whileRunning {
            try await devices[1].whileRunning {
                let running = Task { try await leaving.run() }
                for device in [devices[1], leaving] { try await pair(devices[0], with: device) }
                while devices[0].announcedServices.count(where: { $0.path == "node-bench" }) < 2 {
                    try await Task.sleep(for: .milliseconds(10))
                }
                lines = try await requestsElsewhere(devices[0])
                lines.lines += try await failover(devices[0], from: leaving.id, running).lines
            }
        }
        report.lines += lines.lines
    }

    // MARK: - One device

    /// Requests to a service in the same process, by one caller and by many.
    static func requests(into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var options = Device.Options()
        options.listens = false
        options.services = .only([EchoService()])
        let device = try await Device.open(directory: folder, options: options)
        report.lines += try await device.whileRunning { try await requestsHere(device) }.lines
    }

    private static func times(_ rounds: Int, _ work: () async throws -> Void) async throws -> [Double] {
        var samples: [Double] = []
        samples.reserveCapacity(rounds)
        for _ in 0..<rounds {
            let began = ContinuousClock.now
            try await work()
            samples.append((ContinuousClock.now - began).inSeconds * 1e6)
        }
        return samples
    }

    /// Seconds that `callers` tasks take for `rounds` calls together.
    private static func together(
        _ callers: Int, rounds: Int, _ work: @escaping @Sendable () async throws -> Void
    ) async throws -> Double {
        let meter = Meter()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<callers {
                group.addTask { for _ in 0..<rounds / callers { try await work() } }
            }
            try await group.waitForAll()
        }
        return meter.seconds
    }

    @concurrent private static func requestsHere(_ device: Device) async throws -> Report {
        var report = Report()
        let (actor, input, rounds) = (Actor(), ByteString([]), 20_000)
        let request = { @Sendable in _ = try await device.request(path, input, as: ByteString.self) }
        _ = try await times(1_000, request)
        let plain = try await times(rounds) { _ = await actor.echo(input) }
        let meter = Meter()
        let samples = try await times(rounds, request)
        let allocations = Double(meter.allocationCount) / Double(rounds)
        let median = percentile(0.5, of: samples)
        report.add("request here, p50", median, "µs", atMost: 5)
        report.add("request here, p99", percentile(0.99, of: samples), "µs")
        report.add("request here, to a call of an actor, p50", median / percentile(0.5, of: plain), "x")
        report.add("request here, allocations", allocations, "")
        let seconds = try await together(64, rounds: 64 * 4_000, request)
        report.add("requests here of 64 callers", 64 * 4_000 / seconds, "/s", atLeast: 200_000)
        return report
    }

    /// What a publication and a subscription cost beside a number of other subscriptions.
    @concurrent private static func routes(_ folder: String) async throws -> Report {
        var options = Device.Options()
        options.listens = false
        let device = try await Device.open(directory: folder, options: options)
        var report = Report()
        var first: (publish: Double, subscribe: Double)?
        for count in [100, 10_000, 99_000] {
            let kept = try (0..<count).map {
                try device.subscribe($0 % 2 == 0 ? "route/\($0)/x" : "route/\($0)/*", as: Int.self)
            }
            let rounds = 5_000
            let (meter, churn) = (Meter(), rounds)
            for _ in 0..<rounds { try device.publish(1, to: "route/none/x") }
            let publish = meter.seconds * 1e6 / Double(rounds)
            let second = Meter()
            for number in 0..<churn { _ = try device.subscribe("route/new\(number)/x", as: Int.self) }
            let subscribe = second.seconds * 1e6 / Double(churn)
            report.add("publish to nobody among \(count) subscriptions", publish, "µs")
            report.add("subscribe and end among \(count) subscriptions", subscribe, "µs")
            if let first {
                report.add("publish among \(count), to among 100", publish / first.publish, "x", atMost: 2)
                report.add("subscribe among \(count), to among 100", subscribe / first.subscribe, "x", atMost: 2)
            } else {
                first = (publish, subscribe)
            }
            withExtendedLifetime(kept) {}
        }
        return report
    }

    /// Starting and stopping one device, and what stays behind.
    @concurrent private static func restarts(_ folder: String, rounds: Int) async throws -> Report {
        var options = Device.Options()
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        options.services = .only([EchoService()])
        let device = try await Device.open(directory: folder, options: options)
        func cycle() async throws -> (start: Double, stop: Double) {
            let began = ContinuousClock.now
            let up = try await device.whileRunning {
                _ = try await device.request(path, ByteString([]), as: ByteString.self)
                return ContinuousClock.now
            }
            return ((up - began).inSeconds * 1e3, (ContinuousClock.now - up).inSeconds * 1e3)
        }
        for _ in 0..<5 { _ = try await cycle() }
        let descriptors = { try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }
        let (before, meter) = (descriptors(), Meter())
        var cycles: [(start: Double, stop: Double)] = []
        for _ in 0..<rounds { cycles.append(try await cycle()) }
        var report = Report()
        report.add("start, to the first answer, p50", percentile(0.5, of: cycles.map(\.start)), "ms", atMost: 200)
        report.add("stop, p50", percentile(0.5, of: cycles.map(\.stop)), "ms", atMost: 50)
        report.add("stop, p99", percentile(0.99, of: cycles.map(\.stop)), "ms")
        report.add("memory that a start and a stop leave", Double(meter.liveBytes) / Double(rounds) / 1000, "kB")
        if let before, let after = descriptors() {
            report.add("descriptors left after \(rounds) starts", Double(after - before), "", atMost: 0)
        }
        return report
    }

    // MARK: - Several devices

    @concurrent private static func requestsElsewhere(_ near: Device) async throws -> Report {
        var report = Report()
        @Sendable func echo(_ input: ByteString) async throws {
            _ = try await near.request(path, input, from: .device("far"), as: ByteString.self)
        }
        let nats = try await NatsServer()
        if nats == nil {
            print("nats-server is not installed, so nothing is compared with it: apt-get install nats-server")
        }
        for (name, size, rounds) in [("nothing", 0, 4), ("1 KiB", 1 << 10, 4), ("64 KiB", 64 << 10, 4)] {
            let input = ByteString([UInt8](repeating: 7, count: size))
            let buffer = ByteBuffer(bytes: input.bytes)
            let count = size > 1 << 15 ? 100 : 500
            _ = try await times(100) { try await echo(input) }
            var (own, other, allocations) = ([Double](), [Double](), 0)
            // In turn, as the machine is quicker at one moment than at another.
            for _ in 0..<rounds {
                let meter = Meter()
                own += try await times(count) { try await echo(input) }
                allocations += meter.allocationCount
                if let nats { other += try await times(count) { try await nats.request(buffer) } }
            }
            report.add("request of \(name) to another device, p50", percentile(0.5, of: own), "µs")
            report.add("request of \(name) to another device, p99", percentile(0.99, of: own), "µs")
            report.add(
                "request of \(name) to another device, allocations", Double(allocations) / Double(own.count), "")
            guard nats != nil else { continue }
            let baseline = percentile(0.5, of: other)
            report.add("request of \(name) by nats-server, p50", baseline, "µs")
            report.add(
                "request of \(name), to nats-server, p50", percentile(0.5, of: own) / baseline, "x", atMost: 1)
        }
        for (flight, count) in [(1, 1_000), (64, 64 * 100)] {
            var (own, other) = (0.0, 0.0)
            for _ in 0..<3 {
                own += try await together(flight, rounds: count) { try await echo(ByteString([])) }
                if let requests = nats?.requests {
                    other += try await together(flight, rounds: count) { try await requests(ByteBuffer()) }
                }
            }
            report.add("requests to another device, \(flight) in flight", Double(3 * count) / own, "/s")
            guard nats != nil else { continue }
            report.add("requests, \(flight) in flight, to nats-server", other / own, "x", atLeast: 0.7)
        }
        try await nats?.stop()

        let meter = Meter()
        let stream: ValueStream<ByteString, Nothing> = try await near.open(
            "node-bench/bulk", 1_600, from: .device("far"))
        var bytes = 0
        while let piece = try await stream.receive() { bytes += piece.bytes.count }
        guard bytes == 100 << 20 else { throw KithError(.corrupt, "\(bytes) bytes arrived.") }
        report.add("stream of 100 MiB from another device", Double(bytes) / 1e6 / meter.seconds, "MB/s")

        // One connection, with and without handlers that take long.
        let alone = percentile(0.5, of: try await times(1_000) { try await echo(ByteString([])) })
        let slow = (0..<8).map { _ in
            Task { _ = try await near.request("node-bench/late", 10, from: .device("far"), as: Int.self) }
        }
        let beside = percentile(0.5, of: try await times(1_000) { try await echo(ByteString([])) })
        for task in slow { task.cancel() }
        for task in slow { _ = await task.result }
        report.add("request beside 8 that take 10 s, to alone, p50", beside / alone, "x", atMost: 1.5)
        return report
    }

    /// Requests to any of two providers while one of them is stopped hard.
    @concurrent private static func failover(
        _ near: Device, from leaving: DeviceID, _ running: Task<Void, any Error>
    ) async throws -> Report {
        let load = Task {
            var (count, lost, longest) = (0, 0, Duration.zero)
            while !Task.isCancelled {
                let began = ContinuousClock.now
                do {
                    _ = try await near.request(path, ByteString([1]), as: ByteString.self)
                    count += 1
                } catch  where !Task.isCancelled {
                    lost += 1
                } catch {
                    break
                }
                longest = max(longest, ContinuousClock.now - began)
            }
            return (count, lost, longest)
        }
        try await Task.sleep(for: .milliseconds(300))
        running.cancel()
        // Stopped is what it was cancelled for.
        _ = await running.result
        while near.announcedServices.contains(where: { $0.device == leaving }) {
            try await Task.sleep(for: .milliseconds(5))
        }
        try await Task.sleep(for: .milliseconds(100))
        load.cancel()
        let (count, lost, longest) = await load.value
        var report = Report()
        report.add("requests while a provider stops", Double(count), "")
        report.add("requests while a provider stops, lost", Double(lost), "", atMost: 0)
        report.add("requests while a provider stops, longest", longest.inSeconds * 1e3, "ms")
        return report
    }

    // MARK: - Bad links

    /// Requests on a stream each, ten at a time, over links that lose and reorder packets.
    private static func badLinks() async throws -> Report {
        var report = Report()
        for (name, delay, loss, late) in [
            ("1 % lost", 5, 0.01, 0.0), ("5 % lost", 5, 0.05, 0), ("200 ms", 100, 0, 0),
            ("5 % lost, 10 % late, 200 ms", 100, 0.05, 0.1),
        ] {
            let server = try await endpoint()
            let client = try await endpoint()
            let link = try await DelayedPath(
                toPort: server.port, delay: .milliseconds(delay), loss: loss, late: late)
            let connection = try await client.connect(to: server.id, at: [link.address])
            let serving = Task { await echo(server) }
            let samples = try await withThrowingTaskGroup(of: [Double].self) { group in
                for _ in 0..<10 {
                    group.addTask {
                        try await times(20) {
                            let stream = try await connection.openStream()
                            try await stream.write([UInt8](repeating: 1, count: 1_024))
                            try await stream.finish()
                            var count = 0
                            while let bytes = try await stream.read(upTo: 4_096) { count += bytes.count }
                            guard count == 1_024 else { throw KithError(.corrupt, "\(count) bytes came back.") }
                        }
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            report.add("200 requests, \(name), answered", Double(samples.count), "", atLeast: 200)
            report.add("200 requests, \(name), p50", percentile(0.5, of: samples) / 1e3, "ms")
            report.add("200 requests, \(name), p99", percentile(0.99, of: samples) / 1e3, "ms")
            await client.shutdown()
            await server.shutdown()
            await serving.value
            try await link.close()
        }
        return report
    }

    private static func echo(_ server: Endpoint) async {
        await withDiscardingTaskGroup { group in
            for await connection in server.established {
                group.addTask {
                    for await stream in connection.incomingStreams {
                        do {
                            while let bytes = try await stream.read(upTo: 4_096) { try await stream.write(bytes) }
                            try await stream.finish()
                        } catch {
                            stream.abort(.closed)  // the caller has its answer, and is gone
                        }
                    }
                }
            }
        }
    }
}
