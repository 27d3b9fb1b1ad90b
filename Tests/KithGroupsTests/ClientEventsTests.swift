import KithGroups
import KithMLS
import KithTesting
import Testing

@Suite struct ClientEventsTests {
    @Test func `one loop hears all groups, those joined meanwhile too, by the senders' names`() async throws {
        let delivery = MemoryDelivery()
        let (anna, ben) = try (client("anna", delivery), client("ben", delivery))
        try await ben.replenishKeyPackages()
        let first = try await anna.createGroup(id: [1])
        _ = try await first.add(["ben"])
        try await first.say("one")
        try await ben.synchronise()
        let listener = Task { () -> [String] in
            var heard: [String] = []
            for try await happened in ben.events {
                switch happened.event {
                case .joined: heard.append("joined \(happened.group.groupID)")
                case .message(let message):
                    heard.append("\(message.senderName ?? "?"): \(String(decoding: message.data, as: UTF8.self))")
                default: break
                }
            }
            return heard
        }
        try await untilTaken(ben, [1])
        let second = try await anna.createGroup(id: [2])
        _ = try await second.add(["ben"])
        try await second.say("two")
        try await ben.synchronise()
        try await untilTaken(ben, [2])
        try await first.say("three")
        try await ben.synchronise()
        try await untilTaken(ben, [1])
        await ben.close()
        #expect(
            try await listener.value == ["joined [1]", "anna: one", "joined [2]", "anna: two", "anna: three"])
    }

    @Test func `what was given and not taken comes again, with its number`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let anna = try client("anna", delivery)
        let sessions = try await party([anna, client("ben", delivery, storage)])
        for text in ["one", "two"] { try await sessions[0].say(text) }
        try await sessions[1].synchronise()
        var numbers: [UInt64] = []
        for _ in 0..<2 {
            // The program ends while it handles the first event.
            var events = try client("ben", delivery, storage).events.makeAsyncIterator()
            let event = try #require(try await events.next())
            #expect(texts([event.event]) == ["one"])
            numbers.append(event.number)
        }
        #expect(numbers[0] == numbers[1])
        var events = try client("ben", delivery, storage).events.makeAsyncIterator()
        _ = try await events.next()
        #expect(try await events.next().map { texts([$0.event]) } == ["two"])
        let last = try client("ben", delivery, storage)
        let listener = Task { () -> Int in
            var count = 0
            for try await _ in last.events { count += 1 }
            return count
        }
        try await untilTaken(last, sessions[1].groupID)
        listener.cancel()
        #expect(try await listener.value == 1)
    }

    @Test func `a busy group leaves room for the others`() async throws {
        let delivery = MemoryDelivery()
        let (anna, ben) = try (client("anna", delivery), client("ben", delivery))
        try await ben.replenishKeyPackages()
        var groups: [GroupSession] = []
        for id in 1...3 {
            groups.append(try await anna.createGroup(id: [UInt8(id)]))
            _ = try await groups[id - 1].add(["ben"])
        }
        for number in 0..<20 { try await groups[0].say("\(number)") }
        try await ben.synchronise()
        var events = ben.events.makeAsyncIterator()
        var order: [UInt8] = []
        for _ in 0..<23 { order.append(try #require(try await events.next()).group.groupID[0]) }
        #expect(order.prefix(3).sorted() == [1, 2, 3])
        #expect(order.filter { $0 == 1 }.count == 21)
    }

    @Test func `a group that is forgotten, or joined anew, does not end the stream`() async throws {
        let delivery = MemoryDelivery()
        let (anna, ben) = try (client("anna", delivery), client("ben", delivery))
        try await ben.replenishKeyPackages()
        let group = try await anna.createGroup(id: [1])
        _ = try await group.add(["ben"])
        try await ben.synchronise()
        var events = ben.events.makeAsyncIterator()
        let joined = try #require(try await events.next())
        #expect(joined.event == .joined(epoch: 1))
        try await joined.group.forget()
        _ = try await group.commit(CommitOptions([.remove(1)]))
        _ = try await group.add(["ben"])
        try await ben.synchronise()
        let again = try #require(try await events.next())
        #expect(again.event == .joined(epoch: 3))
        #expect(again.group !== joined.group)
    }

    @Test func `names are the text of basic credentials alone`() {
        #expect(Credential.basic(identity: Array("Ünal".utf8)).name == "Ünal")
        for identity in [[], [0xFF, 0x41], Array("a\u{1B}[2J".utf8), Array("a\nb".utf8), Array("a\u{85}b".utf8)] {
            #expect(Credential.basic(identity: identity).name == nil, "\(identity)")
        }
        #expect(Credential.x509(certificates: [[1]]).name == nil)
        #expect(Credential.other(CredentialType(rawValue: 0xF001), Array("anna".utf8)).name == nil)
    }

    /// Waits until the events of a group are all taken.
    private func untilTaken(_ client: GroupClient, _ groupID: [UInt8]) async throws {
        let session = try #require(try client.group(groupID))
        // Those that were given are taken when the next is asked for: the one that waits for more has none.
        while try await session.waitingEvents().isEmpty == false { await Task.yield() }
    }
}
