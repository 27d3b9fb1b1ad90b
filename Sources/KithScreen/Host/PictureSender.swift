import KithAPI
import KithPixels
import KithVideo
import KithWire

/// Captures a display and sends what changed, when the link and the viewer's rate allow: exactly, or as video what moves.
struct PictureSender: ~Copyable {
    /// The most bytes of a change that travel in one message: small, so that the viewer sees how fast they come.
    private static let partLimit = 4 << 10
    /// The time that a picture of many colours may take to arrive exactly; a longer one is seen as video at once, and is
    /// made exact at rest, beside all else.
    private static let patience = 0.4

    private let source: any ScreenSource
    private var buffer: CaptureBuffer
    private var encoder: TileEncoder
    /// `nil` when all changes are sent exactly.
    private var video: VideoSender?
    private var cursor = CursorSender()
    private var control: RateControl
    private let began: ContinuousClock.Instant
    private var frameTime: Duration
    private var last: ContinuousClock.Instant?
    private var number: UInt64 = 0
    /// What is to be captured: in the display's pixels.
    private var damage = DamageLog()

    /// Sends a display; `video` is for a viewer that takes it.
    init(
        _ source: any ScreenSource, display: Screen.Rectangle, rate: UInt16, video: VideoSender?,
        at now: ContinuousClock.Instant
    ) {
        self.source = source
        self.video = video
        encoder = TileEncoder(options: .init(sendsVideo: video != nil))
        buffer = CaptureBuffer(display)
        frameTime = .seconds(1) / Int(rate)
        control = RateControl(framesPerSecond: Int(rate), at: now)
        began = now
        damage.note(PixelRegion(buffer.size.bounds), at: now)
    }

    /// The time that what was sent still takes to arrive and be confirmed; `nil` when nothing is on its way.
    var timeOnTheWay: Duration? {
        let bytes = control.bytesInFlight
        return bytes > 0 ? .seconds(min(Double(bytes) / control.rate, 3_600)) + control.roundTrip : nil
    }

    /// The display that is shown.
    var bounds: Screen.Rectangle { buffer.bounds }

    /// Shows another display, or the same one in another size.
    mutating func show(_ bounds: Screen.Rectangle) {
        buffer = CaptureBuffer(bounds)
        startAnew()
    }

    /// Begins the picture anew.
    mutating func startAnew() {
        encoder.startAnew()
        video?.startAnew()
        damage.note(PixelRegion(buffer.size.bounds), at: .now)
    }

    mutating func limit(rate: UInt16, quality: UInt8) {
        frameTime = .seconds(1) / Int(rate)
        video?.limit(quality: quality)
    }

    /// Makes the next frame of video one that needs no other.
    mutating func requestKeyFrame() { video?.requestKeyFrame() }

    /// Sends all changes exactly from now on.
    mutating func stopVideo() {
        guard video != nil else { return }
        video = nil
        encoder.sendsVideo = false
        damage.note(PixelRegion(buffer.size.bounds), at: .now)
    }

    /// Sends a change of nothing, for the viewer to confirm.
    mutating func ask(over stream: MethodStream<ScreenReply, ScreenUpdate>) async throws {
        // Before the first picture there is that to confirm.
        guard let message = encoder.encodeNothing() else { return }
        number += 1
        let now = ContinuousClock.now
        try await send(message, captured: now, to: stream)
        control.sent(frame: number, bytes: message.count, at: now)
    }

    mutating func damaged(_ log: DamageLog) { damage.append(log) }

    mutating func acknowledged(_ number: UInt64, first: UInt64, last: UInt64, at now: ContinuousClock.Instant) {
        // What no session lasts, the control leaves out; here it only has to fit.
        let (first, last) = (Int64(clamping: min(first, 1 << 52)), Int64(clamping: min(last, 1 << 52)))
        control.acknowledged(frame: number, first: .microseconds(first), last: .microseconds(last), at: now)
    }

    /// The messages that show a pointer's shape.
    mutating func show(_ shape: CursorImage) -> [[UInt8]] {
        guard let shape = shape.forViewers else { return cursor.hide().map { [$0] } ?? [] }
        return cursor.show(shape)
    }

    /// The message that says where the pointer is.
    mutating func moved(x: Int32, y: Int32) -> [UInt8]? {
        cursor.moved(x: Int(x) - Int(buffer.bounds.x), y: Int(y) - Int(buffer.bounds.y))
    }

    /// Sends the change there is, if it is its time.
    ///
    /// - Returns: when to come again although nothing happens; `nil`: not at all.
    mutating func send(
        to stream: MethodStream<ScreenReply, ScreenUpdate>, counting: (Int) -> Void
    ) async throws -> ContinuousClock.Instant? {
        let times = [
            try await sendExactly(to: stream, counting: counting), try await sendVideo(to: stream, counting: counting),
        ]
        return times.compactMap { $0 }.min()
    }

