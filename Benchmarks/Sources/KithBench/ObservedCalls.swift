import CoreMetrics
import Foundation
import InMemoryTracing
import Kith
import KithTelemetry
import Tracing

extension Bench {
    /// A query that gives its input back.
    private enum Echo: Method {
        typealias Input = ByteString
        typealias Output = ByteString
        static let header = MethodHeader.query("bench.observed", by: .paired, "Gives its input back.")
    }

    private struct EchoService: Service {
        var handlers: [Handler] { [.call(Echo.self) { input, _ in input }] }
    }

    /// Does nothing around a call.
    private struct Nobody: CallInterceptor {}

    /// Does nothing around a call of a client.
    private struct NobodyAtClient: ClientInterceptor {
        func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws { try await next(call) }
    }

    /// One way to look at calls, and what they took.
    private struct Watched {
        var name: String
        var device: Device
        var client: Client
        var microseconds: [Double] = []
        var allocations = 0.0
    }

    /// One small call in process after another, unwatched and watched in several ways, in turn.
    static func observedCalls(rounds: Int, into report: inout Report) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let (metrics, tracer) = (PrometheusMetrics(), InMemoryTracer())
        let ways: [(String, [any CallInterceptor], [any ClientInterceptor])] = [
            ("unwatched", [], []),
            ("interceptor that does nothing", [Nobody()], []),
            ("interceptors at both ends that do nothing", [Nobody()], [NobodyAtClient()]),
            (
                "metrics and traces that go nowhere",
                [CallMetrics(factory: NOOPMetricsHandler.instance), CallTracing(tracer: NoOpTracer())], []
            ),
            ("metrics and traces kept", [CallMetrics(factory: metrics), CallTracing(tracer: tracer)], []),
        ]
        var watched: [Watched] = []
        for (index, way) in ways.enumerated() {
            var options = Device.Options()
            options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
            options.services = .only([EchoService()])
            options.interceptors = way.1
            let device = try await Device.open(directory: "\(folder)/\(index)", options: options)
            watched.append(
                Watched(name: way.0, device: device, client: device.client.intercepted(by: way.2)))
        }
        watched = try await measureObserved(watched, rounds: rounds, tracer)
        // What was kept is there: it was no measurement of nothing.
        guard metrics.text.contains("bench.observed"), watched.allSatisfy({ $0.microseconds.count == rounds }) else {
            throw KithError(.internal, "Nobody looked at the calls.")
        }
        let plain = percentile(0.5, of: watched[0].microseconds)
        for way in watched {
            let median = percentile(0.5, of: way.microseconds)
            report.add("call in process, \(way.name), p50", median, "µs")
            report.add("call in process, \(way.name), allocations", way.allocations, "")
            if way.name != watched[0].name { report.add("call in process, \(way.name)", median / plain, "× unwatched") }
        }
    }

    /// On the task pool: from the main actor, each call would cost two threads their waking.
    @concurrent private static func measureObserved(
        _ ways: [Watched], rounds: Int, _ tracer: InMemoryTracer
    ) async throws -> [Watched] {
        var ways = ways
        let input = ByteString([1, 2, 3, 4])
        let turns = 10
        for turn in 0..<turns {
            for index in ways.indices {
                let client = ways[index].client
                for _ in 0..<(turn == 0 ? 500 : 50) { _ = try await client.call(Echo.self, input) }
                let meter = Meter()
                var samples: [Double] = []
                samples.reserveCapacity(rounds / turns)
                for _ in 0..<rounds / turns {
                    let began = ContinuousClock.now
                    _ = try await client.call(Echo.self, input)
                    samples.append((ContinuousClock.now - began).inSeconds * 1e6)
                }
                ways[index].allocations = Double(meter.allocationCount) / Double(rounds / turns)
                ways[index].microseconds += samples
                tracer.clearFinishedSpans()
            }
        }
        return ways
    }
}
