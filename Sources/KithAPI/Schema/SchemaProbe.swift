package import KithRPC
import KithWire

/// Learns what `Codable` types look like as JSON, by decoding them from a decoder that has an answer to every question.
///
/// A type holds what it asks the decoder for: the names of members, whether they may be left out, and their types in
/// turn. Types with names of their own become definitions that others refer to, so a type may contain itself, in an
/// array for example.
package final class SchemaProbe {
    /// One member of an object.
    package typealias Member = (name: String, schema: JSONSchema, isRequired: Bool)

    /// The types met so far that have a name of their own, by that name.
    package private(set) var definitions: [String: JSONSchema] = [:]

    private struct Known {
        var schema: JSONSchema
        var sample: Any
        var members: [Member]
    }

    private var known: [ObjectIdentifier: Known] = [:]
    private var running: Set<ObjectIdentifier> = []
    private var owners: [String: ObjectIdentifier] = [:]

    /// Knows nothing yet.
    package init() {}

    /// A type whose form cannot be learned.
    package struct Failure: Error {
        /// The reason, for a person.
        package var reason: String
    }

    /// Returns the schema of a type; for one that cannot be decoded this way, a schema that allows anything and says
    /// why.
    package func schema<Value: Decodable>(of type: Value.Type) -> JSONSchema {
        do {
            return try learn(type).schema
        } catch {
            return ["$comment": .string("unknown: \(error)")]
        }
    }

    /// The members of a type that is an object, in the order they are decoded in; `nil` for another.
    package func members<Value: Decodable>(of type: Value.Type) -> [Member]? {
        let schema = resolved(schema(of: type))
        guard schema["type"] == "object" else { return nil }
        return known[ObjectIdentifier(type)]?.members
    }

    /// Some value of a type; `nil` when it cannot be decoded this way.
    package func sample<Value: Decodable>(of type: Value.Type) -> Value? { try? learn(type).sample }

    /// The definition behind a reference; another schema as it is.
    package func resolved(_ schema: JSONSchema) -> JSONSchema {
        schema.referenced.flatMap { definitions[$0] } ?? schema
    }

    /// The same schema for a writer that may leave out what `usual` says.
    ///
    /// Nested objects likewise, as ``OmissibleInput`` completes them. `again` is `usual` made once more: a member that is
    /// random each time may be left out, too, and has no default to name.
    package func omitting(_ usual: JSONValue, _ again: JSONValue, of schema: JSONSchema) -> JSONSchema {
        var result = schema
        let below = resolved(schema)
        if case .object(let members) = usual, case .object(let others) = again, !members.isEmpty,
            !below.properties.isEmpty
        {
            result = below
            var properties = below.properties
            for (name, value) in members {
                properties[name] = properties[name].map { omitting(value, others[name] ?? .null, of: $0) }
            }
            let required = below.required.filter { members[$0] == nil }
            result["properties"] = .object(properties.mapValues(\.value))
            result["required"] = required.isEmpty ? nil : .array(required.map { .string($0) })
        }
        if usual == again { result["default"] = usual }
        return result
    }

    // MARK: - Learning

    /// Returns the schema of a type, or a reference to it while it is still being learned.
    fileprivate func reference<Value: Decodable>(to type: Value.Type) throws -> JSONSchema {
        if running.contains(ObjectIdentifier(type)), let name = definitionName(of: type) { return .reference(to: name) }
        return try learn(type).schema
    }

    fileprivate func learn<Value: Decodable>(_ type: Value.Type) throws -> (schema: JSONSchema, sample: Value) {
        let id = ObjectIdentifier(type)
        if let known = known[id], let sample = known.sample as? Value { return (known.schema, sample) }
        guard running.insert(id).inserted else { throw Failure(reason: "\(type) holds itself, and not in an array") }
        defer { running.remove(id) }
        var (schema, sample, members): (JSONSchema, Value, [Member])
        var isInline = false
        if let part = type as? any SchemaPart.Type {
            (schema, sample) = try Self.learn(part, as: type, self)
            members = []
            isInline = true
        } else {
            (schema, sample, members) = try study(type)
        }
        if !isInline, let name = definitionName(of: type) {
            definitions[name] = schema
            schema = .reference(to: name)
        }
        known[id] = Known(schema: schema, sample: sample, members: members)
        return (schema, sample)
    }

    private static func learn<Part: SchemaPart, Value>(
        _ part: Part.Type, as type: Value.Type, _ probe: SchemaProbe
    ) throws -> (JSONSchema, Value) {
        let (schema, sample) = try part.learned(by: probe)
        guard let sample = sample as? Value else { throw Failure(reason: "\(type) is not itself") }
        return (schema, sample)
    }

    private func study<Value: Decodable>(_ type: Value.Type) throws -> (JSONSchema, Value, [Member]) {
        if let type = type as? any SchemaDescribing.Type {
            let schema = type.schema
            guard case .array(let examples) = schema["examples"], let first = examples.first else {
                throw Failure(reason: "\(type) gives no example of itself")
            }
            return (schema, try JSONText(encoding: first).decode(Value.self), [])
        }
        if let cases = type as? any SchemaCases.Type {
            let (schema, sample) = try alternatives(cases.schemaCases, of: type)
            return (schema, sample, [])
        }
        if let type = type as? any (CaseIterable & RawRepresentable).Type,
            let (values, sample) = Self.cases(type) as? ([JSONValue], Value)
        {
            return (["type": "string", "enum": .array(values)], sample, [])
        }
        let recorder = Recorder(probe: self, only: nil)
        let sample = try Value(from: recorder)
        return (recorder.schema, sample, recorder.members)
    }

    private static func cases<Cases: CaseIterable & RawRepresentable>(_ type: Cases.Type) -> ([JSONValue], Cases)? {
        let values = type.allCases.compactMap { ($0.rawValue as? String).map { JSONValue.string($0) } }
        guard let first = type.allCases.first, values.count == type.allCases.count else { return nil }
        return (values, first)
    }

    /// One object of one member for each case.
    private func alternatives<Value: Decodable>(
        _ names: [String], of type: Value.Type
    ) throws -> (JSONSchema, Value) {
        var forms: [JSONValue] = []
        var sample: Value?
        for name in names {
            let recorder = Recorder(probe: self, only: name)
            // A case may refuse a made-up value; what it asked for is known all the same.
            let value = try? Value(from: recorder)
            sample = sample ?? value
            guard let member = recorder.members.first(where: { $0.name == name }) else {
                throw Failure(reason: "\(type) has no case \(name)")
            }
            forms.append(JSONSchema.object([(name: name, schema: member.schema, isRequired: true)]).value)
        }
        guard let sample else { throw Failure(reason: "no case of \(type) can be made up") }
        return (["oneOf": .array(forms)], sample)
    }

    /// Returns the name of a type in documents, without its module; `nil` for one without a name of its own.
    private func definitionName<Value>(of type: Value.Type) -> String? {
        let full = String(reflecting: type)
        guard full.utf8.allSatisfy({ (48...57).contains($0) || (65...90).contains($0 & 0xDF) || $0 == 46 || $0 == 95 }),
            let dot = full.firstIndex(of: ".")
        else { return nil }
        let short = String(full[full.index(after: dot)...])
        let id = ObjectIdentifier(type)
        // Two modules may each have a type of that name.
        let name = owners[short, default: id] == id ? short : full
        owners[name] = id
        return name
    }
}

