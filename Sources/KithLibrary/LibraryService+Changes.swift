import Foundation
import KithAPI
import KithIO
import KithIndex
import KithNode
import KithWire

/// Changes of locations, locations in files, and the changes of tags and notes that can be taken back.
extension LibraryService {
    /// The methods about them, all for this device's own person.
    var changeHandlers: [Handler] {
        [
            .call(Locations.Change.self) { input, _ in try await self.change(input) },
            .call(Locations.Export.self) { input, _ in try await self.export(input) }.limited(to: 2),
            .call(Locations.Import.self) { input, _ in try await self.importLocation(input) }.limited(to: 2),
            .call(Libraries.Configure.self) { input, _ in try await self.configure(input) },
            .call(Annotations.History.self) { input, _ in try await self.history(input) }.limited(to: 4),
            .call(Annotations.Undo.self) { input, _ in try await self.undo(input) },
        ]
    }

    // MARK: - Locations

    /// The name of a location without blanks around it.
    static func locationName(_ name: String?) throws(KithError) -> String? {
        let name = name?.trimmingCharacters(in: .whitespaces)
        guard name.map({ (1...256).contains($0.utf8.count) }) ?? true else {
            throw KithError(.invalid, "The name of a location has 1 to 256 bytes.")
        }
        return name
    }

    static func rules(_ rules: Library.Rules?) -> LocationRules? {
        rules.map { LocationRules(patterns: $0.patterns, followsIgnoreFiles: $0.followsIgnoreFiles) }
    }

    private func change(_ input: Locations.Change.Input) async throws -> Library.Location {
        let keeper = try await ownKeeper(input.library)
        let changed = try await keeper.change(
            input.id, name: try Self.locationName(input.name),
            mode: input.mode.flatMap { LocationMode(rawValue: $0.rawValue) }, rules: Self.rules(input.rules))
        return await described(changed, keeper)
    }

    private func configure(_ input: Libraries.Configure.Input) async throws -> Library.Summary {
        let index = try await ownKeeper(input.library).index()
        var usual = input.resets ? FileIndex.Usual() : try index.usual()
        if let mode = input.mode { usual.mode = LocationMode(rawValue: mode.rawValue) }
        if let rules = Self.rules(input.rules) { usual.rules = rules }
        try await index.setUsual(usual)
        return await summary(try await collection.library(input.library, isOwner: true))
    }

    private func export(_ input: Locations.Export.Input) async throws -> Locations.Export.Output {
        let path = try Self.text(input.path)
        let file = try await ownKeeper(input.library).index().locationFile(input.id)
        let bytes = try await disk.run { try file.write(to: path, overwrites: input.overwrite) }
        return Locations.Export.Output(name: file.name, bytes: UInt64(bytes), notes: file.notes.count)
    }

    private func importLocation(_ input: Locations.Import.Input) async throws -> Locations.Import.Output {
        let path = try Self.text(input.path)
        let name = try Self.locationName(input.name)
        let folder = try input.folder.map { try Self.plain($0.bytes) }
        // All of the file is read and looked at before anything is changed.
        let file = try await disk.run { try LocationFile.read(path) }
        let keeper = try await ownKeeper(input.library)
        let location = try await keeper.add(
            folder ?? file.path, name: name ?? file.name, rules: file.rules, mode: file.mode, notes: file.notes)
        return Locations.Import.Output(location: await described(location, keeper), notes: file.notes.count)
    }

    // MARK: - Tags and notes

    private func history(_ input: Annotations.History.Input) async throws -> Annotations.History.Output {
        guard input.limit > 0 else {
            throw KithError(.invalid, "`limit` must be 1 or more; at most 1,000 changes come.")
        }
        var (edits, bytes) = ([Annotations.Edit](), 0)
        for change in try await ownKeeper(input.library).index().noteChanges(limit: input.limit) {
            bytes += 200 + (change.first?.count ?? 0) + change.tags.reduce(0) { $0 + $1.utf8.count }
            if bytes > Self.answerLimit { break }
            edits.append(Self.edit(change))
        }
        return Annotations.History.Output(edits: edits)
    }

    private func undo(_ input: Annotations.Undo.Input) async throws -> Annotations.Undo.Output {
        let undone = try await ownKeeper(input.library).index().undoNoteChange(input.id)
        return Annotations.Undo.Output(
            edit: Self.edit(undone.change), restored: undone.restored, skipped: undone.skipped)
    }

    private static func edit(_ change: NotedChange) -> Annotations.Edit {
        let kind: Annotations.Edit.Kind =
            switch change.kind {
            case .tags: .tags
            case .deletedTag: .deletedTag
            case .annotation: .annotation
            case .undo: .undo
            }
        return Annotations.Edit(
            id: change.id, kind: kind, made: change.made, first: change.first.map { Files.Path(bytes: $0) },
            files: change.entries, tags: change.tags, fields: change.fields, undoes: change.undoes,
            undoneBy: change.undoneBy)
    }
}
