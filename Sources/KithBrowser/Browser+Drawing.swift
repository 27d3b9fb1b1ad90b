import KithAPI
import KithCommandLine
import KithContent
package import KithTerminal

/// The style of each part; nothing is shown by colour alone.
private enum Theme {
    static let frame = TextStyle(.indexed(8))
    static let activeFrame = TextStyle(.indexed(6), .bold)
    static let heading = TextStyle(.indexed(8))
    static let text = TextStyle()
    static let dim = TextStyle(.standard, .faint)
    static let folder = TextStyle(.indexed(12), .bold)
    static let link = TextStyle(.indexed(14))
    static let program = TextStyle(.indexed(10))
    static let special = TextStyle(.indexed(13))
    static let marked = TextStyle(.indexed(11), .bold)
    static let error = TextStyle(.indexed(9), .bold)
    static let good = TextStyle(.indexed(10))
    static let control = TextStyle(.indexed(13), .bold)
    static let found = TextStyle(.standard, .inverse)
    static let key = TextStyle(.standard, .bold)
    static let label = TextStyle(.indexed(0), on: .indexed(6))
    static let dialog = TextStyle(.standard, .bold)
    static let bar = TextStyle(.indexed(10), .bold)
}

extension TextStyle {
    fileprivate init(_ foreground: Color, _ attributes: CellAttributes) {
        self.init(foreground, on: .standard, attributes)
    }
}

extension Browser {
    /// Draws everything, and remembers what can be clicked where.
    package mutating func draw(on canvas: inout Canvas) {
        canvas.clear(columns: columns, rows: rows)
        targets = []
        picture = nil
        if pager != nil {
            drawPager(on: &canvas)
        } else {
            let layout = layout
            for pane in 0..<2 {
                if let frame = layout.panes[pane] { drawPane(pane, in: frame, on: &canvas) }
            }
            if let frame = layout.preview { drawPreview(in: frame, on: &canvas) }
            if let rows = layout.copyRows { drawCopy(rows, on: &canvas) }
            if let row = layout.statusRow { drawStatus(row, on: &canvas) }
            if let row = layout.keyRow { drawKeys(row, Self.keys, on: &canvas) }
        }
        switch dialog {
        case .prompt(let prompt): drawPrompt(prompt, on: &canvas)
        case .choice(let choice): drawChoice(choice, on: &canvas)
        case .help(let top): drawHelp(top, on: &canvas)
        case nil: break
        }
    }

    /// One of eight, eight times a second.
    private var spinner: String {
        let frames = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇"]
        return frames[Int((now - start) / .milliseconds(120)) % frames.count]
    }

    // MARK: - Frames

    private func drawFrame(_ frame: Layout.Frame, _ style: TextStyle, on canvas: inout Canvas) {
        let (columns, rows) = (frame.columns, frame.rows)
        guard columns.count >= 2, rows.count >= 2 else { return }
        let line = String(repeating: "─", count: columns.count - 2)
        canvas.write("┌\(line)┐", column: columns.lowerBound, row: rows.lowerBound, style)
        canvas.write("└\(line)┘", column: columns.lowerBound, row: rows.upperBound - 1, style)
        for row in rows.lowerBound + 1..<rows.upperBound - 1 {
            canvas.write("│", column: columns.lowerBound, row: row, style)
            canvas.write("│", column: columns.upperBound - 1, row: row, style)
        }
    }

