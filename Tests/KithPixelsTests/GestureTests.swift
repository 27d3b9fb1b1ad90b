import KithPixels
import KithTesting
import Testing

@Suite struct GestureTests {
    private let start = ContinuousClock.now
    private func at(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }
    private func point(_ x: Double, _ y: Double) -> ViewPoint { ViewPoint(x: x, y: y) }

    @Test func `a tap is a left click there, a quick second one a double click`() {
        var fingers = GestureRecogniser()
        #expect(fingers.began(1, at: point(50, 60), now: at(0)).isEmpty)
        #expect(fingers.moved(1, to: point(52, 61), now: at(20)).isEmpty)
        let first = fingers.ended(1, now: at(80))
        #expect(first == [.move(point(52, 61)), .press(.left, clicks: 1), .release(.left)])
        _ = fingers.began(2, at: point(53, 60), now: at(200))
        #expect(fingers.ended(2, now: at(260)).contains(.press(.left, clicks: 2)))
        _ = fingers.began(3, at: point(53, 60), now: at(900))
        #expect(fingers.ended(3, now: at(960)).contains(.press(.left, clicks: 1)))
    }

    @Test func `a long press is a right click that is felt, and no other click follows`() {
        var fingers = GestureRecogniser()
        _ = fingers.began(1, at: point(5, 5), now: at(0))
        #expect(fingers.nextDeadline == at(500))
        #expect(fingers.timedOut(at: at(499)).isEmpty)
        #expect(
            fingers.timedOut(at: at(500)) == [
                .move(point(5, 5)), .feedback, .press(.right, clicks: 1), .release(.right),
            ])
        #expect(fingers.moved(1, to: point(90, 90), now: at(600)).isEmpty)
        #expect(fingers.ended(1, now: at(700)).isEmpty)
    }

    @Test func `a finger that moves drags from where it began, as it moves`() {
        var fingers = GestureRecogniser()
        _ = fingers.began(1, at: point(10, 10), now: at(0))
        #expect(
            fingers.moved(1, to: point(30, 10), now: at(16))
                == [.move(point(10, 10)), .press(.left, clicks: 1), .move(point(30, 10))])
        #expect(fingers.moved(1, to: point(40, 12), now: at(32)) == [.move(point(40, 12))])
        #expect(fingers.ended(1, now: at(50)) == [.release(.left)])
    }

    @Test func `on a trackpad a finger moves the pointer, and a tap before it drags`() {
        var fingers = GestureRecogniser(options: .init(mode: .trackpad))
        _ = fingers.began(1, at: point(10, 10), now: at(0))
        let moved = fingers.moved(1, to: point(30, 10), now: at(16))
        #expect(moved.count == 1)
        guard case .moveBy(let x, let y) = moved.first else {
            Issue.record("it moves")
            return
        }
        #expect(x > 0 && y == 0)
        #expect(fingers.ended(1, now: at(40)).isEmpty)
        _ = fingers.began(2, at: point(10, 10), now: at(100))
        #expect(fingers.ended(2, now: at(150)) == [.press(.left, clicks: 1), .release(.left)])
        _ = fingers.began(3, at: point(11, 10), now: at(250))
        #expect(fingers.moved(3, to: point(60, 10), now: at(266)).first == .press(.left, clicks: 1))
        #expect(fingers.ended(3, now: at(300)) == [.release(.left)])
    }

    @Test func `two fingers together turn the wheel or move a zoomed picture, apart they zoom`() {
        for (pans, expected) in [(false, Gesture.scroll(x: 0, y: 10)), (true, .pan(x: 0, y: 10))] {
            var fingers = GestureRecogniser(options: .init(twoFingersPan: pans))
            _ = fingers.began(1, at: point(100, 100), now: at(0))
            _ = fingers.began(2, at: point(140, 100), now: at(10))
            _ = fingers.moved(1, to: point(100, 111), now: at(20))
            _ = fingers.moved(2, to: point(140, 111), now: at(20))
            let more = fingers.moved(1, to: point(100, 131), now: at(30))
            #expect(more == [expected])
        }
        var fingers = GestureRecogniser()
        _ = fingers.began(1, at: point(100, 100), now: at(0))
        _ = fingers.began(2, at: point(200, 100), now: at(10))
        _ = fingers.moved(1, to: point(92, 100), now: at(20))
        _ = fingers.moved(2, to: point(211, 100), now: at(20))
        let zoomed = fingers.moved(2, to: point(330, 100), now: at(30))
        guard case .zoom(let factor, let around) = zoomed.first else {
            Issue.record("it zooms: \(zoomed)")
            return
        }
        #expect(abs(factor - 238.0 / 119) < 1e-9 && around == point(151.5, 100))
    }

    @Test func `two taps at once are a right click, three a middle click`() {
        for (count, button) in [(2, PointerButton.right), (3, .middle)] {
            var fingers = GestureRecogniser()
            for id in 0..<UInt64(count) { _ = fingers.began(id, at: point(Double(id) * 50, 9), now: at(Int(id) * 10)) }
            var all: [Gesture] = []
            for id in 0..<UInt64(count) { all += fingers.ended(id, now: at(100)) }
            #expect(all.contains(.press(button, clicks: 1)) && all.last == .release(button))
        }
    }

    @Test func `three fingers drag`() {
        var fingers = GestureRecogniser(options: .init(mode: .trackpad))
        for id in 0..<3 as Range<UInt64> { _ = fingers.began(id, at: point(Double(id) * 50, 9), now: at(0)) }
        let first = fingers.moved(0, to: point(0, 40), now: at(16))
        #expect(first == [.press(.left, clicks: 1)])
        #expect(!fingers.moved(1, to: point(50, 40), now: at(20)).isEmpty)
        var all: [Gesture] = []
        for id in 0..<3 as Range<UInt64> { all += fingers.ended(id, now: at(100)) }
        #expect(all == [.release(.left)])
    }

    @Test func `whatever fingers do, each press has its release and nothing is held at the end`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<400 {
            let options = GestureOptions(
                mode: random.chance(0.5) ? .touch : .trackpad, twoFingersPan: random.chance(0.5),
                threeFingers: random.chance(0.5) ? .drag : .scroll)
            var fingers = GestureRecogniser(options: options)
            var (all, now, down) = ([Gesture](), start, Set<UInt64>())
            func anywhere() -> ViewPoint {
                if random.chance(0.02) { return ViewPoint(x: .nan, y: .infinity) }
                return ViewPoint(
                    x: Double.random(in: 0...400, using: &random), y: Double.random(in: 0...400, using: &random))
            }
            for _ in 0..<40 {
                now += .milliseconds(Int.random(in: 0...400, using: &random))
                if let deadline = fingers.nextDeadline, deadline <= now { all += fingers.timedOut(at: deadline) }
                let id = UInt64.random(in: 0..<5, using: &random)
                switch Int.random(in: 0..<8, using: &random) {
                case 0, 1: all += fingers.began(id, at: anywhere(), now: now)
                case 2: all += fingers.ended(id, now: now)
                case 3 where random.chance(0.1): all += fingers.cancelled()
                default: all += fingers.moved(id, to: anywhere(), now: now)
                }
                down.insert(id)
            }
            for id in down { all += fingers.ended(id, now: now) }
            var held = Set<PointerButton>()
            for gesture in all {
                switch gesture {
                case .press(let button, _): #expect(held.insert(button).inserted, "\(random)")
                case .release(let button): #expect(held.remove(button) != nil, "\(random)")
                case .moveBy(let x, let y), .scroll(let x, let y), .pan(let x, let y):
                    #expect(x.isFinite && y.isFinite, "\(random)")
                case .zoom(let factor, _): #expect(factor.isFinite && factor > 0, "\(random)")
                case .move, .feedback: break
                }
            }
            #expect(held.isEmpty, "\(random)")
        }
    }

    @Test func `the pointer goes farther for a fast finger, exactly for a slow one, and stays in the picture`() {
        func travel(pointsPerSecond speed: Double) -> Double {
            var acceleration = PointerAcceleration()
            var sum = 0.0
            for step in 0..<60 { sum += acceleration.moved(x: speed / 60, y: 0, speed: 1, at: at(step * 16)).x }
            return sum / speed
        }
        #expect(travel(pointsPerSecond: 30) < 1)
        #expect(travel(pointsPerSecond: 2000) > 2.5)
        var random = SeededRandom.fromEnvironment()
        var pointer = TrackpadPointer(picture: PixelSize(width: 30, height: 7))
        for _ in 0..<2000 {
            pointer.move(
                x: Double.random(in: -40...40, using: &random), y: Double.random(in: -40...40, using: &random),
                scale: 1.7)
            #expect(PixelRectangle(x: 0, y: 0, width: 30, height: 7).contains(x: pointer.pixel.x, y: pointer.pixel.y))
        }
        pointer.jump(x: 4, y: 4)
        for _ in 0..<10 { pointer.move(x: 0.1, y: 0, scale: 1) }
        #expect(pointer.pixel == (5, 4), "fractions add up")
    }

    @Test func `a modifier holds for one key, or until it is taken back`() {
        var bar = ModifierBar()
        #expect(bar.tap(.control, at: at(0)).isEmpty)
        #expect(bar.hold(.control) == .once)
        #expect(
            bar.type("c") == [
                .key(usage: 0xE0, isDown: true), .key(usage: 6, isDown: true), .key(usage: 6, isDown: false),
                .key(usage: 0xE0, isDown: false),
            ])
        #expect(bar.hold(.control) == .off)
        #expect(bar.type("c") == [.text("c")])
        _ = bar.tap(.shift, at: at(1000))
        #expect(bar.tap(.shift, at: at(1200)) == [.key(usage: 0xE1, isDown: true)])
        #expect(bar.strike(0x3A).count == 2 && bar.hold(.shift) == .locked)
        #expect(bar.tap(.shift, at: at(1300)) == [.key(usage: 0xE1, isDown: false)])
        _ = bar.tap(.alt, at: at(2000))
        #expect(bar.tap(.alt, at: at(3000)).isEmpty && bar.hold(.alt) == .off)
    }

    @Test func `each key that a modifier bar presses it also releases`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<200 {
            var bar = ModifierBar()
            var events: [KeyEvent] = []
            for step in 0..<30 {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: events += bar.strike(UInt16.random(in: 4...40, using: &random))
                case 1: events += bar.type(["a", "7", "ä", "😀", ""].randomElement(using: &random) ?? "")
                default:
                    let key = ModifierKey.allCases.randomElement(using: &random) ?? .alt
                    events += bar.tap(key, at: at(step * Int.random(in: 1...900, using: &random)))
                }
            }
            events += bar.reset()
            var held = Set<UInt16>()
            for case .key(let usage, let isDown) in events {
                if isDown {
                    #expect(held.insert(usage).inserted, "\(random)")
                } else {
                    #expect(held.remove(usage) != nil, "\(random)")
                }
            }
            #expect(held.isEmpty, "\(random)")
            #expect(ModifierKey.allCases.allSatisfy { bar.hold($0) == .off })
        }
    }
}
