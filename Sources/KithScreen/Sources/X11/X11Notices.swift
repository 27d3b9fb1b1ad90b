#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithWire

/// A window in the upper right corner that says who sees the screen, and asks about those who want to.
///
/// It is not the window manager's, so nothing hides it for long. Only a person answers by it: see ``X11ClickGuard``. The
/// device that an event came from is looked up each time by the property that the server gives its devices for tests.
/// Without XInput 2 that cannot be known, and nothing is shown.
///
/// The panic key is Ctrl+Alt+Pause, and Ctrl+Alt+Shift+Q for keyboards without Pause, as Moonlight has it; both are ours
/// while anybody sees the screen. Pressed by a viewer they do nothing.
@safe final class X11Notices {
    private static let hint = "Ctrl+Alt+Pause or Ctrl+Alt+Shift+Q ends all."

    private let connection: X11Connection
    private var window: UInt32?
    private var graphics: UInt32 = 0
    private var font: X11Font?
    private var notices: [ScreenNotice] = []
    private(set) var layout: X11NoticeLayout?
    private var display: Screen.Display?
    private var decide: (ScreenNotice.Answer) -> Void = { _ in }
    private var clicks = X11ClickGuard()
    private var panicKey: X11PanicKey
    private var isRaised = ContinuousClock.now

    /// Shows nothing yet.
    init(_ connection: X11Connection) {
        self.connection = connection
        panicKey = X11PanicKey(connection)
    }

    /// Shows notices instead of those before; returns whether it can.
    func show(_ notices: [ScreenNotice], _ decide: @escaping (ScreenNotice.Answer) -> Void) -> Bool {
        guard connection.extensions.input != nil else { return false }
        self.decide = decide
        guard !notices.isEmpty else {
            hide()
            return true
        }
        if notices != self.notices || window == nil {
            self.notices = notices
            let former = layout?.buttons
            if window == nil { open() }
            arrange()
            // Lines come and go below them: the buttons are the same as long as they say and do the same.
            if layout?.buttons != former { clicks.show(at: .now) }
        }
        panicKey.grab()
        connection.flush()
        return true
    }

    /// Shows nothing.
    func hide() {
        notices = []
        panicKey.release()
        if let window {
            unsafe xcb_free_gc(connection.raw, graphics)
            unsafe xcb_destroy_window(connection.raw, window)
        }
        font?.close(connection)
        (window, font, layout) = (nil, nil, nil)
        connection.flush()
    }

    /// Moves to the corner of a display.
    func place(on display: Screen.Display) {
        guard display != self.display else { return }
        self.display = display
        if window != nil { arrange() }
    }

    /// Notes that a viewer uses the pointer.
    func pointerIsUsed() { if window != nil { clicks.inject(at: .now) } }

    /// Finds the panic keys in another layout.
    func layoutChanged() { panicKey.layoutChanged() }

    // MARK: - Drawing

    private func open() {
        let raw = unsafe connection.raw
        let font = X11Font(connection)
        let window = connection.makeID()
        let values = [
            connection.format.pixel(red: 0x20, green: 0x24, blue: 0x2C), 1,
            XCB_EVENT_MASK_EXPOSURE.rawValue | XCB_EVENT_MASK_VISIBILITY_CHANGE.rawValue,
        ]
        unsafe xcb_create_window(
            raw, 0, window, connection.root, 0, 0, 1, 1, 0, UInt16(XCB_WINDOW_CLASS_INPUT_OUTPUT.rawValue), 0,
            XCB_CW_BACK_PIXEL.rawValue | XCB_CW_OVERRIDE_REDIRECT.rawValue | XCB_CW_EVENT_MASK.rawValue, values)
        let type = [connection.atoms[.notification]]
        unsafe xcb_change_property(
            raw, UInt8(XCB_PROP_MODE_REPLACE.rawValue), window, connection.atoms[.windowType], XCB_ATOM_ATOM.rawValue,
            32,
            1, type)
        let name = Array("Kith".utf8)
        unsafe xcb_change_property(
            raw, UInt8(XCB_PROP_MODE_REPLACE.rawValue), window, connection.atoms[.name], connection.atoms[.utf8], 8,
            UInt32(name.count), name)
        let events =
            XCB_INPUT_XI_EVENT_MASK_BUTTON_PRESS.rawValue | XCB_INPUT_XI_EVENT_MASK_BUTTON_RELEASE.rawValue
            | XCB_INPUT_XI_EVENT_MASK_MOTION.rawValue
        unsafe kith_x11_select_input(raw, window, UInt16(XCB_INPUT_DEVICE_ALL_MASTER.rawValue), events)
        graphics = connection.makeID()
        let settings = [font.number]
        unsafe xcb_create_gc(raw, graphics, window, XCB_GC_FONT.rawValue, settings)
        self.font = font
        self.window = window
    }

