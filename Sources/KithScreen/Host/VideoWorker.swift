import KithIO
import KithPixels
import KithVideo
import Synchronization

/// Encodes what moves on a display beside the task that sends, so that nothing else waits for an encoder.
///
///     idle ── start ──▶ busy ── encoded ──▶ done ── takeOutcome ──▶ idle
///
/// One frame at a time: what changes meanwhile is in the next.
final class VideoWorker: Sendable {
    /// A frame that is asked for.
    struct Job: Sendable {
        /// The coded picture's place on the screen.
        var picture: PixelRectangle
        /// What has changed, on the screen: whole tiles.
        var regions: [PixelRectangle]
        /// True for a frame that has to need no other.
        var isKey: Bool
        /// The bytes it should have.
        var frameBytes: Int
        /// When its pixels were captured.
        var captured: ContinuousClock.Instant
        /// The picture's number among all that the session has begun.
        var beginning: Int
    }

    /// The answer to a job.
    enum Outcome: Sendable {
        case frame(VideoFrame, Job)
        case failed(VideoError)
    }

    private enum Phase {
        case idle
        case busy(Job)
        case done(Outcome)
    }

    private struct State: ~Copyable {
        var phase = Phase.idle
        /// Where pixels are converted to; away while they are encoded.
        var planes: PlanarBuffer?
    }

    private let state = Mutex(State())
    private let jobs = BoundedQueue<Void>(capacity: 1)
    private let signal: @Sendable () -> Void

    /// Makes one that says by `signal` when a frame is done.
    init(signal: @escaping @Sendable () -> Void) { self.signal = signal }

    /// True when a job can be started.
    var isIdle: Bool {
        state.withLock { state in
            if case .idle = state.phase { true } else { false }
        }
    }

    /// The answer to the last job, once; `nil` before there is one.
    func takeOutcome() -> Outcome? {
        state.withLock { state in
            guard case .done(let outcome) = state.phase else { return nil }
            state.phase = .idle
            return outcome
        }
    }

    /// Takes over the pixels of a job's regions from the screen's picture, and has them encoded.
    func start(_ job: Job, of screen: borrowing PixelView) {
        state.withLock { state in
            if state.planes?.size != job.picture.size { state.planes = PlanarBuffer(size: job.picture.size) }
            guard var planes = state.planes.take() else { preconditionFailure("an idle worker has its planes") }
            for region in job.regions {
                let place = (region.x - job.picture.x, region.y - job.picture.y)
                ColourConversion.convert(screen, region, into: &planes, at: place)
            }
            state.planes = consume planes
            state.phase = .busy(job)
        }
        _ = jobs.offered(())
    }

    /// Encodes until the task is cancelled.
    func run() async throws {
        let encoder = VideoCodec.encoder()
        while try await jobs.receive() != nil {
            encode(by: encoder)
            signal()
        }
    }

    private func encode(by encoder: (any VideoEncoder)?) {
        var job: Job?
        var planes: PlanarBuffer?
        state.withLock { state in
            guard case .busy(let current) = state.phase else { return }
            job = current
            swap(&planes, &state.planes)
        }
        guard let job, let taken = planes.take() else { return }
        let outcome = Self.outcome(of: job, taken, by: encoder)
        planes = consume taken
        state.withLock { state in
            swap(&planes, &state.planes)
            state.phase = .done(outcome)
        }
    }

    private static func outcome(
        of job: Job, _ planes: borrowing PlanarBuffer, by encoder: (any VideoEncoder)?
    ) -> Outcome {
        guard let encoder else { return .failed(.failed) }
        if job.isKey { encoder.requestKeyFrame() }
        // The library begins its reckoning anew at each change: small ones are not worth that.
        if abs(encoder.frameBytes - job.frameBytes) > encoder.frameBytes / 8 { encoder.frameBytes = job.frameBytes }
        do throws(VideoError) {
            return .frame(try encoder.encode(planes), job)
        } catch {
            return .failed(error)
        }
    }
}
