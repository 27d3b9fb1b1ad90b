import Foundation
import Kith
import KithNet
import KithTrust

extension Bench {
    /// Keys, envelopes and certificates of a person.
    static func trust(into report: inout Report) async throws {
        let root = RootKey()
        let label = try KeyLabel("family")
        report.add("profile key derived", try median(200) { _ = try root.profileKey(label) }, "µs", atMost: 1_000)
        let keys = (0..<16).map { _ in AgreementKey() }
        let context = Array("bench".utf8)
        for (name, size, rounds) in [("1 KiB", 1 << 10, 100), ("1 MiB", 1 << 20, 20)] {
            let content = [UInt8](repeating: 7, count: size)
            for count in [1, 4, 16] {
                let recipients = keys.prefix(count).map(\.publicKey)
                let envelope = try Envelope(sealing: content, to: recipients, context: context)
                let sealing = try median(rounds) {
                    _ = try Envelope(sealing: content, to: recipients, context: context)
                }
                let opening = try median(rounds) { _ = try envelope.open(with: [keys[0]], context: context) }
                report.add("envelope of \(name) to \(count), made", sealing, "µs")
                report.add("envelope of \(name) to \(count), opened", opening, "µs")
            }
        }
        let now = Int64(Date().timeIntervalSince1970)
        let certificate = try RootCertificate.make(by: root, now: now)
        let authority = try CertificateAuthority(certificate, key: root)
        let device = DeviceKey()
        var samples: [Double] = []
        for _ in 0..<100 {
            let meter = Meter()
            let request = try EnrolmentRequest(
                by: device, agreement: keys[0].publicKey, nonce: [UInt8](repeating: 1, count: 16), now: now)
            let checked = try EnrolmentRequest.check(request.bytes, from: device.id, now: now)
            let issued = try authority.issue(to: checked, now: now)
            let status = await certificate.status(of: issued, presentedBy: device.id, revocations: nil, now: now)
            samples.append(meter.seconds * 1e6)
            guard case .valid = status else { throw KithError(.corrupt, "The certificate is \(status).") }
        }
        report.add("request, certificate, chain checked, p50", percentile(0.5, of: samples), "µs", atMost: 2_000)
    }

    private static func median(_ rounds: Int, _ work: () throws -> Void) rethrows -> Double {
        var samples: [Double] = []
        for _ in 0..<rounds {
            let meter = Meter()
            try work()
            samples.append(meter.seconds * 1e6)
        }
        return percentile(0.5, of: samples)
    }

    /// The time until a device that starts has heard all the others on its network, and they it.
    static func discovery(into report: inout Report) async throws {
        var options = LocalDiscovery.Options()
        options.group.port = .random(in: 20_000..<30_000)
        options.group6 = nil
        options.usesResponder = false
        for count in [2, 10, 50] {
            options.group.port += 1
            let keys = (0..<count).map { _ in DeviceKey() }
            let ids = Set(keys.map(\.id))
            let discoveries = keys.enumerated().map { number, key in
                LocalDiscovery(
                    key: key, options: options,
                    addresses: { [NetworkAddress(ipv4: (127, 0, 0, 1), port: UInt16(1_000 + number))] },
                    isPaired: { ids.contains($0) }, paired: { Array(ids) }, note: { _ in },
                    logger: Logger(label: "bench", factory: { _ in SwiftLogNoOpLogHandler() }))
            }
            func wait(until isDone: () -> Bool) async throws {
                while !isDone() { try await Task.sleep(for: .milliseconds(1)) }
            }
            let (known, newcomer) = (discoveries.dropLast(), discoveries[count - 1])
            try await withThrowingDiscardingTaskGroup { group in
                for discovery in known { group.addTask { await discovery.run() } }
                defer { for discovery in discoveries { discovery.stop() } }
                try await wait {
                    known.allSatisfy { one in keys.dropLast().count { !one.addresses(of: $0.id).isEmpty } == count - 2 }
                }
                let meter = Meter()
                group.addTask { await newcomer.run() }
                try await wait {
                    known.allSatisfy { !$0.addresses(of: keys[count - 1].id).isEmpty }
                        && keys.dropLast().allSatisfy { !newcomer.addresses(of: $0.id).isEmpty }
                }
                report.add(
                    "found by \(count - 1) on the network, and they by it", meter.seconds * 1e3, "ms", atMost: 1_000)
            }
        }
    }
}
