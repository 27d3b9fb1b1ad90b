import Foundation
import GRDB
public import KithIdentity
public import KithWire

extension Store {
    /// The paired devices, by name.
    public func devices() throws(KithError) -> [PairedDevice] {
        try transaction("list the devices") { database in
            try Row.fetchAll(database, sql: "SELECT * FROM devices ORDER BY name").map { try Self.device($0, database) }
        }
    }

    /// A paired device, or `nil` when there is none with that key.
    public func device(_ id: DeviceID) throws(KithError) -> PairedDevice? {
        try transaction("look up a device") { database in try Self.find(id, database) }
    }

    /// Adds a device, or replaces the one with its key; returns it with the name it got, which may end in a number.
    ///
    /// One that is paired already keeps its grants, and gets those of `device` besides.
    public func add(_ device: PairedDevice) throws(KithError) -> PairedDevice {
        try transaction("add a device") { database in try Self.insert(device, database) }
    }

    /// Gives a device another name.
    ///
    /// - Throws: `KithError` `.conflict` when another has that name, `.notFound` when the device is not paired.
    public func rename(_ id: DeviceID, to name: String) throws(KithError) {
        try transaction("rename a device") { database in
            let taken = try Data.fetchOne(
                database, sql: "SELECT id FROM devices WHERE name = ? AND id <> ?", arguments: [name, Data(id.bytes)])
            guard taken == nil else { throw KithError(.conflict, "Another device is called \(name) already.") }
            try database.execute(
                sql: "UPDATE devices SET name = ? WHERE id = ?", arguments: [name, Data(id.bytes)])
            guard database.changesCount == 1 else { throw Self.notPaired }
        }
    }

    /// Ends the pairing with a device; whether there was one.
    public func forget(_ id: DeviceID) throws(KithError) -> Bool {
        try transaction("forget a device") { database in
            try database.execute(sql: "DELETE FROM devices WHERE id = ?", arguments: [Data(id.bytes)])
            return database.changesCount == 1
        }
    }

    /// Sets what a device may do here.
    public func setGrants(_ grants: [Grant], of id: DeviceID) throws(KithError) {
        try transaction("change grants") { database in
            guard try Self.find(id, database) != nil else { throw Self.notPaired }
            try Self.write(grants, of: id, database)
        }
    }

    /// Notes that a device is connected, and where: at `addresses`, the first of which is in use.
    public func sawDevice(_ id: DeviceID, at addresses: [NetworkAddress], time: Int64) throws(KithError) {
        try transaction("note a connection") { database in
            try database.execute(
                sql: "UPDATE devices SET last_seen = ? WHERE id = ?", arguments: [time, Data(id.bytes)])
            // One that was forgotten meanwhile is not there again because it was seen.
            guard database.changesCount == 1, !addresses.isEmpty else { return }
            var book = try Self.book(id, database)
            book.reached(addresses, at: time)
            try Self.write(book, of: id, database)
        }
    }

    /// Notes where a device says that it listens now.
    public func deviceTold(_ id: DeviceID, _ addresses: [NetworkAddress], time: Int64) throws(KithError) {
        try transaction("note addresses") { database in
            guard try Self.find(id, database) != nil else { return }
            var book = try Self.book(id, database)
            book.told(addresses, at: time)
            try Self.write(book, of: id, database)
        }
    }

    /// Where a device is to be found, best first.
    public func addressBook(of id: DeviceID) throws(KithError) -> AddressBook {
        try transaction("look up addresses") { database in try Self.book(id, database) }
    }

    /// Notes what another device says that this one may do there.
    public func setStanding(_ standing: Standing, at id: DeviceID) throws(KithError) {
        try transaction("note what this device may do elsewhere") { database in
            guard try Self.find(id, database) != nil else { return }
            let texts = String(decoding: try JSONEncoder().encode(standing.grants), as: UTF8.self)
            try database.execute(
                sql: "INSERT OR REPLACE INTO standings VALUES (?, ?, ?, ?)",
                arguments: [Data(id.bytes), standing.isForgotten, texts, standing.time])
        }
    }

