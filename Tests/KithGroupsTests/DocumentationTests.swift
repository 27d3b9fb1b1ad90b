import Foundation
import KithGroups
import KithIdentity
import KithMLS
import KithStore
import KithTesting
import Synchronization
import Testing

/// The documentation's examples, which are compiled and run here.
@Suite struct DocumentationTests {
    /// Every line of every example stands in this file.
    @Test func `the examples of the documentation are those of this file`() throws {
        let own = try String(contentsOfFile: #filePath, encoding: .utf8).split(separator: "\n").map(trimmed)
        let folder = URL(filePath: #filePath).appending(path: "../../../Sources/KithGroups/KithGroups.docc")
            .standardized
        var examples = 0
        for page in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```swift\n")
            for part in parts.dropFirst() {
                let lines = part.components(separatedBy: "```")[0].split(separator: "\n").map(trimmed)
                let isThere = own.indices.contains { start in own[start...].starts(with: lines) }
                #expect(isThere, "\(page.lastPathComponent): \(lines.first ?? "")")
                examples += 1
            }
        }
        #expect(examples == 8)
    }

    @Test func `a client makes a group, adds another, and talks`() async throws {
        let folder = try TemporaryFolder()
        let place = folder.path + "/anna"
        let delivery = MemoryDelivery()
        @Sendable func clock() -> UInt64 { noon }
        let ben = try client("ben", delivery)
        try await ben.replenishKeyPackages()

        let storage = try GroupDatabase.open(directory: place)
        let options = GroupClient.Options { clock() }
        let anna = try GroupClient(name: "anna", storage: storage, delivery: delivery, options: options)
        try await anna.replenishKeyPackages()

        let session = try await anna.createGroup()
        _ = try await session.add(["ben"])
        _ = try await session.send(Array("hello".utf8))

        try await ben.synchronise()
        let shown = Mutex<[String]>([])
        @Sendable func show(_ group: GroupSession) { shown.withLock { $0.append("joined") } }
        @Sendable func show(_ name: String, _ data: [UInt8]) {
            shown.withLock { $0.append("\(name): \(String(decoding: data, as: UTF8.self))") }
        }
        let listening = Task {
            for try await happened in ben.events {
                switch happened.event {
                case .joined: show(happened.group)
                case .message(let message): show(message.senderName ?? "member \(message.sender)", message.data)
                default: break
                }
            }
        }
        while shown.withLock({ $0.count }) < 2 { await Task.yield() }
        await ben.close()
        try await listening.value
        #expect(shown.withLock { $0 } == ["joined", "anna: hello"])
        storage.close()
        // The same key opens it again.
        #expect(try GroupDatabase.open(directory: place).groups() == [session.groupID])
    }

    @Test func `events are archived, messages shown, commits staged, groups joined anew`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery), client("cleo", delivery)])
        let dora = try client("dora", delivery)
        try await dora.replenishKeyPackages()
        let session = sessions[0]
        let bytes = try await sessions[1].send([1]).bytes
        try await session.synchronise()
        #expect(try await peeked(sessions[2], bytes) == [[1]])

        let archive = Archive()
        let listening = Task {
            for try await event in session.events {
                try archive.save(event.event, number: event.number)
            }
        }
        while archive.count == 0 { await Task.yield() }
        listening.cancel()

        #expect(try await removing(session, 2) == 1)
        let package = try KeyPackage(message: #require(try await delivery.takeKeyPackage(of: "dora")))
        for answer in [false, true] {
            func isWanted(_ change: EpochChange) -> Bool { answer && change.added.count == 1 }
            let change = try await session.stageCommit(CommitOptions([.add(package)]))
            if isWanted(change) {
                _ = try await session.sendPendingCommit()
            } else {
                try await session.discardPendingCommit()
            }
        }
        #expect(try await session.members().count == 3)
        try await session.rejoin()
        #expect(try await session.members().count == 3)
    }

    private func peeked(_ session: GroupSession, _ bytes: [UInt8]) async throws -> [[UInt8]] {
        var shown: [[UInt8]] = []
        func show(_ data: [UInt8]) { shown.append(data) }
        if let message = try await session.peek(bytes) { show(message.data) }
        return shown
    }

    private func removing(_ session: GroupSession, _ leaf: UInt32) async throws -> Int {
        var removed = 0
        func show(_ change: EpochChange) { removed = change.removed.count }
        func show(_ retry: [SentProposal]) { removed = -retry.count }
        switch try await session.commit(CommitOptions([.remove(leaf)])) {
        case .confirmed(let change): show(change)
        case .lost(let retry): show(retry)
        case .pending: break
        @unknown default: break
        }
        return removed
    }
}

private func trimmed(_ line: Substring) -> String { line.trimmingCharacters(in: .whitespaces) }

/// An application's archive of the events it was shown.
private final class Archive: Sendable {
    nonisolated(unsafe) private(set) var count = 0

    func save(_ event: GroupEvent, number: UInt64) throws { count += 1 }
}
