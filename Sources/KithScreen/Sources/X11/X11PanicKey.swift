#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

/// The keys that end all sessions, while they are taken from everybody else.
struct X11PanicKey {
    private struct Grab: Hashable {
        let keycode: UInt32
        let modifiers: UInt32
    }

    private let connection: X11Connection
    private var grabs: Set<Grab> = []
    private(set) var isGrabbed = false

    init(_ connection: X11Connection) { self.connection = connection }

    /// Takes the keys, unless that has been done.
    mutating func grab() {
        guard !isGrabbed else { return }
        isGrabbed = true
        layoutChanged()
    }

    /// Gives the keys back.
    mutating func release() {
        isGrabbed = false
        for grab in grabs { ungrab(grab) }
        grabs = []
    }

    /// Takes those that are somewhere else now, and leaves no gap: the server tells of another layout whenever another
    /// keyboard is typed on.
    mutating func layoutChanged() {
        guard isGrabbed, let map = try? connection.keyMap() else { return }
        let wanted = Self.grabs(in: map)
        for grab in wanted.subtracting(grabs) {
            let raw = unsafe connection.raw
            let cookie = unsafe xcb_input_xi_passive_grab_device(
                raw, 0, connection.root, 0, grab.keycode, Self.keyboards, 1, 1,
                UInt8(XCB_INPUT_GRAB_TYPE_KEYCODE.rawValue), UInt8(XCB_INPUT_GRAB_MODE_22_ASYNC.rawValue),
                UInt8(XCB_INPUT_GRAB_MODE_22_ASYNC.rawValue), 0, [XCB_INPUT_XI_EVENT_MASK_KEY_PRESS.rawValue],
                [grab.modifiers])
            // Where another program has it, that one keeps it.
            unsafe free(xcb_input_xi_passive_grab_device_reply(raw, cookie, nil))
        }
        for grab in grabs.subtracting(wanted) { ungrab(grab) }
        grabs = wanted
    }

    private static let keyboards = UInt16(XCB_INPUT_DEVICE_ALL_MASTER.rawValue)

    private func ungrab(_ grab: Grab) {
        unsafe xcb_input_xi_passive_ungrab_device(
            connection.raw, connection.root, grab.keycode, Self.keyboards, 1,
            UInt8(XCB_INPUT_GRAB_TYPE_KEYCODE.rawValue), [grab.modifiers])
    }

    private static func grabs(in map: X11KeyMap) -> Set<Grab> {
        let alt = map.mask(of: [X11KeySymbol.leftAlt, X11KeySymbol.rightAlt])
        let shortcut = X11KeyMap.State.control | (alt != 0 ? alt : 8)
        let keys: [(UInt32, UInt32)] = [(X11KeySymbol.pause, 0), (0x71, X11KeyMap.State.shift)]
        // Locks are not to matter.
        let numLock = map.mask(of: [X11KeySymbol.numLock])
        var grabs: Set<Grab> = []
        for (symbol, more) in keys {
            guard let stroke = map.stroke(for: X11KeySymbol(symbol), X11KeyMap.State()) else { continue }
            for locks in [0, X11KeyMap.State.lock, numLock, X11KeyMap.State.lock | numLock] {
                grabs.insert(Grab(keycode: UInt32(stroke.keycode), modifiers: shortcut | more | locks))
            }
        }
        return grabs
    }
}
#endif
