import KithAPI
import KithIdentity
import KithNet
public import KithStore
import KithWire

/// The devices this one is paired with, as a service: listing, naming, granting, forgetting, the audit log.
public struct DevicesService: Service {
    /// The node owns its services, and outlives their calls.
    private unowned let node: Node
    private let store: Store
    private let now: @Sendable () -> Int64
    private let ends: GrantEnds

    /// Makes the service.
    ///
    /// `now` is the time, in seconds since 1970.
    public init(node: Node, store: Store, now: @escaping @Sendable () -> Int64) {
        self.node = node
        self.store = store
        self.now = now
        ends = GrantEnds(node: node, store: store, now: now)
    }

    /// Has grants end at their time.
    public func start(_ context: StartContext) async throws { ends.look() }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Devices.List.self) { input, _ in try await list(input) },
            .call(Devices.Forget.self) { input, _ in try await forget(input.device) },
            .call(Devices.Rename.self) { input, _ in try await rename(input.device, to: input.name) },
            .call(Devices.Label.self) { input, _ in try await label(input) },
            .call(Devices.ChangeGrants.self) { input, _ in try await changeGrants(input) },
            .call(ThisDevice.Echo.self) { input, _ in input }.limited(to: 64),
            .call(Audit.List.self) { input, _ in try audit(limit: input.limit) },
        ]
    }

    private func list(_ input: Devices.List.Input) async throws -> [Devices.Info] {
        let wanted = try input.device.map { try find($0).id }
        func devices() throws -> [PairedDevice] { try store.devices().filter { wanted == nil || $0.id == wanted } }
        let failures = input.probe ? await probe(try devices().map(\.id)) : [:]
        let lookalikes = try store.lookalikes()
        var infos: [Devices.Info] = []
        for device in try devices() {
            var info = await info(device)
            info.looksLike = lookalikes[device.id].map { $0.map(Self.words).sorted() }
            if let failure = failures[device.id], !info.isOnline || info.isSilent {
                (info.isOnline, info.failure) = (false, failure)
            }
            infos.append(info)
        }
        return infos
    }

    /// Tries for two seconds to reach devices, and asks for this one's grants there; returns why some cannot be reached.
    private func probe(_ devices: [DeviceID]) async -> [DeviceID: String] {
        await withTaskGroup(of: (DeviceID, String)?.self) { group in
            for device in devices {
                group.addTask {
                    do {
                        try await node.askStanding(on: device, timeout: .seconds(2))
                        return nil
                    } catch {
                        // A device that cannot be reached is listed as offline: that is the answer, not a failure.
                        return (device, (error as? KithError)?.message ?? "\(error)")
                    }
                }
            }
            var failures: [DeviceID: String] = [:]
            for await failure in group {
                if let failure { failures[failure.0] = failure.1 }
            }
            return failures
        }
    }

    private static func words(_ conflict: DeviceName.Conflict) -> String {
        switch conflict {
        case .reserved: "a word of the command line"
        case .looksLike(let name, let id?): "\(name) (\(id.short))"
        case .looksLike(let name, nil): "\(name), this device's own name"
        case .looksLikeID(let id): "the DeviceID \(id.short)…"
        }
    }

    private func forget(_ reference: String) async throws -> Devices.Info {
        let device = try find(reference, toChange: true)
        let info = await info(device)
        _ = try store.forget(device.id)
        node.revoke(device.id)
        await node.dialer?.forget(device.id)
        try ReachService.forgetPath(of: device.id, in: store)
        try record("devices.forget", device, "cut off")
        return info
    }

    private func rename(_ reference: String, to name: String) async throws -> Devices.Info {
        guard DeviceName.plain(name) == name else {
            throw KithError(.invalid, "A name has 1 to 63 letters, digits, hyphens, underscores or dots.")
        }
        let device = try find(reference, toChange: true)
        try store.rename(device.id, to: name)
        node.grantsChanged(for: device.id)
        try record("devices.rename", device, "now \(name)")
        return await info(try find(device.id.description))
    }

    private func label(_ input: Devices.Label.Input) async throws -> Devices.Info {
        let device = try find(input.device)
        try store.label(device.id, add: input.add, remove: input.remove, isFavorite: input.isFavorite)
        return await info(try find(device.id.description))
    }

    private func changeGrants(_ input: Devices.ChangeGrants.Input) async throws -> Devices.Info {
        let device = try find(input.device, toChange: true)
        if let until = input.until, until <= now() {
            throw KithError(.invalid, "Grants cannot end at a time that is over.")
        }
        // From what it has when it is written: another change may come at the same time.
        let grants = try store.changeGrants(of: device.id, limited: input.add, until: input.until) {
            (device: PairedDevice) throws(KithError) in
            let missing = input.remove.filter { !device.grants.contains($0) }
            guard missing.isEmpty else {
                let held = device.grants.map(\.description).joined(separator: ", ")
                throw KithError(
                    .notFound,
                    "\(device.name) does not have \(missing.map(\.description).joined(separator: ", ")); it has \(held.isEmpty ? "nothing" : held)."
                )
            }
            return device.grants.filter { !input.remove.contains($0) }
                + input.add.filter { !device.grants.contains($0) }
        }
        node.grantsChanged(for: device.id)
        if input.until != nil { ends.look() }
        try record(
            "devices.grant", device, grants.isEmpty ? "nothing" : grants.map(\.description).joined(separator: " "))
        var info = await info(try find(device.id.description))
        info.warnings = try store.overlaps(of: input.add, to: device.id, called: device.name)
        return info
    }

    private func audit(limit: Int) throws -> [Audit.Entry] {
        guard (1...Store.auditLimit).contains(limit) else {
            throw KithError(.invalid, "Ask for 1 to \(Store.auditLimit) entries.")
        }
        return try store.audit(limit: limit).map {
            Audit.Entry(
                time: $0.time, device: $0.device, method: $0.method, decision: $0.decision.rawValue, detail: $0.detail)
        }
    }

    private func find(_ reference: String, toChange: Bool = false) throws -> PairedDevice {
        // Also one whose certificate is over.
        let known = try node.resolve(reference, byWholeName: toChange)
        guard let device = try store.device(known.id) else {
            throw KithError(.notFound, "\(reference) is not paired with this device any more.")
        }
        return device
    }

    /// Notes what this device's own person did about another one.
    private func record(_ method: String, _ device: PairedDevice, _ detail: String) throws {
        try store.record(
            AuditEntry(
                time: now(), device: Audit.thisDevice, method: method, decision: .allowed,
                detail: "\(device.name) (\(device.id.short)): \(detail)"))
    }

    private func info(_ device: PairedDevice) async -> Devices.Info {
        var info = await Devices.Info(device, node: node)
        do {
            if let standing = try store.standing(at: device.id) {
                info.hasForgotten = standing.isForgotten
                info.grantsThere = standing.isForgotten ? nil : standing.grants
                info.grantsThereAt = standing.time
            }
            let book = try store.addressBook(of: device.id)
            info.addresses = book.addresses
            info.addressesGoodAt = book.entries.map(\.lastGood)
        } catch {
            // The device is worth showing without the rest.
            info.failure = error.message
        }
        return info
    }
}

