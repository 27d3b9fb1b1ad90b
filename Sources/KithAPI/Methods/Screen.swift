import KithIdentity
public import KithWire

/// The screen of a device: to be seen with the grant `screen:view`, and controlled with `screen:control`.
///
/// A session begins with ``View``; what travels beside the pictures has streams of its own, so that no key waits behind
/// them.
///
///     viewer                          host
///       │──────── View ───────────────▶│  a person there is asked, unless the rules say otherwise
///       │◀─ session, displays ─────────│
///       │◀═ ScreenUpdate … ScreenReply ═▶│  pictures and the cursor; what has been received
///       │──────── Control ────────────▶│  ScreenInput ═▶
///       │──────── Clipboard ──────────▶│  ScreenClipboard ═ both ways
///       │──────── Chat ───────────────▶│  ChatLine ═ both ways
public enum Screen {
    /// A rectangle of pixels, half-open at its right and lower edge.
    public struct Rectangle: Codable, Hashable, Sendable {
        /// The leftmost column, in pixels.
        public var x: Int32
        /// The uppermost row, in pixels.
        public var y: Int32
        /// Columns, at least 1.
        public var width: UInt32
        /// Rows, at least 1.
        public var height: UInt32

        /// Makes a rectangle.
        public init(x: Int32 = 0, y: Int32 = 0, width: UInt32, height: UInt32) {
            self.x = x
            self.y = y
            self.width = width
            self.height = height
        }
    }

    /// A monitor, or all of them together.
    public struct Display: Codable, Hashable, Sendable {
        /// Its number, as `--display` takes it: from 1; 0 is all of them together.
        public var number: UInt32
        /// The name of its connector: `HDMI-1`.
        public var name: String
        /// Its place among the others; pictures and pointers of a session count from its upper left corner.
        public var bounds: Rectangle
        /// Whether it is where new windows appear.
        public var isPrimary: Bool

        /// Describes a display.
        public init(number: UInt32, name: String, bounds: Rectangle, isPrimary: Bool) {
            self.number = number
            self.name = name
            self.bounds = bounds
            self.isPrimary = isPrimary
        }
    }

    /// The parts of a session that a viewer may have, or not.
    public struct Permissions: Codable, Hashable, Sendable {
        /// Type and point.
        public var control: Bool
        /// Exchange clipboards.
        public var clipboard: Bool
        /// Keep a recording; absent, as older devices leave it: no.
        ///
        /// What can be seen can be recorded by other means. This is for viewers that ask, and for the person who is seen
        /// to know of it. Who asks for it without the grant is not let in with less: ``View`` fails with `.denied`.
        public var record: Bool?
        /// Keep the screen dark for whoever is in front of it; absent, as older devices leave it: no.
        ///
        /// Who asks for it without the grant, or of a screen that cannot be darkened, is not let in with less: ``View``
        /// fails with `.denied` or `.unsupported`.
        public var privacy: Bool?

        /// Makes permissions.
        public init(control: Bool = false, clipboard: Bool = false, record: Bool? = nil, privacy: Bool? = nil) {
            self.control = control
            self.clipboard = clipboard
            self.record = record
            self.privacy = privacy
        }

        /// The permissions that are in both.
        public func within(_ most: Permissions) -> Permissions {
            Permissions(
                control: control && most.control, clipboard: clipboard && most.clipboard,
                record: record == true && most.record == true ? true : nil,
                privacy: privacy == true && most.privacy == true ? true : nil)
        }
    }

    /// Lists the displays.
    public enum Displays: Method {
        /// The input: nothing.
        public typealias Input = Nothing

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// Where the pictures come from: `x11 :0`, `vnc localhost:5901`.
            public var source: String
            /// The displays by their numbers; all of them together first.
            public var displays: [Display]

            /// Makes the answer.
            public init(source: String, displays: [Display]) {
                self.source = source
                self.displays = displays
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "screen.displays", by: .grant(.screen, "view"), "Lists the displays that can be seen.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.screen(.view)) }
    }

    /// Begins a session: shows a display until either end leaves.
    ///
    /// Fails with `.denied` when the person there refuses, or nobody answers; with `.notFound` when there is no screen.
    public enum View: StreamMethod {
        /// The input: what to see, and how.
        public struct Input: Codable, Hashable, Sendable {
            /// The number of the display; absent: all of them together.
            ///
            /// A session that goes on shows the one it was for, if the host still knows it.
            public var display: UInt32?
            /// The pictures a second, at most 1…240.
            public var rate: UInt16
            /// The quality of what moves, 1…100, for a viewer that takes video; what rests is exact at any.
            public var quality: UInt8
            /// What else the viewer asks for, so that a person there is asked once.
            public var wants: Permissions
            /// The session of this viewer that was lost, to go on without anybody being asked again.
            public var resumes: String?
            /// Whether what moves may come as video; absent, as older viewers leave it: all changes come exactly.
            public var takesVideo: Bool?

            /// Makes the input.
            public init(
                display: UInt32? = nil, rate: UInt16 = 60, quality: UInt8 = 80, wants: Permissions = .init(),
                resumes: String? = nil, takesVideo: Bool? = nil
            ) {
                self.display = display
                self.rate = rate
                self.quality = quality
                self.wants = wants
                self.resumes = resumes
                self.takesVideo = takesVideo
            }
        }

