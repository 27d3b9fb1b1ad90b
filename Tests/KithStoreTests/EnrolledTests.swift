import Foundation
import GRDB
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithStore

@Suite struct EnrolledTests {
    private let root: [UInt8] = [1, 2, 3]

    private func withStore(_ body: (Store) throws -> Void) throws {
        let store = try TemporaryFolder().open()
        defer { store.close() }
        try pin(root, store)
        try body(store)
    }

    @discardableResult
    private func pin(_ root: [UInt8], _ store: Store, keepsOthers: Bool = false) throws -> [PairedDevice] {
        try store.pin(
            PinnedTrust(root: root, certificate: [9], holder: try device(9).id), keepsOthers: keepsOthers, now: 1)
    }

    @discardableResult
    private func enrol(
        _ number: UInt8, until: Int64 = 2_000, grants: [Grant] = [], by introducer: Store.Introducer = .device,
        root: [UInt8]? = nil, now: Int64 = 1_000, _ store: Store
    ) throws -> PairedDevice {
        try store.addEnrolled(
            try device(number, grants: grants),
            CheckedCertificate(certificate: [number], root: root ?? self.root, until: until), by: introducer, now: now)
    }

    @Test func `a device that is known by its certificate is known until that is over, across restarts`() throws {
        let folder = try TemporaryFolder()
        var store = try folder.open()
        try pin(root, store)
        let added = try enrol(1, store)
        #expect(added.grants == [] && added.certifiedUntil == 2_000)
        store.close()
        store = try folder.open()
        defer { store.close() }
        #expect(try store.device(added.id) == added)
        #expect(store.reception(of: added.id, now: 1_999) == .paired)
        #expect(store.reception(of: added.id, now: 2_000) == .unknown)
        #expect(added.isCurrent(at: 1_999) && !added.isCurrent(at: 2_000))
        #expect(store.certifiedDevices == [added.id: 2_000])
        // A newer certificate holds longer, an older one does not hold less long.
        try store.setPresented(StoredCertificate(device: added.id, certificate: [7]), until: 3_000, now: 1)
        try store.setPresented(StoredCertificate(device: added.id, certificate: [6]), until: 2_500, now: 1)
        #expect(try store.device(added.id)?.certifiedUntil == 3_000)
        #expect(store.reception(of: added.id, now: 2_999) == .paired)
        #expect(try store.audit(limit: 10).contains { $0.method == "trust.introduce" && $0.device == "laptop" })
    }

    @Test func `nobody shows a certificate before the device says so, nor after, nor who was cut off here`() throws {
        try withStore { store in
            let other = try device(1).id
            #expect(store.reception(of: other, now: 5) == .unknown)
            store.admitEnrolled(until: 10)
            #expect(store.reception(of: other, now: 5) == .enrolled && store.mayIntroduceItself(other, now: 5))
            #expect(store.reception(of: other, now: 10) == .unknown && !store.mayIntroduceItself(other, now: 10))
            let (forgotten, revoked) = (try device(2).id, try device(3).id)
            _ = try store.add(try device(2))
            #expect(try store.forget(forgotten))
            _ = try store.setRevocations(
                StoredRevocations(number: 1, list: [], devices: [revoked]), now: 1)
            for id in [forgotten, revoked] {
                #expect(store.reception(of: id, now: 5) == .unknown && !store.mayIntroduceItself(id, now: 5))
            }
            // An invitation is open to the one that was forgotten, as ever, and to nobody who was revoked.
            try store.add(InvitationRecord(try invitation(), grants: [], isAutomatic: false), now: 5)
            #expect(store.reception(of: forgotten, now: 5) == .invited)
            #expect(store.reception(of: revoked, now: 5) == .unknown)
            #expect(!store.mayIntroduceItself(forgotten, now: 5))
            store.admitEnrolled(until: nil)
            #expect(!store.mayIntroduceItself(other, now: 5))
        }
    }

    @Test func `a device that was forgotten comes back only by this device's person, one that was revoked never`()
        throws
    {
        try withStore { store in
            let id = try enrol(1, store).id
            #expect(try store.forget(id))
            #expect(throws: KithError(.denied, "")) { try enrol(1, store) }
            #expect(try store.device(id) == nil)
            #expect(try enrol(1, by: .person, store).certifiedUntil == 2_000)
            #expect(try store.forget(id))
            // A pairing takes it back as well.
            _ = try store.add(try device(1))
            #expect(try store.device(id)?.certifiedUntil == nil)
            _ = try store.setRevocations(StoredRevocations(number: 1, list: [], devices: [id]), now: 1)
            #expect(try store.device(id) == nil)
            #expect(throws: KithError(.denied, "")) { try enrol(1, by: .person, store) }
        }
    }

