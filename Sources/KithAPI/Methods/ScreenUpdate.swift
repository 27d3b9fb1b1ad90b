public import KithWire

/// One message from a host to a viewer of its screen.
@nonexhaustive
public enum ScreenUpdate: Hashable, Sendable {
    /// A change of the picture.
    case picture(Picture)
    /// A frame of what moves, for a viewer that takes video.
    case video(Video)
    /// A message of the pointer's channel, as KithPixels writes it: a shape, a place.
    case cursor(ByteString)
    /// The displays as they are now, and the one that is shown: pictures that follow have its size.
    case displays([Screen.Display], shown: UInt32)
    /// The permissions as they are now.
    case permissions(Screen.Permissions)
    /// The reason the session is over.
    case ended(KithError.Code, message: String)

    /// A change of the picture.
    public struct Picture: Codable, Hashable, Sendable {
        /// The number of the change, from 1.
        public var number: UInt64
        /// The time it was captured, in microseconds since the session began on the host.
        public var captured: UInt64
        /// The change, as KithPixels' tile codec writes it.
        public var tiles: ByteString
        /// Whether the viewer's picture then equals the host's bit for bit.
        public var isExact: Bool
        /// Whether more of the same change follows: nothing is to be shown before.
        public var continues: Bool

        /// Makes a change.
        public init(number: UInt64, captured: UInt64, tiles: ByteString, isExact: Bool, continues: Bool = false) {
            self.number = number
            self.captured = captured
            self.tiles = tiles
            self.isExact = isExact
            self.continues = continues
        }
    }

    /// A part of a frame of what moves: it resembles the host's picture, until the same pixels come exactly.
    ///
    /// Frames come in order and whole, as all of a session's picture does on its one stream, so that a viewer has every
    /// frame that another refers to. Parts are small: changes of the picture and the pointer go between them.
    public struct Video: Codable, Hashable, Sendable {
        /// The number of the frame, counted with the changes of the picture.
        public var number: UInt64
        /// The time it was captured, in microseconds since the session began on the host.
        public var captured: UInt64
        /// The next bytes of the coded frame: H.264 in the constrained baseline profile (ITU-T H.264, Annex B).
        public var bytes: ByteString
        /// The place where the frame is drawn, as KithPixels writes it, with its last bytes; absent before.
        public var layout: ByteString?

        /// Makes a part of a frame.
        public init(number: UInt64, captured: UInt64, bytes: ByteString, layout: ByteString? = nil) {
            self.number = number
            self.captured = captured
            self.bytes = bytes
            self.layout = layout
        }
    }
}

extension ScreenUpdate: StreamMessage {
    /// 4 MiB: a larger change of the picture comes in parts.
    public static var sizeLimit: Int { 4 << 20 }

    private struct Form: Codable {
        struct Displays: Codable {
            var all: [Screen.Display]
            var shown: UInt32
        }
        struct End: Codable {
            var code: KithError.Code
            var message: String
        }
        var picture: Picture?
        var video: Video?
        var cursor: ByteString?
        var displays: Displays?
        var permissions: Screen.Permissions?
        var ended: End?
    }

    /// Reads the one member it knows.
    ///
    /// - Throws: `KithError` `.invalid` when there is none.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        if let value = form.picture {
            self = .picture(value)
        } else if let value = form.video {
            self = .video(value)
        } else if let value = form.cursor {
            self = .cursor(value)
        } else if let value = form.displays {
            guard value.all.count <= 64 else { throw KithError(.invalid, "A device has at most 64 displays.") }
            self = .displays(value.all, shown: value.shown)
        } else if let value = form.permissions {
            self = .permissions(value)
        } else if let value = form.ended {
            self = .ended(value.code, message: String(value.message.prefix(1_024)))
        } else {
            throw KithError(.invalid, "A message of a screen has one member, named for what it carries.")
        }
    }

    /// Writes the one member.
    public func encode(to encoder: any Encoder) throws {
        var form = Form()
        switch self {
        case .picture(let value): form.picture = value
        case .video(let value): form.video = value
        case .cursor(let value): form.cursor = value
        case .displays(let all, let shown): form.displays = Form.Displays(all: all, shown: shown)
        case .permissions(let value): form.permissions = value
        case .ended(let code, let message): form.ended = Form.End(code: code, message: message)
        }
        try form.encode(to: encoder)
    }
}

/// One message from a viewer of a screen to its host.
@nonexhaustive
public enum ScreenReply: Hashable, Sendable {
    /// The change with this number has come whole: its first and last part so many microseconds after the session began.
    case received(number: UInt64, first: UInt64, last: UInt64)
    /// The whole picture is wanted anew: something was lost here.
    case refresh
    /// The next frame of video is wanted to need no other: one could not be decoded.
    case keyFrame
    /// No more video is wanted: all changes are to come exactly.
    case exactOnly
    /// Another display is wanted.
    case show(display: UInt32)
    /// Other limits are wanted: pictures a second 1…240, quality 1…100.
    case limits(rate: UInt16, quality: UInt8)
}

extension ScreenReply: StreamMessage {
    /// 256 bytes.
    public static var sizeLimit: Int { 256 }

    private struct Form: Codable {
        struct Received: Codable {
            var number: UInt64
            var first: UInt64
            var last: UInt64
        }
        struct Limits: Codable {
            var rate: UInt16
            var quality: UInt8
        }
        var received: Received?
        var refresh: Nothing?
        var keyFrame: Nothing?
        var exactOnly: Nothing?
        var show: UInt32?
        var limits: Limits?
    }

    /// Reads the one member it knows.
    ///
    /// - Throws: `KithError` `.invalid` when there is none, or a number is out of range.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        if let value = form.received {
            self = .received(number: value.number, first: value.first, last: value.last)
        } else if form.refresh != nil {
            self = .refresh
        } else if form.keyFrame != nil {
            self = .keyFrame
        } else if form.exactOnly != nil {
            self = .exactOnly
        } else if let value = form.show {
            self = .show(display: value)
        } else if let value = form.limits {
            guard (1...240).contains(value.rate), (1...100).contains(value.quality) else {
                throw KithError(.invalid, "A screen has a rate of 1 to 240 and a quality of 1 to 100.")
            }
            self = .limits(rate: value.rate, quality: value.quality)
        } else {
            throw KithError(.invalid, "A reply to a screen has one member, named for what it carries.")
        }
    }

    /// Writes the one member.
    public func encode(to encoder: any Encoder) throws {
        var form = Form()
        switch self {
        case .received(let number, let first, let last):
            form.received = Form.Received(number: number, first: first, last: last)
        case .refresh: form.refresh = Nothing()
        case .keyFrame: form.keyFrame = Nothing()
        case .exactOnly: form.exactOnly = Nothing()
        case .show(let display): form.show = display
        case .limits(let rate, let quality): form.limits = Form.Limits(rate: rate, quality: quality)
        }
        try form.encode(to: encoder)
    }
}
