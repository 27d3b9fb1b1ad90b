/// The bytes that carry changes of a picture to a viewer.
///
/// A message is one byte of flags, with ``Flags/start`` two varints (width and height), then the body: commands one after
/// the other, ended by a zero byte. With ``Flags/compressed`` the body is a part of one zstd stream (RFC 8878) that runs
/// from the last start on and is flushed at each message's end: what was sent before helps to send what resembles it.
///
/// | command | after its byte and the rectangle (x, y, width, height: 16 bits each, big-endian) |
/// | --- | --- |
/// | 1 solid | B, G, R |
/// | 2 copy | x, y (16 bits each) of the pixels that move here |
/// | 3 indices | colours, then one byte a pixel, column by column |
/// | 4 runs | colours, then pairs of an index and a varint length, row by row |
/// | 5 pixels | three planes: green, red − green, blue − green; each byte less the one on its left |
///
/// Indices point into a palette of 256 colours that both ends keep from the start on. "Colours" is a count in 16 bits, then
/// so many of (index, B, G, R), which are put into the palette first. Column by column, because letters are taller than
/// wide: a letter seen before is then one run of bytes seen before. Messages are applied in their order, each once.
enum TileFormat {
    /// The first byte of a message.
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// The picture begins anew: black, of the size that follows, with an empty palette and a new zstd stream.
        static let start = Flags(rawValue: 1)
        /// The body is compressed.
        static let compressed = Flags(rawValue: 2)
    }

    enum Command: UInt8 {
        case end, solid, copy, indices, runs, pixels
    }

    /// The most pixels of a rectangle that is not solid or copied.
    static let rectangleLimit = 1 << 17
    /// The most commands of a message.
    static let commandLimit = 1 << 16
    /// The logarithm of the bytes of the past that the stream refers to: what each end keeps of it.
    static let windowLog: Int32 = 20
    /// The largest width and height.
    static let sideLimit = 65_535
}

/// The reason why a message did not become pixels.
@nonexhaustive package enum TileError: Error, Hashable, Sendable {
    /// It ends too early.
    case truncated
    /// It says more than it may: a picture above the limit, or more pixels than a message may have.
    case tooMuch
    /// A rectangle is empty or not inside the picture.
    case outside
    /// It breaks a rule of the format; says which.
    case malformed(String)
    /// It is compressed, and this build cannot take it apart.
    case unsupported
    /// An earlier message was refused; only one that starts anew is taken now.
    case failed
}
