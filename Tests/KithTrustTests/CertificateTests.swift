import Crypto
import Foundation
import KithIdentity
import KithWire
import SwiftASN1
import Testing
import X509

@testable import KithTrust

/// A person's root, a device, and a time.
private struct Circle {
    static let now: Int64 = 1_800_000_000
    let key = P256.Signing.PrivateKey()
    let root: RootCertificate
    let authority: CertificateAuthority
    let laptop = DeviceKey()
    let agreement: AgreementPublicKey

    init() throws {
        root = try RootCertificate.make(by: key, now: Self.now)
        authority = try CertificateAuthority(root, key: key)
        agreement = try AgreementPublicKey(Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation))
    }

    func request(_ nonce: UInt8 = 1, at now: Int64 = Self.now) throws -> EnrolmentRequest {
        try EnrolmentRequest(
            by: laptop, agreement: agreement, nonce: [UInt8](repeating: nonce, count: 16), now: now)
    }

    func issued(days: Int = 90) throws -> DeviceCertificate {
        try authority.issue(
            to: EnrolmentRequest.check(request().bytes, from: laptop.id, now: Self.now), days: days, now: Self.now)
    }

    /// A certificate for the laptop's key in which something is not as it should be.
    func forged(
        names: [GeneralName]? = nil, subject: DistinguishedName? = nil, uses: [ExtendedKeyUsage.Usage]? = nil,
        isAuthority: Bool = false, more: Certificate.Extension? = nil, by signer: P256.Signing.PrivateKey? = nil
    ) throws -> [UInt8] {
        let key = try Curve25519.Signing.PublicKey(rawRepresentation: laptop.id.bytes)
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(bytes: [0x4B] + [UInt8](repeating: 7, count: 18)),
            publicKey: .init(key), notValidBefore: Date(timeIntervalSince1970: Double(Self.now - 60)),
            notValidAfter: Date(timeIntervalSince1970: Double(Self.now + 86_400)),
            issuer: root.certificate.subject, subject: subject ?? DeviceCertificate.name(of: laptop.id),
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(
                    isAuthority
                        ? BasicConstraints.isCertificateAuthority(maxPathLength: nil)
                        : BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage(uses ?? [.serverAuth, .clientAuth])
                SubjectAlternativeNames(names ?? [.dnsName(DeviceCertificate.letters(laptop.id))])
                if let more { more }
            },
            issuerPrivateKey: .init(signer ?? self.key))
        return try der(certificate)
    }
}

@Suite struct CertificateTests {
    private let circle: Circle

    init() throws { circle = try Circle() }

    private func status(
        _ certificate: DeviceCertificate, of peer: DeviceID? = nil, under list: RevocationList? = nil,
        at now: Int64 = Circle.now
    ) async -> CertificateStatus {
        await circle.root.status(
            of: certificate, presentedBy: peer ?? circle.laptop.id, revocations: list, now: now)
    }

    @Test func `an enrolled device's certificate is for its key, good for 90 days, and renewed at two thirds`()
        async throws
    {
        let certificate = try circle.issued()
        #expect(certificate.id == circle.laptop.id)
        #expect(certificate.notAfter == Circle.now + 90 * 86_400)
        #expect(certificate.renewsAt > Circle.now + 59 * 86_400 && certificate.renewsAt < Circle.now + 61 * 86_400)
        #expect(await status(certificate) == .valid(until: certificate.notAfter))
        #expect(try DeviceCertificate(certificate.bytes) == certificate)
        #expect(try RootCertificate(circle.root.bytes) == circle.root)
        let again = try circle.issued()
        #expect(certificate.serial.count >= 32 && again.serial != certificate.serial)
    }

    @Test func `two roots never have one name`() throws {
        let other = try Circle()
        #expect(other.root.id != circle.root.id)
        #expect(other.root.certificate.subject != circle.root.certificate.subject)
        #expect("\(circle.root.certificate.subject)".contains(circle.root.id.description))
    }

