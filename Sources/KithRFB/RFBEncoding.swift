/// The number of an encoding, or of a pseudo-encoding that names an extension (RFC 6143 §7.7, §7.8; the extensions are
/// in the community's rfbproto).
package struct RFBEncoding: RawRepresentable, Hashable, Sendable {
    package var rawValue: Int32

    package init(rawValue: Int32) { self.rawValue = rawValue }

    package static let raw = RFBEncoding(rawValue: 0)
    package static let copyRect = RFBEncoding(rawValue: 1)
    package static let rre = RFBEncoding(rawValue: 2)
    package static let hextile = RFBEncoding(rawValue: 5)
    package static let tight = RFBEncoding(rawValue: 7)
    package static let zrle = RFBEncoding(rawValue: 16)

    package static let desktopSize = RFBEncoding(rawValue: -223)
    package static let lastRect = RFBEncoding(rawValue: -224)
    package static let cursor = RFBEncoding(rawValue: -239)
    package static let xCursor = RFBEncoding(rawValue: -240)
    package static let extendedKeyEvents = RFBEncoding(rawValue: -258)
    package static let desktopName = RFBEncoding(rawValue: -307)
    package static let extendedDesktopSize = RFBEncoding(rawValue: -308)
    package static let fence = RFBEncoding(rawValue: -312)
    package static let continuousUpdates = RFBEncoding(rawValue: -313)
    package static let cursorWithAlpha = RFBEncoding(rawValue: -314)
    package static let extendedMouseButtons = RFBEncoding(rawValue: -316)
    package static let extendedClipboard = RFBEncoding(rawValue: Int32(bitPattern: 0xC0A1_E5CE))

    /// The wish for a JPEG quality, 0 (small) to 9 (good).
    package static func quality(_ level: Int) -> RFBEncoding { RFBEncoding(rawValue: -32 + Int32(level)) }
    /// The wish for an effort in compression, 0 (fast) to 9 (small).
    package static func compression(_ level: Int) -> RFBEncoding { RFBEncoding(rawValue: -256 + Int32(level)) }

    /// The JPEG quality that is wished for.
    var qualityLevel: Int? { (-32 ... -23).contains(rawValue) ? Int(rawValue + 32) : nil }
    /// The effort in compression that is wished for.
    var compressionLevel: Int? { (-256 ... -247).contains(rawValue) ? Int(rawValue + 256) : nil }
}

/// A monitor in the picture (rfbproto, Screen Model).
package struct RFBScreen: Hashable, Sendable {
    package var id: UInt32
    package var frame: RFBRectangle
    package var flags: UInt32

    package init(id: UInt32, frame: RFBRectangle, flags: UInt32 = 0) {
        self.id = id
        self.frame = frame
        self.flags = flags
    }
}

/// The result of a request for another desktop size, as its number on the wire.
package enum RFBResizeStatus: UInt16, Sendable {
    case done = 0
    case prohibited = 1
    case outOfResources = 2
    case invalidLayout = 3
    case forwarded = 4
}

/// What can be pressed on a mouse; scrolling by a step is a press and a release.
package struct RFBButtons: OptionSet, Hashable, Sendable {
    package var rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let left = RFBButtons(rawValue: 1)
    package static let middle = RFBButtons(rawValue: 2)
    package static let right = RFBButtons(rawValue: 4)
    package static let scrollUp = RFBButtons(rawValue: 8)
    package static let scrollDown = RFBButtons(rawValue: 16)
    package static let scrollLeft = RFBButtons(rawValue: 32)
    package static let scrollRight = RFBButtons(rawValue: 64)
    package static let back = RFBButtons(rawValue: 128)
    package static let forward = RFBButtons(rawValue: 256)
}

/// A pointer's shape.
package struct RFBCursor: Hashable, Sendable {
    /// The largest side, in pixels.
    package static let sideLimit = 512

    package var width: Int
    package var height: Int
    /// The pixel that is where the pointer is.
    package var hotX: Int
    package var hotY: Int
    /// 0xAARRGGBB, row after row, not premultiplied.
    package var pixels: [UInt32]

    package init(width: Int, height: Int, hotX: Int, hotY: Int, pixels: [UInt32]) {
        precondition(pixels.count == width * height, "there is one value for each pixel")
        self.width = width
        self.height = height
        self.hotX = hotX
        self.hotY = hotY
        self.pixels = pixels
    }
}
