/// The reason bytes could not be decoded.
@nonexhaustive
public enum WireError: Error, Hashable, Sendable {
    /// The bytes end too early.
    case truncated(needed: Int, left: Int)
    /// A length is above what is allowed in its place.
    case tooLong(limit: Int, actual: Int)
    /// Bytes are left over where nothing may follow.
    case trailing(Int)
    /// A value that must not occur; says which rule it breaks.
    case invalid(String)
}
