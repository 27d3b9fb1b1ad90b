import Foundation
import KithGroups
import KithMLS
import KithStore
import KithTesting
import Synchronization
import Testing

/// Several processes on one storage, and processes that die.
@Suite struct CrashTests {
    @Test func `two clients on one database send, receive and commit at once, and use no key twice`() async throws {
        let folder = try TemporaryFolder()
        let delivery = MemoryDelivery()
        let sessions = try await party([
            client("anna", delivery, database(folder.path, "anna")),
            client("ben", delivery, database(folder.path, "ben")),
        ])
        // The extension: another client value, another connection, the same files.
        let extensions = try [
            #require(try client("anna", delivery, database(folder.path, "anna")).group(sessions[0].groupID)),
            #require(try client("ben", delivery, database(folder.path, "ben")).group(sessions[0].groupID)),
        ]
        let both = [sessions[0], extensions[0]]
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for (index, session) in both.enumerated() {
                tasks.addTask {
                    for number in 0..<25 { try await session.say("\(index) \(number)") }
                }
            }
            // What becomes of a commit is known to its maker, whoever of the two handed it over.
            tasks.addTask {
                for _ in 0..<8 {
                    guard case .confirmed = try await sessions[0].commit() else {
                        Issue.record("a commit without a rival was not confirmed")
                        return
                    }
                }
            }
            for session in [sessions[1], extensions[1]] {
                tasks.addTask { for _ in 0..<20 { try await session.synchronise() } }
            }
            try await tasks.waitForAll()
        }
        for session in both + [sessions[1], extensions[1]] { try await session.synchronise() }
        // Both see the same events; each message is there once, each key was used once.
        let events = try await sessions[1].waitingEvents()
        #expect(try await extensions[1].waitingEvents() == events)
        let messages = events.compactMap { event -> ApplicationMessage? in
            if case .message(let message) = event.event { message } else { nil }
        }
        #expect(messages.count == 50)
        #expect(Set(messages.map { String(decoding: $0.data, as: UTF8.self) }).count == 50)
        #expect(Set(messages.map { [$0.epoch, UInt64($0.generation)] }).count == 50)
        #expect(try await sessions[0].agreement() == extensions[1].agreement())
        try await sessions[1].acknowledge(through: events[10].number)
        #expect(try await extensions[1].waitingEvents().first == events[11])
    }

    /// A child is two clients that talk as fast as they can and note what they were told is done, until a thread of it
    /// kills it; again and again on the same files.
    @Test func `killed at any moment, nothing that was told is lost and no key is used twice`() async throws {
        var random = SeededRandom.fromEnvironment(or: .random(in: 0...1 << 40))
        print(random)
        let folder = try TemporaryFolder()
        let path = folder.path
        let group: [UInt8] = [1, 2, 3]
        do {
            let delivery = try FileDelivery(path: path + "/delivery")
            let clients = try ["anna", "ben", "cleo"].map { try client($0, delivery, database(path, $0)) }
            for client in clients { try await client.replenishKeyPackages() }
            let session = try await clients[0].createGroup(id: group)
            _ = try await session.add(["ben", "cleo"])
            for client in clients.dropFirst() { _ = try await client.receiveWelcomes() }
        }
        for round in 0..<6 {
            let microseconds = UInt32.random(in: 0...400_000, using: &random)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [
                    path = path as String, group = group as [UInt8], round = round as Int,
                    microseconds = microseconds as UInt32
                ] in
                try await talkUntilKilled(path, group, round, microseconds)
            }
        }
        let delivery = try FileDelivery(path: path + "/delivery")
        let clients = try ["anna", "ben", "cleo"].map { try client($0, delivery, database(path, $0)) }
        let sessions = try clients.map { try #require(try $0.group(group)) }
        var refused: [Synchronisation.Refusal] = []
        for _ in 0..<2 { for session in sessions { refused += try await session.synchronise().refused } }
        #expect(refused.isEmpty, "\(random)")
        // Cleo was away all the time and has everything now.
        let heard = try await sessions[2].waitingEvents().compactMap { event -> ApplicationMessage? in
            if case .message(let message) = event.event { message } else { nil }
        }
        let texts = heard.map { String(decoding: $0.data, as: UTF8.self) }
        #expect(Set(texts).count == texts.count, "a message is there twice; \(random)")
        let keys = Set(heard.map { "\($0.sender) \($0.epoch) \($0.generation)" })
        #expect(keys.count == heard.count, "a key was used twice; \(random)")
        let sent = try notes(path, "sent")
        #expect(sent.count > 12 && sent.allSatisfy(Set(texts).contains), "\(random)")
        // Every message that Ben was to see he saw, or will see now.
        var seen = try notes(path, "seen")
        for event in try await sessions[1].waitingEvents() {
            if case .message(let message) = event.event { seen.append(String(decoding: message.data, as: UTF8.self)) }
        }
        #expect(Set(seen) == Set(texts.filter { $0.hasPrefix("anna") }), "\(random)")
        let agreed = try await sessions[0].agreement()
        for session in sessions { #expect(try await session.agreement() == agreed) }
        print("\(sent.count) messages told as sent, \(texts.count) there, epoch \(try await sessions[0].epoch())")
    }
}