    private mutating func drawPane(_ number: Int, in frame: Layout.Frame, on canvas: inout Canvas) {
        let pane = panes[number]
        let isActive = number == active
        targets.append(Target(columns: frame.columns, rows: frame.rows, action: .pane(number)))
        drawFrame(frame, isActive ? Theme.activeFrame : Theme.frame, on: &canvas)
        drawTitle(number, in: frame, on: &canvas)
        let inner = frame.inner.columns
        let widths = Widths(inner.count)
        if frame.hasHeadings, pane.location != .devices {
            drawHeadings(number, widths, inner, frame.inner.rows.lowerBound, on: &canvas)
        }
        if let failure = pane.failure {
            drawText(Wording.printable(failure), in: inner, frame.listRows.dropFirst(1), Theme.error, on: &canvas)
        }
        let isStale = pane.pending.map { !$0.isShown && $0.location != pane.location } ?? false
        for (offset, row) in frame.listRows.enumerated() {
            let index = pane.top + offset
            guard index < pane.listing.count else { break }
            drawItem(pane.listing[index], number, index, widths, inner, row, isStale: isStale, on: &canvas)
            targets.append(Target(columns: inner, rows: row..<row + 1, action: .line(pane: number, index)))
        }
        if pane.listing.count == 0, pane.failure == nil, pane.pending != nil {
            canvas.write(
                "\(spinner) asking…", column: inner.lowerBound + 1, row: frame.listRows.lowerBound,
                limit: inner.upperBound,
                Theme.dim)
        }
        drawFooter(number, in: frame, on: &canvas)
    }

    /// The way to what is shown, on the upper line of the frame; each part can be clicked.
    private mutating func drawTitle(_ number: Int, in frame: Layout.Frame, on canvas: inout Canvas) {
        let pane = panes[number]
        let row = frame.rows.lowerBound
        let style = (number == active ? Theme.key : Theme.text)
        var crumbs: [(text: String, location: Location)] = []
        // Where it is going, once that takes long.
        let location = isSlow(number) ? pane.pending?.location ?? pane.location : pane.location
        switch location {
        case .devices: crumbs = [("Devices", .devices)]
        case .folder(let folder), .search(let folder, _):
            crumbs.append(((folder.device.map { Wording.printable($0) } ?? "here") + ":", .devices))
            crumbs += folder.crumbs.map { ($0.text, .folder($0.folder)) }
            if case .search(_, let pattern) = location { crumbs.append((" “\(Wording.printable(pattern))”", location)) }
        }
        let first = frame.columns.lowerBound + 2
        let limit = frame.columns.upperBound - (isSlow(number) ? 4 : 2)
        var room = limit - first - 2
        // The end of the path says most: parts go from the middle, as many as must.
        var widths = crumbs.map { CharacterWidth.columns(of: $0.text) }
        while widths.reduce(0, +) > room, crumbs.count > (room < 20 ? 1 : 3) {
            guard crumbs.count > 3 else {
                crumbs.removeFirst()
                widths.removeFirst()
                continue
            }
            let index = crumbs[1].text == "…/" ? 2 : 1
            if index == 1 {
                crumbs[1].text = "…/"
                widths[1] = 2
            } else {
                crumbs.remove(at: 2)
                widths.remove(at: 2)
            }
        }
        var column = canvas.write(" ", column: first - 1, row: row, limit: limit)
        for (index, crumb) in crumbs.enumerated() {
            let isLast = index == crumbs.count - 1
            let text = isLast ? CharacterWidth.fitted(crumb.text, width: max(room, 1), keepsEnd: true) : crumb.text
            let end = canvas.write(text, column: column, row: row, limit: limit - 1, style)
            targets.append(
                Target(
                    columns: column..<max(end, column + 1), rows: row..<row + 1,
                    action: .go(pane: number, crumb.location)))
            room -= end - column
            column = end
        }
        column = canvas.write(" ", column: column, row: row, limit: limit)
        if isSlow(number) { canvas.write("\(spinner) ", column: column, row: row, limit: limit + 2, Theme.bar) }
    }

    // MARK: - Lists

    /// The widths of the columns of a list.
    private struct Widths {
        var size = 0
        var time = 0
        let name: Int

        init(_ width: Int) {
            if width >= 28 { size = 7 }
            time = width >= 66 ? 16 : width >= 48 ? 12 : width >= 34 ? 6 : 0
            name = max(1, width - 1 - (size > 0 ? size + 1 : 0) - (time > 0 ? time + 1 : 0))
        }
    }

