import CoreMetrics
import Foundation
import Kith
import KithTelemetry
import KithTesting
import KithWire
import Testing

/// The value of one line of the page.
private func value(_ line: String, in text: String) -> Double? {
    text.split(separator: "\n").first { $0.hasPrefix(line + " ") }.flatMap { Double($0.dropFirst(line.count + 1)) }
}

/// Asks a page for something, as HTTP has it.
private func ask(_ page: MetricsPage, _ request: String) async throws -> String {
    let answer = Locked("")
    try await PlainSocket.exchange(request, with: page.address) { answer.set(answer.value + $0) }
    return answer.value
}

@Suite(.timeLimit(.minutes(4))) struct `The metrics of a device` {
    @Test func `count calls by method and outcome, connections and their bytes, and name nobody`() async throws {
        let metrics = PrometheusMetrics()
        let calls = CallMetrics(factory: metrics)
        var laptop = Device.Options()
        laptop.services = .only([RelayService(next: "server")])
        laptop.interceptors = [calls]
        var server = Device.Options()
        server.services = .only([RelayService(next: nil)])
        try await ThreeDevices.run(phone: server, laptop: laptop, server: server) { devices in
            let client = devices.phone.client
            for _ in 0..<3 { _ = try await client.call(Relay.self, "now", on: "laptop") }
            await #expect(throws: KithError(.conflict, "")) { try await client.call(Relay.self, "fail", on: "laptop") }
            await #expect(throws: KithError(.denied, "")) {
                try await client.call(ThisDevice.Status.self, Nothing(), on: "laptop")
            }
            await #expect(throws: KithError(.unsupported, "")) {
                try await client.call(Strange.self, Nothing(), on: "laptop")
            }
            await calls.refresh()
            let text = metrics.text
            #expect(value(#"kith_calls_served_total{method="test.relay",outcome="done"}"#, in: text) == 3)
            #expect(value(#"kith_calls_served_total{method="test.relay",outcome="conflict"}"#, in: text) == 1)
            #expect(value(#"kith_calls_made_total{method="test.relay",outcome="done"}"#, in: text) == 3)
            #expect(value(#"kith_call_served_seconds_count{method="test.relay"}"#, in: text) == 4)
            #expect(value(#"kith_calls_refused_total{method="device.status",outcome="denied"}"#, in: text) == 1)
            #expect(value(#"kith_calls_refused_total{method="other",outcome="unsupported"}"#, in: text) == 1)
            #expect(value("kith_connections", in: text) == 2)
            let sent = try #require(value(#"kith_connection_bytes_total{direction="sent"}"#, in: text))
            #expect(sent > 1_000)
            // Names, keys and addresses of others, and methods that they made up.
            for word in [
                "phone", "server", "strange", "127.0.0.1", devices.phone.id.description, devices.server.id.short,
            ] { #expect(!text.contains(word)) }
        }
    }

    /// A method nobody serves.
    private enum Strange: Method {
        typealias Input = Nothing
        typealias Output = Nothing
        static let header = MethodHeader.query("strange.method", by: .paired, "Is not there.")
    }

    @Test func `tell a bounded number of methods apart`() async throws {
        let metrics = PrometheusMetrics()
        let calls = CallMetrics(factory: metrics)
        for number in 0..<CallMetrics.methodLimit + 100 {
            let call = OutgoingCall(method: "made.up\(number)", kind: .query, device: "laptop")
            try await calls.make(call, next: NextCall { _ in })
        }
        #expect(value(#"kith_calls_made_total{method="made.up0",outcome="done"}"#, in: metrics.text) == 1)
        #expect(value(#"kith_calls_made_total{method="other",outcome="done"}"#, in: metrics.text) == 100)
        let lines = metrics.text.split(separator: "\n").count { $0.hasPrefix("kith_calls_made_total{") }
        #expect(lines == CallMetrics.methodLimit + 1)
    }

    @Test func `are written as the format has it, whatever they are called`() {
        let metrics = PrometheusMetrics(help: ["odd_name_": "A \\ and a\nline."])
        Counter(label: "odd name!", dimensions: [("9", "a \"quote\", a \\ and a\nline")], factory: metrics).increment(
            by: 2)
        Counter(label: "odd_name_", dimensions: [], factory: metrics).increment(by: -1)
        CoreMetrics.Timer(label: "odd_name_", dimensions: [], factory: metrics).recordSeconds(1)
        let seconds = CoreMetrics.Timer(label: "waiting", dimensions: [("kind", "long")], factory: metrics)
        seconds.recordMilliseconds(5)
        seconds.recordSeconds(100)
        let gauge = CoreMetrics.Meter(label: "level", factory: metrics)
        gauge.set(2.5)
        gauge.decrement(by: 5)
        #expect(
            metrics.text == #"""
                # TYPE level gauge
                level -2.5
                # HELP odd_name_ A \\ and a\nline.
                # TYPE odd_name_ counter
                odd_name_ 0
                odd_name_{_9="a \"quote\", a \\ and a\nline"} 2
                # TYPE waiting histogram
                waiting_bucket{kind="long",le="0.0001"} 0
                waiting_bucket{kind="long",le="0.00025"} 0
                waiting_bucket{kind="long",le="0.001"} 0
                waiting_bucket{kind="long",le="0.0025"} 0
                waiting_bucket{kind="long",le="0.01"} 1
                waiting_bucket{kind="long",le="0.1"} 1
                waiting_bucket{kind="long",le="1.0"} 1
                waiting_bucket{kind="long",le="10.0"} 1
                waiting_bucket{kind="long",le="60.0"} 1
                waiting_bucket{kind="long",le="+Inf"} 2
                waiting_sum{kind="long"} 100.005
                waiting_count{kind="long"} 2

                """#)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `The page of metrics` {
    private func withPage(_ body: (MetricsPage) async throws -> Void) async throws {
        let page = try await MetricsPage.open(at: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)) { "level 1\n" }
        do { try await body(page) } catch { Issue.record(error) }
        await page.close()
    }

    @Test func `answers who asks by its address`() async throws {
        try await withPage { page in
            for host in [page.address.description, "localhost:9464", "[::1]"] {
                let answer = try await ask(page, "GET /metrics HTTP/1.1\r\nHost: \(host)\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
                #expect(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"))
                #expect(answer.hasSuffix("\r\n\r\nlevel 1\n"))
            }
            let head = try await ask(page, "HEAD /metrics?x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            #expect(
                head.hasPrefix("HTTP/1.1 200") && head.contains("content-length: 8\r\n") && head.hasSuffix("\r\n\r\n"))
        }
    }

    @Test func `answers nothing else`() async throws {
        try await withPage { page in
            // A name that somebody else's DNS has lead here, for a browser to read the page with.
            for (request, status) in [
                ("GET /metrics HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n", "421"),
                ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", "421"),
                ("POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", "405"),
                ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "404"),
                ("GET /metrics/../etc HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "404"),
            ] {
                let answer = try await ask(page, request)
                #expect(answer.hasPrefix("HTTP/1.1 \(status)"), "\(request)")
                #expect(!answer.contains("level"))
            }
            #expect(try await !ask(page, "level\r\n\r\n").contains("level 1"))
        }
    }
}
