/// JPEG as the Tight encoding uses it; the implementation is a library's.
package protocol JPEGCodec: Sendable {
    /// The colours, 0xXXRRGGBB, of an image that has exactly that size; `nil` when it has another, or is damaged.
    func decode(_ bytes: [UInt8], width: Int, height: Int) -> [UInt32]?

    /// A JFIF image of colours that come row after row without gaps; `nil` when none can be made.
    ///
    /// `quality` is 1…100; `halvesColors` stores colour at half the resolution (4:2:0).
    func encode(_ pixels: [UInt32], width: Int, height: Int, quality: Int, halvesColors: Bool) -> [UInt8]?
}
