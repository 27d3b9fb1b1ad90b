@testable import KithPixels
import KithTesting
import Testing

@Suite struct HostileTileTests {
    /// Messages of a real session, without compression and with.
    private static func session(_ random: inout SeededRandom, compresses: Bool) -> [[UInt8]] {
        var scene = Scene(size: PixelSize(width: 150, height: 130), random: random.fork())
        var encoder = TileEncoder(options: .init(compresses: compresses))
        return (0..<8).compactMap { _ in
            for _ in 0..<2 { scene.edit() }
            encoder.damaged(scene.takeDamage())
            return encoder.encode(scene.picture.view, at: .now)?.bytes
        }
    }

    private static func mutate(_ bytes: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &random) where !bytes.isEmpty {
            let at = Int.random(in: 0..<min(bytes.count, random.chance(0.5) ? 40 : bytes.count), using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: bytes[at] = [0, 1, 127, 128, 255].randomElement(using: &random) ?? 0
            case 2: bytes.removeSubrange(at..<min(bytes.count, at + Int.random(in: 1...9, using: &random)))
            case 3: bytes.insert(contentsOf: random.bytes(Int.random(in: 1...5, using: &random)), at: at)
            default: bytes.removeLast(bytes.count - at)
            }
        }
        return bytes
    }

    /// Feeds damaged sessions to decoders of at most `limit` pixels; returns how many messages were taken and refused.
    static func attack(_ rounds: Int, limit: Int, _ random: inout SeededRandom) -> (taken: Int, refused: Int) {
        var result = (taken: 0, refused: 0)
        for round in 0..<rounds {
            let messages = session(&random, compresses: round % 2 == 0)
            for _ in 0..<30 {
                var decoder = TileDecoder(areaLimit: limit)
                let broken = Int.random(in: 0..<messages.count, using: &random)
                for (index, message) in messages.enumerated() {
                    do throws(TileError) {
                        _ = try decoder.decode(index == broken ? mutate(message, &random) : message)
                        result.taken += 1
                    } catch {
                        result.refused += 1
                    }
                    precondition(decoder.picture.size.area <= limit, "the limit holds")
                }
            }
        }
        return result
    }

    @Test func `damaged messages are refused or drawn inside the picture`() {
        var random = SeededRandom.fromEnvironment()
        let result = Self.attack(12, limit: 1 << 16, &random)
        #expect(result.taken > 0 && result.refused > 0, "\(random)")
    }

    @Test func `random bytes are refused or drawn inside the picture`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<4000 {
            var decoder = TileDecoder(areaLimit: 1 << 12)
            var message = random.bytes(Int.random(in: 0...60, using: &random))
            if random.chance(0.8) { message = [1, 32, 32] + message }
            // A refusal is an answer.
            _ = try? decoder.decode(message)
            #expect(decoder.picture.size.area <= 1 << 12)
        }
    }

    private static func refusal(_ message: [UInt8], limit: Int = 10_000) -> TileError? {
        var decoder = TileDecoder(areaLimit: limit)
        do throws(TileError) {
            _ = try decoder.decode(message)
            return nil
        } catch {
            return error
        }
    }

    /// A start of a 32 × 32 picture, then commands.
    private static func message(_ commands: [UInt8]) -> [UInt8] { [1, 32, 32] + commands }

    @Test func `each rule of the format has its refusal`() {
        let whole: [UInt8] = [0, 0, 0, 0, 0, 32, 0, 32]
        #expect(Self.refusal(Self.message([0])) == nil)
        #expect(Self.refusal([]) == .truncated)
        #expect(Self.refusal([4]) == .malformed("an unknown flag"))
        #expect(Self.refusal([0, 0]) == .failed)
        #expect(Self.refusal([1, 0, 5, 0]) == .malformed("a picture without pixels"))
        #expect(Self.refusal([1, 0x7F, 0xFF, 0x7F, 0xFF, 0]) == .tooMuch)
        #expect(Self.refusal(Self.message([])) == .truncated)
        #expect(Self.refusal(Self.message([9])) == .malformed("an unknown command"))
        #expect(Self.refusal(Self.message([0, 0])) == .malformed("bytes behind the end"))
        #expect(Self.refusal(Self.message([1, 0, 1, 0, 0, 0, 32, 0, 32, 1, 2, 3, 0])) == .outside)
        #expect(Self.refusal(Self.message([1, 0, 1, 0, 0, 0, 0, 0, 32, 1, 2, 3, 0])) == .outside)
        #expect(Self.refusal(Self.message([2] + whole + [0, 1, 0, 0, 0])) == .outside)
        #expect(Self.refusal(Self.message([4] + whole + [1, 1])) == .malformed("more colours than a palette has"))
        #expect(
            Self.refusal(Self.message([4] + whole + [0, 0, 7, 0x44, 0x01, 0]))
                == .malformed("a run beyond its rectangle"))
        #expect(Self.refusal(Self.message([4] + whole + [0, 0, 7, 0, 0])) == .malformed("a run beyond its rectangle"))
        #expect(Self.refusal(Self.message([5] + whole + [1, 2])) == .truncated)
    }

    @Test func `the format is what its table says`() throws {
        var decoder = TileDecoder()
        let changed = try decoder.decode(
            [1, 6, 4]
                // Solid 0x030201 at (0, 0), 2 × 2; a copy of it to (4, 2).
                + [1, 0, 0, 0, 0, 0, 2, 0, 2, 1, 2, 3]
                + [2, 0, 4, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0]
                // Two colours, then indices by columns: (2, 0) and (2, 1), (3, 0) and (3, 1).
                + [3, 0, 2, 0, 0, 0, 2, 0, 2, 0, 2, 7, 10, 11, 12, 9, 20, 21, 22] + [7, 9, 9, 7]
                // No new colour; runs by rows: three of the one, one of the other.
                + [4, 0, 0, 0, 2, 0, 2, 0, 2, 0, 0] + [9, 3, 7, 1]
                // Pixels: green 5 and 7, red − green 1 and 1, blue − green 255 and 0.
                + [5, 0, 2, 0, 3, 0, 2, 0, 1] + [5, 2, 1, 0, 255, 1]
                + [0])
        #expect(changed.bounds == PixelRectangle(x: 0, y: 0, width: 6, height: 4))
        let (a, b, solid, black): (UInt32, UInt32, UInt32, UInt32) = (
            0xFF0C_0B0A, 0xFF16_1514, 0xFF03_0201, 0xFF00_0000
        )
        let expected = [
            [solid, solid, a, b, black, black],
            [solid, solid, b, a, black, black],
            [b, b, black, black, solid, solid],
            [b, a, 0xFF06_0504, 0xFF08_0707, solid, solid],
        ]
        for y in 0..<4 { for x in 0..<6 { #expect(decoder.picture[x: x, y: y] == expected[y][x], "\(x), \(y)") } }
    }

    @Test func `a message works on no more than four times the picture's pixels`() {
        let solid: [UInt8] = [1, 0, 0, 0, 0, 0, 32, 0, 32, 1, 2, 3]
        let four = Self.message(Array(repeatElement(solid, count: 4).joined()) + [0])
        let five = Self.message(Array(repeatElement(solid, count: 5).joined()) + [0])
        #expect(Self.refusal(four) == nil)
        #expect(Self.refusal(five) == .tooMuch)
    }

    #if os(Linux)
    @Test func `a hostile host gets no memory beyond the bound`() async {
        await #expect(processExitsWith: .success) {
            var random = SeededRandom.fromEnvironment()
            // What comes later is in place before memory is counted.
            _ = HostileTileTests.attack(1, limit: 1 << 16, &random)
            let bomb = HostileTileTests.bomb()
            // A picture, a rectangle, the stream's window, and 4 MiB for what the test itself holds.
            limitMemory(more: (4 + 1 + 2 + 4) << 20)
            for _ in 0..<20 {
                var decoder = TileDecoder(areaLimit: 1 << 20)
                do throws(TileError) { _ = try decoder.decode(bomb) } catch {
                    precondition(error == (StreamCompressor.isAvailable ? .tooMuch : .unsupported), "refused")
                }
            }
            _ = HostileTileTests.attack(4, limit: 1 << 20, &random)
        }
    }

    /// A picture of 1024 × 1024 pixels in a few kilobytes that become twelve million.
    static func bomb() -> [UInt8] {
        let solid: [UInt8] = [1, 0, 0, 0, 0, 4, 0, 4, 0, 1, 2, 3]
        var message: [UInt8] = [3, 0x44, 0, 0x44, 0]
        var compressor = StreamCompressor(level: 1)
        _ = compressor?.append(Array(repeatElement(solid, count: 1 << 20).joined()), to: &message)
        return message
    }
    #endif
}
