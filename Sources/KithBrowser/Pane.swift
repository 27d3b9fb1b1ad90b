import KithAPI

/// One side of the browser.
struct Pane: Sendable {
    /// The location shown.
    var location: Location
    private(set) var listing = Listing()
    /// The line the person is at.
    private(set) var cursor = 0
    /// The first line shown.
    private(set) var top = 0
    /// The names marked.
    private(set) var marked: Set<[UInt8]> = []
    /// The bytes of the files marked.
    private(set) var markedSize: UInt64 = 0
    private(set) var view = Listing.View()
    /// The reason the folder could not be listed.
    var failure: String?
    /// The listing under way.
    var pending: Pending?
    /// The name the cursor was on in each location that was left.
    private var lastNames: [Location: [UInt8]] = [:]

    /// A listing that has not come to its end.
    struct Pending: Sendable {
        let ticket: Ticket
        var location: Location
        var items: [Item] = []
        /// The name to be at, when it comes.
        var select: [UInt8]?
        /// True when what has come is shown already.
        var isShown = false
        /// The number of items when they were last put in order.
        var arranged = 0
        let began: ContinuousClock.Instant
    }

    init(_ location: Location) { self.location = location }

    var current: Item? { cursor < listing.count ? listing[cursor] : nil }

    /// The items of an action: all that are marked, else the line at the cursor.
    var chosen: [Item] {
        guard !marked.isEmpty else { return current.flatMap { $0.isReal ? [$0] : nil } ?? [] }
        let items = listing.items.filter { marked.contains($0.name) }
        let sorted = Listing(items, Listing.View(order: view.order, showsHidden: true))
        return (0..<sorted.count).map { sorted[$0] }
    }

    // MARK: - Moving

    mutating func move(to index: Int, height: Int) {
        cursor = min(max(index, 0), max(listing.count - 1, 0))
        show(height: height)
    }

    mutating func move(by rows: Int, height: Int) { move(to: cursor + rows, height: height) }

    /// Scrolls so that the cursor is seen, and nothing is empty below the last line.
    mutating func show(height: Int) {
        let height = max(height, 1)
        cursor = min(cursor, max(listing.count - 1, 0))
        top = min(top, max(listing.count - height, 0), cursor)
        top = max(top, cursor - height + 1, 0)
    }

    /// Scrolls; the cursor stays unless it would leave what is seen.
    mutating func scroll(by rows: Int, height: Int) {
        top = min(max(top + rows, 0), max(listing.count - height, 0))
        cursor = min(max(cursor, top), min(top + height, listing.count) - 1)
        cursor = max(cursor, 0)
    }

    // MARK: - Marking

    /// Marks an item, or takes its mark off.
    mutating func mark(_ item: Item, _ isOn: Bool) {
        guard item.isReal else { return }
        let size = item.kind == .file ? item.size : 0
        if isOn {
            if marked.insert(item.name).inserted { markedSize &+= size }
        } else if marked.remove(item.name) != nil {
            markedSize &-= size
        }
    }

    mutating func unmarkAll() { (marked, markedSize) = ([], 0) }

    mutating func toggleMark(height: Int) {
        toggleMark(at: cursor)
        move(by: 1, height: height)
    }

    mutating func toggleMark(at index: Int) {
        guard index < listing.count else { return }
        mark(listing[index], !marked.contains(listing[index].name))
    }

    /// Marks what was not, and the other way round.
    mutating func invertMarks() {
        for index in 0..<listing.count { toggleMark(at: index) }
    }

    // MARK: - Contents

    /// Changes what is shown of the listing; the cursor stays at its name.
    mutating func arrange(_ change: (inout Listing.View) -> Void, height: Int) {
        let name = current?.name
        change(&view)
        listing.arrange(view)
        putCursor(at: name, height: height)
    }

    private mutating func putCursor(at name: [UInt8]?, height: Int) {
        if let name, let index = listing.index(of: name) { cursor = index }
        show(height: height)
    }

    /// Takes the marks off what is not there any more; what the filter hides keeps its own, and is counted.
    private mutating func unmarkMissing() {
        guard !marked.isEmpty else { return }
        let kept = listing.items.filter { marked.contains($0.name) }
        unmarkAll()
        for item in kept { mark(item, true) }
    }

    /// Shows other contents; the cursor stays at its name, or goes to `select`.
    mutating func replace(_ items: [Item], at location: Location, select: [UInt8]?, height: Int) {
        let isSame = location == self.location
        if !isSame {
            remember()
            (cursor, top) = (0, 0)
            unmarkAll()
            view.filter = ""
        }
        let name = select ?? (isSame ? current?.name : lastNames[location])
        let index = cursor
        self.location = location
        failure = nil
        let hasParent: Bool
        if case .devices = location { hasParent = false } else { hasParent = true }
        listing = Listing((hasParent ? [Item.parent] : []) + items, view)
        // What was deleted leaves the cursor where it was.
        cursor = isSame ? index : 0
        putCursor(at: name, height: height)
        unmarkMissing()
    }

    /// Remembers the name the cursor is at, for when its folder is shown again.
    private mutating func remember() {
        if lastNames.count > 500 { lastNames = [:] }
        lastNames[location] = current?.name
    }
}