    private func arrange() {
        guard let window, let font, let display else { return }
        let layout = X11NoticeLayout(
            notices, characterWidth: font.width, ascent: font.ascent, descent: font.descent, hint: Self.hint)
        self.layout = layout
        let x = display.bounds.x + max(Int32(clamping: display.bounds.width) - Int32(layout.width), 0)
        let values = [
            UInt32(bitPattern: x), UInt32(bitPattern: display.bounds.y), layout.width, layout.height,
            XCB_STACK_MODE_ABOVE.rawValue,
        ]
        let fields =
            XCB_CONFIG_WINDOW_X.rawValue | XCB_CONFIG_WINDOW_Y.rawValue | XCB_CONFIG_WINDOW_WIDTH.rawValue
            | XCB_CONFIG_WINDOW_HEIGHT.rawValue | XCB_CONFIG_WINDOW_STACK_MODE.rawValue
        unsafe xcb_configure_window(connection.raw, window, UInt16(fields), values)
        unsafe xcb_map_window(connection.raw, window)
        unsafe xcb_clear_area(connection.raw, 0, window, 0, 0, 0, 0)
        draw()
    }

    /// Draws again; comes to the top, too, when something covers it: at most five times a second.
    func redraw(isRaised covers: Bool) {
        guard let window else { return }
        if covers, .now - isRaised > .milliseconds(200) {
            isRaised = .now
            let above = [XCB_STACK_MODE_ABOVE.rawValue]
            unsafe xcb_configure_window(
                connection.raw, window, UInt16(XCB_CONFIG_WINDOW_STACK_MODE.rawValue), above)
        }
        draw()
    }

    private func draw() {
        guard let window, let layout, let font else { return }
        let raw = unsafe connection.raw
        let format = connection.format
        func color(_ ink: UInt32, _ paper: UInt32) {
            let values = [ink, paper]
            unsafe xcb_change_gc(raw, graphics, XCB_GC_FOREGROUND.rawValue | XCB_GC_BACKGROUND.rawValue, values)
        }
        let paper = format.pixel(red: 0x20, green: 0x24, blue: 0x2C)
        let raised = format.pixel(red: 0x4A, green: 0x54, blue: 0x66)
        let ink = format.pixel(red: 0xF2, green: 0xF4, blue: 0xF8)
        color(ink, paper)
        for line in layout.lines { font.draw(line.text, line.x, line.y, connection, window, graphics) }
        for button in layout.buttons {
            color(raised, raised)
            let area = xcb_rectangle_t(
                x: Int16(button.area.x), y: Int16(button.area.y), width: UInt16(button.area.width),
                height: UInt16(button.area.height))
            unsafe xcb_poly_fill_rectangle(raw, window, graphics, 1, [area])
            color(ink, raised)
            font.draw(
                button.label, button.area.x + 8, button.area.y + 4 + font.ascent, connection, window, graphics)
        }
        connection.flush()
    }

    // MARK: - Answers

    /// Takes in what a device did on the window, or to the panic key.
    func receive(_ event: xcb_input_button_press_event_t) {
        // Programs can send events of their own making, which are marked.
        guard event.response_type & 0x80 == 0 else { return }
        let isPerson = connection.isPersons(device: event.sourceid)
        if event.event_type == UInt16(XCB_INPUT_KEY_PRESS) {
            // What is typed meanwhile is for others.
            unsafe xcb_input_xi_ungrab_device(connection.raw, event.time, event.deviceid)
            connection.flush()
            if isPerson, panicKey.isGrabbed { decide(.panic) }
            return
        }
        guard event.event == window, let layout else { return }
        let button = layout.button(atX: event.event_x >> 16, y: event.event_y >> 16)
        switch Int32(event.event_type) {
        case XCB_INPUT_MOTION: clicks.move(isPerson: isPerson)
        case XCB_INPUT_BUTTON_PRESS where event.detail == 1:
            clicks.press(button, device: event.sourceid, isPerson: isPerson, at: .now)
        case XCB_INPUT_BUTTON_RELEASE where event.detail == 1:
            guard let clicked = clicks.release(button, device: event.sourceid, isPerson: isPerson) else { return }
            decide(layout.buttons[clicked].answer)
        default: break
        }
    }
}

extension X11Connection {
    /// Whether events of a device are a person's: programs make theirs with devices that the server marks, or move the
    /// pointer of no device at all.
    ///
    /// A device that cannot be asked is taken for one of those.
    fileprivate func isPersons(device: UInt16) -> Bool {
        let question = unsafe xcb_input_xi_query_device(raw, device)
        let kind = try? unsafe reply(to: question, xcb_input_xi_query_device_reply) { reply in
            let devices = unsafe xcb_input_xi_query_device_infos_iterator(reply)
            return unsafe devices.rem > 0 ? UInt32(devices.data.pointee.type) : 0
        }
        return isTest(device: device) == false
            && [XCB_INPUT_DEVICE_TYPE_SLAVE_POINTER.rawValue, XCB_INPUT_DEVICE_TYPE_SLAVE_KEYBOARD.rawValue].contains(
                kind)
    }
}
#endif
