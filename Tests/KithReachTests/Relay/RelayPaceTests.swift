import KithReach
import KithTesting
import Testing

@Suite("The silence of a link to a relay") struct RelayPaceTests {
    private let start = ContinuousClock.now

    @Test func `it grows from 60 to 240 seconds while the link survives`() {
        var pace = RelayPace(.seconds(60) ... .seconds(240))
        var silences: [Duration] = []
        for _ in 0..<6 {
            silences.append(pace.silence)
            pace.survived(pace.silence)
        }
        #expect(silences == [.seconds(60), .seconds(90), .seconds(135), .seconds(202.5), .seconds(240), .seconds(240)])
        // Less than was tried proves nothing.
        pace.networkChanged()
        pace.survived(.seconds(59))
        #expect(pace.silence == .seconds(60))
    }

    @Test func `a link that did not survive makes it shorter, for a while`() {
        var pace = RelayPace(.seconds(60) ... .seconds(240))
        for _ in 0..<3 { pace.survived(pace.silence) }
        pace.died(after: .seconds(100))
        #expect(pace.silence == .seconds(202.5), "it died of something else")
        pace.died(after: pace.silence)
        #expect(pace.silence == .seconds(135))
        for _ in 0..<29 { pace.survived(pace.silence) }
        #expect(pace.silence == .seconds(135))
        pace.survived(pace.silence)
        #expect(pace.silence == .seconds(202.5), "after thirty, a longer one is tried again")
        for _ in 0..<20 { pace.died(after: pace.silence) }
        #expect(pace.silence == .seconds(60))
    }

    @Test func `a relay is asked for silence by a header, and takes nothing else for it`() {
        #expect(RelayKeepAlive.Times.client.headerValue == nil)
        #expect(RelayKeepAlive.Times.savingClient.headerValue == "240")
        var expected = RelayKeepAlive.Times.savingServer
        func times(_ values: [String]) -> RelayKeepAlive.Times { .asked(values, usual: .server, saving: .savingServer) }
        #expect(times(["240"]) == expected)
        #expect(times(["65535"]) == expected)
        expected.longestSilence = .seconds(120)
        #expect(times(["120"]) == expected)
        for values in [[], ["59"], ["0"], ["-1"], ["65536"], ["a lot"], [""], ["240", "240"], ["0000240"]] {
            #expect(times(values) == .server, "\(values)")
        }
    }

    @Test func `both ends keep silent, and the device is the one that pings`() {
        var random = SeededRandom(seed: 5)
        var client = RelayKeepAlive(.savingClient, at: start, using: &random)
        var server = RelayKeepAlive(.savingServer, at: start, using: &random)
        var (now, times) = (start, [Duration]())
        while now < start + .seconds(3_000) {
            // Each answers at once.
            switch client.next(at: now, using: &random) {
            case .ping(let bytes):
                times.append(now - start)
                server.heard(at: now)
                let roundTrip = client.received(pong: bytes, at: now)
                #expect(roundTrip == .zero)
                continue
            case .wait(let until): now = until
            case .dead: Issue.record("the relay answers")
            }
            guard case .wait(let until) = server.next(at: now, using: &random) else {
                Issue.record("the relay pings as well")
                return
            }
            #expect(until > now)
        }
        let pauses = zip(times.dropFirst(), times).map { $0 - $1 }
        #expect(pauses.prefix(5) == [.seconds(60), .seconds(90), .seconds(135), .seconds(202.5), .seconds(240)])
        #expect(pauses.dropFirst(4).allSatisfy { $0 == .seconds(240) })
    }

    @Test func `what an earlier link bore is tried by the next, and a sleep says nothing of it`() {
        var random = SeededRandom(seed: 6)
        var pace = RelayPace(.seconds(60) ... .seconds(240))
        pace.survived(.seconds(60))
        var client = RelayKeepAlive(.savingClient, pace: pace, at: start, using: &random)
        guard case .ping(let first) = client.next(at: start, using: &random) else {
            Issue.record("it pings at once")
            return
        }
        _ = client.received(pong: first, at: start)
        let waits = client.next(at: start, using: &random)
        #expect(waits == .wait(until: start + .seconds(90)))
        // The machine slept for an hour: what became of the link meanwhile is nobody's fault.
        guard case .ping = client.next(at: start + .seconds(3_600), using: &random) else {
            Issue.record("it pings after silence")
            return
        }
        client.ended()
        #expect(client.pace?.silence == .seconds(90))
        var another = RelayKeepAlive(.savingClient, pace: client.pace, at: start, using: &random)
        guard case .ping(let next) = another.next(at: start, using: &random) else { return }
        _ = another.received(pong: next, at: start)
        guard case .ping = another.next(at: start + .seconds(90), using: &random) else {
            Issue.record("it pings after silence")
            return
        }
        another.ended()
        #expect(another.pace?.silence == .seconds(60))
    }
}
