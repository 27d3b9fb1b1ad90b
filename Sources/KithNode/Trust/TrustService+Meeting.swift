import KithAPI
import KithIO
import KithIdentity
import KithStore
import KithTrust
import KithWire
import Logging

// What devices under one root tell each other when they connect, and what follows from it: the newer revocation list,
// a certificate that is due, network keys that are missing.

extension TrustService {
    /// The standing of this device, as it is told; `nil` while it is not enrolled.
    private func presentation() throws -> (own: Trust.Presentation, root: RootCertificate, list: RevocationList?)? {
        guard let (root, certificate, _) = try pinned() else { return nil }
        let list = try revocations(root)
        let own = Trust.Presentation(
            root: root.id.description, certificate: ByteString(certificate.bytes), revocations: list?.number ?? 0,
            isHolder: try keys.root().map { root.isCertificate(of: $0) } ?? false)
        return (own, root, list)
    }

    // MARK: - Asked

    /// Answers a device that tells its standing.
    func meeting(_ theirs: Trust.Presentation, _ device: DeviceID) async throws -> Trust.Meet.Output {
        guard let (known, root, list) = try presentation(), known.root == theirs.root else {
            return Trust.Meet.Output(same: nil)
        }
        var own = known
        // The list names people's lost devices: whoever is not one of ours does not see it.
        let isMember = try await learn(theirs, of: device, root, list)
        if isMember, let list, theirs.revocations < list.number { own.list = ByteString(list.bytes) }
        if isMember, theirs.revocations > own.revocations { meet(device) }
        return Trust.Meet.Output(same: own)
    }

    /// Takes a revocation list that another device sent.
    func update(_ bytes: [UInt8], from device: DeviceID) throws {
        guard let (root, _, _) = try pinned() else {
            throw KithError(.notFound, "This device is not enrolled under any root.")
        }
        guard bytes.count <= RevocationList.sizeLimit else {
            throw KithError(.corrupt, "That is not a revocation list.")
        }
        guard try take(try RevocationList(bytes, by: root)) else { return }
        // It may be the holder, who has new network keys.
        meet(device)
        tellEverybody(except: device)
    }

    /// Renews the certificate of a device; before that is due, it gets the one it has.
    func renew(_ request: [UInt8], for device: DeviceID) throws -> Trust.Renew.Output {
        guard let authority = try authority() else { throw try noRoot() }
        let list = try revocations(authority.root)
        guard list?.revokes(device) != true else { throw Self.revoked(device) }
        guard let last = try store.certificates(issuedHere: true).first(where: { $0.device == device }) else {
            throw KithError(
                .denied, "No certificate was issued to that device here. On it run: kith enrol")
        }
        let old = try DeviceCertificate(last.certificate)
        guard now() >= old.renewsAt else {
            _ = try EnrolmentRequest.check(request, from: device, now: now())
            return Trust.Renew.Output(certificate: ByteString(old.bytes))
        }
        let days = min(max(1, Int((old.notAfter - old.notBefore) / 86_400)), DeviceCertificate.maxDays)
        let (certificate, _) = try issue(
            request, nonce: nil, to: device, by: authority, revocations: list, days: days)
        log("renewed a certificate", device, outcome: "done")
        return Trust.Renew.Output(certificate: ByteString(certificate.bytes))
    }

    /// The network keys that an enrolled device lacks, sealed to it.
    func networks(except known: [String], for device: DeviceID) throws -> Trust.Networks.Output {
        guard known.count <= 1_000, let authority = try authority() else { throw try noRoot() }
        let issued = try store.certificates(issuedHere: true).first { $0.device == device }
        guard let issued, try revocations(authority.root)?.revokes(device) != true else {
            throw KithError(.denied, "Network keys are for devices that were enrolled here. On it run: kith enrol")
        }
        return Trust.Networks.Output(
            networks: try keys.sealedNetworks(
                for: device, to: try AgreementPublicKey(issued.agreement), except: Set(known)))
    }

    // MARK: - Asking

