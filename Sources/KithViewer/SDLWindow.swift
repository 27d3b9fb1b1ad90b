#if Viewer && os(Linux) && canImport(CSDL2)
import CSDL2
import Foundation
import KithAPI
import KithPixels
import KithWindow
import KithWire

/// The window: SDL's events go to the engine, and what it answers is done.
@safe final class SDLWindow {
    private let window: OpaquePointer
    private let painter: SDLPainter
    private let inbox: Inbox
    private var engine: ViewerWindow
    private var cursor: OpaquePointer?
    private var needsDrawing = true
    /// True while the memory of the picture waits to be given back.
    private var owesPicture = false
    private var isSized = false
    /// The size of text and buttons.
    private var scale: Int
    /// The settings of the X server.
    private let resources: String
    private var hasLeft = false
    /// True once SDL tells of changes of the clipboard: on X11 only after there was a text.
    private var isToldOfClipboard = false

    /// Opens a window.
    ///
    /// - Throws: `KithError` `.unsupported` with what SDL says when there is no display for it.
    init(_ options: WindowOptions) throws {
        // Xlib puts letters into a title, and takes them from input methods, as the locale has them.
        unsafe setlocale(LC_CTYPE, "")
        // Others, such as the console's, have no window; what SDL_VIDEODRIVER says goes first.
        unsafe SDL_SetHint(SDL_HINT_VIDEODRIVER, "x11,wayland")
        // kith is told by its terminal, and closes the socket.
        unsafe SDL_SetHint(SDL_HINT_NO_SIGNAL_HANDLERS, "1")
        unsafe SDL_SetHint(SDL_HINT_VIDEO_ALLOW_SCREENSAVER, "1")
        // The click that brings the window to the front is the other device's, too.
        unsafe SDL_SetHint(SDL_HINT_MOUSE_FOCUS_CLICKTHROUGH, "1")
        unsafe SDL_SetHint(SDL_HINT_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR, "0")
        unsafe SDL_SetHint(SDL_HINT_APP_NAME, "kith")
        guard SDL_Init(UInt32(SDL_INIT_VIDEO)) == 0 else {
            throw KithError(
                .unsupported,
                "No window can be opened: DISPLAY and WAYLAND_DISPLAY lead to no display (\(sdlError())).")
        }
        let flags = SDL_WINDOW_RESIZABLE.rawValue | SDL_WINDOW_ALLOW_HIGHDPI.rawValue
        // SDL_WINDOWPOS_UNDEFINED: where the window manager likes.
        let anywhere: Int32 = 0x1FFF_0000
        guard let window = unsafe SDL_CreateWindow(options.device, anywhere, anywhere, 1_024, 640, flags) else {
            throw KithError(.unsupported, "A window cannot be opened here: \(sdlError()).")
        }
        unsafe self.window = window
        unsafe SDL_SetWindowMinimumSize(window, 320, 200)
        let resources = X11Resources.text ?? ""
        scale = unsafe Self.scale(of: window, resources)
        self.resources = resources
        let text = TextPainter(scale: scale)
        painter = try unsafe SDLPainter(window, text)
        let font = text.measures
        engine = ViewerWindow(options, size: painter.size, font: font)
        SDL_StartTextInput()
        inbox = Inbox()
        try send(.opened)
    }

    /// Shows the session until the person leaves, or `kith` does.
    func run() throws {
        while true {
            try perform()
            if hasLeft { return }
            if needsDrawing { try draw() }
            var event = unsafe SDL_Event()
            let asks = engine.readsClipboard && !isToldOfClipboard
            let longest = asks ? 500.0 : 60_000
            let wait = engine.nextDeadline.map { max(0, min(longest, ($0 - .now) / .milliseconds(1))) } ?? longest
            if unsafe SDL_WaitEventTimeout(&event, Int32(wait.rounded(.up))) == 1 {
                repeat { try unsafe handle(event) } while unsafe SDL_PollEvent(&event) == 1
            }
            if asks { readClipboard() }
            engine.timedOut(at: .now)
            if inbox.isEnded { return }
        }
    }

