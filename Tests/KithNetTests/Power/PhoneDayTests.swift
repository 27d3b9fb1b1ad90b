import KithReach
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// A day of a phone that nobody uses, at a relay behind a NAT.
///
/// Every datagram, and every record of the relay's link, that the phone sends or receives is counted. The time is
/// simulated; the engines are those that the drivers ask.
struct PhoneDay {
    enum Traffic: String, CaseIterable {
        case relay = "pings and pongs of the relay's link"
        case connecting = "connecting to the relay"
        case announcements = "announcements on the local network"
        case records = "publishing where it is"
        case questions = "questions to STUN servers, and answers"
    }

    private enum Frame { case ping([UInt8]), pong([UInt8]) }

    /// The datagrams that it takes to connect: TCP, TLS, the WebSocket, the proof of the key.
    private static let connecting = 14
    /// Those of an HTTP exchange with a directory over TLS.
    private static let publishing = 14
    private static let delay = Duration.milliseconds(50)

    private let times: ReachTimes
    /// The silence after which the NAT forgets the link.
    private let memory: Duration
    private var random: SeededRandom
    private var now = ContinuousClock.now
    private var client: RelayKeepAlive
    private var server: RelayKeepAlive
    private var flights: [(at: ContinuousClock.Instant, isToServer: Bool, frame: Frame)] = []
    private var lastPassed: ContinuousClock.Instant
    private var isForgotten = false
    private(set) var counts: [Traffic: Int] = [:]

    var total: Int { counts.values.reduce(0, +) }

    init(_ times: ReachTimes, natForgetsAfter memory: Duration, random: SeededRandom) {
        (self.times, self.memory, self.random) = (times, memory, random)
        lastPassed = now
        client = RelayKeepAlive(times.relayPings, at: now, using: &self.random)
        server = RelayKeepAlive(Self.serverTimes(times), at: now, using: &self.random)
        count(.connecting, Self.connecting)
    }

    private static func serverTimes(_ times: ReachTimes) -> RelayKeepAlive.Times {
        .asked([times.relayPings.headerValue].compactMap(\.self), usual: .server, saving: .savingServer)
    }

    private mutating func count(_ traffic: Traffic, _ number: Int = 1) { counts[traffic, default: 0] += number }

    /// Lets a frame through the NAT, or not.
    private mutating func send(_ frame: Frame, toServer isToServer: Bool) {
        if isToServer { count(.relay) }
        if now - lastPassed > memory { isForgotten = true }
        guard !isForgotten else { return }
        lastPassed = now
        flights.append((now + Self.delay, isToServer, frame))
    }

    private mutating func arrive() {
        while let index = flights.firstIndex(where: { $0.at <= now }) {
            let flight = flights.remove(at: index)
            if !flight.isToServer { count(.relay) }
            switch (flight.isToServer, flight.frame) {
            case (true, .ping(let bytes)):
                server.heard(at: now)
                send(.pong(bytes), toServer: false)
            case (true, .pong(let bytes)): _ = server.received(pong: bytes, at: now)
            case (false, .ping(let bytes)):
                client.heard(at: now)
                send(.pong(bytes), toServer: true)
            case (false, .pong(let bytes)): _ = client.received(pong: bytes, at: now)
            }
        }
    }

    private mutating func reconnect() {
        client.ended()
        let pace = client.pace
        count(.connecting, Self.connecting)
        (flights, isForgotten, lastPassed) = ([], false, now)
        client = RelayKeepAlive(times.relayPings, pace: pace, at: now, using: &random)
        server = RelayKeepAlive(Self.serverTimes(times), at: now, using: &random)
    }

    mutating func run() {
        let end = now + .seconds(86_400)
        var schedule = AnnouncementSchedule(
            interval: max(LocalDiscovery.Options().interval, times.announcements ?? .zero), at: now)
        var publishing = PublishingSchedule(interval: times.records)
        publishing.changed(at: now)
        var question: ContinuousClock.Instant? = now
        while now < end {
            arrive()
            var next = [schedule.deadline, publishing.due, question, flights.map(\.at).min()].compactMap(\.self)
            switch client.next(at: now, using: &random) {
            case .ping(let bytes):
                send(.ping(bytes), toServer: true)
                continue
            case .wait(let until): next.append(until)
            case .dead:
                reconnect()
                continue
            }
            switch server.next(at: now, using: &random) {
            case .ping(let bytes):
                send(.ping(bytes), toServer: false)
                continue
            case .wait(let until): next.append(until)
            // The NAT has forgotten the link; the phone will find that out by itself.
            case .dead: server = RelayKeepAlive(Self.serverTimes(times), at: now, using: &random)
            }
            if schedule.take(at: now, jitter: Double.random(in: 0...1, using: &random)) {
                // The groups of both families, on one network.
                count(.announcements, 2)
                continue
            }
            if let due = publishing.due, due <= now {
                count(.records, Self.publishing)
                publishing.published(true, at: now)
                continue
            }
            if let due = question, due <= now {
                count(.questions, 2)
                question = times.idleQuestions.map { now + $0 }
                continue
            }
            now = max(now + .nanoseconds(1), next.min() ?? end)
        }
    }
}

@Suite("A day of an idle phone") struct PhoneDayTests {
    private func day(_ times: ReachTimes, natForgetsAfter memory: Duration, _ words: String) -> PhoneDay {
        var day = PhoneDay(times, natForgetsAfter: memory, random: .fromEnvironment())
        day.run()
        print("\(words): \(day.total) datagrams and records a day")
        for traffic in PhoneDay.Traffic.allCases { print("  \(day.counts[traffic] ?? 0) \(traffic.rawValue)") }
        return day
    }

    /// What RFC 5382 §5 demands of NATs for TCP.
    private let ordinary = Duration.seconds(7_440)

    @Test func `saving power it sends and receives at most 1500 datagrams and records`() {
        let day = day(.saving, natForgetsAfter: ordinary, "saving power")
        #expect(day.total <= 1_500)
        #expect(day.counts[.questions] == 2, "asked once, when it started")
        #expect(day.counts[.connecting] == 14, "connected once")
        // One ping each 240 s, once that is known to work.
        #expect((700...740).contains(day.counts[.relay] ?? 0))
    }

    @Test func `a NAT that forgets early is found out, and stays the exception`() {
        let day = day(.saving, natForgetsAfter: .seconds(150), "saving power, behind a NAT that forgets after 150 s")
        #expect(day.total <= 2_500)
        #expect((day.counts[.connecting] ?? 0) <= 30 * 14)
    }

    @Test func `on mains everything is there at once, at more than ten times the price`() {
        let day = day(.usual, natForgetsAfter: ordinary, "on mains")
        #expect(day.total > 10_000)
    }
}
