#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithIO
import KithWire

/// What lives as long as one connection to an X server, and the events that reach it; for the connection's thread alone.
@safe final class X11Session {
    /// The pointer is asked for at most this often.
    private static let pointerPause = Duration.milliseconds(8)
    /// Without XInput nobody tells of the pointer: it is asked for this often while changes are waited for.
    private static let pointerPoll = Duration.milliseconds(33)

    private struct Pending {
        var displays = true
        var damage = true
        var cursor = true
        var pointer = true
        var lit = false
        var clipboards: [ScreenClipboard.Selection: [ScreenClipboard.Format]] = [:]
    }

    let connection: X11Connection
    let capture: X11Capture
    let input: X11Input
    let notices: X11Notices
    let clipboards: X11Clipboards
    private(set) var displays: [Screen.Display] = []
    weak var owner: X11Source?
    /// Happens at the next change.
    var nextChange: AsyncEvent? {
        didSet { if nextChange != nil, !connection.hasPointerEvents { askForPointer(after: Self.pointerPoll) } }
    }

    private let damage: X11Damage
    private var pending = Pending()
    private var pointer: (x: Int32, y: Int32)?
    private var pointerAsked = ContinuousClock.now - .seconds(1)
    private var isPointerTimed = false

    /// Asks the server to tell of everything.
    ///
    /// - Throws: `KithError` `.unreachable` when it goes meanwhile.
    init(_ connection: X11Connection) throws(KithError) {
        self.connection = connection
        damage = X11Damage(connection)
        capture = X11Capture(connection)
        input = X11Input(connection)
        clipboards = X11Clipboards(connection)
        notices = X11Notices(connection)
        input.pointerIsUsed = { [notices] in notices.pointerIsUsed() }
        input.catchUp = { [weak self] in self?.takeEvents() }
        connection.watchDisplays()
        connection.watchCursor()
        connection.watchPointer()
        // Other clients' grabs of the server are not to stop this one.
        unsafe xcb_test_grab_control(connection.raw, 1)
        try readDisplays()
    }

    /// Lets everything go that waits.
    func end(_ failure: KithError) {
        clipboards.end(failure)
        nextChange?.happen()
        nextChange = nil
    }

    // MARK: - Changes

    /// The changes since the last call.
    ///
    /// - Throws: `KithError` `.unreachable` when the screen is gone.
    func takeChanges() throws(KithError) -> [ScreenChange] {
        var changes: [ScreenChange] = []
        if pending.displays {
            pending.displays = false
            try readDisplays()
            changes.append(.displays(displays))
        }
        if pending.damage {
            pending.damage = false
            let areas = try damage.take().compactMap { $0.intersection(displays[0].bounds) }
            if !areas.isEmpty { changes.append(.damage(areas)) }
            // A program that moves the pointer draws, as a rule.
            pending.pointer = true
        }
        if pending.cursor {
            pending.cursor = false
            if let shape = try connection.cursor() { changes.append(.cursor(shape)) }
        }
        if pending.pointer, let change = try takePointer() { changes.append(change) }
        for selection in ScreenClipboard.Selection.allCases {
            guard let formats = pending.clipboards.removeValue(forKey: selection) else { continue }
            changes.append(.clipboard(selection, formats))
        }
        if pending.lit {
            pending.lit = false
            changes.append(.lit)
        }
        connection.flush()
        return changes
    }

    /// Learns which displays there are, and makes ready to take pictures of them.
    ///
    /// - Throws: `KithError` `.unreachable` when the screen is gone.
    func readDisplays() throws(KithError) {
        displays = try connection.displays()
        capture.resize(width: displays[0].bounds.width, height: displays[0].bounds.height)
        input.bounds = displays[0].bounds
        notices.place(on: displays.first { $0.isPrimary } ?? displays[0])
    }

    private func takePointer() throws(KithError) -> ScreenChange? {
        let now = ContinuousClock.now
        guard now >= pointerAsked + Self.pointerPause else {
            askForPointer(after: Self.pointerPause)
            return nil
        }
        pending.pointer = false
        pointerAsked = now
        let place = try connection.pointer()
        guard pointer == nil || (pointer ?? (0, 0)) != (place.x, place.y) else { return nil }
        pointer = (place.x, place.y)
        return .pointer(x: place.x, y: place.y)
    }

    private func askForPointer(after pause: Duration) {
        guard !isPointerTimed, let owner else { return }
        isPointerTimed = true
        Task(name: "x11 pointer") { [weak owner] in
            try? await Task.sleep(for: pause)  // nobody cancels it
            await owner?.pointerIsDue()
        }
    }

    /// Has the pointer asked for at the next look.
    func pointerIsDue() {
        isPointerTimed = false
        pending.pointer = true
        signal()
    }

    private func signal() {
        nextChange?.happen()
        nextChange = nil
    }

    // MARK: - Events

    /// Takes in all that the server has sent.
    func takeEvents() {
        while let event = unsafe xcb_poll_for_event(connection.raw) {
            unsafe receive(event)
            unsafe free(event)
        }
    }

    private func receive(_ event: UnsafeMutablePointer<xcb_generic_event_t>) {
        let kind = unsafe event.pointee.response_type & 0x7F
        let extensions = connection.extensions
        switch kind {
        case UInt8(XCB_MAPPING_NOTIFY):
            input.layoutChanged()
            notices.layoutChanged()
        case UInt8(XCB_GE_GENERIC): unsafe receiveInput(event)
        case UInt8(XCB_EXPOSE), UInt8(XCB_VISIBILITY_NOTIFY): notices.redraw(isRaised: kind != UInt8(XCB_EXPOSE))
        case extensions.damageEvent:
            pending.damage = true
            signal()
        case extensions.randrEvent, extensions.randrEvent + 1, UInt8(XCB_CONFIGURE_NOTIFY):
            pending.displays = true
            signal()
        case extensions.fixesEvent + UInt8(XCB_XFIXES_CURSOR_NOTIFY):
            pending.cursor = true
            signal()
        default: unsafe clipboards.receive(event, kind)
        }
    }

    private func receiveInput(_ event: UnsafeMutablePointer<xcb_generic_event_t>) {
        let head = unsafe UnsafeRawPointer(event).load(as: xcb_ge_generic_event_t.self)
        guard head.extension == connection.extensions.input else { return }
        if head.event_type == UInt16(XCB_INPUT_RAW_MOTION) {
            guard !pending.pointer else { return }
            pending.pointer = true
            signal()
        } else {
            unsafe notices.receive(UnsafeRawPointer(event).load(as: xcb_input_button_press_event_t.self))
        }
    }

    /// Tells with the next changes that the screen is dark no more.
    func screenIsLit() {
        pending.lit = true
        signal()
    }

    /// Tells of a clipboard with the next changes.
    func clipboardChanged(_ selection: ScreenClipboard.Selection, _ formats: [ScreenClipboard.Format]) {
        pending.clipboards[selection] = formats
        signal()
    }
}

extension X11Connection {
    /// Whether the server tells when the pointer moves.
    var hasPointerEvents: Bool { extensions.input != nil }

    /// Has the server tell when a device moves the pointer.
    fileprivate func watchPointer() {
        guard hasPointerEvents else { return }
        unsafe kith_x11_select_input(
            raw, root, UInt16(XCB_INPUT_DEVICE_ALL_MASTER.rawValue), XCB_INPUT_XI_EVENT_MASK_RAW_MOTION.rawValue)
    }
}
#endif
