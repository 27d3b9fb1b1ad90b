/// How often a device sends something to stay reachable while nobody uses it.
///
/// ``usual`` is for machines on mains: found at once, a standby relay ready. ``saving`` is for a phone's battery, where
/// every datagram wakes the radio: one link to one relay, a ping each 60 to 240 s on it, and as good as nothing else.
package struct ReachTimes: Hashable, Sendable {
    /// The time between two questions to STUN servers while another device is connected.
    package var questions: Duration
    /// The same while no server has answered: a network that lets UDP pass after all does not say so.
    package var unansweredQuestions: Duration
    /// The same while no device is connected; `nil` for no questions.
    package var idleQuestions: Duration?
    /// The pings of links to relays.
    package var relayPings: RelayKeepAlive.Times
    /// The longest pause between two attempts to connect to a relay.
    package var longestPause: Duration
    /// Indicates whether a second relay is connected, too.
    package var keepsStandby: Bool
    /// The time between two publications of the same record; directories keep one for a week.
    package var records: Duration
    /// The time between two announcements on the local network; `nil` for what discovery does by itself.
    package var announcements: Duration?
    /// The time after which a connection to another device that nobody uses is closed; `nil` for never.
    package var idleConnections: Duration?
    /// Indicates whether a router may be asked to map the port, which it forgets unless it is asked again.
    package var mapsPort: Bool

    /// A machine on mains.
    package static let usual = ReachTimes(
        questions: .seconds(25), unansweredQuestions: .seconds(5), idleQuestions: .seconds(300),
        relayPings: .client, longestPause: RelayBackoff.longest, keepsStandby: true,
        records: PublishingSchedule.interval, announcements: nil, idleConnections: nil, mapsPort: true)
    /// A device that saves its battery.
    package static let saving = ReachTimes(
        questions: .seconds(25), unansweredQuestions: .seconds(25), idleQuestions: nil, relayPings: .savingClient,
        longestPause: .seconds(240),
        keepsStandby: false, records: .seconds(21_600), announcements: .seconds(1_200), idleConnections: .seconds(120),
        mapsPort: false)
}
