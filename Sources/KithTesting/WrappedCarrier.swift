public import KithAPI
import KithWire
import Synchronization

/// A carrier beneath a wrapper, which notes what the wrapper passes on.
public final class WrappedCarrier: Carrier {
    /// The requirements of a carrier.
    public enum Requirement: String, CaseIterable, Sendable {
        /// A call.
        case call
        /// A stream.
        case open
        /// A call by its name.
        case callNamed
        /// A stream by its name.
        case openNamed
        /// A call by its path.
        case request
        /// A stream by its path.
        case openPath
        /// A stream whose service need not have answered.
        case begin
    }

    /// A method that answers with nothing.
    private enum Ask: Method {
        typealias Input = Nothing
        typealias Output = Nothing
        static let header = MethodHeader.query("test.ask", by: .anyone, "Asks.")
    }

    /// A stream on which nothing is said.
    private enum Talk: StreamMethod {
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = RawBytes
        typealias Downstream = RawBytes
        static let header = MethodHeader.stream("test.talk", by: .anyone, "Talks.")
    }

    /// A stream that has ended.
    private final class Silence: NamedStream {
        var answer: [UInt8] { Array("{}".utf8) }
        func receive() async throws -> NamedStreamItem? { nil }
        func send(_ json: [UInt8]) async throws {}
        func send(bytes: [UInt8]) async throws {}
        func finish() async throws {}
        func cancel() {}
    }

    private let asked = Mutex<[Requirement: CallOptions]>([:])

    private init() {}

    private func note(_ requirement: Requirement, _ options: CallOptions) {
        asked.withLock { $0[requirement] = options }
    }

    /// Answers with nothing.
    public func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        note(.call, options)
        guard let nothing = Nothing() as? M.Output else { throw KithError(.unsupported, "Only a test's own is known.") }
        return nothing
    }

    /// Accepts.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        note(.open, options)
        guard let nothing = Nothing() as? M.Output else { throw KithError(.unsupported, "Only a test's own is known.") }
        return OpenedStream(output: nothing, stream: Pipe().left)
    }

    /// Answers with nothing.
    public func call(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> [UInt8] {
        note(.callNamed, options)
        return Array("{}".utf8)
    }

    /// Accepts.
    public func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        note(.openNamed, options)
        return Silence()
    }

    /// Answers with nothing.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        note(.request, options)
        guard let nothing = Nothing() as? Output else { throw KithError(.unsupported, "Only a test's own is known.") }
        return nothing
    }

    /// Accepts.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        note(.openPath, options)
        return ValueStream(Silence())
    }

    /// Accepts.
    public func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        note(.begin, options)
        guard let nothing = Nothing() as? M.Output else { throw KithError(.unsupported, "Only a test's own is known.") }
        return OpeningStream(OpenedStream<M>(output: nothing, stream: Pipe().left))
    }

    /// The options that each requirement was asked with beneath `wrap`, when a client asks for all there are.
    ///
    /// Those that are not there the wrapper loses for whoever holds it.
    public static func asked(
        through wrap: (WrappedCarrier) throws -> Client
    ) async throws -> [Requirement: CallOptions] {
        let carrier = WrappedCarrier()
        let client = try wrap(carrier)
        _ = try await client.call(Ask.self, Nothing())
        _ = try await client.open(Talk.self, Nothing())
        // One that does not pass these on refuses them, which is what is to be seen.
        _ = try? await client.call(named: "test.ask")
        _ = try? await client.open(named: "test.talk")
        _ = try? await client.request("test/ask", as: Nothing.self)
        let stream: ValueStream<Nothing, Nothing>? = try? await client.open("test/talk", Nothing())
        stream?.cancel()
        _ = try await client.begin(Talk.self, Nothing())
        return carrier.asked.withLock { $0 }
    }
}
