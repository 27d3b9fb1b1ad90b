/// The name of an operation as clients of Spacedrive write it.
///
///     query:libraries.list   query:libraries.list.v1   action:files.copy.input   action:files.copy.input.v1
///
/// All four forms of an action's name mean the same, and both of a query's.
struct OperationName: Hashable, Sendable {
    /// The two kinds of operations.
    enum Kind: String, Hashable, Sendable {
        case query, action
    }

    /// The longest name, in bytes.
    static let limit = 128

    /// The kind that the name says; which it is decides the table.
    var kind: Kind
    /// The name without its kind and its version: `libraries.list`.
    var name: String

    /// Reads a name; `nil` for one of another form.
    init?(_ text: String) {
        guard text.utf8.count <= Self.limit, let colon = text.firstIndex(of: ":"),
            let kind = Kind(rawValue: String(text[..<colon]))
        else { return nil }
        var name = text[text.index(after: colon)...]
        if name.hasSuffix(".v1") { name = name.dropLast(3) }
        if name.hasSuffix(".input") { name = name.dropLast(6) }
        guard name.utf8.contains(UInt8(ascii: ".")), !name.utf8.contains(UInt8(ascii: "/")) else { return nil }
        self.kind = kind
        self.name = String(name)
    }
}
