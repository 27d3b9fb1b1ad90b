import Crypto
import KithAPI
import KithIdentity
import KithStore
import KithTesting
import KithTrust
import KithWire
import Synchronization
import Testing

@testable import KithNode

@Suite(.timeLimit(.minutes(4))) struct `Trust between devices` {
    @Test func `a device is enrolled by its code, and both ends know what came of it`() async throws {
        try await withCircle { laptop, phone, _ in
            laptop.keys.add("home")
            var request = try await phone.enrol()
            #expect(try await phone.status().state == .pending)
            #expect(EnrolmentText(request.text)?.device == phone.id)
            let issued = try await laptop.issue(to: phone, request.code)
            #expect(issued.device == phone.id && issued.networks == ["home"])
            guard case .enrolled(let root, "laptop", let until)? = try await request.next() else {
                Issue.record("nobody was told")
                return
            }
            #expect(try await request.next() == nil)
            let (here, there) = (try await phone.status(), try await laptop.status())
            #expect(here.state == .valid && here.root == root && here.until == until && here.holder == laptop.id)
            #expect(here.serial == issued.serial && !here.isHolder)
            #expect(there.state == .valid && there.isHolder && there.root == root && there.holder == laptop.id)
            #expect(there.members.map(\.device) == [phone.id] && there.members.first?.state == .valid)
            #expect(try phone.keys.networks() == laptop.keys.networks())
            // The code was for once.
            await #expect(throws: KithError(.notFound, "")) { try await laptop.issue(to: phone, request.code) }
            try await eventually { try await phone.status().members.map(\.device) == [laptop.id] }
        }
    }

    @Test func `three wrong codes void a request, and its person sees each`() async throws {
        try await withCircle { laptop, phone, _ in
            var request = try await phone.enrol()
            let wrong = request.code == "aaaa-aaaa" ? "bbbb-bbbb" : "aaaa-aaaa"
            for left in [2, 1, 0] {
                // Were it refused for another reason, nothing would come.
                try await #require(throws: KithError(.denied, "")) { try await laptop.issue(to: phone, wrong) }
                #expect(try await request.next() == .wrongCode(by: "laptop", left: left))
            }
            guard case .failed(.denied, _)? = try await request.next() else {
                Issue.record("the request is not void")
                return
            }
            await #expect(throws: KithError(.notFound, "")) { try await laptop.issue(to: phone, request.code) }
            #expect(try await phone.status().root == nil)
            await #expect(throws: KithError(.invalid, "")) { try await laptop.issue(to: phone, "no code") }
        }
    }

    @Test func `a request is void when its person goes away, and when its time is over`() async throws {
        try await withCircle { laptop, phone, _ in
            let first = try await phone.enrol()
            await #expect(throws: KithError(.conflict, "")) { _ = try await phone.enrol() }
            first.stream.abort(.cancelled)
            try await eventually { try await phone.status().state == .none }
            await #expect(throws: KithError(.notFound, "")) { try await laptop.issue(to: phone, first.code) }
            let second = try await phone.enrol()
            phone.later(by: EnrolmentRequest.lifetime)
            await #expect(throws: KithError(.notFound, "")) { try await laptop.issue(to: phone, second.code) }
        }
    }

    @Test func `only the holder of a root key issues, and not to itself`() async throws {
        try await withCircle { laptop, phone, tablet in
            let request = try await tablet.enrol()
            await #expect(throws: KithError(.notFound, "")) { try await phone.issue(to: tablet, request.code) }
            // The holder's own certificate needs nobody's code.
            let own = try await laptop.enrol(isAnswered: true)
            guard case .enrolled? = own.first else {
                Issue.record("the holder is not enrolled")
                return
            }
            #expect(try await laptop.status().state == .valid)
        }
    }

    @Test func `a device that pins a root takes another only when its person says so`() async throws {
        try await withCircle { laptop, phone, tablet in
            try await laptop.enrol(phone)
            let root = try await phone.status().root
            try tablet.keys.begin()
            let request = try await phone.enrol()
            await #expect(throws: KithError(.conflict, "")) { try await tablet.issue(to: phone, request.code) }
            #expect(try await phone.status().root == root)
            request.stream.abort(.cancelled)
            var other: Trusting.Request?
            try await eventually {
                do {
                    other = try await phone.enrol(replacesRoot: true)
                    return true
                } catch let error as KithError where error.code == .conflict {
                    return false  // the one before is not over yet
                }
            }
            _ = try await tablet.issue(to: phone, #require(other).code)
            let status = try await phone.status()
            #expect(status.root != root && status.holder == tablet.id && status.state == .valid)
        }
    }

    @Test func `a request is good once, in time, and for the device that made it`() async throws {
        try await withCircle { laptop, phone, tablet in
            try await laptop.enrol(phone)
            let authority = try #require(try laptop.service.authority())
            let now = laptop.now
            func request(_ device: Trusting, _ nonce: UInt8, at now: Int64) throws -> [UInt8] {
                try EnrolmentRequest(
                    by: device.key, agreement: device.keys.agreement(), nonce: [UInt8](repeating: nonce, count: 16),
                    now: now
                ).bytes
            }
            func issue(_ bytes: [UInt8], nonce: [UInt8]? = nil, to device: DeviceID) throws {
                _ = try laptop.service.issue(bytes, nonce: nonce, to: device, by: authority, revocations: nil, days: 9)
            }
            let good = try request(phone, 1, at: now)
            try issue(good, to: phone.id)
            #expect(throws: KithError(.conflict, "")) { try issue(good, to: phone.id) }
            #expect(throws: KithError(.denied, "")) { try issue(request(phone, 2, at: now), to: tablet.id) }
            #expect(throws: KithError(.timedOut, "")) { try issue(request(phone, 3, at: now - 901), to: phone.id) }
            #expect(throws: KithError(.denied, "")) {
                try issue(request(phone, 4, at: now), nonce: [UInt8](repeating: 9, count: 16), to: phone.id)
            }
        }
    }

    @Test func `a certificate is renewed when it is due, for the same key, and not before`() async throws {
        try await withCircle { laptop, phone, tablet in
            try await laptop.enrol(phone)
            let first = try await phone.status()
            laptop.later(by: 61 * 86_400)
            phone.later(by: 61 * 86_400)
            await phone.service.goAndMeet(laptop.id)
            let second = try await phone.status()
            #expect(second.serial != first.serial && second.state == .valid)
            let until = try #require(second.until)
            #expect(try #require(first.until) < until)
            // Asked again, the holder gives the same.
            await phone.service.goAndMeet(laptop.id)
            #expect(try await phone.status().serial == second.serial)
            // One that has expired meanwhile is renewed, too: the holder decides who is revoked.
            laptop.later(by: 200 * 86_400)
            phone.later(by: 200 * 86_400)
            #expect(try await phone.status().state == .expired)
            await laptop.service.lookAfterCertificate()
            await phone.service.goAndMeet(laptop.id)
            #expect(try await phone.status().state == .valid)
            // Nobody gets another's, nor one where none was issued before.
            func renew(_ caller: Trusting, by device: Trusting) async throws {
                let request = try EnrolmentRequest(
                    by: device.key, agreement: device.keys.agreement(), nonce: [UInt8](repeating: 7, count: 16),
                    now: device.now)
                _ = try await caller.node.client.call(
                    Trust.Renew.self, Trust.Renew.Input(request: ByteString(request.bytes)), on: "laptop")
            }
            await #expect(throws: KithError(.denied, "")) { try await renew(phone, by: tablet) }
            await #expect(throws: KithError(.denied, "")) { try await renew(tablet, by: tablet) }
            await #expect(throws: KithError(.denied, "")) {
                _ = try await tablet.node.client.call(
                    Trust.Networks.self, Trust.Networks.Input(have: []), on: "laptop")
            }
            await #expect(throws: KithError(.notFound, "")) {
                _ = try await laptop.node.client.call(
                    Trust.Networks.self, Trust.Networks.Input(have: []), on: "phone")
            }
        }
    }

    @Test func `a revoked device is cut off everywhere at once, and the others get new network keys`() async throws {
        try await withCircle { laptop, phone, tablet in
            laptop.keys.add("home")
            try await laptop.enrol(phone)
            try await laptop.enrol(tablet)
            try await eventually { try await tablet.status().members.count == 2 }
            let old = try laptop.keys.networks()
            let links = [laptop, tablet].compactMap { $0.dialer.link(to: phone.id) }
            #expect(links.count == 2 && links.allSatisfy(\.isOpen))
            let outcome = try await laptop.revoke(phone, "lost")
            #expect(outcome.device == phone.id && outcome.name == "phone" && outcome.revocations == 1)
            #expect(outcome.networks == ["home"] && outcome.told == ["tablet"])
            for machine in [laptop, tablet] {
                #expect(try machine.store.device(phone.id) == nil)
                #expect(try await machine.status().revoked.map(\.device) == [phone.id])
            }
            #expect(links.allSatisfy { !$0.isOpen })
            let new = try laptop.keys.networks()
            #expect(Set(new).isDisjoint(with: old))
            try await eventually { try Set(tablet.keys.networks()).isSuperset(of: new) }
            #expect(try Set(phone.keys.networks()).isDisjoint(with: new))
            // It is nobody now, and neither an invitation nor a certificate brings it back.
            await connect(phone, laptop)
            await #expect(throws: KithError(.unpaired, "")) {
                _ = try await phone.node.client.call(ThisDevice.Echo.self, .init(bytes: []), on: "laptop")
            }
            #expect(laptop.store.reception(of: phone.id, now: 0) == .unknown)
            #expect(throws: KithError(.denied, "")) { _ = try laptop.store.add(phone.paired) }
            // Once more, as after one that was cut short: the keys are new again, and the list is the same.
            #expect(try await laptop.revoke(phone, "lost").revocations == 1)
            #expect(try Set(laptop.keys.networks()).isDisjoint(with: new))
            let authority = try #require(try laptop.service.authority())
            #expect(throws: KithError(.denied, "")) {
                let request = try EnrolmentRequest(
                    by: phone.key, agreement: phone.keys.agreement(), nonce: [UInt8](repeating: 5, count: 16),
                    now: phone.now)
                _ = try laptop.service.issue(
                    request.bytes, nonce: nil, to: phone.id, by: authority,
                    revocations: laptop.service.revocations(authority.root), days: 9)
            }
        }
    }

    @Test func `a device that was away learns of a revocation from whoever it meets`() async throws {
        try await withCircle { laptop, phone, tablet in
            try await laptop.enrol(phone)
            try await laptop.enrol(tablet)
            await disconnect(tablet, laptop)
            await disconnect(tablet, phone)
            let desk = try await Trusting("desk")
            try desk.pair(with: laptop)
            await connect(desk, laptop)
            try await laptop.enrol(desk)
            _ = try await laptop.revoke(phone, "compromised")
            #expect(try tablet.store.device(phone.id) != nil)
            // Not from the holder: from another.
            try desk.pair(with: tablet)
            try await eventually { try await desk.status().revocations == 1 }
            await connect(tablet, desk)
            // The first answer on a connection shows that both know each other.
            let nobody = Trust.Presentation(root: "", certificate: nil, revocations: 0, isHolder: false)
            #expect(try await tablet.node.client.call(Trust.Meet.self, nobody, on: "desk").same == nil)
            try await eventually { try tablet.store.device(phone.id) == nil }
            await desk.stop()
        }
    }

    @Test func `a revocation list that is old, foreign or too long changes nothing`() async throws {
        try await withCircle { laptop, phone, tablet in
            try await laptop.enrol(phone)
            let authority = try #require(try laptop.service.authority())
            let entry = RevocationList.Entry(device: DeviceKey().id, time: 1, reason: .retired)
            let first = try RevocationList(after: nil, adding: entry, by: authority, now: 1)
            let second = try RevocationList(after: first, adding: nil, by: authority, now: 2)
            func update(_ bytes: [UInt8]) async throws {
                _ = try await tablet.node.client.call(
                    Trust.Update.self, Trust.Update.Input(list: ByteString(bytes)), on: "phone")
            }
            // Whoever brings it: the root has signed it.
            try await update(second.bytes)
            try await update(second.bytes)
            await #expect(throws: KithError(.conflict, "")) { try await update(first.bytes) }
            try tablet.keys.begin()
            let foreign = try #require(try tablet.service.authority())
            let theirs = try RevocationList(
                after: second,
                adding: RevocationList.Entry(device: laptop.id, time: 1, reason: .lost), by: foreign, now: 3)
            await #expect(throws: KithError(.denied, "")) { try await update(theirs.bytes) }
            await #expect(throws: KithError(.corrupt, "")) {
                try await update([UInt8](repeating: 0, count: RevocationList.sizeLimit + 1))
            }
            await #expect(throws: KithError(.corrupt, "")) { try await update([1, 2, 3]) }
            #expect(try await phone.status().revocations == 2)
            #expect(try phone.store.device(laptop.id) != nil)
        }
    }

    @Test func `who is not of the circle learns nothing of it, and who is not paired may ask nothing`() async throws {
        try await withCircle { laptop, phone, tablet in
            try await laptop.enrol(phone)
            let status = try await laptop.status()
            let root = try #require(status.root)
            func meet(_ presentation: Trust.Presentation) async throws -> Trust.Meet.Output {
                try await tablet.node.client.call(Trust.Meet.self, presentation, on: "laptop")
            }
            let other = Trust.Presentation(root: "other", certificate: nil, revocations: 0, isHolder: false)
            #expect(try await meet(other).same == nil)
            _ = try await laptop.service.revoke(Trust.Revoke.Input(device: "\(DeviceKey().id)", reason: "retired"))
            // One that knows the root's id, and shows somebody else's certificate.
            let stolen = try #require(try phone.store.trust()).certificate
            let liar = Trust.Presentation(root: root, certificate: ByteString(stolen), revocations: 0, isHolder: true)
            #expect(try await meet(liar).same?.list == nil)
            #expect(try await !laptop.status().members.contains { $0.device == tablet.id })

            _ = try laptop.store.forget(tablet.id)
            laptop.node.revoke(tablet.id)
            await connect(tablet, laptop)
            await #expect(throws: KithError(.unpaired, "")) { _ = try await meet(other) }
            await connect(tablet, laptop)
            await #expect(throws: KithError(.unpaired, "")) {
                _ = try await tablet.node.client.open(Trust.Offer.self, Nothing(), on: "laptop")
            }
            // What is its owner's own is nobody else's, paired or not.
            await #expect(throws: KithError(.denied, "")) {
                _ = try await phone.node.client.call(
                    Trust.Revoke.self, Trust.Revoke.Input(device: "tablet", reason: "lost"), on: "laptop")
            }
        }
    }
}

