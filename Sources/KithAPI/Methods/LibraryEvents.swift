import KithIdentity
import KithWire

/// Something that happened to a library, or to the device that holds it.
@nonexhaustive
public enum LibraryEvent: Hashable, Sendable {
    /// Files came, changed, moved or went, in one transaction.
    case files(LibraryEvents.FileChanges)
    /// A location was added.
    case locationAdded(LibraryEvents.Place)
    /// A location was removed; the files stay as they are.
    case locationRemoved(LibraryEvents.Place)
    /// A location has another name, mode or other rules.
    case locationChanged(LibraryEvents.Place)
    /// A scan has begun.
    case scanBegan(LibraryEvents.Place)
    /// A scan goes on; of those that wait for a slow subscriber only the last one is delivered.
    case scanProgressed(LibraryEvents.Scan)
    /// A scan has ended.
    case scanEnded(LibraryEvents.Scan)
    /// Files got tags or lost some, or a tag was deleted.
    case tags(LibraryEvents.TagChanges)
    /// Files got stars, a mark as a favourite or a note, or lost them; for those who may read files.
    case annotations(LibraryEvents.AnnotationChanges)
    /// The library itself was made, opened, closed, renamed, forgotten or deleted.
    case library(LibraryEvents.LibraryChange)
    /// A job was added, or its state is another one; for the device's own person only.
    case jobChanged(Jobs.Job)
    /// A job goes on; of those that wait for a slow subscriber only the last one of a job is delivered.
    case jobProgressed(Jobs.Job)
    /// A job is not kept any more.
    case jobRemoved(Jobs.Reference)
    /// A file system was mounted; for the device's own person only.
    case volumeAdded(Volumes.Volume)
    /// A file system was unmounted, or its disk was taken out; its room is not told.
    case volumeRemoved(Volumes.Volume)
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
        /// A location that has another name, mode or other rules.
        case locationChanged = "location.changed"
        /// A scan that has begun.
        case scanBegan = "scan.began"
        /// A scan that goes on.
        case scanProgressed = "scan.progressed"
        /// A scan that has ended.
        case scanEnded = "scan.ended"
        /// Tags that were given, taken away or deleted.
        case tagsChanged = "tags.changed"
        /// Stars, marks and notes that files got or lost.
        case annotationsChanged = "annotations.changed"
        /// A library that was made.
        case libraryCreated = "library.created"
        /// A library that was opened.
        case libraryOpened = "library.opened"
        /// A library that was closed.
        case libraryClosed = "library.closed"
        /// A library that has another name.
        case libraryRenamed = "library.renamed"
        /// A library that was closed for good.
        case libraryForgotten = "library.forgotten"
        /// A library that was deleted.
        case libraryDeleted = "library.deleted"
        /// A job that was added, or whose state is another one.
        case jobChanged = "job.changed"
        /// A job that goes on.
        case jobProgressed = "job.progressed"
        /// A job that is not kept any more.
        case jobRemoved = "job.removed"
        /// A file system that was mounted.
        case volumeAdded = "volume.added"
        /// A file system that was unmounted.
        case volumeRemoved = "volume.removed"
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
        /// Stars, marks and notes of files.
        case annotation
        /// Libraries themselves.
        case library
        /// Jobs of the device, operations on files among them.
        case job
        /// Mounted file systems.
        case volume
    }
}

/// The events of a device's library.
public enum LibraryEvents {
    /// The ``Numbered/library`` of jobs and volumes, which belong to the device and to no library of it.
    public static let ofDevice = "device"

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

    /// Stars, marks as a favourite and notes that files got or lost; not which.
    public struct AnnotationChanges: Codable, Hashable, Sendable {
        /// What a person notes of a file, beside tags.
        @nonexhaustive
        public enum Field: String, Codable, Hashable, Sendable, CaseIterable {
            /// The mark as a favourite.
            case favorite
            /// The stars.
            case rating
            /// The note.
            case note
        }

        /// What changed.
        public var fields: [Field]
        /// The first of the files, at most 256.
        public var paths: [Files.Path]
        /// The number of files that are not listed.
        public var more: UInt64

        /// Describes changes.
        public init(fields: [Field], paths: [Files.Path] = [], more: UInt64 = 0) {
            self.fields = fields
            self.paths = paths
            self.more = more
        }
    }

    /// What became of a library, whose id is that of the event.
    public struct LibraryChange: Codable, Hashable, Sendable {
        /// The kinds of changes.
        @nonexhaustive
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            /// It was made, or came in with a file, and is open.
            case created
            /// It was opened, or another one came in its place.
            case opened
            /// It was closed, and stays in the list.
            case closed
            /// It has another name.
            case renamed
            /// It was closed for good: it is not in the list any more, and its folder stays.
            case forgotten
            /// It was deleted.
            case deleted
        }

