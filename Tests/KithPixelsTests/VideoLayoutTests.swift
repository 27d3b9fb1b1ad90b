import KithPixels
import KithTesting
import Testing

@Suite struct VideoLayoutTests {
    private static let picture = PixelRectangle(x: 64, y: 128, width: 128, height: 66)

    private static func refusal(_ bytes: [UInt8]) -> TileError? {
        do throws(TileError) {
            _ = try VideoLayout(bytes)
            return nil
        } catch {
            return error
        }
    }

    @Test func `a layout is what its table says`() throws {
        let layout = VideoLayout(
            isKey: true, picture: Self.picture, regions: [PixelRectangle(x: 62, y: 2, width: 3, height: 64)])
        #expect(layout.bytes == [1, 0x40, 64, 0x40, 128, 0x40, 128, 0x40, 66, 1, 62, 2, 3, 0x40, 64])
        #expect(try VideoLayout(layout.bytes) == layout)
    }

    @Test func `each rule has its refusal`() {
        let head: [UInt8] = [0, 0, 0, 32, 32]
        #expect(Self.refusal(head + [0]) == nil)
        #expect(Self.refusal([]) == .truncated)
        #expect(Self.refusal([2, 0, 0, 32, 32, 0]) == .malformed("an unknown flag"))
        #expect(Self.refusal([0, 0, 0, 31, 32, 0]) == .malformed("a coded picture of an odd size"))
        #expect(Self.refusal([0, 0, 0, 0, 32, 0]) == .malformed("a coded picture of an odd size"))
        #expect(Self.refusal(head) == .truncated)
        #expect(Self.refusal(head + [1, 0, 0, 2]) == .truncated)
        #expect(Self.refusal(head + [1, 0, 0, 0, 2]) == .outside)
        #expect(Self.refusal(head + [1, 20, 0, 13, 2]) == .outside)
        #expect(Self.refusal(head + [1, 1, 0, 2, 2]) == .malformed("a region at an odd place"))
        #expect(Self.refusal(head + [2, 0, 0, 32, 32, 0, 0, 1, 1]) == .tooMuch)
        #expect(Self.refusal(head + [0x50, 1]) == .tooMuch)
        #expect(Self.refusal([0, 0x80, 1, 0, 0, 0, 32, 32, 0]) == .tooMuch)
        #expect(Self.refusal(head + [0, 0]) == .malformed("more than a layout"))
    }

    @Test func `what is drawn lies on the screen, and the picture at most 16 pixels beyond it`() {
        func isTaken(_ region: PixelRectangle, on width: Int, _ height: Int) -> Bool {
            let layout = VideoLayout(isKey: false, picture: Self.picture, regions: [region])
            return (try? layout.check(on: PixelSize(width: width, height: height))) != nil
        }
        let corner = PixelRectangle(x: 0, y: 0, width: 100, height: 50)
        #expect(isTaken(corner, on: 192, 194) && isTaken(corner, on: 176, 178))
        #expect(!isTaken(corner, on: 175, 194) && !isTaken(corner, on: 192, 177))
        #expect(!isTaken(PixelRectangle(x: 0, y: 0, width: 128, height: 66), on: 191, 194))
        #expect(!isTaken(corner, on: 0, 0) && !isTaken(corner, on: 64, 194))
    }

    @Test func `regions are drawn where they lie, and nothing else, as near as chroma allows`() throws {
        let size = PixelSize(width: 201, height: 195)
        var encoder = TileEncoder()
        var decoder = TileDecoder()
        var screen = PixelBuffer(size: size)
        screen.fill(size.bounds, with: 0xFF20_4060)
        encoder.damaged(PixelRegion(size.bounds))
        let message = encoder.encode(screen.view, at: .now)
        _ = try decoder.decode(try #require(message).bytes)
        // Squares of one colour each, as chroma is that of four pixels.
        var moving = PixelBuffer(size: size)
        for y in 0..<size.height {
            for x in 0..<size.width { moving[x: x, y: y] = UInt32(x / 2 * 2) << 16 | UInt32(y / 2 * 2) << 8 | 0x44 }
        }
        let regions = [
            PixelRectangle(x: 64, y: 128, width: 64, height: 64), PixelRectangle(x: 192, y: 192, width: 9, height: 3),
        ]
        let place = PixelRectangle(x: 64, y: 128, width: 138, height: 68)
        var planes = PlanarBuffer(size: place.size)
        for region in regions {
            ColourConversion.convert(moving.view, region, into: &planes, at: (region.x - 64, region.y - 128))
        }
        let layout = VideoLayout(
            isKey: true, picture: place, regions: regions.map { $0.moved(x: -64, y: -128) })
        let changed = try decoder.draw(layout, from: planes)
        #expect(changed.area == 64 * 64 + 9 * 3)
        for y in 0..<size.height {
            for x in 0..<size.width {
                let drawn = decoder.picture[x: x, y: y]
                guard regions.contains(where: { $0.contains(x: x, y: y) }) else {
                    if drawn != 0xFF20_4060 { Issue.record("drawn beside the regions at \(x), \(y)") }
                    continue
                }
                let wanted = moving[x: x, y: y]
                for shift in [0, 8, 16] as [UInt32] {
                    let difference = Int(drawn >> shift & 255) - Int(wanted >> shift & 255)
                    if abs(difference) > 4 { Issue.record("\(difference) at \(x), \(y)") }
                }
            }
        }
        let other = PlanarBuffer(size: size)
        do throws(TileError) {
            _ = try decoder.draw(layout, from: other)
            Issue.record("planes of another size are drawn")
        } catch {
            #expect(error == .malformed("planes of another size"))
        }
    }
}
