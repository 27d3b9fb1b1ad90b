import KithWire

extension TraceContext {
    /// Reads the value of a `traceparent` header (W3C Trace Context, level 1, §3.2).
    ///
    /// `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, lower case; ids of zeros are none. A later version is
    /// read by its first four fields, as the recommendation asks.
    public init?(traceparent: String) {
        let fields = traceparent.split(separator: "-", omittingEmptySubsequences: false)
        guard fields.count >= 4, let version = Self.hex(fields[0], count: 1), version != [0xFF],
            fields.count == 4 || version != [0],
            let traceID = Self.hex(fields[1], count: 16), traceID.contains(where: { $0 != 0 }),
            let spanID = Self.hex(fields[2], count: 8), spanID.contains(where: { $0 != 0 }),
            let flags = Self.hex(fields[3], count: 1)
        else { return nil }
        self.init(traceID: traceID, spanID: spanID, flags: flags[0])
    }

    /// The value of a `traceparent` header.
    public var traceparent: String {
        "00-\(Hex.encode(traceID))-\(Hex.encode(spanID))-\(Hex.encode([flags]))"
    }

    private static func hex(_ text: Substring, count: Int) -> [UInt8]? {
        // Capitals are malformed here.
        guard text.utf8.count == count * 2, !text.utf8.contains(where: { (65...70).contains($0) }) else { return nil }
        return Hex.decode(text)
    }
}
