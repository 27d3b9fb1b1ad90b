import KithAPI
import KithPixels

// What a window shows: the picture, and over it what a person should know.
extension ViewerWindow {
    /// What is to be drawn now.
    package var scene: WindowScene {
        var scene = WindowScene()
        if picture.area > 0 {
            let (origin, drawn) = (transform.origin, transform.drawnSize)
            scene.picture = PixelRectangle(
                x: Int(origin.x), y: Int(origin.y), width: Int(drawn.width.rounded()),
                height: Int(drawn.height.rounded()))
            // A whole factor, as far as the picture's last pixel can tell.
            let factor = transform.scale.rounded()
            let longest = Double(max(picture.width, picture.height))
            scene.isSharp = factor >= 1 && abs(transform.scale - factor) * longest < 0.5
        }
        scene.items += remotePointer + phaseItems
        if options.showsStatistics, let statistics { scene.items += line(statistics.text, row: 0) }
        scene.items += noticeItems
        scene.items += toolbar.items(pointer: pointer, font)
        return scene
    }

    /// The title: the device, and what is unusual.
    var titleText: String {
        var parts = [options.device]
        switch phase {
        case .connecting: parts.append("connecting")
        case .reconnecting: parts.append("reconnecting")
        case .ended: parts.append("ended")
        case .active:
            if options.isViewOnly {
                parts.append("view only")
            } else if permissions?.control == false {
                parts.append("not permitted to control")
            } else if !controller.isUs {
                parts.append("\(controller.name ?? "another window") controls")
            }
        }
        if phase == .active, permissions?.privacy == true { parts.append("dark there") }
        if isGrabbed { parts.append("keyboard grabbed, \(WindowAction.prefix)G lets go") }
        if case .factor = scale { parts.append(percent) }
        return parts.joined(separator: " – ")
    }

    private var percent: String { "\(Int((transform.scale * 100).rounded())) %" }

    mutating func arrangeToolbar() {
        var buttons = [
            Toolbar.Button(title: "Fit", action: .fit, isOn: scale == .fit),
            Toolbar.Button(title: "1:1", action: .actualSize, isOn: scale == .factor(1)),
            Toolbar.Button(title: "–", action: .zoom(up: false)),
            Toolbar.Button(title: percent, action: .actualSize),
            Toolbar.Button(title: "+", action: .zoom(up: true)),
            Toolbar.Button(title: "Full screen", action: .fullScreen, isOn: isFullScreen),
            Toolbar.Button(title: "Keys", action: .keys, isOn: toolbar.showsKeys),
            Toolbar.Button(title: "Grab keyboard", action: .grab, isOn: isGrabbed),
            Toolbar.Button(title: "Statistics", action: .statistics, isOn: options.showsStatistics),
            Toolbar.Button(title: "Quality \(options.quality)", action: .quality),
            Toolbar.Button(title: "Chat", action: .chat, isOn: chat.isOpen),
        ]
        if options.mayControl {
            buttons.append(Toolbar.Button(title: "View only", action: .viewOnly, isOn: options.isViewOnly))
        }
        // One display is also all of them together.
        if displays.all.count > 2 {
            buttons += displays.all.prefix(9).map { display in
                Toolbar.Button(
                    title: display.number == 0 ? "All" : "Display \(display.number)",
                    action: .display(display.number), isOn: display.number == displays.shown)
            }
        }
        buttons.append(Toolbar.Button(title: "Leave", action: .leave))
        toolbar.arrange(buttons, in: size, font)
    }

    /// The other device's pointer, where it is not this one's.
    private var remotePointer: [WindowScene.Item] {
        guard let shape = remote.shape, !controls || !controller.isUs, phase == .active else { return [] }
        let scale = transform.scale
        let point = transform.point(ofX: remote.x - shape.hotspot.x, y: remote.y - shape.hotspot.y)
        return [
            .pointer(
                PixelRectangle(
                    x: Int((point.x - scale / 2).rounded()), y: Int((point.y - scale / 2).rounded()),
                    width: max(1, Int((Double(shape.size.width) * scale).rounded())),
                    height: max(1, Int((Double(shape.size.height) * scale).rounded()))))
        ]
    }

    private var phaseItems: [WindowScene.Item] {
        let text: String
        switch phase {
        case .active: return []
        case .connecting: text = "Connecting to \(options.device). A person there may be asked first."
        case .reconnecting: text = "The connection to \(options.device) is lost. Trying again…"
        case .ended: text = "The session has ended."
        }
        let shade = WindowScene.Item.fill(size.bounds, colour: WindowScene.Colour.shade)
        return (picture.area > 0 ? [shade] : []) + panel(text, y: (size.height - font.height) / 2)
    }

    /// From the lower edge up: what is copied, what a person should read, and what is written above the line it is
    /// written in.
    private var noticeItems: [WindowScene.Item] {
        var items: [WindowScene.Item] = []
        var row = 1
        let shown = [copying].compactMap { $0 } + (notice.map { rows(of: $0.text).reversed() } ?? [])
        for text in shown {
            items += line(text, row: row)
            row += 1
        }
        row = max(row, 2)
        if chat.isOpen {
            let place = permissions?.privacy == true ? " (dark: kith screen chat alone shows it)" : ""
            let hint = "Write to \(options.device)\(place). Enter sends, Esc leaves."
            let text = chat.draft.isEmpty ? hint : "\(chat.draft)▏"
            items += line(text, row: row, keepsEnd: !chat.draft.isEmpty)
            row += 1
        }
        for text in chat.lines.reversed().flatMap({ rows(of: $0.text).reversed() }) {
            items += line(text, row: row)
            row += 1
        }
        return items
    }

    /// A text in at most three rows that a window has room for.
    func rows(of text: String) -> [String] {
        var (rows, rest): ([String], Substring) = ([], text[...])
        while rows.count < 2, font.width(String(rest)) > textRoom {
            var row = rest
            while !row.isEmpty, font.width(String(row)) > textRoom { row.removeLast() }
            if let space = row.lastIndex(of: " ") { row = rest[...space] }
            guard !row.isEmpty else { break }
            rows.append(String(row))
            rest = rest[row.endIndex...]
        }
        return rows + [String(rest)]
    }

    private var textRoom: Int { max(0, size.width - 32 * font.scale) }

    /// A line of text with what is behind it, in a row counted from the lower edge.
    private func line(_ text: String, row: Int, keepsEnd: Bool = false) -> [WindowScene.Item] {
        let (edge, height) = (12 * font.scale, font.height + 16 * font.scale)
        return panel(text, y: size.height - edge - font.height - row * height, keepsEnd: keepsEnd)
    }

    private func panel(_ text: String, y: Int, keepsEnd: Bool = false) -> [WindowScene.Item] {
        var shown = text
        let room = textRoom
        if font.width(shown) > room {
            // What there is no room for is left out.
            while !shown.isEmpty, font.width(shown + "…") > room {
                if keepsEnd { shown.removeFirst() } else { shown.removeLast() }
            }
            shown = keepsEnd ? "…" + shown : shown + "…"
        }
        let (width, pad) = (font.width(shown), 8 * font.scale)
        let x = (size.width - width) / 2
        return [
            .fill(
                PixelRectangle(x: x - 2 * pad, y: y - pad / 2, width: width + 4 * pad, height: font.height + pad),
                colour: WindowScene.Colour.panel),
            .text(shown, x: x, y: y, colour: WindowScene.Colour.text),
        ]
    }
}