    private func draw() throws {
        painter.draw(engine.scene)
        needsDrawing = false
        guard owesPicture else { return }
        owesPicture = false
        try send(.shown)
    }

    private func send(_ event: WindowEvent) throws { try WindowSocket.send(event, to: 0) }

    // MARK: - What the engine answers

    private func perform() throws {
        while let action = engine.nextAction() {
            switch action {
            case .send(let event): try send(event)
            case .draw: needsDrawing = true
            case .setTitle(let title): unsafe SDL_SetWindowTitle(window, title)
            case .setFullScreen(let isFull):
                unsafe SDL_SetWindowFullscreen(window, isFull ? SDL_WINDOW_FULLSCREEN_DESKTOP.rawValue : 0)
            case .setGrab(let isGrabbed): unsafe SDL_SetWindowKeyboardGrab(window, isGrabbed ? SDL_TRUE : SDL_FALSE)
            case .setCursor(let cursor): setCursor(cursor)
            case .setClipboard(let text): unsafe SDL_SetClipboardText(text)
            case .leave: hasLeft = true
            }
        }
    }

    private func setCursor(_ wanted: ViewerWindow.Cursor) {
        var made: OpaquePointer?
        switch wanted {
        case .hidden: break
        case .arrow: unsafe made = SDL_CreateSystemCursor(SDL_SYSTEM_CURSOR_ARROW)
        case .shape(let shape):
            var pixels = shape.pixels
            unsafe pixels.withUnsafeMutableBytes { bytes in
                let surface = unsafe SDL_CreateRGBSurfaceWithFormatFrom(
                    bytes.baseAddress, Int32(shape.size.width), Int32(shape.size.height), 32,
                    Int32(shape.size.width * 4), SDL_PIXELFORMAT_ARGB8888.rawValue)
                guard let surface = unsafe surface else { return }
                unsafe made = SDL_CreateColorCursor(surface, Int32(shape.hotspot.x), Int32(shape.hotspot.y))
                unsafe SDL_FreeSurface(surface)
            }
        }
        if let made = unsafe made { unsafe SDL_SetCursor(made) }
        SDL_ShowCursor(wanted == .hidden ? SDL_DISABLE : SDL_ENABLE)
        if let cursor = unsafe cursor { unsafe SDL_FreeCursor(cursor) }
        unsafe cursor = made
    }

    // MARK: - What kith says

    private func receive() throws {
        while let arrival = inbox.next() {
            switch arrival.command {
            case .picture(let width, let height):
                guard let descriptor = arrival.descriptor, width >= 0, height >= 0, width <= 65_535, height <= 65_535
                else { throw KithError(.invalid, "A picture came without its memory.") }
                let size = PixelSize(width: width, height: height)
                try painter.setPicture(SharedPictureReader(descriptor: descriptor, size: size))
                owesPicture = true
                fitWindow(to: size)
            case .changed(let areas):
                if let size = painter.pictureSize { painter.update(areas.map { $0.rectangle(in: size) }) }
                owesPicture = true
            case .pointer(let pointer): painter.setPointer(pointer?.shape)
            default: break
            }
            engine.received(arrival.command, at: .now)
            if case .permissions = arrival.command { readClipboard() }
            try perform()
        }
    }

