import KithWire

/// The viewer's end of the remote framebuffer protocol (RFC 6143, and the extensions of the community's rfbproto).
///
/// A value without I/O: bytes in by ``receive(_:)``, events out by ``nextEvent()`` until there is none, bytes to be
/// sent by ``takeOutput()``. It asks for updates by itself, and answers fences.
///
///     version ─▶ security ─▶ (challenge ─▶) result ─▶ server init ─▶ running
///
/// After an error the connection is over: every later call throws the same.
package struct RFBClient: ~Copyable, Sendable {
    /// The way a connection is to be made.
    package struct Options: Sendable {
        /// The password, of which the first eight bytes count; `nil` for a server that asks for none.
        package var password: [UInt8]?
        /// Other viewers stay connected.
        package var isShared = true
        /// The encodings to ask for, the best first.
        package var encodings: [RFBEncoding] = [.tight, .copyRect, .zrle, .hextile, .rre, .raw]
        /// The JPEG quality, 0…9; `nil` for exact pictures only.
        package var quality: Int?
        /// The effort in compression that the server is asked for, 0…9.
        package var compression: Int?
        /// The form of pixels to ask for.
        package var pixelFormat = RFBPixelFormat.xrgb
        /// The pointer's shape is sent apart, and not drawn into the picture.
        package var wantsCursor = true
        /// Updates are sent without a request for each, by a server that can.
        package var wantsContinuousUpdates = true
        /// Updates are asked for as soon as the last one has come; else by ``RFBClient/requestUpdate(of:isIncremental:)``.
        package var requestsUpdates = true
        /// The highest minor version of protocol 3 to speak: 3, 7 or 8.
        package var version = 8
        package var limits = RFBLimits()

        package init() {}
    }

    /// Something for the driver.
    package enum Event: Hashable, Sendable {
        /// The connection is made; the picture is black until the first update.
        case connected(name: String)
        /// The picture changed there.
        case updated(RFBRegion)
        /// The picture has another size, or the monitors are arranged anew. A viewer that asked for it gets a status.
        case resized(screens: [RFBScreen], status: RFBResizeStatus?)
        case cursor(RFBCursor)
        case bell
        case renamed(String)
        case clipboard(RFBClipboardEvent)
        /// The answer to ``RFBClient/sendFence(_:)``.
        case fence([UInt8])
    }

    enum Phase {
        case version
        case securityType
        case securityTypes
        case challenge
        case result
        /// The server says why, before it closes.
        case reason(isAuthentication: Bool)
        case serverInit
        case running
    }

    /// An update that is being read.
    struct Update {
        /// The rectangles that are still to come, with the one at hand.
        var left: Int
        var rectangle: RFBRectangle?
        var encoding = RFBEncoding.raw
        var progress: RectangleProgress?
        /// The pixels of its rectangles; and how often they may paint the whole picture.
        var painted = 0
        static let paintLimit = 16
        var changed = RFBRegion()
        var changedSize = false
        /// What is in the picture is no longer what the server believes.
        var needsAll = false
    }

    let options: Options
    var phase = Phase.version
    var version = 8
    var input = ByteQueue()
    var output: [UInt8] = []
    var events: [Event] = []
    var failure: RFBError?
    var update: Update?
    /// Bytes of a message without use that are still to be passed over.
    var skipping = 0
    var scratch: [UInt32] = []
    var zrle = ZRLEDecoder()
    var tight: TightDecoder
    let hasJPEG: Bool
    var clipboard: ClipboardExchange
    var hasSentClipboardCapabilities = false
    let layouts: (pixel: PixelLayout, compressed: PixelLayout, tight: PixelLayout)

    /// The server's picture.
    package internal(set) var frameBuffer: RFBFrameBuffer
    /// The name of the server's desktop.
    package internal(set) var name = ""
    /// The monitors, once the server has told of them.
    package internal(set) var screens: [RFBScreen] = []
    /// The server takes keys by their place on a keyboard.
    package internal(set) var takesKeyCodes = false
    /// The server takes more than eight buttons.
    package internal(set) var takesMoreButtons = false
    /// The server knows fences.
    package internal(set) var takesFences = false
    /// The server takes another size of its desktop.
    package internal(set) var takesDesktopSize = false
    /// The server can send updates without being asked.
    package internal(set) var takesContinuousUpdates = false
    /// The server sends updates without being asked.
    package internal(set) var isContinuous = false

    /// Begins a connection; without `jpeg` no JPEG is asked for.
    package init(_ options: Options, jpeg: (any JPEGCodec)? = nil) throws(RFBError) {
        self.options = options
        tight = TightDecoder(jpeg: jpeg)
        hasJPEG = jpeg != nil
        clipboard = ClipboardExchange(messageType: 6, limit: options.limits.clipboard)
        frameBuffer = try RFBFrameBuffer(width: 0, height: 0)
        let format = options.pixelFormat
        layouts = (format.pixel, format.compressed, format.tight)
    }

    /// Takes bytes from the server; ``nextEvent()`` reads them.
    ///
    /// - Throws: ``RFBError/tooLong(field:limit:actual:)`` when more wait than the limit allows.
    package mutating func receive(_ bytes: [UInt8]) throws(RFBError) {
        if let failure { throw failure }
        guard bytes.count <= options.limits.input - input.count else {
            let error = RFBError.tooLong(
                field: "input", limit: options.limits.input, actual: input.count.saturatingAdding(bytes.count))
            failure = error
            throw error
        }
        input.append(bytes)
    }

    /// The next event; `nil` when more bytes are needed, or when ``takeOutput()`` has to be emptied before.
    package mutating func nextEvent() throws(RFBError) -> Event? {
        if let failure { throw failure }
        do throws(RFBError) {
            while events.isEmpty, output.count <= options.limits.output {
                guard try step() else { return nil }
            }
        } catch {
            failure = error
            throw error
        }
        return events.isEmpty ? nil : events.removeFirst()
    }

    /// The bytes that are to be sent.
    package mutating func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }

    /// Reads one thing; false when it is not whole.
    private mutating func step() throws(RFBError) -> Bool {
        if case .running = phase { return try stepMessage() }
        return try stepHandshake()
    }
}
