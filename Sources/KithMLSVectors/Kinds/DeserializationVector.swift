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