    /// What another device last said that this one may do there; `nil` when it never did.
    public func standing(at id: DeviceID) throws(KithError) -> Standing? {
        try transaction("look up what this device may do elsewhere") { database in
            let row = try Row.fetchOne(
                database, sql: "SELECT * FROM standings WHERE device = ?", arguments: [Data(id.bytes)])
            guard let row else { return nil }
            let texts: String = row["grants"]
            return Standing(
                isForgotten: row["is_forgotten"],
                grants: try JSONDecoder().decode([Grant].self, from: Data(texts.utf8)),
                time: row["time"])
        }
    }

    static var notPaired: KithError { KithError(.notFound, "That device is not paired with this one.") }

    static func find(_ id: DeviceID, _ database: Database) throws -> PairedDevice? {
        try Row.fetchOne(database, sql: "SELECT * FROM devices WHERE id = ?", arguments: [Data(id.bytes)])
            .map { try device($0, database) }
    }

    static func insert(_ device: PairedDevice, _ database: Database) throws -> PairedDevice {
        let held = try find(device.id, database)?.grants ?? []
        try database.execute(sql: "DELETE FROM devices WHERE id = ?", arguments: [Data(device.id.bytes)])
        var device = device
        let wanted = PairedDevice.plainName(device.name)
        device.name = wanted
        var number = 2
        while try Data.fetchOne(database, sql: "SELECT id FROM devices WHERE name = ?", arguments: [device.name]) != nil
        {
            device.name = "\(wanted.prefix(50))-\(number)"
            number += 1
        }
        try database.execute(
            sql: "INSERT INTO devices (id, name, relays, paired_at, last_seen) VALUES (?, ?, ?, ?, ?)",
            arguments: [
                Data(device.id.bytes), device.name, device.relays.joined(separator: "\n"), device.pairedAt,
                device.lastSeen,
            ])
        try write(AddressBook(told: device.addresses, at: device.pairedAt), of: device.id, database)
        try write(held + device.grants, of: device.id, database)
        // As it will be read from now on: limits applied, grants in order and each once.
        return try find(device.id, database) ?? device
    }

    private static func write(_ grants: [Grant], of id: DeviceID, _ database: Database) throws {
        try database.execute(sql: "DELETE FROM grants WHERE device = ?", arguments: [Data(id.bytes)])
        for grant in Set(grants) {
            try database.execute(
                sql: "INSERT INTO grants VALUES (?, ?)", arguments: [Data(id.bytes), grant.description])
        }
    }

    private static func device(_ row: Row, _ database: Database) throws -> PairedDevice {
        let key: Data = row["id"]
        let id = try DeviceID(publicKey: Array(key))
        let relays: String = row["relays"]
        let texts = try String.fetchAll(
            database, sql: "SELECT grant_text FROM grants WHERE device = ? ORDER BY grant_text", arguments: [key])
        return PairedDevice(
            id: id, name: row["name"], addresses: try book(id, database).addresses,
            relays: relays.split(separator: "\n").map(String.init),
            grants: try texts.map { text in
                // A grant of a later version must not silently become nothing, nor something else.
                guard let grant = Grant(text) else {
                    throw KithError(.corrupt, "The store holds an unknown grant: \(text).")
                }
                return grant
            },
            pairedAt: row["paired_at"], lastSeen: row["last_seen"])
    }

    private static func book(_ id: DeviceID, _ database: Database) throws -> AddressBook {
        let rows = try Row.fetchAll(
            database, sql: "SELECT * FROM addresses WHERE device = ? ORDER BY position", arguments: [Data(id.bytes)])
        return AddressBook(
            rows.compactMap { row in
                NetworkAddress(row["address"] as String).map {
                    AddressBook.Entry(address: $0, lastGood: row["last_good"], toldAt: row["told_at"])
                }
            })
    }

    private static func write(_ book: AddressBook, of id: DeviceID, _ database: Database) throws {
        try database.execute(sql: "DELETE FROM addresses WHERE device = ?", arguments: [Data(id.bytes)])
        for (position, entry) in book.entries.enumerated() {
            try database.execute(
                sql: "INSERT INTO addresses VALUES (?, ?, ?, ?, ?)",
                arguments: [Data(id.bytes), position, entry.address.description, entry.lastGood, entry.toldAt])
        }
    }
}
