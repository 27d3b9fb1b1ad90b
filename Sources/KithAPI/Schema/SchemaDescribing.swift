/// A type that says itself what it looks like as JSON, because its coder is written by hand.
///
/// Of all others the form is learned by decoding them: structures, enumerations with raw values that are `CaseIterable`,
/// and what is made of those. An enumeration with associated values names its cases, see ``SchemaCases``.
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
