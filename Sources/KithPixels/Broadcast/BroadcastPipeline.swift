/// Decides which captured pictures of a phone's screen are encoded, within the little memory a broadcast extension has.
///
/// One picture is in flight: what comes before it is done is dropped, never queued. Its memory is one buffer of planes,
/// kept between pictures, and the encoded bytes on their way to the transport. Under pressure pictures are halved, then
/// dropped. It shows a screen and has no way to control one.
///
///     captured ─▶ encode ─▶ (update planes, encoder) ─▶ encoded ─▶ sent
///              ─▶ drop(reason)
package struct BroadcastPipeline {
    /// The answer about a captured picture.
    @frozen package enum Answer: Hashable, Sendable {
        /// Turn it upright into planes of that size and encode them; `isKey` asks for a picture that needs no other.
        case encode(size: PixelSize, halved: Bool, isKey: Bool)
        /// Let go of it.
        case drop(Drop)
    }

    /// The reason why a picture is let go.
    @nonexhaustive package enum Drop: Hashable, Sendable {
        /// The one before it is still being encoded, or waits for the transport.
        case busy
        /// The system is short of memory.
        case pressure
        /// It would need more memory than there is, even halved.
        case tooLarge
    }

    /// The system's word on memory.
    @frozen package enum Pressure: Hashable, Sendable { case normal, warning, critical }

    /// The bytes that planes and encoded pictures may take together.
    package static let memoryLimit = 30 << 20
    /// The bytes that one encoded picture may have.
    package static let encodedLimit = 4 << 20
    /// The time after a warning until pictures are whole again.
    package static let recovery = Duration.seconds(10)

    private enum Flight: Hashable {
        case none
        case encoding
        case sending(bytes: Int)
    }

    private var flight = Flight.none
    private var pressure = Pressure.normal
    private var eased: ContinuousClock.Instant?
    private var last: (size: PixelSize, orientation: PictureOrientation)?
    private var planes: PixelSize?
    private var needsKey = true
    /// Pictures let go since the start.
    package private(set) var dropped = 0
    /// The most bytes held so far.
    package private(set) var peak = 0

    /// Begins with a picture that needs no other.
    package init() {}

    /// The bytes held now: planes and encoded picture.
    package var memory: Int {
        let held = planes.map { PlanarBuffer.byteCount(of: $0) } ?? 0
        return switch flight {
        case .none: held
        // The encoder's answer may have as much as is allowed.
        case .encoding: held + Self.encodedLimit
        case .sending(let bytes): held + bytes
        }
    }

    /// Answers whether a captured picture is encoded.
    package mutating func captured(
        size: PixelSize, orientation: PictureOrientation, at now: ContinuousClock.Instant
    ) -> Answer {
        guard flight == .none else { return drop(.busy) }
        guard pressure != .critical else { return drop(.pressure) }
        let upright = orientation.upright(size)
        let halved = isReduced(at: now) || !Self.fits(upright)
        let target = halved ? PixelSize(width: upright.width / 2, height: upright.height / 2) : upright
        guard target.area > 0, Self.fits(target) else { return drop(.tooLarge) }
        if last.map({ $0.size != target || $0.orientation != orientation }) ?? true { needsKey = true }
        last = (target, orientation)
        planes = target
        flight = .encoding
        peak = max(peak, memory)
        defer { needsKey = false }
        return .encode(size: target, halved: halved, isKey: needsKey)
    }

    /// Takes in the encoder's answer; false when it is larger than may be, and is let go: a key picture follows.
    package mutating func encoded(bytes: Int) -> Bool {
        guard flight == .encoding else { return false }
        guard bytes <= Self.encodedLimit else {
            flight = .none
            needsKey = true
            dropped += 1
            return false
        }
        flight = .sending(bytes: bytes)
        return true
    }

    /// Takes in that the transport took the picture.
    package mutating func sent() { flight = .none }

    /// Takes in that the encoder or the transport failed with the picture.
    package mutating func failed() {
        flight = .none
        needsKey = true
        dropped += 1
    }

    /// Makes the next picture one that needs no other, as a viewer asked.
    package mutating func requestKey() { needsKey = true }

    /// Takes in the system's word on memory; true when the planes are to be freed now.
    package mutating func pressure(_ pressure: Pressure, at now: ContinuousClock.Instant) -> Bool {
        self.pressure = pressure
        if pressure != .normal { eased = now }
        guard pressure == .critical, flight != .encoding else { return false }
        planes = nil
        needsKey = true
        return true
    }

    private func isReduced(at now: ContinuousClock.Instant) -> Bool {
        pressure == .warning || (eased.map { now - $0 < Self.recovery } ?? false)
    }

    private static func fits(_ size: PixelSize) -> Bool {
        PlanarBuffer.byteCount(of: size) <= memoryLimit - encodedLimit
    }

    private mutating func drop(_ reason: Drop) -> Answer {
        dropped += 1
        return .drop(reason)
    }
}
