@testable import KithPixels
import KithTesting
import Testing

@Suite struct RefinementTests {
    private let start = ContinuousClock.now

    @Test func `a second after the last change the viewer has the host's picture, bit for bit, video or not`() throws {
        var random = SeededRandom.fromEnvironment()
        var videos = 0
        for _ in 0..<6 {
            let size = PixelSize(width: 300, height: 260)
            var scene = Scene(size: size, random: random.fork())
            var pair = TilePair(options: .init(sendsVideo: true))
            // Even sides, as codecs have them.
            let junk = PlanarBuffer(size: size)
            let film = PixelRectangle(
                x: Int.random(in: 0..<100, using: &random), y: Int.random(in: 0..<100, using: &random),
                width: Int.random(in: 70...200, using: &random), height: Int.random(in: 70...160, using: &random))
            var now = start
            for frame in 0..<Int.random(in: 20...40, using: &random) {
                scene.noise(film)
                if random.chance(0.2) { scene.edit() }
                now = start + .milliseconds(33 * frame)
                let message = try pair.send(&scene, at: now)
                // A video codec's picture resembles the host's; for this test it does not even do that.
                try pair.draw(message?.video ?? [], from: junk)
                videos += message?.video.count ?? 0
            }
            let last = now
            while let next = pair.encoder.nextRefinement {
                #expect(next - last <= .milliseconds(700), "\(random)")
                now = max(now, next)
                let message = try pair.send(&scene, at: now)
                try pair.draw(message?.video ?? [], from: junk)
                if now - last > .seconds(2) { break }
            }
            let (isExact, isEncoderSure) = (pair.isExact(scene), pair.encoder.isExact)
            #expect(isExact && isEncoderSure, "\(random)")
            #expect(now - last <= .seconds(1), "\(random)")
        }
        #expect(videos > 0, "the film is seen as one")
    }

    @Test func `however many tiles wait, each is sent in time, and not all at once`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<50 {
            let count = Int.random(in: 1...600, using: &random)
            var plan = RefinementPlan(tiles: count)
            var changed: [ContinuousClock.Instant] = []
            for tile in 0..<count {
                changed.append(start + .milliseconds(Int.random(in: 0...300, using: &random)))
                plan.sentInexactly(tile, at: changed[tile])
            }
            var (sent, most) = (Set<Int>(), 0)
            while let next = plan.nextDeadline {
                let due = plan.due(at: next)
                most = max(most, due.count)
                for tile in due {
                    #expect(sent.insert(tile).inserted, "\(random)")
                    #expect(next - changed[tile] >= RefinementPlan.quiet, "\(random)")
                    #expect(next - changed[tile] <= RefinementPlan.latest, "\(random)")
                }
            }
            #expect(sent.count == count && plan.isEmpty, "\(random)")
            if count > 100 { #expect(most < count / 2, "\(random)") }
        }
    }

    @Test func `text never becomes motion, a film does, and stays so through a stutter`() {
        var classifier = RegionClassifier(tiles: 2)
        classifier.note(1, isComplex: true)
        var now = start
        for frame in 0..<30 {
            #expect(classifier.changed(0, at: now) == .text)
            let kind = classifier.changed(1, at: now)
            #expect(kind == (frame < RegionClassifier.changesToMotion - 1 ? .still : .motion))
            now += .milliseconds(33)
        }
        now += .milliseconds(300)
        #expect(classifier.changed(1, at: now) == .motion)
        now += RegionClassifier.pause
        #expect(classifier.changed(1, at: now) == .still)
    }

    @Test func `changes that become one frame count each, so that a slow way shows a film as one`() throws {
        let size = PixelSize(width: 128, height: 64)
        var scene = Scene(size: size, random: SeededRandom.fromEnvironment())
        var pair = TilePair(options: .init(sendsVideo: true))
        let film = PixelRectangle(x: 64, y: 0, width: 64, height: 64)
        scene.noise(size.bounds)
        _ = try pair.send(&scene, at: start)
        for change in 1...9 { pair.encoder.missed(PixelRegion(film), at: start + .milliseconds(30 * change)) }
        scene.noise(size.bounds)
        let message = try pair.send(&scene, at: start + .milliseconds(300))
        #expect(message?.video == [film] && message?.coded == film.area)
    }

    private let photo = PixelRectangle(x: 0, y: 64, width: 256, height: 128)

    /// A desk with text, and a picture of eight tiles that takes 64 kB.
    private func desk() -> Scene {
        let size = PixelSize(width: 320, height: 256)
        var scene = Scene(size: size, random: SeededRandom.fromEnvironment())
        scene.draw(size.bounds, colours: 4)
        scene.noise(photo)
        return scene
    }

    @Test func `a picture too large for a slow link is seen as video at once, text beside it exactly`() throws {
        var scene = desk()
        var pair = TilePair(options: .init(sendsVideo: true))
        let slow = TileEncoder.Room(message: 20_000, change: 50_000)
        let first = try pair.send(&scene, at: start, room: slow)
        let row = PixelRectangle(x: 0, y: 64, width: 256, height: 64)
        #expect(first?.video == [row, row.moved(x: 0, y: 64)])
        #expect(first?.coded == 320 * 256 - photo.area)
        // At rest exactly, no more at once than there is room for: too late where there is little.
        let late = start + RefinementPlan.latest
        for part in 0..<4 {
            let next = pair.encoder.nextRefinement
            #expect(next.map { $0 <= late } == true)
            let message = try pair.send(&scene, at: late + .milliseconds(part), room: slow)
            #expect(message?.video == [] && message?.coded == 2 * 64 * 64)
        }
        let (isExact, isEncoderSure) = (pair.isExact(scene), pair.encoder.isExact)
        #expect(isExact && isEncoderSure)
    }