    /// Tells a connected device the standing of this one, and takes what it has to give.
    func goAndMeet(_ device: DeviceID) async {
        guard !Task.isCancelled, node.onlineDevices.contains(device) else { return }
        do {
            guard let (own, root, list) = try presentation() else { return }
            let options = CallOptions(timeout: Self.patience)
            let answer = try await node.client.call(Trust.Meet.self, own, on: device.description, options: options)
            guard let same = answer.same, same.root == own.root else { return }
            guard try await learn(same, of: device, root, list) else { return }
            if let newer = same.list, try take(try RevocationList(newer.bytes, by: root)) {
                tellEverybody(except: device)
            } else if let list, list.number > same.revocations {
                _ = await tell(device)
            }
            guard same.isHolder, !own.isHolder else { return }
            try await renew(from: device, root)
            // Nothing proves who sealed a network key but the connection: only the one that issued the certificate is asked.
            guard try pinned()?.holder == device else { return }
            let have = try keys.networks()
            let sent = try await node.client.call(
                Trust.Networks.self, Trust.Networks.Input(have: have), on: device.description, options: options)
            if !sent.networks.isEmpty { try keys.install(sent.networks, on: node.id) }
        } catch let error as KithError where error.code == .unsupported {
            // A device of an earlier version has no certificate.
        } catch {
            node.logger.debug(
                "could not exchange certificates", metadata: ["peer": "\(device.short)", "error": "\(error)"])
        }
    }

    /// Has the holder renew the certificate of this device when that is due.
    private func renew(from holder: DeviceID, _ root: RootCertificate) async throws {
        guard let (_, certificate, _) = try pinned(), now() >= certificate.renewsAt else { return }
        let nonce = (0..<EnrolmentRequest.nonceLength).map { _ in UInt8.random(in: 0 ... .max) }
        let request = try EnrolmentRequest(by: key, agreement: try keys.agreement(), nonce: nonce, now: now())
        let answer = try await node.client.call(
            Trust.Renew.self, Trust.Renew.Input(request: ByteString(request.bytes)), on: holder.description,
            options: CallOptions(timeout: Self.patience))
        let renewed = try DeviceCertificate(answer.certificate.bytes)
        let standing = await root.status(
            of: renewed, presentedBy: node.id, revocations: try revocations(root), now: now())
        guard standing.isValid, renewed.notAfter > certificate.notAfter else { return }
        try store.setOwnCertificate(renewed.bytes, by: holder)
        log("got a new certificate", holder, outcome: "done")
        await noteOwnStanding()
        showRenewed(except: holder)
    }

    /// Shows the new certificate of this device to those that know it by the one before.
    private func showRenewed(except holder: DeviceID?) {
        for device in node.onlineDevices where device != holder { meet(device) }
    }

    /// Renews the certificate of the holder itself, or asks the holder for one, when that is due.
    func lookAfterCertificate() async {
        await noteOwnStanding()
        do {
            guard let (_, certificate, _) = try pinned(), now() >= certificate.renewsAt else { return }
            if let authority = try authority() {
                let own = try authority.issue(toItself: key, now: now())
                try store.setOwnCertificate(own.bytes, by: node.id)
                await noteOwnStanding()
                showRenewed(except: nil)
            } else {
                for device in node.onlineDevices { meet(device) }
            }
        } catch {
            node.logger.warning("could not renew this device's certificate", metadata: ["error": "\(error)"])
        }
    }

    /// Checks and keeps the certificate of another device; true when it is one of ours.
    private func learn(
        _ theirs: Trust.Presentation, of device: DeviceID, _ root: RootCertificate, _ list: RevocationList?
    ) async throws -> Bool {
        guard let bytes = theirs.certificate else { return false }
        let certificate = try DeviceCertificate(bytes.bytes)
        switch await root.status(of: certificate, presentedBy: device, revocations: list, now: now()) {
        case .valid(let until):
            try store.setPresented(
                StoredCertificate(device: device, certificate: certificate.bytes), until: min(until, root.notAfter),
                now: now())
            cutOffExpired()
            return true
        // It was one of ours, and needs the holder to be it again.
        case .expired: return true
        default: return false
        }
    }

