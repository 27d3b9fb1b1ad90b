import KithAPI
import KithTerminal
import KithWire
import Testing

@testable import KithBrowser

/// A browser with a terminal and devices that answer only when a test says so.
struct Harness {
    var browser: Browser
    var canvas: Canvas
    /// The requests that have not been answered or looked at.
    var effects: [Browser.Effect] = []
    var now = ContinuousClock.now

    init(
        left: Location = .folder(Folder(device: nil, path: "/home/ana")), right: Location = .devices, columns: Int = 80,
        rows: Int = 24
    ) {
        browser = Browser(Browser.Options(left: left, right: right), columns: columns, rows: rows, at: now)
        canvas = Canvas(columns: columns, rows: rows)
        effects = browser.begin()
    }

    /// A browser whose left pane shows some names in /home/ana and whose right one laptop:/srv.
    static func filled(_ left: [String], _ right: [String] = [], columns: Int = 80, rows: Int = 24) -> Harness {
        var harness = Harness(
            right: .folder(Folder(device: "laptop", path: "/srv")), columns: columns, rows: rows)
        harness.answer(left)
        harness.answer(right)
        return harness
    }

    mutating func handle(_ event: Browser.Event) { effects += browser.handle(event, at: now) }

    mutating func press(_ keys: Key...) { for key in keys { handle(.input(.key(key))) } }
    mutating func control(_ scalar: Unicode.Scalar) { handle(.input(.key(.scalar(scalar), .control))) }
    /// Types characters.
    mutating func type(_ text: String) { for scalar in text.unicodeScalars { press(.scalar(scalar)) } }

    mutating func wait(_ duration: Duration) {
        now += duration
        handle(.timePassed)
    }

    /// Takes the oldest request that has not been looked at.
    mutating func next() -> Browser.Effect? { effects.isEmpty ? nil : effects.removeFirst() }

    /// The ticket of the oldest listing asked for, which is taken.
    mutating func takeListing() -> Ticket? {
        for (index, effect) in effects.enumerated() {
            switch effect {
            case .list(let ticket, _), .search(let ticket, _, _), .listDevices(let ticket):
                effects.remove(at: index)
                return ticket
            default: continue
            }
        }
        return nil
    }

    /// Answers the oldest listing asked for; a slash behind a name makes a folder.
    mutating func answer(_ names: [String], sourceLocation: SourceLocation = #_sourceLocation) {
        guard let ticket = takeListing() else {
            Issue.record("nothing was to be listed", sourceLocation: sourceLocation)
            return
        }
        handle(.entries(ticket, names.map { Self.entry($0) }))
        handle(.ended(ticket, nil))
    }

    static func entry(_ name: String, size: UInt64 = 100, modified: Int64 = 0) -> Files.Entry {
        let isFolder = name.hasSuffix("/")
        return Files.Entry(
            name: Files.Path(isFolder ? String(name.dropLast()) : name), kind: isFolder ? .folder : .file,
            size: size, mode: isFolder ? 0o755 : 0o644, modified: modified, modifiedNanoseconds: 0)
    }

    mutating func screen() -> String {
        browser.draw(on: &canvas)
        return (0..<canvas.rows).map { canvas.line($0) }.joined(separator: "\n")
    }

    /// The names a pane shows, in order.
    func names(_ pane: Int) -> [String] {
        let listing = browser.panes[pane].listing
        return (0..<listing.count).map { listing[$0].text }
    }

    var current: String? { browser.panes[browser.active].current?.text }
}
