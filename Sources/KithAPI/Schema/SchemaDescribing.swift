/// A type that declares its own JSON Schema, because its coder is written by hand.
///
/// The schema of any other is learned by decoding it: structures, enumerations with raw values that are `CaseIterable`,
/// and combinations of those. An enumeration with associated values names its cases, see ``SchemaCases``.
public protocol SchemaDescribing: Codable {
    /// The schema of its JSON form; the first of its `examples` is a value that can be decoded.
    static var schema: JSONSchema { get }
}

/// An enumeration that is written as an object of one member, named for its case.
///
/// The form of the members is learned by decoding each.
public protocol SchemaCases: Codable {
    /// The names of all cases, as they are written.
    static var schemaCases: [String] { get }
}