    // MARK: - Revocation

    /// Takes a list that was checked; false when it is here already.
    ///
    /// The devices on it are cut off: their pairings, with all grants, and their connections end at once.
    func take(_ list: RevocationList) throws -> Bool {
        guard let (root, _, _) = try pinned() else { return false }
        let known = try revocations(root)
        guard try list.replaces(known) else { return false }
        do throws(KithError) {
            _ = try store.setRevocations(
                StoredRevocations(number: list.number, list: list.bytes, devices: list.entries.map(\.device)),
                now: now())
        } catch {
            guard error.code == .conflict else { throw error }
            // The same list came another way meanwhile.
            return false
        }
        if list.revokes(node.id) { store.admitEnrolled(until: nil) }
        for entry in list.entries where known?.revokes(entry.device) != true { node.revoke(entry.device) }
        node.logger.notice(
            "took a revocation list", metadata: ["number": "\(list.number)", "devices": "\(list.entries.count)"])
        return true
    }

    /// Sends a device the list that is here; true when it has it then.
    func tell(_ device: DeviceID) async -> Bool {
        do {
            guard let bytes = try store.revocations(), let (own, root, _) = try presentation() else { return false }
            // Only to ours: the list names people's lost devices.
            let answer = try await node.client.call(
                Trust.Meet.self, own, on: device.description, options: CallOptions(timeout: Self.patience))
            guard let same = answer.same, try await learn(same, of: device, root, try revocations(root)) else {
                return false
            }
            guard same.revocations < own.revocations else { return true }
            _ = try await node.client.call(
                Trust.Update.self, Trust.Update.Input(list: ByteString(bytes)), on: device.description,
                options: CallOptions(timeout: Self.patience))
            return true
        } catch {
            // It asks when it connects again.
            log("could not send the revocation list", device, outcome: "\(error)")
            return false
        }
    }

    /// Revokes a device, and tells those that are connected.
    func revoke(_ input: Trust.Revoke.Input) async throws -> Trust.Revoke.Output {
        guard let reason = RevocationList.Reason(rawValue: input.reason) else {
            let reasons = RevocationList.Reason.allCases.map(\.rawValue).joined(separator: ", ")
            throw KithError(.invalid, "“\(input.reason.prefix(64))” is not a reason. There are: \(reasons).")
        }
        guard let authority = try authority() else { throw try noRoot() }
        let device: DeviceID
        // One that was forgotten here is named by its whole DeviceID.
        if let id = DeviceID(input.device) {
            device = id
        } else {
            device = try node.resolve(input.device, byWholeName: true).id
        }
        guard device != node.id else {
            throw KithError(.invalid, "This device holds the root key: it does not revoke itself.")
        }
        let name = try store.device(device)?.name
        await signing.lock()
        defer { signing.unlock() }
        let list: RevocationList
        if let known = try revocations(authority.root), known.revokes(device) {
            // Once more: the last time may have come no further than this.
            list = known
        } else {
            list = try RevocationList(
                after: try revocations(authority.root),
                adding: RevocationList.Entry(device: device, time: now(), reason: reason), by: authority, now: now())
            _ = try take(list)
        }
        let networks = try keys.replaceNetworks()
        try record(
            Trust.Revoke.name, "\(name ?? device.short) (\(device.short)): \(reason.rawValue), list \(list.number)")
        var told: [String] = []
        await withTaskGroup(of: String?.self) { group in
            for peer in (try? store.devices()) ?? [] where node.onlineDevices.contains(peer.id) {
                group.addTask { await self.tell(peer.id) ? peer.name : nil }
            }
            for await name in group { if let name { told.append(name) } }
        }
        return Trust.Revoke.Output(
            device: device, name: name, revocations: list.number, told: told.sorted(), networks: networks)
    }
}
