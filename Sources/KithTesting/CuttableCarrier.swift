public import KithAPI
public import KithIdentity
public import KithNode
import KithWire
import Synchronization

/// Carries calls to one service over pipes that can be cut, as a network is.
///
/// The service sees the caller and the grants it is made with; nothing checks them before.
public final class CuttableCarrier: Carrier {
    private struct State {
        var pipes: [KithAPI.Pipe] = []
        var isDown = false
        var opened = 0
    }

    private let service: any Service
    private let caller: Caller
    private let grants: [Grant]
    private let onward: Client?
    private let state = Mutex(State())

    /// Makes a carrier to `service`, which calls others by `onward`; `nil`: by this carrier itself.
    public init(_ service: any Service, caller: Caller = .owner, grants: [Grant] = [], onward: Client? = nil) {
        self.service = service
        self.caller = caller
        self.grants = grants
        self.onward = onward
    }

    /// The number of streams that have been opened.
    public var opened: Int { state.withLock { $0.opened } }

    /// Breaks every stream there is.
    public func cut(staysDown: Bool = false) {
        let pipes = state.withLock { state -> [KithAPI.Pipe] in
            state.isDown = staysDown
            defer { state.pipes = [] }
            return state.pipes
        }
        for pipe in pipes {
            pipe.left.abort(.closed)
            pipe.right.abort(.closed)
        }
    }

    /// Lets streams be opened again.
    public func repair() { state.withLock { $0.isDown = false } }

    /// Calls the service.
    public func call<M: KithAPI.Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        guard case .call(let body)? = service.handlers.first(where: { $0.method.name == M.name })?.body else {
            throw KithError(.unsupported, M.name)
        }
        let context = CallContext(caller: caller, grants: grants, client: onward ?? Client(self))
        guard let output = try await body(input, context) as? M.Output else {
            throw KithError(.internal, "The answer of \(M.name) is of another type than the method's.")
        }
        return output
    }

    /// Opens a stream of the service.
    public func open<M: KithAPI.StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        if state.withLock({ $0.isDown }) { throw KithError(.unreachable, "the network is down") }
        guard case .stream(let body)? = service.handlers.first(where: { $0.method.name == M.name })?.body else {
            throw KithError(.unsupported, M.name)
        }
        let pipe = KithAPI.Pipe()
        state.withLock { state in
            state.pipes.append(pipe)
            state.opened += 1
        }
        let (accepted, acceptance) = AsyncThrowingStream.makeStream(of: M.Output.self)
        let context = CallContext(caller: caller, grants: grants, client: onward ?? Client(self))
        let serving = Task {
            do {
                try await body(input, context) { output in
                    if let output = output as? M.Output { acceptance.yield(output) }
                    return pipe.right
                }
                acceptance.finish()
            } catch {
                acceptance.finish(throwing: error)
                pipe.right.abort((error as? KithError)?.code ?? .cancelled)
            }
        }
        for try await output in accepted { return OpenedStream(output: output, stream: pipe.left) }
        // Who does not wait any more calls it off, as over a network.
        serving.cancel()
        try Task.checkCancellation()
        throw KithError(.internal, "never accepted")
    }
}
