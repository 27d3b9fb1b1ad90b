extension LibraryEvent {
    /// The types it is counted among.
    public var kinds: [Kind] {
        switch self {
        // What is not listed may be of any.
        case .files(let files):
            files.more > 0
                ? [.fileAdded, .fileChanged, .fileMoved, .fileRemoved]
                : [Kind.fileAdded, .fileChanged, .fileMoved, .fileRemoved].filter { kind in
                    files.changes.contains { $0.kind.type == kind }
                }
        case .locationAdded: [.locationAdded]
        case .locationRemoved: [.locationRemoved]
        case .locationChanged: [.locationChanged]
        case .scanBegan: [.scanBegan]
        case .scanProgressed: [.scanProgressed]
        case .scanEnded: [.scanEnded]
        case .tags: [.tagsChanged]
        case .annotations: [.annotationsChanged]
        case .library(let library): [library.kind.type]
        case .jobChanged: [.jobChanged]
        case .jobProgressed: [.jobProgressed]
        case .jobRemoved: [.jobRemoved]
        case .volumeAdded: [.volumeAdded]
        case .volumeRemoved: [.volumeRemoved]
        case .unknown: Kind.allCases
        }
    }

    /// The kind of thing it is about; `nil` of one that this version does not know.
    public var resource: Resource? {
        switch self {
        case .files: .file
        case .locationAdded, .locationRemoved, .locationChanged, .scanBegan, .scanProgressed, .scanEnded: .location
        case .tags: .tag
        case .annotations: .annotation
        case .library: .library
        case .jobChanged, .jobProgressed, .jobRemoved: .job
        case .volumeAdded, .volumeRemoved: .volume
        case .unknown: nil
        }
    }
}

extension LibraryEvents.FileChange.Kind {
    var type: LibraryEvent.Kind {
        switch self {
        case .added: .fileAdded
        case .changed: .fileChanged
        case .moved: .fileMoved
        case .removed: .fileRemoved
        }
    }
}

extension LibraryEvents.LibraryChange.Kind {
    var type: LibraryEvent.Kind {
        switch self {
        case .created: .libraryCreated
        case .opened: .libraryOpened
        case .closed: .libraryClosed
        case .renamed: .libraryRenamed
        case .forgotten: .libraryForgotten
        case .deleted: .libraryDeleted
        }
    }
}
