internal import KithIdentity
internal import KithTrust
internal import KithWire

/// What devices of one person send each other: certificates, requests for them, revocation lists.
enum FuzzedTrust {
    private struct Circle {
        var key: DeviceKey
        var root: RootCertificate
        var authority: CertificateAuthority
    }

    private static let now: Int64 = 1_800_000_000

    private static let circle: Circle = {
        do {
            let root = try RootKey(scalar: [UInt8](repeating: 1, count: 32))
            let certificate = try RootCertificate.make(by: root, now: now)
            return Circle(
                key: try DeviceKey(seed: [UInt8](repeating: 2, count: 32)), root: certificate,
                authority: try CertificateAuthority(certificate, key: root))
        } catch {
            preconditionFailure("a root and a device can be made: \(error)")
        }
    }()

    /// One of each, with the numbers that arithmetic stumbles over where a number is said.
    static let seeds: [[UInt8]] = {
        let agreement = AgreementKey().publicKey
        let nonce = [UInt8](repeating: 3, count: EnrolmentRequest.nonceLength)
        let entry = RevocationList.Entry(device: circle.key.id, time: .max, reason: .lost)
        do {
            let list = try RevocationList(after: nil, adding: entry, by: circle.authority, now: .min)
            var seeds = [
                circle.root.bytes, try circle.authority.issue(toItself: circle.key, now: now).bytes, list.bytes,
                Array(EnrolmentText(circle.key.id, EnrolmentCode()).text.utf8),
            ]
            for time in [now, 0, Int64.max - EnrolmentRequest.lifetime] {
                seeds.append(
                    try EnrolmentRequest(by: circle.key, agreement: agreement, nonce: nonce, now: time).bytes)
            }
            return seeds
        } catch {
            preconditionFailure("seeds can be made: \(error)")
        }
    }()

    static func run(_ bytes: [UInt8]) {
        if let certificate = try? DeviceCertificate(bytes) {
            precondition(certificate.bytes == bytes, "A certificate is kept as it came")
            precondition(
                certificate.notBefore < certificate.renewsAt && certificate.renewsAt <= certificate.notAfter
                    || certificate.notAfter - certificate.notBefore < 3,
                "It is renewed while it holds")
        }
        if let root = try? RootCertificate(bytes) {
            precondition(root.id == KeyID(publicKey: root.publicKey), "A root is called by its key")
        }
        if let request = try? EnrolmentRequest.check(bytes, from: circle.key.id, now: now) {
            precondition(request.id == circle.key.id, "A request is for who sends it")
        }
        if let list = try? RevocationList(bytes, by: circle.root) {
            precondition(list.entries.count <= RevocationList.entryLimit, "A list is bounded")
        }
        let text = String(decoding: bytes, as: UTF8.self)
        if let enrolment = EnrolmentText(text) {
            precondition(EnrolmentText(enrolment.text) == enrolment, "The text of an enrolment survives")
        }
        if let code = EnrolmentCode(text) {
            precondition(EnrolmentCode(code.description) == code, "A code survives its text form")
        }
    }
}
