public import KithRPC

/// A JSON Schema of the draft 2020-12: the form of a JSON value, by its keywords.
///
/// It describes what may be written. Readers are more lenient: they skip members they do not know, and take `null` for
/// a missing member.
public struct JSONSchema: Hashable, Sendable {
    /// The keywords; none of them: anything goes.
    public var keywords: [String: JSONValue]

    /// Makes a schema of its keywords.
    public init(_ keywords: [String: JSONValue]) { self.keywords = keywords }
}

extension JSONSchema: Codable {
    /// Reads an object.
    public init(from decoder: any Decoder) throws { keywords = try [String: JSONValue](from: decoder) }

    /// Writes an object.
    public func encode(to encoder: any Encoder) throws { try keywords.encode(to: encoder) }
}

extension JSONSchema: ExpressibleByDictionaryLiteral {
    /// Makes a schema of its keywords; of two of one name the last counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(Dictionary(elements) { $1 })
    }
}

extension JSONSchema {
    /// A keyword's value.
    package subscript(keyword: String) -> JSONValue? {
        get { keywords[keyword] }
        set { keywords[keyword] = newValue }
    }

    /// The schema as a part of another one.
    package var value: JSONValue { .object(keywords) }

    /// Reads a part of another schema; `nil` when it is not a schema.
    package init?(_ value: JSONValue?) {
        guard case .object(let keywords) = value else { return nil }
        self.init(keywords)
    }

    /// The schema named `name` among the definitions of the same document.
    package static func reference(to name: String) -> JSONSchema { ["$ref": .string(referencePrefix + name)] }

    /// The name of the definition this refers to.
    package var referenced: String? {
        guard case .string(let target) = self["$ref"], target.hasPrefix(Self.referencePrefix) else { return nil }
        return String(target.dropFirst(Self.referencePrefix.count))
    }

    private static let referencePrefix = "#/components/schemas/"

    /// An array of what `element` describes.
    package static func array(of element: JSONSchema) -> JSONSchema { ["type": "array", "items": element.value] }

    /// A schema for what `self` describes, or `null`.
    package var orNull: JSONSchema { ["anyOf": [value, ["type": "null"]]] }

    /// The members of an object by name; empty when nothing is said of them.
    package var properties: [String: JSONSchema] {
        guard case .object(let members) = self["properties"] else { return [:] }
        return members.compactMapValues { JSONSchema($0) }
    }

    /// The members that must be there.
    package var required: [String] { Self.strings(self["required"]) }

    /// The strings of an array of them.
    package static func strings(_ value: JSONValue?) -> [String] {
        guard case .array(let values) = value else { return [] }
        return values.compactMap { if case .string(let text) = $0 { text } else { nil } }
    }

    /// An object with `members`, in their order as far as it is kept.
    package static func object(_ members: [(name: String, schema: JSONSchema, isRequired: Bool)]) -> JSONSchema {
        var schema: JSONSchema = ["type": "object"]
        if !members.isEmpty {
            schema["properties"] = .object(Dictionary(members.map { ($0.name, $0.schema.value) }) { $1 })
        }
        let required = members.filter(\.isRequired).map(\.name)
        if !required.isEmpty { schema["required"] = .array(required.map { .string($0) }) }
        return schema
    }
}
