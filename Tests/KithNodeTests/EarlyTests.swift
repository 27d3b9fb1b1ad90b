import KithAPI
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Testing

/// What a node does before the handshake of a resumed session is complete (RFC 9001 §9.2).
@Suite(.timeLimit(.minutes(4))) struct EarlyTests {
    @Test func `the table of methods says what may go out with the first flight`() async throws {
        let friends = try Friends(grants: [.shell])
        func afresh() { friends.dialer.link(to: friends.laptopID)?.close(.closed, reason: "test") }
        _ = try await friends.phone.client.call(Ask.self, "hi", on: "laptop")
        afresh()
        _ = try await friends.phone.client.call(Guarded.self, .init(rule: .paired), on: "laptop")
        afresh()
        _ = try await friends.phone.client.open(Pour.self, Nothing(), on: "laptop")
        // A query may, an action and a stream may not.
        #expect(friends.dialer.early == [true, false, false])
    }

    /// A stream of a link that resumes a session, with a header for `method`.
    private func ask<M: Method>(
        _ method: M.Type, _ input: M.Input, over link: PipeLink
    ) async throws -> any ByteStream {
        let stream = try await link.openStream()
        let header = StreamHeader(
            method: M.name, millisecondsLeft: nil, trace: nil, input: try CBOREncoder().encode(input))
        try await stream.write(try header.encoded())
        return stream
    }

    private func head(_ stream: any ByteStream) async throws -> ResponseHead? {
        var bytes: [UInt8] = []
        while let more = try await stream.read(upTo: 4096) {
            bytes += more
            if let (head, _) = try ResponseHead.parse(bytes) { return head }
        }
        return nil
    }

    @Test func `a query is answered at once, an action waits for the handshake`() async throws {
        let friends = try Friends(grants: [])
        let (near, far) = PipeLink.pair(friends.phoneID, friends.laptopID)
        far.beginEarly()
        let serving = Task { await friends.laptop.serve(link: far) }
        let action = try await ask(Guarded.self, .init(rule: .paired), over: near)
        let query = try await ask(Ask.self, "hi", over: near)
        guard case .success? = try await head(query) else {
            Issue.record("the query was refused")
            return
        }
        // The call; the record of the device and its events wait for that, too.
        try await eventually { far.waitingCount == 3 }
        #expect(friends.service.served.value == 0)
        #expect(friends.laptopDirectory.seenDevices.isEmpty)
        far.endEarly(true)
        guard case .success? = try await head(action) else {
            Issue.record("the action was refused")
            return
        }
        #expect(friends.service.served.value == 1)
        near.close(.closed, reason: "done")
        await serving.value
        #expect(friends.laptopDirectory.seenDevices.count == 2)
    }

    @Test func `an action of a handshake that is never completed is not done`() async throws {
        let friends = try Friends(grants: [])
        let (near, far) = PipeLink.pair(friends.phoneID, friends.laptopID)
        far.beginEarly()
        let serving = Task { await friends.laptop.serve(link: far) }
        let action = try await ask(Guarded.self, .init(rule: .paired), over: near)
        // The call; the record of the device and its events wait for that, too.
        try await eventually { far.waitingCount == 3 }
        far.endEarly(false)
        guard case .failure(.closed, _, _)? = try await head(action) else {
            Issue.record("the action was answered")
            return
        }
        #expect(friends.service.served.value == 0)
        near.close(.closed, reason: "done")
        await serving.value
    }

    @Test func `a stranger gets nothing before the handshake, whatever it asks`() async throws {
        let friends = try Friends(grants: nil)
        let (near, far) = PipeLink.pair(friends.phoneID, friends.laptopID)
        far.beginEarly()
        let serving = Task { await friends.laptop.serve(link: far) }
        let query = try await ask(Ask.self, "hi", over: near)
        // The call; the record of the device and its events wait for that, too.
        try await eventually { far.waitingCount == 3 }
        #expect(friends.laptopDirectory.audit.isEmpty)
        far.endEarly(true)
        guard case .failure(.unpaired, _, _)? = try await head(query) else {
            Issue.record("the query was answered")
            return
        }
        near.close(.closed, reason: "done")
        await serving.value
    }
}
