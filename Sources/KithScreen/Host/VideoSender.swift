import Foundation
import KithAPI
import KithPixels
import KithVideo
import KithWire

/// The video of a session: what moves, gathered until a frame can be made of it, and the frame that is on its way.
///
/// One frame is on its way at most, as everywhere: while it is encoded or sent, what moves is gathered, and the next frame
/// has its newest pixels. Between two parts of a frame whatever else there is goes first.
///
/// All of a picture travels on one stream, in order, also its video: a frame refers to the one before it, and what is
/// exact may only be drawn after the video that it replaces.
struct VideoSender {
    /// The bytes of a frame that go out before the rest of the session is looked after.
    private static let turnBytes = 16 << 10

    /// The frame that is being sent.
    private struct Outgoing {
        var frame: VideoFrame
        var job: VideoWorker.Job
        var number: UInt64
        var sent = 0
    }

    private let worker: VideoWorker
    private var picture = VideoPicture()
    private var waiting = PixelRegion()
    private var outgoing: Outgoing?
    private var wantsKey = true
    private var quality: UInt8
    private var beginning = 0
    private var last: ContinuousClock.Instant?

    init(_ worker: VideoWorker, quality: UInt8) {
        self.worker = worker
        self.quality = quality
    }

    mutating func limit(quality: UInt8) { self.quality = quality }

    /// Makes the next frame one that needs no other.
    mutating func requestKeyFrame() { wantsKey = true }

    /// Forgets what moves: the picture begins anew.
    mutating func startAnew() {
        beginning += 1
        waiting = PixelRegion()
        // The screen may be smaller now than the picture was.
        picture = VideoPicture()
        wantsKey = true
        // The viewer drops the parts of a frame that never ends when the next begins.
        outgoing = nil
    }

    /// Takes in what a change of the picture left to video.
    mutating func moved(_ regions: [PixelRectangle]) {
        for region in regions { waiting.insert(region) }
    }

    // MARK: - Encoding

    /// The regions that wait and that the viewer has not been sent exactly since; the others are forgotten.
    mutating func takeWaiting(_ encoder: borrowing TileEncoder) -> [PixelRectangle] {
        let regions = encoder.inexact(waiting.rectangles)
        waiting = PixelRegion()
        return Array(regions.prefix(VideoLayout.regionLimit))
    }

    /// True when the worker and the rate of pictures allow another frame.
    func isDue(every frameTime: Duration, at now: ContinuousClock.Instant) -> Bool {
        outgoing == nil && !waiting.isEmpty && worker.isIdle && (last.map { $0 + frameTime <= now } ?? true)
    }

    /// The time when another frame may be begun, as far as the rate of pictures goes.
    func nextTime(every frameTime: Duration) -> ContinuousClock.Instant? {
        waiting.isEmpty || !worker.isIdle ? nil : last.map { $0 + frameTime } ?? .now
    }

    /// The place of the frame that shows these regions.
    mutating func place(around regions: [PixelRectangle], at now: ContinuousClock.Instant) -> PixelRectangle? {
        picture.place(around: regions, at: now)
    }

    /// Begins a frame; false when no codec takes a picture of what moves.
    mutating func start(
        _ regions: [PixelRectangle], rate: Double, every frameTime: Duration, of screen: borrowing PixelView,
        at now: ContinuousClock.Instant
    ) -> Bool {
        guard let place = place(around: regions, at: now) else { return false }
        last = now
        let area = regions.reduce(0) { $0 + $1.area }
        let bytes = Self.frameBytes(area: area, quality: quality, rate: rate, every: frameTime)
        worker.start(
            VideoWorker.Job(
                picture: place, regions: regions, isKey: wantsKey, frameBytes: max(500, Int(bytes)), captured: now,
                beginning: beginning), of: screen)
        wantsKey = false
        return true
    }

    /// The bytes of a frame when `rate` bytes a second can be sent: where that is too little for frames of the whole quality
    /// every `frameTime`, half of what is missing, as a factor, is taken from the quality and half from the number of frames.
    static func frameBytes(area: Int, quality: UInt8, rate: Double, every frameTime: Duration) -> Double {
        let most = frameBytes(area: area, quality: quality)
        return min(most, (most * rate * (frameTime / .seconds(1))).squareRoot())
    }

    /// The most bytes of a frame at a quality of 1…100: 40 kB of 1,920 × 1,080 pixels at 80, and twice as many each 20 more.
    static func frameBytes(area: Int, quality: UInt8) -> Double {
        Double(area) * 40_000 / (1_920 * 1_080) * pow(2, (Double(quality) - 80) / 20)
    }

    // MARK: - Sending

    /// Takes the frame that is encoded, if there is one, as the one to be sent with a number.
    ///
    /// - Returns: its bytes.
    /// - Throws: ``VideoError`` when the codec failed: there will be no more.
    mutating func takeFrame(
        _ encoder: borrowing TileEncoder, number: UInt64
    ) throws(VideoError) -> Int? {
        switch worker.takeOutcome() {
        case nil: return nil
        case .failed(let error): throw error
        case .frame(let frame, let job):
            guard job.beginning == beginning, !encoder.inexact(job.regions).isEmpty else {
                // Later frames would refer to it.
                wantsKey = true
                return nil
            }
            outgoing = Outgoing(frame: frame, job: job, number: number)
            return frame.bytes.count
        }
    }

    /// The next parts of the frame that is being sent, of at most `limit` bytes each; empty when there is none.
    mutating func nextParts(
        _ encoder: borrowing TileEncoder, limit: Int, since began: ContinuousClock.Instant
    ) -> [ScreenUpdate.Video] {
        guard var sending = outgoing else { return [] }
        let time = UInt64(max(0, (sending.job.captured - began) / .microseconds(1)))
        var parts: [ScreenUpdate.Video] = []
        let bytes = sending.frame.bytes
        let turnEnd = min(sending.sent + Self.turnBytes, bytes.count)
        while sending.sent < turnEnd {
            let end = min(sending.sent + limit, turnEnd)
            let part = ByteString(Array(bytes[sending.sent..<end]))
            let layout = end == bytes.count ? ByteString(layout(of: sending, encoder).bytes) : nil
            parts.append(ScreenUpdate.Video(number: sending.number, captured: time, bytes: part, layout: layout))
            sending.sent = end
        }
        outgoing = sending.sent < bytes.count ? sending : nil
        return parts
    }

    /// The layout of a frame as of now: what was sent exactly meanwhile is not drawn.
    private func layout(of outgoing: Outgoing, _ encoder: borrowing TileEncoder) -> VideoLayout {
        let place = outgoing.job.picture
        return VideoLayout(
            isKey: outgoing.frame.isKey, picture: place,
            regions: encoder.inexact(outgoing.job.regions).map { $0.moved(x: -place.x, y: -place.y) })
    }
}