    private mutating func drawHeadings(
        _ number: Int, _ widths: Widths, _ columns: Range<Int>, _ row: Int, on canvas: inout Canvas
    ) {
        let order = panes[number].view.order
        func label(_ text: String, _ key: SortOrder.Key) -> String {
            order.key == key || (key == .name && order.key == .kind) ? text + (order.isReversed ? "↑" : "↓") : text
        }
        var column = columns.lowerBound + 1
        let name = order.key == .kind ? "Name by kind" : "Name"
        canvas.write(label(name, .name), column: column, row: row, limit: column + widths.name, Theme.heading)
        targets.append(
            Target(
                columns: column..<column + widths.name, rows: row..<row + 1, action: .sort(pane: number, .name)))
        column += widths.name + 1
        for (width, text, key) in [
            (widths.size, "Size", SortOrder.Key.size), (widths.time, widths.time > 6 ? "Changed" : "Date", .time),
        ] where width > 0 {
            let text = label(text, key)
            canvas.write(
                text, column: column + max(0, width - text.count), row: row, limit: column + width, Theme.heading)
            targets.append(
                Target(columns: column..<column + width, rows: row..<row + 1, action: .sort(pane: number, key)))
            column += width + 1
        }
    }

    private func drawItem(
        _ item: Item, _ number: Int, _ index: Int, _ widths: Widths, _ columns: Range<Int>, _ row: Int, isStale: Bool,
        on canvas: inout Canvas
    ) {
        let pane = panes[number]
        let isMarked = pane.marked.contains(item.name)
        var style = isMarked ? Theme.marked : Self.style(of: item)
        if isStale { style = style.with(.faint) }
        let limit = columns.upperBound
        var column = columns.lowerBound
        canvas.write(isMarked ? "*" : " ", column: column, row: row, style)
        column += 1
        if item.kind == .device {
            let name = item.name.isEmpty ? "this device" : Wording.printable(item.text)
            let end = canvas.write(name, column: column, row: row, limit: limit, style)
            if let note = item.note {
                canvas.write(
                    note, column: end + 2, row: row, limit: limit, note.hasPrefix("online") ? Theme.good : Theme.dim)
            }
        } else {
            let suffix = item.kind == .folder ? "/" : item.kind == .link ? "@" : item.kind == .special ? "|" : ""
            let name = CharacterWidth.fitted(Wording.printable(item.text) + suffix, width: widths.name)
            canvas.write(name, column: column, row: row, limit: column + widths.name, style)
            column += widths.name + 1
            if widths.size > 0 {
                let size = Self.sizeText(item)
                canvas.write(
                    size, column: column + max(0, widths.size - size.count), row: row, limit: column + widths.size,
                    isMarked ? style : isStale ? Theme.dim : Theme.text)
                column += widths.size + 1
            }
            if widths.time > 0, item.isReal {
                canvas.write(
                    timeText(item.modified, width: widths.time), column: column, row: row, limit: column + widths.time,
                    isMarked ? style : isStale ? Theme.dim : Theme.text)
            }
        }
        guard index == pane.cursor else { return }
        // Where the keys go is said by more than a colour.
        let mark: CellAttributes = number == active ? .inverse : Self.underlined
        canvas.restyle(columns: columns, row: row) { $0.attributes.formUnion(mark) }
    }

    private static let underlined: CellAttributes = {
        var attributes = CellAttributes()
        attributes.underline = .single
        return attributes
    }()

    private static func style(of item: Item) -> TextStyle {
        switch item.kind {
        case .parent, .folder, .device: Theme.folder
        case .link: Theme.link
        case .special: Theme.special
        case .file: item.mode & 0o111 == 0 ? Theme.text : Theme.program
        }
    }

    /// At most seven columns.
    static func sizeText(_ item: Item) -> String {
        switch item.kind {
        case .file: Wording.size(item.size)
        case .link: "link"
        case .special: "special"
        case .folder: "folder"
        case .parent: ""
        case .device: ""
        }
    }

    /// `2026-11-21 16:30`, `Nov 21 16:30`, or `Nov 21`; the year instead of the time in other years.
    func timeText(_ seconds: Int64, width: Int) -> String {
        // A device may say anything; years beyond 30,000 are all the same here.
        let seconds = min(max(seconds, -(1 << 40)), 1 << 40)
        let time = CalendarTime(seconds, offset: options.offsetFromGreenwich(seconds))
        if width >= 16 { return time.minutes }
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let text = "\(names[time.month - 1]) \(time.day < 10 ? " " : "")\(time.day)"
        return width >= 12 ? (text + " " + time.clock) : text
    }

