/// Tells the clicks of a person at the screen from those of viewers, who may not answer for themselves.
///
/// X11 says of every event which device it came from; those that programs make come from devices for tests. A person's
/// click is to be meant, too: a viewer must not have brought the pointer there, nor may the button have appeared just then.
struct X11ClickGuard {
    /// A button has to be seen, and the pointer left alone by viewers, for this long.
    static let pause = Duration.milliseconds(500)

    /// Buttons that look the same from now on are the same.
    private var shown: ContinuousClock.Instant?
    private var injected: ContinuousClock.Instant?
    /// The last movement of the pointer over the notices was a person's.
    private var isPlacedByPerson = false
    private var pressed: (button: Int, device: UInt16)?

    /// Notes that other buttons are shown.
    mutating func show(at now: ContinuousClock.Instant) {
        shown = now
        pressed = nil
    }

    /// Notes that a viewer moved the pointer, or pressed one of its buttons.
    mutating func inject(at now: ContinuousClock.Instant) {
        injected = now
        isPlacedByPerson = false
        pressed = nil
    }

    /// Notes a movement over the notices.
    mutating func move(isPerson: Bool) {
        isPlacedByPerson = isPerson
        if !isPerson { pressed = nil }
    }

    /// Notes that the pointer's first button went down on a button, or beside all of them.
    mutating func press(_ button: Int?, device: UInt16, isPerson: Bool, at now: ContinuousClock.Instant) {
        pressed = nil
        guard let button, isPerson, isPlacedByPerson, let shown, now >= shown + Self.pause else { return }
        if let injected, now < injected + Self.pause { return }
        pressed = (button, device)
    }

    /// Notes that it came up; returns the button that a person has clicked.
    mutating func release(_ button: Int?, device: UInt16, isPerson: Bool) -> Int? {
        defer { pressed = nil }
        guard let button, let pressed, isPerson, pressed.button == button, pressed.device == device else { return nil }
        return button
    }
}
