import KithWire
import KithRPC

/// An input or an output on its way: encoded for a wire, or still a value of this process.
package enum Payload: Sendable {
    /// Deterministic CBOR, as it travels between devices.
    case cbor([UInt8])
    /// JSON, as it travels over JSON-RPC.
    case json([UInt8])
    /// The value itself.
    case value(any Sendable)

    /// The encodings of a payload.
    package enum Format: Hashable, Sendable {
        case cbor, json, value
    }

    /// The encoding of this payload.
    package var format: Format {
        switch self {
        case .cbor: .cbor
        case .json: .json
        case .value: .value
        }
    }
}

/// A method with its types erased: what a table of methods holds.
public struct AnyMethod: Sendable {
    /// All that is known of it before a call.
    public let header: MethodHeader

    /// The stable name on every wire: `service.verb`.
    public var name: String { header.name }
    /// The kind of call it takes.
    public var kind: MethodKind { header.kind }

    /// The type of what the caller of a stream sends; nothing for a query or an action.
    package let upstream: any StreamContent.Type
    /// The type of what the service of a stream sends; nothing for a query or an action.
    package let downstream: any StreamContent.Type
    package let input: Coding
    package let output: Coding
    package let access: @Sendable (any Sendable) throws -> Access
    /// The type that declares it where callers have it; `nil` for a method that is known by its header alone.
    package let declaration: (any Method.Type)?
    /// The declaration of a method that is known only at run time; `nil` for a typed one.
    package let dynamic: DynamicMethod?
    /// True when its types are declared where callers have them, so that it is the same method on every device.
    package let isShared: Bool
    /// Itself as an entry of a document, whose types the probe learns.
    package let described: @Sendable (SchemaProbe) -> OpenRPC.Method
    /// The type of its input.
    package let inputType: any Sendable.Type
    /// Makes up an input that it accepts.
    package let sampleInput: @Sendable (SchemaProbe) -> (any Sendable)?

