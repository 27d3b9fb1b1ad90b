#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

/// Reasons for which an X server does not do what it was asked.
enum X11Error: Error, Hashable {
    /// The connection has ended.
    case gone
    /// The server refused, with this number of an error: 8 is BadMatch, 10 BadAccess.
    case refused(UInt8)
}

/// A connection to an X server, and what it said of itself when it began; for its thread alone.
@safe final class X11Connection {  // the pointer is the connection's for as long as the object lives
    /// The connection, for the calls of XCB.
    let raw: OpaquePointer
    /// The name of the source, for a person: `x11 :0`.
    let name: String
    /// The display it was asked for.
    let display: String?
    /// The window that fills the screen.
    let root: UInt32
    /// The way in which the screen keeps its pixels.
    let format: X11PixelFormat
    /// The number of bits of a pixel's value.
    let depth: UInt8
    /// The key codes there are.
    let keycodes: ClosedRange<UInt8>
    /// The atoms used, by their names.
    let atoms: X11Atoms
    /// The extensions the server has.
    let extensions: X11Extensions

    /// Connects to `display`, `:0` or `host:0.1`; `nil` is what the environment names.
    ///
    /// - Throws: `KithError` `.unreachable` when there is no such server, or it does not let this user in; `.unsupported`
    ///   when it lacks an extension, or keeps its pixels in a way that is not understood.
    init(display: String?, name: String) throws(KithError) {
        var number: Int32 = 0
        guard let raw = unsafe xcb_connect(display, &number) else {
            throw KithError(.unreachable, "There is no memory for a connection to an X server.")
        }
        var isKept = false
        defer { if !isKept { unsafe xcb_disconnect(raw) } }
        guard unsafe xcb_connection_has_error(raw) == 0 else {
            throw KithError(.unreachable, "The screen \(name) cannot be reached: no X server, or it lets nobody in.")
        }
        guard let setup = unsafe xcb_get_setup(raw), let screen = unsafe X11Connection.screen(number, of: setup) else {
            throw KithError(.unreachable, "The X server has no screen \(number).")
        }
        unsafe self.raw = raw
        self.name = name
        self.display = display
        root = unsafe screen.pointee.root
        depth = unsafe screen.pointee.root_depth
        keycodes = unsafe setup.pointee.min_keycode...max(setup.pointee.min_keycode, setup.pointee.max_keycode)
        format = try unsafe X11PixelFormat(of: screen, setup)
        extensions = try unsafe X11Extensions(raw)
        atoms = try unsafe X11Atoms(raw)
        isKept = true
    }

    deinit { unsafe xcb_disconnect(raw) }

    /// Whether the connection has ended.
    var isGone: Bool { unsafe xcb_connection_has_error(raw) != 0 }

    /// The error of a call that needs the server after it has gone.
    var gone: KithError { KithError(.unreachable, "The screen \(name) is gone.", cause: X11Error.gone) }

    /// Sends what is still kept back.
    func flush() { unsafe _ = xcb_flush(raw) }

    /// A number for something new at the server.
    func makeID() -> UInt32 { unsafe xcb_generate_id(raw) }

    /// Waits for the answer to a request, and reads it.
    ///
    /// - Throws: ``gone``, and `.internal` with ``X11Error/refused(_:)`` as its cause.
    func reply<Cookie, Reply, Result>(
        to cookie: Cookie,
        _ receive: (
            OpaquePointer?, Cookie, UnsafeMutablePointer<UnsafeMutablePointer<xcb_generic_error_t>?>?
        ) -> UnsafeMutablePointer<Reply>?,
        _ body: (UnsafeMutablePointer<Reply>) -> Result
    ) throws(KithError) -> Result {
        var failure: UnsafeMutablePointer<xcb_generic_error_t>?
        let reply = unsafe receive(raw, cookie, &failure)
        if let reply = unsafe reply {
            defer { unsafe free(reply) }
            return unsafe body(reply)
        }
        try unsafe check(failure)
        throw gone
    }

    /// Waits until the server has done a request that has no answer.
    ///
    /// - Throws: as ``reply(to:_:_:)``.
    func check(_ cookie: xcb_void_cookie_t) throws(KithError) {
        try unsafe check(xcb_request_check(raw, cookie))
        if isGone { throw gone }
    }

    private func check(_ failure: UnsafeMutablePointer<xcb_generic_error_t>?) throws(KithError) {
        guard let failure = unsafe failure else { return }
        let code = unsafe failure.pointee.error_code
        unsafe free(failure)
        throw KithError(.internal, "The X server refused: error \(code).", cause: X11Error.refused(code))
    }

    /// Waits until the server has done everything it was asked.
    func synchronize() throws(KithError) {
        try unsafe reply(to: xcb_get_input_focus(raw), xcb_get_input_focus_reply) { _ in }
    }

    private static func screen(
        _ number: Int32, of setup: UnsafePointer<xcb_setup_t>
    ) -> UnsafeMutablePointer<xcb_screen_t>? {
        var screens = unsafe xcb_setup_roots_iterator(setup)
        for _ in 0..<max(number, 0) where unsafe screens.rem > 0 { unsafe xcb_screen_next(&screens) }
        return unsafe screens.rem > 0 ? screens.data : nil
    }
}

extension KithError {
    /// The number of the error with which an X server refused; `nil` for every other failure.
    var x11Refusal: UInt8? { if case .refused(let code) = cause as? X11Error { code } else { nil } }
}
#endif
