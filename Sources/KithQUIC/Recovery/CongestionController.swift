/// The congestion controllers a connection can use.
@nonexhaustive
public enum CongestionControllerKind: Hashable, Sendable, CaseIterable {
    /// BBR version 3 (draft-ietf-ccwg-bbr): models the path's rate and delay; the default.
    case bbr
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406): what most of the internet's TCP does.
    case cubic
    /// NewReno (RFC 9002 §7): halves on loss.
    case newReno
}

/// Decides how much may be in flight and how fast it is sent.
///
/// Called through ``CongestionControl``, never as an existential.
package protocol CongestionController: Sendable {
    /// The most bytes that may be in flight.
    var congestionWindow: Int { get }
    /// Bytes a second to send at.
    var pacingRate: Int64 { get }
    /// Indicates whether it holds back on purpose now, so that delivery rates say nothing about the path.
    var isHoldingBack: Bool { get }

    /// A packet was sent; `inFlight` counts it already.
    mutating func sent(size: Int, inFlight: Int, isApplicationLimited: Bool, at now: Timestamp)
    /// A packet was lost; comes before the sample of the same ACK frame.
    mutating func lost(_ sample: LossSample)
    /// An ACK frame newly acknowledged something.
    mutating func acknowledged(_ sample: AckSample)
    /// The peer saw more packets marked by the network (RFC 9002 §7.1).
    mutating func congestionExperienced(sentTime: Timestamp, at now: Timestamp)
    /// A packet declared lost arrived after all.
    ///
    /// `isWholePeriod` says that with it every loss has arrived since the controller last had a reason to slow down:
    /// what they changed is put back (RFC 9438 §4.9, draft-ietf-ccwg-bbr "Spurious Loss Recovery").
    mutating func lossWasSpurious(size: Int, isWholePeriod: Bool, at now: Timestamp)
    /// Nothing got through for several probe time-outs (RFC 9002 §7.6).
    mutating func persistentCongestion(inFlight: Int)
    /// Datagrams have another size from now on.
    mutating func datagramSizeChanged(_ size: Int)
}

/// The congestion controller of a connection, dispatched by a switch.
package enum CongestionControl: CongestionController {
    case bbr(BBR)
    case cubic(Cubic)
    case newReno(NewReno)

    /// Makes the controller of that kind.
    package init(_ kind: CongestionControllerKind, datagramSize: Int, initialRTT: Int64, seed: UInt64) {
        switch kind {
        case .bbr: self = .bbr(BBR(datagramSize: datagramSize, seed: seed))
        case .cubic: self = .cubic(Cubic(datagramSize: datagramSize, initialRTT: initialRTT))
        case .newReno: self = .newReno(NewReno(datagramSize: datagramSize, initialRTT: initialRTT))
        }
    }

    package var congestionWindow: Int {
        switch self {
        case .bbr(let controller): controller.congestionWindow
        case .cubic(let controller): controller.congestionWindow
        case .newReno(let controller): controller.congestionWindow
        }
    }

    package var pacingRate: Int64 {
        switch self {
        case .bbr(let controller): controller.pacingRate
        case .cubic(let controller): controller.pacingRate
        case .newReno(let controller): controller.pacingRate
        }
    }

    package var isHoldingBack: Bool {
        switch self {
        case .bbr(let controller): controller.isHoldingBack
        case .cubic(let controller): controller.isHoldingBack
        case .newReno(let controller): controller.isHoldingBack
        }
    }

    package mutating func sent(size: Int, inFlight: Int, isApplicationLimited: Bool, at now: Timestamp) {
        update(
            { $0.sent(size: size, inFlight: inFlight, isApplicationLimited: isApplicationLimited, at: now) },
            { $0.sent(size: size, inFlight: inFlight, isApplicationLimited: isApplicationLimited, at: now) },
            { $0.sent(size: size, inFlight: inFlight, isApplicationLimited: isApplicationLimited, at: now) })
    }

    package mutating func lost(_ sample: LossSample) {
        update({ $0.lost(sample) }, { $0.lost(sample) }, { $0.lost(sample) })
    }

    package mutating func acknowledged(_ sample: AckSample) {
        update({ $0.acknowledged(sample) }, { $0.acknowledged(sample) }, { $0.acknowledged(sample) })
    }

    package mutating func congestionExperienced(sentTime: Timestamp, at now: Timestamp) {
        update(
            { $0.congestionExperienced(sentTime: sentTime, at: now) },
            { $0.congestionExperienced(sentTime: sentTime, at: now) },
            { $0.congestionExperienced(sentTime: sentTime, at: now) })
    }

    package mutating func lossWasSpurious(size: Int, isWholePeriod: Bool, at now: Timestamp) {
        update(
            { $0.lossWasSpurious(size: size, isWholePeriod: isWholePeriod, at: now) },
            { $0.lossWasSpurious(size: size, isWholePeriod: isWholePeriod, at: now) },
            { $0.lossWasSpurious(size: size, isWholePeriod: isWholePeriod, at: now) })
    }

    package mutating func persistentCongestion(inFlight: Int) {
        update(
            { $0.persistentCongestion(inFlight: inFlight) },
            { $0.persistentCongestion(inFlight: inFlight) },
            { $0.persistentCongestion(inFlight: inFlight) })
    }

    package mutating func datagramSizeChanged(_ size: Int) {
        update({ $0.datagramSizeChanged(size) }, { $0.datagramSizeChanged(size) }, { $0.datagramSizeChanged(size) })
    }

    @inline(__always)
    private mutating func update(
        _ bbr: (inout BBR) -> Void, _ cubic: (inout Cubic) -> Void, _ newReno: (inout NewReno) -> Void
    ) {
        switch self {
        case .bbr(var controller):
            bbr(&controller)
            self = .bbr(controller)
        case .cubic(var controller):
            cubic(&controller)
            self = .cubic(controller)
        case .newReno(var controller):
            newReno(&controller)
            self = .newReno(controller)
        }
    }
}
