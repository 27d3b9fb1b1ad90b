import KithIdentity

extension Locations {
    /// Reads the files of a location whose content is not known, as a job; the one that is under way, if there is one.
    public enum Identify: Method {
        /// The input: the location.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// The number of the location.
            public var id: Int64
            /// Whether files of more than 1 MiB are read whole, and not a sample of them.
            public var isWhole: Bool?

            /// Makes the input.
            public init(library: String? = nil, id: Int64, isWhole: Bool? = nil) {
                self.library = library
                self.id = id
                self.isWhole = isWhole
            }
        }

        /// The answer: the job.
        public typealias Output = Jobs.Job
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.identify", by: .owner, "Reads the files of a location whose content is not known, as a job.")
    }

    /// Reads the files of a location again and compares them with what they were, as a job.
    public enum Verify: Method {
        /// The input: the location.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// The number of the location.
            public var id: Int64

            /// Makes the input.
            public init(library: String? = nil, id: Int64) {
                self.library = library
                self.id = id
            }
        }

        /// The answer: the job.
        public typealias Output = Jobs.Job
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.verify", by: .owner, "Reads the files of a location again and compares them, as a job.")
    }

    /// Says what came of a job of ``Identify`` or ``Verify`` that is done.
    public enum Report: Method {
        /// The input: the job.
        public typealias Input = Jobs.Reference
        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The files that were read, and their bytes.
            public var files: UInt64
            /// The bytes of those.
            public var bytes: UInt64
            /// Those that had changed since they were scanned.
            public var changed: UInt64
            /// Those that were not there.
            public var gone: UInt64
            /// Those that could not be read.
            public var unreadable: UInt64
            /// Those with other bytes than before, and the same size and times.
            public var damaged: UInt64
            /// Some of the files that are gone, damaged or could not be read; at most 1,000.
            public var problems: [Problem]

            /// Makes the answer.
            public init(
                files: UInt64 = 0, bytes: UInt64 = 0, changed: UInt64 = 0, gone: UInt64 = 0, unreadable: UInt64 = 0,
                damaged: UInt64 = 0, problems: [Problem] = []
            ) {
                self.files = files
                self.bytes = bytes
                self.changed = changed
                self.gone = gone
                self.unreadable = unreadable
                self.damaged = damaged
                self.problems = problems
            }
        }

        /// A file with which something is wrong.
        public struct Problem: Codable, Hashable, Sendable {
            /// `damaged`, `gone` or `unreadable`.
            public var kind: String
            /// The file.
            public var path: Files.Path
            /// What the disk says; absent where that is all.
            public var reason: String?

            /// Describes a problem.
            public init(kind: String, path: Files.Path, reason: String? = nil) {
                self.kind = kind
                self.path = path
                self.reason = reason
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "locations.report", by: .owner, "Says what came of a job that read the files of a location.")
    }
}

/// Files of the library with the same content.
public enum Duplicates {
    /// A file, with all its names that are in the library: several are hard links to it.
    public struct Copy: Codable, Hashable, Sendable {
        /// The names.
        public var paths: [Files.Path]
        /// The number of the volume it lies on, as the system counts; copies with different ones do not fail together.
        public var volume: Int64
        /// The time of the last change, in seconds since 1970.
        public var modified: Int64
        /// When it was read last, in seconds since 1970.
        public var verified: Int64
        /// Whether its location is away.
        public var isOffline: Bool

        /// Describes a copy.
        public init(paths: [Files.Path], volume: Int64, modified: Int64, verified: Int64, isOffline: Bool) {
            self.paths = paths
            self.volume = volume
            self.modified = modified
            self.verified = verified
            self.isOffline = isOffline
        }
    }

