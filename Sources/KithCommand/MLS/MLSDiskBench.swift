import Foundation
import KithGroups
import KithMLS
import KithStore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// What a group costs a disk: the blocks that the system says this process wrote, with the real database.
///
/// A member in the middle of the group sends, receives and follows commits through a `GroupClient`; the others are kept
/// in memory. Every number is an average, with the events taken and the database's own keys and journal counted.
struct MLSDiskBench: MeasuredGroups {
    typealias Show = (String, Int) -> Void

    let suite: any CipherSuite
    private let rounds = 20

    init(suite: any CipherSuite) { self.suite = suite }

    /// The bytes this process has written to disks so far, in the blocks of its file system (Linux counts so).
    private static var written: Int {
        #if canImport(Glibc)
        let whom = RUSAGE_SELF.rawValue
        #else
        let whom = RUSAGE_SELF
        #endif
        var usage = rusage()
        guard unsafe getrusage(whom, &usage) == 0 else { return 0 }
        return Int(usage.ru_oublock) * 512
    }

    private func client(
        _ name: String, _ storage: any GroupStorage, _ delivery: MemoryDelivery
    ) throws -> GroupClient {
        let now = now
        var options = GroupClient.Options(authentication: TrustingAuthenticationService()) { now }
        options.suite = suite
        options.keyPackages = 1
        return try GroupClient(name: name, storage: storage, delivery: delivery, options: options)
    }

    func run(_ members: Int, in folder: String, _ show: Show) async throws {
        let delivery = MemoryDelivery()
        let storage = try GroupDatabase.open(directory: folder)
        defer { storage.close() }
        let anna = try client("anna", MemoryGroupStorage(), delivery)
        let ben = try client("ben", storage, delivery)
        try await ben.replenishKeyPackages()
        let annas = try await anna.createGroup()
        let others = try (0..<members - 2).map { .add(try keyPackage($0).keyPackage) } as [Proposal]
        _ = try await annas.commit(CommitOptions(others))
        _ = try await annas.add(["ben"])
        guard let bens = try await ben.receiveWelcomes().first else { throw MLSError.unexpectedWireFormat }
        try await take(bens)
        try await take(annas)

        func measure(
            _ work: String, each count: Int = 1, before: () async throws -> Void = {},
            _ body: () async throws -> Void
        ) async throws {
            var total = 0
            for round in 0...rounds {
                try await before()
                let start = Self.written
                try await body()
                // The first opens a ratchet.
                if round > 0 { total += Self.written - start }
            }
            // A file system in memory has no blocks.
            guard total > 0 else { return }
            show("\(members) members: to the disk for \(work)", total / rounds / count)
        }
        let data = [UInt8](repeating: 7, count: 100)
        try await measure("a message sent") { _ = try await bens.send(data) }
        try await take(bens)
        try await measure("a message received", before: { _ = try await annas.send(data) }) { try await take(bens) }
        try await measure(
            "each of \(rounds) messages", each: rounds,
            before: { for _ in 0..<rounds { _ = try await annas.send(data) } }
        ) { try await take(bens) }
        try await measure("a commit received", before: { _ = try await annas.commit() }) { try await take(bens) }
        try await measure("a commit sent") { _ = try await bens.commit() }
        await ben.close()
        await anna.close()
    }

    private func take(_ session: GroupSession) async throws {
        try await session.synchronise()
        if let last = try await session.waitingEvents().last { try await session.acknowledge(through: last.number) }
    }
}
