import KithAPI
import KithIndex

extension LibraryKeeper {
    /// Publishes what happens from now on, if it does not already.
    func publishEvents() {
        guard let topics, topics.want(), let index = openedIndex else { return }
        publishChanges(of: index, to: topics)
    }

    /// Publishes what changes in an index, until that is closed.
    func publishChanges(of index: FileIndex, to topics: LibraryTopics) {
        let changes = index.changeSets()
        publishing = Task(name: "kith library events") {
            while let set = await changes.next() {
                if let event = LibraryEvent(set) { topics.publish(event) }
                for tags in set.tags { topics.publish(LibraryEvent(tags)) }
                for notes in set.notes { topics.publish(LibraryEvent(notes)) }
            }
        }
    }
}

extension LibraryEvent {
    /// The files that changed; `nil` when only tags did.
    init?(_ set: ChangeSet) {
        guard let folder = set.folder else { return nil }
        self = .files(
            LibraryEvents.FileChanges(
                changes: set.changes.map { change in
                    let path = Files.Path(bytes: change.path)
                    return switch change.kind {
                    case .added: .init(id: change.id, kind: .added, path: path)
                    case .changed: .init(id: change.id, kind: .changed, path: path)
                    case .removed: .init(id: change.id, kind: .removed, path: path)
                    case .moved(let from):
                        .init(id: change.id, kind: .moved, path: path, from: Files.Path(bytes: from))
                    }
                }, more: UInt64(set.more), folder: Files.Path(bytes: folder)))
    }

    init(_ tags: ChangeSet.Tags) {
        func names(_ paths: [[String]]) -> [String] { paths.map { $0.joined(separator: "/") } }
        self = .tags(
            LibraryEvents.TagChanges(
                added: names(tags.added), removed: names(tags.removed), deleted: names(tags.deleted),
                paths: tags.paths.map { Files.Path(bytes: $0) }, more: UInt64(tags.more)))
    }
}

extension LibraryEvent {
    init(_ notes: ChangeSet.Notes) {
        self = .annotations(
            LibraryEvents.AnnotationChanges(
                fields: LibraryEvents.AnnotationChanges.Field.allCases.filter { notes.fields.contains($0.rawValue) },
                paths: notes.paths.map { Files.Path(bytes: $0) }, more: UInt64(notes.more)))
    }
}

extension LibraryEvents.Place {
    init(_ location: IndexLocation) {
        self.init(location: location.id, name: location.name, path: Files.Path(bytes: location.path))
    }
}

extension LibraryEvents.Scan {
    init(_ location: IndexLocation, _ step: ScanProgress, problem: String? = nil) {
        self.init(
            place: LibraryEvents.Place(location), progress: LibraryService.progress(step), problem: problem)
    }
}