    /// Draws the number of items on the lower line of the frame; the filter while it is typed.
    private func drawFooter(_ number: Int, in frame: Layout.Frame, on canvas: inout Canvas) {
        let pane = panes[number]
        let row = frame.rows.upperBound - 1
        let (first, limit) = (frame.columns.lowerBound + 2, frame.columns.upperBound - 2)
        if number == active, let filter {
            let end = canvas.write(" /", column: first - 1, row: row, limit: limit, Theme.key)
            return drawField(filter, column: end, row: row, limit: limit, on: &canvas)
        }
        let count =
            (0..<1).contains(pane.listing.count) ? 0 : pane.listing.count - (pane.listing[0].kind == .parent ? 1 : 0)
        var text: String
        if !pane.marked.isEmpty {
            text = "\(Wording.grouped(pane.marked.count)) marked, \(Wording.size(pane.markedSize))"
        } else {
            text = Wording.count(count, "item", "items")
            if case .devices = pane.location { text = Wording.count(max(count - 1, 0), "device", "devices") }
        }
        if let pending = pane.pending, isSlow(number), pending.items.count > 0 {
            text = "\(Wording.grouped(pending.items.count)) so far, Esc stops"
        } else if isSlow(number) {
            text = "listing, Esc stops"
        }
        if !pane.view.filter.isEmpty { text += " with “\(Wording.printable(pane.view.filter))”" }
        canvas.write(
            " \(CharacterWidth.fitted(text, width: max(limit - first - 1, 1))) ", column: first - 1, row: row,
            limit: limit, number == active ? Theme.text : Theme.dim)
    }

    // MARK: - Texts

    /// A text folded into the rows there are.
    private func drawText(
        _ text: String, in columns: Range<Int>, _ rows: Range<Int>, _ style: TextStyle, on canvas: inout Canvas
    ) {
        for (spans, row) in zip(Self.folded(text, width: columns.count - 2), rows) {
            canvas.write(spans, column: columns.lowerBound + 1, row: row, limit: columns.upperBound, style)
        }
    }

