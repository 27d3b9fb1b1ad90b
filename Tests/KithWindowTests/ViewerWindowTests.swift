import KithAPI
import KithPixels
import Testing

@testable import KithWindow

@Suite struct ViewerWindowTests {
    private let start = ContinuousClock.now

    /// A window of 800×600 with a picture of 400×300 in a session that may do everything.
    private func window(_ change: (inout WindowOptions) -> Void = { _ in }) -> ViewerWindow {
        var options = WindowOptions(device: "laptop")
        change(&options)
        var window = ViewerWindow.sample(options)
        window.received(.picture(width: 400, height: 300), at: start)
        window.received(.permissions(.init(control: true, clipboard: true)), at: start)
        window.received(.phase(.active), at: start)
        _ = window.drain()
        return window
    }

    /// What is sent to the other device.
    private func inputs(_ window: inout ViewerWindow) -> [ScreenInput] {
        window.drain().compactMap { if case .send(.input(let input)) = $0 { input } else { nil } }
    }

    private func key(
        _ usage: UInt16, _ scalar: Unicode.Scalar? = nil, _ modifiers: WindowKey.Modifiers = []
    ) -> WindowKey { WindowKey(usage: usage, scalar: scalar, modifiers: modifiers) }

    private static let all: WindowKey.Modifiers = [.control, .alt, .shift]

    @Test func `the pointer is at the pixel that is seen under it, and in the bars it is nowhere`() {
        var window = window()
        // Twice the size: pixel 10 is at 20 and 21.
        window.pointerMoved(to: (20, 21), at: start)
        window.pointerMoved(to: (21, 20), at: start)
        window.pointerMoved(to: (22, 20), at: start)
        #expect(inputs(&window) == [.move(x: 10, y: 10), .move(x: 11, y: 10)])
        window.resized(to: PixelSize(width: 1_000, height: 600))
        // A hundred pixels of bar.
        window.pointerMoved(to: (99, 300), at: start)
        window.button(.left, isDown: true)
        window.button(.left, isDown: false)
        #expect(inputs(&window).isEmpty)
        window.pointerMoved(to: (100, 300), at: start)
        #expect(inputs(&window) == [.move(x: 0, y: 150)])
    }

