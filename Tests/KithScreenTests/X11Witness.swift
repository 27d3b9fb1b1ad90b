#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithTesting
import KithWire

@testable import KithScreen

/// A program on a screen that notes what reaches it: it covers the screen and has the keyboard.
///
/// It reads keys as a program does: by the mapping at the time it comes to an event.
final class Witness {
    /// A key or a button that went down or up.
    struct Event: CustomStringConvertible {
        let description: String
        let isDown: Bool
        /// The character it types; `nil` for none.
        var scalar: Unicode.Scalar?
    }

    let connection: X11Connection
    let window: UInt32
    private let source: X11Source?

    init(_ server: XServer, of source: X11Source? = nil) throws {
        self.source = source
        connection = try X11Connection(display: server.display, name: "witness")
        window = connection.makeID()
        let events =
            XCB_EVENT_MASK_KEY_PRESS.rawValue | XCB_EVENT_MASK_KEY_RELEASE.rawValue
            | XCB_EVENT_MASK_BUTTON_PRESS.rawValue | XCB_EVENT_MASK_BUTTON_RELEASE.rawValue
        let values: [UInt32] = [1, events]
        xcb_create_window(
            connection.raw, 0, window, connection.root, 0, 0, 4_096, 4_096, 0,
            UInt16(XCB_WINDOW_CLASS_INPUT_OUTPUT.rawValue), 0,
            XCB_CW_OVERRIDE_REDIRECT.rawValue | XCB_CW_EVENT_MASK.rawValue, values)
        xcb_map_window(connection.raw, window)
        xcb_set_input_focus(connection.raw, 0, window, 0)
        try connection.synchronize()
    }

    /// What has reached it since the last call.
    func events() async throws -> [Event] {
        try await settle()
        try connection.synchronize()
        var found: [Event] = []
        while let event = xcb_poll_for_event(connection.raw) {
            defer { free(event) }
            let kind = Int32(event.pointee.response_type & 0x7F)
            let bytes = UnsafeRawPointer(event)
            switch kind {
            case XCB_BUTTON_PRESS, XCB_BUTTON_RELEASE:
                let isDown = kind == XCB_BUTTON_PRESS
                let number = bytes.load(as: xcb_button_press_event_t.self).detail
                found.append(Event(description: "button \(number)\(isDown ? "" : " up")", isDown: isDown))
            case XCB_KEY_PRESS, XCB_KEY_RELEASE:
                found.append(try key(bytes.load(as: xcb_key_press_event_t.self), isDown: kind == XCB_KEY_PRESS))
            default: break
            }
        }
        return found
    }

    /// The characters that have been typed since the last call.
    func characters() async throws -> String {
        String(String.UnicodeScalarView(try await events().filter(\.isDown).compactMap(\.scalar)))
    }

    /// The place of the pointer.
    func pointer() async throws -> [Int32] {
        try await settle()
        let place = try connection.pointer()
        return [place.x, place.y]
    }

    /// The codes of the keys that are down.
    func pressedKeys() async throws -> [Int] {
        try await settle()
        return try connection.reply(to: xcb_query_keymap(connection.raw), xcb_query_keymap_reply) { reply in
            withUnsafeBytes(of: reply.pointee.keys) { bits in
                (0..<256).filter { bits[$0 / 8] & 1 << ($0 % 8) != 0 }
            }
        }
    }

    /// Waits until the server has done what the source asked: it answers in order.
    private func settle() async throws {
        guard let source else { return }
        // A source that was closed has waited itself.
        if await outcome({ _ = try await pixels(of: source, 1, 1) }) == .closed { return }
    }

    private func key(_ event: xcb_key_press_event_t, isDown: Bool) throws -> Event {
        let symbol = try symbol(event)
        let scalar = xkb_keysym_to_utf32(symbol)
        var name = [CChar](repeating: 0, count: 64)
        xkb_keysym_get_name(symbol, &name, 64)
        let character = Unicode.Scalar(scalar).flatMap { scalar >= 0x20 && scalar != 0x7F ? $0 : nil }
        let spelled = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let text = character.map { String($0) } ?? spelled
        return Event(description: isDown ? text : "\(text) up", isDown: isDown, scalar: character)
    }

    /// The meaning by the rules of the core protocol (X11 §5), with the third level as XKB lays it out.
    private func symbol(_ event: xcb_key_press_event_t) throws -> UInt32 {
        let cookie = xcb_get_keyboard_mapping(connection.raw, event.detail, 1)
        var row = try connection.reply(to: cookie, xcb_get_keyboard_mapping_reply) { reply in
            Array(
                UnsafeBufferPointer(
                    start: xcb_get_keyboard_mapping_keysyms(reply),
                    count: Int(xcb_get_keyboard_mapping_keysyms_length(reply))))
        }
        row += [UInt32](repeating: 0, count: max(8 - row.count, 0))
        let state = UInt32(event.state)
        let group = Int(state >> 13 & 1) * 2
        // Mod5 is AltGr's in every layout used here.
        let start = state & 0x80 != 0 && row[4 + group] != 0 ? 4 + group : row[group] != 0 ? group : 0
        let (base, shifted) = (row[start], row[start + 1] != 0 ? row[start + 1] : row[start])
        var isShifted = state & 1 != 0
        let isLetter = base != shifted && xkb_keysym_to_upper(base) == shifted
        if isLetter, state & 2 != 0 { isShifted.toggle() }
        let symbol = isShifted ? shifted : base
        return !isLetter && state & 2 != 0 ? xkb_keysym_to_upper(symbol) : symbol
    }
}
#endif
