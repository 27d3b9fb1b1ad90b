import KithRFBCodecs
import KithTesting
import Testing

@testable import KithRFB

/// Why the tests with JPEG are skipped, if they are.
private let jpeg: TurboJPEG? = {
    let codec = TurboJPEG()
    if codec == nil { print("skipped: libjpeg-turbo is not installed (Debian's libturbojpeg0-dev)") }
    return codec
}()

@Suite(.enabled(if: jpeg != nil)) struct JPEGTests {
    /// The mean of the squared differences.
    private func mean(_ left: RFBFrameBuffer, _ right: RFBFrameBuffer) -> Double {
        var sum = 0.0
        for y in 0..<left.height {
            for x in 0..<left.width {
                for shift: UInt32 in [0, 8, 16] {
                    let difference = Int(left[x, y] >> shift & 0xFF) - Int(right[x, y] >> shift & 0xFF)
                    sum += Double(difference * difference)
                }
            }
        }
        return sum / Double(left.width * left.height * 3)
    }

    @Test func `pictures come as JPEG, text exactly, and all of it exactly at rest`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        var frame = try RFBFrameBuffer(width: 400, height: 300)
        frame.fill(frame.bounds, with: 0xFFFFFF)
        let text = RFBRectangle(x: 0, y: 0, width: 400, height: 128)
        Pictures.strokes(in: text, &frame, &random)
        for y in 128..<300 {
            for x in 0..<400 {
                frame[x, y] = UInt32(x / 2) << 16 | UInt32(y / 2) << 8 | UInt32((x + y) / 4 & 0xFF)
            }
        }
        var options = RFBClient.Options()
        options.quality = 8
        var talk = try Conversation(frame, client: options, jpeg: jpeg)
        try talk.settle(frame)
        let seen = talk.client.frameBuffer
        #expect(seen.differences(from: frame) != "", "nothing was sent as JPEG")
        #expect(mean(seen, frame) < 20)
        for y in 0..<128 {
            for x in 0..<400 where seen[x, y] != frame[x, y] { Issue.record("the text differs at \(x), \(y)"); return }
        }
        #expect(!talk.server.lossy.isEmpty)
        try talk.settle(frame, isExact: true)
        #expect(talk.client.frameBuffer.differences(from: frame) == "", "\(random)")
        #expect(talk.server.lossy.isEmpty)
    }

    @Test func `an image of another size, damaged or empty is refused`() throws {
        let codec = try #require(jpeg)
        let pixels = [UInt32](repeating: 0x204060, count: 32 * 16)
        let image = try #require(codec.encode(pixels, width: 32, height: 16, quality: 90, halvesColors: false))
        let decoded = try #require(codec.decode(image, width: 32, height: 16))
        #expect(decoded.allSatisfy { abs(Int($0 >> 16 & 0xFF) - 0x20) < 4 })
        #expect(codec.decode(image, width: 16, height: 32) == nil)
        #expect(codec.decode(Array(image.prefix(30)), width: 32, height: 16) == nil)
        #expect(codec.decode([], width: 32, height: 16) == nil)
        #expect(codec.encode(pixels, width: 64, height: 16, quality: 90, halvesColors: true) == nil)
    }

    @Test func `damaged images never trap, and spoil no later one`() throws {
        let codec = try #require(jpeg)
        var random = SeededRandom.fromEnvironment()
        let pixels = (0..<64 * 64).map { _ in UInt32.random(in: 0..<1 << 24, using: &random) }
        let image = try #require(codec.encode(pixels, width: 64, height: 64, quality: 50, halvesColors: true))
        var refused = 0
        for _ in 0..<500 {
            var damaged = image
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            if codec.decode(damaged, width: 64, height: 64) == nil { refused += 1 }
            guard codec.decode(image, width: 64, height: 64) != nil else {
                Issue.record("a whole image was refused after a damaged one, \(random)")
                return
            }
        }
        #expect(refused > 0, "\(random)")
    }
}
