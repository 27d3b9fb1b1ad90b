import KithIdentity
import KithWire

/// Something that happened to a library.
@nonexhaustive
public enum LibraryEvent: Hashable, Sendable {
    /// Files came, changed, moved or went, in one transaction.
    case files(LibraryEvents.FileChanges)
    /// A location was added.
    case locationAdded(LibraryEvents.Place)
    /// A location was removed; the files stay as they are.
    case locationRemoved(LibraryEvents.Place)
    /// A scan has begun.
    case scanBegan(LibraryEvents.Place)
    /// A scan goes on; of those that wait for a slow subscriber only the last one is delivered.
    case scanProgressed(LibraryEvents.Scan)
    /// A scan has ended.
    case scanEnded(LibraryEvents.Scan)
    /// Files got tags or lost some, or a tag was deleted.
    case tags(LibraryEvents.TagChanges)
    /// An event of a later version.
    case unknown

    /// The types of events, as filters name them.
    @nonexhaustive
    public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// Files and folders that came.
        case fileAdded = "file.added"
        /// Files and folders that are not as they were.
        case fileChanged = "file.changed"
        /// Files and folders that were elsewhere.
        case fileMoved = "file.moved"
        /// Files and folders that went.
        case fileRemoved = "file.removed"
        /// A location that was added.
        case locationAdded = "location.added"
        /// A location that was removed.
        case locationRemoved = "location.removed"
        /// A scan that has begun.
        case scanBegan = "scan.began"
        /// A scan that goes on.
        case scanProgressed = "scan.progressed"
        /// A scan that has ended.
        case scanEnded = "scan.ended"
        /// Tags that were given, taken away or deleted.
        case tagsChanged = "tags.changed"
    }

    /// The things that events are about.
    @nonexhaustive
    public enum Resource: String, Codable, Hashable, Sendable, CaseIterable {
        /// Files and folders.
        case file
        /// Locations, and the scans of them.
        case location
        /// Tags.
        case tag
    }
}

/// The events of a device's library.
public enum LibraryEvents {
    /// A place among the events of a device.
    public typealias Position = Events.Follow.Position

    /// One file or folder that changed.
    public struct FileChange: Codable, Hashable, Sendable {
        /// The kinds of changes.
        @nonexhaustive
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            /// The library did not hold it.
            case added
            /// It is not as it was.
            case changed
            /// It was elsewhere; with a folder all that is beneath it moved, which is not listed.
            case moved
            /// It is not there any more; with a folder all that was beneath it went, which is not listed.
            case removed
        }

        /// Its number in the library.
        public var id: Int64
        /// What became of it.
        public var kind: Kind
        /// Its path from the top of the file system; of what went, the last one.
        public var path: Files.Path
        /// The path before, of what moved.
        public var from: Files.Path?

