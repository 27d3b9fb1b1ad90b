import Foundation
import GRDB
import KithIdentity
import KithStore
import KithTesting
import KithWire
import Testing

@Suite struct InvitationStoreTests {
    @Test func `an invitation is used once, whoever races for it`() async throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        for round in 0..<5 as Range<UInt8> {
            let invitation = try invitation()
            try store.add(InvitationRecord(invitation, grants: [.shell], isAutomatic: false), now: 1_000)
            let paired = await withTaskGroup(of: PairedDevice?.self) { group in
                for number in 1...16 as ClosedRange<UInt8> {
                    group.addTask {
                        // All but one are refused; the count below is the test.
                        try? store.begunAndPaired(
                            device(16 * round + number, name: "d\(round)-\(number)"), invitation.id, now: 1_500)
                    }
                }
                return await group.reduce(into: [PairedDevice]()) { if let device = $1 { $0.append(device) } }
            }
            #expect(paired.count == 1)
            // Who was refused was not stored, either.
            #expect(try store.devices().count == Int(round) + 1)
            #expect(throws: KithError(.unpaired, "")) { _ = try store.usableInvitation(invitation.id, now: 1_500) }
        }
    }

    @Test func `an expired, an unknown and a revoked invitation are refused`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let invitation = try invitation(expiresAt: 2_000)
        let record = InvitationRecord(invitation, grants: [], isAutomatic: false)
        try store.add(record, now: 1_000)
        #expect(try store.usableInvitation(invitation.id, now: 1_999) == record)
        for now in [2_000, 2_001, Int64.max] {
            #expect(throws: KithError(.unpaired, "")) { _ = try store.usableInvitation(invitation.id, now: now) }
            #expect(throws: KithError(.unpaired, "")) {
                _ = try store.begunAndPaired(device(1), invitation.id, now: now)
            }
        }
        #expect(throws: KithError(.unpaired, "")) { _ = try store.usableInvitation("0123456789abcdef", now: 1) }
        #expect(try store.revokeInvitation(invitation.id))
        #expect(try !store.revokeInvitation(invitation.id))
        #expect(throws: KithError(.unpaired, "")) {
            _ = try store.begunAndPaired(device(1), invitation.id, now: 1_500)
        }
        #expect(try store.devices().isEmpty)
    }

    @Test func `a used one cannot be made usable by adding it again`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let invitation = try invitation()
        let record = InvitationRecord(invitation, grants: [], isAutomatic: false)
        try store.add(record, now: 1_000)
        _ = try store.begunAndPaired(device(1), invitation.id, now: 1_500)
        #expect(throws: KithError.self) { try store.add(record, now: 1_600) }
        #expect(try !store.revokeInvitation(invitation.id))
        #expect(throws: KithError(.unpaired, "")) { _ = try store.usableInvitation(invitation.id, now: 1_600) }
    }

    @Test func `the usable ones are listed, the next to expire first, and are bounded`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        for number in (1...Store.invitationLimit).reversed() {
            try store.add(
                InvitationRecord(invitation(expiresAt: 2_000 + Int64(number)), grants: [], isAutomatic: false),
                now: 1_000)
        }
        #expect(
            try store.invitations(now: 1_000).map(\.expiresAt) == (1...Store.invitationLimit).map { 2_000 + Int64($0) })
        let more = InvitationRecord(try invitation(expiresAt: 9_000), grants: [.shell], isAutomatic: true)
        #expect(throws: KithError(.exhausted, "")) { try store.add(more, now: 1_000) }
        // Those that have expired do not count.
        try store.add(more, now: 2_050)
        #expect(try store.invitations(now: 2_100) == [more])
        #expect(more.description.contains(more.id) && "\(more)".count < 40)
    }

    // MARK: - Attempts

    @Test func `three attempts use an invitation up, also across a restart, and the last of them may still pair`()
        throws
    {
        let folder = try TemporaryFolder()
        var store = try folder.open()
        let invitation = try invitation(expiresAt: 600_000)
        try store.add(InvitationRecord(invitation, grants: [], isAutomatic: true), now: 1_000)
        let first = try store.beginAttempt(by: invitation.id, from: device(1).id, at: "192.0.2.1:1", now: 1_000)
        #expect(first.attempts == Pairing.Attempts(earlier: 0, byOthers: 0, left: 2))
        #expect(try store.endAttempt(first.number, "gone", now: 1_001) == 2)
        let second = try store.beginAttempt(by: invitation.id, from: device(2).id, at: "", now: 100_000)
        #expect(second.attempts == Pairing.Attempts(earlier: 1, byOthers: 1, left: 1))
        // Killed, before it could say how that one ended.
        store.close()
        store = try folder.open()
        let third = try store.beginAttempt(by: invitation.id, from: device(2).id, at: "", now: 500_000)
        #expect(third.attempts == Pairing.Attempts(earlier: 2, byOthers: 1, left: 0))
        store.close()
        store = try folder.open()
        defer { store.close() }
        for _ in 0..<2 {
            #expect(throws: KithError(.unpaired, "")) {
                _ = try store.beginAttempt(by: invitation.id, from: device(3).id, at: "", now: 500_000)
            }
            #expect(throws: KithError(.unpaired, "")) {
                _ = try store.usableInvitation(invitation.id, now: 500_000)
            }
        }
        let listed = try store.invitations(now: 500_000)
        #expect(listed.map(\.attemptsLeft) == [0] && listed[0].proofKey.isEmpty)
        #expect(try store.failedAttempts(now: 500_000).map(\.device) == [device(2).id, device(2).id, device(1).id])
        #expect(try store.failedAttempts(now: 500_000).map(\.ending) == [nil, nil, "gone"])
        #expect(try store.audit(limit: 10).count == 4)
        // Only with its own number, and its own key.
        for (key, attempt) in [(2, first.number), (1, third.number), (2, third.number + 1)] as [(UInt8, Int64)] {
            #expect(throws: KithError(.unpaired, "")) {
                _ = try store.pair(device(key), invitation: invitation.id, attempt: attempt, now: 500_001)
            }
        }
        _ = try store.pair(device(2), invitation: invitation.id, attempt: third.number, now: 500_001)
        // Who is paired by it now has been seen; the other key has not, even when it is paired in another way.
        #expect(try store.failedAttempts(now: 500_001).map(\.device) == [device(1).id])
        _ = try store.add(device(1))
        #expect(try store.failedAttempts(now: 500_001).map(\.device) == [device(1).id])
    }

    @Test func `all invitations together allow so many attempts in an hour that come to nothing`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        func attempt(now: Int64) throws -> (number: Int64, invitation: String) {
            let invitation = try invitation(expiresAt: 100_000)
            try store.add(InvitationRecord(invitation, grants: [], isAutomatic: false), now: now)
            return (
                try store.beginAttempt(by: invitation.id, from: device(1).id, at: "", now: now).number, invitation.id
            )
        }
        // Those that lead to a pairing do not count.
        for _ in 0..<20 {
            let (number, invitation) = try attempt(now: 10_000)
            _ = try store.pair(device(1), invitation: invitation, attempt: number, now: 10_000)
        }
        for _ in 0..<Store.attemptsPerHour { _ = try attempt(now: 10_000) }
        #expect(throws: KithError(.exhausted, "")) { _ = try attempt(now: 10_001) }
        #expect(throws: KithError(.exhausted, "")) { _ = try attempt(now: 13_599) }
        _ = try attempt(now: 13_601)
    }

    @Test func `a clock that jumped ahead and back keeps nobody out`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let ahead: Int64 = 4_000_000_000
        func attempt(now: Int64) throws {
            let invitation = try invitation(expiresAt: now + 600)
            try store.add(InvitationRecord(invitation, grants: [], isAutomatic: false), now: now)
            _ = try store.beginAttempt(by: invitation.id, from: device(1).id, at: "", now: now)
        }
        for _ in 0..<Store.attemptsPerHour { try attempt(now: ahead) }
        #expect(throws: KithError(.exhausted, "")) { try attempt(now: ahead) }
        for _ in 0..<Store.attemptsPerHour { try attempt(now: 10_000) }
        #expect(throws: KithError(.exhausted, "")) { try attempt(now: 10_000) }
        // A little back is no way around the limit.
        #expect(throws: KithError(.exhausted, "")) { try attempt(now: 9_000) }
    }

    @Test func `an invitation of another device is tried three times from here`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        for earlier in 0..<3 {
            let begun = try store.beginJoining(by: "0123456789abcdef", of: device(1).id, now: 1_000)
            #expect(begun.earlier == earlier)
            if earlier < 2 { try store.endJoining(begun.number, isPaired: false) }
        }
        #expect(throws: KithError(.exhausted, "")) {
            _ = try store.beginJoining(by: "0123456789abcdef", of: device(1).id, now: 1_000)
        }
        #expect(try store.failedAttempts(now: 1_000).isEmpty)
    }

    @Test func `invitations of a database of before can be used, three times`() throws {
        let folder = try TemporaryFolder()
        let invitation = try invitation()
        do {
            let store = try folder.open()
            try store.add(InvitationRecord(invitation, grants: [.shell], isAutomatic: false), now: 1_000)
            store.close()
            let database = try DatabaseQueue(path: folder.path + "/kith.sqlite")
            try database.write { database in
                try database.execute(sql: "DROP TABLE pairing_attempts")
                try database.execute(sql: "DELETE FROM grdb_migrations WHERE identifier = 'pairing attempts'")
            }
            try database.close()
        }
        let store = try folder.open()
        defer { store.close() }
        #expect(try store.usableInvitation(invitation.id, now: 1_500).attemptsLeft == 3)
        _ = try store.begunAndPaired(device(1), invitation.id, now: 1_500)
    }

    @Test func `the secret itself is nowhere in the directory`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        let invitation = try invitation()
        try store.add(InvitationRecord(invitation, grants: [], isAutomatic: false), now: 1_000)
        store.close()
        let secret = Data(invitation.secret)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            #expect(Data(try folder.bytes(name)).range(of: secret) == nil, "\(name)")
        }
    }
}

extension Store {
    /// Pairs a device as an attempt does that comes to something.
    fileprivate func begunAndPaired(_ device: PairedDevice, _ invitation: String, now: Int64) throws -> PairedDevice {
        let (number, _) = try beginAttempt(by: invitation, from: device.id, at: "", now: now)
        return try pair(device, invitation: invitation, attempt: number, now: now)
    }
}
