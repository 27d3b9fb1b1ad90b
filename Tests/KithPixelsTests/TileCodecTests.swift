import KithPixels
import KithTesting
import Testing

@Suite struct TileCodecTests {
    private let start = ContinuousClock.now

    @Test(arguments: [true, false])
    func `what is decoded is what was on the screen, bit for bit, through edits, scrolls and resizes`(
        compresses: Bool
    ) throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<12 {
            var pair = TilePair(options: .init(compresses: compresses))
            for _ in 0..<3 {
                let size = PixelSize(
                    width: Int.random(in: 1...260, using: &random), height: Int.random(in: 1...200, using: &random))
                var scene = Scene(size: size, random: random.fork())
                for step in 0..<12 {
                    for _ in 0..<Int.random(in: 0...3, using: &random) { scene.edit() }
                    // A frame that is left out loses nothing.
                    if step > 0, random.chance(0.3) {
                        pair.encoder.damaged(scene.takeDamage())
                        continue
                    }
                    if random.chance(0.05) { pair.encoder.startAnew() }
                    _ = try pair.send(&scene, at: start)
                    let isExact = pair.isExact(scene)
                    #expect(isExact, "\(random), \(size.width) × \(size.height), step \(step)")
                }
            }
        }
    }

    @Test(arguments: [true, false])
    func `a change of nothing changes nothing, and what follows it is exact`(compresses: Bool) throws {
        var random = SeededRandom.fromEnvironment()
        var scene = Scene(size: PixelSize(width: 120, height: 90), random: random.fork())
        var pair = TilePair(options: .init(compresses: compresses))
        let early = pair.encoder.encodeNothing()
        #expect(early == nil)
        for _ in 0..<20 {
            scene.edit()
            _ = try pair.send(&scene, at: start)
            let message = pair.encoder.encodeNothing()
            let nothing = try #require(message)
            let changed = try pair.decoder.decode(nothing)
            let isExact = pair.isExact(scene)
            #expect(changed.isEmpty && isExact && nothing.count < 32, "\(random)")
        }
    }

    @Test func `the region returned holds every pixel that changed`() throws {
        var random = SeededRandom.fromEnvironment()
        var scene = Scene(size: PixelSize(width: 200, height: 150), random: random.fork())
        var pair = TilePair()
        for _ in 0..<60 {
            var before = PixelBuffer(size: pair.decoder.picture.size)
            before.update(before.size.bounds, from: pair.decoder.picture.view)
            scene.edit()
            pair.encoder.damaged(scene.takeDamage())
            guard let message = pair.encoder.encode(scene.picture.view, at: start) else { continue }
            let changed = try pair.decoder.decode(message.bytes)
            guard before.size == pair.decoder.picture.size else { continue }
            for y in 0..<150 {
                for x in 0..<200 where before[x: x, y: y] != pair.decoder.picture[x: x, y: y] {
                    #expect(changed.contains(x: x, y: y), "\(random)")
                }
            }
        }
    }

    @Test func `a screen at rest makes no message, whatever is said to be damaged`() throws {
        var scene = Scene(size: PixelSize(width: 300, height: 200), random: .fromEnvironment())
        for _ in 0..<10 { scene.edit() }
        var pair = TilePair()
        let first = try pair.send(&scene, at: start)
        #expect(first != nil)
        pair.encoder.damaged(PixelRegion(scene.picture.size.bounds))
        let second = try pair.send(&scene, at: start)
        #expect(second == nil)
        let (isExact, refinement) = (pair.encoder.isExact, pair.encoder.nextRefinement)
        #expect(isExact && refinement == nil)
    }

    @Test func `a text that scrolls is moved, and only its new lines are sent`() throws {
        var scene = Scene(size: PixelSize(width: 320, height: 320), random: .fromEnvironment())
        let text = PixelRectangle(x: 37, y: 21, width: 250, height: 280)
        scene.draw(text, colours: 3)
        var pair = TilePair()
        _ = try pair.send(&scene, at: start)
        for _ in 0..<5 {
            scene.shift(text, by: 16)
            let sent = try pair.send(&scene, at: start)
            let message = try #require(sent)
            let isExact = pair.isExact(scene)
            #expect(isExact)
            #expect(message.copied >= text.width * (text.height - 16) * 9 / 10)
            #expect(message.coded <= text.width * 16 * 2)
        }
    }

    @Test func `a scroll bar beside the text does not keep it from being moved`() throws {
        var scene = Scene(size: PixelSize(width: 300, height: 300), random: .fromEnvironment())
        let text = PixelRectangle(x: 0, y: 0, width: 270, height: 300)
        scene.draw(text, colours: 2)
        var pair = TilePair()
        _ = try pair.send(&scene, at: start)
        scene.shift(text, by: 20)
        scene.noise(PixelRectangle(x: 275, y: 40, width: 20, height: 80))
        let sent = try pair.send(&scene, at: start)
        let message = try #require(sent)
        #expect(message.copied >= 250 * 280)
    }

    @Test func `a keystroke takes less than a hundred bytes`() throws {
        var scene = Scene(size: PixelSize(width: 640, height: 400), random: .fromEnvironment())
        scene.draw(scene.picture.size.bounds, colours: 2)
        var pair = TilePair()
        _ = try pair.send(&scene, at: start)
        scene.draw(PixelRectangle(x: 100, y: 100, width: 8, height: 16), colours: 2)
        let sent = try pair.send(&scene, at: start)
        let message = try #require(sent)
        #expect(message.bytes.count < 100)
    }

    @Test func `a refused message ends the stream until one starts anew`() throws {
        var scene = Scene(size: PixelSize(width: 100, height: 100), random: .fromEnvironment())
        scene.edit()
        var pair = TilePair()
        _ = try pair.send(&scene, at: start)
        var refusal: TileError?
        do throws(TileError) { _ = try pair.decoder.decode([255]) } catch { refusal = error }
        #expect(refusal == .malformed("an unknown flag"))
        scene.noise(PixelRectangle(x: 3, y: 3, width: 9, height: 9))
        do throws(TileError) { _ = try pair.send(&scene, at: start) } catch { refusal = error }
        #expect(refusal == .failed)
        pair.encoder.startAnew()
        _ = try pair.send(&scene, at: start)
        let isExact = pair.isExact(scene)
        #expect(isExact)
    }
}
