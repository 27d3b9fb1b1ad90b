import KithWire

/// The screen's end of the remote framebuffer protocol (RFC 6143, and the extensions of the community's rfbproto), for
/// one viewer.
///
/// A value without I/O and clock: bytes in by ``receive(_:)``, events out by ``nextEvent(at:)`` until there is none,
/// bytes to be sent by ``takeOutput()``. The driver tells what changed, and calls ``update(from:isExact:)`` while
/// ``isUpdateDue`` and what was put out before has been sent: so the newest picture is sent, and none is queued.
///
///     version ─▶ security ─▶ (response ─▶) client init ─▶ running
///
/// After an error the viewer is lost: what is put out may tell it why, and every later call throws the same.
package struct RFBServer: ~Copyable, Sendable {
    /// What is told to the viewer, and asked of it.
    package struct Options: Sendable {
        package var name: String
        /// The password, of which the first eight bytes count; `nil` when the driver knows the viewer otherwise.
        package var password: [UInt8]?
        /// The viewer may ask for another size of the desktop.
        package var takesDesktopSize = false
        /// The updates that may be under way to a viewer that takes them without asking.
        package var updatesInFlight = 2
        package var limits: RFBLimits

        package init(name: String, password: [UInt8]? = nil) {
            self.name = name
            self.password = password
            limits = RFBLimits()
            limits.input = 12 << 20
            // Viewers ask their user for the password only now.
            limits.handshakeTime = .seconds(120)
        }
    }

    /// Something for the driver.
    package enum Event: Hashable, Sendable {
        /// The viewer is in; other viewers are to be cut when it wants to be alone.
        case connected(isShared: Bool)
        /// An X11 keysym, and the key's place on the keyboard (an XT code) where the viewer knows it.
        case key(keysym: UInt32, code: UInt32?, isDown: Bool)
        /// The pointer is there, inside the picture, with those buttons held.
        case pointer(x: Int, y: Int, buttons: RFBButtons)
        case clipboard(RFBClipboardEvent)
        /// The viewer asks for another size: to be answered by ``RFBServer/answerDesktopSize(_:)``.
        case resizeRequested(width: Int, height: Int, screens: [RFBScreen])
    }

    enum Phase {
        case version
        case securityType
        case response
        case clientInit
        case running
    }

    /// What the viewer said it can show.
    struct Viewer: Sendable {
        var format = RFBPixelFormat.xrgb
        var pixels = PixelValues(.xrgb)
        var encodings: Set<RFBEncoding> = []
        var preferred = RFBEncoding.raw
        var quality: Int?
        var level = 2
    }

    /// What is to be sent with the next update beside pixels.
    struct Pending: Sendable {
        var size = false
        var sizeAnswer: RFBResizeStatus?
        var name = false
        var cursor = false
        var announcements: [RFBEncoding] = []

        var isEmpty: Bool { !size && sizeAnswer == nil && !name && !cursor && announcements.isEmpty }
    }

    /// A part of the picture that moved: what is now there was `dx`, `dy` away.
    struct Copy: Sendable {
        var target: RFBRectangle
        var x: Int
        var y: Int
    }

    var options: Options
    let challenge: [UInt8]
    var phase = Phase.version
    var version = 8
    var input = ByteQueue()
    var output: [UInt8] = []
    var events: [Event] = []
    var failure: RFBError?

    // Time, for limits.
    var begun: ContinuousClock.Instant?
    var incompleteSince: ContinuousClock.Instant?
    var messages: TokenBucket?
    var hasToken = false
    /// A viewer that sent too many messages is not to be received from before; `nil`: it may send.
    package internal(set) var resumesAt: ContinuousClock.Instant?

    var viewer = Viewer()
    var clipboard: ClipboardExchange
    var held = HeldInput()
    var pending = Pending()
    var cursor: RFBCursor?
    /// The picture, from its upper left corner.
    package internal(set) var bounds: RFBRectangle
    /// The picture's size as the viewer knows it.
    var viewerBounds: RFBRectangle
    /// The monitors in it.
    package internal(set) var screens: [RFBScreen]
    var damage = RFBRegion()
    var copies: [Copy] = []
    var requested: RFBRectangle?
    var continuous: RFBRectangle?
    var updatesInFlight = 0
    var announced: Set<RFBEncoding> = []
    var zrle = ZRLEEncoder()
    var tight: TightEncoder
    var values: [UInt32] = []

    /// What the viewer has only as JPEG: to be sent exactly when the picture rests.
    package internal(set) var lossy = RFBRegion()

    /// Begins a connection.
    ///
    /// `challenge` is sixteen bytes that were never used before, from a secure source; `screens` may be empty.
    /// - Throws: ``RFBError/tooLarge(width:height:limit:)``.
    package init(
        _ options: Options, width: Int, height: Int, screens: [RFBScreen] = [], challenge: [UInt8],
        jpeg: (any JPEGCodec)? = nil
    ) throws(RFBError) {
        precondition(challenge.count == 16, "a challenge has sixteen bytes")
        guard (1...0xFFFF).contains(width), (1...0xFFFF).contains(height), width * height <= options.limits.pixels
        else { throw .tooLarge(width: width, height: height, limit: options.limits.pixels) }
        self.options = options
        self.challenge = challenge
        bounds = RFBRectangle(x: 0, y: 0, width: width, height: height)
        viewerBounds = bounds
        self.screens = screens
        clipboard = ClipboardExchange(messageType: 3, limit: options.limits.clipboard)
        tight = TightEncoder(jpeg: jpeg)
        output = Array("RFB 003.008\n".utf8)
    }

    /// Takes bytes from the viewer; ``nextEvent(at:)`` reads them.
    ///
    /// - Throws: ``RFBError/tooLong(field:limit:actual:)`` when more wait than the limit allows.
    package mutating func receive(_ bytes: [UInt8]) throws(RFBError) {
        if let failure { throw failure }
        guard bytes.count <= options.limits.input - input.count else {
            throw fail(
                .tooLong(field: "input", limit: options.limits.input, actual: input.count.saturatingAdding(bytes.count))
            )
        }
        input.append(bytes)
    }

    /// The next event; `nil` when more bytes are needed, ``takeOutput()`` has to be emptied, or time has to pass.
    ///
    /// A viewer that sends too many messages is read later (``nextDeadline``), and is not to be received from till then.
    package mutating func nextEvent(at now: ContinuousClock.Instant) throws(RFBError) -> Event? {
        if let failure { throw failure }
        resumesAt = nil
        do throws(RFBError) {
            try checkTime(now)
            while events.isEmpty {
                guard output.count <= options.limits.output, mayRead(now) else { return nil }
                guard try step() else {
                    let waits = input.count > 0 || clipboard.isDropping
                    incompleteSince = waits ? incompleteSince ?? now : nil
                    return nil
                }
                incompleteSince = nil
                hasToken = false
            }
        } catch {
            throw fail(error)
        }
        return events.isEmpty ? nil : events.removeFirst()
    }

    /// The time at which ``nextEvent(at:)`` is to be called again though nothing has come.
    package var nextDeadline: ContinuousClock.Instant? {
        if let resumesAt { return resumesAt }
        if let incompleteSince { return incompleteSince + options.limits.messageTime }
        guard let begun, !isRunning else { return nil }
        return begun + options.limits.handshakeTime
    }

    /// The bytes that are to be sent; after an error too, before the connection is closed.
    package mutating func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }

    /// True while so much waits to be sent that no further message is read: the viewer is not to be received from either.
    package var isCongested: Bool { output.count > options.limits.output }

    /// The bytes that turn a viewer away with a reason, before anything of it was read (RFC 6143 §7.1.2).
    package static func refusal(_ reason: String) -> [UInt8] {
        var bytes = Array("RFB 003.008\n".utf8)
        bytes.append(0)
        bytes.appendInteger(UInt32(reason.utf8.count))
        return bytes + Array(reason.utf8)
    }

    /// True once the viewer may see the picture.
    package var isRunning: Bool {
        if case .running = phase { return true }
        return false
    }

    private mutating func fail(_ error: RFBError) -> RFBError {
        failure = error
        return error
    }

    private mutating func checkTime(_ now: ContinuousClock.Instant) throws(RFBError) {
        let start = begun ?? now
        begun = start
        if !isRunning, now - start >= options.limits.handshakeTime { throw .timedOut("the handshake") }
        if let incompleteSince, now - incompleteSince >= options.limits.messageTime {
            // What came in the meantime may have made it whole.
            guard try step() else { throw .timedOut("a message") }
            self.incompleteSince = nil
        }
    }

    /// Takes what one message costs, once.
    private mutating func mayRead(_ now: ContinuousClock.Instant) -> Bool {
        guard !hasToken, isRunning, input.count > 0 else { return true }
        let limits = options.limits
        var bucket = messages ?? TokenBucket(perSecond: limits.messagesPerSecond, burst: limits.messageBurst, at: now)
        hasToken = bucket.takeIfThere(at: now)
        messages = bucket
        if !hasToken { resumesAt = now + .seconds(1 / max(limits.messagesPerSecond, 0.001)) }
        return hasToken
    }

    /// Reads one thing; false when it is not whole.
    private mutating func step() throws(RFBError) -> Bool {
        isRunning ? try stepMessage() : try stepHandshake()
    }
}
