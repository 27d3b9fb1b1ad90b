import KithAPI
import KithIO
import KithIdentity
import KithStore
import KithTrust
import KithWire
import Logging
import Synchronization

// Introduction: two devices under one root that nobody has paired. The connection has proven both keys; each end checks
// that the other's certificate is for just that key, under the root that it pins itself, holds now and is not revoked.
//
//  dialing end                                        dialed end, which shows nothing to others
//    │  introduction: certificate, proof, name        ─▶ │  checked
//    │ ◀─  introduction: certificate, proof, name        │
//    │  accepted: checked                             ─▶ │  stored, then said
//    │ ◀─  known                                         │
//    │  stored                                           │

extension TrustService {
    /// The dialing end, as the dialed one sees it.
    private typealias Dialing = MethodStream<Trust.FromDialing, Trust.FromDialed>
    /// The dialed end, as the dialing one sees it.
    private typealias Dialed = MethodStream<Trust.FromDialed, Trust.FromDialing>

    /// This end of an introduction: its certificate, which holds, and what the other's is checked by.
    private struct Standing {
        var root: RootCertificate
        var certificate: DeviceCertificate
        var list: RevocationList?
    }

    /// The time that another device has for each of its messages.
    private static let answerTime = Duration.seconds(10)

    // MARK: - Whether it is possible

    /// Lets devices show their certificates here, as long as this one has a certificate that holds.
    func noteOwnStanding() async {
        do {
            let standing = try store.enrolledAdmission().isOn ? try await standing() : nil
            store.admitEnrolled(until: standing.map { min($0.certificate.notAfter, $0.root.notAfter) })
        } catch {
            store.admitEnrolled(until: nil)
            node.logger.warning("no device is let in by its certificate", metadata: ["error": "\(error)"])
        }
    }

    /// The certificate of this device and its root; `nil` while there is none that holds.
    private func standing() async throws -> Standing? {
        guard let (root, certificate, _) = try pinned() else { return nil }
        let list = try revocations(root)
        let standing = await root.status(of: certificate, presentedBy: node.id, revocations: list, now: now())
        return standing.isValid ? Standing(root: root, certificate: certificate, list: list) : nil
    }

    /// Changes the treatment of devices that become known from now on.
    func admit(_ input: Trust.Admit.Input) async throws -> Trust.Admission {
        var admission = try store.enrolledAdmission()
        if let isOn = input.isOn { admission.isOn = isOn }
        if let grants = input.grants { admission.grants = grants }
        try store.setEnrolledAdmission(admission)
        await noteOwnStanding()
        let grants = admission.grants.map(\.description).joined(separator: " ")
        try record(
            Trust.Admit.name,
            admission.isOn ? "by certificate; they may do \(grants.isEmpty ? "nothing" : grants)" : "not by certificate"
        )
        var output = Trust.Admission(try store.enrolledAdmission())
        let warnings = try store.overlaps(of: admission.grants, to: nil, called: "A device under your root")
        output.warnings = warnings.isEmpty ? nil : warnings
        return output
    }

    // MARK: - The end that was dialed

    /// Takes the certificate of a device, and shows this one's if the other is good.
    func takeIntroduction(_ context: CallContext, _ pending: PendingStream<Trust.Introduce>) async throws {
        guard case .device(let device, _, let isPaired) = context.caller, let export = context.exportKeyingMaterial
        else { throw KithError(.invalid, "A certificate is shown by another device.") }
        let address = await context.callerAddress?()
        // Before anything of it is read.
        let wait = state.withLock { $0.limiter.present(device, from: address, at: node.clock.now) }
        if let wait {
            let error = KithError(
                .exhausted,
                "Too many certificates are shown from there. Try again in \(max(1, Int((wait / .seconds(1)).rounded(.up)))) s."
            )
            refused(device, isPaired, address, error.message)
            throw error
        }
        let proof = IntroductionProof(
            dialing: device, dialed: node.id, exporter: try await export(IntroductionProof.exporterLabel, []))
        let stream = try await pending.accept()
        do {
            try await answer(stream, device, isPaired: isPaired, proof)
        } catch let error where (error as? KithError)?.code != .closed {
            refused(device, isPaired, address, (error as? KithError)?.message ?? "\(error)")
            // Whether it is the root, the time, a revocation or the person here is not for whoever shows a certificate.
            try? await stream.send(.refused(code: Self.refusal.code, message: Self.refusal.message))
            try? await stream.finish()
            // The refusal must arrive before the stream goes: the other end ends it when it has read it.
            _ = try? await withDeadline(.seconds(2), on: node.clock) { try await stream.receive() }
        }
    }

    private static let refusal = KithError(
        .unpaired,
        "That device does not know this one, and does not take its certificate: it may be under another root, over, revoked, or this device was forgotten there."
    )

