#if Screen && os(Linux) && canImport(CXCB)
import CXCB

/// A font of the server's, whose characters are all as wide.
struct X11Font {
    /// Its number at the server.
    let number: UInt32
    /// The pixels of a character across, above the base line and below it.
    let width: Int32
    let ascent: Int32
    let descent: Int32

    /// Unicode where the server has such a font; every server has the last.
    private static let names = [
        "-misc-fixed-medium-r-normal--18-120-100-100-c-90-iso10646-1",
        "-misc-fixed-medium-r-normal--15-140-75-75-c-90-iso10646-1", "fixed",
    ]

    /// Opens the best there is.
    init(_ connection: X11Connection) {
        number = connection.makeID()
        for name in Self.names {
            let cookie = unsafe xcb_open_font_checked(connection.raw, number, UInt16(name.utf8.count), name)
            if (try? connection.check(cookie)) != nil { break }
        }
        let cookie = unsafe xcb_query_font(connection.raw, number)
        let size = try? unsafe connection.reply(to: cookie, xcb_query_font_reply) {
            unsafe (
                Int32($0.pointee.max_bounds.character_width), Int32($0.pointee.font_ascent),
                Int32($0.pointee.font_descent)
            )
        }
        // A server without any font shows buttons all the same.
        (width, ascent, descent) = size ?? (9, 12, 3)
    }

    /// Gives it back.
    func close(_ connection: X11Connection) { unsafe xcb_close_font(connection.raw, number) }

    /// Draws at most 255 characters from the left end of their base line on.
    func draw(
        _ text: String, _ x: Int32, _ y: Int32, _ connection: X11Connection, _ window: UInt32, _ graphics: UInt32
    ) {
        let characters = text.utf16.prefix(255).map {
            xcb_char2b_t(byte1: UInt8($0 >> 8), byte2: UInt8(truncatingIfNeeded: $0))
        }
        unsafe xcb_image_text_16(
            connection.raw, UInt8(characters.count), window, graphics, Int16(clamping: x), Int16(clamping: y),
            characters)
    }
}
#endif
