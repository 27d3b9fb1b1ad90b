import Foundation
import KithGroups
import KithIdentity
import KithMLS
import KithStore
import KithTesting
import Testing

let noon: UInt64 = 1_800_000_000

func options(keyPackages: Int = 3) -> GroupClient.Options {
    var options = GroupClient.Options(authentication: TrustingAuthenticationService()) { noon }
    options.keyPackages = keyPackages
    return options
}

func client(
    _ name: String, _ delivery: any GroupDelivery, _ storage: any GroupStorage = MemoryGroupStorage(),
    keyPackages: Int = 3, acceptsOutsiders: Bool = false, commitsBeforeSending: Bool = true
) throws -> GroupClient {
    var options = options(keyPackages: keyPackages)
    options.commitsBeforeSending = commitsBeforeSending
    options.configuration.acceptsExternalCommits = acceptsOutsiders
    return try GroupClient(name: name, storage: storage, delivery: delivery, options: options)
}

/// Clients with key packages published, in a group that the first has made.
func party(_ clients: [GroupClient]) async throws -> [GroupSession] {
    for client in clients { try await client.replenishKeyPackages() }
    let session = try await clients[0].createGroup()
    guard case .confirmed = try await session.add(clients.dropFirst().map(\.name)) else {
        Issue.record("the commit was not confirmed")
        return []
    }
    var sessions = [session]
    for client in clients.dropFirst() { sessions += try await client.receiveWelcomes() }
    for session in sessions { try await session.synchronise() }
    for session in sessions { _ = try await taken(session) }
    return sessions
}

/// The events that wait, taken.
func taken(_ session: GroupSession) async throws -> [GroupEvent] {
    let events = try await session.waitingEvents()
    if let last = events.last { try await session.acknowledge(through: last.number) }
    return events.map(\.event)
}

func texts(_ events: [GroupEvent]) -> [String] {
    events.compactMap { event in
        guard case .message(let message) = event else { return nil }
        return String(decoding: message.data, as: UTF8.self)
    }
}

/// Bytes in the shape of an encrypted commit.
func junkCommit(_ groupID: [UInt8], epoch: UInt64) -> [UInt8] {
    var writer = TLSWriter()
    writer.integer(1 as UInt16)
    writer.integer(2 as UInt16)
    writer.opaque(groupID)
    writer.integer(epoch)
    writer.integer(3 as UInt8)
    writer.opaque([])
    writer.opaque([UInt8](repeating: 7, count: 28))
    writer.opaque([UInt8](repeating: 8, count: 200))
    return writer.bytes
}

extension GroupSession {
    func say(_ text: String) async throws { _ = try await send(Array(text.utf8)) }

    func agreement() async throws -> [UInt8] {
        try export(label: "agree", context: [], count: 32).withBytes { $0 }
    }
}

