/// The choices of generated vectors: sizes, orders, labels and plain bytes, the same for the same seed (SplitMix64).
struct Draw: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func number<Number: FixedWidthInteger>(_ range: ClosedRange<Number>) -> Number {
        Number.random(in: range, using: &self)
    }

    mutating func flag() -> Bool { Bool.random(using: &self) }

    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in number(0...UInt8.max) } }

    mutating func hex(_ count: Int) -> Hex { Hex(bytes(count)) }

    /// A label of letters and spaces.
    mutating func label() -> String {
        let letters = Array("abcdefghijklmnopqrstuvwxyz ".utf8)
        return String(decoding: (0..<number(1...20)).map { _ in letters[number(0...letters.count - 1)] }, as: UTF8.self)
    }
}
