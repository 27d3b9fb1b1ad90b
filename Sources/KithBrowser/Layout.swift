/// The position on the terminal of each part of the browser.
struct Layout: Hashable {
    /// A frame with a list, a preview or the like in it.
    struct Frame: Hashable {
        var columns: Range<Int>
        var rows: Range<Int>

        /// Without its lines.
        var inner: (columns: Range<Int>, rows: Range<Int>) {
            (
                columns.lowerBound + 1..<max(columns.upperBound - 1, columns.lowerBound + 1),
                rows.lowerBound + 1..<max(rows.upperBound - 1, rows.lowerBound + 1)
            )
        }
        /// True when there is room for headings above a list.
        var hasHeadings: Bool { rows.count >= 10 }
        /// The rows of a list.
        var listRows: Range<Int> {
            let rows = inner.rows
            return hasHeadings ? rows.lowerBound + 1..<rows.upperBound : rows
        }
    }

    /// `nil`: there is no room for it.
    private(set) var panes: [Frame?] = [nil, nil]
    private(set) var preview: Frame?
    private(set) var copyRows: Range<Int>?
    private(set) var statusRow: Int?
    private(set) var keyRow: Int?

    init(columns: Int, rows: Int, active: Int, hasPreview: Bool, isCopying: Bool) {
        var rest = rows
        func takeRow(_ least: Int) -> Int? {
            guard rows >= least else { return nil }
            rest -= 1
            return rest
        }
        keyRow = takeRow(12)
        statusRow = takeRow(6)
        if isCopying, let last = takeRow(8) { copyRows = (takeRow(18) ?? last)..<last + 1 }
        let area = 0..<max(rest, 1)
        guard columns >= 60 else {
            // One at a time; the preview below it, where there is room for both.
            guard hasPreview, area.count >= 12 else {
                panes[active] = Frame(columns: 0..<columns, rows: area)
                return
            }
            panes[active] = Frame(columns: 0..<columns, rows: 0..<area.count / 2)
            preview = Frame(columns: 0..<columns, rows: area.count / 2..<area.count)
            return
        }
        if hasPreview, columns >= 120 {
            let width = columns * 3 / 10
            panes = [Frame(columns: 0..<width, rows: area), Frame(columns: width..<width * 2, rows: area)]
            preview = Frame(columns: width * 2..<columns, rows: area)
            return
        }
        panes = [Frame(columns: 0..<columns / 2, rows: area), Frame(columns: columns / 2..<columns, rows: area)]
        if hasPreview {
            preview = panes[1 - active]
            panes[1 - active] = nil
        }
    }
}
