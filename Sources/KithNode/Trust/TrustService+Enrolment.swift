import KithAPI
import KithIO
import KithIdentity
import KithStore
import KithTrust
import KithWire
import Logging
import Synchronization

// Enrolment:
//
//  device                                             holder of the root key
//    │ `kith enrol` shows a code                        `kith enrol DEVICE` takes it
//    │ ◀─  trust.offer                                     │
//    │  the nonce of the request                        ─▶ │
//    │ ◀─  the root's certificate, proof of the code       │  three tries, then the request is void
//    │  the request, proof of the code                  ─▶ │  checked, each nonce once
//    │ ◀─  certificate, network keys, revocation list      │
//    │  pinned and stored, then said                    ─▶ │

extension TrustService {
    private typealias Holder = MethodStream<Trust.FromHolder, Trust.FromDevice>

    // MARK: - The device

    /// Makes a request, and waits until it is answered, taken back or void.
    func enrol(_ input: Trust.Enrol.Input, _ pending: PendingStream<Trust.Enrol>) async throws {
        if let root = try keys.root() { return try await enrolItself(root, input, pending) }
        let request = PendingEnrolment(
            expiresAt: now() + EnrolmentRequest.lifetime, replacesRoot: input.replacesRoot)
        try state.withLock { state throws(KithError) in
            guard state.pending == nil else {
                throw KithError(
                    .conflict, "A request of this device waits already: another `kith enrol` shows its code.")
            }
            state.pending = request
        }
        defer { state.withLock { if $0.pending === request { $0.pending = nil } } }
        let stream = try await pending.accept()
        let code = request.code.description
        try await stream.send(
            .waiting(code: code, text: EnrolmentText(node.id, request.code).text, expiresAt: request.expiresAt))
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                for await event in request.events { try await stream.send(event) }
                try await stream.finish()
            }
            group.addTask {
                // Its person goes away, and the request with them.
                try await stream.end()
                throw KithError(.cancelled, "The request was taken back.")
            }
            group.addTask {
                try await self.node.clock.sleep(
                    until: self.node.clock.now + .seconds(EnrolmentRequest.lifetime), tolerance: nil)
                request.finish(
                    .failed(code: .timedOut, message: "Nobody answered the request within ten minutes. Begin again."))
                // That it is over is still to be sent.
                try await self.node.clock.sleep(until: self.node.clock.now + Self.patience, tolerance: nil)
            }
            try await group.next()
        }
    }

    /// Issues the holder of the root key its own certificate.
    private func enrolItself(
        _ key: RootKey, _ input: Trust.Enrol.Input, _ pending: PendingStream<Trust.Enrol>
    ) async throws {
        if let (root, _, _) = try pinned(), !root.isCertificate(of: key), input.replacesRoot {
            _ = try begin(by: key, keepsOthers: false)
        }
        _ = try authority()
        await lookAfterCertificate()
        await noteOwnStanding()
        guard let (root, certificate, _) = try pinned() else { throw KithError(.internal, "Nothing was stored.") }
        let stream = try await pending.accept()
        try await stream.send(
            .enrolled(root: root.id.description, by: "this device", until: certificate.notAfter))
        try await stream.finish()
    }

    /// Answers a device that offers a certificate: it must prove the code of the request that waits.
    func answerOffer(_ context: CallContext, _ pending: PendingStream<Trust.Offer>) async throws {
        guard case .device(let holder, let name, _) = context.caller else {
            throw KithError(.invalid, "A certificate is offered by another device.")
        }
        guard let request = state.withLock({ $0.pending }), request.expiresAt > now() else {
            throw PendingEnrolment.void
        }
        try request.begin()
        var isEnded = false
        defer { if !isEnded { request.end() } }
        let stream = try await pending.accept(Trust.Offer.Output(nonce: ByteString(request.nonce)))
        do {
            try await answer(stream, request, holder: holder, named: name)
            try await stream.send(.installed)
            try await stream.finish()
        } catch let error as KithError where error.code != .closed {
            log("refused a certificate", holder, outcome: error.code.rawValue)
            // Whoever hears of it may try again at once.
            request.end()
            isEnded = true
            // Whoever is gone need not be told why.
            try? await stream.send(.refused(code: error.code, message: error.message))
            try? await stream.finish()
            // The refusal must arrive before the stream goes: the holder ends it when it has read it.
            _ = try? await withDeadline(.seconds(2), on: node.clock) { try await stream.receive() }
        }
    }

    private func answer(
        _ stream: Holder, _ request: PendingEnrolment, holder: DeviceID, named name: String
    ) async throws {
        let first = try await withDeadline(Self.patience, on: node.clock) { try await stream.receive() }
        guard case .proof(let offered, let proof)? = first else { throw Self.disorder }
        // Before it is looked at: whoever tries codes has three.
        let left = try request.countAttempt()
        let root = try RootCertificate(offered.bytes)
        let terms = EnrolmentCode.Terms(
            nonce: request.nonce, root: root.publicKey, holder: holder, device: node.id)
        let secret = try request.code.secret(for: request.nonce, of: node.id)
        guard secret.isHolderProof(proof.bytes, terms) else {
            request.refused(name, left: left)
            throw KithError(
                .denied,
                left == 0
                    ? "The code is wrong for the third time: the request is void. Begin again there: kith enrol"
                    : "The code is wrong. \(left == 1 ? "One more try is" : "\(left) more tries are") left.")
        }
        let known = try pinned()
        let isOther = known.map { $0.root.publicKey != root.publicKey } ?? false
        if isOther, !request.replacesRoot {
            throw KithError(
                .conflict,
                "That device is enrolled under another root, \(known?.root.id.description ?? ""). To change it, there: kith enrol --replace"
            )
        }
        let own = try EnrolmentRequest(
            by: key, agreement: try keys.agreement(), nonce: request.nonce, now: now())
        try await stream.send(
            .request(
                request: ByteString(own.bytes), proof: ByteString(secret.deviceProof(terms, of: own.bytes))))
        let second = try await withDeadline(Self.patience, on: node.clock) { try await stream.receive() }
        guard case .issued(let bytes, let networks, let list)? = second else { throw Self.disorder }
        let certificate = try DeviceCertificate(bytes.bytes)
        let revocations = try list.map { try RevocationList($0.bytes, by: root) }
        let standing = await root.status(of: certificate, presentedBy: node.id, revocations: revocations, now: now())
        guard standing.isValid else {
            throw KithError(.corrupt, "The certificate that was issued is not good: \(standing.words).")
        }
        try keys.install(networks, on: node.id)
        let ended = try store.pin(
            PinnedTrust(root: root.bytes, certificate: certificate.bytes, holder: holder), keepsOthers: !isOther,
            now: now())
        for device in ended { node.revoke(device.id) }
        if let revocations { _ = try take(revocations) }
        await noteOwnStanding()
        try record(Trust.Enrol.name, "enrolled by \(name) (\(holder.short)) under the root \(root.id)")
        log("enrolled", holder, outcome: "done")
        request.finish(.enrolled(root: root.id.description, by: name, until: certificate.notAfter))
        for device in node.onlineDevices { meet(device) }
    }

    // MARK: - The holder of the root key

    /// Makes a root key on this device, and enrols the device itself.
    func begin() async throws -> Trust.Status.Output {
        if let (root, _, holder) = try pinned() {
            let name = try store.device(holder)?.name ?? holder.short
            throw KithError(
                .conflict,
                holder == node.id
                    ? "This device holds the root key \(root.id) already."
                    : "This device is enrolled under the root \(root.id), which \(name) holds. One person has one root key."
            )
        }
        let root = try keys.root() ?? keys.begin()
        _ = try begin(by: root, keepsOthers: false)
        await noteOwnStanding()
        try record(Trust.Begin.name, "made the root key \(root.id)")
        return try await status()
    }

    /// Issues a certificate to a device whose code was given.
    func issue(_ input: Trust.Issue.Input, _ context: CallContext) async throws -> Trust.Issue.Output {
        guard let code = EnrolmentCode(input.code) else {
            throw KithError(
                .invalid, "A code has eight letters and digits, as in abcd-ef23. The other device shows it.")
        }
        let days = input.days ?? DeviceCertificate.days
        guard (1...DeviceCertificate.maxDays).contains(days) else {
            throw KithError(.invalid, "A certificate holds for 1 to \(DeviceCertificate.maxDays) days.")
        }
        guard let authority = try authority() else { throw try noRoot() }
        let known = try node.resolve(input.device, byWholeName: true)
        guard known.id != node.id else {
            throw KithError(.invalid, "This device issues its own certificate: kith enrol")
        }
        let opened: OpenedStream<Trust.Offer>
        do {
            opened = try await context.client.open(
                Trust.Offer.self, Nothing(), on: known.id.description, options: CallOptions(timeout: Self.patience))
        } catch let error as KithError where error.code == .unsupported {
            throw KithError(
                .unsupported, "\(known.name) runs a version of Kith without certificates. Update it first.",
                cause: error)
        }
        let stream = opened.stream
        defer { stream.abort(.cancelled) }
        let nonce = opened.output.nonce.bytes
        guard nonce.count == EnrolmentRequest.nonceLength else { throw Self.disorder }
        let terms = EnrolmentCode.Terms(
            nonce: nonce, root: authority.root.publicKey, holder: node.id, device: known.id)
        let secret = try code.secret(for: nonce, of: known.id)
        try await stream.send(
            .proof(root: ByteString(authority.root.bytes), proof: ByteString(secret.holderProof(terms))))
        let bytes: [UInt8]
        switch try await answer(on: stream) {
        case .request(let request, let proof):
            guard secret.isDeviceProof(proof.bytes, terms, of: request.bytes) else {
                throw KithError(
                    .denied, "\(known.name) does not know the code: the request is not the one it belongs to.")
            }
            bytes = request.bytes
        case .refused(let code, let message): throw KithError(code, Self.bounded(message))
        case .installed: throw Self.disorder
        }
        let list = try revocations(authority.root)
        let (certificate, checked) = try issue(
            bytes, nonce: nonce, to: known.id, by: authority, revocations: list, days: days)
        let networks = try keys.sealedNetworks(for: known.id, to: checked.agreement, except: [])
        try await stream.send(
            .issued(
                certificate: ByteString(certificate.bytes), networks: networks,
                revocations: list.map { ByteString($0.bytes) }))
        switch try await answer(on: stream) {
        case .installed: break
        case .refused(let code, let message): throw KithError(code, Self.bounded(message))
        case .request: throw Self.disorder
        }
        // It has stored everything: whether this arrives changes nothing.
        try? await stream.finish()
        try record(
            Trust.Issue.name, "\(known.name) (\(known.id.short)): certificate \(certificate.serial), \(days) days")
        return Trust.Issue.Output(
            device: known.id, name: known.name, root: authority.root.id.description, serial: certificate.serial,
            until: certificate.notAfter, networks: networks.map(\.name))
    }

    private func answer(on stream: MethodStream<Trust.FromDevice, Trust.FromHolder>) async throws -> Trust.FromDevice {
        guard let message = try await withDeadline(Self.patience, on: node.clock, { try await stream.receive() }) else {
            throw KithError(.closed, "The other device broke off. It is not enrolled.")
        }
        return message
    }

    /// Checks a request, and issues a certificate for it once.
    ///
    /// - Throws: `.denied` for a request of another device, a revoked one, or one with another nonce, `.conflict` for one
    ///   that was used, `.timedOut` for one that has expired.
    func issue(
        _ request: [UInt8], nonce: [UInt8]?, to device: DeviceID, by authority: CertificateAuthority,
        revocations: RevocationList?, days: Int
    ) throws -> (DeviceCertificate, CheckedRequest) {
        let now = now()
        let checked = try EnrolmentRequest.check(request, from: device, now: now)
        guard nonce == nil || nonce == checked.nonce else {
            throw KithError(.denied, "\(device.short) sent another request than the one its code belongs to.")
        }
        guard revocations?.revokes(device) != true else { throw Self.revoked(device) }
        let certificate = try authority.issue(to: checked, days: days, now: now)
        try store.addIssued(
            StoredCertificate(
                device: device, certificate: certificate.bytes, agreement: checked.agreement.bytes),
            for: checked.nonce, until: checked.expiresAt + RootCertificate.clockSkew, now: now)
        return (certificate, checked)
    }

    func noRoot() throws -> KithError {
        let holder = try pinned().flatMap { known in
            try store.devices().first { $0.id == known.holder }?.name
        }
        return KithError(
            .notFound,
            holder.map { "This device does not hold the root key. Run it on \($0), which does." }
                ?? "This device holds no root key. Make one: kith enrol --begin")
    }

    static func revoked(_ device: DeviceID) -> KithError {
        KithError(.denied, "The device \(device.short) is revoked: it gets no certificate.")
    }

    static var disorder: KithError {
        KithError(.invalid, "The other device left the order of an enrolment. Nothing was stored here.")
    }

    /// Another device's words, cut to what a person reads.
    private static func bounded(_ message: String) -> String { String(message.prefix(500)) }

    /// Logs a step; never the code.
    func log(_ what: Logger.Message, _ device: DeviceID, outcome: String) {
        node.logger.debug(what, metadata: ["peer": "\(device.short)", "outcome": "\(outcome)"])
    }
}

extension CertificateStatus {
    /// What to say of it.
    var words: String { if case .invalid(let reason) = self { reason } else { "it is \(state.rawValue)" } }
}
