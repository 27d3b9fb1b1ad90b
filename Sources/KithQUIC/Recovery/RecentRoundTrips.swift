/// The newest round-trip samples, for when the smallest of them cannot be believed.
///
/// On a path that reorders packets, one of them or its acknowledgement now and then arrives early and makes the path
/// look far shorter than it is. A minimum over seconds would pick every such sample, and a congestion window for that
/// path is a trickle; the lower quarter of the newest samples does not.
struct RecentRoundTrips: Sendable {
    private static let capacity = 32

    private var samples: [Int64] = []
    private var place = 0

    @inline(__always)
    mutating func append(_ sample: Int64) {
        if samples.count < Self.capacity {
            samples.append(sample)
        } else {
            samples[place] = sample
            place = (place + 1) % Self.capacity
        }
    }

    /// Indicates whether there are enough of them.
    var isMeaningful: Bool { samples.count >= Self.capacity / 2 }

    /// The sample a quarter of the others are below; nil without any.
    var lowerQuartile: Int64? {
        samples.isEmpty ? nil : samples.sorted()[samples.count / 4]
    }
}
