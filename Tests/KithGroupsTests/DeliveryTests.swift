import Foundation
import KithGroups
import KithMLS
import KithStore
import KithTesting
import Testing

/// The duties of every delivery service.
@Suite struct DeliveryTests {
    enum Implementation: String, CaseIterable { case memory, file }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func make(_ implementation: Implementation) throws -> any GroupDelivery {
        switch implementation {
        case .memory: MemoryDelivery()
        case .file: try FileDelivery(path: folder.path + "/delivery")
        }
    }

    /// A group of one, and messages of it.
    private struct Sender: ~Copyable {
        var group: Group

        init() throws {
            let suite = CipherSuites.all[0]
            group = try Group(
                suite, profile: LeafProfile(credential: .basic(identity: [1])),
                signatureKey: suite.generateSignatureKey(), lifetime: Lifetime(notBefore: 0, notAfter: 1_000),
                configuration: GroupConfiguration(authentication: TrustingAuthenticationService()))
        }

        mutating func message(_ text: String) throws -> [UInt8] { try group.encrypt(Array(text.utf8)).bytes }

        mutating func commit() throws -> [UInt8] {
            defer { group.discardPendingCommit() }
            return try group.stageCommit().commit.bytes
        }

        mutating func move() throws {
            _ = try group.stageCommit()
            _ = try group.confirmPendingCommit()
        }
    }

    @Test(arguments: Implementation.allCases)
    func `messages have one order, and one that is sent twice one place`(implementation: Implementation) async throws {
        let delivery = try make(implementation)
        var sender = try Sender()
        let id = sender.group.groupID
        let messages = try (0..<5).map { try sender.message("\($0)") }
        for (index, message) in messages.enumerated() {
            #expect(try await delivery.send(message, to: id) == .accepted(position: UInt64(index)))
        }
        #expect(try await delivery.send(messages[2], to: id) == .accepted(position: 2))
        let page = try await delivery.messages(of: id, from: 1, limit: 3)
        #expect(page == (1...3).map { DeliveredMessage(position: UInt64($0), bytes: messages[$0]) })
        #expect(try await delivery.messages(of: id, from: 5, limit: 3).isEmpty)
        #expect(try await delivery.messages(of: id, from: .max, limit: 3).isEmpty)
        #expect(try await delivery.messages(of: [9], from: 0, limit: 3).isEmpty)
        await #expect(throws: DeliveryError.self) { try await delivery.send(messages[0], to: [9]) }
        await #expect(throws: DeliveryError.self) { try await delivery.send([1, 2, 3], to: id) }
    }

    @Test(arguments: Implementation.allCases)
    func `of an epoch's commits the first is taken, and it again and again`(implementation: Implementation) async throws
    {
        let delivery = try make(implementation)
        var sender = try Sender()
        let id = sender.group.groupID
        let (first, second) = (try sender.commit(), try sender.commit())
        #expect(try await delivery.send(first, to: id) == .accepted(position: 0))
        #expect(try await delivery.send(second, to: id) == .refused)
        #expect(try await delivery.send(first, to: id) == .accepted(position: 0))
        // Members need not keep keys of an epoch that is over.
        #expect(try await delivery.send(sender.message("late"), to: id) == .refused)
        try sender.move()
        let next = try sender.commit()
        #expect(try await delivery.send(sender.message("in time"), to: id) == .accepted(position: 1))
        #expect(try await delivery.send(next, to: id) == .accepted(position: 2))
        try sender.move()
        try sender.move()
        #expect(try await delivery.send(sender.commit(), to: id) == .refused)
        #expect(try await delivery.send(sender.message("early"), to: id) == .refused)
    }

    @Test(arguments: Implementation.allCases)
    func `whoever waits for news gets it, or stops when it is cancelled`(implementation: Implementation) async throws {
        let delivery = try make(implementation)
        var sender = try Sender()
        let (id, message) = (sender.group.groupID, try sender.message("x"))
        let waiting = Task { try await delivery.news(after: 0) }
        let cancelled = Task { try await delivery.news(after: 1) }
        _ = try await delivery.send(message, to: id)
        #expect(try await waiting.value == 1)
        #expect(try await delivery.news(after: 0) == 1)
        cancelled.cancel()
        await #expect(throws: DeliveryError.self) { try await cancelled.value }
    }

    @Test(arguments: Implementation.allCases)
    func `a group's last public state is the one there is`(implementation: Implementation) async throws {
        let delivery = try make(implementation)
        var sender = try Sender()
        let id = sender.group.groupID
        #expect(try await delivery.groupInfo(of: id) == nil)
        var states: [[UInt8]] = []
        for _ in 0..<3 {
            states.append(MLSMessage.groupInfo(try sender.group.groupInfo()).bytes)
            try await delivery.publish(groupInfo: states[states.count - 1], of: id)
            #expect(try await delivery.groupInfo(of: id) == states.last)
            try sender.move()
        }
        // What comes late would lock out who joins by it.
        try await delivery.publish(groupInfo: states[0], of: id)
        #expect(try await delivery.groupInfo(of: id) == states[2])
        // A commit of a later epoch than is known would be one that nobody could say anything about.
        #expect(try await delivery.send(sender.commit(), to: id) == .refused)
        let last = MLSMessage.groupInfo(try sender.group.groupInfo()).bytes
        try await delivery.publish(groupInfo: last, of: id)
        #expect(try await delivery.send(sender.commit(), to: id) == .accepted(position: 0))
        let signedAgain = MLSMessage.groupInfo(
            try sender.group.groupInfo(extensions: [sender.group.resumptionProofs()])
        ).bytes
        try await delivery.publish(groupInfo: signedAgain, of: id)
        #expect(try await delivery.groupInfo(of: id) == last)
    }

