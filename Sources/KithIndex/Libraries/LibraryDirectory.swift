package import Foundation
package import KithWire

/// A library that a device knows.
package struct KnownLibrary: Sendable, Identifiable {
    package var id: UUID
    package var name: String
    /// Seconds since 1970; 0 for one whose folder is not there.
    package var created: Int64
    /// Its folder.
    package var path: String
    /// True for one in a folder that its person chose.
    package var isElsewhere: Bool
    package var isClosed: Bool
    package var isDefault: Bool
    /// True for one that came from elsewhere, until its person scans its locations here.
    package var isUnconfirmed: Bool
    /// Why it cannot be opened; `.notFound` when its folder is not there.
    package var problem: KithError?

    package var idText: String { id.uuidString.lowercased() }
}

/// The libraries of a device: those in its data directory, a folder each, and those in folders elsewhere.
///
///     DATA/libraries/libraries.json      which is the default, which are closed, which are elsewhere
///     DATA/libraries/<id>/library.json   its identity
///     DATA/libraries/<id>/index.sqlite   its index, and what else belongs to it
///     DATA/libraries/.new-<id>           being made, or imported: of no use after a crash
///     DATA/libraries/.old-<id>           what an import replaces: put back after a crash between both moves
///     DATA/libraries/.gone-<id>          being deleted
///
/// Whoever has one holds the data directory's lock: two of them at once would be in each other's way.
package struct LibraryDirectory {
    /// The most libraries of a device.
    package static let limit = 64
    /// The name of the first library.
    static let firstName = "Library"

    /// The data directory.
    private let data: String
    private let step: @Sendable (String) -> Void
    private let now: @Sendable () -> Int64
    private var registry = Registry()
    /// Why the list of libraries cannot be read; it is not written then.
    private var registryProblem: KithError?
    private var folder: String { data + "/libraries" }
    private var registryPath: String { folder + "/libraries.json" }

    /// What is not said by the folders themselves.
    fileprivate struct Registry: Codable, Hashable {
        struct Elsewhere: Codable, Hashable {
            var id: UUID
            var name: String
            var path: String

            init(id: UUID, name: String, path: String) { (self.id, self.name, self.path) = (id, name, path) }

            enum CodingKeys: String, CodingKey, CaseIterable { case id, name, path }

            init(from decoder: any Decoder) throws {
                try StrictJSON.check(decoder, CodingKeys.self)
                let container = try decoder.container(keyedBy: CodingKeys.self)
                id = try container.decode(UUID.self, forKey: .id)
                name = try container.decode(String.self, forKey: .name)
                path = try container.decode(String.self, forKey: .path)
            }
        }

        var version = 1
        var `default`: UUID?
        var closed: [UUID] = []
        var unconfirmed: [UUID] = []
        var elsewhere: [Elsewhere] = []

        init() {}

        enum CodingKeys: String, CodingKey, CaseIterable { case version, `default`, closed, unconfirmed, elsewhere }

        init(from decoder: any Decoder) throws {
            try StrictJSON.check(decoder, CodingKeys.self)
            let container = try decoder.container(keyedBy: CodingKeys.self)
            version = try container.decode(Int.self, forKey: .version)
            `default` = try container.decodeIfPresent(UUID.self, forKey: .default)
            closed = try container.decode([UUID].self, forKey: .closed)
            unconfirmed = try container.decode([UUID].self, forKey: .unconfirmed)
            elsewhere = try container.decode([Elsewhere].self, forKey: .elsewhere)
        }
    }

    /// Reads what there is, ends what a crash has left half done, and takes over the library of an earlier version
    /// (`DATA/library`).
    ///
    /// - Parameters:
    ///   - data: The data directory.
    ///   - now: The time in seconds since 1970.
    ///   - step: Called between the steps of what is not done at once, for tests.
    /// - Throws: what the disk says. A list that is damaged is no failure: see ``problem``.
    package init(
        data: String, now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) },
        step: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(KithError) {
        (self.data, self.now, self.step) = (data, now, step)
        try takeOver()
        try recover()
        do throws(SystemFailure) {
            let bytes = try DurableFile.contents(of: registryPath, limit: 1 << 20)
            do {
                registry = try JSONDecoder().decode(Registry.self, from: Data(bytes))
                guard registry.version == 1 else {
                    throw KithError(.corrupt, "It was written by a later version of Kith.")
                }
            } catch {
                registry = Registry()
                registryProblem = KithError(
                    .corrupt,
                    "\(registryPath) cannot be read, so the list of libraries is not changed. Those in folders elsewhere are missing until it is mended or moved away.",
                    cause: error)
            }
        } catch {
            guard error.isAbsence else {
                throw KithError(error.code, "The list of libraries, \(registryPath), cannot be read: \(error).")
            }
        }
    }

    /// What is wrong with the list of libraries.
    package var problem: KithError? { registryProblem }

    /// Takes over the one library that earlier versions had.
    private func takeOver() throws(KithError) {
        let old = data + "/library"
        guard Self.isFolder(old), Self.exists(old + "/index.sqlite") else { return }
        do throws(KithError) {
            let description: LibraryDescription
            do throws(KithError) { description = try LibraryDescription.read(from: old) } catch {
                guard error.code == .notFound else { throw error }
                // Its id is there before it moves: after a crash it is the same library.
                description = LibraryDescription(id: UUID(), name: Self.firstName, created: now())
                step("takeOver.describe")
                try description.write(to: old)
            }
            step("takeOver.folder")
            try makeFolder()
            step("takeOver.move")
            try attempt("move \(old) to \(folder)") { () throws(SystemFailure) in
                try DurableFile.move(old, to: folder + "/" + description.idText)
            }
            step("takeOver.end")
        } catch {
            throw KithError(error.code, "The library of an earlier version could not be taken over: \(error.message)")
        }
    }

    /// Ends what was begun.
    private func recover() throws(KithError) {
        let names: [String]
        do throws(SystemFailure) { names = try DurableFile.names(in: folder) } catch {
            if error.isAbsence { return }
            throw KithError(error.code, "The libraries in \(folder) cannot be listed: \(error).")
        }
        for name in names {
            let path = folder + "/" + name
            try attempt("clear \(path) away") { () throws(SystemFailure) in
                if name.hasPrefix(".old-") {
                    let place = folder + "/" + name.dropFirst(5)
                    if Self.exists(place) {
                        try DurableFile.removeTree(path)
                    } else {
                        try DurableFile.move(path, to: place)
                    }
                } else if name.hasPrefix(".new-") || name.hasPrefix(".gone-") || name.hasSuffix(".new") {
                    try DurableFile.removeTree(path)
                }
            }
        }
    }

    // MARK: - What there is

    /// The libraries, the default one first, then the oldest.
    package func libraries() throws(KithError) -> [KnownLibrary] {
        var found: [KnownLibrary] = []
        for name in try attempt("list \(folder)", { () throws(SystemFailure) in try names() }) {
            guard let id = UUID(uuidString: name), name == id.uuidString.lowercased() else { continue }
            found.append(described(id, name: name, at: folder + "/" + name, isElsewhere: false))
        }
        for other in registry.elsewhere where !found.contains(where: { $0.id == other.id }) {
            found.append(described(other.id, name: other.name, at: other.path, isElsewhere: true))
        }
        found.sort { ($0.created, $0.idText) < ($1.created, $1.idText) }
        // One that answers, where nobody has said which.
        let answers = { (library: KnownLibrary) in !library.isClosed && library.problem == nil }
        let chosen =
            found.firstIndex { $0.id == registry.default } ?? found.firstIndex { answers($0) && !$0.isUnconfirmed }
            ?? found.firstIndex(where: answers)
        if let chosen {
            found[chosen].isDefault = true
            found.insert(found.remove(at: chosen), at: 0)
        }
        return found
    }

    private func names() throws(SystemFailure) -> [String] {
        do throws(SystemFailure) { return try DurableFile.names(in: folder) } catch {
            if error.isAbsence { return [] }
            throw error
        }
    }

    private func described(_ id: UUID, name: String, at path: String, isElsewhere: Bool) -> KnownLibrary {
        var library = KnownLibrary(
            id: id, name: name, created: 0, path: path, isElsewhere: isElsewhere,
            isClosed: registry.closed.contains(id), isDefault: false,
            isUnconfirmed: registry.unconfirmed.contains(id))
        do throws(KithError) {
            let description = try LibraryDescription.read(from: path)
            guard description.id == id else {
                throw KithError(.notFound, "Another library is in \(path) now.")
            }
            (library.name, library.created) = (description.name, description.created)
        } catch {
            library.problem =
                error.code == .notFound && isElsewhere && !Self.isFolder(path)
                ? KithError(.notFound, "Its folder, \(path), is not there. Connect its disk.")
                : isElsewhere || error.code != .notFound
                    ? error : KithError(.corrupt, "\(path) has no \(LibraryDescription.fileName).")
        }
        return library
    }

    // MARK: - Changes

    /// Makes a library.
    ///
    /// - Throws: `.invalid`, `.conflict` for a name that another one has or a folder with something in it, `.exhausted`.
    package mutating func create(name: String, at path: String? = nil) throws(KithError) -> KnownLibrary {
        try checkRegistry()
        let description = LibraryDescription(
            id: UUID(), name: try freeName(name), created: now())
        let known = try libraries()
        guard known.count < Self.limit else {
            throw KithError(.exhausted, "A device has at most \(Self.limit) libraries. Delete or close one for good.")
        }
        let before = known.first(where: \.isDefault)?.id
        if let path {
            try checkElsewhere(path)
            try attempt("make \(path)") { () throws(SystemFailure) in
                if !Self.isFolder(path) { try DurableFile.makeFolder(path) }
                guard try DurableFile.names(in: path).allSatisfy({ $0 == "lost+found" }) else {
                    throw SystemFailure(ENOTEMPTY)
                }
            }
            step("create.describe")
            try description.write(to: path)
            step("create.register")
            try change { registry in
                registry.elsewhere.append(
                    Registry.Elsewhere(id: description.id, name: description.name, path: path))
            }
        } else {
            try makeFolder()
            let fresh = folder + "/.new-" + description.idText
            step("create.folder")
            try attempt("make \(fresh)") { () throws(SystemFailure) in try DurableFile.makeFolder(fresh) }
            step("create.describe")
            try description.write(to: fresh)
            step("create.move")
            try attempt("make the library \(description.name)") { () throws(SystemFailure) in
                try DurableFile.move(fresh, to: folder + "/" + description.idText)
            }
        }
        try keepDefault(before, or: description.id)
        step("create.end")
        return try library(description.id)
    }

    /// Notes which is the default, so that another one never becomes it by being made in the same second.
    private mutating func keepDefault(_ before: UUID?, or fresh: UUID) throws(KithError) {
        guard registry.default == nil else { return }
        try change { registry in registry.default = before ?? fresh }
    }

    /// The library that is meant where none is named; made when there is none at all.
    ///
    /// - Throws: `.closed` when none is open.
    package mutating func defaultLibrary() throws(KithError) -> KnownLibrary {
        guard let first = try libraries().first else { return try create(name: Self.firstName) }
        if first.isDefault { return first }
        throw KithError(
            .closed,
            "No library is open. `kith library open '\(first.name)'` opens one; `kith library list` lists them.")
    }

    /// Remembers a library in a folder elsewhere; it is unconfirmed at first.
    package mutating func add(at path: String) throws(KithError) -> KnownLibrary {
        try checkRegistry()
        try checkElsewhere(path)
        let description = try LibraryDescription.read(from: path)
        if let known = try libraries().first(where: { $0.id == description.id }) {
            if known.path == path { return known }
            // A disk may come to be found elsewhere.
            guard known.isElsewhere, known.problem != nil else {
                throw KithError(
                    .conflict, "\(path) is the library \(known.name), which this device has in \(known.path) already.")
            }
        } else {
            guard try libraries().count < Self.limit else {
                throw KithError(
                    .exhausted, "A device has at most \(Self.limit) libraries. Delete or close one for good.")
            }
        }
        try change { registry in
            registry.elsewhere.removeAll { $0.id == description.id }
            registry.elsewhere.append(
                Registry.Elsewhere(id: description.id, name: description.name, path: path))
            registry.unconfirmed.removeAll { $0 == description.id }
            registry.unconfirmed.append(description.id)
            registry.closed.removeAll { $0 == description.id }
        }
        return try library(description.id)
    }

    /// Notes whether a library is closed.
    package mutating func setClosed(_ id: UUID, _ isClosed: Bool) throws(KithError) {
        guard registry.closed.contains(id) != isClosed else { return }
        try change { registry in
            if isClosed { registry.closed.append(id) } else { registry.closed.removeAll { $0 == id } }
        }
    }

    /// Notes that its person has had its locations scanned here.
    package mutating func confirm(_ id: UUID) throws(KithError) {
        guard registry.unconfirmed.contains(id) else { return }
        try change { registry in registry.unconfirmed.removeAll { $0 == id } }
    }

    /// Forgets a library elsewhere, which stays as it is.
    package mutating func forget(_ id: UUID) throws(KithError) { try change { $0.forget(id) } }

    /// Gives a library another name.
    package mutating func rename(_ id: UUID, to name: String) throws(KithError) -> KnownLibrary {
        let library = try library(id)
        if let problem = library.problem { throw problem }
        guard library.name != name else { return library }
        // Its own in other letters is not taken.
        let name = try freeName(name, except: id)
        try LibraryDescription(id: id, name: name, created: library.created).write(to: library.path)
        if library.isElsewhere {
            try change { registry in
                for index in registry.elsewhere.indices where registry.elsewhere[index].id == id {
                    registry.elsewhere[index].name = name
                }
            }
        }
        return try self.library(id)
    }

    /// Makes a library the default one.
    package mutating func setDefault(_ id: UUID) throws(KithError) -> KnownLibrary {
        _ = try library(id)
        try change { registry in registry.default = id }
        return try library(id)
    }

    /// Deletes a library, which nothing has open any more.
    ///
    /// - Throws: `.unsupported` for one elsewhere: nothing is deleted in folders that a person chose.
    package mutating func delete(_ id: UUID) throws(KithError) {
        let library = try library(id)
        guard !library.isElsewhere else {
            throw KithError(
                .unsupported,
                "\(library.name) is in \(library.path), where kith deletes nothing. Close it for good, then delete that folder yourself."
            )
        }
        // From here on it is gone, whatever happens.
        let gone = folder + "/.gone-" + library.idText
        step("delete.move")
        try attempt("delete \(library.name)") { () throws(SystemFailure) in
            try DurableFile.removeTree(gone)
            try DurableFile.move(library.path, to: gone)
        }
        step("delete.forget")
        if registryProblem == nil { try forget(id) }
        step("delete.remove")
        try attempt("delete \(library.name)") { () throws(SystemFailure) in try DurableFile.removeTree(gone) }
        step("delete.end")
    }

    // MARK: - Imports

    /// An empty folder in which an import is put together; ``discard(_:)`` ends it, or ``adopt(_:as:replacing:)``.
    package func makeStaging() throws(KithError) -> String {
        try makeFolder()
        let path = folder + "/.new-" + UUID().uuidString.lowercased()
        try attempt("make \(path)") { () throws(SystemFailure) in try DurableFile.makeFolder(path) }
        return path
    }

    /// Removes what an import that failed has left.
    package static func discard(_ staging: String) {
        // What is left is removed at the next start.
        try? DurableFile.removeTree(staging)
    }

    /// Makes a library of what an import has put together, unconfirmed.
    ///
    /// - Parameters:
    ///   - staging: The folder that ``makeStaging()`` made.
    ///   - description: What it was; it gets a new id when this device has one with that, unless it replaces it.
    ///   - name: What it is called from now on.
    ///   - replaces: Whether it takes the place of the one with the same id, which nothing has open any more.
    /// - Returns: the library.
    /// - Throws: `.conflict` for a name that another one has, `.unsupported` for one elsewhere, what the disk says.
    package mutating func adopt(
        _ staging: String, as description: LibraryDescription, name: String?, replaces: Bool
    ) throws(KithError) -> KnownLibrary {
        try checkRegistry()
        var description = description
        let known = try libraries()
        let same = known.first { $0.id == description.id }
        if same != nil, !replaces { description.id = UUID() }
        if let same, replaces, same.isElsewhere {
            throw KithError(
                .unsupported, "\(same.name) is in \(same.path), where kith replaces nothing. Import it as another one.")
        }
        let isReplacing = replaces && same != nil
        guard isReplacing || known.count < Self.limit else {
            throw KithError(.exhausted, "A device has at most \(Self.limit) libraries. Delete or close one for good.")
        }
        description.name =
            if let name { try freeName(name, except: isReplacing ? description.id : nil) } else {
                try unusedName(description.name, except: isReplacing ? description.id : nil)
            }
        step("import.describe")
        try description.write(to: staging)
        // Before it is there: it is never taken for one that its person has confirmed.
        step("import.register")
        try change { registry in
            registry.closed.removeAll { $0 == description.id }
            registry.unconfirmed.removeAll { $0 == description.id }
            registry.unconfirmed.append(description.id)
        }
        // One from elsewhere becomes it only where there is no other.
        try keepDefault(known.first(where: \.isDefault)?.id, or: description.id)
        let (place, old) = (folder + "/" + description.idText, folder + "/.old-" + description.idText)
        try attempt("import \(description.name)") { () throws(SystemFailure) in
            if isReplacing {
                step("import.moveAway")
                try DurableFile.move(place, to: old)
            }
            step("import.move")
            do throws(SystemFailure) { try DurableFile.move(staging, to: place) } catch {
                // The one that was there stays; should that fail, too, the next start puts it back.
                if isReplacing { try DurableFile.move(old, to: place) }
                throw error
            }
            step("import.remove")
            if isReplacing { try DurableFile.removeTree(old) }
            step("import.end")
        }
        return try library(description.id)
    }

    // MARK: - Parts

    /// One of them by its id.
    package func library(_ id: UUID) throws(KithError) -> KnownLibrary {
        guard let library = try libraries().first(where: { $0.id == id }) else {
            throw KithError(.notFound, "There is no library \(id.uuidString.lowercased()) any more.")
        }
        return library
    }

    /// The one that a person means by a name, or an id.
    ///
    /// - Throws: `.notFound`, `.conflict` for a name that several have.
    package func library(named word: String) throws(KithError) -> KnownLibrary {
        let all = try libraries()
        if let id = UUID(uuidString: word) {
            if let library = all.first(where: { $0.id == id }) { return library }
        } else {
            let exact = all.filter { $0.name == word }
            let found = exact.isEmpty ? all.filter { $0.name.lowercased() == word.lowercased() } : exact
            if found.count == 1, let library = found.first { return library }
            guard found.isEmpty else {
                throw KithError(
                    .conflict,
                    "\(found.count) libraries are called \(word). Say which by its id: \(found.map(\.idText).joined(separator: ", "))."
                )
            }
        }
        let shown = word.utf8.count <= LibraryDescription.nameLimit ? word : String(word.prefix(64)) + "…"
        throw KithError(.notFound, "There is no library \(shown). `kith library list` lists them.")
    }

    /// The name, when no other library has it.
    private func freeName(_ name: String, except id: UUID? = nil) throws(KithError) -> String {
        let name = try LibraryDescription.checkedName(name)
        guard
            try !libraries().contains(where: { $0.id != id && $0.name.lowercased() == name.lowercased() })
        else {
            throw KithError(.conflict, "There is a library \(name) already. Choose another name.")
        }
        return name
    }

    /// The name, with a number behind it when another library has it.
    private func unusedName(_ name: String, except id: UUID? = nil) throws(KithError) -> String {
        let taken = Set(try libraries().filter { $0.id != id }.map { $0.name.lowercased() })
        guard taken.contains(name.lowercased()) else { return name }
        // Room for the number.
        var stem = name
        while stem.utf8.count > LibraryDescription.nameLimit - 8 { stem.removeLast() }
        for number in 2...(Self.limit + 2) where !taken.contains("\(stem) \(number)".lowercased()) {
            return "\(stem) \(number)"
        }
        throw KithError(.exhausted, "Too many libraries are called \(name).")
    }

    private func makeFolder() throws(KithError) {
        try attempt("make \(folder)") { () throws(SystemFailure) in
            if !Self.isFolder(folder) { try DurableFile.makeFolder(folder) }
        }
    }

    private func checkElsewhere(_ path: String) throws(KithError) {
        guard path.hasPrefix("/"), !path.utf8.contains(0), path.utf8.count <= 3_000 else {
            throw KithError(.invalid, "The folder of a library is named by a whole path of at most 3,000 bytes.")
        }
        let (inner, outer) = (Array(path.utf8), Array(data.utf8))
        guard !inner.isWithin(outer), !outer.isWithin(inner) else {
            throw KithError(.invalid, "\(path) is part of this device's own data, or around it. Choose another folder.")
        }
    }

    private func checkRegistry() throws(KithError) { if let registryProblem { throw registryProblem } }

    private mutating func change(_ body: (inout Registry) -> Void) throws(KithError) {
        try checkRegistry()
        var changed = registry
        body(&changed)
        guard changed != registry else { return }
        try makeFolder()
        let bytes = StrictJSON.encoded(changed)
        let path = registryPath
        try attempt("write \(path)") { () throws(SystemFailure) in try DurableFile.replace(path, with: bytes) }
        registry = changed
    }

    private func attempt<Result>(
        _ what: String, _ body: () throws(SystemFailure) -> Result
    ) throws(KithError) -> Result {
        do throws(SystemFailure) { return try body() } catch {
            throw KithError(error.code, "Could not \(what): \(error).")
        }
    }

    private static func exists(_ path: String) -> Bool {
        var info = stat()
        return unsafe lstat(path, &info) == 0
    }

    private static func isFolder(_ path: String) -> Bool {
        var info = stat()
        return unsafe stat(path, &info) == 0 && info.st_mode & S_IFMT == S_IFDIR
    }
}

extension LibraryDirectory.Registry {
    fileprivate mutating func forget(_ id: UUID) {
        if `default` == id { `default` = nil }
        closed.removeAll { $0 == id }
        unconfirmed.removeAll { $0 == id }
        elsewhere.removeAll { $0.id == id }
    }
}
