import KithIdentity
import KithRPC
import KithWire

/// A table of methods as an OpenRPC 1.3 document (spec.open-rpc.org), for programs in any language.
///
/// Members that OpenRPC does not define begin with `x-kith-`.
public struct OpenRPC: Codable, Hashable, Sendable {
    /// The subject of the document.
    public struct Info: Codable, Hashable, Sendable {
        /// Its title.
        public var title: String
        /// A longer description.
        public var description: String
        /// The version of the table's form, as in ``API/Describe``.
        public var version: String
    }

    /// A member of a method's input, or its whole output.
    public struct Content: Codable, Hashable, Sendable {
        /// The name; `result` of an output.
        public var name: String
        /// True when the member must be given; `nil` for an output.
        public var required: Bool?
        /// The schema of the value.
        public var schema: JSONSchema
    }

    /// One direction of a stream.
    public struct Way: Codable, Hashable, Sendable {
        /// The form in which it is carried.
        public var form: StreamForm
        /// The schema of each message; `nil` unless the form is messages.
        public var message: JSONSchema?
    }

    /// One method.
    public struct Method: Codable, Hashable, Sendable {
        /// The stable name on every wire.
        public var name: String
        /// One line for a person.
        public var summary: String
        /// The form of `params`: an object.
        public var paramStructure: String
        /// The members of its input.
        public var params: [Content]
        /// The output; for a stream, the answer when the service accepts.
        public var result: Content
        /// The kind of call it takes.
        public var kind: MethodKind
        /// The callers allowed: `owner`, `paired`, `anyone`, or `grant` and the grant needed.
        public var access: String
        /// True when calling it twice has the same effect as once.
        public var isIdempotent: Bool
        /// For a stream, the content the caller sends; `nil` for other methods.
        public var upstream: Way?
        /// For a stream, the content the service sends; `nil` for other methods.
        public var downstream: Way?
        /// The whole input, where it is not an object.
        public var input: JSONSchema?

        private enum CodingKeys: String, CodingKey {
            case name, summary, paramStructure, params, result
            case kind = "x-kith-kind"
            case access = "x-kith-access"
            case isIdempotent = "x-kith-idempotent"
            case upstream = "x-kith-upstream"
            case downstream = "x-kith-downstream"
            case input = "x-kith-input"
        }
    }

    /// An error of a call.
    public struct Failure: Codable, Hashable, Sendable {
        /// The number in an answer.
        public var code: Int
        /// The code by its name in Kith (`KithError.Code`).
        public var message: String
    }

    /// The schemas that methods refer to.
    public struct Components: Codable, Hashable, Sendable {
        /// Types, by name.
        public var schemas: [String: JSONSchema]
        /// The errors any call may end with, by name.
        public var errors: [String: Failure]
    }

    /// The version of OpenRPC.
    public var openrpc: String
    /// The subject of the document.
    public var info: Info
    /// The methods, by name.
    public var methods: [Method]
    /// The schemas the methods refer to.
    public var components: Components
    /// The schema of the members that may stand beside `params` in any request.
    public var envelope: JSONSchema

    private enum CodingKeys: String, CodingKey {
        case openrpc, info, methods, components
        case envelope = "x-kith-envelope"
    }
}

extension OpenRPC {
    /// Describes `methods`, in the order of their names.
    package init(describing methods: some Sequence<AnyMethod>) {
        let probe = SchemaProbe()
        self.methods = methods.sorted { $0.name < $1.name }.map { $0.described(probe) }
        openrpc = "1.3.2"
        info = Info(
            title: "Kith",
            description: """
                The methods of a device, as JSON-RPC 2.0 at its socket. `params` is the method's input; what concerns \
                the call itself, as which device is asked, stands beside it (x-kith-envelope). A stream goes on after \
                its result with the notifications $/message, $/finish, $/credit, $/cancel and $/end.
                """,
            version: "\(API.version)")
        components = Components(
            schemas: probe.definitions,
            errors: Dictionary(
                KithError.Code.allCases.map {
                    ($0.rawValue, Failure(code: $0.rpcCode, message: $0.rawValue))
                }
            ) { $1 })
        envelope = Self.envelope
        // An input stands in `params`, member by member.
        let used = Set(self.methods.flatMap { types(of: $0) })
        components.schemas = components.schemas.filter { used.contains($0.key) }
    }