        /// Describes a change.
        public init(id: Int64, kind: Kind, path: Files.Path, from: Files.Path? = nil) {
            self.id = id
            self.kind = kind
            self.path = path
            self.from = from
        }
    }

    /// Files and folders that changed in one transaction.
    public struct FileChanges: Codable, Hashable, Sendable {
        /// The first of them, at most 256.
        public var changes: [FileChange]
        /// The number of those that are not listed.
        public var more: UInt64
        /// The nearest folder that holds all of them, the ones that are not listed, too.
        public var folder: Files.Path

        /// Describes changes.
        public init(changes: [FileChange], more: UInt64 = 0, folder: Files.Path) {
            self.changes = changes
            self.more = more
            self.folder = folder
        }
    }

    /// A location.
    public struct Place: Codable, Hashable, Sendable {
        /// Its number.
        public var location: Int64
        /// The name people call it by.
        public var name: String
        /// Its path from the top of the file system.
        public var path: Files.Path

        /// Names a location.
        public init(location: Int64, name: String, path: Files.Path) {
            self.location = location
            self.name = name
            self.path = path
        }
    }

    /// A scan of a location.
    public struct Scan: Codable, Hashable, Sendable {
        /// The location.
        public var place: Place
        /// How far it is.
        public var progress: Library.Progress
        /// Why it has ended before its end.
        public var problem: String?

        /// Describes a scan.
        public init(place: Place, progress: Library.Progress, problem: String? = nil) {
            self.place = place
            self.progress = progress
            self.problem = problem
        }
    }

    /// Tags that were given to files, taken away from them, or deleted.
    public struct TagChanges: Codable, Hashable, Sendable {
        /// The tags that files got, each with those above it.
        public var added: [String]
        /// The tags that files lost.
        public var removed: [String]
        /// The tags that are not there any more, with all beneath them.
        public var deleted: [String]
        /// The first of the files, at most 256.
        public var paths: [Files.Path]
        /// The number of files that are not listed.
        public var more: UInt64

        /// Describes changes.
        public init(
            added: [String] = [], removed: [String] = [], deleted: [String] = [], paths: [Files.Path] = [],
            more: UInt64 = 0
        ) {
            self.added = added
            self.removed = removed
            self.deleted = deleted
            self.paths = paths
            self.more = more
        }
    }

    /// An event with its number.
    public struct Numbered: Codable, Hashable, Sendable {
        /// The library's id.
        public var library: String
        /// The time at which the device began to count, in milliseconds since 1970.
        public var epoch: UInt64
        /// Its number among the device's events of that epoch; they grow, with holes.
        public var sequence: UInt64
        /// When it happened, in milliseconds since 1970.
        public var time: Int64
        /// What happened.
        public var event: LibraryEvent

        /// Numbers an event.
        public init(library: String, epoch: UInt64, sequence: UInt64, time: Int64, event: LibraryEvent) {
            self.library = library
            self.epoch = epoch
            self.sequence = sequence
            self.time = time
            self.event = event
        }
    }

    /// What a subscriber receives.
    @nonexhaustive
    public enum Delivery: StreamMessage, Hashable {
        /// An event.
        case event(Numbered)
        /// Events are missing here: what was known of the library is to be asked for again.
        case gap(Events.Gap)
    }

    /// Sends what happens to the library, as it happens, until the caller leaves.
    public enum Follow: StreamMethod {
        /// The input: what is wanted.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id; absent: any.
            public var library: String?
            /// The types wanted; none: all.
            public var types: [LibraryEvent.Kind]
            /// The things wanted; none: all.
            public var resources: [LibraryEvent.Resource]
            /// Wants only what is at this path, beneath it or around it; absent: all.
            public var path: Files.Path?
            /// The last event received before; those behind it are sent first, or a gap where they are not kept.
            public var after: Position?
            /// The number of events kept while the caller is slow, 1…4096; then the oldest make room, and a gap says so.
            public var buffer: UInt64

            /// Makes the input.
            public init(
                library: String? = nil, types: [LibraryEvent.Kind] = [], resources: [LibraryEvent.Resource] = [],
                path: Files.Path? = nil, after: Position? = nil, buffer: UInt64 = 256
            ) {
                self.library = library
                self.types = types
                self.resources = resources
                self.path = path
                self.after = after
                self.buffer = buffer
            }
        }

        /// The answer: the last event before those that come, those asked for again left aside.
        public typealias Output = Position
        /// Nothing.
        public typealias Upstream = Nothing
        /// The events, and what is missing among them.
        public typealias Downstream = Delivery
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "events.library", by: .grant(.library), isIdempotent: true, "Sends what happens to the library.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }
}

extension LibraryEvents.Follow.Input: OmissibleInput {
    /// Everything from now on.
    public static var usual: Self { Self() }
    /// Nothing.
    public static var required: Set<String> { [] }
}

extension LibraryEvents.Follow.Input {
    /// The part of an event that is wanted; `nil` when none is.
    ///
    /// An event that lists only some of its files is wanted when those it does not list may be.
    package func wanted(of event: LibraryEvent) -> LibraryEvent? {
        guard event.kinds.contains(where: { types.isEmpty || types.contains($0) }),
            resources.isEmpty || event.resource.map(resources.contains) ?? true
        else { return nil }
        switch event {
        case .files(var files):
            guard path.map({ files.folder.isAround($0) || $0.isAround(files.folder) }) ?? true else { return nil }
            files.changes.removeAll { change in
                if !types.isEmpty, !types.contains(change.kind.type) { return true }
                return path.map { !$0.isAround(change.path) && !(change.from.map($0.isAround) ?? false) } ?? false
            }
            return files.changes.isEmpty && files.more == 0 ? nil : .files(files)
        case .locationAdded(let place), .locationRemoved(let place), .scanBegan(let place):
            return concerns(place.path) ? event : nil
        case .scanProgressed(let scan), .scanEnded(let scan): return concerns(scan.place.path) ? event : nil
        case .tags(let tags):
            // A tag that is deleted concerns files that nobody lists.
            let isWanted = path == nil || !tags.deleted.isEmpty || tags.more > 0 || tags.paths.contains(where: concerns)
            return isWanted ? event : nil
        case .unknown: return event
        }
    }

