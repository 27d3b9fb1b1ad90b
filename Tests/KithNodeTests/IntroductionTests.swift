import KithAPI
import KithIdentity
import KithStore
import KithTesting
import KithTrust
import KithWire
import Synchronization
import Testing

@testable import KithNode

/// Devices under one root that nobody has paired with each other.
@Suite(.timeLimit(.minutes(4))) struct `Introduction by certificates` {
    @Test func `two devices under one root become known to each other, and may do nothing`() async throws {
        try await withFamily { _, phone, tablet in
            await connect(phone, tablet)
            let info = try await phone.connect(to: tablet)
            #expect(info.id == tablet.id && info.name == "tablet" && info.grants == [])
            #expect(try await info.certifiedUntil == tablet.status().until)
            let there = try #require(try tablet.store.device(phone.id))
            #expect(there.name == "phone" && there.grants == [] && there.certifiedUntil != nil)
            #expect(there.addresses == phone.paired.addresses)
            #expect(try await phone.node.client.call(Ask.self, "hi", on: "tablet") == "hi!")
            #expect(try await tablet.node.client.call(Ask.self, "hi", on: "phone") == "hi!")
            for (one, other) in [(phone, tablet), (tablet, phone)] {
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await one.node.client.open(Pour.self, Nothing(), on: other.name)
                }
                #expect(try one.store.audit(limit: 20).contains { $0.method == "trust.introduce" })
            }
            // Each knows the other's certificate, and both the newest list.
            try await eventually { try await tablet.status().members.contains { $0.device == phone.id } }
            // Again it changes nothing.
            #expect(try await phone.connect(to: tablet).name == "tablet")
            #expect(try phone.store.devices().count == 2 && tablet.store.devices().count == 2)
        }
    }

    @Test func `they get the grants that the person at each has named for them, and none when they have said no`()
        async throws
    {
        try await withFamily { _, phone, tablet in
            let admission = try await tablet.node.client.call(Trust.Admit.self, .init(grants: [.shell]))
            #expect(admission == Trust.Admission(isOn: true, grants: [.shell]))
            #expect(try await tablet.node.client.call(Trust.Admit.self, .init(isOn: false)).grants == [.shell])
            #expect(try await tablet.status().admission?.isOn == false)
            #expect(tablet.store.reception(of: phone.id, now: tablet.now) == .unknown)
            await connect(phone, tablet)
            await #expect(throws: KithError(.unpaired, "")) { _ = try await phone.connect(to: tablet) }
            #expect(try tablet.store.device(phone.id) == nil && phone.store.device(tablet.id) == nil)
            _ = try await tablet.node.client.call(Trust.Admit.self, .init(isOn: true))
            #expect(tablet.store.reception(of: phone.id, now: tablet.now) == .enrolled)
            await connect(phone, tablet)
            #expect(try await phone.connect(to: tablet).grants == [])
            #expect(try tablet.store.device(phone.id)?.grants == [.shell])
            // What was given stays given: the setting is for those that come later.
            _ = try await tablet.node.client.call(Trust.Admit.self, .init(grants: []))
            #expect(try tablet.store.device(phone.id)?.grants == [.shell])
        }
    }

    @Test func `where one end is paired already, it stays so, and the other end knows it by its certificate`()
        async throws
    {
        try await withFamily { _, phone, tablet in
            _ = try tablet.store.add(phone.paired)
            await connect(phone, tablet)
            #expect(try await phone.connect(to: tablet).certifiedUntil != nil)
            let there = try #require(try tablet.store.device(phone.id))
            #expect(there.certifiedUntil == nil && there.grants == [.shell])
        }
        try await withFamily { _, phone, tablet in
            _ = try phone.store.add(tablet.paired)
            await connect(phone, tablet)
            #expect(try await phone.connect(to: tablet).certifiedUntil == nil)
            #expect(try phone.store.device(tablet.id)?.grants == [.shell])
            #expect(try tablet.store.device(phone.id)?.certifiedUntil != nil)
        }
    }

    @Test func `a device that was forgotten stays away, until the person who forgot it calls it back`() async throws {
        try await withFamily { _, phone, tablet in
            await connect(phone, tablet)
            _ = try await phone.connect(to: tablet)
            #expect(try tablet.store.forget(phone.id))
            tablet.node.revoke(phone.id)
            #expect(tablet.store.reception(of: phone.id, now: tablet.now) == .unknown)
            await connect(phone, tablet)
            await #expect(throws: KithError(.unpaired, "")) { _ = try await phone.connect(to: tablet) }
            #expect(try tablet.store.device(phone.id) == nil)
            await connect(tablet, phone)
            #expect(try await tablet.connect(to: phone).certifiedUntil != nil)
            #expect(try await phone.node.client.call(Ask.self, "hi", on: "tablet") == "hi!")
        }
    }

    // MARK: - The end

    @Test func `one that is revoked is cut off at once, and does not come back`() async throws {
        try await withFamily { laptop, phone, tablet in
            await connect(phone, tablet)
            _ = try await phone.connect(to: tablet)
            let link = try #require(tablet.dialer.link(to: phone.id))
            _ = try await laptop.revoke(phone, "lost")
            try await eventually { try tablet.store.device(phone.id) == nil }
            try await eventually { !link.isOpen }
            #expect(tablet.store.reception(of: phone.id, now: tablet.now) == .unknown)
            await connect(phone, tablet)
            await #expect(throws: KithError(.unpaired, "")) { _ = try await phone.connect(to: tablet) }
            // Nor does the other end's person get it back, nor one that knows of its own revocation anybody.
            await connect(tablet, phone)
            await #expect(throws: KithError(.denied, "")) { _ = try await tablet.connect(to: phone) }
            let list = try #require(try tablet.store.revocations())
            let root = try #require(try phone.service.pinned()).root
            _ = try phone.service.take(try RevocationList(list, by: root))
            await #expect(throws: KithError(.denied, "")) { _ = try await phone.connect(to: tablet) }
            #expect(phone.store.reception(of: DeviceKey().id, now: phone.now) == .unknown)
        }
    }

    @Test func `one that the dialing end alone knows to be revoked is not stored there`() async throws {
        try await withFamily { laptop, phone, tablet in
            await disconnect(laptop, tablet)
            _ = try await laptop.revoke(tablet, "lost")
            try await eventually { try await phone.status().revocations == 1 }
            await connect(phone, tablet)
            await #expect(throws: KithError(.denied, "")) { _ = try await phone.connect(to: tablet) }
            #expect(try phone.store.device(tablet.id) == nil && tablet.store.device(phone.id) == nil)
        }
    }

    @Test func `one whose certificate is over is cut off, and comes back by a new one, as it was`() async throws {
        try await withFamily { laptop, phone, tablet in
            await connect(phone, tablet)
            _ = try await phone.connect(to: tablet)
            try tablet.store.rename(phone.id, to: "mobile")
            try tablet.store.setGrants([.shell], of: phone.id)
            tablet.node.grantsChanged(for: phone.id)
            let link = try #require(tablet.dialer.link(to: phone.id))
            for device in [laptop, phone, tablet] { device.later(by: 91 * 86_400) }
            tablet.service.cutOffExpired()
            #expect(!link.isOpen)
            #expect(
                try tablet.store.audit(limit: 9).contains { $0.device == "mobile" && $0.detail.contains("is over") })
            #expect(tablet.store.reception(of: phone.id, now: tablet.now) != .paired)
            // It may do nothing, nor is it called.
            await connect(phone, tablet)
            await #expect(throws: KithError(.unpaired, "")) {
                _ = try await phone.node.client.call(Ask.self, "hi", on: tablet.id.description)
            }
            await #expect(throws: KithError(.unpaired, "")) {
                _ = try await tablet.node.client.call(Ask.self, "hi", on: "mobile")
            }
            // While neither has a new certificate, neither shows the old one.
            await #expect(throws: KithError(.denied, "")) { _ = try await phone.connect(to: tablet) }
            await laptop.service.lookAfterCertificate()
            for device in [phone, tablet] {
                await device.service.goAndMeet(laptop.id)
                #expect(try await device.status().state == .valid)
            }
            await connect(phone, tablet)
            _ = try await phone.connect(to: tablet)
            let back = try #require(try tablet.store.device(phone.id))
            #expect(back.name == "mobile" && back.grants == [.shell] && back.isCurrent(at: tablet.now))
            #expect(try await phone.node.client.call(Ask.self, "hi", on: "tablet") == "hi!")
        }
    }

    @Test func `a renewed certificate is shown to those that are connected, and holds there`() async throws {
        try await withFamily { laptop, phone, tablet in
            await connect(phone, tablet)
            _ = try await phone.connect(to: tablet)
            let before = try #require(try tablet.store.device(phone.id)?.certifiedUntil)
            for device in [laptop, phone, tablet] { device.later(by: 61 * 86_400) }
            await laptop.service.lookAfterCertificate()
            await phone.service.goAndMeet(laptop.id)
            try await eventually { try #require(try tablet.store.device(phone.id)?.certifiedUntil) > before }
        }
    }

    // MARK: - Attacks

    @Test func `a certificate that is not good for this very device and connection lets nobody in`() async throws {
        try await withFamily { laptop, phone, tablet in
            let authority = try #require(try laptop.service.authority())
            let foreign = RootKey()
            let other = try CertificateAuthority(RootCertificate.make(by: foreign, now: tablet.now), key: foreign)
            let (now, day) = (tablet.now, Int64(86_400))
            func issued(_ key: DeviceKey, _ authority: CertificateAuthority, at time: Int64) throws -> [UInt8] {
                try authority.issue(toItself: key, days: 1, now: time).bytes
            }
            let good = try #require(try phone.store.trust()).certificate
            let attacks: [(String, (DeviceKey) throws -> [UInt8])] = [
                ("another device's", { _ in good }),
                ("of a foreign root", { try issued($0, other, at: now) }),
                ("expired", { try issued($0, authority, at: now - 3 * day) }),
                ("over, though clocks may differ", { try issued($0, authority, at: now - day - 60) }),
                ("not begun", { try issued($0, authority, at: now + day) }),
                ("the root's own", { _ in authority.root.bytes }),
                ("none", { _ in [] }),
                ("noise", { _ in [UInt8](repeating: 0x30, count: 500) }),
                ("too long", { try issued($0, authority, at: now) + [UInt8](repeating: 0, count: 2_048) }),
            ]
            var answers: Set<String> = []
            for (what, make) in attacks {
                let peer = RawDevice(dialing: tablet)
                let answer = try await peer.introduce(try make(peer.key))
                guard case .refused(.unpaired, let message)? = answer else {
                    Issue.record("\(what): \(String(describing: answer))")
                    continue
                }
                answers.insert(message)
                peer.link.close(.closed, reason: "done")
            }
            // Nobody learns from the answer what was wrong.
            #expect(answers.count == 1)
            #expect(try tablet.store.devices().map(\.id) == [laptop.id])
            // The helper itself is not what is refused.
            let peer = RawDevice(dialing: tablet)
            guard case .introduction? = try await peer.introduce(try issued(peer.key, authority, at: now)) else {
                Issue.record("a good certificate is refused")
                return
            }
            // It has shown a good certificate, and not yet accepted the other's: it is nobody.
            #expect(try tablet.store.device(peer.key.id) == nil)
        }
    }

    @Test func `an introduction that was recorded is refused on another connection, and at the other end`() async throws
    {
        try await withFamily { laptop, phone, tablet in
            let first = RawDevice(phone.key, dialing: tablet)
            let certificate = try #require(try phone.store.trust()).certificate
            let recorded = try first.introduction(certificate)
            let again = RawDevice(phone.key, dialing: tablet)
            guard case .refused? = try await again.send(recorded) else {
                Issue.record("it was taken on another connection")
                return
            }
            let reflected = try first.introduction(certificate, of: .dialed)
            guard case .refused? = try await first.send(reflected) else {
                Issue.record("the other end's was taken")
                return
            }
            guard case .introduction? = try await first.send(recorded) else {
                Issue.record("it is not taken where it belongs")
                return
            }
            #expect(try tablet.store.device(phone.id) == nil && laptop.store.device(phone.id) != nil)
        }
    }

    @Test func `a message that is too long, and one out of order, are refused`() async throws {
        try await withFamily { laptop, _, tablet in
            let authority = try #require(try laptop.service.authority())
            let peer = RawDevice(dialing: tablet)
            var long = try peer.introduction([UInt8](repeating: 1, count: 100))
            long.name = String(repeating: "n", count: 9_000)
            await #expect(throws: (any Error).self) {
                let answer = try await peer.send(long)
                if case .refused? = answer { throw KithError(.unpaired, "refused") }
            }
            let early = RawDevice(dialing: tablet)
            let stream = try await early.open()
            try await stream.send(.accepted)
            guard case .refused? = try await stream.receive() else {
                Issue.record("it was accepted before anything was shown")
                return
            }
            // A name of a kilobyte, which nobody reads out.
            let named = RawDevice(dialing: tablet)
            var introduction = try named.introduction(
                try authority.issue(toItself: named.key, days: 1, now: tablet.now).bytes)
            introduction.name = String(repeating: "n", count: 1_000)
            guard case .refused? = try await named.send(introduction) else {
                Issue.record("a name of a kilobyte was taken")
                return
            }
            #expect(try tablet.store.devices().count == 1)
        }
    }

    @Test func `whom a certificate could let in may call nothing else, before it was shown and after a bad one`()
        async throws
    {
        try await withFamily { _, _, tablet in
            for method in tablet.node.table.map(\.name) where method != Trust.Introduce.name {
                let peer = RawDevice(dialing: tablet)
                await #expect(throws: KithError(.unpaired, ""), "\(method)") {
                    _ = try await peer.call(method)
                }
            }
            let peer = RawDevice(dialing: tablet)
            guard case .refused? = try await peer.introduce([1]) else {
                Issue.record("a byte was taken for a certificate")
                return
            }
            await #expect(throws: KithError(.unpaired, "")) { _ = try await peer.call(Ask.name) }
        }
    }

    @Test func `a device without a certificate, or whose own is over, lets nobody show one`() async throws {
        try await withFamily { _, phone, tablet in
            let alone = try await Trusting("alone")
            #expect(alone.store.reception(of: phone.id, now: alone.now) == .unknown)
            let peer = RawDevice(phone.key, dialing: alone)
            await #expect(throws: KithError(.unpaired, "")) { _ = try await peer.call(Trust.Introduce.name) }
            await connect(alone, tablet)
            await #expect(throws: KithError(.denied, "")) { _ = try await alone.connect(to: tablet) }
            await alone.stop()
            tablet.later(by: 91 * 86_400)
            await tablet.service.noteOwnStanding()
            #expect(tablet.store.reception(of: phone.id, now: tablet.now) == .unknown)
            let late = RawDevice(phone.key, dialing: tablet)
            await #expect(throws: KithError(.unpaired, "")) { _ = try await late.call(Trust.Introduce.name) }
        }
    }

    @Test func `a flood is stopped by key and by address, and its log stays short`() async throws {
        try await withFamily { _, _, tablet in
            let first = RawDevice(dialing: tablet)
            var shown = 0
            var isLimited = false
            while !isLimited, shown < 100 {
                do {
                    guard case .refused(.unpaired, _)? = try await first.introduce([1]) else { break }
                    shown += 1
                } catch let error as KithError where error.isRateLimit {
                    isLimited = true
                }
            }
            // Six, and one more for each ten seconds that this machine took for them.
            #expect(isLimited && (6..<50).contains(shown))
            first.link.close(.closed, reason: "done")
            isLimited = false
            for _ in 0..<500 where !isLimited {
                let peer = RawDevice(dialing: tablet)
                do {
                    _ = try await peer.introduce([1])
                } catch let error as KithError {
                    isLimited = error.isRateLimit
                }
                peer.link.close(.closed, reason: "done")
            }
            #expect(isLimited)
            // They are written when the store is closed, at the latest.
            try await eventually { try tablet.store.audit(limit: 500).contains { $0.method == Trust.Introduce.name } }
            #expect(try tablet.store.audit(limit: 500).count { $0.method == Trust.Introduce.name } <= 17)
            #expect(try tablet.store.devices().count == 1)
        }
    }

    @Test func `the end that dials believes the other no more than that`() async throws {
        try await withFamily { laptop, phone, tablet in
            let authority = try #require(try laptop.service.authority())
            let foreign = RootKey()
            let other = try CertificateAuthority(RootCertificate.make(by: foreign, now: phone.now), key: foreign)
            let theirs = try #require(try tablet.store.trust()).certificate
            let (now, day) = (phone.now, Int64(86_400))
            let attacks: [(String, IntroductionProof.End, (DeviceKey) throws -> [UInt8])] = [
                ("another device's", .dialed, { _ in theirs }),
                ("of a foreign root", .dialed, { try other.issue(toItself: $0, days: 1, now: now).bytes }),
                ("over", .dialed, { try authority.issue(toItself: $0, days: 1, now: now - 3 * day).bytes }),
                ("proven for the other end", .dialing, { try authority.issue(toItself: $0, days: 1, now: now).bytes }),
            ]
            for (what, end, make) in attacks {
                let peer = RawDevice(dialedBy: phone)
                let certificate = try make(peer.key)
                let answering = Task { try await peer.answer(certificate, as: end) }
                await #expect(throws: KithError.self, "\(what)") { _ = try await phone.connect(to: peer.key.id) }
                answering.cancel()
                #expect(try phone.store.device(peer.key.id) == nil, "\(what)")
            }
            let peer = RawDevice(dialedBy: phone)
            let certificate = try authority.issue(toItself: peer.key, days: 1, now: now).bytes
            let answering = Task { try await peer.answer(certificate, as: .dialed) }
            #expect(try await phone.connect(to: peer.key.id).certifiedUntil == now + day)
            try await answering.value
        }
    }
}

