/// The places of keys as the remote framebuffer protocol numbers them (rfbproto, QEMU Extended Key Event: XT scan codes,
/// those after 0xE0 with the highest bit set), and as Linux does.
enum RFBKeyCodes {
    /// Those that differ: XT, then Linux's `input-event-codes.h`.
    private static let pairs: [(xt: UInt32, linux: UInt16)] = [
        (0x54, 99), (0x59, 117), (0x5D, 183), (0x5E, 184), (0x5F, 185), (0x70, 93), (0x73, 89), (0x79, 92),
        (0x7B, 94), (0x7D, 124), (0x7E, 121), (0x90, 165), (0x99, 163), (0x9C, 96), (0x9D, 97), (0xA0, 113),
        (0xA2, 164), (0xA4, 166), (0xAE, 114), (0xB0, 115), (0xB5, 98), (0xB7, 99), (0xB8, 100), (0xC6, 119),
        (0xC7, 102), (0xC8, 103), (0xC9, 104), (0xCB, 105), (0xCD, 106), (0xCF, 107), (0xD0, 108), (0xD1, 109),
        (0xD2, 110), (0xD3, 111), (0xDB, 125), (0xDC, 126), (0xDD, 127), (0xDE, 116), (0xDF, 142),
    ]
    private static let linux = Dictionary(pairs.map { ($0.xt, $0.linux) }, uniquingKeysWith: { first, _ in first })
    // Print has two: the one that a key of its own sends.
    private static let xt = Dictionary(pairs.map { ($0.linux, $0.xt) }, uniquingKeysWith: { _, last in last })
    /// The keys of the first keyboards, and F11 and F12: the same number for both.
    private static let common = Set(Array(1...0x53) + [0x56, 0x57, 0x58])

    /// Linux's number of a key; `nil` for one it does not have.
    static func linuxCode(ofXT code: UInt32) -> UInt16? {
        if let number = Int(exactly: code), common.contains(number) { return UInt16(number) }
        return linux[code]
    }

    /// The protocol's number of a key; `nil` for one it does not have.
    static func xtCode(ofLinux code: UInt16) -> UInt32? {
        if common.contains(Int(code)) { return UInt32(code) }
        return xt[code]
    }
}