    @Test func `what a link carries at once is sent exactly, however it looks`() throws {
        var scene = desk()
        var pair = TilePair(options: .init(sendsVideo: true))
        let first = try pair.send(&scene, at: start, room: .init(message: 4_000, change: 70_000))
        let isExact = pair.isExact(scene)
        #expect(first?.video == [] && first?.coded == 320 * 256 && isExact)
    }

    @Test func `before a link is known a picture waits for what its first bytes tell`() throws {
        var scene = desk()
        var pair = TilePair(options: .init(sendsVideo: true))
        // Even where there is less room than for a tile, one goes.
        let first = try pair.send(&scene, at: start, room: .init(message: 100, change: nil))
        #expect(first?.video == [] && first?.coded == 320 * 256 - photo.area + 64 * 64)
        let (isExact, next) = (pair.encoder.isExact, pair.encoder.nextRefinement)
        #expect(!isExact && next == start)
        let rest = try pair.send(&scene, at: start + .milliseconds(1), room: .init(message: 4_000, change: 1_000_000))
        #expect(rest?.video == [] && rest?.coded == photo.area - 64 * 64)
        let (isExactNow, isEncoderSure) = (pair.isExact(scene), pair.encoder.isExact)
        #expect(isExactNow && isEncoderSure)
    }

    @Test func `a film on a slow link is video from its first picture`() throws {
        var scene = desk()
        var pair = TilePair(options: .init(sendsVideo: true))
        let slow = TileEncoder.Room(message: 8_192, change: 50_000)
        for frame in 0..<30 {
            scene.noise(photo)
            let message = try pair.send(&scene, at: start + .milliseconds(33 * frame), room: slow)
            #expect(message?.video.reduce(0) { $0 + $1.area } == photo.area)
            #expect(frame == 0 || message?.coded == 0)
        }
        // And still is where there is more room: it is known as one.
        scene.noise(photo)
        let message = try pair.send(&scene, at: start + .seconds(1))
        #expect(message?.video.reduce(0) { $0 + $1.area } == photo.area)
    }

    @Test func `text where a film was is exact at once when it rests, however slow the link`() throws {
        var scene = desk()
        var pair = TilePair(options: .init(sendsVideo: true))
        let slow = TileEncoder.Room(message: 3_600, change: 50_000)
        for frame in 0..<3 {
            scene.noise(photo)
            _ = try pair.send(&scene, at: start + .milliseconds(33 * frame), room: slow)
        }
        scene.draw(photo, colours: 4)
        let message = try pair.send(&scene, at: start + .milliseconds(700), room: slow)
        #expect(message?.coded == photo.area && message?.video == [])
        let (isExact, isEncoderSure) = (pair.isExact(scene), pair.encoder.isExact)
        #expect(isExact && isEncoderSure)
        // The film ended, and nothing changed any more but by what was beneath it while it was video.
        for frame in 0..<12 {
            scene.noise(photo)
            _ = try pair.send(&scene, at: start + .milliseconds(800 + 33 * frame), room: slow)
        }
        scene.draw(photo, colours: 4)
        let last = start + .milliseconds(1_200)
        _ = try pair.send(&scene, at: last, room: slow)
        let rest = try pair.send(&scene, at: last + RefinementPlan.latest, room: slow)
        let next = pair.encoder.nextRefinement
        #expect(rest?.coded == photo.area && next == nil)
    }

    @Test func `whatever a link has room for, the picture is the host's in the end`() throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<6 {
            let size = PixelSize(width: 300, height: 260)
            var scene = Scene(size: size, random: random.fork())
            scene.noise(size.bounds)
            var pair = TilePair(options: .init(sendsVideo: true))
            let junk = PlanarBuffer(size: size)
            var (now, calls) = (start, 0)
            while calls < 30 || pair.encoder.nextRefinement != nil {
                now += .milliseconds(40)
                if calls < 30, random.chance(0.7) { scene.edit() }
                let room = TileEncoder.Room(
                    message: Int.random(in: 0...50_000, using: &random),
                    change: random.chance(0.3) ? nil : Int.random(in: 0...150_000, using: &random))
                let message = try pair.send(&scene, at: now, room: room)
                try pair.draw(message?.video ?? [], from: junk)
                calls += 1
                try #require(calls < 1_000, "\(random)")
            }
            let (isExact, isEncoderSure) = (pair.isExact(scene), pair.encoder.isExact)
            #expect(isExact && isEncoderSure, "\(random)")
        }
    }

    @Test func `what was sent exactly since is not a part of the video`() throws {
        let size = PixelSize(width: 200, height: 64)
        var scene = Scene(size: size, random: SeededRandom.fromEnvironment())
        var pair = TilePair(options: .init(sendsVideo: true))
        var named: [PixelRectangle] = []
        for frame in 0..<12 {
            scene.noise(size.bounds)
            named = try pair.send(&scene, at: start + .milliseconds(33 * frame))?.video ?? []
        }
        #expect(named == [size.bounds])
        let inexact = pair.encoder.inexact(named)
        #expect(inexact == named)
        let part = PixelRectangle(x: 64, y: 0, width: 64, height: 64)
        #expect(pair.encoder.inexact([part]) == [part])
        var now = start + .milliseconds(363)
        while let next = pair.encoder.nextRefinement {
            now = max(now, next)
            _ = try pair.send(&scene, at: now)
        }
        #expect(pair.encoder.inexact(named).isEmpty)
        let (isExact, isEncoderSure) = (pair.isExact(scene), pair.encoder.isExact)
        #expect(isExact && isEncoderSure)
    }
}