private func notes(_ path: String, _ name: String) throws -> [String] {
    let text = try String(contentsOfFile: "\(path)/\(name)", encoding: .utf8)
    // The last line may be cut off.
    return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
}

private func note(_ descriptor: Int32, _ text: String) {
    let bytes = Array("\(text)\n".utf8)
    write(descriptor, bytes, bytes.count)
}

private func talkUntilKilled(_ path: String, _ group: [UInt8], _ round: Int, _ microseconds: UInt32) async throws {
    let delivery = try FileDelivery(path: path + "/delivery")
    let hasSent = DispatchSemaphore(value: 0)
    let anna = try #require(try client("anna", delivery, database(path, "anna")).group(group))
    let ben = try #require(try client("ben", delivery, database(path, "ben")).group(group))
    // Anna's other program, on the same database.
    let other = try #require(try client("anna", delivery, database(path, "anna")).group(group))
    let sent = open(path + "/sent", O_WRONLY | O_CREAT | O_APPEND, 0o600)
    let seen = open(path + "/seen", O_WRONLY | O_CREAT | O_APPEND, 0o600)
    Thread.detachNewThread {
        for _ in 0..<3 { hasSent.wait() }
        usleep(microseconds)  // Real time: the moment of the kill is random.
        kill(getpid(), SIGKILL)
    }
    try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask {
            for number in 0... {
                try await anna.synchronise()
                if number % 3 == 2 { _ = try await anna.commit() }
                do throws(GroupError) {
                    _ = try await anna.send(Array("anna \(round) \(number)".utf8))
                    note(sent, "anna \(round) \(number)")
                } catch { guard error == .refused(.commitRequired) else { throw error } }
                hasSent.signal()
            }
        }
        tasks.addTask {
            for number in 0... {
                try await ben.synchronise()
                if number % 4 == 3 { _ = try await ben.commit() }
                let text = "ben \(round) \(number)"
                _ = try await ben.send(Array(text.utf8))
                note(sent, text)
                hasSent.signal()
            }
        }
        tasks.addTask {
            for number in 0... {
                let text = "anna's other \(round) \(number)"
                do throws(GroupError) {
                    _ = try await other.send(Array(text.utf8))
                    note(sent, text)
                } catch {
                    guard error == .tooMuchWaiting else { throw error }
                    try await other.synchronise()
                }
            }
        }
        tasks.addTask {
            for try await event in ben.events {
                if case .message(let message) = event.event {
                    note(seen, String(decoding: message.data, as: UTF8.self))
                }
            }
        }
        try await tasks.waitForAll()
    }
}
