package import KithAPI
package import KithPixels
package import KithWire

/// One message from `kith` to the program that has its window, `kith-viewer`.
@frozen package enum WindowCommand: Codable, Hashable, Sendable {
    /// The first: opens the window.
    case open(WindowOptions)
    /// A picture of another size, all of it new, in memory whose descriptor comes with this message.
    case picture(width: Int, height: Int)
    /// These parts of the picture are new. The memory is not written to before ``WindowEvent/shown`` has come back.
    case changed([Area])
    /// The other device's pointer has this shape; none: it is hidden.
    case pointer(Pointer?)
    /// The other device's pointer is there.
    case pointerMoved(x: Int, y: Int)
    /// The session begins, is lost and sought again, or is over.
    case phase(Phase)
    /// The permissions, as they are now.
    case permissions(Screen.Permissions)
    /// Input has an effect, or has none because somebody else types or points.
    case control(isInControl: Bool, by: String?)
    /// The displays, and the one that is shown.
    case displays([Screen.Display], shown: UInt32)
    /// How well it goes, once a second; ``WindowEvent/responded`` is the answer.
    case statistics(WindowStatistics)
    /// The other device's clipboard has this text.
    case clipboard(String)
    /// The person at the screen wrote a line.
    case said(String)
    /// Something that a person should read.
    case notice(String)
    /// How far the copy of files is that were put on the window; none: it is over.
    case copying(String?)

    /// A rectangle of the picture.
    package struct Area: Codable, Hashable, Sendable {
        package var x: Int
        package var y: Int
        package var width: Int
        package var height: Int

        /// Takes over a rectangle of pixels.
        package init(_ rectangle: PixelRectangle) {
            (x, y, width, height) = (rectangle.x, rectangle.y, rectangle.width, rectangle.height)
        }

        /// The part of it that a picture has; nothing for what makes no sense.
        package func rectangle(in size: PixelSize) -> PixelRectangle {
            guard (0...size.width).contains(x), (0...size.height).contains(y) else { return .empty }
            return PixelRectangle(
                x: x, y: y, width: min(width, size.width - x), height: min(height, size.height - y))
        }
    }

    /// A pointer's shape.
    package struct Pointer: Codable, Hashable, Sendable {
        package var width: Int
        package var height: Int
        package var hotX: Int
        package var hotY: Int
        /// Four bytes a pixel, B, G, R, A, premultiplied.
        package var pixels: ByteString

        /// Takes over a shape.
        package init(_ shape: CursorShape) {
            (width, height) = (shape.size.width, shape.size.height)
            (hotX, hotY) = shape.hotspot
            pixels = ByteString(
                shape.pixels.flatMap { pixel in (0..<4).map { UInt8(truncatingIfNeeded: pixel >> UInt32($0 * 8)) } })
        }

        /// The shape; `nil` when the numbers do not fit each other.
        package var shape: CursorShape? {
            let sides = 1...CursorShape.sideLimit
            guard sides.contains(width), sides.contains(height), pixels.bytes.count == width * height * 4 else {
                return nil
            }
            let bytes = pixels.bytes
            let values = (0..<width * height).map { index in
                (0..<4).reduce(UInt32(0)) { $0 | UInt32(bytes[index * 4 + $1]) << UInt32($1 * 8) }
            }
            return CursorShape(size: PixelSize(width: width, height: height), hotspot: (hotX, hotY), pixels: values)
        }
    }

    /// The part of a session's life that a person sees.
    @frozen package enum Phase: String, Codable, Hashable, Sendable {
        case connecting, active, reconnecting, ended
    }
}

/// One message from the window's program to `kith`.
@frozen package enum WindowEvent: Codable, Hashable, Sendable {
    /// The window is there.
    case opened
    /// The last picture or change has been taken over: the memory may be written to again.
    case shown
    /// Statistics have been taken over: the window does not stand still.
    case responded
    /// The person typed or pointed.
    case input(ScreenInput)
    /// The person chose another display.
    case display(UInt32)
    /// The person wants this quality of what moves, 1…100.
    case quality(UInt8)
    /// The clipboard here has this text now.
    case clipboard(String)
    /// The person wrote a line to the one at the screen.
    case said(String)
    /// The person put these files and folders on the window, all at once.
    case dropped([Files.Path])
    /// The person closed the window.
    case closed
    /// There can be no window: the reason, as a sentence.
    case failed(String)
}

/// The choices for a window.
package struct WindowOptions: Codable, Hashable, Sendable {
    /// The name of the other device, for the title.
    package var device: String
    package var scale: WindowScale
    package var isFullScreen: Bool
    /// Whether the person only looks, until they say otherwise; `mayControl` says that they can.
    package var isViewOnly: Bool
    package var mayControl: Bool
    /// Whether all keys are the other device's from the start.
    package var grabsKeyboard: Bool
    package var showsStatistics: Bool
    /// The quality of what moves, 1…100.
    package var quality: UInt8

    /// Makes choices.
    package init(
        device: String, scale: WindowScale = .fit, isFullScreen: Bool = false, isViewOnly: Bool = false,
        mayControl: Bool = true, grabsKeyboard: Bool = false, showsStatistics: Bool = false,
        quality: UInt8 = 80
    ) {
        self.device = device
        self.scale = scale
        self.isFullScreen = isFullScreen
        self.isViewOnly = isViewOnly
        self.mayControl = mayControl
        self.grabsKeyboard = grabsKeyboard
        self.showsStatistics = showsStatistics
        self.quality = quality
    }
}
