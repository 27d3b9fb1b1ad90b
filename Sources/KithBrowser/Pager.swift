import KithAPI
import KithCommandLine
import KithContent
import KithTerminal

/// A file being looked at, as far as it has been fetched.
struct Pager: Sendable {
    let folder: Folder
    let item: Item
    /// The bytes from the beginning of the file on.
    private(set) var bytes: [UInt8] = []
    /// True when that is all of it.
    private(set) var isComplete = false
    /// The request for more of it that is under way.
    var loading: Ticket?
    var failure: String?
    /// Instead of text.
    var picture: Picture?
    var isHex = false
    private var isDecided = false
    /// The text searched for.
    private(set) var needle = ""
    /// The field the person types that into.
    var field: TextField?

    /// The start of each line; one longer than ``lineLimit`` is several.
    private var starts = [0]
    /// The first row shown: a line, and a row of it.
    private(set) var top = (line: 0, row: 0)
    /// The line a search has found.
    private(set) var found: Int?

    private static let lineLimit = 4_096
    /// At most so much is fetched.
    static let sizeLimit = 32 << 20
    static let part = 256 << 10

    init(folder: Folder, item: Item) {
        self.folder = folder
        self.item = item
    }

    var path: Files.Path { folder.path(of: item.name) }
    /// True when the rest is not fetched because it is too much.
    var isCut: Bool { bytes.count >= Self.sizeLimit && !isComplete }

    /// Takes what has been fetched.
    mutating func append(_ more: [UInt8], isLast: Bool) {
        let begin = bytes.count
        bytes += more
        if isLast { isComplete = true }
        if !isDecided, !bytes.isEmpty {
            isDecided = true
            isHex = VisibleText.isBinary(bytes)
        }
        var start = starts[starts.count - 1]
        for index in begin..<bytes.count where bytes[index] == 0x0A || index - start + 1 >= Self.lineLimit {
            start = index + 1
            starts.append(start)
        }
    }

    /// The number of lines; a line end at the very end begins none.
    private var lineCount: Int {
        guard let last = starts.last, last == bytes.count, starts.count > 1 else { return starts.count }
        return starts.count - 1
    }

    private func line(_ index: Int) -> ArraySlice<UInt8> {
        let end = index + 1 < starts.count ? starts[index + 1] : bytes.count
        var line = bytes[starts[index]..<end]
        if line.last == 0x0A { line = line.dropLast() }
        if line.last == 0x0D { line = line.dropLast() }
        return line
    }

    static func bytesPerRow(_ width: Int) -> Int { width >= 76 ? 16 : 8 }

    private func count(_ width: Int) -> Int {
        isHex ? (bytes.count + Self.bytesPerRow(width) - 1) / Self.bytesPerRow(width) : lineCount
    }

    private func rows(_ index: Int, _ width: Int) -> [[VisibleText.Span]] {
        guard isHex else { return VisibleText.rows(VisibleText.spans(line(index)), width: width) }
        let perRow = Self.bytesPerRow(width)
        let start = index * perRow
        return [VisibleText.dump(bytes[start..<min(start + perRow, bytes.count)], at: start, perRow: perRow)]
    }

    /// The content of so many rows, each with its line.
    func visible(width: Int, height: Int) -> [(line: Int, spans: [VisibleText.Span])] {
        var result: [(Int, [VisibleText.Span])] = []
        var line = top.line
        var skip = top.row
        while line < count(width), result.count < height {
            for spans in rows(line, width).dropFirst(skip) where result.count < height { result.append((line, spans)) }
            skip = 0
            line += 1
        }
        return result
    }

    /// Goes down by rows, or up; the last row does not go above the bottom.
    mutating func scroll(_ rows: Int, width: Int, height: Int) {
        guard count(width) > 0 else { return }
        top.line = min(top.line, count(width) - 1)
        top.row = min(top.row, self.rows(top.line, width).count - 1)
        if rows > 0 {
            for _ in 0..<rows {
                if top.row + 1 < self.rows(top.line, width).count {
                    top.row += 1
                } else if top.line + 1 < count(width) {
                    top = (top.line + 1, 0)
                }
            }
            let end = lastTop(width: width, height: height)
            if (top.line, top.row) > (end.line, end.row) { top = end }
        } else {
            for _ in 0..<(-rows) {
                if top.row > 0 {
                    top.row -= 1
                } else if top.line > 0 {
                    top = (top.line - 1, self.rows(top.line - 1, width).count - 1)
                }
            }
        }
    }

    mutating func goToStart() { top = (0, 0) }
    mutating func goToEnd(width: Int, height: Int) { top = lastTop(width: width, height: height) }

    mutating func toggleHex(width: Int) {
        // The same place of the file stays at the top.
        let offset =
            isHex ? top.line * Self.bytesPerRow(width) : top.line < starts.count ? starts[top.line] : 0
        isHex.toggle()
        top = (
            isHex ? offset / Self.bytesPerRow(width) : max(0, (starts.firstIndex { $0 > offset } ?? lineCount) - 1), 0
        )
    }

    /// The first row that leaves nothing empty below the last.
    private func lastTop(width: Int, height: Int) -> (line: Int, row: Int) {
        var left = height
        var line = count(width)
        while line > 0 {
            line -= 1
            let rows = rows(line, width).count
            if rows >= left { return (line, rows - left) }
            left -= rows
        }
        return (0, 0)
    }

    /// Tells whether more must be fetched to fill the screen, and another beyond it.
    func wantsMore(width: Int, height: Int) -> Bool {
        guard !isComplete, loading == nil, failure == nil, picture == nil, bytes.count < Self.sizeLimit else {
            return false
        }
        return count(width) - top.line < 3 * height
    }

    /// The position of the last row in the file, in percent.
    func percent(width: Int, height: Int) -> Int {
        guard item.size > 0, count(width) > 0 else { return 100 }
        let last = min(top.line + height, count(width))
        let offset = isHex ? last * Self.bytesPerRow(width) : last < starts.count ? starts[last] : bytes.count
        return min(100, offset * 100 / Int(clamping: max(item.size, UInt64(bytes.count), 1)))
    }

    /// Looks for the next line with a text, from the one after the last found; begins anew at the end.
    ///
    /// Returns whether there is one in what has been fetched.
    mutating func search(_ text: String? = nil, backwards: Bool = false, width: Int, height: Int) -> Bool {
        if let text { (needle, found) = (text, nil) }
        guard !needle.isEmpty, !isHex, lineCount > 0 else { return false }
        let minds = needle.contains(where: \.isUppercase)
        let wanted = minds ? needle : needle.lowercased()
        let start = found.map { backwards ? $0 - 1 : $0 + 1 } ?? top.line
        for step in 0..<lineCount {
            let index = ((backwards ? start - step : start + step) % lineCount + lineCount) % lineCount
            let text = String(decoding: line(index), as: UTF8.self)
            guard (minds ? text : text.lowercased()).contains(wanted) else { continue }
            found = index
            top = (max(0, index - height / 3), 0)
            let end = lastTop(width: width, height: height)
            if (top.line, top.row) > (end.line, end.row) { top = end }
            return true
        }
        return false
    }
}
