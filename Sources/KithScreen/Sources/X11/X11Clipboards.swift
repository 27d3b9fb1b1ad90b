#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithIO
import KithWire

/// The clipboards of a screen: what others have is read, what a viewer has is handed to those who paste.
///
/// ICCCM §2: an owner is asked to put its content into a property of ours, and we put ours into one of the asker's; what is
/// large comes in parts, each once the one before it has been taken away (§2.7.2, INCR).
@safe final class X11Clipboards {
    typealias Selection = ScreenClipboard.Selection
    typealias Format = ScreenClipboard.Format

    /// What others are given when they paste.
    struct Offer {
        let formats: [Format]
        let content: @Sendable (Format) async throws -> [UInt8]
        /// The server's time at which it was made.
        var time: UInt32 = 0
    }

    let connection: X11Connection
    /// Receives the content of others, and owns the clipboards.
    let window: UInt32
    weak var owner: X11Source?
    var offers: [Selection: Offer] = [:]
    var reads: [UInt32: X11ClipboardRead] = [:]
    var nextRead = 0
    var sends: [X11ClipboardSend.Place: X11ClipboardSend] = [:]
    /// Answers that are being fetched.
    var answering = 0
    private var described: Set<Selection> = []
    private var changedAgain: Set<Selection> = []
    private var isSweeping = false

    /// Makes the window.
    init(_ connection: X11Connection) {
        self.connection = connection
        window = connection.makeID()
        let events = [XCB_EVENT_MASK_PROPERTY_CHANGE.rawValue]
        unsafe xcb_create_window(
            connection.raw, 0, window, connection.root, -1, -1, 1, 1, 0,
            UInt16(XCB_WINDOW_CLASS_INPUT_ONLY.rawValue), 0, XCB_CW_EVENT_MASK.rawValue, events)
    }

    /// Has the server tell of every change, and tells what there is now.
    func begin() {
        let events =
            XCB_XFIXES_SELECTION_EVENT_MASK_SET_SELECTION_OWNER.rawValue
            | XCB_XFIXES_SELECTION_EVENT_MASK_SELECTION_WINDOW_DESTROY.rawValue
            | XCB_XFIXES_SELECTION_EVENT_MASK_SELECTION_CLIENT_CLOSE.rawValue
        for selection in Selection.allCases {
            unsafe xcb_xfixes_select_selection_input(connection.raw, window, atom(of: selection), UInt32(events))
            if let other = try? ownerWindow(of: selection), other != 0 { describe(selection) }
        }
    }

    /// Ends everything that waits.
    func end(_ failure: KithError) {
        for read in reads.values { read.finish(.failure(failure)) }
        reads = [:]
        sends = [:]
        offers = [:]
    }

    func atom(of selection: Selection) -> UInt32 {
        switch selection {
        case .clipboard: connection.atoms[.clipboard]
        case .primary: XCB_ATOM_PRIMARY.rawValue
        }
    }

    func selection(of atom: UInt32) -> Selection? { Selection.allCases.first { self.atom(of: $0) == atom } }

    /// The window that owns a clipboard; 0 for none.
    ///
    /// - Throws: `KithError` `.unreachable` when the screen is gone.
    func ownerWindow(of selection: Selection) throws(KithError) -> UInt32 {
        try unsafe connection.reply(
            to: xcb_get_selection_owner(connection.raw, atom(of: selection)), xcb_get_selection_owner_reply
        ) { unsafe $0.pointee.owner }
    }

    /// The names under which a format is asked for, the best first.
    func targets(of format: Format) -> [UInt32] {
        let atoms = connection.atoms
        return switch format {
        case .text: [atoms[.utf8], atoms[.plainUTF8], XCB_ATOM_STRING.rawValue]
        case .html: [atoms[.html]]
        case .png: [atoms[.png]]
        }
    }

    /// The format that a name stands for.
    func format(of target: UInt32) -> Format? {
        if target == connection.atoms[.plain] { return .text }
        return Format.allCases.first { targets(of: $0).contains(target) }
    }

    // MARK: - Events

    /// Takes in an event, if it is about clipboards.
    func receive(_ event: UnsafeMutablePointer<xcb_generic_event_t>, _ kind: UInt8) {
        let bytes = UnsafeRawPointer(event)
        switch kind {
        case connection.extensions.fixesEvent + UInt8(XCB_XFIXES_SELECTION_NOTIFY):
            unsafe ownerChanged(bytes.load(as: xcb_xfixes_selection_notify_event_t.self))
        case UInt8(XCB_SELECTION_NOTIFY): unsafe answered(bytes.load(as: xcb_selection_notify_event_t.self))
        case UInt8(XCB_SELECTION_REQUEST): unsafe asked(bytes.load(as: xcb_selection_request_event_t.self))
        case UInt8(XCB_PROPERTY_NOTIFY):
            let change = unsafe bytes.load(as: xcb_property_notify_event_t.self)
            if change.state == UInt8(XCB_PROPERTY_DELETE.rawValue) {
                taken(change)
            } else if change.window == window {
                arrived(change.atom)
            }
        default: break
        }
    }

    private func ownerChanged(_ event: xcb_xfixes_selection_notify_event_t) {
        guard let selection = selection(of: event.selection) else { return }
        if event.owner == window {
            offers[selection]?.time = event.selection_timestamp
            return
        }
        offers[selection] = nil
        if event.owner == 0 {
            Task(name: "x11 clipboard") { [weak owner] in await owner?.clipboardChanged(selection, []) }
        } else {
            describe(selection)
        }
    }

    /// Asks the owner which formats it has; once more when it changed meanwhile.
    private func describe(_ selection: Selection) {
        guard described.insert(selection).inserted else {
            changedAgain.insert(selection)
            return
        }
        Task(name: "x11 clipboard") { [weak owner] in await owner?.describe(selection) }
    }

    /// Notes that the formats are known; returns whether to ask again.
    func wasDescribed(_ selection: Selection) -> Bool {
        if changedAgain.remove(selection) != nil { return true }
        described.remove(selection)
        return false
    }

    // MARK: - Time

    /// Has what makes no progress looked for, as long as there is anything on its way.
    func beginSweeping() {
        guard !isSweeping else { return }
        isSweeping = true
        Task(name: "x11 clipboard") { [weak owner] in
            while true {
                try? await Task.sleep(for: .milliseconds(250))  // nobody cancels it
                guard await owner?.sweepClipboards() == true else { return }
            }
        }
    }

    /// Gives up what has made no progress for 2 s; returns whether anything is left.
    func sweep(at now: ContinuousClock.Instant) -> Bool {
        for (property, read) in reads where now >= read.deadline {
            reads[property] = nil
            read.finish(.failure(KithError(.timedOut, "The owner of the clipboard did not answer within 2 s.")))
        }
        for (place, send) in sends where now >= send.deadline { finish(place) }
        isSweeping = !reads.isEmpty || !sends.isEmpty
        return isSweeping
    }
}
#endif