    /// Files with the same content.
    public struct Group: Codable, Hashable, Sendable {
        /// The SHA-256 of the content, in hexadecimal.
        public var digest: String
        /// Bytes of each.
        public var size: UInt64
        /// Whether they were compared byte by byte for this answer; else they had this SHA-256 when they were read last.
        public var isCompared: Bool
        /// The files; at most 1,000 names of them.
        public var copies: [Copy]
        /// The number of files in all.
        public var count: Int
        /// The bytes that one of them alone would not take.
        public var waste: UInt64

        /// Describes a group.
        public init(digest: String, size: UInt64, isCompared: Bool, copies: [Copy], count: Int, waste: UInt64) {
            self.digest = digest
            self.size = size
            self.isCompared = isCompared
            self.copies = copies
            self.count = count
            self.waste = waste
        }
    }

    /// Finds files with the same content; reads those first that have their size in common and were not read yet.
    ///
    /// The reading is a job, which goes on when the caller leaves. Nothing is changed.
    public enum Find: StreamMethod {
        /// The input: what is looked at.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// Only what is in these folders, at most 100; absent: everything.
            public var folders: [Files.Path]?
            /// Only the copies of this file.
            public var of: Files.Path?
            /// The least size in bytes; absent: 1.
            public var minimumSize: UInt64?
            /// Whether the files of each group are compared byte by byte.
            public var isCompared: Bool?
            /// The most groups, 1…10,000; absent: as many.
            public var limit: Int?

            /// Makes the input.
            public init(
                library: String? = nil, folders: [Files.Path]? = nil, of: Files.Path? = nil,
                minimumSize: UInt64? = nil, isCompared: Bool? = nil, limit: Int? = nil
            ) {
                self.library = library
                self.folders = folders
                self.of = of
                self.minimumSize = minimumSize
                self.isCompared = isCompared
                self.limit = limit
            }
        }

        /// A message: one of its parts.
        public struct Finding: StreamMessage, Hashable {
            /// The job that reads, as it is now.
            public var job: Jobs.Job?
            /// The bytes compared until now.
            public var compared: UInt64?
            /// The next group, those that waste most first.
            public var group: Group?
            /// The last message: all there is, beyond the limit, too.
            public var totals: Totals?

            /// Makes a message.
            public init(
                job: Jobs.Job? = nil, compared: UInt64? = nil, group: Group? = nil, totals: Totals? = nil
            ) {
                self.job = job
                self.compared = compared
                self.group = group
                self.totals = totals
            }
        }

        /// All duplicates there are, by what was read of them.
        public struct Totals: Codable, Hashable, Sendable {
            /// The groups.
            public var groups: UInt64
            /// The files that are one more than needed.
            public var files: UInt64
            /// The bytes those take.
            public var waste: UInt64

            /// Describes the totals.
            public init(groups: UInt64, files: UInt64, waste: UInt64) {
                self.groups = groups
                self.files = files
                self.waste = waste
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// How far it is, the groups, and the totals.
        public typealias Downstream = Finding
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "duplicates.find", by: .owner, isIdempotent: true, "Finds files of the library with the same content.")
    }

    /// Says where else the content of a file is, by what the library knows; nothing is read.
    public enum Copies: Method {
        /// The input: the file.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// Its path.
            public var path: Files.Path

            /// Makes the input.
            public init(library: String? = nil, path: Files.Path) {
                self.library = library
                self.path = path
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The file and its copies; absent as long as the file was not read whole, or when it has changed since.
            public var group: Group?
            /// The number of volumes they lie on.
            public var volumes: Int
            /// Whether the bytes of the file itself are not what they were.
            public var isDamaged: Bool

            /// Makes the answer.
            public init(group: Group? = nil, volumes: Int = 0, isDamaged: Bool = false) {
                self.group = group
                self.volumes = volumes
                self.isDamaged = isDamaged
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "duplicates.copies", by: .grant(.library, "read"),
            "Says where else the content of a file of the library is.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.libraryRead) }
    }
}

extension Duplicates.Find.Input: OmissibleInput {
    /// All in the default library, by what was read of them.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