    /// Between the forms of one type's values.
    package struct Coding: Sendable {
        /// Decodes the value of a payload; throws `.invalid` when it cannot.
        package let decode: @Sendable (Payload) throws -> any Sendable
        /// The value in a form for travelling.
        package let encode: @Sendable (any Sendable, Payload.Format) throws -> Payload

        /// The same value in another form.
        package func convert(_ payload: Payload, to format: Payload.Format) throws -> Payload {
            payload.format == format ? payload : try encode(decode(payload), format)
        }

        init<Value: Codable & Sendable>(_ type: Value.Type, what: String) {
            decode = { payload in
                do {
                    switch payload {
                    case .cbor(let bytes): return try Self.decode(type, cbor: bytes)
                    case .json(let bytes):
                        let completed = try (type as? any OmissibleInput.Type)?.completed(JSONText(bytes)).bytes
                        do {
                            return try Self.decode(type, from: completed ?? bytes)
                        } catch {
                            guard type is any ExpressibleByNilLiteral.Type,
                                try JSONText(bytes).members()?.isEmpty == true
                            else { throw error }
                            return try Self.decode(type, from: Array("null".utf8))
                        }
                    case .value(let value as UntypedValue):
                        return try CBORDecoder().decode(type, from: CBOREncoder().encode(value))
                    case .value(let value as Value): return value
                    case .value(let value):
                        // A caller that knows the method by its path has types of its own.
                        guard let value = value as? any Encodable else {
                            throw KithError(.invalid, "it is of another type.")
                        }
                        return try Self.decode(type, cbor: CBOREncoder().encode(value))
                    }
                } catch let error as KithError where error.code != .invalid {
                    throw error
                } catch {
                    throw KithError(
                        .invalid, "\(what) is not what the method takes: \(Self.reason(error))", cause: error)
                }
            }
            encode = { value, format in
                let value = try Self.cast(value, to: type, what: what)
                switch format {
                case .cbor: return .cbor(try CBOREncoder().encode(value))
                case .json: return .json(try JSONText.encode(value))
                case .value: return .value(value)
                }
            }
        }

        /// Converts between the forms of values of unknown type.
        fileprivate init(untyped what: String) {
            decode = { payload in
                do {
                    switch payload {
                    case .cbor(let bytes): return try CBORDecoder().decode(UntypedValue.self, from: bytes)
                    case .json(let bytes): return UntypedValue(try JSONText(bytes))
                    case .value(let value as UntypedValue): return value
                    case .value(let value):
                        guard let value = value as? any Encodable else {
                            throw KithError(.invalid, "\(what) is no value that can be written.")
                        }
                        return try CBORDecoder().decode(UntypedValue.self, from: CBOREncoder().encode(value))
                    }
                } catch {
                    throw KithError(.invalid, "\(what) cannot be read: \(Self.reason(error))", cause: error)
                }
            }
            encode = { value, format in
                let value = try Self.cast(value, to: UntypedValue.self, what: what)
                switch format {
                case .cbor: return .cbor(try CBOREncoder().encode(value))
                case .json: return .json(value.json.bytes)
                case .value: return .value(value)
                }
            }
        }

        /// Reads a value from CBOR.
        private static func decode<Value: Decodable>(_ type: Value.Type, cbor bytes: [UInt8]) throws -> Value {
            do {
                return try CBORDecoder().decode(type, from: bytes)
            } catch {
                // Those of this version leave nothing out.
                if let omissible = type as? any OmissibleInput.Type {
                    return try CBORDecoder().decode(type, from: omissible.completed(bytes))
                }
                // An optional input that is not given.
                guard bytes == [0xA0], type is any ExpressibleByNilLiteral.Type else { throw error }
                return try CBORDecoder().decode(type, from: [0xF6])
            }
        }

        /// Reads a value from JSON.
        ///
        /// Of a number that does not fit, Foundation says only that the whole is not JSON: here it is named.
        private static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
            do {
                return try JSONText.decode(type, from: bytes)
            } catch DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty {
                let members = (try? JSONText(bytes))?.members() ?? []
                for (index, member) in members.prefix(64).enumerated() {
                    guard let first = member.value.bytes.first, first == UInt8(ascii: "-") || 48...57 ~= first else {
                        continue
                    }
                    // If the rest decodes with null in its place, it was this member.
                    var others = members
                    others[index].value = try JSONText(Array("0".utf8))
                    guard (try? JSONText.decode(type, from: JSONText(members: others).bytes)) != nil else { continue }
                    throw KithError(
                        .invalid,
                        "`\(member.name)` cannot be \(String(decoding: member.value.bytes.prefix(32), as: UTF8.self)).")
                }
                throw DecodingError.dataCorrupted(context)
            }
        }

        private static func cast<Value>(_ value: any Sendable, to type: Value.Type, what: String) throws -> Value {
            guard let value = value as? Value else {
                throw KithError(.invalid, "\(what) is of another type than the method's.")
            }
            return value
        }

