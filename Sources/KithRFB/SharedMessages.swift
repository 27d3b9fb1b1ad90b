/// The protocol's version, which both ends say first (RFC 6143 §7.1.1).
enum ProtocolVersion {
    /// Takes a version: 3, 7 or 8; `nil` when it is not whole.
    ///
    /// What is surely wrong is seen from its first byte on. Numbers that others made up (3.889, 4.1, 5.0) mean 3.8; what is unknown below is 3.3.
    static func read(_ input: inout ByteQueue) throws(RFBError) -> Int? {
        let expected = Array("RFB ".utf8)
        for index in 0..<min(4, input.count) where input[index] != expected[index] { throw .notRFB }
        guard input.count >= 12 else { return nil }
        let bytes = input.take(12)
        guard let major = Int(String(decoding: bytes[4..<7], as: UTF8.self)), bytes[7] == UInt8(ascii: "."),
            let minor = Int(String(decoding: bytes[8..<11], as: UTF8.self)), bytes[11] == UInt8(ascii: "\n"), major >= 3
        else { throw .notRFB }
        return major > 3 || minor >= 8 ? 8 : minor == 7 ? 7 : 3
    }
}

/// Fences (rfbproto, ClientFence and ServerFence): the same in both directions.
struct Fence {
    static let request: UInt32 = 1 << 31
    /// Those of the bits that we understand: block before, block after, synchronize the next.
    static let known: UInt32 = 7
    static let payloadLimit = 64

    let flags: UInt32
    let payload: [UInt8]

    /// Takes a fence; `nil` when it is not whole.
    init?(_ input: inout ByteQueue) throws(RFBError) {
        guard input.count >= 9 else { return nil }
        let length = Int(input[8])
        guard length <= Self.payloadLimit else {
            throw .tooLong(field: "fence", limit: Self.payloadLimit, actual: length)
        }
        guard input.count >= 9 + length else { return nil }
        flags = input.u32(at: 4)
        input.skip(9)
        payload = input.take(length)
    }

    /// True when an answer is asked for.
    var isRequest: Bool { flags & Self.request != 0 }

    /// Appends the answer.
    ///
    /// Messages are read in order, so that all before it has had its effect.
    func appendAnswer(to output: inout [UInt8]) { Self.append(flags: flags & Self.known, payload, to: &output) }

    static func append(flags: UInt32, _ payload: [UInt8], to output: inout [UInt8]) {
        output += [248, 0, 0, 0]
        output.appendInteger(flags)
        output.append(UInt8(payload.count))
        output += payload
    }
}
