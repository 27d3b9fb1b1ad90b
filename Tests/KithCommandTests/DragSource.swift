#if Viewer && Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithTesting

/// A program that files are dragged from, by version 5 of X11's protocol for that (XDND), which file managers speak.
final class DragSource {
    /// What does not go as the protocol says.
    struct Failure: Error {
        let reason: String
    }

    private let connection: OpaquePointer
    private let window: UInt32
    private var atoms: [String: UInt32] = [:]

    /// Connects to a server.
    init(_ server: XServer) throws {
        guard let connection = xcb_connect(server.display, nil), xcb_connection_has_error(connection) == 0,
            let root = xcb_setup_roots_iterator(xcb_get_setup(connection)).data?.pointee.root
        else { throw Failure(reason: "no server") }
        self.connection = connection
        window = xcb_generate_id(connection)
        xcb_create_window(
            connection, 0, window, root, 0, 0, 1, 1, 0, UInt16(XCB_WINDOW_CLASS_INPUT_OUTPUT.rawValue), 0, 0, nil)
    }

    deinit { xcb_disconnect(connection) }

    /// Drags `content` over the middle of a window and lets it go there; returns when the window has taken it.
    ///
    /// `type` is what the content is: `text/uri-list`, a URI a line.
    func drop(_ content: String, as type: String = "text/uri-list", on target: UInt32) throws {
        xcb_set_selection_owner(connection, window, try atom("XdndSelection"), 0)
        let version: UInt32 = 5
        try send("XdndEnter", to: target, version << 24, try atom(type))
        try send("XdndPosition", to: target, 0, 200 << 16 | 200, 0, try atom("XdndActionCopy"))
        let status = try message("XdndStatus")
        guard status[1] & 1 == 1 else { throw Failure(reason: "refused") }
        try send("XdndDrop", to: target)
        let finished = try message("XdndFinished", answering: Array(content.utf8), type)
        guard finished[1] & 1 == 1 else { throw Failure(reason: "not taken") }
    }

    /// Drags files and folders by their paths.
    func drop(paths: [String], on target: UInt32) throws {
        try drop(paths.map { "file://\(Self.encoded($0))\r\n" }.joined(), on: target)
    }

    private static func encoded(_ path: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.".utf8)
        return path.utf8.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return plain.contains(byte)
                ? String(UnicodeScalar(byte)) : "%" + (digits.count == 1 ? "0" + digits : digits)
        }.joined()
    }

    private func atom(_ name: String) throws -> UInt32 {
        if let atom = atoms[name] { return atom }
        let cookie = xcb_intern_atom(connection, 0, UInt16(name.utf8.count), name)
        guard let reply = xcb_intern_atom_reply(connection, cookie, nil) else { throw Failure(reason: "no atom") }
        defer { free(reply) }
        atoms[name] = reply.pointee.atom
        return reply.pointee.atom
    }

    /// Sends a message of the protocol; the first of its five numbers is this window.
    private func send(_ name: String, to target: UInt32, _ numbers: UInt32...) throws {
        var event = xcb_client_message_event_t()
        event.response_type = UInt8(XCB_CLIENT_MESSAGE)
        event.format = 32
        event.window = target
        event.type = try atom(name)
        event.data.data32.0 = window
        let more = numbers + [UInt32](repeating: 0, count: 4 - numbers.count)
        (event.data.data32.1, event.data.data32.2) = (more[0], more[1])
        (event.data.data32.3, event.data.data32.4) = (more[2], more[3])
        withUnsafeBytes(of: &event) { bytes in
            _ = xcb_send_event(connection, 0, target, 0, bytes.bindMemory(to: CChar.self).baseAddress)
        }
        xcb_flush(connection)
    }

    /// Waits for a message, and gives the content to whoever asks for it meanwhile.
    private func message(_ name: String, answering content: [UInt8] = [], _ type: String = "") throws -> [UInt32] {
        let wanted = try atom(name)
        while let event = xcb_wait_for_event(connection) {
            defer { free(event) }
            switch Int32(event.pointee.response_type & 0x7F) {
            case XCB_CLIENT_MESSAGE:
                let message = UnsafeRawPointer(event).load(as: xcb_client_message_event_t.self)
                guard message.type == wanted else { continue }
                let data = message.data.data32
                return [data.0, data.1, data.2, data.3, data.4]
            case XCB_SELECTION_REQUEST:
                let request = UnsafeRawPointer(event).load(as: xcb_selection_request_event_t.self)
                guard request.target == (try atom(type)) else { throw Failure(reason: "asked for something else") }
                xcb_change_property(
                    connection, UInt8(XCB_PROP_MODE_REPLACE.rawValue), request.requestor, request.property,
                    request.target, 8, UInt32(content.count), content)
                var notice = xcb_selection_notify_event_t()
                notice.response_type = UInt8(XCB_SELECTION_NOTIFY)
                (notice.time, notice.requestor, notice.selection) = (request.time, request.requestor, request.selection)
                (notice.target, notice.property) = (request.target, request.property)
                withUnsafeBytes(of: &notice) { bytes in
                    _ = xcb_send_event(
                        connection, 0, request.requestor, 0, bytes.bindMemory(to: CChar.self).baseAddress)
                }
                xcb_flush(connection)
            default: break
            }
        }
        throw Failure(reason: "the server is gone")
    }
}
#endif
