package import KithAPI
package import KithWire

/// A screen that can be seen, and as a rule controlled: an X server, an RFB server, or a script.
///
/// One session host owns it. Calls wait as long as the screen takes; when it is gone for good they throw `.unreachable`.
package protocol ScreenSource: AnyObject, Sendable {
    /// Where the pictures come from, for a person: `x11 :0`, `vnc localhost:5901`.
    var name: String { get }

    /// The displays now: all of them together first, with the number 0.
    var displays: [Screen.Display] { get async throws(KithError) }

    /// The changes since the last call, in order, coalesced: waits for the first of them.
    ///
    /// One task asks. The first answer has the displays, and the cursor where it is known.
    ///
    /// - Throws: `.unreachable` when the screen is gone. `.cancelled` when the task is cancelled.
    func nextChanges() async throws(KithError) -> [ScreenChange]

    /// Copies the pixels of `area`, in pixels of all displays together, into `target`: four bytes a pixel, blue, green, red,
    /// and 0xFF; rows `stride` bytes apart.
    ///
    /// What lies outside of the screen (it may have shrunk) stays as it was.
    func capture(
        _ area: Screen.Rectangle, into target: UnsafeMutableRawBufferPointer, stride: Int
    ) async throws(KithError)

    /// Has an input take effect; positions count from the upper left corner of all displays together.
    ///
    /// Returns once the screen has been sent it, in the order of the calls.
    func perform(_ input: ScreenInput) async throws(KithError)

    /// Lets go of every key and button that ``perform(_:)`` pressed.
    func releaseAll() async

    /// Reads the clipboard in one format; at most ``ScreenClipboard/contentLimit`` bytes.
    ///
    /// - Throws: `.notFound` when it has none in that format, `.exhausted` when it is larger, `.timedOut` when its owner
    ///   does not answer within 2 s.
    func clipboard(_ selection: ScreenClipboard.Selection, as format: ScreenClipboard.Format) async throws(KithError)
        -> [UInt8]

    /// Makes this the owner of a clipboard, which offers `formats`; their content is asked of `content` when somebody pastes.
    func offerClipboard(
        _ selection: ScreenClipboard.Selection, formats: [ScreenClipboard.Format],
        content: @escaping @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
    ) async throws(KithError)

    /// Shows on the screen itself who sees it and what waits for an answer; empty: nothing.
    ///
    /// `decide` is called when a person there answers, by a click or by the key that ends all. A source that cannot show anything does nothing, and says false.
    func show(_ notices: [ScreenNotice], decide: @escaping @Sendable (ScreenNotice.Answer) -> Void) async -> Bool

    /// Has the screen be dark for whoever is in front of it, or not any more; what is captured stays as it is.
    ///
    /// - Throws: `.unsupported` when this screen cannot be darkened.
    func setDark(_ isDark: Bool) async throws(KithError)

    /// Gives everything back that it holds; calls that wait end with `.closed`.
    func close() async
}

extension ScreenSource {
    package func setDark(_ isDark: Bool) async throws(KithError) {
        guard isDark else { return }
        throw KithError(.unsupported, "The screen there, \(name), cannot be kept dark.")
    }
}

/// One thing that changed on a screen.
package enum ScreenChange: Hashable, Sendable {
    /// These areas may look different, in pixels of all displays together; they may overlap.
    case damage([Screen.Rectangle])
    /// The displays are these now: everything may look different.
    case displays([Screen.Display])
    /// The pointer looks like this now; 0×0: it is hidden.
    case cursor(CursorImage)
    /// The pointer is here, in pixels of all displays together.
    case pointer(x: Int32, y: Int32)
    /// Somebody copied or selected something, which has these formats.
    case clipboard(ScreenClipboard.Selection, [ScreenClipboard.Format])
    /// The screen that was to be dark is not any more, and cannot be.
    case lit
}

/// The shape of a pointer.
package struct CursorImage: Hashable, Sendable {
    /// Columns, 0…512.
    package var width: Int
    /// Rows, 0…512.
    package var height: Int
    /// The column of the hot spot.
    package var hotX: Int
    /// The row of the hot spot.
    package var hotY: Int
    /// Four bytes a pixel, row by row: blue, green, red, alpha, premultiplied.
    package var pixels: [UInt8]

    /// Describes a shape.
    package init(width: Int, height: Int, hotX: Int, hotY: Int, pixels: [UInt8]) {
        self.width = width
        self.height = height
        self.hotX = hotX
        self.hotY = hotY
        self.pixels = pixels
    }
}

/// Something a person at the screen is shown.
package enum ScreenNotice: Hashable, Sendable {
    /// A device sees the screen, and may do this besides.
    case active(session: String, name: String, Screen.Permissions)
    /// A device asks to.
    case waiting(session: String, name: String, Screen.Permissions)
    /// The person at a device wrote a line.
    case said(name: String, String)

    /// An answer a person there gave.
    package enum Answer: Hashable, Sendable {
        /// The session is let in, or refused.
        case decided(session: String, isLetIn: Bool)
        /// All sessions are to end.
        case panic
    }
}