/// Network keys that are sealed by nothing but the name of the device they are for.
final class MemoryTrustKeys: TrustKeys {
    private struct State {
        var root: RootKey?
        var networks: [String: String] = [:]
        var number = 0
    }
    private let key = P256.KeyAgreement.PrivateKey()
    private let state = Mutex(State())

    @discardableResult func begin() throws -> RootKey {
        state.withLock { state in
            let root = RootKey()
            state.root = root
            return root
        }
    }
    func add(_ name: String) { state.withLock { $0.networks["\(ObjectIdentifier(self).hashValue)-\(name)"] = name } }

    func root() throws -> RootKey? { state.withLock { $0.root } }
    func agreement() throws -> AgreementPublicKey {
        try AgreementPublicKey(Array(key.publicKey.x963Representation))
    }
    func networks() throws -> [String] { state.withLock { $0.networks.keys.sorted() } }
    func sealedNetworks(
        for device: DeviceID, to agreement: AgreementPublicKey, except known: Set<String>
    ) throws -> [Trust.SealedNetwork] {
        state.withLock { state in
            state.networks.filter { !known.contains($0.key) }.map {
                Trust.SealedNetwork(id: $0.key, name: $0.value, sealed: ByteString(device.bytes))
            }
        }
    }
    func install(_ networks: [Trust.SealedNetwork], on device: DeviceID) throws {
        guard networks.allSatisfy({ $0.sealed.bytes == device.bytes }) else { throw KithError(.corrupt, "Not mine.") }
        state.withLock { state in for network in networks { state.networks[network.id] = network.name } }
    }
    func replaceNetworks() throws -> [String] {
        state.withLock { state in
            let names = state.networks.values.sorted()
            state.number += 1
            state.networks = Dictionary(names.map { ("\($0)-\(state.number)", $0) }) { first, _ in first }
            return names
        }
    }
}

