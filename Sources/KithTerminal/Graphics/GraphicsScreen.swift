/// The one picture on a terminal that shows pictures: what has to be written so that it is the one that is wanted.
package struct GraphicsScreen: Sendable {
    /// A picture and the cells it takes.
    package struct Placed: Hashable, Sendable {
        package var image: TerminalImage
        package var column: Int
        package var row: Int
        package var columns: Int
        package var rows: Int

        package init(_ image: TerminalImage, column: Int, row: Int, columns: Int, rows: Int) {
            self.image = image
            (self.column, self.row, self.columns, self.rows) = (column, row, columns, rows)
        }
    }

    private let graphics: GraphicsProtocol
    private var shown: Placed?

    package init(_ graphics: GraphicsProtocol) { self.graphics = graphics }

    /// True when the cells have to be drawn anew, all of them, before the next picture: sixels stay until something is
    /// written over them.
    package func needsRedraw(for wanted: Placed?) -> Bool { graphics == .sixel && shown != nil && shown != wanted }

    /// The bytes that bring the terminal from what it shows to what is wanted, to be written behind the cells.
    ///
    /// `isRedrawn`: all cells were drawn anew since, over the picture.
    package mutating func show(_ wanted: Placed?, isRedrawn: Bool) -> [UInt8] {
        guard wanted != shown || isRedrawn else { return [] }
        var bytes: [UInt8] = []
        if shown != nil, graphics == .kitty { bytes += KittyGraphics.removed }
        shown = wanted
        guard let wanted else { return bytes }
        bytes += Array("\u{1B}[\(wanted.row + 1);\(wanted.column + 1)H".utf8)
        switch graphics {
        case .kitty: bytes += KittyGraphics.shown(wanted.image, columns: wanted.columns, rows: wanted.rows)
        case .sixel: bytes += SixelGraphics.shown(wanted.image)
        }
        return bytes
    }

    /// The bytes that take the picture away, when the terminal is given back.
    package mutating func clear() -> [UInt8] { show(nil, isRedrawn: false) }
}
