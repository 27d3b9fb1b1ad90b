/// SHAKE256 (FIPS 202 §6.2), which swift-crypto keeps to itself; X-Wing derives its keys with it.
enum SHAKE256 {
    /// Bytes of the state that are mixed with input at a time.
    private static let rate = 136

    private static let roundConstants: [UInt64] = [
        0x0000_0000_0000_0001, 0x0000_0000_0000_8082, 0x8000_0000_0000_808A, 0x8000_0000_8000_8000,
        0x0000_0000_0000_808B, 0x0000_0000_8000_0001, 0x8000_0000_8000_8081, 0x8000_0000_0000_8009,
        0x0000_0000_0000_008A, 0x0000_0000_0000_0088, 0x0000_0000_8000_8009, 0x0000_0000_8000_000A,
        0x0000_0000_8000_808B, 0x8000_0000_0000_008B, 0x8000_0000_0000_8089, 0x8000_0000_0000_8003,
        0x8000_0000_0000_8002, 0x8000_0000_0000_0080, 0x0000_0000_0000_800A, 0x8000_0000_8000_000A,
        0x8000_0000_8000_8081, 0x8000_0000_0000_8080, 0x0000_0000_8000_0001, 0x8000_0000_8000_8008,
    ]

    /// `count` bytes from `input`.
    static func hash(_ input: [UInt8], count: Int) -> [UInt8] {
        var state = [UInt64](repeating: 0, count: 25)
        var padded = input
        padded.append(0x1F)
        padded.append(contentsOf: [UInt8](repeating: 0, count: (rate - padded.count % rate) % rate))
        padded[padded.count - 1] |= 0x80
        for start in stride(from: 0, to: padded.count, by: rate) {
            for index in 0..<rate { state[index / 8] ^= UInt64(padded[start + index]) << (8 * (index % 8)) }
            permute(&state)
        }
        var output: [UInt8] = []
        while output.count < count {
            if !output.isEmpty { permute(&state) }
            for index in 0..<min(rate, count - output.count) {
                output.append(UInt8(truncatingIfNeeded: state[index / 8] >> (8 * (index % 8))))
            }
        }
        clear(&padded)
        for index in state.indices { state[index] = 0 }
        return output
    }

    /// Keccak-f[1600] (FIPS 202 §3.3); lane (x, y) is at x + 5y.
    private static func permute(_ a: inout [UInt64]) {
        var b = [UInt64](repeating: 0, count: 25)
        var c = [UInt64](repeating: 0, count: 5)
        for constant in roundConstants {
            for x in 0..<5 { c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] }
            for x in 0..<5 {
                let d = c[(x + 4) % 5] ^ rotated(c[(x + 1) % 5], 1)
                for y in 0..<5 { a[x + 5 * y] ^= d }
            }
            // ρ and π: the lanes are turned and moved along one path through the state.
            b[0] = a[0]
            var (x, y) = (1, 0)
            for step in 0..<24 {
                let (nextX, nextY) = (y, (2 * x + 3 * y) % 5)
                b[nextX + 5 * nextY] = rotated(a[x + 5 * y], (step + 1) * (step + 2) / 2 % 64)
                (x, y) = (nextX, nextY)
            }
            for y in 0..<5 {
                for x in 0..<5 { a[x + 5 * y] = b[x + 5 * y] ^ (~b[(x + 1) % 5 + 5 * y] & b[(x + 2) % 5 + 5 * y]) }
            }
            a[0] ^= constant
        }
    }

    private static func rotated(_ lane: UInt64, _ count: Int) -> UInt64 {
        count == 0 ? lane : lane << count | lane >> (64 - count)
    }
}