/// A device with a store, its connections being pipes.
final class Trusting: Sendable {
    let name: String
    let key = DeviceKey()
    let keys = MemoryTrustKeys()
    let store: Store
    let node: Node
    let service: TrustService
    let dialer = LinkDialer()
    private let folder: TemporaryFolder
    private let time = Locked<Int64>(1_800_000_000)
    private let serving = Mutex<[Task<Void, Never>]>([])
    var id: DeviceID { key.id }
    var now: Int64 { time.value }

    init(_ name: String) async throws {
        self.name = name
        folder = try TemporaryFolder()
        store = try Store.open(directory: folder.path, logger: .quiet)
        node = Node(id: key.id, store: store, now: { [time] in time.value }, logger: .quiet)
        let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)
        service = TrustService(
            node: node, store: store, key: key, keys: keys, name: { name }, addresses: { [address] }
        ) { [time] in time.value }
        try node.add(service)
        try node.add(TestService())
        node.use(dialer)
    }

    func later(by seconds: Int64) { time.set(time.value + seconds) }

    var paired: PairedDevice {
        PairedDevice(
            id: id, name: name, addresses: [NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)], grants: [.shell],
            pairedAt: 1, lastSeen: nil)
    }

    func pair(with other: Trusting) throws {
        _ = try store.add(other.paired)
        _ = try other.store.add(paired)
    }

    func serve(_ link: PipeLink) {
        let task = Task { await node.serve(link: link) }
        serving.withLock { $0.append(task) }
    }

    func stop() async {
        await node.stopServices()
        for task in serving.withLock({ $0 }) {
            task.cancel()
            await task.value
        }
        store.close()
    }

    func status() async throws -> Trust.Status.Output { try await node.client.call(Trust.Status.self, Nothing()) }

    /// A request that shows its code.
    struct Request {
        let stream: MethodStream<Trust.EnrolEvent, Nothing>
        var code = ""
        var text = ""
        var first: Trust.EnrolEvent?

        mutating func next() async throws -> Trust.EnrolEvent? { try await stream.receive() }
    }

    func enrol(replacesRoot: Bool = false, isAnswered: Bool = false) async throws -> Request {
        var request = Request(
            stream: try await node.client.open(Trust.Enrol.self, .init(replacesRoot: replacesRoot)).stream)
        request.first = try await request.next()
        if isAnswered { return request }
        guard case .waiting(let code, let text, _)? = request.first else {
            throw KithError(.closed, "There is no code.")
        }
        (request.code, request.text) = (code, text)
        return request
    }

    func issue(to device: Trusting, _ code: String) async throws -> Trust.Issue.Output {
        try await node.client.call(Trust.Issue.self, .init(device: device.name, code: code))
    }

    /// Enrols another device.
    func enrol(_ device: Trusting) async throws {
        let request = try await device.enrol()
        _ = try await issue(to: device, request.code)
    }

    func revoke(_ device: Trusting, _ reason: String) async throws -> Trust.Revoke.Output {
        try await node.client.call(Trust.Revoke.self, .init(device: device.id.description, reason: reason))
    }
}

