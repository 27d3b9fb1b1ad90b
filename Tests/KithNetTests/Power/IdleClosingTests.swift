import KithQUIC
import KithTesting
import KithWire
import Testing

@testable import KithNet

@Suite("Connections that nobody uses") struct IdleClosingTests {
    private let start = Timestamp(nanoseconds: 1_000)
    private let limit = Duration.seconds(120)

    @Test func `one without streams is closed when the time is over, and each use begins it anew`() {
        var closing = IdleClosing(after: limit, at: start)
        #expect(closing.next(at: start) == .wait(until: start.advanced(by: limit)))
        closing.used(at: start.advanced(by: .seconds(100)))
        let end = start.advanced(by: .seconds(220))
        #expect(closing.next(at: start.advanced(by: limit)) == .wait(until: end))
        #expect(closing.next(at: end) == .close)
    }

    @Test func `an open stream keeps it, however long`() {
        var closing = IdleClosing(after: limit, at: start)
        closing.began()
        closing.began()
        let late = start.advanced(by: .seconds(86_400))
        closing.ended(at: start.advanced(by: .seconds(1)))
        #expect(closing.next(at: late) == .wait(until: late.advanced(by: limit)))
        closing.ended(at: late)
        #expect(closing.next(at: late) == .wait(until: late.advanced(by: limit)))
        #expect(closing.next(at: late.advanced(by: limit)) == .close)
    }

    @Test(.timeLimit(.minutes(4)))
    func `an endpoint that saves power closes what only listens, and keeps what is used`() async throws {
        var options = Endpoint.Options()
        // Real time: that of the connections' own timers.
        options.idleClosing = .seconds(3)
        try await withPair(clientOptions: options) { used in
            let (near, far) = try await used.stream()
            try await withPair(clientOptions: options) { unused in
                let listening = try await unused.outgoing.openStream()
                listening.isInBackground()
                #expect(await unused.incoming.closed().code == .closed)
                #expect(await unused.outgoing.closed().message == "Nobody used the connection.")
            }
            // It was there before, and its time was over before.
            try await near.finish(writing: [1])
            #expect(try await far.readAll() == [1])
            try await far.finish()
            _ = try await near.readAll()
            #expect(await used.outgoing.closed().message == "Nobody used the connection.")
        }
    }
}
