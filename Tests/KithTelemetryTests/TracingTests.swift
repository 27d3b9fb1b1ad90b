import InMemoryTracing
import Kith
import KithTelemetry
import Synchronization
import Testing
import Tracing

/// The in-memory tracer, with ids and the header of W3C Trace Context.
private struct HeaderTracer: Tracer {
    let base: InMemoryTracer

    init() {
        let last = Last()
        base = InMemoryTracer(
            idGenerator: .init(
                nextTraceID: { last.hex(digits: 32) }, nextSpanID: { last.hex(digits: 16) }),
            recordInjections: false, recordExtractions: false)
    }

    private final class Last: Sendable {
        private let number = Atomic(0)
        func hex(digits: Int) -> String {
            let text = String(number.add(1, ordering: .relaxed).newValue, radix: 16)
            return String(repeating: "0", count: digits - text.count) + text
        }
    }

    func startSpan<Instant: TracerInstant>(
        _ operationName: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant, function: String, file fileID: String, line: UInt
    ) -> InMemorySpan {
        base.startSpan(
            operationName, context: context(), ofKind: kind, at: instant(), function: function, file: fileID, line: line
        )
    }

    func activeSpan(identifiedBy context: ServiceContext) -> InMemorySpan? { base.activeSpan(identifiedBy: context) }

    func forceFlush() {}

    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Carrier == Inject.Carrier {
        guard let span = context.inMemorySpanContext else { return }
        injector.inject("00-\(span.traceID)-\(span.spanID)-01", forKey: "traceparent", into: &carrier)
    }

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Carrier == Extract.Carrier {
        guard let fields = extractor.extract(key: "traceparent", from: carrier)?.split(separator: "-"),
            fields.count == 4
        else { return }
        context.inMemorySpanContext = InMemorySpanContext(
            traceID: String(fields[1]), spanID: String(fields[2]), parentSpanID: nil)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A trace` {
    /// The options of a device of its own tracer, which asks `next`.
    private static func options(_ tracer: HeaderTracer, next: String?) -> Device.Options {
        var options = Device.Options()
        options.services = .only([RelayService(next: next)])
        options.interceptors = [CallTracing(tracer: tracer)]
        return options
    }

    @Test func `goes on over three devices, each span a child of its caller's`() async throws {
        let tracers = [HeaderTracer(), HeaderTracer(), HeaderTracer()]
        // Ids are different in each of them, as they are in three processes.
        for (index, tracer) in tracers.enumerated() {
            for _ in 0..<(index * 1_000) { tracer.startSpan("skip", ofKind: .internal).end() }
            tracer.base.clearFinishedSpans()
        }
        try await ThreeDevices.run(
            phone: Self.options(tracers[0], next: "laptop"), laptop: Self.options(tracers[1], next: "server"),
            server: Self.options(tracers[2], next: nil)
        ) { devices in
            for tracer in tracers { tracer.base.clearFinishedSpans() }
            let client = devices.phone.client
            let answer = try await tracers[0].withSpan("shopping") { _ in
                try await client.call(Relay.self, "now", on: "laptop")
            }
            #expect(answer == "answer")
            let isRelay = { (span: FinishedInMemorySpan) in span.operationName == "test.relay" }
            // The servers' spans end behind the answer.
            while tracers[1].base.finishedSpans.count(where: isRelay) < 2
                || tracers[2].base.finishedSpans.count(where: isRelay) < 1
            { await Task.yield() }
            let spans = tracers.map { $0.base.finishedSpans.filter(isRelay) }
            let asked = try #require(spans[0].first)
            let served = try #require(spans[1].first { $0.kind == .server })
            let passedOn = try #require(spans[1].first { $0.kind == .client })
            let last = try #require(spans[2].first)
            let shopping = try #require(tracers[0].base.finishedSpans.first { $0.operationName == "shopping" })
            #expect(asked.kind == .client && last.kind == .server)
            #expect(asked.parentSpanID == shopping.spanID)
            #expect(Set([asked, served, passedOn, last].map(\.traceID)) == [shopping.traceID])
            #expect(served.spanContext.parentSpanID == asked.spanID)
            #expect(passedOn.spanContext.parentSpanID == served.spanID)
            #expect(last.spanContext.parentSpanID == passedOn.spanID)
        }
    }

    @Test func `goes on over streams, and a failed call says its code and no more`() async throws {
        let tracers = [HeaderTracer(), HeaderTracer(), HeaderTracer()]
        try await ThreeDevices.run(
            phone: Self.options(tracers[0], next: "laptop"), laptop: Self.options(tracers[1], next: "server"),
            server: Self.options(tracers[2], next: nil)
        ) { devices in
            let client = devices.phone.client
            let trace = try #require(
                TraceContext(traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
            let stream = try await client.open(
                Tell.self, Nothing(), on: "laptop", options: CallOptions(trace: trace)
            ).stream
            #expect(try await stream.receive() == Tell.Word(text: "word"))
            #expect(try await stream.receive() == nil)
            let isTell = { (span: FinishedInMemorySpan) in span.operationName == "test.tell" }
            while !tracers[2].base.finishedSpans.contains(where: isTell) { await Task.yield() }
            #expect(tracers[2].base.finishedSpans.first(where: isTell)?.traceID == "0af7651916cd43dd8448eb211c80319c")

            await #expect(throws: KithError(.conflict, "")) {
                try await client.call(Relay.self, "fail", on: "laptop")
            }
            let failed = try #require(tracers[0].base.finishedSpans.last { $0.operationName == "test.relay" })
            #expect(failed.status?.code == .error)
            #expect(failed.attributes.get("error.type") == .string("conflict"))
            #expect(failed.errors.isEmpty)
        }
    }
}
