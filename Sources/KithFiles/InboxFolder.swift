import KithAPI
import KithNode
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The folder that what people send is put into.
enum InboxFolder {
    /// The usual one: `Kith` in the person's folder for downloads, as their desktop has it.
    static func usual(environment: [String: String]) throws(KithError) -> String {
        let home = String(
            decoding: try attempt("find", "the home folder", { () throws(Errno) in try homeFolder() }), as: UTF8.self)
        if let folder = environment["XDG_DOWNLOAD_DIR"], folder.hasPrefix("/") { return folder + "/Kith" }
        let configuration = environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home + "/.config"
        return (downloads(configuration + "/user-dirs.dirs", home: home) ?? home + "/Downloads") + "/Kith"
    }

    /// Reads the folder from the desktop's own file; `nil` when there is no such file, or it names none.
    private static func downloads(_ path: String, home: String) -> String? {
        // A file that cannot be read says nothing.
        guard let file = try? Descriptor.open(Array(path.utf8), []),
            let bytes = try? file.bytes(at: 0, limit: 64 << 10)
        else { return nil }
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            guard line.hasPrefix("XDG_DOWNLOAD_DIR=\""), line.hasSuffix("\"") else { continue }
            let value = line.dropFirst("XDG_DOWNLOAD_DIR=\"".count).dropLast()
            if value.hasPrefix("/") { return String(value) }
            if value.hasPrefix("$HOME/") { return home + value.dropFirst("$HOME".count) }
        }
        return nil
    }

    /// Makes a folder and what is missing above it; only the person can enter what is made.
    static func make(_ folder: String) throws {
        let path = try ConfinedPath(ownPath: Files.Path(folder))
        try attempt("make the folder", folder) { () throws(Errno) in
            for prefix in path.prefixes {
                guard let name = prefix.last else { continue }
                do throws(Errno) {
                    try path.open(Array(prefix.dropLast()), .folder).makeFolder(name, mode: 0o700)
                } catch .exists {
                    _ = try path.open(prefix, [.path, .folder])
                }
            }
        }
    }

    /// Refuses when there is no room for so many bytes where the folder is, or will be.
    static func checkRoom(for bytes: UInt64, in folder: String) throws {
        let path = try ConfinedPath(ownPath: Files.Path(folder))
        var nearest = try attempt("access", "/") { () throws(Errno) in try path.open([], [.path, .folder]) }
        for prefix in path.prefixes {
            // The first that is not there yet will be made on the disk of the one above it.
            guard let next = try? path.open(prefix, [.path, .folder]) else { break }
            nearest = next
        }
        var room = statvfs()
        guard unsafe fstatvfs(nearest.number, &room) == 0 else { return }
        let free = UInt64(room.f_bavail) &* UInt64(room.f_frsize)
        guard free >= bytes else {
            throw KithError(
                .exhausted,
                "There is no room in \(folder): \(bytes >> 20) MiB are offered, \(free >> 20) MiB are free.")
        }
    }
}

/// A folder that what one person sends is received into, until all of it is there.
///
/// Nothing in it is seen under its name before; when it goes, so does what is in it. Those of a process that was
/// killed are removed by the next one in the same folder.
final class InboxStaging: Sendable {
    private static let prefix = Array(".kith-inbox-".utf8)

    /// The path of the folder.
    let path: Files.Path
    private let folder: Descriptor
    private let name: [UInt8]
    private let descriptor: Descriptor

    /// Makes one.
    init(in path: String, protecting protection: ProtectedFiles? = nil) throws(KithError) {
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
        let name = Self.prefix + (0..<16).map { _ in letters[Int.random(in: 0..<32)] }
        self.name = name
        self.path = Files.Path(bytes: Array(path.utf8) + [UInt8(ascii: "/")] + name)
        (folder, descriptor) = try attempt("receive into", path) { () throws(Errno) in
            let folder = try Descriptor.open(Array(path.utf8), .folder, protecting: protection)
            Self.removeStale(in: folder)
            try folder.makeFolder(name, mode: 0o700)
            let own = try folder.open(name: name, [.folder, .noFollow])
            _ = try own.lock(waiting: true)
            return (folder, own)
        }
    }

    deinit {
        // What cannot be removed now is removed by the next one.
        _ = try? Removal.removeTree(name, from: folder)
    }

    /// Removes stale files; those that cannot be removed stay.
    private static func removeStale(in folder: Descriptor) {
        guard let listing = try? Descriptor.Listing(of: folder) else { return }
        var names: [[UInt8]] = []
        while let name = try? listing.next(), names.count < 100 {
            if name.starts(with: prefix) { names.append(name) }
        }
        for name in names {
            guard let stale = try? folder.open(name: name, [.folder, .noFollow]),
                (try? stale.lock(waiting: false)) == true
            else { continue }
            _ = try? Removal.removeTree(name, from: folder)
        }
    }

    /// Removes all links: what somebody sends leads nowhere, wherever it is moved to later.
    ///
    /// Returns how many there were.
    func removeLinks() throws -> UInt64 {
        var count: UInt64 = 0
        let walk = try attempt("access", path) { () throws(Errno) in try FolderWalk(descriptor) }
        while let step = walk.step() {
            try Task.checkCancellation()
            if case .problem(let error) = step { throw error }
            guard case .entry(let info, _) = step, info.kind == .link else { continue }
            let parent = walk.path.lastIndex(of: UInt8(ascii: "/")).map { Array(walk.path[..<$0]) } ?? []
            try attempt("remove a link from", path) { () throws(Errno) in
                let folder = try descriptor.open(beneath: parent, [.path, .folder])
                try folder.remove(FolderSearch.lastName(of: walk.path))
            }
            count += 1
        }
        return count
    }

    /// Gives what was received its names in the parent folder, none of which is taken; returns them.
    ///
    /// - Throws: `.invalid` when something else was received than offered; nothing gets a name then.
    func deliver(_ items: [Offers.Item]) throws(KithError) -> [Files.Path] {
        let offered = Set(items.map(\.name.bytes))
        let names = try attempt("put in place what is in", path) { () throws(Errno) -> [Files.Path]? in
            let listing = try Descriptor.Listing(of: descriptor)
            while let name = try listing.next() {
                guard offered.contains(name) else { return nil }
            }
            var names: [Files.Path] = []
            for item in items {
                do throws(Errno) {
                    names.append(try place(item.name.bytes))
                } catch {
                    // The sender left it out.
                    guard error == .notFound else { throw error }
                }
            }
            return names
        }
        guard let names else {
            throw KithError(.invalid, "Something else was sent than had been offered. Nothing was kept.")
        }
        return names
    }

    private func place(_ name: [UInt8]) throws(Errno) -> Files.Path {
        let safe = InboxName.safe(name)
        var number = 1
        while true {
            let candidate = InboxName.numbered(safe, number)
            do throws(Errno) {
                try descriptor.rename(name, to: candidate, in: folder, overwrite: false)
                return Files.Path(bytes: candidate)
            } catch .exists where number < 10_000 {
                number += 1
            }
        }
    }
}