extension Devices.Info {
    /// The silence after which a device is taken for gone: three of the signs of life that connections exchange.
    private static let longestQuiet = Duration.seconds(30)

    /// Indicates whether a device that was just asked has not been heard since.
    fileprivate var isSilent: Bool { quietSeconds.map { $0 > 1.5 } ?? true }

    /// Describes a stored device as it is now.
    init(_ device: PairedDevice, node: Node) async {
        let link = await node.link(to: device.id)
        self.init(
            name: device.name, id: device.id, isOnline: link.map { $0.quiet < Self.longestQuiet } ?? false,
            path: link.map { $0.relay ?? $0.address?.description ?? "relay" },
            roundTripMilliseconds: link.map { $0.roundTrip / .milliseconds(1) }, grants: device.grants,
            addresses: device.addresses, pairedAt: device.pairedAt, lastSeen: device.lastSeen)
        quietSeconds = link.map { $0.quiet / .seconds(1) }
        paths = link?.paths
        relayCarrier = link?.relayCarrier
        let heard = node.hints.discovery?.addresses(of: device.id) ?? []
        localAddresses = heard.isEmpty ? nil : heard
        let hello = node.hello(of: device.id)
        certifiedUntil = device.certifiedUntil
        labels = device.labels.isEmpty ? nil : device.labels
        let ends = device.grants.compactMap { grant in
            device.grantEnds[grant].map { Devices.GrantEnd(grant: grant, time: $0) }
        }
        grantEnds = ends.isEmpty ? nil : ends
        isFavorite = device.isFavorite ? true : nil
        version = hello?.version
        capabilities = hello?.capabilities
    }
}
