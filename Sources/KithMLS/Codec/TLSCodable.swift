/// A structure of RFC 9420 in the TLS presentation language.
///
/// Reading what was written gives an equal value, and writing what was read gives the same bytes: lengths have one
/// form only (§2.1.2).
package protocol TLSCodable: Sendable {
    init(from reader: inout TLSReader) throws(MLSError)
    func encode(into writer: inout TLSWriter)
}

extension TLSCodable {
    /// Reads one value that takes all of `bytes`.
    package init(decoding bytes: [UInt8]) throws(MLSError) {
        var reader = TLSReader(bytes)
        self = try Self(from: &reader)
        try reader.finish()
    }

    /// The value's bytes.
    package var encoded: [UInt8] {
        var writer = TLSWriter()
        encode(into: &writer)
        return writer.bytes
    }
}

extension UInt16: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) { self = try reader.integer() }
    package func encode(into writer: inout TLSWriter) { writer.integer(self) }
}

extension UInt32: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) { self = try reader.integer() }
    package func encode(into writer: inout TLSWriter) { writer.integer(self) }
}

/// A number from one of the registries of RFC 9420 §17; unknown numbers are values like the others.
package protocol CodePoint: RawRepresentable<UInt16>, Hashable, TLSCodable {
    init(rawValue: UInt16)
}

extension CodePoint {
    package init(from reader: inout TLSReader) throws(MLSError) { self.init(rawValue: try reader.integer()) }
    package func encode(into writer: inout TLSWriter) { writer.integer(rawValue) }
}
