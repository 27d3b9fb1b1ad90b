/// A method known only at run time: declared as a value, with JSON Schemas in place of types.
///
/// It is served, called, described and granted like one declared as a type. An input that does not fit its schema is refused
/// before the service sees it; the other schemas are for its callers.
///
/// ```swift
/// let now = DynamicMethod(
///     .query("weather.now", by: .grant(.node), "Tells the weather."),
///     input: ["type": "object", "properties": ["place": ["type": "string"]]])
/// let handler = Handler.call(now) { input, _ in ["degrees": 21] }
/// ```
public struct DynamicMethod: Hashable, Sendable {
    /// One direction of a stream.
    public struct Way: Hashable, Sendable {
        /// The form in which it is carried.
        public var form: StreamForm
        /// The schema of each message, when the form is messages.
        public var message: JSONSchema?

        /// Nothing but the end of the stream.
        public static let nothing = Way(form: .nothing, message: nil)
        /// Bytes as they are.
        public static let bytes = Way(form: .bytes, message: nil)
        /// Messages, JSON values of at most 1 MiB each.
        public static func messages(_ schema: JSONSchema = [:]) -> Way { Way(form: .messages, message: schema) }
    }

    /// Its name, the kind of call it takes, its callers and its summary.
    public var header: MethodHeader
    /// The access a caller needs.
    public var access: Access
    /// The schema of the input.
    public var input: JSONSchema
    /// The schema of the answer; for a stream, of the one the service gives when it accepts.
    public var output: JSONSchema
    /// For a stream, the content the caller sends.
    public var upstream: Way
    /// For a stream, the content the service sends.
    public var downstream: Way

    /// Declares a method.
    ///
    /// `access` is by default what the header says; give it for a narrower grant, such as one of your own kind.
    public init(
        _ header: MethodHeader, access: Access? = nil, input: JSONSchema = [:], output: JSONSchema = [:],
        upstream: Way = .nothing, downstream: Way = .nothing
    ) {
        self.header = header
        self.access = access ?? header.access
        self.input = input
        self.output = output
        self.upstream = upstream
        self.downstream = downstream
    }

    /// The stable name on every wire.
    public var name: String { header.name }
}

extension DynamicMethod.Way {
    var content: any StreamContent.Type {
        switch form {
        case .nothing: Nothing.self
        case .bytes: RawBytes.self
        case .messages: UntypedValue.self
        }
    }
}