    private func answer(
        _ stream: Dialing, _ device: DeviceID, isPaired: Bool, _ proof: IntroductionProof
    ) async throws {
        guard case .introduction(let theirs)? = try await next(of: stream) else { throw Self.outOfOrder }
        guard let standing = try await standing() else {
            throw KithError(.denied, "This device has no certificate that holds.")
        }
        // Whatever let the connection in: the person here may have decided otherwise meanwhile.
        guard isPaired || store.mayIntroduceItself(device, now: now()) else {
            throw KithError(.denied, "Nobody is let in by certificate, or not that device.")
        }
        let checked = try await check(theirs, of: device, as: .dialing, proof, standing)
        try await stream.send(.introduction(try introduction(as: .dialed, proof, standing)))
        guard case .accepted? = try await next(of: stream) else { throw Self.outOfOrder }
        _ = try add(theirs, of: device, checked, by: .device)
        try await stream.send(.known)
        try await stream.finish()
        // The other end closes when it has stored this one, too; that this is heard changes nothing.
        _ = try? await withDeadline(Self.answerTime, on: node.clock) { try await stream.receive() }
    }

    /// Notes that a certificate was refused; repeated refusals are only counted.
    private func refused(_ device: DeviceID, _ isPaired: Bool, _ address: NetworkAddress?, _ why: String) {
        log("refused a certificate that was shown", device, outcome: why)
        guard !isPaired else { return }
        store.countAttempt(
            UnpairedAttempt(device: device, address: address, method: Trust.Introduce.name, detail: why), now: now())
    }

    // MARK: - The end that dials

    /// Exchanges certificates with a device that this one's person has named.
    func connect(_ input: Trust.Connect.Input) async throws -> Devices.Info {
        guard let standing = try await standing() else {
            throw KithError(
                .denied, "This device has no certificate that holds: kith trust. It gets one by: kith enrol")
        }
        let device: DeviceID
        if let id = DeviceID(input.device) { device = id } else { device = try node.resolve(input.device).id }
        guard device != node.id else { throw KithError(.invalid, "That is this device itself.") }
        guard standing.list?.revokes(device) != true else {
            throw KithError(.denied, "The device \(device.short) was revoked by your root key for good.")
        }
        let addresses = input.addresses.isEmpty ? try store.device(device)?.addresses ?? [] : input.addresses
        guard addresses.count <= Ticket.maxAddresses, input.relays.count <= Ticket.maxRelays,
            input.relays.allSatisfy({ $0.utf8.count <= 255 })
        else {
            throw KithError(
                .invalid, "A device has at most \(Ticket.maxAddresses) addresses and \(Ticket.maxRelays) relays.")
        }
        let stream: Dialed
        let proof: IntroductionProof
        do {
            let remote = try await node.open(
                Trust.Introduce.self, Nothing(), at: device, addresses: addresses, relays: input.relays,
                options: CallOptions(timeout: Self.patience))
            stream = remote.opened.stream
            proof = IntroductionProof(
                dialing: node.id, dialed: device,
                exporter: try await remote.exportKeyingMaterial(IntroductionProof.exporterLabel, []))
        } catch let error as KithError where error.code == .unpaired {
            throw KithError(
                .unpaired,
                "That device refused the connection: it has no certificate itself, lets no device in by one, or has revoked or forgotten this one. There: kith trust",
                cause: error)
        } catch let error as KithError where error.code == .unsupported {
            throw KithError(
                .unsupported, "That device runs a version of Kith that knows no such certificates. Update it first.",
                cause: error)
        }
        defer { stream.abort(.cancelled) }
        try await stream.send(.introduction(try introduction(as: .dialing, proof, standing)))
        guard case .introduction(let theirs) = try await reply(on: stream) else { throw Self.outOfOrder }
        let checked = try await check(theirs, of: device, as: .dialed, proof, standing)
        try await stream.send(.accepted)
        guard case .known = try await reply(on: stream) else { throw Self.outOfOrder }
        let known = try add(theirs, of: device, checked, by: .person, relays: input.relays)
        // Both ends have stored it: whether this arrives changes nothing.
        try? await stream.finish()
        try record(Trust.Connect.name, "\(known.name) (\(device.short)): certificates were exchanged")
        // The one that has the older revocation list gets the newer.
        meet(device)
        return await Devices.Info(known, node: node)
    }

    private func reply(on stream: Dialed) async throws -> Trust.FromDialed {
        let message = try await withDeadline(Self.answerTime, on: node.clock) { try await stream.receive() }
        switch message {
        case .refused(let code, let message)?: throw KithError(code, String(message.prefix(500)))
        case nil: throw KithError(.closed, "The other device broke off. Nothing was stored here.")
        case let message?: return message
        }
    }

