import KithAPI
import KithCommandLine
import KithTerminal
import KithWire

/// A file manager with two panes, as a value: what happens goes in, what is to be done comes out.
///
/// It does no I/O and reads no clock. Report to it what happened and when (``handle(_:at:)``), and do what it asks
/// (``Effect``), and show what ``draw(on:)`` draws. Nothing it asks for is waited for: what has been shown stays until
/// something newer has come, and the person can go elsewhere meanwhile.
///
///            ┌ input, answers, time ┐                      ┌ effects ─▶ driver ─▶ devices
///     driver ┴──────────────────────┴▶ handle ─▶ Browser ──┤
///                                                          └ draw ─▶ Canvas ─▶ terminal
///
/// Everything that came from elsewhere (names, messages) is made printable where it is drawn.
package struct Browser: Sendable {
    /// The settings a browser starts with.
    package struct Options: Sendable {
        /// The first location of the left and of the right pane.
        package var left: Location
        package var right: Location
        /// True when the left pane has the keys first.
        package var startsLeft = true
        /// Seconds east of Greenwich at a time, in seconds since 1970.
        package var offsetFromGreenwich: @Sendable (Int64) -> Int = { _ in 0 }

        package init(left: Location, right: Location) { (self.left, self.right) = (left, right) }
    }

    let options: Options
    /// True while the terminal shows pictures itself: then ``picture`` says which and where.
    package var showsPictures = false
    /// The height of a cell as a multiple of its width.
    package var cellAspect = 2.0
    /// The picture that is to be shown over the cells drawn last, as large as fits them.
    package internal(set) var picture: PlacedPicture?
    var panes: [Pane]
    /// The pane that has the keys.
    var active: Int
    var columns: Int
    var rows: Int
    var dialog: Dialog?
    var pager: Pager?
    /// The field for the filter of the active pane, while it is being typed.
    var filter: TextField?
    var hasPreview = false
    var preview = PreviewState()
    /// Copies, in the order of their turns; the first is running.
    var copies: [CopyTask] = []
    var rate = TransferRate()
    var tasks: [Ticket: SmallTask] = [:]
    var notice: Notice?
    private var lastTicket = 0
    /// The time of the last event.
    var now: ContinuousClock.Instant
    let start: ContinuousClock.Instant
    /// The parts that can be clicked, as they were drawn last.
    var targets: [Target] = []
    var lastClick: (position: Canvas.Position, time: ContinuousClock.Instant)?
    var hasQuit = false

    /// A message below the panes.
    struct Notice: Hashable {
        var text: String
        var isError: Bool
        /// The time until which it stays; after that it goes with the next key.
        var until: ContinuousClock.Instant
    }

    /// A request that is neither a listing, a copy nor a preview.
    struct SmallTask {
        enum Purpose {
            /// Opens what a link leads to.
            case follow(pane: Int, Folder, Item)
            case compare(CopyOrder)
            case change(Change)
        }

        /// Something that changes files.
        struct Change {
            /// The message while it goes on: `deleting`.
            var doing: String
            /// The message when it is done.
            var done: String
            var folders: [Folder]
            /// The name to be at afterwards.
            var select: [UInt8]?
            var move: (device: String?, Move)?
            var total = 1
            var count = 0
            /// True when nothing was changed.
            var isUnchanged = false
        }

        var purpose: Purpose
        let began: ContinuousClock.Instant
    }

    /// The preview beside the list.
    struct PreviewState {
        /// The item it shows; `nil`: nothing.
        var subject: (folder: Folder, item: Item)?
        var content: Preview?
        /// The time to ask for it: not for each line the cursor passes.
        var due: ContinuousClock.Instant?
        var ticket: Ticket?
    }

    package init(_ options: Options, columns: Int, rows: Int, at now: ContinuousClock.Instant) {
        self.options = options
        panes = [Pane(options.left), Pane(options.right)]
        active = options.startsLeft ? 0 : 1
        (self.columns, self.rows) = (columns, rows)
        (self.now, start) = (now, now)
    }

    /// The first effects.
    package mutating func begin() -> [Effect] {
        var effects: [Effect] = []
        for pane in 0..<2 { open(panes[pane].location, in: pane, &effects) }
        return effects
    }

    /// Takes in what happened; returns what is to be done, in this order.
    package mutating func handle(_ event: Event, at now: ContinuousClock.Instant) -> [Effect] {
        self.now = now
        var effects: [Effect] = []
        switch event {
        case .input(let input):
            // Somebody who was away sees how a copy went, too.
            if let notice, notice.until <= now { self.notice = nil }
            handle(input, &effects)
        case .resized(let columns, let rows):
            (self.columns, self.rows) = (columns, rows)
            for pane in 0..<2 { panes[pane].show(height: height(pane)) }
        case .timePassed: break
        default: handle(answer: event, &effects)
        }
        updatePreview(&effects)
        fillPager(&effects)
        return effects
    }

    /// The time at which ``Event/timePassed`` is due at the latest; `nil`: something else happens first.
    package var deadline: ContinuousClock.Instant? {
        let isBusy = panes.contains { $0.pending != nil } || !tasks.isEmpty || !copies.isEmpty || pager?.loading != nil
        return [isBusy ? now + .milliseconds(120) : nil, preview.due].compactMap(\.self).min()
    }

    // MARK: - Parts

    var layout: Layout {
        Layout(columns: columns, rows: rows, active: active, hasPreview: hasPreview, isCopying: !copies.isEmpty)
    }

    /// The number of lines of a pane that are visible.
    func height(_ pane: Int) -> Int {
        // One that is not shown now will be about as high as the other.
        (layout.panes[pane] ?? layout.panes[1 - pane])?.listRows.count ?? 1
    }

    mutating func makeTicket() -> Ticket {
        lastTicket += 1
        return lastTicket
    }

    mutating func show(_ text: String, isError: Bool = false) {
        notice = Notice(text: text, isError: isError, until: now + .seconds(isError ? 12 : 6))
    }

    mutating func showError(_ text: String) { show(text, isError: true) }

    // MARK: - Listing

    /// Asks for what a pane is to show; what it shows stays until some of that has come.
    mutating func open(_ location: Location, in pane: Int, select: [UInt8]? = nil, _ effects: inout [Effect]) {
        if let pending = panes[pane].pending { effects.append(.cancel(pending.ticket)) }
        let ticket = makeTicket()
        panes[pane].pending = Pane.Pending(ticket: ticket, location: location, select: select, began: now)
        panes[pane].failure = nil
        if pane == active { filter = nil }
        switch location {
        case .devices: effects.append(.listDevices(ticket))
        case .folder(let folder): effects.append(.list(ticket, folder))
        case .search(let folder, let pattern): effects.append(.search(ticket, folder, pattern))
        }
    }

    /// Lists every pane anew that shows one of these folders.
    mutating func reload(_ folders: [Folder], select: [UInt8]? = nil, _ effects: inout [Effect]) {
        for pane in 0..<2 where panes[pane].pending == nil {
            guard case .folder(let folder) = panes[pane].location, folders.contains(folder) else { continue }
            open(panes[pane].location, in: pane, select: pane == active ? select : nil, &effects)
        }
    }

    mutating func cancelListing(_ pane: Int, _ effects: inout [Effect]) -> Bool {
        guard let pending = panes[pane].pending else { return false }
        effects.append(.cancel(pending.ticket))
        panes[pane].pending = nil
        if pending.isShown { arrange(pending, in: pane) }
        show("Stopped listing\(pending.isShown ? ": this is only a part" : "").")
        return true
    }

    /// Shows what a listing has brought so far.
    mutating func arrange(_ pending: Pane.Pending, in pane: Int) {
        let isFirst = panes[pane].location != pending.location
        panes[pane].replace(pending.items, at: pending.location, select: pending.select, height: height(pane))
        if isFirst, pane == active { filter = nil }
    }

    /// Tells whether the pane has waited long enough for that to be shown.
    func isSlow(_ pane: Int) -> Bool { panes[pane].pending.map { now - $0.began >= .milliseconds(150) } ?? false }

    // MARK: - Preview

    private mutating func updatePreview(_ effects: inout [Effect]) {
        var subject: (folder: Folder, item: Item)?
        if hasPreview, pager == nil, let folder = panes[active].location.folder, let item = panes[active].current,
            item.isReal
        {
            subject = (folder, item)
        }
        let isSame = subject?.folder == preview.subject?.folder && subject?.item == preview.subject?.item
        if !isSame {
            if let ticket = preview.ticket { effects.append(.cancel(ticket)) }
            preview = PreviewState(subject: subject, due: subject == nil ? nil : now + .milliseconds(120))
        }
        guard let due = preview.due, due <= now, let (folder, item) = preview.subject else { return }
        preview.due = nil
        let ticket = makeTicket()
        preview.ticket = ticket
        effects.append(.preview(ticket, device: folder.device, folder.path(of: item.name), item))
    }

    // MARK: - Looking at a file

    /// The size of the text of a file that is looked at.
    var pagerSize: (width: Int, height: Int) { (max(columns, 2), max(rows - 2, 1)) }

    private mutating func fillPager(_ effects: inout [Effect]) {
        let (width, height) = pagerSize
        guard var pager, pager.wantsMore(width: width, height: height) else { return }
        let ticket = makeTicket()
        pager.loading = ticket
        effects.append(
            .read(
                ticket, device: pager.folder.device, pager.path, offset: UInt64(pager.bytes.count),
                length: min(Pager.part, Pager.sizeLimit - pager.bytes.count)))
        self.pager = pager
    }
}