func database(_ folder: String, _ name: String) throws -> GroupDatabase {
    let place = "\(folder)/\(name)"
    try FileManager.default.createDirectory(
        atPath: place, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    return try GroupDatabase.open(directory: place, keys: FileKeyStore(directory: place, seal: .machineKey))
}

/// Storage that something happens to.
final class HookedStorage: GroupStorage {
    let base = MemoryGroupStorage()
    nonisolated(unsafe) var beforeCommit: (StorageChanges) throws(GroupStorageError) -> Void = {
        (_: StorageChanges) throws(GroupStorageError) in
    }
    /// Happens after an item was read.
    nonisolated(unsafe) var afterItem: (StorageItem.Key) -> Void = { _ in }
    /// The number of reads of items.
    nonisolated(unsafe) var reads = 0

    func groups() throws(GroupStorageError) -> [[UInt8]] { try base.groups() }
    func load(_ groupID: [UInt8]) throws(GroupStorageError) -> StoredGroup? { try base.load(groupID) }
    func version(of groupID: [UInt8]) throws(GroupStorageError) -> UInt64? { try base.version(of: groupID) }
    func items(_ kind: StorageItem.Kind) throws(GroupStorageError) -> [StorageItem] {
        reads += 1
        return try base.items(kind)
    }
    func item(_ key: StorageItem.Key) throws(GroupStorageError) -> StorageItem? {
        reads += 1
        let item = try base.item(key)
        afterItem(key)
        return item
    }
    func commit(_ changes: StorageChanges) throws(GroupStorageError) {
        try beforeCommit(changes)
        try base.commit(changes)
    }
}

/// A delivery service whose answers get lost, or that does not do what it is asked.
final class UnreliableDelivery: GroupDelivery {
    let base: MemoryDelivery
    nonisolated(unsafe) var losesAnswers = false
    nonisolated(unsafe) var losesMessages = false
    /// True to lose the groups' public states.
    nonisolated(unsafe) var losesStates = false
    /// The messages it refuses.
    nonisolated(unsafe) var refuses: @Sendable ([UInt8]) -> Bool = { _ in false }
    /// The public state it shows for every group.
    nonisolated(unsafe) var info: [UInt8]?
    /// The change it makes to the messages it hands out.
    nonisolated(unsafe) var changes: @Sendable (DeliveredMessage) -> DeliveredMessage = { $0 }

    init(_ base: MemoryDelivery = MemoryDelivery()) { self.base = base }

    private func losing<Value>(_ value: () async throws(DeliveryError) -> Value) async throws(DeliveryError) -> Value {
        if losesMessages { throw DeliveryError("lost on the way there") }
        let value = try await value()
        if losesAnswers { throw DeliveryError("lost on the way back") }
        return value
    }

    func send(_ message: [UInt8], to groupID: [UInt8]) async throws(DeliveryError) -> DeliveryAnswer {
        if refuses(message) { throw DeliveryError("That is too large.") }
        return try await losing { () throws(DeliveryError) in try await base.send(message, to: groupID) }
    }
    func send(refusal: [UInt8], to groupID: [UInt8]) async throws(DeliveryError) {
        try await losing { () throws(DeliveryError) in try await base.send(refusal: refusal, to: groupID) }
    }
    func send(welcome: [UInt8]) async throws(DeliveryError) {
        try await losing { () throws(DeliveryError) in try await base.send(welcome: welcome) }
    }
    func messages(
        of groupID: [UInt8], from position: UInt64, limit: Int
    ) async throws(DeliveryError) -> [DeliveredMessage] {
        try await base.messages(of: groupID, from: position, limit: limit).map(changes)
    }
    func welcomes(
        for client: ClientID, from position: UInt64, limit: Int
    ) async throws(DeliveryError) -> [DeliveredMessage] {
        try await base.welcomes(for: client, from: position, limit: limit).map(changes)
    }
    func publish(keyPackages: [[UInt8]], for client: ClientID) async throws(DeliveryError) {
        try await base.publish(keyPackages: keyPackages, for: client)
    }
    func takeKeyPackage(of client: ClientID) async throws(DeliveryError) -> [UInt8]? {
        try await base.takeKeyPackage(of: client)
    }
    func keyPackageCount(of client: ClientID) async throws(DeliveryError) -> (count: Int, hasLastResort: Bool) {
        try await base.keyPackageCount(of: client)
    }
    func publish(groupInfo: [UInt8], of groupID: [UInt8]) async throws(DeliveryError) {
        if losesStates { throw DeliveryError("lost on the way there") }
        try await losing { () throws(DeliveryError) in try await base.publish(groupInfo: groupInfo, of: groupID) }
    }
    func groupInfo(of groupID: [UInt8]) async throws(DeliveryError) -> [UInt8]? {
        if let info { return info }
        return try await base.groupInfo(of: groupID)
    }
    func news(after count: UInt64) async throws(DeliveryError) -> UInt64 { try await base.news(after: count) }
}