    /// Lines of at most `width` columns, broken between words where that is possible.
    static func folded(_ text: String, width: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            var word = String(word)
            if !line.isEmpty, CharacterWidth.columns(of: line) + 1 + CharacterWidth.columns(of: word) <= width {
                line += " " + word
                continue
            }
            if !line.isEmpty { lines.append(line) }
            while CharacterWidth.columns(of: word) > max(width, 2) {
                var head = ""
                while let first = word.first, CharacterWidth.columns(of: head + String(first)) <= max(width, 2) {
                    head.append(word.removeFirst())
                }
                lines.append(head)
            }
            line = word
        }
        return line.isEmpty ? lines : lines + [line]
    }

    private func drawField(_ field: TextField, column: Int, row: Int, limit: Int, on canvas: inout Canvas) {
        let room = max(limit - column - 1, 1)
        let head = Wording.printable(field.head)
        // What is before the cursor is seen to its end.
        var shown = head
        while CharacterWidth.columns(of: shown) > room { shown.removeFirst() }
        let end = canvas.write(shown, column: column, row: row, limit: limit)
        canvas.fill(columns: end..<max(end, limit), rows: row..<row + 1, TextStyle())
        canvas.write(Wording.printable(field.tail), column: end, row: row, limit: limit)
        canvas.cursor = Canvas.Position(column: min(end, limit - 1), row: row)
    }

    /// Draws the details of the line at the cursor, or the message there is.
    private func drawStatus(_ row: Int, on canvas: inout Canvas) {
        if let notice {
            // One that is long goes over what is above it: its end often says what to do.
            let lines = Self.folded(Wording.printable(notice.text), width: max(columns - 2, 1)).prefix(min(6, row + 1))
            for (line, row) in zip(lines, row - lines.count + 1...row) {
                canvas.fill(columns: 0..<columns, rows: row..<row + 1, TextStyle())
                canvas.write(line, column: 1, row: row, limit: columns, notice.isError ? Theme.error : Theme.good)
            }
            return
        }
        if let task = tasks.min(by: { $0.key < $1.key })?.value, now - task.began > .milliseconds(150) {
            var text = "asking"
            if case .change(let change) = task.purpose {
                text = change.doing + (change.total > 1 ? " \(change.count) of \(change.total)" : "")
            }
            canvas.write("\(spinner) \(text)…  Esc cancels", column: 1, row: row, limit: columns, Theme.bar)
            return
        }
        guard let item = panes[active].current else { return }
        var text = Wording.printable(item.text)
        if item.kind == .device {
            text = item.name.isEmpty ? "this device" : text + (item.note.map { "  \($0)" } ?? "")
        } else if item.kind == .parent {
            text = "to the parent folder"
        } else {
            let width = columns - 2
            let details =
                "  \(Self.modeText(of: item))  \(item.kind == .file ? Wording.grouped(Int(clamping: item.size)) + " B" : "")"
                + "  \(timeText(item.modified, width: 16))"
            if let target = item.target { text += " → " + Wording.printable(String(decoding: target, as: UTF8.self)) }
            text = CharacterWidth.fitted(text, width: max(width - details.count, 12)) + details
        }
        canvas.write(text, column: 1, row: row, limit: columns, Theme.text)
    }

    private static func modeText(of item: Item) -> String {
        let kind: Files.Kind =
            switch item.kind {
            case .file: .file
            case .link: .link
            case .special: .special
            case .folder, .parent, .device: .folder
            }
        return String(decoding: Files.modeText(kind, item.special, mode: item.mode), as: UTF8.self)
    }

    private static let keys: [(Int, String)] = [
        (1, "Help"), (2, "Places"), (3, "View"), (4, "Edit"), (5, "Copy"), (6, "Rename"), (7, "Folder"), (8, "Delete"),
        (9, "Sort"), (10, "Quit"),
    ]

    private mutating func drawKeys(_ row: Int, _ keys: [(Int, String)], on canvas: inout Canvas) {
        let width = columns / keys.count
        for (index, (number, label)) in keys.enumerated() {
            let column = index * width
            let end = canvas.write("\(number)", column: column, row: row, Theme.key)
            let limit = index == keys.count - 1 ? columns : (index + 1) * width - 1
            canvas.fill(columns: end..<max(end, limit), rows: row..<row + 1, Theme.label)
            canvas.write(label, column: end, row: row, limit: limit, Theme.label)
            targets.append(
                Target(columns: column..<max(limit, column), rows: row..<row + 1, action: .key(.function(number))))
        }
    }

    /// Draws the progress of the copy: source and destination with a bar, and the numbers; the numbers alone in one
    /// row.
    private func drawCopy(_ area: Range<Int>, on canvas: inout Canvas) {
        guard let copy = copies.first else { return }
        let numbers = numbers(of: copy).joined(separator: "  ")
        let stop = "^X stops"
        let limit = columns - 1 - stop.count - 2
        let row = area.upperBound - 1
        canvas.write(stop, column: limit + 2, row: row, limit: columns, Theme.dim)
        let end = canvas.write(
            CharacterWidth.fitted(numbers, width: max(limit - 1, 1)), column: 1, row: row, limit: limit, Theme.key)
        let current = copy.progress.current.map { Wording.printable($0.description) } ?? ""
        if limit - end > 12, !current.isEmpty {
            let text = CharacterWidth.fitted(current, width: limit - end - 2, keepsEnd: true)
            canvas.write(text, column: end + 2, row: row, limit: limit, Theme.dim)
        }
        guard area.count > 1 else { return }
        let width = max(min(columns / 2 - 2, 40), 4)
        let total = copy.progress.totalBytes ?? 0
        let share = total > 0 ? min(1, Double(copy.progress.bytes) / Double(total)) : 0
        let filled = Int((share * Double(width)).rounded())
        let column = canvas.write(
            String(repeating: "█", count: filled), column: 1, row: area.lowerBound, limit: columns, Theme.bar)
        canvas.write(
            String(repeating: "░", count: width - filled), column: column, row: area.lowerBound, limit: columns,
            Theme.bar)
        canvas.write(
            CharacterWidth.fitted(Wording.printable(copy.title), width: max(columns - width - 4, 1)),
            column: width + 3, row: area.lowerBound, limit: columns, Theme.text)
    }

    /// The share, the bytes, the files, the rate and the time left.
    private func numbers(of copy: CopyTask) -> [String] {
        let progress = copy.progress
        var parts: [String] = []
        if let total = progress.totalBytes, total > 0 {
            parts.append("\(Wording.percent(progress.bytes, of: total)) %")
            parts.append("\(Wording.size(progress.bytes)) of \(Wording.size(total))")
        } else {
            parts.append(Wording.size(progress.bytes))
        }
        if let files = progress.totalFiles, files > 1, columns >= 70 {
            parts.append("\(progress.files)/\(files) files")
        }
        if copy.isCancelled {
            parts.append("stopping")
        } else if let waiting = progress.waiting {
            parts.append(Wording.printable(waiting))
        } else if let speed = rate.bytesPerSecond {
            parts.append(Wording.rate(speed))
            if let total = progress.totalBytes, total > progress.bytes,
                let left = rate.seconds(for: total - progress.bytes)
            {
                parts.append("\(Wording.duration(left)) left")
            }
        }
        if copies.count > 1 { parts.append("+\(copies.count - 1) waiting") }
        return parts
    }

    // MARK: - Preview

    private mutating func drawPreview(in frame: Layout.Frame, on canvas: inout Canvas) {
        drawFrame(frame, Theme.frame, on: &canvas)
        let (inner, rows) = frame.inner
        let title = preview.subject.map { Wording.printable($0.item.text) } ?? "Preview"
        canvas.write(
            " \(CharacterWidth.fitted(title, width: max(inner.count - 4, 1))) ", column: inner.lowerBound + 1,
            row: frame.rows.lowerBound, limit: inner.upperBound, Theme.text)
        var footer = ""
        switch preview.content {
        case .text(let lines):
            var row = rows.lowerBound
            for line in lines {
                for spans in VisibleText.rows(line, width: inner.count) where row < rows.upperBound {
                    drawSpans(spans, column: inner.lowerBound, row: row, limit: inner.upperBound, on: &canvas)
                    row += 1
                }
            }
        case .bytes(let bytes, let about):
            footer = about ?? "not text"
            let perRow = Pager.bytesPerRow(inner.count)
            for (offset, row) in rows.enumerated() {
                let start = offset * perRow
                guard start < bytes.count else { break }
                let spans = VisibleText.dump(bytes[start..<min(start + perRow, bytes.count)], at: start, perRow: perRow)
                drawSpans(spans, column: inner.lowerBound, row: row, limit: inner.upperBound, on: &canvas)
            }
        case .picture(let picture, let about):
            footer = about
            drawPicture(picture, in: inner, rows, on: &canvas)
        case .folder(let items, let hasMore):
            footer = hasMore ? "the first \(items.count)" : Wording.count(items.count, "item", "items")
            let shown = Listing(items, Listing.View(showsHidden: true))
            for (index, row) in zip(0..<shown.count, rows) {
                let item = shown[index]
                let name = Wording.printable(item.text) + (item.kind == .folder ? "/" : "")
                canvas.write(
                    CharacterWidth.fitted(name, width: inner.count - 1), column: inner.lowerBound + 1, row: row,
                    limit: inner.upperBound, Self.style(of: item))
            }
        case .failure(let message):
            drawText(Wording.printable(message), in: inner, rows.dropFirst(0), Theme.error, on: &canvas)
        case nil:
            if preview.subject != nil, preview.due == nil {
                canvas.write("\(spinner)", column: inner.lowerBound + 1, row: rows.lowerBound, Theme.dim)
            }
        }
        if !footer.isEmpty {
            canvas.write(
                " \(CharacterWidth.fitted(footer, width: max(inner.count - 4, 1))) ", column: inner.lowerBound + 1,
                row: frame.rows.upperBound - 1, limit: inner.upperBound, Theme.dim)
        }
    }

    /// Draws a picture as cells; on a terminal that shows pictures, leaves room for it unless a dialog is in front.
    private mutating func drawPicture(
        _ picture: Picture, in columns: Range<Int>, _ rows: Range<Int>, on canvas: inout Canvas
    ) {
        guard !columns.isEmpty, !rows.isEmpty else { return }
        if showsPictures, dialog == nil {
            self.picture = PlacedPicture(picture, in: columns, rows, cellAspect: cellAspect)
            return
        }
        let fitted = picture.fitted(columns: columns.count, rows: rows.count)
        fitted.draw(
            on: &canvas, column: columns.lowerBound + (columns.count - fitted.width) / 2,
            row: rows.lowerBound + (rows.count - (fitted.height + 1) / 2) / 2)
    }

    private func drawSpans(
        _ spans: [VisibleText.Span], column: Int, row: Int, limit: Int, on canvas: inout Canvas
    ) {
        var column = column
        for span in spans {
            column = canvas.write(
                span.text, column: column, row: row, limit: limit, span.isControl ? Theme.control : Theme.text)
        }
    }

    // MARK: - Looking at a file

    private mutating func drawPager(on canvas: inout Canvas) {
        guard let pager else { return }
        let (width, height) = pagerSize
        canvas.fill(columns: 0..<columns, rows: 0..<1, Theme.label)
        let device = pager.folder.device.map { Wording.printable($0) + ":" } ?? ""
        let state = pager.loading != nil ? spinner : ""
        let position = pager.picture == nil ? "  \(pager.percent(width: width, height: height)) %" : ""
        let right = "\(state)  \(Wording.size(pager.item.size))\(position) "
        let title = CharacterWidth.fitted(
            device + Wording.printable(pager.path.description), width: max(columns - right.count - 2, 1), keepsEnd: true
        )
        canvas.write(title, column: 1, row: 0, limit: columns, Theme.label)
        canvas.write(right, column: max(columns - CharacterWidth.columns(of: right), 1), row: 0, Theme.label)
        if let picture = pager.picture {
            drawPicture(picture, in: 0..<columns, 1..<max(rows - 1, 1), on: &canvas)
        } else {
            for (offset, (line, spans)) in pager.visible(width: width, height: height).enumerated() {
                drawSpans(spans, column: 0, row: 1 + offset, limit: columns, on: &canvas)
                if line == pager.found, !pager.isHex {
                    canvas.restyle(columns: 0..<columns, row: 1 + offset) { $0.attributes.formUnion(.inverse) }
                }
            }
        }
        let row = rows - 1
        guard row > 0 else { return }
        if let field = pager.field {
            let end = canvas.write("/", column: 0, row: row, Theme.key)
            drawField(field, column: end, row: row, limit: columns, on: &canvas)
        } else if let failure = pager.failure {
            canvas.write(Wording.printable(failure), column: 1, row: row, limit: columns, Theme.error)
        } else if let notice {
            canvas.write(
                Wording.printable(notice.text), column: 1, row: row, limit: columns,
                notice.isError ? Theme.error : Theme.good)
        } else if pager.isCut {
            canvas.write(
                "This is the beginning: no more than \(Wording.size(UInt64(Pager.sizeLimit))) of a file is shown here.",
                column: 1, row: row, limit: columns, Theme.dim)
        } else {
            canvas.write(
                "q back   / search   n N next   x bytes   g G first, last", column: 1, row: row, limit: columns,
                Theme.dim)
        }
    }

    // MARK: - Dialogs

    private func box(width: Int, height: Int) -> Layout.Frame {
        let width = min(width, columns)
        let height = min(height, rows)
        let (column, row) = ((columns - width) / 2, max((rows - height) / 2 - 1, 0))
        return Layout.Frame(columns: column..<column + width, rows: row..<row + height)
    }

    private mutating func drawBox(_ frame: Layout.Frame, _ title: String, _ style: TextStyle, on canvas: inout Canvas) {
        canvas.fill(columns: frame.columns, rows: frame.rows, TextStyle())
        drawFrame(frame, style, on: &canvas)
        // Nothing behind it is clicked.
        targets = []
        canvas.cursor = nil
        canvas.write(
            " \(CharacterWidth.fitted(title, width: max(frame.columns.count - 6, 1))) ",
            column: frame.columns.lowerBound + 2,
            row: frame.rows.lowerBound, limit: frame.columns.upperBound - 1, style)
    }

    private mutating func drawPrompt(_ prompt: Dialog.Prompt, on canvas: inout Canvas) {
        let frame = box(width: max(60, columns * 2 / 3), height: 5)
        drawBox(frame, prompt.title, Theme.activeFrame, on: &canvas)
        let (inner, rows) = frame.inner
        drawField(
            prompt.field, column: inner.lowerBound + 1, row: rows.lowerBound, limit: inner.upperBound - 1, on: &canvas)
        if rows.count >= 3 {
            canvas.write(
                "Enter goes on, Esc leaves it", column: inner.lowerBound + 1, row: rows.upperBound - 1,
                limit: inner.upperBound, Theme.dim)
        }
    }

    private mutating func drawChoice(_ choice: Dialog.Choice, on canvas: inout Canvas) {
        let answers = choice.answers.map { "[\($0.key)] \($0.label)" } + ["[Esc] no"]
        let wanted = (choice.lines + [choice.title]).map { CharacterWidth.columns(of: $0) + 6 }.max() ?? 0
        let width = min(max(wanted, answers.joined(separator: "   ").count + 4, 40), max(columns - 2, 2))
        let lines = choice.lines.flatMap { Self.folded($0, width: width - 4) }
        var answerLines: [[(String, Key)]] = [[]]
        var used = 0
        for (index, text) in answers.enumerated() {
            if used > 0, used + text.count > width - 4 {
                answerLines.append([])
                used = 0
            }
            let key = index < choice.answers.count ? Key.scalar(choice.answers[index].key) : .escape
            answerLines[answerLines.count - 1].append((text, key))
            used += text.count + 3
        }
        let frame = box(width: width, height: lines.count + answerLines.count + 3)
        drawBox(frame, choice.title, choice.isGrave ? Theme.error : Theme.activeFrame, on: &canvas)
        let (inner, rows) = frame.inner
        // Where there is no room for all, the answers are what must be seen.
        let room = max(rows.count - answerLines.count, 0)
        for (line, row) in zip(lines.prefix(room), rows) {
            canvas.write(line, column: inner.lowerBound + 1, row: row, limit: inner.upperBound, Theme.text)
        }
        for (offset, line) in answerLines.enumerated() {
            var column = inner.lowerBound + 1
            let row = rows.upperBound - answerLines.count + offset
            for (text, key) in line {
                let end = canvas.write(text, column: column, row: row, limit: inner.upperBound, Theme.key)
                targets.append(Target(columns: column..<max(end, column + 1), rows: row..<row + 1, action: .key(key)))
                column = end + 3
            }
        }
    }

    private mutating func drawHelp(_ top: Int, on canvas: inout Canvas) {
        let frame = Layout.Frame(columns: 0..<columns, rows: 0..<rows)
        drawBox(frame, "Keys", Theme.activeFrame, on: &canvas)
        let (inner, rows) = frame.inner
        for (line, row) in zip(Self.help.dropFirst(top), rows) {
            let isHeading = !line.hasPrefix(" ")
            canvas.write(
                line, column: inner.lowerBound, row: row, limit: inner.upperBound, isHeading ? Theme.key : Theme.text)
        }
        let hasMore = top + rows.count < Self.help.count
        canvas.write(
            hasMore ? " ↓ shows more, Esc goes back " : " Esc goes back ", column: inner.lowerBound + 1,
            row: frame.rows.upperBound - 1,
            limit: inner.upperBound,
            Theme.dim)
        targets.append(Target(columns: frame.columns, rows: frame.rows, action: .key(.escape)))
    }
}