extension KithError {
    /// True when certificates were shown too often.
    fileprivate var isRateLimit: Bool { message.hasPrefix("Too many certificates") }
}

extension Trusting {
    @discardableResult
    fileprivate func connect(to other: Trusting) async throws -> Devices.Info { try await connect(to: other.id) }

    fileprivate func connect(to device: DeviceID) async throws -> Devices.Info {
        try await node.client.call(
            Trust.Connect.self,
            .init(device: device.description, addresses: [NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)]))
    }
}

/// A device that says what it likes.
private final class RawDevice: Sendable {
    let key: DeviceKey
    let link: PipeLink
    private let proof: IntroductionProof

    /// Dials a device.
    init(_ key: DeviceKey = DeviceKey(), dialing device: Trusting) {
        self.key = key
        let secret = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }
        let (near, far) = PipeLink.pair(key.id, device.id, secret: secret)
        link = near
        proof = IntroductionProof(
            dialing: key.id, dialed: device.id, exporter: Array(IntroductionProof.exporterLabel.utf8) + secret)
        device.serve(far)
    }

    /// Is dialed by a device.
    init(dialedBy device: Trusting) {
        key = DeviceKey()
        let secret = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }
        let (near, far) = PipeLink.pair(device.id, key.id, secret: secret)
        link = far
        proof = IntroductionProof(
            dialing: device.id, dialed: key.id, exporter: Array(IntroductionProof.exporterLabel.utf8) + secret)
        device.dialer.set(near, to: key.id)
        device.serve(near)
    }

    func introduction(
        _ certificate: [UInt8], of end: IntroductionProof.End = .dialing
    ) throws -> Trust.Introduction {
        Trust.Introduction(
            certificate: ByteString(certificate),
            proof: ByteString(try proof.signature(of: end, with: certificate, by: key)), name: "raw", addresses: [])
    }

    func call(_ method: String) async throws -> any ByteStream {
        let stream = try await link.openStream()
        return try await HeaderExchange.request(
            StreamHeader(method: method, input: try CBOREncoder().encode(Nothing())), over: stream, isCall: false
        ).stream
    }

    /// Begins an introduction, once the one before is over at the other end.
    func open() async throws -> MethodStream<Trust.FromDialed, Trust.FromDialing> {
        while true {
            do {
                return MethodStream(try await call(Trust.Introduce.name))
            } catch let error as KithError where error.code == .exhausted && !error.isRateLimit {
                await Task.yield()
            }
        }
    }

    func send(_ introduction: Trust.Introduction) async throws -> Trust.FromDialed? {
        let stream = try await open()
        defer { stream.abort(.cancelled) }
        try await stream.send(.introduction(introduction))
        return try await stream.receive()
    }

    func introduce(_ certificate: [UInt8]) async throws -> Trust.FromDialed? {
        try await send(try introduction(certificate))
    }

    /// Serves one introduction.
    func answer(_ certificate: [UInt8], as end: IntroductionProof.End) async throws {
        guard let incoming = await link.nextStream(),
            let (_, stream) = try await HeaderExchange.receiveHeader(from: incoming)
        else { return }
        try await stream.write(try ResponseHead.success(try CBOREncoder().encode(Nothing())).encoded())
        let messages = MethodStream<Trust.FromDialing, Trust.FromDialed>(stream)
        _ = try await messages.receive()
        try await messages.send(.introduction(try introduction(certificate, of: end)))
        guard case .accepted? = try await messages.receive() else { return }
        try await messages.send(.known)
        try await messages.finish()
    }
}

/// Runs `body` with three devices: the first holds a root key, and has enrolled the others, which have never met.
private func withFamily(_ body: (_ laptop: Trusting, _ phone: Trusting, _ tablet: Trusting) async throws -> Void)
    async throws
{
    let devices = [try await Trusting("laptop"), try await Trusting("phone"), try await Trusting("tablet")]
    try devices[0].keys.begin()
    do {
        for other in devices.dropFirst() {
            try devices[0].pair(with: other)
            await connect(devices[0], other)
            try await devices[0].enrol(other)
            try await eventually { try await other.status().state == .valid }
        }
        try await body(devices[0], devices[1], devices[2])
    } catch {
        Issue.record(error)
    }
    for device in devices { await device.stop() }
}
