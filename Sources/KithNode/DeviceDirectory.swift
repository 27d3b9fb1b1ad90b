import KithCommandLine
package import KithIdentity
package import KithWire

/// A paired device, as much as the node needs to know.
package struct KnownDevice: Hashable, Sendable {
    /// Its key.
    package var id: DeviceID
    /// The name it goes by here.
    package var name: String
    /// The grants it has here.
    package var grants: [Grant]
    /// The addresses it was last reached at, best first.
    package var addresses: [NetworkAddress]
    /// True when the certificate by which it is known is over: it may do nothing here, and is not called.
    package var isExpired = false

    /// Makes a device.
    package init(
        id: DeviceID, name: String, grants: [Grant], addresses: [NetworkAddress], isExpired: Bool = false
    ) {
        self.isExpired = isExpired
        self.id = id
        self.name = name
        self.grants = grants
        self.addresses = addresses
    }
}

/// A record of another device's call, for the audit log.
///
/// Every refusal is recorded, and every action and stream that was allowed, by the service as well as by the grants;
/// allowed queries and calls of the owner are not.
package struct AuditRecord: Hashable, Sendable {
    /// The device that called.
    package var device: DeviceID
    /// The name it goes by here; its DeviceID while it is not paired.
    package var name: String
    /// True when it was paired then; the calls of unpaired devices are counted, not listed.
    package var isPaired: Bool
    /// The address it called from.
    package var address: NetworkAddress?
    /// The method it called.
    package var method: String
    /// True when the call was allowed.
    package var isAllowed: Bool
    /// The grant it held, or the one it lacked.
    package var detail: String
}

/// The devices this one is paired with, and the log of what they did: the store, or a table in a test.
package protocol DeviceDirectory: Sendable {
    /// The paired device with this key; `nil` for one that is expired.
    func device(_ id: DeviceID) throws -> KnownDevice?
    /// All paired devices, those that are expired as well.
    func devices() throws -> [KnownDevice]
    /// Tells whether a device that is not paired may call, now, a method that is open to such devices.
    func isOpen(_ method: String, to id: DeviceID) -> Bool
    /// Writes audit records, all of them at once; refusals may be counted instead of listed.
    func record(_ records: [AuditRecord]) throws
    /// Stores that the device is connected now at `addresses`, the first of which is in use.
    func seen(_ id: DeviceID, at addresses: [NetworkAddress]) throws
    /// Stores the addresses at which the device has announced that it listens now.
    func announced(_ id: DeviceID, _ addresses: [NetworkAddress]) throws
    /// Stores the grants the device says that this one has there; `nil` when it says that they are not paired.
    func standing(_ id: DeviceID, _ grants: [Grant]?) throws
    /// Returns the path of the root of a grant of files at the time it was granted, with links resolved.
    func grantedRoot(_ root: String) throws -> String
}

extension DeviceDirectory {
    /// Yes: whoever was let in may.
    package func isOpen(_ method: String, to id: DeviceID) -> Bool { true }
    /// The root itself, whose links are not followed.
    package func grantedRoot(_ root: String) -> String { root }
}

extension [KnownDevice] {
    /// Finds the one device a person means: by its DeviceID, its name, or the beginning of either.
    ///
    /// Names decide nothing: a DeviceID, or at least ten of its letters, takes precedence over any name.
    ///
    /// `byWholeName` takes no beginning of a name for it: where a device is changed another one must not be meant.
    ///
    /// - Throws: `KithError` `.notFound` for none, `.invalid` naming the candidates for several.
    package func resolve(_ text: String, byWholeName: Bool = false) throws(KithError) -> KnownDevice {
        let letters = DeviceName.idLetters(text)
        if let id = DeviceID(text) {
            if let exact = first(where: { $0.id == id }) { return exact }
            throw KithError(
                .notFound, "No device with that DeviceID is paired with this one; `kith devices` lists them.")
        }
        let beginnings =
            letters.isEmpty ? [] : filter { DeviceName.idLetters($0.id.description).hasPrefix(letters) }
        if Self.mayBeID(text), !beginnings.isEmpty { return try Self.only(beginnings, text) }
        if let exact = first(where: { $0.name == text }) { return exact }
        let others = filter { device in
            !beginnings.contains(device)
                && (byWholeName
                    ? device.name.lowercased() == text.lowercased()
                    : device.name.lowercased().hasPrefix(text.lowercased()))
        }
        let candidates = letters.isEmpty ? [] : beginnings + others
        guard candidates.isEmpty else { return try Self.only(candidates, text) }
        throw noDevice(text)
    }

    /// Tells whether a text is long enough to be meant for a DeviceID: as long as ``DeviceID/short``.
    static func mayBeID(_ text: String) -> Bool { DeviceName.idLetters(text).count >= DeviceName.shortIDLetters }

    /// Makes the error that no device has that name, with the one probably meant, also after ssh's `USER@`.
    private func noDevice(_ text: String) -> KithError {
        let name = text.split(separator: "@", omittingEmptySubsequences: false).last.map(String.init) ?? text
        let isUser = name != text
        let meant = Wording.nearest(to: name.lowercased(), in: map { $0.name.lowercased() })
            .flatMap { nearest in first { $0.name.lowercased() == nearest } }
        let why = isUser ? " A device has one user, who is not named." : ""
        let hint = meant.map { " Did you mean \($0.name)?" } ?? " `kith devices` lists them."
        return KithError(.notFound, "There is no device named \(text).\(why)\(hint)")
    }

    private static func only(_ candidates: [KnownDevice], _ text: String) throws(KithError) -> KnownDevice {
        if candidates.count == 1 { return candidates[0] }
        let names = candidates.map { "\($0.name) (\($0.id.short))" }.sorted().joined(separator: ", ")
        throw KithError(.invalid, "\(text) could be any of \(names). Type more of the name.")
    }
}
