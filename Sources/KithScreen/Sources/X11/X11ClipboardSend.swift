#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithWire

/// Content of ours on its way into a property of somebody who pastes, in parts.
struct X11ClipboardSend {
    /// The property of another's window.
    struct Place: Hashable {
        let window: UInt32
        let property: UInt32
    }

    /// More than this comes in parts.
    static let partLimit = 256 << 10
    /// So many are under way at once; more are refused.
    static let limit = 16

    let type: UInt32
    let bytes: [UInt8]
    var sent = 0
    /// The time at which it is given up unless a part is taken before.
    var deadline = ContinuousClock.now + X11ClipboardRead.patience

    init(type: UInt32, bytes: [UInt8]) {
        self.type = type
        self.bytes = bytes
    }
}

extension X11Clipboards {
    /// A question of somebody who pastes.
    struct Question: Sendable {
        let request: xcb_selection_request_event_t
        /// The property that is wanted; old programs leave it to the owner.
        var property: UInt32 { request.property != 0 ? request.property : request.target }
        var place: X11ClipboardSend.Place { .init(window: request.requestor, property: property) }
    }

    /// Takes a question; what is not known at once is fetched.
    func asked(_ event: xcb_selection_request_event_t) {
        let question = Question(request: event)
        guard event.owner == window, let selection = selection(of: event.selection), let offer = offers[selection]
        else {
            return answer(question, isDone: false)
        }
        let atoms = connection.atoms
        if event.target == atoms[.targets] {
            let names = [atoms[.targets], atoms[.timestamp]] + offer.formats.flatMap { targets(of: $0) }
            put(names, at: question, type: XCB_ATOM_ATOM.rawValue)
            answer(question, isDone: true)
        } else if event.target == atoms[.timestamp] {
            put([offer.time], at: question, type: XCB_ATOM_INTEGER.rawValue)
            answer(question, isDone: true)
        } else if let format = format(of: event.target), offer.formats.contains(format), let owner,
            sends.count + answering < X11ClipboardSend.limit
        {
            answering += 1
            Task(name: "x11 paste") { await owner.answerPaste(question, format, offer.content) }
        } else {
            answer(question, isDone: false)
        }
    }

    /// Hands over what was fetched; `nil` when there is nothing, or too much.
    func answer(_ question: Question, with content: [UInt8]?) {
        answering -= 1
        guard var content, content.count <= ScreenClipboard.contentLimit else {
            return answer(question, isDone: false)
        }
        let target = question.request.target
        if target == XCB_ATOM_STRING.rawValue { content = Self.latin1(content) }
        guard content.count > X11ClipboardSend.partLimit else {
            put(content, at: question, type: target)
            return answer(question, isDone: true)
        }
        let events = [XCB_EVENT_MASK_PROPERTY_CHANGE.rawValue]
        unsafe xcb_change_window_attributes(
            connection.raw, question.request.requestor, XCB_CW_EVENT_MASK.rawValue, events)
        sends[question.place] = X11ClipboardSend(type: target, bytes: content)
        put([UInt32(content.count)], at: question, type: connection.atoms[.incremental])
        answer(question, isDone: true)
        beginSweeping()
    }

    /// Sends the next part when the one before it has been taken; an empty one is the end.
    func taken(_ event: xcb_property_notify_event_t) {
        let place = X11ClipboardSend.Place(window: event.window, property: event.atom)
        guard var send = sends[place] else { return }
        let part = send.bytes[send.sent..<min(send.sent + X11ClipboardSend.partLimit, send.bytes.count)]
        unsafe part.withUnsafeBytes {
            _ = unsafe xcb_change_property(
                connection.raw, UInt8(XCB_PROP_MODE_APPEND.rawValue), place.window, place.property, send.type, 8,
                UInt32($0.count), $0.baseAddress)
        }
        send.sent += part.count
        send.deadline = .now + X11ClipboardRead.patience
        sends[place] = send
        if part.isEmpty { finish(place) }
        connection.flush()
    }

    /// Forgets what was under way.
    func finish(_ place: X11ClipboardSend.Place) {
        sends[place] = nil
        guard place.window != window, !sends.keys.contains(where: { $0.window == place.window }) else { return }
        let events: [UInt32] = [0]
        unsafe xcb_change_window_attributes(connection.raw, place.window, XCB_CW_EVENT_MASK.rawValue, events)
    }

    /// Writes the property that is wanted, in units of one byte or four.
    private func put<Unit: FixedWidthInteger>(_ units: [Unit], at question: Question, type: UInt32) {
        unsafe xcb_change_property(
            connection.raw, UInt8(XCB_PROP_MODE_REPLACE.rawValue), question.place.window, question.place.property, type,
            UInt8(Unit.bitWidth), UInt32(units.count), units)
    }

    private func answer(_ question: Question, isDone: Bool) {
        var event = xcb_selection_notify_event_t()
        event.response_type = UInt8(XCB_SELECTION_NOTIFY)
        event.time = question.request.time
        event.requestor = question.request.requestor
        event.selection = question.request.selection
        event.target = question.request.target
        event.property = isDone ? question.property : 0
        // Every event has 32 bytes on the wire.
        var bytes = unsafe withUnsafeBytes(of: event) { unsafe $0.map { CChar(bitPattern: $0) } }
        bytes += [CChar](repeating: 0, count: 32 - bytes.count)
        unsafe xcb_send_event(connection.raw, 0, question.request.requestor, 0, bytes)
        connection.flush()
    }

    /// Text for programs that know Latin-1 alone.
    static func latin1(_ text: [UInt8]) -> [UInt8] {
        String(decoding: text, as: UTF8.self).unicodeScalars.map { UInt8(exactly: $0.value) ?? UInt8(ascii: "?") }
    }
}
#endif
