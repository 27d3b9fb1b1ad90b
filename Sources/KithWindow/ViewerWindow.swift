package import KithAPI
package import KithPixels

/// What a window with another device's screen does: an engine, in the program that has the window.
///
/// It takes in what the window system and `kith` say, and answers with what is to be done and drawn. It has no window
/// itself, waits for nothing and reads no clock; places are pixels of the display.
package struct ViewerWindow {
    /// What the driver does, in order.
    @frozen package enum Action: Hashable, Sendable {
        /// Send it to `kith`.
        case send(WindowEvent)
        /// Draw ``ViewerWindow/scene``.
        case draw
        case setTitle(String)
        case setFullScreen(Bool)
        /// All keys go to the window, or those that the window manager leaves.
        case setGrab(Bool)
        case setCursor(Cursor)
        case setClipboard(String)
        /// End the program.
        case leave
    }

    /// The pointer's shape over the window.
    @frozen package enum Cursor: Hashable, Sendable {
        case arrow
        case hidden
        case shape(CursorShape)
    }

    /// The life of a notice, for each row that it takes.
    static let noticeTime = Duration.seconds(6)
    /// The most files that are put on the window at once; of more their folder can be.
    static let dropLimit = 1_000
    /// The time after which one that is in control counts as at rest, when nothing more is heard of it.
    static let controlTime = Duration.seconds(3)
    /// The time after which the pointer's place is sent again that another window of this device kept from its effect.
    static let againTime = Duration.milliseconds(600)
    /// The time between two steps of a picture that moves under a pointer at the edge.
    static let panTime = Duration.milliseconds(16)

    var options: WindowOptions
    var font: WindowFont
    var size: PixelSize
    var picture = PixelSize(width: 0, height: 0)
    var transform: DisplayTransform
    /// The size at which the picture is shown.
    package private(set) var scale: WindowScale
    var toolbar = Toolbar()
    var keyboard = WindowKeyboard()
    var chat = WindowChat()
    var phase = WindowCommand.Phase.connecting
    var permissions: Screen.Permissions?
    var controller: (isUs: Bool, name: String?) = (true, nil)
    var displays: (all: [Screen.Display], shown: UInt32) = ([], 0)
    var statistics: WindowStatistics?
    var notice: (text: String, ends: ContinuousClock.Instant)?
    /// How far the copy of what was put on the window is.
    var copying: String?
    private var dropped: [Files.Path] = []
    var remote: (shape: CursorShape?, x: Int, y: Int) = (nil, 0, 0)
    var hasRemotePointer = false
    /// Where the pointer is in the window; `nil` outside.
    var pointer: (x: Int, y: Int)?
    var buttons: Set<ScreenInput.Button> = []
    /// Fractions of a step of the wheel that have not been sent.
    var wheel: (x: Double, y: Double) = (0, 0)
    var isFocused = true
    var isFullScreen: Bool
    var isGrabbed: Bool
    /// The text that both clipboards have, as far as is known here.
    var clipboard: String?
    var panAt: ContinuousClock.Instant?
    private var controlAt: ContinuousClock.Instant?
    private var againAt: ContinuousClock.Instant?
    private var actions: [Action] = []
    private var cursor: Cursor?
    private var title: String?
    private var lastMove: (x: Int, y: Int)?

    /// Begins with a window of this size.
    package init(_ options: WindowOptions, size: PixelSize, font: WindowFont) {
        self.options = options
        self.size = size
        self.font = font
        scale = options.scale
        isFullScreen = options.isFullScreen
        isGrabbed = options.grabsKeyboard
        transform = scale.transform(picture: picture, view: size)
        if isFullScreen { actions.append(.setFullScreen(true)) }
        if isGrabbed { actions.append(.setGrab(true)) }
        changed()
    }

    /// The size of a window for a picture, on a display with so much room: what it takes, as far as that fits; a picture
    /// that is made to fit keeps its proportions.
    package static func size(
        for picture: PixelSize, at scale: WindowScale = .fit, in room: PixelSize
    ) -> PixelSize {
        guard picture.area > 0, room.area > 0 else { return room }
        var (width, height) = (Double(picture.width), Double(picture.height))
        switch scale {
        case .fit:
            let factor = min(1, Double(room.width) / width, Double(room.height) / height)
            (width, height) = (width * factor, height * factor)
        case .factor(let factor):
            width = min(width * factor, Double(room.width))
            height = min(height * factor, Double(room.height))
        }
        return PixelSize(width: max(320, Int(width)), height: max(200, Int(height)))
    }

    /// The next thing to do; `nil` when there is none.
    package mutating func nextAction() -> Action? { actions.isEmpty ? nil : actions.removeFirst() }

    /// The time to call ``timedOut(at:)``; `nil` when there is none.
    package var nextDeadline: ContinuousClock.Instant? {
        [notice?.ends, panAt, controlAt, againAt, chat.nextDeadline].compactMap { $0 }.min()
    }

    /// True when what is typed and pointed reaches the other device.
    var controls: Bool { phase == .active && !options.isViewOnly && permissions?.control == true }

    // MARK: - What kith says

    /// Takes in a message; pictures are shown by the driver, which has their memory.
    package mutating func received(_ command: WindowCommand, at now: ContinuousClock.Instant) {
        switch command {
        case .open: break
        case .picture(let width, let height):
            let isFirst = picture.area == 0
            picture = PixelSize(width: max(0, width), height: max(0, height))
            transform = scale.transform(picture: picture, view: size)
            lastMove = nil
            // Where the pointer was sent last may be elsewhere in what is shown now.
            if !isFirst, isFocused, controller.isUs, !isCovered { sendPosition() }
        case .changed: return actions.append(.draw)
        case .pointer(let pointer):
            remote.shape = pointer?.shape
            hasRemotePointer = true
        case .pointerMoved(let x, let y): (remote.x, remote.y) = (x, y)
        case .phase(let phase):
            self.phase = phase
            // The host lets go of everything by itself.
            if phase != .active { forgetHeld() }
        case .permissions(let permissions):
            if self.permissions?.privacy == true, permissions.privacy != true {
                show("The screen there is lit again.", at: now)
            }
            self.permissions = permissions
            if !permissions.control { forgetHeld() }
        case .control(let isInControl, let name):
            controller = (isInControl, name)
            controlAt = isInControl ? nil : now + Self.controlTime
            // One person with two windows waits for nobody: the pointer is here now.
            againAt = isInControl || name != nil ? nil : now + Self.againTime
            if !isInControl { lastMove = nil }
        case .displays(let all, let shown):
            let former = displays.all.first { $0.number == displays.shown }
            if let former, !all.contains(where: { $0.name == former.name }) {
                show("The display \(former.name) there is gone. What is left is shown.", at: now)
            }
            displays = (all, shown)
        case .statistics(let statistics):
            self.statistics = statistics
            actions.append(.send(.responded))
        case .clipboard(let text):
            guard clipboard != text else { return }
            clipboard = text
            return actions.append(.setClipboard(text))
        case .said(let text): chat.add(text, from: options.device, at: now)
        case .notice(let text): show(text, at: now)
        case .copying(let text): copying = text
        }
        changed()
    }

    // MARK: - What the window system says

    /// Takes in another size of the window.
    package mutating func resized(to size: PixelSize) {
        guard size != self.size else { return actions.append(.draw) }
        self.size = size
        layOut()
        changed()
    }

    /// Takes in another size of text and buttons.
    package mutating func fontChanged(_ font: WindowFont) {
        self.font = font
        changed()
    }

    /// Takes in that the keyboard is this window's, or another's.
    package mutating func focusChanged(_ isFocused: Bool) {
        self.isFocused = isFocused
        // Where the keys come up is not seen here.
        if !isFocused { releaseHeld() }
        changed()
    }

    /// Takes in that a key went down.
    package mutating func pressed(_ key: WindowKey, isRepeat: Bool = false, at now: ContinuousClock.Instant) {
        if let action = WindowAction(shortcut: key) {
            releaseHeld()
            if !isRepeat || isRepeatable(action) { perform(action) }
            return
        }
        guard !chat.isOpen else {
            if let line = chat.pressed(key) {
                chat.add(line, from: "You", at: now)
                actions.append(.send(.said(line)))
            }
            return changed()
        }
        send(keyboard.pressed(key, isRepeat: isRepeat))
    }

    /// Takes in that a key came up.
    package mutating func released(_ usage: UInt16) { send(keyboard.released(usage)) }

    /// Takes in text that was typed or composed.
    package mutating func typed(_ text: String) {
        guard chat.isOpen else { return send(keyboard.typed(text)) }
        chat.typed(text)
        changed()
    }

    /// Takes in where the pointer is; `nil`: it has left the window.
    package mutating func pointerMoved(to place: (x: Int, y: Int)?, at now: ContinuousClock.Instant) {
        pointer = place
        let isDrawn = place.map { toolbar.pointed(x: $0.x, y: $0.y) } ?? false
        if !isCovered { sendPosition() }
        panAt = pushes(place) == nil ? nil : panAt ?? now + Self.panTime
        if isDrawn { changed() } else { updateCursor() }
    }

    /// Takes in that a button went down or up, where the pointer is.
    package mutating func button(_ button: ScreenInput.Button, isDown: Bool) {
        if isDown {
            if isCovered {
                if button == .left, let pointer, let action = toolbar.action(x: pointer.x, y: pointer.y) {
                    perform(action)
                }
                return
            }
            if toolbar.stage == .open {
                toolbar.toggle()
                changed()
            }
            guard controls, let pointer, transform.pixel(at: middle(of: pointer)) != nil else { return }
            sendPosition()
            buttons.insert(button)
            actions.append(.send(.input(.button(button, isDown: true))))
        } else if buttons.remove(button) != nil {
            sendPosition()
            actions.append(.send(.input(.button(button, isDown: false))))
        }
    }

    /// Takes in that the wheel turned, in notches to the right and down; with Control, Alt and Shift it zooms.
    package mutating func scrolled(x: Double, y: Double, modifiers: WindowKey.Modifiers = []) {
        guard x.isFinite, y.isFinite else { return }
        if modifiers.isSuperset(of: [.control, .alt, .shift]) {
            if y != 0 { perform(.zoom(up: y < 0)) }
            return
        }
        guard controls, !isCovered else { return }
        sendPosition()
        wheel = (wheel.x + x * 120, wheel.y + y * 120)
        let (right, down) = (wheel.x.rounded(.towardZero), wheel.y.rounded(.towardZero))
        wheel = (wheel.x - right, wheel.y - down)
        guard right != 0 || down != 0 else { return }
        func bounded(_ value: Double) -> Int32 { Int32(min(max(value, -12_000), 12_000)) }
        actions.append(.send(.input(.scroll(x: bounded(right), y: bounded(down)))))
    }

    /// Takes in the text of the clipboard here.
    package mutating func clipboardChanged(_ text: String) {
        guard text != clipboard, !text.isEmpty, permissions?.clipboard == true,
            text.utf8.count <= ScreenClipboard.contentLimit
        else { return }
        clipboard = text
        actions.append(.send(.clipboard(text)))
    }

    /// True when the clipboard here is to be read: the session exchanges it.
    package var readsClipboard: Bool { permissions?.clipboard == true }

    /// Takes in one of the files that are put on the window.
    package mutating func dropped(_ path: Files.Path) {
        var bytes = path.bytes
        // A folder's name, however it is written.
        while bytes.count > 1, bytes.last == UInt8(ascii: "/") { bytes.removeLast() }
        // One more than there may be tells that there were more.
        if dropped.count <= Self.dropLimit { dropped.append(Files.Path(bytes: bytes)) }
    }

    /// Takes in that all that was put on the window has come.
    package mutating func dropEnded(at now: ContinuousClock.Instant) {
        defer { dropped = [] }
        switch dropped.count {
        case 0: show("Only files and folders of this computer can be put here.", at: now)
        case 1...Self.dropLimit: return actions.append(.send(.dropped(dropped)))
        default: show("Nothing was copied: these are too many at once. Put the folder here that they are in.", at: now)
        }
        changed()
    }

    /// Takes in that the window is to be closed.
    package mutating func closed() { perform(.leave) }

    /// Takes in that a time has come.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        if let notice, notice.ends <= now {
            self.notice = nil
            changed()
        }
        if chat.timedOut(at: now) { changed() }
        if let againAt, againAt <= now {
            self.againAt = nil
            if !isCovered { sendPosition() }
        }
        if let controlAt, controlAt <= now {
            (self.controlAt, controller, lastMove) = (nil, (true, nil), nil)
            changed()
        }
        if let panAt, panAt <= now {
            guard let push = pushes(pointer) else { return self.panAt = nil }
            self.panAt = now + Self.panTime
            transform.pan(x: Double(-push.x * 12), y: Double(-push.y * 12))
            sendPosition()
            changed()
        }
    }

    // MARK: - What it does by itself

    /// Does what a shortcut or a button stands for.
    package mutating func perform(_ action: WindowAction) {
        switch action {
        case .fullScreen:
            isFullScreen.toggle()
            actions.append(.setFullScreen(isFullScreen))
        case .fit: setScale(.fit)
        case .actualSize: setScale(.factor(1))
        case .zoom(let up): setScale(.factor(WindowScale.step(from: transform.scale, up: up)))
        case .pan(let x, let y):
            let step = Double(min(size.width, size.height)) / 8
            transform.pan(x: -Double(x) * step, y: -Double(y) * step)
        case .viewOnly:
            guard options.mayControl else { return }
            releaseHeld()
            options.isViewOnly.toggle()
        case .grab:
            isGrabbed.toggle()
            actions.append(.setGrab(isGrabbed))
        case .statistics: options.showsStatistics.toggle()
        case .quality:
            options.quality = WindowAction.quality(after: options.quality)
            actions.append(.send(.quality(options.quality)))
        case .chat:
            releaseHeld()
            chat.toggle()
        case .toolbar: toolbar.toggle()
        case .keys: toolbar.toggleKeys()
        case .type(let combination): type(combination)
        case .display(let number): actions.append(.send(.display(number)))
        case .leave:
            releaseHeld()
            actions += [.send(.closed), .leave]
            return
        }
        changed()
    }

    private mutating func show(_ text: String, at now: ContinuousClock.Instant) {
        notice = (text, now + Self.noticeTime * rows(of: text).count)
    }

    private func isRepeatable(_ action: WindowAction) -> Bool {
        switch action {
        case .zoom, .pan: true
        default: false
        }
    }

    private mutating func type(_ combination: String) {
        guard controls, let keys = KeyNames.keys(of: combination) else { return }
        let inputs = keys.map { ScreenInput.key($0, isDown: true) } + keys.reversed().map { .key($0, isDown: false) }
        actions += inputs.map { .send(.input($0)) }
    }

    private mutating func setScale(_ scale: WindowScale) {
        self.scale = scale
        layOut()
    }

    private mutating func layOut() {
        transform = scale.transform(picture: picture, view: size)
        if let pointer, let pixel = transform.nearestPixel(to: middle(of: pointer)), scale != .fit {
            transform.reveal(x: pixel.x, y: pixel.y)
        }
    }

    /// The direction in which a pointer at the edge moves the picture; `nil` for none.
    private func pushes(_ place: (x: Int, y: Int)?) -> (x: Int, y: Int)? {
        guard let place, scale != .fit, !isCovered else { return nil }
        let margin = 12 * font.scale
        let (origin, drawn) = (transform.origin, transform.drawnSize)
        func push(_ place: Int, _ length: Int, _ start: Double, _ extent: Double) -> Int {
            if place < margin, start < 0 { return -1 }
            return place >= length - margin && start + extent > Double(length) ? 1 : 0
        }
        let direction = (
            x: push(place.x, size.width, origin.x, drawn.width), y: push(place.y, size.height, origin.y, drawn.height)
        )
        return direction == (0, 0) ? nil : direction
    }

    private var isCovered: Bool { pointer.map { toolbar.covers(x: $0.x, y: $0.y) } ?? false }

    /// The middle of a pixel of the display.
    private func middle(of place: (x: Int, y: Int)) -> ViewPoint {
        ViewPoint(x: Double(place.x) + 0.5, y: Double(place.y) + 0.5)
    }

    private mutating func sendPosition() {
        guard controls, let pointer else { return }
        // A drag that leaves the picture goes on at its edge.
        let place = middle(of: pointer)
        guard let pixel = buttons.isEmpty ? transform.pixel(at: place) : transform.nearestPixel(to: place) else {
            return
        }
        // While somebody else is in control it may not have moved.
        if controller.isUs, let lastMove, lastMove == pixel { return }
        lastMove = pixel
        actions.append(.send(.input(.move(x: Int32(pixel.x), y: Int32(pixel.y)))))
    }

    private mutating func send(_ inputs: [ScreenInput]) {
        guard controls else { return }
        actions += inputs.map { .send(.input($0)) }
    }

    private mutating func releaseHeld() {
        let isHeld = keyboard.holdsKeys || !buttons.isEmpty
        if isHeld, controls { actions.append(.send(.input(.release))) }
        forgetHeld()
    }

    private mutating func forgetHeld() {
        keyboard.releaseAll()
        buttons = []
        lastMove = nil
    }

    /// Draws, and names the window and shapes the pointer as it is now.
    private mutating func changed() {
        arrangeToolbar()
        updateCursor()
        if titleText != title {
            title = titleText
            actions.append(.setTitle(titleText))
        }
        if actions.last != .draw { actions.append(.draw) }
    }

    private mutating func updateCursor() {
        let isOver = pointer.map { !isCovered && transform.pixel(at: middle(of: $0)) != nil } ?? false
        let wanted: Cursor =
            isOver && controls && controller.isUs && hasRemotePointer
            ? remote.shape.map { .shape($0) } ?? .hidden : .arrow
        guard wanted != cursor else { return }
        cursor = wanted
        actions.append(.setCursor(wanted))
    }
}
