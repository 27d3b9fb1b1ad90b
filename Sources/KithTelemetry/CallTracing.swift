public import KithAPI
public import KithNode
import KithWire
public import Tracing

/// A span for each call a node serves and each call it makes to another device.
///
/// The span of a served call is a child of its caller's, as the trace context says that came with the call; what the
/// service calls by `context.client`, here or on a third device, continues the trace, and so does what it starts of its own.
/// The tracer reads and writes the header `traceparent` (W3C Trace Context); what else it would send stays here.
///
/// ```swift
/// options.interceptors = [CallTracing()]
/// ```
///
/// A span has the name of its method, the attributes `rpc.system`, `rpc.method` and, where a call failed, the error's code:
/// never the content, nor the other device.
public struct CallTracing: CallInterceptor {
    private let tracer: any Tracer

    /// Traces with `tracer`; by default the process's own.
    public init(tracer: any Tracer = InstrumentationSystem.tracer) { self.tracer = tracer }

    /// Serves it in a span.
    public func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws {
        var parent = ServiceContext.topLevel
        if let trace = call.context.trace { extract(trace, into: &parent) }
        try await withSpan(call.method, .server, parent) { trace in
            var call = call
            if let trace { call.context.trace = trace }
            try await next(call)
        }
    }

    /// Makes it in a span.
    ///
    /// Its parent is the span of the task that makes the call, where that belongs to the trace the call is given.
    public func make(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
        var parent = ServiceContext.current ?? .topLevel
        if let trace = call.options.trace, inject(parent)?.traceID != trace.traceID { extract(trace, into: &parent) }
        try await withSpan(call.method, .client, parent) { trace in
            var call = call
            if let trace { call.options.trace = trace }
            try await next(call)
        }
    }

    private func withSpan(
        _ method: String, _ kind: SpanKind, _ parent: ServiceContext,
        _ body: (TraceContext?) async throws -> Void
    ) async throws {
        let span = tracer.startAnySpan(method, context: parent, ofKind: kind)
        defer { span.end() }
        span.attributes["rpc.system"] = "kith"
        span.attributes["rpc.method"] = method
        do {
            try await ServiceContext.withValue(span.context) { try await body(inject(span.context)) }
        } catch {
            let code =
                switch error {
                case let error as KithError: error.code
                case is CancellationError: KithError.Code.cancelled
                default: KithError.Code.internal
                }
            span.attributes["error.type"] = code.rawValue
            span.setStatus(SpanStatus(code: .error))
            throw error
        }
    }

    // MARK: - On the wire

    private static let header = "traceparent"

    private func extract(_ trace: TraceContext, into context: inout ServiceContext) {
        tracer.extract(trace.traceparent, into: &context, using: Header())
    }

    private func inject(_ context: ServiceContext) -> TraceContext? {
        var text = ""
        tracer.inject(context, into: &text, using: Header())
        return TraceContext(traceparent: text)
    }

    /// The one header that travels.
    private struct Header: Extractor, Injector {
        func extract(key: String, from carrier: String) -> String? { key == CallTracing.header ? carrier : nil }

        func inject(_ value: String, forKey key: String, into carrier: inout String) {
            if key == CallTracing.header { carrier = value }
        }
    }
}