    @Test func `time decides, with the tolerance for clocks and no more`() async throws {
        let certificate = try circle.issued(days: 1)
        let (begin, end) = (certificate.notBefore, certificate.notAfter)
        #expect(await status(certificate, at: begin - 300).isValid)
        #expect(await status(certificate, at: begin - 301) == .invalid(reason: "its time has not begun"))
        #expect(await status(certificate, at: end + 300).isValid)
        #expect(await status(certificate, at: end + 301) == .expired)
        #expect(throws: KithError(.invalid, "")) {
            try circle.authority.issue(toItself: circle.laptop, days: 401, now: Circle.now)
        }
        // The root's own end counts, too.
        let late = Circle.now + Int64(RootCertificate.days) * 86_400
        let last = try circle.authority.issue(toItself: circle.laptop, now: late - 100)
        #expect(await status(last, at: late + 100).isValid)
        #expect(await status(last, at: late + 301) == .expired)
    }

    @Test func `a certificate is worth nothing to another device, nor under another root`() async throws {
        let certificate = try circle.issued()
        #expect(await status(certificate, of: DeviceKey().id) == .invalid(reason: "it is another device's"))
        let foreign = try Circle()
        let theirs = try foreign.issued()
        #expect(
            await status(theirs, of: foreign.laptop.id)
                == .invalid(reason: "it was not issued by the root that is pinned here"))
        // A foreign key under our root's very name.
        let forged = try DeviceCertificate(circle.forged(by: P256.Signing.PrivateKey()))
        #expect(await status(forged) == .invalid(reason: "it was not issued by the root that is pinned here"))
        let sound = try DeviceCertificate(circle.forged())
        #expect(await status(sound).isValid)
        #expect(throws: KithError(.corrupt, "")) { try CertificateAuthority(foreign.root, key: circle.key) }
    }

    @Test func `a certificate that says more than its key, or may more than it should, is refused`() throws {
        let other = DeviceCertificate.letters(DeviceKey().id)
        let own = DeviceCertificate.letters(circle.laptop.id)
        let odd = Certificate.Extension(oid: [1, 3, 6, 1, 4, 1, 99_999, 1], critical: true, value: [5, 0])
        for bytes in [
            try circle.forged(names: [.dnsName(other)]), try circle.forged(names: [.dnsName(own), .dnsName(other)]),
            try circle.forged(names: []), try circle.forged(names: [.uniformResourceIdentifier(own)]),
            try circle.forged(subject: DistinguishedName { CommonName(other) }),
            try circle.forged(
                subject: DistinguishedName {
                    CommonName(own)
                    CommonName(other)
                }), try circle.forged(uses: [.serverAuth]),
            try circle.forged(uses: [.serverAuth, .clientAuth, .codeSigning]), try circle.forged(isAuthority: true),
            try circle.forged(more: odd), circle.root.bytes, [], [0x30, 0x80], try circle.issued().bytes + [0],
            [UInt8](repeating: 0x30, count: 5_000),
        ] {
            #expect(throws: KithError(.corrupt, "")) { try DeviceCertificate(bytes) }
        }
        #expect(throws: KithError(.corrupt, "")) { try RootCertificate(circle.issued().bytes) }
        #expect(throws: KithError(.corrupt, "")) { try RootCertificate(circle.root.bytes + [0]) }
    }

    @Test func `a request is for the device that sends it, in time, and for nothing but its own name`() throws {
        let now = Circle.now
        let request = try circle.request()
        let checked = try EnrolmentRequest.check(request.bytes, from: circle.laptop.id, now: now)
        #expect(checked.id == circle.laptop.id && checked.agreement == circle.agreement)
        #expect(throws: KithError(.denied, "")) {
            try EnrolmentRequest.check(request.bytes, from: DeviceKey().id, now: now)
        }
        #expect(throws: KithError(.timedOut, "")) {
            try EnrolmentRequest.check(request.bytes, from: circle.laptop.id, now: now + 901)
        }
        #expect(throws: KithError(.denied, "")) {
            try EnrolmentRequest.check(circle.request(at: now + 301).bytes, from: circle.laptop.id, now: now)
        }
        for index in stride(from: 0, to: request.bytes.count, by: 7) {
            var damaged = request.bytes
            damaged[index] ^= 1
            #expect(throws: KithError.self) { try EnrolmentRequest.check(damaged, from: circle.laptop.id, now: now) }
        }
        #expect(throws: KithError(.corrupt, "")) {
            try EnrolmentRequest.check(request.bytes + [0], from: circle.laptop.id, now: now)
        }
    }

    /// A request with another PKCS #10 request in it than the device's own, signed all the same.
    private func check(_ pkcs10: [UInt8]) throws {
        let request = try EnrolmentRequest(
            by: circle.laptop, agreement: circle.agreement.bytes, nonce: [UInt8](repeating: 1, count: 16),
            expiresAt: Circle.now + 60, pkcs10: pkcs10)
        _ = try EnrolmentRequest.check(request.bytes, from: circle.laptop.id, now: Circle.now)
    }

    @Test func `a request with more names, another's name, another's key or more wishes is refused`() throws {
        let key = circle.laptop
        let own = GeneralName.dnsName(DeviceCertificate.letters(key.id))
        let other = DeviceKey()
        let others = GeneralName.dnsName(DeviceCertificate.letters(other.id))
        func pkcs10(_ names: [GeneralName]) throws -> [UInt8] {
            try EnrolmentRequest.pkcs10(
                by: key, named: key.id, Certificate.Extensions { SubjectAlternativeNames(names) })
        }
        try check(pkcs10([own]))
        let authority = try EnrolmentRequest.pkcs10(
            by: key, named: key.id,
            Certificate.Extensions {
                SubjectAlternativeNames([own])
                BasicConstraints.isCertificateAuthority(maxPathLength: nil)
            })
        let named = try EnrolmentRequest.pkcs10(
            by: key, named: other.id, Certificate.Extensions { SubjectAlternativeNames([own]) })
        let foreign = try EnrolmentRequest.pkcs10(
            by: other, named: key.id, Certificate.Extensions { SubjectAlternativeNames([own]) })
        for bytes in [
            try pkcs10([own, others]), try pkcs10([others]), try pkcs10([]), try pkcs10([own, own]), authority, named,
            foreign,
        ] {
            #expect(throws: KithError(.denied, "")) { try check(bytes) }
        }
        #expect(throws: KithError(.corrupt, "")) { try check([1, 2, 3]) }
    }

    @Test func `a code proves nothing for another root, other devices, another nonce or another request`() throws {
        let code = EnrolmentCode()
        let device = circle.laptop.id
        let holder = DeviceKey().id
        let nonce = [UInt8](repeating: 3, count: 16)
        let secret = try code.secret(for: nonce, of: device)
        let terms = EnrolmentCode.Terms(nonce: nonce, root: circle.root.publicKey, holder: holder, device: device)
        let proof = secret.holderProof(terms)
        #expect(secret.isHolderProof(proof, terms))
        var others = [terms, terms, terms, terms]
        others[0].root = try Circle().root.publicKey
        others[1].holder = DeviceKey().id
        others[2].device = DeviceKey().id
        others[3].nonce = [UInt8](repeating: 4, count: 16)
        for other in others { #expect(!secret.isHolderProof(proof, other)) }
        #expect(!secret.isDeviceProof(proof, terms, of: []))
        let answer = secret.deviceProof(terms, of: [1])
        #expect(secret.isDeviceProof(answer, terms, of: [1]) && !secret.isDeviceProof(answer, terms, of: [2]))
        #expect(try !EnrolmentCode().secret(for: nonce, of: device).isHolderProof(proof, terms))
        #expect(EnrolmentCode(code.description) == code && EnrolmentCode(code.description.uppercased()) == code)
        #expect(EnrolmentCode("abcd-efg") == nil && EnrolmentCode("abcd-efg1") == nil)
    }

    @Test func `a revocation list is the root's own, and its number only grows`() async throws {
        let certificate = try circle.issued()
        let entry = RevocationList.Entry(device: circle.laptop.id, time: Circle.now, reason: .lost)
        let first = try RevocationList(after: nil, adding: nil, by: circle.authority, now: Circle.now)
        let second = try RevocationList(after: first, adding: entry, by: circle.authority, now: Circle.now)
        #expect(await status(certificate, under: first).isValid)
        #expect(await status(certificate, under: second) == .revoked)
        let read = try RevocationList(second.bytes, by: circle.root)
        #expect(read == second && read.entries == [entry] && read.number == 2)
        #expect(try second.replaces(first) && second.replaces(nil) && !second.replaces(second))
        #expect(throws: KithError(.conflict, "")) { try first.replaces(second) }
        #expect(throws: KithError(.conflict, "")) {
            try RevocationList(after: second, adding: entry, by: circle.authority, now: Circle.now)
        }
        #expect(throws: KithError(.denied, "")) { try RevocationList(second.bytes, by: Circle().root) }
        let foreign = try RevocationList(after: second, adding: nil, by: Circle().authority, now: Circle.now)
        #expect(throws: KithError(.denied, "")) { try RevocationList(foreign.bytes, by: circle.root) }
        var damaged = second.bytes
        damaged[damaged.count - 3] ^= 1
        #expect(throws: KithError(.denied, "")) { try RevocationList(damaged, by: circle.root) }
        #expect(throws: KithError(.corrupt, "")) {
            try RevocationList([UInt8](repeating: 0xA4, count: RevocationList.sizeLimit + 1), by: circle.root)
        }
    }

    @Test func `a full revocation list is within its size, and takes no more`() throws {
        var list: RevocationList?
        let entries = try (0..<RevocationList.entryLimit).map { number in
            RevocationList.Entry(
                device: try DeviceID(
                    publicKey: [UInt8(number >> 8), UInt8(number & 255)] + [UInt8](repeating: 9, count: 30)),
                time: Circle.now, reason: .compromised)
        }
        list = try RevocationList(number: 7, entries, by: circle.authority, now: Circle.now)
        let full = try #require(list)
        #expect(full.bytes.count <= RevocationList.sizeLimit)
        #expect(try RevocationList(full.bytes, by: circle.root) == full)
        let entry = RevocationList.Entry(device: circle.laptop.id, time: Circle.now, reason: .lost)
        #expect(throws: KithError(.exhausted, "")) {
            try RevocationList(after: full, adding: entry, by: circle.authority, now: Circle.now)
        }
        let many = try RevocationList(number: 8, entries + [entry], by: circle.authority, now: Circle.now)
        #expect(throws: KithError(.corrupt, "")) { try RevocationList(many.bytes, by: circle.root) }
    }

    @Test func `OpenSSL verifies an issued chain, and refuses one of another root`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-chain-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }  // the next boot empties /tmp at the latest
        func write(_ bytes: [UInt8], _ name: String) throws -> String {
            let path = folder.appendingPathComponent(name).path
            let text = Data(bytes).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
            try Data("-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n".utf8)
                .write(to: URL(fileURLWithPath: path))
            return path
        }
        let leaf = try write(circle.issued().bytes, "leaf.pem")
        let name = DeviceCertificate.letters(circle.laptop.id)
        for (root, isGood) in [(circle.root, true), (try Circle().root, false)] {
            for purpose in ["sslserver", "sslclient"] {
                let process = Process()
                process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
                process.arguments = [
                    "openssl", "verify", "-x509_strict", "-check_ss_sig", "-attime", "\(Circle.now)", "-purpose",
                    purpose, "-verify_hostname", name, "-CAfile", try write(root.bytes, "root.pem"), "-no-CApath", leaf,
                ]
                let output = Pipe()
                process.standardOutput = output
                process.standardError = output
                try process.run()
                let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                process.waitUntilExit()
                #expect((process.terminationStatus == 0) == isGood, "\(text)")
            }
        }
    }
}