    // MARK: - Both ends

    private func next(of stream: Dialing) async throws -> Trust.FromDialing? {
        try await withDeadline(Self.answerTime, on: node.clock) { try await stream.receive() }
    }

    /// This end's introduction.
    private func introduction(
        as end: IntroductionProof.End, _ proof: IntroductionProof, _ standing: Standing
    ) throws -> Trust.Introduction {
        let certificate = standing.certificate.bytes
        return Trust.Introduction(
            certificate: ByteString(certificate),
            proof: ByteString(try proof.signature(of: end, with: certificate, by: key)), name: name(),
            addresses: Array(addresses().prefix(Ticket.maxAddresses)))
    }

    /// Checks the other end's introduction.
    ///
    /// - Throws: `KithError` `.corrupt` for what is none, `.denied` for one that is not of this connection, or whose
    ///   certificate does not hold now under the root that is pinned here.
    private func check(
        _ theirs: Trust.Introduction, of device: DeviceID, as end: IntroductionProof.End, _ proof: IntroductionProof,
        _ standing: Standing
    ) async throws -> CheckedCertificate {
        guard theirs.name.utf8.count <= 256, theirs.addresses.count <= Ticket.maxAddresses else {
            throw KithError(.corrupt, "That is not an introduction.")
        }
        let certificate = try DeviceCertificate(theirs.certificate.bytes)
        guard proof.isValid(theirs.proof.bytes, of: end, with: certificate.bytes) else {
            throw KithError(.denied, "The certificate was shown on another connection, or by another device.")
        }
        let now = now()
        let status = await standing.root.status(
            of: certificate, presentedBy: device, revocations: standing.list, now: now)
        guard case .valid(let end) = status else {
            throw KithError(.denied, "The certificate of \(device.short) is not good: \(status.words).")
        }
        // What is over by this device's clock is not enough to become known, whatever the other's says.
        let until = min(end, standing.root.notAfter)
        guard until > now else {
            throw KithError(.denied, "The certificate of \(device.short) is not good: it is over.")
        }
        return CheckedCertificate(certificate: certificate.bytes, root: standing.root.bytes, until: until)
    }

    /// Stores a device whose certificate was checked, and treats it as known.
    private func add(
        _ theirs: Trust.Introduction, of device: DeviceID, _ checked: CheckedCertificate,
        by introducer: Store.Introducer, relays: [String] = []
    ) throws -> PairedDevice {
        let now = now()
        let addresses = theirs.addresses.filter { $0.port != 0 && !$0.isUnspecified && !$0.isMulticast }
        let known = try store.addEnrolled(
            PairedDevice(
                id: device, name: theirs.name, addresses: addresses, relays: relays,
                grants: try store.enrolledAdmission().grants,
                pairedAt: now, lastSeen: now), checked, by: introducer, now: now)
        node.paired(device)
        cutOffExpired()
        log("exchanged certificates", device, outcome: "done")
        return known
    }

    private static var outOfOrder: KithError {
        KithError(.invalid, "The other device left the order of an introduction. Nothing was stored here.")
    }

    // MARK: - The end of a certificate

    /// Cuts off the devices whose certificates are over, and is called again when the next one is.
    func cutOffExpired() {
        let (now, known) = (now(), store.certifiedDevices)
        let over = Set(known.filter { $0.value <= now }.keys)
        let fresh = state.withLock { state in
            defer { state.expired = over }
            return over.subtracting(state.expired)
        }
        for device in fresh {
            let isConnected = node.onlineDevices.contains(device)
            node.revoke(device)
            guard isConnected else { continue }
            do {
                try store.record(
                    AuditEntry(
                        time: now, device: try store.device(device)?.name ?? device.description,
                        method: Trust.Introduce.name, decision: .denied, detail: "its certificate is over: cut off"))
            } catch {
                node.logger.warning("could not note that a device was cut off", metadata: ["error": "\(error)"])
            }
        }
        guard let next = known.values.filter({ $0 > now }).min() else { return }
        // A clock that is set shows itself by then.
        let wait = min(Duration.seconds(next - now), Self.interval)
        let ticket = node.timers.schedule(at: node.clock.now + wait) { [weak self, weak node] in
            guard let self, let node else { return }
            self.cutOffExpired()
            withExtendedLifetime(node) {}
        }
        let last = state.withLock { state in
            defer { state.expiry = ticket }
            return state.expiry
        }
        if let last { node.timers.cancel(last) }
    }
}

extension Trust.Admission {
    /// Describes what is stored.
    init(_ admission: EnrolledAdmission) { self.init(isOn: admission.isOn, grants: admission.grants) }
}