        /// What became of it.
        public var kind: Kind
        /// Its name; of one that is renamed, the new one.
        public var name: String
        /// The name before, of one that is renamed.
        public var before: String?

        /// Describes a change.
        public init(kind: Kind, name: String, before: String? = nil) {
            self.kind = kind
            self.name = name
            self.before = before
        }
    }

    /// An event with its number.
    public struct Numbered: Codable, Hashable, Sendable {
        /// The library's id; ``LibraryEvents/ofDevice`` for jobs and volumes.
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
    ///
    /// The device's own person hears of its jobs and volumes, too; other devices do not.
    public enum Follow: StreamMethod {
        /// The input: what is wanted.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id, without jobs and volumes then; absent: any.
            public var library: String?
            /// The types wanted; none: all.
            public var types: [LibraryEvent.Kind]
            /// The things wanted; none: all.
            public var resources: [LibraryEvent.Resource]
            /// Wants only what is at this path, beneath it or around it, and no jobs; absent: all.
            public var path: Files.Path?
            /// Wants only this job, by its id or the beginning of it; absent: all.
            public var job: String?
            /// The last event received before; those behind it are sent first, or a gap where they are not kept.
            public var after: Position?
            /// The number of events kept while the caller is slow, 1…4096; then the oldest make room, and a gap says so.
            public var buffer: UInt64

            /// Makes the input.
            public init(
                library: String? = nil, types: [LibraryEvent.Kind] = [], resources: [LibraryEvent.Resource] = [],
                path: Files.Path? = nil, job: String? = nil, after: Position? = nil, buffer: UInt64 = 256
            ) {
                self.library = library
                self.types = types
                self.resources = resources
                self.path = path
                self.job = job
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

// MARK: - As they are written

extension LibraryEvent: Codable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case files, locationAdded, locationRemoved, locationChanged, scanBegan, scanProgressed, scanEnded, tags
        case annotations, library
        case jobChanged, jobProgressed, jobRemoved, volumeAdded, volumeRemoved
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
        case .locationChanged: self = .locationChanged(try container.decode(LibraryEvents.Place.self, forKey: key))
        case .scanBegan: self = .scanBegan(try container.decode(LibraryEvents.Place.self, forKey: key))
        case .scanProgressed: self = .scanProgressed(try container.decode(LibraryEvents.Scan.self, forKey: key))
        case .scanEnded: self = .scanEnded(try container.decode(LibraryEvents.Scan.self, forKey: key))
        case .tags: self = .tags(try container.decode(LibraryEvents.TagChanges.self, forKey: key))
        case .annotations:
            self = .annotations(try container.decode(LibraryEvents.AnnotationChanges.self, forKey: key))
        case .library: self = .library(try container.decode(LibraryEvents.LibraryChange.self, forKey: key))
        case .jobChanged: self = .jobChanged(try container.decode(Jobs.Job.self, forKey: key))
        case .jobProgressed: self = .jobProgressed(try container.decode(Jobs.Job.self, forKey: key))
        case .jobRemoved: self = .jobRemoved(try container.decode(Jobs.Reference.self, forKey: key))
        case .volumeAdded: self = .volumeAdded(try container.decode(Volumes.Volume.self, forKey: key))
        case .volumeRemoved: self = .volumeRemoved(try container.decode(Volumes.Volume.self, forKey: key))
        }
    }

    /// Writes an object of one member, named for its case.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .files(let files): try container.encode(files, forKey: .files)
        case .locationAdded(let place): try container.encode(place, forKey: .locationAdded)
        case .locationRemoved(let place): try container.encode(place, forKey: .locationRemoved)
        case .locationChanged(let place): try container.encode(place, forKey: .locationChanged)
        case .scanBegan(let place): try container.encode(place, forKey: .scanBegan)
        case .scanProgressed(let scan): try container.encode(scan, forKey: .scanProgressed)
        case .scanEnded(let scan): try container.encode(scan, forKey: .scanEnded)
        case .tags(let tags): try container.encode(tags, forKey: .tags)
        case .annotations(let notes): try container.encode(notes, forKey: .annotations)
        case .library(let library): try container.encode(library, forKey: .library)
        case .jobChanged(let job): try container.encode(job, forKey: .jobChanged)
        case .jobProgressed(let job): try container.encode(job, forKey: .jobProgressed)
        case .jobRemoved(let job): try container.encode(job, forKey: .jobRemoved)
        case .volumeAdded(let volume): try container.encode(volume, forKey: .volumeAdded)
        case .volumeRemoved(let volume): try container.encode(volume, forKey: .volumeRemoved)
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