/// Finds the links that a test has made.
final class LinkDialer: PeerDialer {
    private let links = Mutex<[DeviceID: PipeLink]>([:])

    func set(_ link: PipeLink, to id: DeviceID) { links.withLock { $0[id] = link } }
    func link(to id: DeviceID) -> PipeLink? { links.withLock { $0[id] } }
    func current(_ id: DeviceID) -> (any PeerLink)? { link(to: id) }
    func dial(
        _ id: DeviceID, at addresses: [NetworkAddress], isEarly: Bool, timeout: Duration
    ) async throws -> any PeerLink {
        guard let link = link(to: id), link.isOpen else { throw KithError(.unreachable, "Nobody there.") }
        return link
    }
}

/// Connects two devices.
func connect(_ one: Trusting, _ other: Trusting) async {
    let (near, far) = PipeLink.pair(one.id, other.id)
    one.dialer.set(near, to: other.id)
    other.dialer.set(far, to: one.id)
    one.serve(near)
    other.serve(far)
}

func disconnect(_ one: Trusting, _ other: Trusting) async {
    one.dialer.link(to: other.id)?.close(.closed, reason: "as the test says")
}

/// Runs `body` with three devices that are paired and connected with each other; the first holds a root key.
private func withCircle(_ body: (_ laptop: Trusting, _ phone: Trusting, _ tablet: Trusting) async throws -> Void)
    async throws
{
    let devices = [try await Trusting("laptop"), try await Trusting("phone"), try await Trusting("tablet")]
    try devices[0].keys.begin()
    for (index, one) in devices.enumerated() {
        for other in devices[(index + 1)...] {
            try one.pair(with: other)
            await connect(one, other)
        }
    }
    do {
        try await body(devices[0], devices[1], devices[2])
    } catch {
        Issue.record(error)
    }
    for device in devices { await device.stop() }
}
