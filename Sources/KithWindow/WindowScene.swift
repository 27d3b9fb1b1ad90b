package import KithPixels

/// What a window is to draw, in pixels of the display, from the back to the front.
package struct WindowScene: Hashable, Sendable {
    /// A thing to draw over the picture.
    @frozen package enum Item: Hashable, Sendable {
        /// A rectangle of one colour, 0xAARRGGBB, over what is there.
        case fill(PixelRectangle, colour: UInt32)
        /// A line of text; the upper left corner of it.
        case text(String, x: Int, y: Int, colour: UInt32)
        /// The other device's pointer, its upper left corner.
        case pointer(PixelRectangle)
    }

    /// The place of the whole picture; it may reach beyond the window.
    package var picture: PixelRectangle?
    /// Whether each pixel is drawn as a square: at whole factors; otherwise neighbours are mixed.
    package var isSharp = true
    package var items: [Item] = []

    /// The colours.
    package enum Colour {
        package static let ground: UInt32 = 0xFF16_181C
        static let panel: UInt32 = 0xF022_262C
        static let button: UInt32 = 0xFF30_363F
        static let hovered: UInt32 = 0xFF43_4C58
        static let on: UInt32 = 0xFF2F_6FB5
        static let text: UInt32 = 0xFFE8_EAED
        static let quiet: UInt32 = 0xFFA9_B1BB
        static let shade: UInt32 = 0xB010_1214
        static let handle: UInt32 = 0xC0A9_B1BB
    }
}

/// The sizes of things with text on them, for a display of some scale.
package struct WindowFont {
    /// Pixels of the display for one of a plain display: 1…4.
    package var scale: Int
    /// The height of a line, in pixels of the display.
    package var height: Int
    /// The width of a line of text, in pixels of the display.
    package var width: (String) -> Int

    /// Takes over the measures of a font.
    package init(scale: Int, height: Int, width: @escaping (String) -> Int) {
        self.scale = scale
        self.height = height
        self.width = width
    }
}