        /// Describes, for a person, why text could not be decoded.
        static func reason(_ error: any Error) -> String {
            switch error {
            case let error as KithError: return error.message
            case let error as WireError: return "\(error)"
            case DecodingError.keyNotFound(let key, _): return "`\(key.stringValue)` is missing."
            case DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context),
                DecodingError.dataCorrupted(let context):
                let path = context.codingPath.map(\.stringValue).joined(separator: ".")
                return path.isEmpty ? context.debugDescription : "`\(path)`: \(context.debugDescription)"
            default: return "it cannot be read."
            }
        }
    }

    /// Erases the types of `method`.
    public init<M: Method>(_ method: M.Type) {
        self.init(method, upstream: Nothing.self, downstream: Nothing.self)
    }

    /// Erases the types of `method`, those of its stream too.
    public init<M: StreamMethod>(_ method: M.Type) {
        precondition(M.header.kind == .stream, "\(M.name) carries a stream: its header is MethodHeader.stream")
        self.init(method, upstream: M.Upstream.self, downstream: M.Downstream.self)
    }

    /// Makes an entry of a method that is known only at run time.
    public init(_ method: DynamicMethod) {
        header = method.header
        upstream = method.upstream.content
        downstream = method.downstream.content
        input = Coding(untyped: "The input of \(method.name)")
        output = Coding(untyped: "The answer of \(method.name)")
        declaration = nil
        dynamic = method
        isShared = false
        described = { _ in Self.describe(method) }
        inputType = UntypedValue.self
        sampleInput = { _ in nil }
        access = { _ in method.access }
    }

    private init<M: Method>(
        _ method: M.Type, upstream: any StreamContent.Type, downstream: any StreamContent.Type
    ) {
        self.init(
            M.header, input: M.Input.self, output: M.Output.self, upstream: upstream, downstream: downstream,
            isShared: true, declaration: method
        ) { M.access(for: $0) }
    }

    /// Makes an entry of a method that is declared by its types alone, where it is served.
    package init<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ header: MethodHeader, input: Input.Type, output: Output.Type,
        upstream: any StreamContent.Type = Nothing.self, downstream: any StreamContent.Type = Nothing.self,
        isShared: Bool = false, declaration: (any Method.Type)? = nil,
        access: @escaping @Sendable (Input) -> Access
    ) {
        self.declaration = declaration
        self.upstream = upstream
        self.downstream = downstream
        self.header = header
        self.input = Coding(Input.self, what: "The input of \(header.name)")
        self.output = Coding(Output.self, what: "The answer of \(header.name)")
        dynamic = nil
        self.isShared = isShared
        described = {
            Self.describe(
                header, input: Input.self, output: Output.self, upstream: upstream, downstream: downstream, $0)
        }
        inputType = Input.self
        sampleInput = { $0.sample(of: Input.self) }
        self.access = { value in
            guard let input = value as? Input else {
                throw KithError(.invalid, "The input of \(header.name) is of another type than the method's.")
            }
            return access(input)
        }
    }
}

extension StreamContent {
    /// Takes the next whole message from `buffer`, as JSON; `nil` while it is not complete.
    ///
    /// - Throws: `KithError` `.invalid` when it cannot be read, or when this direction carries no messages.
    package static func nextJSON(from buffer: inout ReceiveBuffer) throws -> [UInt8]? {
        guard let type = Self.self as? any StreamMessage.Type else { throw notMessages }
        return try type.next(from: &buffer).map { try JSONText.encode($0) }
    }

    /// The bytes of a message that is written as JSON.
    ///
    /// - Throws: `KithError` `.invalid` when it is not a message of this direction of the stream.
    package static func bytes(fromJSON json: [UInt8]) throws -> [UInt8] {
        func framed<Message: StreamMessage>(_ type: Message.Type) throws -> [UInt8] {
            let coding = AnyMethod.Coding(type, what: "The message")
            guard let message = try coding.decode(.json(json)) as? Message else { throw notMessages }
            var bytes: [UInt8] = []
            try message.append(to: &bytes)
            guard bytes.count <= type.sizeLimit + 8 else {
                throw KithError(
                    .invalid, "The message has \(bytes.count) bytes; at most \(type.sizeLimit) may be sent.")
            }
            return bytes
        }
        guard let type = Self.self as? any StreamMessage.Type else { throw notMessages }
        return try framed(type)
    }

    private static var notMessages: KithError {
        KithError(.invalid, "This way of the stream carries \(form == .bytes ? "bytes" : "nothing"), not messages.")
    }
}

extension AnyMethod: CustomStringConvertible {
    /// The name and the kind, for a log.
    public var description: String { "\(name) (\(kind.rawValue))" }
}
