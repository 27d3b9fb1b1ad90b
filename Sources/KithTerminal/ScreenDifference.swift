/// The changes of a screen since what a viewer was sent before, in the order in which they are made.
package struct ScreenDifference: Hashable, Sendable {
    /// A style and the number that runs call it by, from now on.
    package struct NumberedStyle: Hashable, Sendable {
        package var number: Int
        package var style: RunStyle
    }

    /// The rows from `top` to `bottom` move up by `count`, down when it is negative; blank ones come in.
    package struct Scroll: Hashable, Sendable {
        package var top: Int
        package var bottom: Int
        package var count: Int
    }

    /// A row, or a line of the scrollback, as it is now.
    package struct NumberedLine: Hashable, Sendable {
        package var number: Int
        /// The runs, each with the number of its style; 0 is the plain one.
        package var runs: [(run: TextRun, style: Int)]
        package var isWrapped: Bool

        package static func == (first: Self, second: Self) -> Bool {
            first.number == second.number && first.isWrapped == second.isWrapped
                && first.runs.elementsEqual(second.runs) { $0.run == $1.run && $0.style == $1.style }
        }

        package func hash(into hasher: inout Hasher) { hasher.combine(number) }
    }

    /// The cursor as it is drawn.
    package struct Cursor: Hashable, Sendable {
        package enum Shape: String, Sendable {
            case block, underline, bar
        }

        package var column = 0
        package var row = 0
        package var shape = Shape.block
        package var isVisible = true
        package var blinks = false
    }

    /// The modes that a viewer has to know.
    package struct Modes: Hashable, Sendable {
        package var mouse = MouseTracking.off
        package var bracketedPaste = false
        package var applicationCursor = false
        package var isAlternate = false
        package var isReversed = false
        package var focusEvents = false
        /// The wheel is sent as keys.
        package var sendsWheelAsKeys = false
    }

    /// The lines before the screen.
    package struct ScrollbackRange: Hashable, Sendable {
        /// The number of the oldest.
        package var first = 0
        package var count = 0
    }

    package var styles: [NumberedStyle] = []
    /// The size of the grid, whose rows are all blank then.
    package var size: (columns: Int, rows: Int)?
    package var scroll: Scroll?
    package var rows: [NumberedLine] = []
    package var cursor: Cursor?
    package var title: String?
    package var modes: Modes?
    package var scrollback: ScrollbackRange?
    package var rings = false

    package init() {}

    package static func == (first: Self, second: Self) -> Bool {
        first.styles == second.styles && first.size?.columns == second.size?.columns
            && first.size?.rows == second.size?.rows && first.scroll == second.scroll && first.rows == second.rows
            && first.cursor == second.cursor && first.title == second.title && first.modes == second.modes
            && first.scrollback == second.scrollback && first.rings == second.rings
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(rows) }

    /// True when nothing has changed.
    package var isEmpty: Bool {
        size == nil && scroll == nil && rows.isEmpty && cursor == nil && title == nil && modes == nil
            && scrollback == nil && !rings
    }
}
