/// Random numbers that a failing test can have again (xoshiro256**, seeded by SplitMix64).
///
/// Show the seed with a failure: `#expect(…, "\(random)")` prints it.
public struct SeededRandom: RandomNumberGenerator, Hashable, Sendable {
    /// The seed the sequence started from.
    public let seed: UInt64
    private var state: (UInt64, UInt64, UInt64, UInt64) {
        get { (a, b, c, d) }
        set { (a, b, c, d) = newValue }
    }
    private var a: UInt64 = 0
    private var b: UInt64 = 0
    private var c: UInt64 = 0
    private var d: UInt64 = 0

    /// Starts the sequence of a seed.
    public init(seed: UInt64) {
        self.seed = seed
        var mix = seed
        func split() -> UInt64 {
            mix &+= 0x9E37_79B9_7F4A_7C15
            var z = mix
            z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
            return z ^ z >> 31
        }
        state = (split(), split(), split(), split())
    }

    /// Starts a sequence of the seed in the environment variable `KITH_SEED`, else of `fallback`.
    public static func fromEnvironment(or fallback: UInt64 = 20_261_121) -> SeededRandom {
        SeededRandom(seed: environment("KITH_SEED").flatMap { UInt64($0) } ?? fallback)
    }

    /// The next 64 bits.
    public mutating func next() -> UInt64 {
        let result = rotate(b &* 5, 7) &* 9
        let t = b << 17
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= t
        d = rotate(d, 45)
        return result
    }

    private func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 { value << count | value >> (64 - count) }

    /// Tells whether something of that probability (0…1) happens.
    public mutating func chance(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &self) < probability
    }

    /// So many random bytes.
    public mutating func bytes(_ count: Int) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(count + 8)
        while result.count < count {
            var word = next()
            for _ in 0..<8 {
                result.append(UInt8(truncatingIfNeeded: word))
                word >>= 8
            }
        }
        result.removeLast(result.count - count)
        return result
    }

    /// A generator of its own, independent of what this one gives next.
    public mutating func fork() -> SeededRandom { SeededRandom(seed: next()) }
}

extension SeededRandom: CustomStringConvertible {
    /// The seed, to be shown with a failure.
    public var description: String { "seed \(seed)" }
}
