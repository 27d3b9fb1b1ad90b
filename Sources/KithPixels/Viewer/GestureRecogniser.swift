/// Makes a pointer's movements, buttons and wheel of fingers on a screen, while they move and not afterwards.
///
/// | fingers | touch | trackpad |
/// | --- | --- | --- |
/// | one taps | left click there | left click |
/// | one is held for 0.5 s | right click there | right click |
/// | one moves | drags with the left button | moves the pointer |
/// | one taps, then moves | drags | drags with the left button |
/// | two tap, three tap | right, middle click | the same |
/// | two move together | wheel, or moves the picture when it is zoomed in | the same |
/// | two move apart | zoom | the same |
/// | three move | drag with the left button, or wheel | the same |
///
/// A second finger that comes before the first has moved makes it a gesture of two; later it changes nothing. Each button
/// pressed is released, at the latest when the last finger leaves or the system takes the touches away.
package struct GestureRecogniser {
    /// The time after which a finger at rest is a long press.
    package static let longPress = Duration.milliseconds(500)
    /// The longest tap, and the longest time between two of a double tap.
    package static let tapTime = Duration.milliseconds(300)
    /// The distance in points within which a finger is at rest.
    package static let slop = 10.0
    /// The most fingers that are followed.
    package static let fingerLimit = 10

    private struct Finger {
        var id: UInt64
        var start: ViewPoint
        var point: ViewPoint
    }

    private enum Phase: Hashable {
        case idle
        /// Fingers are down and at rest: not yet known what it becomes.
        case possible
        /// The left button is down.
        case dragging
        /// The pointer moves without a button.
        case pointing
        case scrolling, panning, zooming
        /// What follows until all fingers are gone means nothing.
        case consumed
    }

    /// The choices; a change holds from the next gesture on.
    package var options: GestureOptions
    private var fingers: [Finger] = []
    private var phase = Phase.idle
    /// The most fingers of this gesture.
    private var most = 0
    private var began: ContinuousClock.Instant?
    private var lastTap: (at: ContinuousClock.Instant, point: ViewPoint, clicks: Int)?
    private var acceleration = PointerAcceleration()
    private var output: [Gesture] = []

    /// Begins without a finger.
    package init(options: GestureOptions = GestureOptions()) { self.options = options }

    /// The time to call ``timedOut(at:)``; `nil` when there is none.
    package var nextDeadline: ContinuousClock.Instant? {
        phase == .possible && most == 1 ? began.map { $0 + Self.longPress } : nil
    }

    /// Takes in a finger that touches.
    package mutating func began(_ id: UInt64, at point: ViewPoint, now: ContinuousClock.Instant) -> [Gesture] {
        guard point.x.isFinite, point.y.isFinite, fingers.count < Self.fingerLimit,
            !fingers.contains(where: { $0.id == id })
        else { return [] }
        fingers.append(Finger(id: id, start: point, point: point))
        switch phase {
        case .idle:
            (phase, most, began) = (.possible, 1, now)
            acceleration = PointerAcceleration()
        case .possible: most = fingers.count
        case .scrolling, .panning, .zooming, .dragging, .pointing, .consumed: break
        }
        return taken()
    }

    /// Takes in a finger that moved.
    package mutating func moved(_ id: UInt64, to point: ViewPoint, now: ContinuousClock.Instant) -> [Gesture] {
        guard let index = fingers.firstIndex(where: { $0.id == id }), point.x.isFinite, point.y.isFinite else {
            return []
        }
        let before = fingers
        fingers[index].point = point
        if phase == .possible { decide(at: now) } else { follow(before, moved: index, at: now) }
        return taken()
    }

    /// Takes in a finger that left.
    package mutating func ended(_ id: UInt64, now: ContinuousClock.Instant) -> [Gesture] {
        guard let index = fingers.firstIndex(where: { $0.id == id }) else { return [] }
        let finger = fingers.remove(at: index)
        switch phase {
        case .possible where fingers.isEmpty: tap(at: finger.point, now: now)
        // The finger that drags has left: what the others do is no longer this drag.
        case .dragging where index == 0 || fingers.count < min(most, 3) && most > 1: release()
        default: break
        }
        if fingers.isEmpty { reset() }
        return taken()
    }

    /// Takes in that the system took the touches away.
    package mutating func cancelled() -> [Gesture] {
        fingers = []
        if phase == .dragging { release() }
        reset()
        lastTap = nil
        return taken()
    }

    /// Takes in that a deadline has passed; without effect before it has.
    package mutating func timedOut(at now: ContinuousClock.Instant) -> [Gesture] {
        guard let deadline = nextDeadline, now >= deadline, let finger = fingers.first else { return [] }
        phase = .consumed
        if options.mode == .touch { output.append(.move(finger.point)) }
        output += [.feedback, .press(.right, clicks: 1), .release(.right)]
        return taken()
    }

    private mutating func taken() -> [Gesture] {
        defer { output = [] }
        return output
    }

    private mutating func reset() { (phase, most, began) = (.idle, 0, nil) }

    private mutating func release() {
        output.append(.release(.left))
        phase = .consumed
    }

    private mutating func tap(at point: ViewPoint, now: ContinuousClock.Instant) {
        guard let began, now - began <= Self.longPress else { return }
        let button: PointerButton = most == 1 ? .left : most == 2 ? .right : .middle
        guard most <= 3, most == 1 || now - began <= Self.tapTime else { return }
        if options.mode == .touch { output.append(.move(point)) }
        let clicks = most == 1 && isAfterTap(point, now) ? min(3, (lastTap?.clicks ?? 0) + 1) : 1
        output += [.press(button, clicks: clicks), .release(button)]
        lastTap = most == 1 ? (now, point, clicks) : nil
    }

    private func isAfterTap(_ point: ViewPoint, _ now: ContinuousClock.Instant) -> Bool {
        guard let lastTap else { return false }
        return now - lastTap.at <= Self.tapTime && point.distance(to: lastTap.point) <= 3 * Self.slop
    }

    /// Decides what fingers that were at rest have begun.
    private mutating func decide(at now: ContinuousClock.Instant) {
        guard fingers.contains(where: { $0.point.distance(to: $0.start) > Self.slop }) else { return }
        guard fingers.count == most else {
            phase = .consumed
            return
        }
        switch most {
        case 1:
            let start = fingers[0].start
            let clicks = isAfterTap(start, began ?? now) ? 2 : 1
            if options.mode == .touch {
                output += [.move(start), .press(.left, clicks: 1), .move(fingers[0].point)]
                phase = .dragging
            } else {
                if clicks == 2 { output.append(.press(.left, clicks: 1)) }
                phase = clicks == 2 ? .dragging : .pointing
                point(from: start, to: fingers[0].point, at: now)
            }
        case 2: decideTwo()
        case 3 where options.threeFingers == .scroll: phase = .scrolling
        case 3:
            if options.mode == .touch { output.append(.move(Self.middle(fingers.map(\.start)))) }
            output.append(.press(.left, clicks: 1))
            phase = .dragging
        default: phase = .consumed
        }
    }

    /// Two fingers zoom when their distance changed more than their middle moved.
    private mutating func decideTwo() {
        let (starts, points) = (fingers.map(\.start), fingers.map(\.point))
        let spread = abs(points[0].distance(to: points[1]) - starts[0].distance(to: starts[1]))
        let shift = Self.middle(points).distance(to: Self.middle(starts))
        // With one finger at rest the middle moves by half of what the distance changes.
        phase = spread > shift * 1.5 ? .zooming : options.twoFingersPan ? .panning : .scrolling
    }

    private mutating func follow(_ before: [Finger], moved index: Int, at now: ContinuousClock.Instant) {
        let (old, new) = (Self.middle(before.map(\.point)), Self.middle(fingers.map(\.point)))
        switch phase {
        case .dragging where most == 1 && index > 0, .pointing where index > 0: break
        case .dragging where most > 1 && options.mode == .touch: output.append(.move(new))
        case .dragging where most > 1: point(from: old, to: new, at: now)
        case .dragging where options.mode == .touch: output.append(.move(fingers[0].point))
        case .dragging, .pointing: point(from: before[0].point, to: fingers[0].point, at: now)
        case .scrolling: if old != new { output.append(.scroll(x: new.x - old.x, y: new.y - old.y)) }
        case .panning: if old != new { output.append(.pan(x: new.x - old.x, y: new.y - old.y)) }
        case .zooming: zoom(before)
        case .idle, .possible, .consumed: break
        }
    }

    private mutating func zoom(_ before: [Finger]) {
        guard fingers.count >= 2 else { return }
        let old = before[0].point.distance(to: before[1].point)
        let new = fingers[0].point.distance(to: fingers[1].point)
        // Fingers on the same spot say nothing about a size.
        guard old >= 1, new >= 1 else { return }
        let (from, to) = (
            Self.middle([before[0].point, before[1].point]), Self.middle([fingers[0].point, fingers[1].point])
        )
        output += [.zoom(factor: new / old, around: from), .pan(x: to.x - from.x, y: to.y - from.y)]
    }

    private mutating func point(from old: ViewPoint, to new: ViewPoint, at now: ContinuousClock.Instant) {
        let moved = acceleration.moved(x: new.x - old.x, y: new.y - old.y, speed: options.pointerSpeed, at: now)
        output.append(.moveBy(x: moved.x, y: moved.y))
    }

    private static func middle(_ points: [ViewPoint]) -> ViewPoint {
        let count = Double(max(1, points.count))
        return ViewPoint(
            x: points.reduce(0) { $0 + $1.x } / count, y: points.reduce(0) { $0 + $1.y } / count)
    }
}