    /// Gives the window the size of the first picture, as far as there is room.
    private func fitWindow(to picture: PixelSize) {
        guard !isSized else { return }
        isSized = true
        let flags = unsafe SDL_GetWindowFlags(window)
        guard flags & (SDL_WINDOW_FULLSCREEN.rawValue | SDL_WINDOW_MAXIMIZED.rawValue) == 0 else { return }
        var bounds = SDL_Rect()
        guard unsafe SDL_GetDisplayUsableBounds(max(0, SDL_GetWindowDisplayIndex(window)), &bounds) == 0 else { return }
        var (top, left, bottom, right): (Int32, Int32, Int32, Int32) = (0, 0, 0, 0)
        // Without an answer there is no border.
        unsafe SDL_GetWindowBordersSize(window, &top, &left, &bottom, &right)
        let (across, down) = (ratio.across, ratio.down)
        let room = PixelSize(
            width: max(0, Int(Double(bounds.w - left - right) * across)),
            height: max(0, Int(Double(bounds.h - top - bottom) * down)))
        let size = ViewerWindow.size(for: picture, at: engine.scale, in: room)
        unsafe SDL_SetWindowSize(
            window, Int32((Double(size.width) / across).rounded()), Int32((Double(size.height) / down).rounded()))
        unsafe SDL_SetWindowPosition(
            window, max(bounds.x + left, bounds.x + (bounds.w - Int32(Double(size.width) / across)) / 2),
            max(bounds.y + top, bounds.y + (bounds.h - Int32(Double(size.height) / down)) / 2))
    }

    private func readClipboard() {
        guard engine.readsClipboard, SDL_HasClipboardText() == SDL_TRUE, let text = unsafe SDL_GetClipboardText() else {
            return
        }
        isToldOfClipboard = true
        engine.clipboardChanged(unsafe String(cString: text))
        unsafe SDL_free(text)
    }

    /// SDL's points, and the pixels of the display.
    private var ratio: PointRatio { unsafe PointRatio(points: Self.points(of: window), pixels: painter.size) }

    private static func points(of window: OpaquePointer) -> PixelSize {
        var (width, height): (Int32, Int32) = (0, 0)
        unsafe SDL_GetWindowSize(window, &width, &height)
        return PixelSize(width: max(0, Int(width)), height: max(0, Int(height)))
    }

    private static func scale(of window: OpaquePointer, _ resources: String) -> Int {
        var (width, height): (Int32, Int32) = (0, 0)
        unsafe SDL_GetWindowSizeInPixels(window, &width, &height)
        let pixels = PixelSize(width: max(0, Int(width)), height: max(0, Int(height)))
        return DisplayScale.of(
            pixelsPerPoint: unsafe PointRatio(points: points(of: window), pixels: pixels).across,
            resources: resources, variable: ProcessInfo.processInfo.environment["GDK_SCALE"])
    }

    /// Takes over the scale of the display, which is known once the window is on it, and is another on another.
    private func rescale() {
        let new = unsafe Self.scale(of: window, resources)
        guard new != scale else { return }
        scale = new
        let text = TextPainter(scale: new)
        painter.setText(text)
        engine.fontChanged(text.measures)
    }

    // MARK: - SDL's events

    private func handle(_ event: SDL_Event) throws {
        if unsafe event.type == inbox.event { return try receive() }
        switch unsafe SDL_EventType(rawValue: event.type) {
        case SDL_QUIT: engine.closed()
        case SDL_KEYDOWN:
            engine.pressed(key(unsafe event.key.keysym), isRepeat: unsafe event.key.repeat != 0, at: .now)
        case SDL_KEYUP: engine.released(UInt16(truncatingIfNeeded: unsafe event.key.keysym.scancode.rawValue))
        case SDL_TEXTINPUT:
            let text = unsafe withUnsafeBytes(of: event.text.text) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            engine.typed(text)
        case SDL_MOUSEMOTION: engine.pointerMoved(to: place(unsafe event.motion.x, unsafe event.motion.y), at: .now)
        case SDL_MOUSEBUTTONDOWN, SDL_MOUSEBUTTONUP:
            engine.pointerMoved(to: place(unsafe event.button.x, unsafe event.button.y), at: .now)
            if let button = Self.buttons[unsafe event.button.button] {
                engine.button(button, isDown: unsafe event.type == SDL_MOUSEBUTTONDOWN.rawValue)
            }
        case SDL_MOUSEWHEEL:
            let wheel = unsafe event.wheel
            let sign: Double = wheel.direction == SDL_MOUSEWHEEL_FLIPPED.rawValue ? -1 : 1
            engine.scrolled(
                x: Double(wheel.preciseX) * sign, y: -Double(wheel.preciseY) * sign,
                modifiers: Self.modifiers(UInt32(SDL_GetModState().rawValue)))
        case SDL_WINDOWEVENT: try handle(unsafe event.window)
        case SDL_CLIPBOARDUPDATE: readClipboard()
        case SDL_DROPFILE:
            guard let file = unsafe event.drop.file else { break }
            // Names need not be UTF-8.
            engine.dropped(Files.Path(bytes: unsafe Array(UnsafeRawBufferPointer(start: file, count: strlen(file)))))
            unsafe SDL_free(file)
        case SDL_DROPTEXT: unsafe SDL_free(event.drop.file)
        case SDL_DROPCOMPLETE: engine.dropEnded(at: .now)
        case SDL_RENDER_TARGETS_RESET, SDL_RENDER_DEVICE_RESET:
            try painter.restore()
            needsDrawing = true
        default: break
        }
        try perform()
    }