// MARK: - The decoder

/// A decoder that notes what it is asked for.
private final class Recorder: Decoder {
    let probe: SchemaProbe
    /// The case that is decoded, of an enumeration.
    let only: String?
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    private var entries: [(name: String, schema: () -> JSONSchema)] = []
    private var omissible: Set<String> = []
    private var single: JSONSchema?
    private var isNullable = false

    init(probe: SchemaProbe, only: String?) {
        self.probe = probe
        self.only = only
    }

    var members: [SchemaProbe.Member] {
        entries.map { ($0.name, $0.schema(), !omissible.contains($0.name)) }
    }

    var schema: JSONSchema {
        guard let single else { return .object(members) }
        return isNullable ? single.orNull : single
    }

    func note(_ name: String, _ schema: @escaping () -> JSONSchema) {
        // A member that is asked for twice is the same member.
        if !entries.contains(where: { $0.name == name }) { entries.append((name, schema)) }
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(Keyed<Key>(recorder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw SchemaProbe.Failure(reason: "an array of several types")
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { Single(recorder: self) }

    struct Keyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let recorder: Recorder
        var codingPath: [any CodingKey] { [] }
        var allKeys: [Key] { recorder.only.flatMap { Key(stringValue: $0) }.map { [$0] } ?? [] }

        func contains(_ key: Key) -> Bool { recorder.only.map { $0 == key.stringValue } ?? true }

        func decodeNil(forKey key: Key) -> Bool {
            recorder.omissible.insert(key.stringValue)
            return false
        }

        func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
            let (schema, sample) = try recorder.probe.learn(type)
            recorder.note(key.stringValue) { schema }
            return sample
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type, forKey key: Key
        ) -> KeyedDecodingContainer<Nested> {
            let nested = Recorder(probe: recorder.probe, only: nil)
            recorder.note(key.stringValue) { nested.schema }
            return nested.container(keyedBy: type)
        }

        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
            try recorder.unkeyedContainer()
        }

        func superDecoder() -> any Decoder { recorder }

        func superDecoder(forKey key: Key) -> any Decoder { recorder }
    }

