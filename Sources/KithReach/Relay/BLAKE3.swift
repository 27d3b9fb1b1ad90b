/// BLAKE3 of inputs that fit one chunk (≤ 1024 bytes), with 32 bytes of output.
///
/// The relay protocol derives what a device signs with it. Nothing longer is hashed, so the tree of chunks is left out.
package enum BLAKE3 {
    /// The most bytes of an input.
    package static let maxLength = 1_024

    private static let initial: [UInt32] = [
        0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19,
    ]
    private static let permutation = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]

    /// The flags of a compression.
    private enum Flags {
        static let chunkStart: UInt32 = 1
        static let chunkEnd: UInt32 = 2
        static let root: UInt32 = 8
        static let deriveKeyContext: UInt32 = 32
        static let deriveKeyMaterial: UInt32 = 64
    }

    /// The hash of `bytes`, 32 bytes.
    package static func hash(_ bytes: [UInt8]) -> [UInt8] { encoded(chunk(bytes, key: initial, flags: 0)) }

    /// The key of `context`, a constant text of the application, from `material`: 32 bytes.
    package static func derivedKey(context: String, material: [UInt8]) -> [UInt8] {
        let key = chunk(Array(context.utf8), key: initial, flags: Flags.deriveKeyContext)
        return encoded(chunk(material, key: key, flags: Flags.deriveKeyMaterial))
    }

    private static func encoded(_ words: [UInt32]) -> [UInt8] {
        words.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * UInt32($0))) } }
    }

    private static func chunk(_ bytes: [UInt8], key: [UInt32], flags: UInt32) -> [UInt32] {
        precondition(bytes.count <= maxLength, "only what fits one chunk is hashed")
        var value = key
        var start = 0
        repeat {
            let end = min(start + 64, bytes.count)
            var block = [UInt32](repeating: 0, count: 16)
            for index in start..<end { block[(index - start) / 4] |= UInt32(bytes[index]) << (8 * UInt32(index % 4)) }
            var blockFlags = flags
            if start == 0 { blockFlags |= Flags.chunkStart }
            if end == bytes.count { blockFlags |= Flags.chunkEnd | Flags.root }
            value = compressed(value, block, length: UInt32(end - start), flags: blockFlags)
            start = end
        } while start < bytes.count
        return value
    }

    private static func compressed(
        _ value: [UInt32], _ message: [UInt32], length: UInt32, flags: UInt32
    ) -> [UInt32] {
        var message = message
        // The counter of chunks, words 12 and 13, is 0: there is one.
        var state = value + initial[..<4] + [0, 0, length, flags]
        func mix(_ a: Int, _ b: Int, _ c: Int, _ d: Int, _ x: UInt32, _ y: UInt32) {
            state[a] = state[a] &+ state[b] &+ x
            state[d] = rotated(state[d] ^ state[a], 16)
            state[c] = state[c] &+ state[d]
            state[b] = rotated(state[b] ^ state[c], 12)
            state[a] = state[a] &+ state[b] &+ y
            state[d] = rotated(state[d] ^ state[a], 8)
            state[c] = state[c] &+ state[d]
            state[b] = rotated(state[b] ^ state[c], 7)
        }
        for round in 0..<7 {
            for column in 0..<4 {
                mix(column, column + 4, column + 8, column + 12, message[2 * column], message[2 * column + 1])
            }
            for diagonal in 0..<4 {
                mix(
                    diagonal, 4 + (diagonal + 1) % 4, 8 + (diagonal + 2) % 4, 12 + (diagonal + 3) % 4,
                    message[8 + 2 * diagonal], message[9 + 2 * diagonal])
            }
            if round < 6 { message = permutation.map { message[$0] } }
        }
        return (0..<8).map { state[$0] ^ state[$0 + 8] }
    }

    private static func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }
}
