import KithPixels

/// The buttons at the top of a window, which hide: a handle appears when the pointer comes near, and opens them.
struct Toolbar: Hashable {
    /// What is shown of it.
    enum Stage: Hashable {
        case hidden, handle, open
    }

    struct Button: Hashable {
        var title: String
        var action: WindowAction
        var isOn = false
        /// The place in the window.
        var place = PixelRectangle.empty
    }

    private(set) var stage = Stage.hidden
    private(set) var showsKeys = false
    /// The buttons that are there now, with their places.
    private(set) var buttons: [Button] = []
    /// What lies behind them.
    private(set) var panels: [PixelRectangle] = []
    private var near = PixelRectangle.empty

    /// Opens or hides it.
    mutating func toggle() {
        stage = stage == .open ? .hidden : .open
        showsKeys = false
    }

    /// Opens or hides the menu of keys, and with it the toolbar.
    mutating func toggleKeys() {
        showsKeys.toggle()
        if showsKeys { stage = .open }
    }

    /// Takes in where the pointer is; true when something is to be drawn.
    mutating func pointed(x: Int, y: Int) -> Bool {
        guard stage != .open else { return true }
        let wanted: Stage = near.contains(x: x, y: y) ? .handle : .hidden
        defer { stage = wanted }
        return wanted != stage
    }

    /// True when a click there is the toolbar's.
    func covers(x: Int, y: Int) -> Bool { panels.contains { $0.contains(x: x, y: y) } }

    /// The action of the button there.
    func action(x: Int, y: Int) -> WindowAction? {
        stage == .handle && covers(x: x, y: y) ? .toolbar : buttons.first { $0.place.contains(x: x, y: y) }?.action
    }

    /// Puts the buttons of the bar, which have no places yet, and everything else in its place in a window.
    mutating func arrange(_ main: [Button], in size: PixelSize, _ font: WindowFont) {
        let unit = font.scale
        near = PixelRectangle(x: size.width / 2 - 160 * unit, y: 0, width: 320 * unit, height: 36 * unit)
        (buttons, panels) = ([], [])
        switch stage {
        case .hidden: break
        case .handle:
            panels = [PixelRectangle(x: size.width / 2 - 36 * unit, y: 0, width: 72 * unit, height: 10 * unit)]
        case .open:
            let bar = rows(main, in: size, top: 0, columns: nil, font)
            if showsKeys {
                let keys = WindowAction.combinations.map {
                    Button(title: WindowAction.title(of: $0), action: .type($0))
                }
                _ = rows(keys, in: size, top: bar.maxY + 4 * unit, columns: 3, font)
            }
        }
    }

    /// Puts buttons into rows in the middle; returns what is behind them.
    private mutating func rows(
        _ wanted: [Button], in size: PixelSize, top: Int, columns: Int?, _ font: WindowFont
    ) -> PixelRectangle {
        let (gap, unit) = (4 * font.scale, font.scale)
        let height = font.height + 10 * unit
        let widths = wanted.map { font.width($0.title) + 18 * unit }
        let widest = widths.max() ?? 0
        var lines: [[(Button, Int)]] = [[]]
        var used = 0
        for (button, width) in zip(wanted, widths) {
            let width = columns == nil ? width : widest
            let isFull = columns.map { lines[lines.count - 1].count >= $0 } ?? (used + width + 3 * gap > size.width)
            if isFull, !lines[lines.count - 1].isEmpty {
                lines.append([])
                used = 0
            }
            lines[lines.count - 1].append((button, width))
            used += width + gap
        }
        let longest = lines.map { $0.reduce(0) { $0 + $1.1 + gap } }.max() ?? 0
        let left = (size.width - longest - gap) / 2
        let panel = PixelRectangle(
            x: left, y: top, width: longest + gap, height: lines.count * (height + gap) + gap)
        panels.append(panel)
        for (row, line) in lines.enumerated() {
            var x = left + gap
            for (button, width) in line {
                var placed = button
                placed.place = PixelRectangle(x: x, y: top + gap + row * (height + gap), width: width, height: height)
                buttons.append(placed)
                x += width + gap
            }
        }
        return panel
    }

    /// What is to be drawn of it, with the pointer there.
    func items(pointer: (x: Int, y: Int)?, _ font: WindowFont) -> [WindowScene.Item] {
        let back = stage == .handle ? WindowScene.Colour.handle : WindowScene.Colour.panel
        var items = panels.map { WindowScene.Item.fill($0, colour: back) }
        for button in buttons {
            let isHovered = pointer.map { button.place.contains(x: $0.x, y: $0.y) } ?? false
            items.append(
                .fill(
                    button.place,
                    colour: button.isOn
                        ? WindowScene.Colour.on : isHovered ? WindowScene.Colour.hovered : WindowScene.Colour.button))
            items.append(
                .text(
                    button.title, x: button.place.x + (button.place.width - font.width(button.title)) / 2,
                    y: button.place.y + (button.place.height - font.height) / 2, colour: WindowScene.Colour.text))
        }
        return items
    }
}
