import Foundation
import GRDB
import KithIdentity
public import KithWire
import Synchronization

extension Store {
    /// The folder that the root of a grant of files named when it was granted, links resolved.
    ///
    /// Links are followed once, when the person here chooses the root: a device that may write above it can put another
    /// link there later. A root nobody was granted stands for itself.
    public func grantedRoot(_ root: String) throws(KithError) -> String {
        if let known = roots.withLock({ $0[root] }) { return known }
        let path = try transaction("look up a granted folder") { database in
            try String.fetchOne(database, sql: "SELECT path FROM roots WHERE root = ?", arguments: [root])
        }
        guard let path else { return root }
        roots.withLock { $0[root] = path }
        return path
    }

    /// Resolves the roots of new grants.
    ///
    /// A root that is granted already stays where it was: granted to one more device it leads to the same place.
    static func resolveRoots(of grants: [Grant], _ database: Database) throws {
        let known = Set(try String.fetchAll(database, sql: "SELECT root FROM roots"))
        for root in Set(grants.compactMap(\.root)).subtracting(known) { try write(root, resolved(root), database) }
    }

    /// Forgets the roots that no grant has any more: granted anew, they are resolved anew.
    static func forgetRoots(_ database: Database) throws {
        let used = Set(try storedGrants(database).compactMap(\.root))
        for root in try String.fetchAll(database, sql: "SELECT root FROM roots") where !used.contains(root) {
            try database.execute(sql: "DELETE FROM roots WHERE root = ?", arguments: [root])
        }
    }

    /// The grants that devices hold, and those that open invitations and a certificate give.
    private static func storedGrants(_ database: Database) throws -> [Grant] {
        let held = try String.fetchAll(database, sql: "SELECT grant_text FROM grants")
        var offered = try String.fetchAll(database, sql: "SELECT grants FROM invitations WHERE used_at IS NULL")
        offered += try admissionText(database).map { [$0] } ?? []
        return (held + offered.flatMap { $0.split(separator: "\n").map(String.init) }).compactMap { Grant($0) }
    }

    /// Resolves the roots of the grants of a version that did not.
    ///
    /// One that leads through a link in a folder that a device may write is taken at its word: the link may be of that
    /// device's making, and is not followed.
    static func resolveOldRoots(_ database: Database) throws {
        let grants = try storedGrants(database)
        let writable = grants.flatMap { grant -> [Grant] in
            guard case .files(.write, let root) = grant else { return [] }
            return [grant, .files(.write, root: resolved(root))]
        }
        for root in Set(grants.compactMap(\.root)) {
            let isOthers = leadsThroughLink(root) { folder in
                writable.contains { $0.covers(.files(.write, root: folder)) }
            }
            try write(root, isOthers ? root : resolved(root), database)
        }
    }

    /// Tells whether a link on the way along a path lies in a folder that `isSuspect`.
    private static func leadsThroughLink(_ path: String, in isSuspect: (String) -> Bool) -> Bool {
        var rest = Array(path.split(separator: "/").map(String.init).reversed())
        var folder: [String] = []
        var links = 0
        while let name = rest.popLast() {
            if name == ".." { _ = folder.popLast() }
            if name == "." || name == ".." { continue }
            let here = "/" + folder.joined(separator: "/")
            let full = (here == "/" ? "" : here) + "/" + name
            // What is not a link, or does not exist, is followed as it is.
            guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: full) else {
                folder.append(name)
                continue
            }
            links += 1
            if isSuspect(here) || links > 40 { return true }
            if target.hasPrefix("/") { folder = [] }
            rest += target.split(separator: "/").map(String.init).reversed()
        }
        return false
    }

    private static func write(_ root: String, _ path: String, _ database: Database) throws {
        try database.execute(
            sql: "INSERT INTO roots VALUES (?, ?) ON CONFLICT DO UPDATE SET path = excluded.path",
            arguments: [root, path])
    }

    /// A path with its links followed, as far as it is there.
    package static func resolved(_ path: String) -> String {
        var missing: [Substring] = []
        var rest = path[...]
        while true {
            if let found = unsafe realpath(rest.isEmpty ? "/" : String(rest), nil) {
                defer { unsafe free(found) }
                let text = unsafe String(cString: found)
                let tail = missing.reversed().joined(separator: "/")
                let whole = tail.isEmpty ? text : text == "/" ? "/" + tail : text + "/" + tail
                // A name that is not text, or a path too long for a grant, is left to the system to refuse.
                return Grant.isNormalised(whole) ? whole : path
            }
            guard let slash = rest.lastIndex(of: "/") else { return path }
            missing.append(rest[rest.index(after: slash)...])
            rest = rest[..<slash]
        }
    }
}

extension Grant {
    /// The folder a grant of files is for.
    var root: String? { if case .files(_, let root) = self { root } else { nil } }
}
