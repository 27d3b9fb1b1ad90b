@testable import KithPixels
import KithTesting
import Testing

@Suite struct KernelTests {
    @Test func `the tile difference is the smallest rectangle around what differs, as pixel by pixel finds it`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<40 {
            let size = PixelSize(
                width: Int.random(in: 1...150, using: &random), height: Int.random(in: 1...140, using: &random))
            var scene = Scene(size: size, random: random.fork())
            for _ in 0..<3 { scene.edit() }
            var shown = PixelBuffer(size: size)
            shown.update(size.bounds, from: scene.picture.view)
            _ = scene.takeDamage()
            for _ in 0..<Int.random(in: 0...2, using: &random) { scene.edit() }
            var difference = TileDifference(size: size)
            difference.compare(scene.picture.rows, with: shown.rows, in: PixelRegion(size.bounds))
            for tile in difference.changes.indices {
                var expected = PixelRectangle.empty
                let bounds = difference.bounds(tile)
                for y in bounds.rows {
                    for x in bounds.columns where (scene.picture[x: x, y: y] ^ shown[x: x, y: y]) & 0xFF_FFFF != 0 {
                        expected = expected.union(PixelRectangle(x: x, y: y, width: 1, height: 1))
                    }
                }
                #expect(difference.changes[tile] == expected, "\(random)")
            }
            let sent = difference.rectangles(limit: 5000)
            for change in difference.changes where !change.isEmpty {
                #expect(sent.contains { $0.contains(change) }, "\(random): each change is in what is sent")
            }
        }
    }

    @Test func `a copy found is exact and stays in its part, whatever the pictures`() {
        var random = SeededRandom.fromEnvironment()
        var found = 0
        for _ in 0..<150 {
            let size = PixelSize(
                width: Int.random(in: 16...220, using: &random), height: Int.random(in: 16...200, using: &random))
            var scene = Scene(size: size, random: random.fork())
            scene.draw(size.bounds, colours: 4)
            for _ in 0..<3 { scene.edit() }
            var shown = PixelBuffer(size: size)
            shown.update(size.bounds, from: scene.picture.view)
            scene.scroll(scene.rectangle(), isVertical: random.chance(0.5))
            if random.chance(0.3) { scene.edit() }
            let change = TileDifference.change(scene.picture.rows, shown.rows, in: size.bounds)
            let part = random.chance(0.8) ? change : scene.rectangle()
            let copies = ScrollDetector.copies(scene.picture.rows, shown: shown.rows, in: part)
            found += copies.count
            for (index, copy) in copies.enumerated() {
                #expect(part.contains(copy.source) && part.contains(copy.target), "\(random)")
                #expect(!copies[(index + 1)...].contains { $0.target.intersects(copy.target) }, "\(random)")
                #expect(!copies[(index + 1)...].contains { $0.source.intersects(copy.target) }, "\(random)")
                for y in 0..<copy.source.height {
                    for x in 0..<copy.source.width {
                        let new = scene.picture[x: copy.x + x, y: copy.y + y]
                        let old = shown[x: copy.source.x + x, y: copy.source.y + y]
                        #expect((new ^ old) & 0xFF_FFFF == 0, "\(random)")
                    }
                }
            }
        }
        #expect(found > 5, "the scenes scroll")
    }

    @Test func `a scroll of text is found in either direction`() throws {
        for (isVertical, seed) in [(true, UInt64(1)), (false, 2), (true, 3), (false, 4)] {
            let size = PixelSize(width: 200, height: 200)
            var scene = Scene(size: size, random: SeededRandom(seed: seed))
            scene.draw(size.bounds, colours: 3)
            var shown = PixelBuffer(size: size)
            shown.update(size.bounds, from: scene.picture.view)
            let part = PixelRectangle(x: 10, y: 10, width: 180, height: 180)
            scene.scroll(part, isVertical: isVertical)
            let change = TileDifference.change(scene.picture.rows, shown.rows, in: size.bounds)
            let copies = ScrollDetector.copies(scene.picture.rows, shown: shown.rows, in: part.union(change))
            let distance = try #require(copies.first.map { abs($0.x - $0.source.x) + abs($0.y - $0.source.y) })
            #expect(copies.reduce(0) { $0 + $1.source.area } >= 180 * (180 - distance) * 9 / 10)
        }
    }

    @Test func `planes follow the formula of BT.709 in the limited range`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<30 {
            let size = PixelSize(
                width: Int.random(in: 1...50, using: &random), height: Int.random(in: 1...20, using: &random))
            var picture = PixelBuffer(size: size, stride: size.width * 4 + 8)
            for y in 0..<size.height {
                for x in 0..<size.width { picture[x: x, y: y] = UInt32(truncatingIfNeeded: random.next()) }
            }
            var planes = PlanarBuffer(size: size)
            ColourConversion.convert(picture.view, into: &planes)
            func channel(_ pixel: UInt32, _ shift: UInt32) -> Double { Double(pixel >> shift & 255) }
            for y in 0..<size.height {
                for x in 0..<size.width {
                    let pixel = picture[x: x, y: y]
                    let luma = 0.2126 * channel(pixel, 16) + 0.7152 * channel(pixel, 8) + 0.0722 * channel(pixel, 0)
                    #expect(abs(Double(planes.luma[y * size.width + x]) - (16 + luma * 219 / 255)) <= 1.5, "\(random)")
                }
            }
            for y in 0..<planes.chromaSize.height {
                for x in 0..<planes.chromaSize.width {
                    var (r, g, b) = (0.0, 0.0, 0.0)
                    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                        let pixel = picture[x: min(2 * x + dx, size.width - 1), y: min(2 * y + dy, size.height - 1)]
                        (r, g, b) = (r + channel(pixel, 16) / 4, g + channel(pixel, 8) / 4, b + channel(pixel, 0) / 4)
                    }
                    let luma = 0.2126 * r + 0.7152 * g + 0.0722 * b
                    let (cb, cr) = (128 + (b - luma) / 1.8556 * 224 / 255, 128 + (r - luma) / 1.5748 * 224 / 255)
                    let index = y * planes.chromaSize.width + x
                    #expect(abs(Double(planes.blue[index]) - cb) <= 1.5, "\(random)")
                    #expect(abs(Double(planes.red[index]) - cr) <= 1.5, "\(random)")
                }
            }
        }
    }

    @Test func `there and back a colour changes by at most four`() {
        var random = SeededRandom.fromEnvironment()
        let size = PixelSize(width: 34, height: 34)
        var picture = PixelBuffer(size: size)
        for y in stride(from: 0, to: 34, by: 2) {
            for x in stride(from: 0, to: 34, by: 2) {
                picture.fill(
                    PixelRectangle(x: x, y: y, width: 2, height: 2),
                    with: UInt32(truncatingIfNeeded: random.next()) | 0xFF00_0000)
            }
        }
        var planes = PlanarBuffer(size: size)
        ColourConversion.convert(picture.view, into: &planes)
        var back = PixelBuffer(size: size)
        ColourConversion.convert(planes, into: &back)
        for y in 0..<34 {
            for x in 0..<34 {
                for shift: UInt32 in [0, 8, 16] {
                    let (old, new) = (Int(picture[x: x, y: y] >> shift & 255), Int(back[x: x, y: y] >> shift & 255))
                    #expect(abs(old - new) <= 4, "\(random)")
                }
            }
        }
    }

    @available(macOS 26, iOS 26, *)
    @Test func `a view refuses memory that does not hold its picture`() {
        let bytes = [UInt8](repeating: 0, count: 4 * 10 * 5)
        let size = PixelSize(width: 9, height: 5)
        func isTaken(_ count: Int, _ size: PixelSize, _ stride: Int) -> Bool {
            PixelView(bytes.span.bytes.extracting(first: count), size: size, stride: stride) != nil
        }
        #expect(isTaken(200, size, 40))
        #expect(isTaken(196, size, 40))
        #expect(!isTaken(195, size, 40))
        #expect(!isTaken(200, size, 32))
        #expect(!isTaken(200, size, 38))
        #expect(!isTaken(200, PixelSize(width: 9, height: 6), 40))
        #expect(!isTaken(200, size, Int.max - 3))
    }
}
