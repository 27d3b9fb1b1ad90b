import KithRPC
import KithWire

/// An input of which some members may be left out where it is written as JSON.
///
/// People and scripts write JSON; between devices an input travels whole, so that no member means two things to two
/// versions.
public protocol OmissibleInput: Codable, Sendable {
    /// An input in which every member that may be left out has the value that stands for it then.
    static var usual: Self { get }
    /// The members that must be given all the same.
    static var required: Set<String> { get }
}

extension OmissibleInput {
    /// The JSON text with what was left out of it; unchanged when it is no object.
    static func completed(_ text: JSONText) throws -> JSONText {
        let usual = try JSONText(encoding: Self.usual).members() ?? []
        return merged(text, over: JSONText(members: usual.filter { !Self.required.contains($0.name) }))
    }

    /// What is given, over what stands for it; objects in objects likewise.
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