    /// The schema of the members that may stand beside `params` in any request.
    package static let envelope: JSONSchema = [
        "type": "object",
        "properties": .object(
            Dictionary(CallMember.allCases.map { ($0.rawValue, $0.schema.value) }) { $1 }),
    ]

    /// The part of the document that concerns one method: itself, and the types it refers to.
    package func only(_ name: String) -> OpenRPC? {
        guard let method = methods.first(where: { $0.name == name }) else { return nil }
        var document = self
        document.methods = [method]
        let used = Set(types(of: method))
        document.components.schemas = components.schemas.filter { used.contains($0.key) }
        return document
    }

    /// The names of the types a method refers to, and those refer to, each once, the nearest first.
    package func types(of method: Method) -> [String] {
        var names: [String] = []
        var open = method.params.map(\.schema)
        open += [method.input, method.result.schema, method.upstream?.message, method.downstream?.message]
            .compactMap(\.self)
        while !open.isEmpty {
            let found = open.flatMap { Self.references(in: $0.value) }
            open = []
            for name in found where !names.contains(name) {
                names.append(name)
                if let schema = components.schemas[name] { open.append(schema) }
            }
        }
        return names
    }

    private static func references(in value: JSONValue) -> [String] {
        switch value {
        case .object(let members):
            let own = JSONSchema(members).referenced.map { [$0] } ?? []
            return own + members.sorted { $0.key < $1.key }.flatMap { references(in: $0.value) }
        case .array(let values): return values.flatMap { references(in: $0) }
        default: return []
        }
    }
}

extension AnyMethod {
    /// The method as an entry of a document, whose types `probe` learns.
    static func describe<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ header: MethodHeader, input: Input.Type, output: Output.Type, upstream: any StreamContent.Type,
        downstream: any StreamContent.Type, _ probe: SchemaProbe
    ) -> OpenRPC.Method {
        func way(_ content: any StreamContent.Type) -> OpenRPC.Way? {
            guard header.kind == .stream else { return nil }
            func message<Message: StreamMessage>(_ type: Message.Type) -> JSONSchema { probe.schema(of: type) }
            return OpenRPC.Way(
                form: content.form, message: (content as? any StreamMessage.Type).map { message($0) })
        }
        let members = probe.members(of: Input.self)
        let (usual, again) = (omissible(Input.self), omissible(Input.self))
        let params = members?.map { member in
            OpenRPC.Content(
                name: member.name, required: member.isRequired && usual[member.name] == nil,
                schema: usual[member.name].map {
                    probe.omitting($0, again[member.name] ?? .null, of: member.schema)
                } ?? member.schema)
        }
        return OpenRPC.Method(
            name: header.name, summary: header.summary, paramStructure: "by-name", params: params ?? [],
            result: OpenRPC.Content(name: "result", required: nil, schema: probe.schema(of: Output.self)),
            kind: header.kind, access: header.callersText, isIdempotent: header.isIdempotent,
            upstream: way(upstream), downstream: way(downstream),
            input: members == nil ? probe.schema(of: Input.self) : nil)
    }

    /// A method that is known only at run time as an entry of a document.
    static func describe(_ method: DynamicMethod) -> OpenRPC.Method {
        func way(_ way: DynamicMethod.Way) -> OpenRPC.Way? {
            method.header.kind == .stream ? OpenRPC.Way(form: way.form, message: way.message) : nil
        }
        let members = method.input.properties
        let required = Set(method.input.required)
        return OpenRPC.Method(
            name: method.name, summary: method.header.summary, paramStructure: "by-name",
            params: members.sorted { $0.key < $1.key }.map {
                OpenRPC.Content(name: $0.key, required: required.contains($0.key), schema: $0.value)
            },
            result: OpenRPC.Content(name: "result", required: nil, schema: method.output), kind: method.header.kind,
            access: method.header.callersText, isIdempotent: method.header.isIdempotent, upstream: way(method.upstream),
            downstream: way(method.downstream), input: members.isEmpty ? method.input : nil)
    }

    /// Returns the defaults of the members that an input may leave out.
    private static func omissible(_ type: any Codable.Type) -> [String: JSONValue] {
        guard let type = type as? any OmissibleInput.Type,
            // A default that JSON cannot express cannot be written down.
            case .object(let members)? = try? JSONText(encoding: type.usual).decode(JSONValue.self)
        else { return [:] }
        return members.filter { !type.required.contains($0.key) }
    }
}
