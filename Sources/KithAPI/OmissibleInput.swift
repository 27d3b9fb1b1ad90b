import KithRPC
import KithWire

/// An input some of whose members may be left out, in JSON or in CBOR.
///
/// The conformance stands with the input type, and its values are the defaults of the initialiser. The only
/// default of an optional member is `nil`, which is written by leaving it out.
public protocol OmissibleInput: Codable, Sendable {
    /// An input in which every member that may be left out has its default.
    static var usual: Self { get }
    /// The members that must be given.
    static var required: Set<String> { get }
}

extension OmissibleInput {
    /// The JSON text with its missing members filled in; unchanged when it is not an object.
    static func completed(_ text: JSONText) throws -> JSONText {
        let usual = try JSONText(encoding: Self.usual).members() ?? []
        return merged(text, over: JSONText(members: usual.filter { !Self.required.contains($0.name) }))
    }

    /// CBOR with its missing members filled in; unchanged when it is not a map.
    static func completed(_ bytes: [UInt8]) throws -> [UInt8] {
        try CBORDecoder().completed(bytes, over: CBOREncoder().encode(Self.usual), except: Self.required)
    }

    /// Merges the members given over the defaults, and nested objects likewise.
    private static func merged(_ given: JSONText, over usual: JSONText) -> JSONText {
        guard let members = given.members(), let below = usual.members() else { return given }
        let known = Dictionary(below.map { ($0.name, $0.value) }) { first, _ in first }
        let names = Set(members.map(\.name))
        let complete = members.map { name, value in
            (name: name, value: known[name].map { merged(value, over: $0) } ?? value)
        }
        return JSONText(members: complete + below.filter { !names.contains($0.name) })
    }
}