    private func concerns(_ other: Files.Path) -> Bool { path.map { $0.isAround(other) || other.isAround($0) } ?? true }
}

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
        case .scanBegan: [.scanBegan]
        case .scanProgressed: [.scanProgressed]
        case .scanEnded: [.scanEnded]
        case .tags: [.tagsChanged]
        case .unknown: Kind.allCases
        }
    }

    /// The kind of thing it is about; `nil` of one that this version does not know.
    public var resource: Resource? {
        switch self {
        case .files: .file
        case .locationAdded, .locationRemoved, .scanBegan, .scanProgressed, .scanEnded: .location
        case .tags: .tag
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

extension Files.Path {
    /// Tells whether the other path is this one, or beneath it.
    fileprivate func isAround(_ other: Files.Path) -> Bool {
        let own = bytes.last == UInt8(ascii: "/") ? bytes.dropLast() : bytes[...]
        guard other.bytes.starts(with: own) else { return false }
        return other.bytes.count == own.count || other.bytes[own.count] == UInt8(ascii: "/")
    }
}

// MARK: - As they are written

extension LibraryEvent: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case files, locationAdded, locationRemoved, scanBegan, scanProgressed, scanEnded, tags
    }

    /// Reads an object of one member, named for its case; one that is not known is ``unknown``.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard let key = container.allKeys.first else {
            self = .unknown
            return
        }
        switch key {
        case .files: self = .files(try container.decode(LibraryEvents.FileChanges.self, forKey: key))
        case .locationAdded: self = .locationAdded(try container.decode(LibraryEvents.Place.self, forKey: key))
        case .locationRemoved: self = .locationRemoved(try container.decode(LibraryEvents.Place.self, forKey: key))
        case .scanBegan: self = .scanBegan(try container.decode(LibraryEvents.Place.self, forKey: key))
        case .scanProgressed: self = .scanProgressed(try container.decode(LibraryEvents.Scan.self, forKey: key))
        case .scanEnded: self = .scanEnded(try container.decode(LibraryEvents.Scan.self, forKey: key))
        case .tags: self = .tags(try container.decode(LibraryEvents.TagChanges.self, forKey: key))
        }
    }

    /// Writes an object of one member, named for its case.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .files(let files): try container.encode(files, forKey: .files)
        case .locationAdded(let place): try container.encode(place, forKey: .locationAdded)
        case .locationRemoved(let place): try container.encode(place, forKey: .locationRemoved)
        case .scanBegan(let place): try container.encode(place, forKey: .scanBegan)
        case .scanProgressed(let scan): try container.encode(scan, forKey: .scanProgressed)
        case .scanEnded(let scan): try container.encode(scan, forKey: .scanEnded)
        case .tags(let tags): try container.encode(tags, forKey: .tags)
        case .unknown: break
        }
    }
}

extension LibraryEvent: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { CodingKeys.allCases.map(\.rawValue) }
}

extension LibraryEvents.Delivery: Codable {
    private enum CodingKeys: String, CodingKey { case event, gap }

    /// Reads an object of one member, named for its case.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        switch container.allKeys.first {
        case .event: self = .event(try container.decode(LibraryEvents.Numbered.self, forKey: .event))
        case .gap: self = .gap(try container.decode(Events.Gap.self, forKey: .gap))
        case nil: throw KithError(.invalid, "A delivery has the member `event` or `gap`.")
        }
    }

    /// Writes an object of one member, named for its case.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .event(let event): try container.encode(event, forKey: .event)
        case .gap(let gap): try container.encode(gap, forKey: .gap)
        }
    }
}

extension LibraryEvents.Delivery: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["event", "gap"] }
}
