import KithAPI
import KithRPC
import KithWire

/// Our events of libraries in the reference's terms, which describe what they are about.
struct LibraryEventAdapter {
    /// The most files of one event that are described; of more the subscriber asks again.
    private static let described = 256

    private let device: AdaptedDevice
    /// What the libraries have of files, as long as their locations are the same.
    private var files: [String: IndexedFiles] = [:]

    init(_ device: AdaptedDevice) { self.device = device }

    /// The events that a message of our stream brings.
    mutating func events(of message: JSONValue) async -> [AdaptedEvent] {
        guard let numbered = message.member("event"), let event = numbered.member("event"),
            let library = numbered.member("library")?.text
        else {
            // A gap: what was missed is not known.
            files = [:]
            return [AdaptedEvent(name: "Refresh")]
        }
        if let change = event.member("library") { return await changes(change, of: library) }
        if let added = event.member("locationAdded") {
            files[library] = nil
            return [place("LocationAdded", added, in: library)]
        }
        if let removed = event.member("locationRemoved") {
            files[library] = nil
            return [place("LocationRemoved", removed, in: library)]
        }
        if let changed = event.member("locationChanged") { return await location(changed, in: library) }
        if let changes = event.member("files") { return await self.changes(changes, in: library) }
        if let tags = event.member("tags") { return await self.tags(tags, in: library) }
        return scan(event, in: library)
    }

    // MARK: - Libraries and locations

    private func changes(_ change: JSONValue, of library: String) async -> [AdaptedEvent] {
        func event(_ name: String, _ more: [String: JSONValue]) -> AdaptedEvent {
            let content: [String: JSONValue] = ["id": .string(library), "name": change.member("name") ?? ""]
            return AdaptedEvent(name: name, content: .object(content.merging(more) { $1 }), library: library)
        }
        func known() async -> JSONValue? {
            let libraries = try? await device.libraries()
            return libraries?.first { $0.member("id")?.text == library }.map(AdaptedLibrary.shown)
        }
        switch change.member("kind")?.text {
        case "created":
            return [event("LibraryCreated", ["path": await known()?.member("path") ?? "", "source": "Manual"])]
        case "opened": return [event("LibraryOpened", ["path": await known()?.member("path") ?? ""])]
        case "closed": return [event("LibraryClosed", [:])]
        case "forgotten": return [event("LibraryDeleted", ["deleted_data": false])]
        case "deleted": return [event("LibraryDeleted", ["deleted_data": true])]
        case "renamed":
            guard let known = await known() else { return [] }
            return [batch("library", [known], [], in: library)]
        default: return []
        }
    }

    private func place(
        _ name: String, _ place: JSONValue, _ more: [String: JSONValue] = [:], in library: String
    ) -> AdaptedEvent {
        let number = place.member("location")?.whole ?? 0
        let path = AdaptedPath.read(place.member("path")) ?? "/"
        var content: [String: JSONValue] = [
            "location_id": .string(CompatibleID(.location, number: number, of: device.id).text)
        ]
        if name.hasPrefix("Location") { content["library_id"] = .string(library) }
        if name == "LocationAdded" { content["path"] = .string(path.description) }
        content.merge(more) { $1 }
        return AdaptedEvent(name: name, content: .object(content), library: library, paths: [path])
    }

    private func location(_ place: JSONValue, in library: String) async -> [AdaptedEvent] {
        // One that is gone again is told of by the next event.
        guard let answer = try? await device.client.call(named: "locations.list", ["library": .string(library)]),
            let location = answer.member("locations")?.list?.first(where: {
                $0.member("id") == place.member("location")
            })
        else { return [] }
        let path = AdaptedPath.read(location.member("path"))
        let shown = AdaptedLocation.shown(location, in: library, of: device)
        return [batch("location", [shown], path.map { [$0] } ?? [], in: library)]
    }

    private func scan(_ event: JSONValue, in library: String) -> [AdaptedEvent] {
        if let began = event.member("scanBegan") { return [place("IndexingStarted", began, in: library)] }
        if let scan = event.member("scanProgressed"), let whole = scan.member("place") {
            let processed = scan.member("progress")?.member("entries") ?? 0
            return [place("IndexingProgress", whole, ["processed": processed, "total": .null], in: library)]
        }
        guard let scan = event.member("scanEnded"), let whole = scan.member("place") else { return [] }
        if let problem = scan.member("problem") {
            return [place("IndexingFailed", whole, ["error": problem], in: library)]
        }
        let progress = scan.member("progress")
        let names = progress?.member("entries")?.whole ?? 0
        let folders = progress?.member("folders")?.whole ?? 0
        let totals: [String: JSONValue] = [
            "total_files": .integer(max(0, names - folders)), "total_dirs": .integer(folders),
        ]
        return [place("IndexingCompleted", whole, totals, in: library)]
    }

