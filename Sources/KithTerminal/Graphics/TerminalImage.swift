/// A picture to be shown in a terminal that can: rows of red, green and blue.
package struct TerminalImage: Hashable, Sendable {
    package let width: Int
    package let height: Int
    /// Three bytes a pixel.
    package let pixels: [UInt8]

    /// - Precondition: three bytes for each pixel.
    package init(width: Int, height: Int, pixels: [UInt8]) {
        precondition(width > 0 && height > 0 && pixels.count == width * height * 3, "three bytes for each pixel")
        (self.width, self.height, self.pixels) = (width, height, pixels)
    }
}

/// The way in which a terminal shows pictures.
package enum GraphicsProtocol: Hashable, Sendable {
    /// kitty's (https://sw.kovidgoyal.net/kitty/graphics-protocol): the terminal keeps pictures and scales them.
    case kitty
    /// DEC's sixels, as the VT340 has them: pixels of 256 colours, in bands of six rows.
    case sixel
}