    @Test(arguments: Implementation.allCases)
    func `what is none of what it should be is refused, and the service goes on`(implementation: Implementation)
        async throws
    {
        let delivery = try make(implementation)
        var sender = try Sender()
        let id = sender.group.groupID
        let info = MLSMessage.groupInfo(try sender.group.groupInfo()).bytes
        for junk in [[], [1, 2], info] {
            await #expect(throws: DeliveryError.self) { try await delivery.publish(keyPackages: [junk], for: "ben") }
            await #expect(throws: DeliveryError.self) { try await delivery.send(welcome: junk) }
            await #expect(throws: DeliveryError.self) { try await delivery.send(junk, to: id) }
            await #expect(throws: DeliveryError.self) { try await delivery.publish(groupInfo: junk, of: [7]) }
        }
        #expect(try await delivery.send(sender.message("good"), to: id) == .accepted(position: 0))
        #expect(try await delivery.messages(of: id, from: 0, limit: 9).count == 1)
    }

    @Test func `a record that a killed process left unfinished is cut off, and two programs see the same`() async throws
    {
        let path = folder.path + "/delivery"
        let (one, other) = (try FileDelivery(path: path), try FileDelivery(path: path))
        var sender = try Sender()
        let id = sender.group.groupID
        let messages = try (0..<3).map { try sender.message("\($0)") }
        #expect(try await one.send(messages[0], to: id) == .accepted(position: 0))
        #expect(try await other.messages(of: id, from: 0, limit: 9).map(\.bytes) == [messages[0]])
        let whole = try Data(contentsOf: URL(filePath: path))
        for torn in [Data([0]), Data([0, 0, 1]), Data([0, 0, 1, 0, 1, 2, 3]), whole.dropLast()] {
            let handle = try #require(FileHandle(forWritingAtPath: path))
            try handle.truncate(atOffset: UInt64(whole.count))
            try handle.seekToEnd()
            try handle.write(contentsOf: torn)
            try handle.close()
            #expect(try await one.messages(of: id, from: 0, limit: 9).map(\.bytes) == [messages[0]])
        }
        #expect(try await other.send(messages[1], to: id) == .accepted(position: 1))
        #expect(try await one.send(messages[2], to: id) == .accepted(position: 2))
        let fresh = try FileDelivery(path: path)
        #expect(try await fresh.messages(of: id, from: 0, limit: 9).map(\.bytes) == messages)
        // A length that no record has is damage, not a reason to take memory.
        try Data([0xFF, 0xFF, 0xFF, 0xFF, 1]).write(to: URL(filePath: path + "2"))
        await #expect(throws: DeliveryError.self) {
            try await FileDelivery(path: path + "2").messages(of: id, from: 0, limit: 1)
        }
    }

    /// Rows are small; SQLite writes them in pages.
    @Test func `a message and a commit cost a bounded number of pages on the disk`() async throws {
        let delivery = MemoryDelivery()
        let storage = try database(folder.path, "ben")
        let clients = try [client("anna", delivery), client("ben", delivery, storage)]
        let sessions = try await party(clients)
        var packages: [KeyPackage] = []
        for number in 0..<200 {
            let suite = CipherSuites.all[0]
            let bundle = try KeyPackageBundle(
                suite, profile: LeafProfile(credential: .basic(identity: Array("\(number)".utf8))),
                signatureKey: suite.generateSignatureKey(), lifetime: Lifetime(notBefore: noon - 1, notAfter: noon + 9))
            packages.append(bundle.keyPackage)
        }
        _ = try await sessions[0].commit(CommitOptions(packages.map { .add($0) }))
        try await sessions[1].synchronise()
        func pages() throws -> [Data] {
            let content = try Data(contentsOf: URL(filePath: folder.path + "/ben/groups.sqlite"))
            return stride(from: 0, to: content.count, by: 4_096).map { content[$0..<min($0 + 4_096, content.count)] }
        }
        func changed(_ before: [Data]) throws -> Int {
            let after = try pages()
            return zip(before, after).count { $0 != $1 } + abs(after.count - before.count)
        }
        var before = try pages()
        try await sessions[1].say("a message")
        let message = try changed(before)
        _ = try await sessions[0].commit()
        before = try pages()
        try await sessions[1].synchronise()
        let commit = try changed(before)
        print("other pages: \(message) after a message, \(commit) after a commit among 202")
        #expect(1...16 ~= message)
        #expect(1...48 ~= commit)
    }
}