    struct Single: SingleValueDecodingContainer {
        let recorder: Recorder
        var codingPath: [any CodingKey] { [] }

        func decodeNil() -> Bool {
            recorder.isNullable = true
            return false
        }

        func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
            let (schema, sample) = try recorder.probe.learn(type)
            recorder.single = schema
            return sample
        }
    }
}

// MARK: - What everything is made of

/// A type of the language, described where it is used.
private protocol SchemaPart {
    static func learned(by probe: SchemaProbe) throws -> (JSONSchema, Self)
}

extension SchemaPart where Self: FixedWidthInteger {
    static func learned(by probe: SchemaProbe) -> (JSONSchema, Self) {
        var schema: JSONSchema = ["type": "integer", "format": .string("\(isSigned ? "int" : "uint")\(bitWidth)")]
        // A format is a word; a limit is what validators know.
        if !isSigned { schema["minimum"] = 0 }
        if bitWidth < 64 {
            schema["minimum"] = .integer(Int64(min))
            schema["maximum"] = .integer(Int64(max))
        }
        return (schema, 0)
    }
}

extension Int: SchemaPart {}
extension Int8: SchemaPart {}
extension Int16: SchemaPart {}
extension Int32: SchemaPart {}
extension Int64: SchemaPart {}
extension UInt: SchemaPart {}
extension UInt8: SchemaPart {}
extension UInt16: SchemaPart {}
extension UInt32: SchemaPart {}
extension UInt64: SchemaPart {}

extension Double: SchemaPart {
    static func learned(by probe: SchemaProbe) -> (JSONSchema, Double) { (["type": "number"], 0) }
}

extension Float: SchemaPart {
    static func learned(by probe: SchemaProbe) -> (JSONSchema, Float) { (["type": "number"], 0) }
}

extension Bool: SchemaPart {
    static func learned(by probe: SchemaProbe) -> (JSONSchema, Bool) { (["type": "boolean"], false) }
}

extension String: SchemaPart {
    static func learned(by probe: SchemaProbe) -> (JSONSchema, String) { (["type": "string"], "") }
}

extension ByteString: SchemaPart {
    static func learned(by probe: SchemaProbe) -> (JSONSchema, ByteString) {
        (["type": "string", "contentEncoding": "base64"], ByteString())
    }
}

extension Optional: SchemaPart where Wrapped: Decodable {
    static func learned(by probe: SchemaProbe) throws -> (JSONSchema, Wrapped?) {
        (try probe.reference(to: Wrapped.self).orNull, nil)
    }
}

extension Array: SchemaPart where Element: Decodable {
    static func learned(by probe: SchemaProbe) throws -> (JSONSchema, [Element]) {
        (.array(of: try probe.reference(to: Element.self)), [])
    }
}

extension Set: SchemaPart where Element: Decodable {
    static func learned(by probe: SchemaProbe) throws -> (JSONSchema, Set<Element>) {
        var schema = JSONSchema.array(of: try probe.reference(to: Element.self))
        schema["uniqueItems"] = true
        return (schema, [])
    }
}

extension Dictionary: SchemaPart where Key == String, Value: Decodable {
    static func learned(by probe: SchemaProbe) throws -> (JSONSchema, [String: Value]) {
        (["type": "object", "additionalProperties": try probe.reference(to: Value.self).value], [:])
    }
}
