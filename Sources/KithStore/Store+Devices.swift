import Foundation
import GRDB
public import KithIdentity
public import KithWire
import Synchronization

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

    /// Adds a device, or replaces the one with its key; returns it with the name it got, see ``freeName(like:for:)``.
    ///
    /// One that is paired already keeps its name, its labels and its grants, and gets those of `device` besides.
    ///
    /// - Throws: `KithError` `.conflict` when its id begins as another device is called.
    public func add(_ device: PairedDevice) throws(KithError) -> PairedDevice {
        try granting("add a device") { database in try Self.insert(device, database) }
    }

    /// The name a device gets that calls itself `wanted`: that, unless it looks like another device's name or id, or is a
    /// word of the command line; then one with a number.
    ///
    /// A device that is paired keeps the name it has here.
    public func freeName(like wanted: String, for id: DeviceID) throws(KithError) -> String {
        try transaction("find a name") { database in try Self.freeName(like: wanted, for: id, database) }
    }

    /// The names that may be confused with each device: those of others, and ids, that look like its own; none as a
    /// rule.
    ///
    /// Names given by an earlier version of Kith are kept as they are. A number at the end tells two names apart, but
    /// hides nothing: `laptop-2` is listed as one that looks like `laptop`, and so is `lap-top`.
    public func lookalikes() throws(KithError) -> [DeviceID: [DeviceName.Conflict]] {
        try transaction("compare the names") { database in
            let looks = try Self.looks(database)
            let (own, ownID) = try Self.own(database)
            var found: [DeviceID: [DeviceName.Conflict]] = [:]
            for look in looks {
                let conflicts =
                    [DeviceName.conflict(of: look, among: [], own: own, ownID: ownID)]
                    + looks.map { DeviceName.conflict(of: look, among: [$0]) }
                var all = Set(conflicts.compactMap(\.self))
                all.formUnion(DeviceName.resemblances(of: look, among: looks, own: own))
                if let bare = Self.withoutNumber(look) {
                    let hidden =
                        [DeviceName.conflict(of: bare, among: [], own: own)]
                        + looks.map { DeviceName.conflict(of: bare, among: [$0]) }
                    for case .looksLike(let name, let id)? in hidden { all.insert(.looksLike(name: name, id: id)) }
                    all.formUnion(DeviceName.resemblances(of: bare, among: looks, own: own))
                }
                if !all.isEmpty { found[look.id] = Array(all) }
            }
            return found
        }
    }

    /// Gives a device another name.
    ///
    /// - Throws: `KithError` `.conflict` when it looks like another's name or id, `.invalid` for a word of the command
    ///   line, `.notFound` when the device is not paired.
    public func rename(_ id: DeviceID, to name: String) throws(KithError) {
        try transaction("rename a device") { database in
            let (own, ownID) = try Self.own(database)
            let conflict = DeviceName.conflict(
                of: DeviceName.Look(name: name, id: id), among: try Self.looks(database), own: own, ownID: ownID)
            if let conflict { throw conflict.error(name) }
            try database.execute(
                sql: "UPDATE devices SET name = ? WHERE id = ?", arguments: [name, Data(id.bytes)])
            guard database.changesCount == 1 else { throw Self.notPaired }
        }
    }

    /// Notes the relays at which a paired device says that it is to be found; one that is not paired changes nothing.
    public func setRelays(_ relays: [String], of id: DeviceID) throws(KithError) {
        try transaction("note the relays of a device") { database in
            try database.execute(
                sql: "UPDATE devices SET relays = ? WHERE id = ?",
                arguments: [relays.joined(separator: "\n"), Data(id.bytes)])
        }
    }

    /// Ends the pairing with a device, which no certificate brings back; whether there was one.
    public func forget(_ id: DeviceID) throws(KithError) -> Bool {
        try granting("forget a device") { database in
            try database.execute(sql: "DELETE FROM devices WHERE id = ?", arguments: [Data(id.bytes)])
            let isForgotten = database.changesCount == 1
            if isForgotten {
                try database.execute(
                    sql: "INSERT OR IGNORE INTO forgotten_devices VALUES (?)", arguments: [Data(id.bytes)])
            }
            try Self.forgetRoots(database)
            return isForgotten
        }
    }

    /// Sets what a device may do here.
    public func setGrants(_ grants: [Grant], of id: DeviceID) throws(KithError) {
        try granting("change grants") { database in
            guard try Self.find(id, database) != nil else { throw Self.notPaired }
            try Self.write(grants, of: id, database)
        }
    }

    /// Takes grants from a device and gives it others, at once; `change` gets those it has, and says which it is to have.
    ///
    /// Those of `limited` end at `end`, in seconds since 1970; `nil`: they last.
    ///
    /// - Returns: those it has then.
    /// - Throws: What `change` throws: nothing is changed.
    public func changeGrants(
        of id: DeviceID, limited: [Grant] = [], until end: Int64? = nil,
        _ change: (PairedDevice) throws(KithError) -> [Grant]
    ) throws(KithError) -> [Grant] {
        try granting("change grants") { database in
            guard let device = try Self.find(id, database) else { throw Self.notPaired }
            let grants = try change(device)
            try Self.write(grants, of: id, database)
            try Self.write(end: end, of: limited.filter(grants.contains), id, database)
            return grants
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

    /// Notes the addresses at which a device announces that it listens now.
    public func deviceAnnounced(_ id: DeviceID, _ addresses: [NetworkAddress], time: Int64) throws(KithError) {
        try transaction("note addresses") { database in
            guard try Self.find(id, database) != nil else { return }
            var book = try Self.book(id, database)
            book.announced(addresses, at: time)
            try Self.write(book, of: id, database)
        }
    }

    /// The addresses of a device, best first.
    public func addressBook(of id: DeviceID) throws(KithError) -> AddressBook {
        try transaction("look up addresses") { database in try Self.book(id, database) }
    }

    /// Notes the grants that another device reports this one to have there.
    public func setStanding(_ standing: Standing, at id: DeviceID) throws(KithError) {
        try transaction("note what this device may do elsewhere") { database in
            guard try Self.find(id, database) != nil else { return }
            let texts = String(decoding: try JSONEncoder().encode(standing.grants), as: UTF8.self)
            try database.execute(
                sql: "INSERT OR REPLACE INTO standings VALUES (?, ?, ?, ?)",
                arguments: [Data(id.bytes), standing.isForgotten, texts, standing.time])
        }
    }

    /// The grants this device has at another one, as that one last reported; `nil` when it never did.
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

    /// Writes grants in one transaction; what was read of their roots is read again.
    func granting<Value>(_ what: String, _ body: (Database) throws -> Value) throws(KithError) -> Value {
        defer { roots.withLock { $0 = [:] } }
        return try transaction(what, body)
    }

    static var notPaired: KithError { KithError(.notFound, "That device is not paired with this one.") }

    static func find(_ id: DeviceID, _ database: Database) throws -> PairedDevice? {
        try Row.fetchOne(database, sql: "SELECT * FROM devices WHERE id = ?", arguments: [Data(id.bytes)])
            .map { try device($0, database) }
    }

    static func insert(_ device: PairedDevice, _ database: Database) throws -> PairedDevice {
        try refuseRevoked(device.id, database)
        let held = try find(device.id, database)
        // Keys can be tried until one begins as another device is called: whoever types that name would mean this one.
        let letters = DeviceName.idLetters(device.id.description)
        for other in try looks(database) where other.id != device.id {
            let called = DeviceName.idLetters(other.name)
            guard called.count >= DeviceName.shortIDLetters, letters.hasPrefix(called) else { continue }
            throw KithError(
                .conflict,
                "Its DeviceID begins as \(other.name) is called. Give that device another name first: kith rename")
        }
        var device = device
        device.name = try freeName(like: device.name, for: device.id, database)
        // Not the device itself: with it would go the events that wait for it.
        for table in ["standings", "enrolled_devices", "forgotten_devices"] {
            try database.execute(sql: "DELETE FROM \(table) WHERE device = ?", arguments: [Data(device.id.bytes)])
        }
        try database.execute(
            sql: """
                INSERT INTO devices (id, name, relays, paired_at, last_seen) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET name = excluded.name, relays = excluded.relays,
                    paired_at = excluded.paired_at, last_seen = excluded.last_seen
                """,
            arguments: [
                Data(device.id.bytes), device.name, device.relays.joined(separator: "\n"), device.pairedAt,
                device.lastSeen,
            ])
        try write(AddressBook(announced: device.addresses, at: device.pairedAt), of: device.id, database)
        try write((held?.grants ?? []) + device.grants, of: device.id, database)
        for label in held?.labels ?? [] { try write(label, of: device.id, database) }
        try write(isFavorite: held?.isFavorite ?? false, of: device.id, database)
        // As it will be read from now on: limits applied, grants in order and each once.
        return try find(device.id, database) ?? device
    }

    private static func looks(_ database: Database) throws -> [DeviceName.Look] {
        try Row.fetchAll(database, sql: "SELECT name, id FROM devices ORDER BY name").map { row in
            let key: Data = row["id"]
            return DeviceName.Look(name: row["name"], id: try DeviceID(publicKey: Array(key)))
        }
    }

    /// A device without the number its name ends in; `nil` when there is none.
    private static func withoutNumber(_ look: DeviceName.Look) -> DeviceName.Look? {
        guard let hyphen = look.name.lastIndex(of: "-"), hyphen != look.name.startIndex else { return nil }
        let number = look.name[look.name.index(after: hyphen)...]
        guard !number.isEmpty, number.allSatisfy({ ("0"..."9").contains($0) }) else { return nil }
        return DeviceName.Look(name: String(look.name[..<hyphen]), id: look.id)
    }

    /// The name this device gives itself, and its key.
    private static func own(_ database: Database) throws -> (name: String?, id: DeviceID?) {
        func setting(_ name: String) throws -> String? {
            try String.fetchOne(database, sql: "SELECT value FROM settings WHERE name = ?", arguments: [name])
        }
        return (try setting("name"), try setting("id").flatMap { DeviceID($0) })
    }

    static func freeName(like wanted: String, for id: DeviceID, _ database: Database) throws -> String {
        if let known = try find(id, database) { return known.name }
        let (others, own) = (try looks(database), try own(database))
        func conflict(_ name: String) -> DeviceName.Conflict? {
            DeviceName.conflict(of: DeviceName.Look(name: name, id: id), among: others, own: own.name, ownID: own.id)
        }
        var base = DeviceName.plain(wanted)
        // No number makes a name that begins like an id another one. A DeviceID has no 9, nor anything like it.
        for other in ["device", "9-device"] {
            if case .looksLikeID = conflict(base) { base = other }
        }
        var name = base
        var number = 2
        // Ends: each of the others stands in the way of a few numbers at most.
        while conflict(name) != nil {
            name = "\(Self.shortened(base, to: 50))-\(number)"
            number += 1
        }
        return name
    }

    private static func shortened(_ name: String, to bytes: Int) -> String {
        var name = name
        while name.utf8.count > bytes { name.removeLast() }
        return name
    }

    static func write(_ grants: [Grant], of id: DeviceID, _ database: Database) throws {
        try resolveRoots(of: grants, database)
        try database.execute(sql: "DELETE FROM grants WHERE device = ?", arguments: [Data(id.bytes)])
        for grant in Set(grants) {
            try database.execute(
                sql: "INSERT INTO grants VALUES (?, ?)", arguments: [Data(id.bytes), grant.description])
        }
        try forgetEnds(id, database)
        try forgetRoots(database)
    }

    private static func device(_ row: Row, _ database: Database) throws -> PairedDevice {
        let key: Data = row["id"]
        let id = try DeviceID(publicKey: Array(key))
        let relays: String = row["relays"]
        let texts = try String.fetchAll(
            database, sql: "SELECT grant_text FROM grants WHERE device = ? ORDER BY grant_text", arguments: [key])
        var device = PairedDevice(
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
        device.certifiedUntil = try Int64.fetchOne(
            database, sql: "SELECT until FROM enrolled_devices WHERE device = ?", arguments: [key])
        try addLabels(to: &device, database)
        try addGrantEnds(to: &device, database)
        return device
    }

    static func book(_ id: DeviceID, _ database: Database) throws -> AddressBook {
        let rows = try Row.fetchAll(
            database, sql: "SELECT * FROM addresses WHERE device = ? ORDER BY position", arguments: [Data(id.bytes)])
        return AddressBook(
            rows.compactMap { row in
                NetworkAddress(row["address"] as String).map {
                    AddressBook.Entry(address: $0, lastGood: row["last_good"], announcedAt: row["told_at"])
                }
            })
    }

    static func write(_ book: AddressBook, of id: DeviceID, _ database: Database) throws {
        try database.execute(sql: "DELETE FROM addresses WHERE device = ?", arguments: [Data(id.bytes)])
        for (position, entry) in book.entries.enumerated() {
            try database.execute(
                sql: "INSERT INTO addresses VALUES (?, ?, ?, ?, ?)",
                arguments: [Data(id.bytes), position, entry.address.description, entry.lastGood, entry.announcedAt])
        }
    }
}

extension DeviceName.Conflict {
    /// The error for a name: the fault, and the remedy.
    func error(_ name: String) -> KithError {
        switch self {
        case .reserved:
            KithError(.invalid, "\(name) cannot be a device's name: it says something else. Choose another.")
        case .looksLike(name, let id?):
            KithError(.conflict, "\(name) is another device already (\(id.short)). Choose another name.")
        case .looksLike(name, nil):
            KithError(.conflict, "\(name) is this device itself. Choose another name for the other one.")
        case .looksLike(let other, let id?):
            KithError(.conflict, "\(name) looks like \(other) (\(id.short)), another device. Choose another name.")
        case .looksLike(let other, nil):
            KithError(.conflict, "\(name) looks like \(other), this device's own name. Choose another.")
        case .looksLikeID(let id):
            KithError(
                .conflict, "\(name) looks like the DeviceID \(id.short)…, which is not its own. Choose another name.")
        }
    }
}
