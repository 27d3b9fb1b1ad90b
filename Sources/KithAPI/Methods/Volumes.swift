import KithIdentity

/// The file systems that are mounted on a device.
public enum Volumes {
    /// Where a volume is.
    @nonexhaustive
    public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// On a disk of the machine.
        case `internal`
        /// On something that can be taken out.
        case external
        /// On a server.
        case network
        /// Nowhere: in memory, or made of other file systems.
        case virtual
    }

    /// A mounted file system.
    public struct Volume: Codable, Hashable, Sendable {
        /// Where it is mounted.
        public var path: Files.Path
        /// What is mounted: `/dev/sda1`, `server:/export`.
        public var device: String
        /// The kind of file system: `ext4`, `nfs4`.
        public var fileSystem: String
        /// Where it is.
        public var kind: Kind
        /// What it is called by whoever made it.
        public var label: String?
        /// The UUID of the file system.
        public var uuid: String?
        /// What is the same wherever it is mounted; absent for what cannot be told from others.
        public var fingerprint: String?
        /// The bytes that fit; absent when it does not answer.
        public var capacity: UInt64?
        /// The bytes that are free for this user; absent when it does not answer.
        public var free: UInt64?
        /// Whether nothing can be written.
        public var isReadOnly: Bool
        /// Why nothing is known of its room.
        public var problem: String?

        /// Describes a volume.
        public init(
            path: Files.Path, device: String, fileSystem: String, kind: Kind, label: String? = nil,
            uuid: String? = nil, fingerprint: String? = nil, capacity: UInt64? = nil, free: UInt64? = nil,
            isReadOnly: Bool = false, problem: String? = nil
        ) {
            self.path = path
            self.device = device
            self.fileSystem = fileSystem
            self.kind = kind
            self.label = label
            self.uuid = uuid
            self.fingerprint = fingerprint
            self.capacity = capacity
            self.free = free
            self.isReadOnly = isReadOnly
            self.problem = problem
        }
    }

    /// Lists the volumes.
    public enum List: Method {
        /// The input: which.
        public struct Input: Codable, Hashable, Sendable {
            /// Whether those of the system's own making are listed, too: `proc`, `cgroup2`, ….
            public var all: Bool

            /// Makes the input.
            public init(all: Bool = false) { self.all = all }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The volumes, by their paths.
            public var volumes: [Volume]

            /// Makes the answer.
            public init(volumes: [Volume]) { self.volumes = volumes }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "volumes.list", by: .owner, "Lists the file systems that are mounted.")
    }

    /// Lists the volumes, and tells from then on when one is mounted or goes, until the caller leaves.
    public enum Follow: StreamMethod {
        /// The input: which.
        public typealias Input = List.Input
        /// All that are there.
        public struct Update: StreamMessage, Hashable {
            /// The volumes, by their paths.
            public var volumes: [Volume]

            /// Makes an update.
            public init(volumes: [Volume]) { self.volumes = volumes }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// All that are there, whenever that changes.
        public typealias Downstream = Update
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "volumes.follow", by: .owner, isIdempotent: true, "Tells which file systems are mounted, and go.")
    }

    /// Measures how fast a volume is, as a job: one file is written, read and gone again.
    public enum Test: Method {
        /// The input: the volume.
        public struct Input: Codable, Hashable, Sendable {
            /// A folder on it, where the file is made.
            public var path: Files.Path
            /// The bytes, 1 MiB…16 GiB; absent: 256 MiB.
            public var size: UInt64?

            /// Makes the input.
            public init(path: Files.Path, size: UInt64? = nil) {
                self.path = path
                self.size = size
            }
        }

        /// What was measured; the job's output.
        public struct Speed: Codable, Hashable, Sendable {
            /// The bytes that were written, and read.
            public var size: UInt64
            /// Bytes a second.
            public var write: UInt64
            /// Bytes a second.
            public var read: UInt64
            /// Whether the cache was bypassed; else the disk was waited for, and the cache was asked to forget.
            public var bypassesCache: Bool

            /// Makes a result.
            public init(size: UInt64, write: UInt64, read: UInt64, bypassesCache: Bool) {
                self.size = size
                self.write = write
                self.read = read
                self.bypassesCache = bypassesCache
            }
        }

        /// The answer: the job.
        public struct Output: Codable, Hashable, Sendable {
            /// The job.
            public var job: String

            /// Makes the answer.
            public init(job: String) { self.job = job }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "volumes.test", by: .owner, "Measures how fast a volume is written and read, as a job.")
    }

    /// Tells what a test has measured.
    public enum TestResult: Method {
        /// The input: the job.
        public struct Input: Codable, Hashable, Sendable {
            /// The job of a ``Test``.
            public var job: String

            /// Makes the input.
            public init(job: String) { self.job = job }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// What was measured; absent as long as it is not done.
            public var speed: Test.Speed?

            /// Makes the answer.
            public init(speed: Test.Speed?) { self.speed = speed }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "volumes.testResult", by: .owner, "Tells what a test of a volume has measured.")
    }

    /// Unmounts a volume, so that it can be taken out.
    public enum Eject: Method {
        /// The input: the volume.
        public struct Input: Codable, Hashable, Sendable {
            /// Where it is mounted.
            public var path: Files.Path

            /// Makes the input.
            public init(path: Files.Path) { self.path = path }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "volumes.eject", by: .owner, "Unmounts a volume, so that it can be taken out.")
    }
}

extension Locations {
    /// A location that is not where it was, and where its volume is mounted now.
    public struct Moved: Codable, Hashable, Sendable {
        /// The location.
        public var id: Int64
        /// Its name.
        public var name: String
        /// Where it was.
        public var path: Files.Path
        /// Where it lies on its volume's present mount.
        public var found: Files.Path

        /// Describes one.
        public init(id: Int64, name: String, path: Files.Path, found: Files.Path) {
            self.id = id
            self.name = name
            self.path = path
            self.found = found
        }
    }

    /// Finds the locations whose volume is mounted elsewhere.
    public enum FindMoved: Method {
        /// The input: the library.
        public struct Input: Codable, Hashable, Sendable {
            /// A library's name or UUID; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(library: String? = nil) { self.library = library }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The locations.
            public var locations: [Moved]

            /// Makes the answer.
            public init(locations: [Moved]) { self.locations = locations }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "locations.findMoved", by: .owner, "Finds the locations whose volume is mounted elsewhere.")
    }

    /// Tells the library where a location is now; what is known of its files stays, with their tags.
    public enum Relocate: Method {
        /// The input: the location, and where it is.
        public struct Input: Codable, Hashable, Sendable {
            /// A library's name or UUID; absent: the default one.
            public var library: String?
            /// Its number.
            public var id: Int64
            /// The folder.
            public var path: Files.Path
            /// Whether it is taken for the same although it does not look it.
            public var force: Bool

            /// Makes the input.
            public init(library: String? = nil, id: Int64, path: Files.Path, force: Bool = false) {
                self.library = library
                self.id = id
                self.path = path
                self.force = force
            }
        }

        /// The answer: the location.
        public typealias Output = Library.Location
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.relocate", by: .owner, "Tells the library where a folder is now.")
    }
}

extension Volumes.List.Input: OmissibleInput {
    /// Those that hold a person's files.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Locations.FindMoved.Input: OmissibleInput {
    /// Of the default library.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Locations.Relocate.Input: OmissibleInput {
    /// One that has to look the same.
    public static var usual: Self { Self(id: 0, path: "") }
    /// The location, and where it is.
    public static var required: Set<String> { ["id", "path"] }
}
