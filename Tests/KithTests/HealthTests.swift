@testable import Kith
import KithWire
import Testing

@Suite struct `The health of a device` {
    private static let reachable = Health(
        directory: "/data", listens: true, addresses: [NetworkAddress(ipv4: (192, 0, 2, 1), port: 1)],
        freeBytes: 1 << 40)

    @Test func `is nothing to speak of where all is well`() {
        #expect(Self.reachable.problems == [])
        var quiet = Self.reachable
        (quiet.listens, quiet.addresses, quiet.freeBytes) = (false, [], nil)
        #expect(quiet.problems == [])
    }

    @Test func `says what is wrong in words`() {
        var ill = Self.reachable
        ill.addresses = []
        #expect(ill.problems.first?.contains("no address") == true)
        ill.addresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 1)]
        (ill.freeBytes, ill.keyLogFile, ill.unlockedSecrets) = (5 << 20, "/tmp/keys", 2)
        ill.auditProblem = "3 lines of the audit log could not be written: the disk is full."
        let text = ill.problems.joined(separator: "\n")
        for part in ["Only this machine", "5 MiB are left", "audit log", "/tmp/keys", "2 secrets"] {
            #expect(text.contains(part))
        }
        #expect(ill.problems.count == 5)
    }

    @Test func `knows how full a disk is`() {
        #expect(Health.freeBytes(in: "/").map { $0 > 0 } == true)
        #expect(Health.freeBytes(in: "/no such folder") == nil)
    }
}