        /// The answer: the session.
        public struct Output: Codable, Hashable, Sendable {
            /// Its name, for the streams beside this one.
            public var session: String
            /// Where the pictures come from.
            public var source: String
            /// The display that is shown.
            public var display: Display
            /// All of them.
            public var displays: [Display]
            /// What the session may do besides.
            public var permissions: Permissions

            /// Makes the answer.
            public init(
                session: String, source: String, display: Display, displays: [Display], permissions: Permissions
            ) {
                self.session = session
                self.source = source
                self.display = display
                self.displays = displays
                self.permissions = permissions
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "screen.view", by: .grant(.screen, "view"), "Shows a display as it changes.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.screen(.view)) }
        /// What the viewer says to the pictures.
        public typealias Upstream = ScreenReply
        /// Pictures, and what goes with them.
        public typealias Downstream = ScreenUpdate
    }

    /// Types and points in a session; keys and buttons that are held are let go within 100 ms of its end.
    public enum Control: StreamMethod {
        /// The input: the session.
        public struct Input: Codable, Hashable, Sendable {
            /// Its name, as ``View`` answered.
            public var session: String

            /// Makes the input.
            public init(session: String) { self.session = session }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "screen.control", by: .grant(.screen, "control"), carrying: .input, "Types and points on a screen.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.screen(.control)) }
        /// Keys, buttons and movements.
        public typealias Upstream = ScreenInput
        /// Who controls.
        public typealias Downstream = ControlNotice
    }

    /// Who controls the screen: the one who typed or pointed last, until half a second of rest.
    ///
    /// Comes when that changes, and after each ``ScreenInput/release``.
    public struct ControlNotice: StreamMessage, Hashable {
        /// Whether what this viewer sends has an effect now.
        public var isInControl: Bool
        /// The viewer that is in control instead; `nil` for another one of the same device.
        public var controller: String?
        /// The number of messages that have had their effect, or been left out, since the stream began.
        public var done: UInt64

        /// Makes a notice.
        public init(isInControl: Bool, controller: String? = nil, done: UInt64) {
            self.isInControl = isInControl
            self.controller = controller
            self.done = done
        }
    }

    /// Exchanges clipboards in a session.
    public enum Clipboard: StreamMethod {
        /// The input: the session.
        public typealias Input = Control.Input
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "screen.clipboard", by: .grant(.screen, "clipboard"), carrying: .bulk,
            "Exchanges clipboards with a screen.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.screen(.clipboard)) }
        /// What the viewer's clipboard has.
        public typealias Upstream = ScreenClipboard
        /// What the host's has.
        public typealias Downstream = ScreenClipboard
    }

    /// Exchanges lines of text with the person at the screen.
    public enum Chat: StreamMethod {
        /// The input: the session.
        public typealias Input = Control.Input
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "screen.chat", by: .grant(.screen, "view"), "Exchanges lines of text with the person at a screen.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.screen(.view)) }
        /// What the viewer's person writes.
        public typealias Upstream = ChatLine
        /// What the person at the screen writes.
        public typealias Downstream = ChatLine
    }

    /// A line that one person writes to another during a session.
    public struct ChatLine: StreamMessage, Hashable {
        /// The most characters of a line, in Unicode scalars.
        public static let lengthLimit = 500
        /// The time for which it stands over the picture, at either end.
        public static let shownFor = Duration.seconds(30)
        /// 2,100 bytes.
        public static var sizeLimit: Int { 2_100 }

        /// One line, 1…500 scalars, none of which controls anything.
        public let text: String

        /// Makes a line of what was written: of several lines one, with one space where there are more.
        ///
        /// - Throws: `KithError` `.invalid` when nothing is left, or more than ``lengthLimit`` scalars.
        public init(_ text: String) throws(KithError) {
            let words = text.unicodeScalars.split { !Self.isPlain($0) }
            let line = words.map { String($0) }.joined(separator: " ")
            guard !line.isEmpty else { throw KithError(.invalid, "There is nothing in that line.") }
            guard line.unicodeScalars.count <= Self.lengthLimit else {
                throw KithError(.invalid, "A line has at most \(Self.lengthLimit) characters.")
            }
            self.text = line
        }

        private enum CodingKeys: CodingKey { case text }

        /// Reads a line, as ``init(_:)`` takes it.
        public init(from decoder: any Decoder) throws {
            self = try Self(try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .text))
        }

        /// Whether a scalar is only itself: it moves nothing, hides nothing, and turns no text around.
        private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator, .spaceSeparator, .surrogate, .privateUse, .unassigned:
                false
            // Joiners are parts of letters and emoji.
            case .format: scalar == "\u{200D}" || scalar == "\u{200C}"
            // Letters and signs that are nothing to the eye: the fillers of Hangul, and Braille without a dot.
            default: !["\u{115F}", "\u{1160}", "\u{3164}", "\u{FFA0}", "\u{2800}"].contains(scalar)
            }
        }
    }
}