    @Test func `one that was forgotten before this was noted is not let in by its certificate`() throws {
        let folder = try TemporaryFolder()
        var store = try folder.open()
        try pin(root, store)
        let (gone, here) = (try device(1).id, try store.add(try device(2)).id)
        for id in [gone, here] {
            try store.setPresented(StoredCertificate(device: id, certificate: [1]), until: 9, now: 1)
        }
        try store.database.write { database in
            try database.execute(sql: "DROP TABLE enrolled_devices")
            try database.execute(sql: "DROP TABLE forgotten_devices")
            try database.execute(sql: "DELETE FROM grdb_migrations WHERE identifier = 'enrolled devices'")
        }
        store.close()
        store = try folder.open()
        defer { store.close() }
        store.admitEnrolled(until: 10)
        #expect(store.reception(of: gone, now: 5) == .unknown)
        #expect(store.reception(of: here, now: 5) == .paired)
        #expect(try store.reception(of: device(3).id, now: 5) == .enrolled)
    }

    @Test func `a device that people paired stays so, with its grants, and one that is known can be paired`() throws {
        try withStore { store in
            let paired = try store.add(try device(1, grants: [.shell]))
            let still = try enrol(1, grants: [.forward], store)
            #expect(still.grants == [.shell] && still.certifiedUntil == nil && still.name == paired.name)
            #expect(store.certifiedDevices.isEmpty)
            let known = try enrol(2, grants: [.shell], store)
            #expect(known.grants == [.shell] && known.name == "laptop-2")
            let again = try enrol(2, until: 4_000, grants: [.forward], store)
            #expect(again.grants == [.shell] && again.certifiedUntil == 4_000)
            #expect(try store.add(device(2, grants: [])).certifiedUntil == nil)
            #expect(store.reception(of: known.id, now: 9_000) == .paired)
        }
    }

    @Test func `a certificate under another root, or one that is over, adds nobody`() throws {
        try withStore { store in
            #expect(throws: KithError(.conflict, "")) { try enrol(1, root: [4], store) }
            #expect(throws: KithError(.timedOut, "")) { try enrol(1, until: 1_000, store) }
            let devices = try store.devices()
            #expect(devices.isEmpty)
        }
    }

    @Test func `another root ends the devices that were known under the one before, and no pairing`() throws {
        try withStore { store in
            let (known, paired) = (try enrol(1, store), try store.add(try device(2, name: "desk")))
            #expect(try pin(root, store, keepsOthers: true).isEmpty)
            #expect(try pin([4], store).map(\.id) == [known.id])
            #expect(try store.devices().map(\.id) == [paired.id])
            #expect(store.reception(of: known.id, now: 5) == .unknown)
        }
    }

    @Test func `what such devices may do is nothing until a person says otherwise, and kept`() throws {
        let folder = try TemporaryFolder()
        var store = try folder.open()
        #expect(try store.enrolledAdmission() == EnrolledAdmission(isOn: true, grants: []))
        let top = Store.resolved(folder.path)
        for name in ["real", "other"] {
            try FileManager.default.createDirectory(atPath: top + "/" + name, withIntermediateDirectories: false)
        }
        let link = top + "/link"
        #expect(symlink("real", link) == 0)
        let grants: [Grant] = [.files(.read, root: link), .shell]
        try store.setEnrolledAdmission(EnrolledAdmission(isOn: false, grants: grants))
        store.close()
        store = try folder.open()
        defer { store.close() }
        #expect(try store.enrolledAdmission() == EnrolledAdmission(isOn: false, grants: grants))
        // A folder is the one that it was when the person chose it.
        #expect(unlink(link) == 0 && symlink("other", link) == 0)
        try pin(root, store)
        try enrol(1, grants: grants, store)
        #expect(try store.grantedRoot(link) == top + "/real")
        try store.setSetting("enrolled", "maybe")
        #expect(throws: KithError(.corrupt, "")) { try store.enrolledAdmission() }
    }
}