    private func handle(_ event: SDL_WindowEvent) throws {
        switch SDL_WindowEventID(rawValue: UInt32(event.event)) {
        case SDL_WINDOWEVENT_SIZE_CHANGED, SDL_WINDOWEVENT_DISPLAY_CHANGED:
            rescale()
            engine.resized(to: painter.size)
        case SDL_WINDOWEVENT_EXPOSED: needsDrawing = true
        case SDL_WINDOWEVENT_FOCUS_GAINED:
            engine.focusChanged(true)
            readClipboard()
        case SDL_WINDOWEVENT_FOCUS_LOST: engine.focusChanged(false)
        case SDL_WINDOWEVENT_LEAVE: engine.pointerMoved(to: nil, at: .now)
        default: break
        }
    }

    private func place(_ x: Int32, _ y: Int32) -> (x: Int, y: Int) {
        ratio.pixel(x: Int(x), y: Int(y))
    }

    private static let buttons: [UInt8: ScreenInput.Button] = [1: .left, 2: .middle, 3: .right, 4: .back, 5: .forward]

    private func key(_ symbol: SDL_Keysym) -> WindowKey {
        let usage = UInt16(truncatingIfNeeded: symbol.scancode.rawValue)
        let modifiers = Self.modifiers(UInt32(symbol.mod))
        let code = symbol.sym
        // SDL gives keys without a character the number of the key itself, and this bit.
        if code & 1 << 30 != 0 {
            return WindowKey(usage: usage, meaning: UInt16(truncatingIfNeeded: code & 0x1FF), modifiers: modifiers)
        }
        let controls: [Int32: UInt16] = [13: 40, 27: 41, 8: 42, 9: 43, 127: 76]
        if let meaning = controls[code] { return WindowKey(usage: usage, meaning: meaning, modifiers: modifiers) }
        let scalar = code >= 0x20 ? Unicode.Scalar(UInt32(code)) : nil
        return WindowKey(usage: usage, scalar: scalar, modifiers: modifiers)
    }

    private static func modifiers(_ state: UInt32) -> WindowKey.Modifiers {
        var modifiers: WindowKey.Modifiers = []
        for (bits, modifier) in [
            (KMOD_LSHIFT.rawValue | KMOD_RSHIFT.rawValue, WindowKey.Modifiers.shift),
            (KMOD_LCTRL.rawValue | KMOD_RCTRL.rawValue, .control), (KMOD_LALT.rawValue, .alt),
            (KMOD_RALT.rawValue, .rightAlt), (KMOD_LGUI.rawValue | KMOD_RGUI.rawValue, .super),
            (KMOD_NUM.rawValue, .numLock),
        ] where state & bits != 0 {
            modifiers.insert(modifier)
        }
        return modifiers
    }
}
#endif
