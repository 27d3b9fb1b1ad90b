import Foundation
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
                        try? store.pair(
                            device(16 * round + number, name: "d\(round)-\(number)"), invitation: invitation.id,
                            now: 1_500)
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
                _ = try store.pair(device(1), invitation: invitation.id, now: now)
            }
        }
        #expect(throws: KithError(.unpaired, "")) { _ = try store.usableInvitation("0123456789abcdef", now: 1) }
        #expect(try store.revokeInvitation(invitation.id))
        #expect(try !store.revokeInvitation(invitation.id))
        #expect(throws: KithError(.unpaired, "")) {
            _ = try store.pair(device(1), invitation: invitation.id, now: 1_500)
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
        _ = try store.pair(device(1), invitation: invitation.id, now: 1_500)
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