    // MARK: - Files and tags

    private mutating func changes(_ event: JSONValue, in library: String) async -> [AdaptedEvent] {
        let changes = event.member("changes")?.list ?? []
        guard event.member("more")?.whole ?? 0 == 0, changes.count <= Self.described else {
            let folder = AdaptedPath.read(event.member("folder"))
            return [refresh(in: library, folder.map { [$0] } ?? [])]
        }
        var events: [AdaptedEvent] = []
        var changed: [(path: Files.Path, from: Files.Path?)] = []
        for change in changes {
            guard let number = change.member("id")?.whole, let path = AdaptedPath.read(change.member("path")) else {
                continue
            }
            guard change.member("kind")?.text == "removed" else {
                changed.append((path, AdaptedPath.read(change.member("from"))))
                continue
            }
            let id = CompatibleID(.entry, number: number, of: device.id)
            events.append(
                AdaptedEvent(
                    name: "ResourceDeleted", content: ["resource_type": "file", "resource_id": .string(id.text)],
                    library: library, resource: "file", paths: [path]))
        }
        return events + (await described(changed, in: library))
    }

    private mutating func tags(_ tags: JSONValue, in library: String) async -> [AdaptedEvent] {
        let names = (tags.member("added")?.list ?? []).compactMap(\.text)
        let deleted = (tags.member("deleted")?.list ?? []).compactMap(\.text)
        var events = deleted.map { name in
            AdaptedEvent(
                name: "ResourceDeleted",
                content: ["resource_type": "tag", "resource_id": .string(AdaptedTag.id(name, of: device).text)],
                library: library, resource: "tag")
        }
        if !names.isEmpty {
            events.append(batch("tag", names.map { AdaptedTag.shown($0, of: device) }, [], in: library))
        }
        let paths = (tags.member("paths")?.list ?? []).compactMap { AdaptedPath.read($0) }
        // Nobody lists the files that have lost a tag with it.
        guard deleted.isEmpty, tags.member("more")?.whole ?? 0 == 0, paths.count <= Self.described else {
            return events + [refresh(in: library, [])]
        }
        return events + (await described(paths.map { ($0, nil) }, in: library))
    }

    /// The files at some paths, as the library has them; what is gone again meanwhile is told of by the next event.
    private mutating func described(
        _ changed: [(path: Files.Path, from: Files.Path?)], in library: String
    ) async -> [AdaptedEvent] {
        guard !changed.isEmpty else { return [] }
        do {
            let known = if let known = files[library] { known } else { try await IndexedFiles(of: library, on: device) }
            files[library] = known
            var (resources, paths) = ([JSONValue](), [Files.Path]())
            for (path, from) in changed {
                guard let facts = try await known.facts(at: path) else { continue }
                resources.append(AdaptedFile.shown(facts, of: device))
                paths.append(path)
                if let from { paths.append(from) }
            }
            return resources.isEmpty ? [] : [batch("file", resources, paths, in: library)]
        } catch {
            // The library is closed by now, or its disk is away: what there is is to be asked for again.
            return [refresh(in: library, [])]
        }
    }

    // MARK: - Events

    /// Says that files are not as they were; who follows files alone hears it, too.
    private func refresh(in library: String, _ paths: [Files.Path]) -> AdaptedEvent {
        AdaptedEvent(name: "Refresh", library: library, resource: "file", paths: paths)
    }

    private func batch(
        _ type: String, _ resources: [JSONValue], _ paths: [Files.Path], in library: String
    ) -> AdaptedEvent {
        AdaptedEvent(
            name: "ResourceChangedBatch",
            content: [
                "resource_type": .string(type), "resources": .array(resources),
                "metadata": [
                    "no_merge_fields": [], "alternate_ids": [],
                    "affected_paths": .array(paths.map { device.shown($0) }),
                ],
            ], library: library, resource: type, paths: paths)
    }
}