    private mutating func sendExactly(
        to stream: MethodStream<ScreenReply, ScreenUpdate>, counting: (Int) -> Void
    ) async throws -> ContinuousClock.Instant? {
        damage.clip(to: buffer.size.bounds)
        let refinement = encoder.nextRefinement
        let now = ContinuousClock.now
        guard !damage.region.isEmpty || refinement.map({ $0 <= now }) ?? false else { return refinement }
        if let last, last + frameTime > now { return last + frameTime }
        let room: TileEncoder.Room?
        switch control.offer(frame: number + 1, capturedAt: now, at: now) {
        case .wait(let until): return until
        case .drop: return now + .milliseconds(1)
        case .send(let bytes):
            room = Self.room(for: buffer.size, bytes, control)
        }
        last = now
        for rectangle in damage.region.rectangles { try await buffer.capture(rectangle, from: source) }
        for change in damage.changes.dropLast() { encoder.missed(change.region, at: change.at) }
        encoder.damaged(damage.region)
        damage = DamageLog()
        guard let message = encode(at: now, room) else { return encoder.nextRefinement }
        video?.moved(message.video)
        guard !message.bytes.isEmpty else { return encoder.nextRefinement }
        number += 1
        try await send(message.bytes, captured: now, to: stream)
        control.sent(frame: number, bytes: message.bytes.count, at: .now)
        counting(message.bytes.count)
        return encoder.nextRefinement
    }

    private mutating func sendVideo(
        to stream: MethodStream<ScreenReply, ScreenUpdate>, counting: (Int) -> Void
    ) async throws -> ContinuousClock.Instant? {
        do throws(VideoError) {
            if let bytes = try video?.takeFrame(encoder, number: number + 1) {
                number += 1
                control.sent(frame: number, isVideo: true, bytes: bytes, at: .now)
                counting(bytes)
            }
        } catch {
            stopVideo()
            return .now
        }
        let parts = video?.nextParts(encoder, limit: Self.partLimit, since: began) ?? []
        for part in parts { try await stream.send(.video(part)) }
        // What else there is goes before the rest of the frame.
        if let last = parts.last, last.layout == nil { return .now }
        return startVideo(at: .now)
    }

    /// Has the next frame encoded, if it is its time.
    private mutating func startVideo(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard var video else { return nil }
        guard video.isDue(every: frameTime, at: now) else { return video.nextTime(every: frameTime) }
        switch control.offer(frame: number + 1, isVideo: true, capturedAt: now, at: now) {
        case .wait(let until): return until
        case .drop: return now + .milliseconds(1)
        case .send: break
        }
        let regions = video.takeWaiting(encoder)
        var isStarted = true
        if !regions.isEmpty {
            isStarted = buffer.withPicture { picture in
                video.start(regions, rate: control.rate, every: frameTime, of: picture, at: now)
            }
        }
        self.video = video
        guard isStarted else {
            stopVideo()
            return now
        }
        return nil
    }

    /// The room for pictures in the next message; `nil`: all there is, as no codec takes a screen that large as a whole.
    private static func room(
        for size: PixelSize, _ bytes: Int, _ control: borrowing RateControl
    ) -> TileEncoder.Room? {
        guard VideoCodec.isAllowed(PixelSize(width: (size.width + 1) / 2 * 2, height: (size.height + 1) / 2 * 2)) else {
            return nil
        }
        return TileEncoder.Room(message: bytes, change: control.isKnown ? Int(control.rate * patience) : nil)
    }

    private mutating func encode(
        at now: ContinuousClock.Instant, _ room: TileEncoder.Room?
    ) -> TileEncoder.Message? {
        // Out and back: a closure cannot borrow two parts of this value.
        var encoder = TileEncoder()
        swap(&encoder, &self.encoder)
        var message: TileEncoder.Message?
        buffer.withPicture { picture in message = encoder.encode(picture, at: now, room: room) }
        swap(&encoder, &self.encoder)
        return message
    }

    private func send(
        _ bytes: [UInt8], captured: ContinuousClock.Instant, to stream: MethodStream<ScreenReply, ScreenUpdate>
    ) async throws {
        let time = UInt64(max(0, (captured - began) / .microseconds(1)))
        var start = 0
        repeat {
            let end = min(start + Self.partLimit, bytes.count)
            try await stream.send(
                .picture(
                    ScreenUpdate.Picture(
                        number: number, captured: time, tiles: ByteString(Array(bytes[start..<end])),
                        isExact: encoder.isExact, continues: end < bytes.count)))
            start = end
        } while start < bytes.count
    }
}

extension CursorImage {
    /// The shape as viewers are sent it; `nil` for a hidden one, or one that is too large to be a pointer.
    var forViewers: CursorShape? {
        let values = stride(from: 0, to: pixels.count - pixels.count % 4, by: 4).map { start -> UInt32 in
            let bytes = pixels[start..<start + 4].reversed()
            return bytes.reduce(0) { $0 << 8 | UInt32($1) }
        }
        return CursorShape(
            size: PixelSize(width: width, height: height), hotspot: (hotX, hotY), pixels: values)
    }
}
