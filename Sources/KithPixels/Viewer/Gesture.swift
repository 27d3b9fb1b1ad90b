/// A button of a mouse.
@frozen package enum PointerButton: UInt8, Hashable, Sendable, CaseIterable {
    case left = 1, middle, right
}

/// What a person's fingers mean, step by step while they move.
@frozen package enum Gesture: Hashable, Sendable {
    /// The pointer goes to a point of the window.
    case move(ViewPoint)
    /// The pointer goes so many points from where it is.
    case moveBy(x: Double, y: Double)
    /// A button goes down; `clicks` is 2 for the second of a double click.
    case press(PointerButton, clicks: Int)
    /// A button comes up.
    case release(PointerButton)
    /// The wheel turns by points of the window, in the direction the fingers moved.
    case scroll(x: Double, y: Double)
    /// The picture is moved in the window.
    case pan(x: Double, y: Double)
    /// The picture is made larger or smaller around a point.
    case zoom(factor: Double, around: ViewPoint)
    /// The device gives a tap that is felt.
    case feedback
}

/// The choices of a gesture recogniser.
package struct GestureOptions: Hashable, Sendable {
    /// The way of pointing.
    @frozen package enum Mode: Hashable, Sendable {
        /// The pointer is where the finger is.
        case touch
        /// The screen is a trackpad: the pointer moves as the finger does, with acceleration.
        case trackpad
    }

    /// The meaning of three fingers that move.
    @frozen package enum ThreeFingers: Hashable, Sendable { case drag, scroll }

    package var mode = Mode.touch
    /// Two fingers move the picture instead of turning the wheel: for a picture that is zoomed in.
    package var twoFingersPan = false
    package var threeFingers = ThreeFingers.drag
    /// The speed of the pointer in trackpad mode, 0.25…4.
    package var pointerSpeed = 1.0

    /// The usual choices.
    package init(
        mode: Mode = .touch, twoFingersPan: Bool = false, threeFingers: ThreeFingers = .drag, pointerSpeed: Double = 1
    ) {
        self.mode = mode
        self.twoFingersPan = twoFingersPan
        self.threeFingers = threeFingers
        self.pointerSpeed = pointerSpeed
    }
}
