import KithMLS

struct DeserializationVector: Vector {
    let vlbytesHeader: Hex
    let length: Int
    var suite: UInt16? { nil }

    func verify(_ suite: any CipherSuite) throws {
        var reader = TLSReader(vlbytesHeader.bytes)
        try check(try reader.length() == length, "length")
        try reader.finish()
    }
}

extension DeserializationVector {
    /// The ends of the three forms first, then any length.
    static func make(_ index: Int, _ draw: inout Draw) -> DeserializationVector {
        let ends = [0, 63, 64, 16_383, 16_384, 1 << 30 - 1]
        let length = index < ends.count ? ends[index] : draw.number(0...1 << [6, 14, 30][draw.number(0...2)] - 1)
        var writer = TLSWriter()
        writer.length(length)
        return DeserializationVector(vlbytesHeader: Hex(writer.bytes), length: length)
    }
}
