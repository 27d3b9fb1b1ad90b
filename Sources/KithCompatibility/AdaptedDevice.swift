import KithAPI
import KithIO
import KithIdentity
import KithRPC
import KithWire
import Synchronization

/// This device, as the operations of the reference see it.
final class AdaptedDevice: Sendable {
    let client: Client
    let id: DeviceID
    let name: String
    let directory: String
    /// When it came up.
    let started = ContinuousClock.now
    /// The deliveries that were begun by a call which has been answered.
    private let deliveries = Mutex<[UInt64: Task<Void, Never>]>([:])
    private let lastDelivery = Locked<UInt64>(0)
    /// The most deliveries at once.
    private static let deliveryLimit = 16
    /// The paths of entries that were named to clients, which name them by their UUIDs later.
    private let named = Mutex<Named>(Named())

    private struct Named {
        var paths: [Int64: Files.Path] = [:]
        var order: [Int64] = []
    }

    /// The most paths that are remembered.
    private static let namedLimit = 16_384

    init(client: Client, id: DeviceID, name: String, directory: String) {
        (self.client, self.id, self.name, self.directory) = (client, id, name, directory)
    }

    deinit { for task in deliveries.withLock({ $0.values }) { task.cancel() } }

    /// Its UUID.
    var uuid: CompatibleID { CompatibleID(of: id) }
    /// Its slug.
    var slug: String { Self.slug(name) }

    /// A name in small letters, with hyphens for what is neither a letter nor a digit.
    static func slug(_ name: String) -> String {
        let slug = name.lowercased().unicodeScalars.map { scalar in
            scalar.properties.isAlphabetic || ("0"..."9").contains(Character(scalar)) ? String(scalar) : "-"
        }.joined()
        return slug.isEmpty ? "device" : slug
    }

    /// A path here as the reference writes it.
    func shown(_ path: Files.Path) -> JSONValue { AdaptedPath.shown(path, on: slug, uuid) }

    /// A path of this device.
    ///
    /// - Throws: `KithError` `.unsupported` for one of another.
    func own(_ path: AdaptedPath, in operation: String) throws -> Files.Path {
        guard let device = path.device, !device.isEmpty, device != slug, device.lowercased() != uuid.text,
            device != "local"
        else { return path.path }
        throw KithError(
            .unsupported, "\(operation): the path is of “\(device.prefix(64))”; here it is done on this device alone.")
    }

    // MARK: - What was named

    /// Remembers where an entry is, and gives its UUID.
    func note(_ entry: Int64, at path: Files.Path) -> CompatibleID {
        named.withLock { named in
            if named.paths.updateValue(path, forKey: entry) == nil { named.order.append(entry) }
            if named.order.count > Self.namedLimit {
                for old in named.order.prefix(Self.namedLimit / 4) { named.paths[old] = nil }
                named.order.removeFirst(Self.namedLimit / 4)
            }
        }
        return CompatibleID(.entry, number: entry, of: id)
    }

    /// The path of an entry that was named before.
    ///
    /// - Throws: `KithError` `.notFound` for one that was not, or too long ago.
    func path(ofEntry number: Int64?) throws -> Files.Path {
        guard let number, let path = named.withLock({ $0.paths[number] }) else {
            throw KithError(.notFound, "This device has not named such a file lately. Search for it first.")
        }
        return path
    }

    // MARK: - Deliveries

    /// Runs `body` on after the call that began it has been answered.
    func keep(_ body: @escaping @Sendable () async -> Void) throws {
        let number = lastDelivery.change { number in
            number += 1
            return number
        }
        try deliveries.withLock { deliveries throws in
            guard deliveries.count < Self.deliveryLimit else {
                throw KithError(.exhausted, "\(Self.deliveryLimit) deliveries run already. Wait for one to end.")
            }
            deliveries[number] = Task(name: "kith delivery") { [weak self] in
                await body()
                self?.deliveries.withLock { _ = $0.removeValue(forKey: number) }
            }
        }
    }

    // MARK: - Libraries

    /// The libraries, as our methods list them.
    func libraries(withNumbers: Bool = false) async throws -> [JSONValue] {
        let known = try await listed(withNumbers)
        guard known.isEmpty else { return known }
        // The first one is made when it is asked for; clients of Spacedrive find one from the beginning.
        _ = try await client.call(named: "libraries.info")
        return try await listed(withNumbers)
    }

    private func listed(_ withNumbers: Bool) async throws -> [JSONValue] {
        let answer = try await client.call(named: "libraries.list", ["includeStats": .boolean(withNumbers)])
        return answer.member("libraries")?.list ?? []
    }

    /// Refuses a library that this device does not have.
    ///
    /// - Throws: `KithError` `.notFound`.
    func check(_ library: CompatibleID) async throws {
        let known = try await libraries().contains { $0.member("id")?.text == library.text }
        guard known else { throw KithError(.notFound, "There is no library \(library.text) on this device.") }
    }

    // MARK: - Locations

    /// A location, by the UUID it was named by.
    ///
    /// - Throws: `KithError` `.notFound`.
    func location(_ id: CompatibleID) throws -> Int64 {
        guard let number = id.number(.location, of: self.id) else {
            throw KithError(.notFound, "There is no location \(id.text) on this device.")
        }
        return number
    }
}