    @Test func `a drag that leaves the picture goes on at its edge`() {
        var window = window()
        window.resized(to: PixelSize(width: 1_000, height: 600))
        window.pointerMoved(to: (500, 300), at: start)
        window.button(.left, isDown: true)
        window.pointerMoved(to: (5, 300), at: start)
        window.button(.left, isDown: false)
        window.pointerMoved(to: (6, 300), at: start)
        #expect(
            inputs(&window) == [
                .move(x: 200, y: 150), .button(.left, isDown: true), .move(x: 0, y: 150), .button(.left, isDown: false),
            ])
    }

    @Test func `fractions of the wheel add up, and nothing of them is lost`() {
        var window = window()
        window.pointerMoved(to: (400, 300), at: start)
        _ = inputs(&window)
        for _ in 0..<30 { window.scrolled(x: 0, y: 0.1 / 3) }
        let turned = inputs(&window).reduce(Int32(0)) { sum, input in
            if case .scroll(_, let y) = input { sum + y } else { sum }
        }
        #expect(turned == 119 || turned == 120)
        window.scrolled(x: 1e9, y: -1)
        #expect(inputs(&window) == [.scroll(x: 12_000, y: -120)] || turned == 119)
        window.scrolled(x: .nan, y: .infinity)
        #expect(inputs(&window).isEmpty)
    }

    @Test func `what is held is let go when the keyboard goes elsewhere, once`() {
        var window = window()
        window.pressed(key(224), at: .now)
        window.pointerMoved(to: (400, 300), at: start)
        window.button(.right, isDown: true)
        _ = inputs(&window)
        window.focusChanged(false)
        #expect(inputs(&window) == [.release])
        window.released(224)
        window.button(.right, isDown: false)
        window.focusChanged(true)
        window.focusChanged(false)
        #expect(inputs(&window).isEmpty)
    }

    @Test func `while the connection is sought nothing is sent, and what was held is forgotten`() {
        var window = window()
        window.pressed(key(225), at: .now)
        _ = inputs(&window)
        window.received(.phase(.reconnecting), at: start)
        window.pressed(key(4, "a"), at: .now)
        window.typed("a")
        window.released(225)
        window.pointerMoved(to: (10, 10), at: start)
        window.scrolled(x: 0, y: 1)
        window.focusChanged(false)
        #expect(inputs(&window).isEmpty)
        // Dimmed, with the reason; the picture stays.
        #expect(window.scene.picture != nil)
        #expect(window.scene.items.contains(.fill(window.size.bounds, colour: WindowScene.Colour.shade)))
        #expect(
            window.scene.items.contains {
                if case .text(let line, _, _, _) = $0 { line.contains("lost") } else { false }
            })
        #expect(window.titleText == "laptop – reconnecting")
        window.received(.phase(.active), at: start)
        #expect(window.scene.items.isEmpty && window.titleText == "laptop")
    }

    @Test func `shortcuts are the window's, and leave nothing held there`() {
        var window = window()
        for usage in [224, 226, 225] as [UInt16] { window.pressed(key(usage), at: .now) }
        _ = inputs(&window)
        window.pressed(key(10, "g", Self.all), at: .now)
        // The letter's text may follow.
        window.typed("G")
        var actions = window.drain()
        #expect(actions.first == .send(.input(.release)))
        #expect(actions.contains(.setGrab(true)))
        #expect(actions.contains(.setTitle("laptop – keyboard grabbed, Ctrl+Alt+Shift+G lets go")))
        window.released(10)
        for usage in [224, 226, 225] as [UInt16] { window.released(usage) }
        #expect(inputs(&window).isEmpty)
        window.pressed(key(10, "g", Self.all), at: .now)
        actions = window.drain()
        #expect(actions.contains(.setGrab(false)) && actions.contains(.setTitle("laptop")))
        window.pressed(key(30, "1", Self.all), at: .now)
        #expect(window.transform.scale == 1)
        window.pressed(key(46, "=", Self.all), at: .now)
        #expect(window.transform.scale == 1.25)
        window.pressed(key(39, "0", Self.all), at: .now)
        #expect(window.transform.scale == 2)
        window.pressed(key(27, "x", Self.all), at: .now)
        #expect(window.drain().suffix(2) == [.send(.closed), .leave])
        // Another letter is the other device's.
        window.pressed(key(29, "z", Self.all), at: .now)
        #expect(inputs(&window).count == 1)
    }

    @Test func `who only looks sends nothing, and can be made to type only where that was asked for`() {
        var window = window { $0.isViewOnly = true }
        window.pressed(key(40), at: .now)
        window.pointerMoved(to: (10, 10), at: start)
        window.button(.left, isDown: true)
        window.scrolled(x: 0, y: 1)
        #expect(inputs(&window).isEmpty && window.titleText == "laptop – view only")
        window.perform(.viewOnly)
        window.pressed(key(40), at: .now)
        #expect(inputs(&window).count == 1)
        window.perform(.viewOnly)
        #expect(inputs(&window) == [.release])
        var strict = self.window {
            $0.isViewOnly = true
            $0.mayControl = false
        }
        strict.perform(.viewOnly)
        strict.pressed(key(40), at: .now)
        #expect(inputs(&strict).isEmpty)
        #expect(!strict.toolbar.buttons.contains { $0.title == "View only" })
    }

    @Test func `a permission that is taken away ends what it was for`() {
        var window = window()
        window.received(.permissions(.init()), at: start)
        window.pressed(key(40), at: .now)
        window.clipboardChanged("secret")
        #expect(!window.readsClipboard)
        #expect(window.drain().allSatisfy { if case .send = $0 { false } else { true } })
        #expect(window.titleText == "laptop – not permitted to control")
    }

    @Test func `clipboards go both ways, and a text does not come back`() {
        var window = window()
        window.clipboardChanged("here")
        window.clipboardChanged("here")
        #expect(window.drain() == [.send(.clipboard("here"))])
        window.received(.clipboard("there"), at: start)
        #expect(window.drain() == [.setClipboard("there")])
        window.clipboardChanged("there")
        window.received(.clipboard("there"), at: start)
        window.clipboardChanged(String(repeating: "a", count: 10_000_001))
        #expect(window.drain().isEmpty)
    }

    @Test func `the toolbar hides until the pointer comes near, and its clicks are its own`() throws {
        var window = window()
        #expect(window.scene.items.isEmpty)
        window.pointerMoved(to: (400, 30), at: start)
        #expect(window.toolbar.stage == .handle && window.scene.items.count == 1)
        window.pointerMoved(to: (400, 3), at: start)
        _ = inputs(&window)
        window.button(.left, isDown: true)
        window.button(.left, isDown: false)
        #expect(inputs(&window).isEmpty && window.toolbar.stage == .open)
        func press(_ title: String, _ window: inout ViewerWindow) throws {
            let button = try #require(window.toolbar.buttons.first { $0.title == title }, "\(title)")
            window.pointerMoved(to: (button.place.x + 1, button.place.maxY - 1), at: start)
            window.button(.left, isDown: true)
            window.button(.left, isDown: false)
        }
        try press("1:1", &window)
        #expect(window.scale == .factor(1))
        try press("Keys", &window)
        _ = inputs(&window)
        try press("Ctrl+Alt+Del", &window)
        #expect(inputs(&window).count == 6)
        // All of it is inside the window, and nothing lies over another.
        let places = window.toolbar.buttons.map(\.place)
        for (index, place) in places.enumerated() {
            #expect(window.size.bounds.contains(place))
            #expect(places[(index + 1)...].allSatisfy { !$0.intersects(place) })
        }
        // A click beside it hides it, and is the other device's.
        window.pointerMoved(to: (400, 440), at: start)
        window.button(.left, isDown: true)
        #expect(window.toolbar.stage != .open)
        #expect(inputs(&window).last == .button(.left, isDown: true))
    }

    @Test func `a picture larger than the window moves when the pointer is at the edge`() throws {
        var window = window { $0.scale = .factor(4) }
        window.pointerMoved(to: (400, 300), at: start)
        #expect(window.nextDeadline == nil)
        window.pointerMoved(to: (799, 300), at: start)
        let before = window.transform.origin.x
        let deadline = try #require(window.nextDeadline)
        window.timedOut(at: deadline)
        #expect(window.transform.origin.x == before - 12)
        // Until its edge is seen.
        for _ in 0..<500 { window.nextDeadline.map { window.timedOut(at: $0) } }
        #expect(window.transform.origin.x == 800 - 1_600 && window.nextDeadline == nil)
        #expect(window.transform.pixel(at: ViewPoint(x: 799.5, y: 300))?.x == 399)
    }

    @Test func `the pointer has the other device's shape over the picture, and is drawn where only that moves`() throws
    {
        var window = window()
        let shape = try #require(
            CursorShape(
                size: PixelSize(width: 2, height: 2), hotspot: (1, 0), pixels: [0xFF11_2233, 0, 0, 0x8010_2030]))
        window.pointerMoved(to: (100, 100), at: start)
        window.received(.pointer(WindowCommand.Pointer(shape)), at: start)
        #expect(window.drain().contains(.setCursor(.shape(shape))))
        window.received(.pointer(nil), at: start)
        #expect(window.drain().contains(.setCursor(.hidden)))
        window.pointerMoved(to: nil, at: start)
        #expect(window.drain().contains(.setCursor(.arrow)))
        window.received(.pointer(WindowCommand.Pointer(shape)), at: start)
        window.received(.pointerMoved(x: 50, y: 60), at: start)
        #expect(window.scene.items.isEmpty)
        window.received(.control(isInControl: false, by: "phone"), at: start)
        #expect(window.scene.items == [.pointer(PixelRectangle(x: 98, y: 120, width: 4, height: 4))])
        #expect(window.titleText == "laptop – phone controls")
    }

    /// The lines of text that are drawn.
    private func texts(_ window: ViewerWindow) -> [String] {
        window.scene.items.compactMap { if case .text(let text, _, _, _) = $0 { text } else { nil } }
    }

    @Test func `that the screen is dark there stands in the title, and that it is lit is said`() {
        var window = window()
        window.received(.permissions(.init(control: true, privacy: true)), at: start)
        #expect(window.drain().contains(.setTitle("laptop – dark there")))
        window.received(.permissions(.init(control: true)), at: start)
        #expect(window.drain().contains(.setTitle("laptop")))
        #expect(texts(window).contains("The screen there is lit again."))
    }

    @Test func `a line is written over the picture, and none of it is typed there`() {
        var window = window()
        window.pressed(key(4, "a"), at: start)
        window.typed("a")
        window.pressed(key(6, "c", Self.all), at: start)
        // Some systems report the text of a shortcut as well.
        window.typed("C")
        #expect(inputs(&window).last == .release)
        for (usage, text) in [(11, "h"), (8, "é")] as [(UInt16, String)] {
            window.pressed(key(usage, text.unicodeScalars.first), at: start)
            window.typed(text)
            window.released(usage)
        }
        window.typed(String(repeating: "x", count: 499))
        window.typed("?!")
        window.pressed(key(42), at: start)
        #expect(texts(window).last == "hé?▏" || texts(window).contains("hé?▏"), "\(texts(window))")
        window.pressed(key(40), at: start)
        #expect(window.drain().contains(.send(.said("hé?"))))
        #expect(texts(window).contains("You: hé?"))
        // Nothing in it: nothing is sent.
        window.pressed(key(40), at: start)
        window.pressed(key(41), at: start)
        #expect(window.drain().allSatisfy { if case .send = $0 { false } else { true } })
        window.pressed(key(40), at: start)
        #expect(inputs(&window).count == 1)
    }

    @Test func `what the person there writes is shown for a while, and as long as one writes oneself`() {
        var window = window()
        window.received(.said("Is it the one behind?"), at: start)
        let text = "laptop: Is it the one behind?"
        #expect(texts(window).contains(text) && window.nextDeadline == start + Screen.ChatLine.shownFor)
        window.perform(.chat)
        window.timedOut(at: start + .seconds(100))
        #expect(texts(window).contains(text) && window.nextDeadline == nil)
        window.perform(.chat)
        window.timedOut(at: start + .seconds(100))
        #expect(!texts(window).contains(text))
        // A long one in rows, none of them wider than the window.
        window.received(.said(String(repeating: "many words ", count: 40)), at: start)
        let rows = texts(window)
        #expect(rows.count == 3 && rows.allSatisfy { $0.count * 8 <= 800 }, "\(rows)")
    }

    @Test func `the quality goes up with each press, and begins again below the best`() {
        var window = window { $0.quality = 70 }
        var wanted: [ViewerWindow.Action] = []
        for _ in 0..<3 {
            window.perform(.quality)
            wanted += window.drain().filter { if case .send(.quality) = $0 { true } else { false } }
        }
        #expect(wanted == [80, 100, 20].map { .send(.quality($0)) })
    }

    @Test func `a notice goes by itself, statistics stay, and neither is wider than the window`() {
        var window = window { $0.showsStatistics = true }
        window.received(
            .statistics(WindowStatistics(pictures: 29.7, bytes: 1_234_567, roundTrip: 1.26, path: "p")), at: start)
        window.received(.notice(String(repeating: "long ", count: 100)), at: start)
        let texts = window.scene.items.compactMap { item -> (String, Int)? in
            if case .text(let text, let x, _, _) = item { (text, x) } else { nil }
        }
        #expect(texts.first?.0 == "30 pictures/s   1.2 MB/s   1.3 ms   p")
        #expect(
            WindowStatistics(pictures: 29.7, frames: 24.4, bytes: 80).text == "30 pictures/s, 24 of video   80 B/s")
        #expect(texts.allSatisfy { $0.1 >= 0 && $0.1 + $0.0.count * 8 <= 800 })
        #expect(texts.contains { $0.0.hasSuffix("…") })
        // As long as three rows take to read.
        window.timedOut(at: start + .seconds(17))
        #expect(window.notice != nil)
        window.timedOut(at: start + .seconds(18))
        #expect(window.notice == nil && window.nextDeadline == nil)
        window.perform(.statistics)
        #expect(window.scene.items.isEmpty)
    }

    @Test func `a display that is shown and goes away is told of, and no other`() {
        var window = window()
        func display(_ number: UInt32, _ name: String) -> Screen.Display {
            Screen.Display(
                number: number, name: name, bounds: .init(width: 400, height: 300), isPrimary: number == 1)
        }
        let all = [display(0, "all"), display(1, "DP-1"), display(2, "DP-2")]
        window.received(.displays(all, shown: 2), at: start)
        // It has another number, as the first has gone.
        window.received(.displays([all[0], display(1, "DP-2")], shown: 1), at: start)
        #expect(window.notice == nil)
        window.received(.displays([all[0], all[1]], shown: 0), at: start)
        #expect(window.notice?.text == "The display DP-2 there is gone. What is left is shown.")
        // The pointer is where it is seen, although it has not moved, and so is a click.
        window.pointerMoved(to: (20, 20), at: start)
        _ = inputs(&window)
        window.received(.picture(width: 800, height: 600), at: start)
        #expect(inputs(&window) == [.move(x: 20, y: 20)])
        window.button(.left, isDown: true)
        #expect(inputs(&window) == [.button(.left, isDown: true)])
        // Not while somebody else controls, or looks elsewhere.
        window.received(.control(isInControl: false, by: "phone"), at: start)
        window.received(.picture(width: 400, height: 300), at: start)
        #expect(inputs(&window).isEmpty)
    }

    @Test func `a click is where the pointer is, also when that was moved while another was in control`() {
        var window = window()
        window.pointerMoved(to: (20, 20), at: start)
        // It was left out, and so is the next, of which nobody tells.
        window.received(.control(isInControl: false, by: "tablet"), at: start)
        window.pointerMoved(to: (40, 40), at: start)
        _ = inputs(&window)
        window.button(.left, isDown: true)
        #expect(inputs(&window) == [.move(x: 20, y: 20), .button(.left, isDown: true)])
        window.received(.control(isInControl: true, by: nil), at: start)
        window.button(.left, isDown: false)
        #expect(inputs(&window) == [.button(.left, isDown: false)])
    }

    @Test func `a pointer that comes from another window of this device arrives without being moved again`() {
        var window = window()
        window.pointerMoved(to: (20, 20), at: start)
        _ = inputs(&window)
        window.received(.control(isInControl: false, by: nil), at: start)
        window.timedOut(at: start + .milliseconds(599))
        #expect(inputs(&window).isEmpty)
        window.timedOut(at: start + .milliseconds(600))
        window.timedOut(at: start + .milliseconds(700))
        #expect(inputs(&window) == [.move(x: 10, y: 10)])
        // Another person is not disturbed.
        window.received(.control(isInControl: false, by: "tablet"), at: start + .seconds(1))
        window.timedOut(at: start + .seconds(2))
        #expect(inputs(&window).isEmpty)
    }

    @Test func `who else is in control stands in the title, as long as it is heard of`() {
        var window = window()
        window.received(.control(isInControl: false, by: "tablet"), at: start)
        #expect(window.titleText == "laptop – tablet controls")
        window.received(.control(isInControl: false, by: nil), at: start + .seconds(1))
        #expect(window.titleText == "laptop – another window controls")
        window.timedOut(at: start + .seconds(3))
        #expect(window.titleText == "laptop – another window controls")
        window.timedOut(at: start + .seconds(4))
        #expect(window.titleText == "laptop" && window.nextDeadline == nil)
    }

    @Test func `statistics are answered, as a window that stands still does not`() {
        var window = window()
        window.received(.statistics(WindowStatistics(pictures: 1, bytes: 2)), at: start)
        #expect(window.drain().first == .send(.responded))
    }

    @Test func `each pixel is a square at whole factors, and nowhere else`() {
        var window = window()
        #expect(window.scene.isSharp)
        #expect(window.scene.picture == PixelRectangle(x: 0, y: 0, width: 800, height: 600))
        window.resized(to: PixelSize(width: 799, height: 600))
        #expect(!window.scene.isSharp)
        window.perform(.actualSize)
        #expect(window.scene.isSharp)
        window.perform(.zoom(up: false))
        #expect(!window.scene.isSharp)
    }

    @Test func `a window is as large as the picture, or as the room`() {
        let room = PixelSize(width: 1_000, height: 700)
        #expect(
            ViewerWindow.size(for: PixelSize(width: 640, height: 480), in: room) == PixelSize(width: 640, height: 480))
        #expect(
            ViewerWindow.size(for: PixelSize(width: 2_000, height: 1_000), in: room)
                == PixelSize(width: 1_000, height: 500))
        #expect(
            ViewerWindow.size(for: PixelSize(width: 1, height: 4_000), in: room) == PixelSize(width: 320, height: 700))
        let double = ViewerWindow.size(for: PixelSize(width: 400, height: 400), at: .factor(2), in: room)
        #expect(double == PixelSize(width: 800, height: 700))
    }
}
