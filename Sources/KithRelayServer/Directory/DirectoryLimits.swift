/// The most that a directory does for one key, for one address, and in all.
///
/// An address counts as the part of it that one household has: all of an IPv4 address, 64 bits of an IPv6 address. A
/// thousand devices may stand behind it, each with a record to publish every five minutes, so it gets plenty.
public struct DirectoryLimits: Hashable, Sendable {
    /// So many at once, and then so many each second.
    public struct Rate: Hashable, Sendable {
        /// The number each second.
        public var perSecond: Double
        /// The number at once.
        public var burst: Double

        /// Makes a rate.
        public init(perSecond: Double, burst: Double) {
            self.perSecond = perSecond
            self.burst = burst
        }
    }

    /// The records of one device that are taken: only signed ones count, so that nobody uses up another's.
    public var writesPerKey = Rate(perSecond: 0.5, burst: 20)
    /// The records taken from one address, checked or not: one costs about 80 µs.
    public var writesPerAddress = Rate(perSecond: 50, burst: 1_000)
    /// The records of devices that have none yet, taken from one network: 24 bits of an IPv4 address, 56 of an IPv6 address.
    ///
    /// Of a proxy on this machine, the network that its `X-Forwarded-For` names counts; without that, none is limited.
    public var newKeysPerNetwork = Rate(perSecond: 0.5, burst: 2_000)
    /// The records kept of one network; a new one takes the place of its own that was not repeated for the longest time.
    ///
    /// Not with etcd: what other front ends have taken in is from nobody knows where.
    public var recordsPerNetwork = 10_000
    /// The questions answered to one address.
    public var readsPerAddress = Rate(perSecond: 1_000, burst: 10_000)
    /// The answers over UDP to one address; beyond, it is told to ask over TCP, where it cannot be another's.
    public var datagramsPerAddress = Rate(perSecond: 200, burst: 1_000)
    /// The connections at once.
    public var connections = 4_096
    /// Those of one address.
    public var connectionsPerAddress = 512
    /// The seconds for a request to arrive, and for its answer to be taken; a connection without one lasts no longer.
    public var requestSeconds: Int64 = 30
    /// The records kept, 0.6 to 1.5 kB of memory each; beyond, the network with the most gives one up for each that is new.
    public var records = 200_000
    /// The records that wait to be written.
    public var pendingWrites = 4_096
    /// The seconds that a record is kept when its device does not repeat it: seven days.
    public var keptSeconds: Int64 = 7 * 86_400

    /// The limits of a public directory.
    public init() {}
}
