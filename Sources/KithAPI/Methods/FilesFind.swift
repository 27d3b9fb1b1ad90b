import KithIdentity
public import KithWire

extension Files {
    /// Searches a folder and everything beneath it: the stream carries what is found.
    ///
    /// The search is done on the device. Links are not followed, not even the path itself unless it ends in a slash.
    /// The order is the file system's.
    public enum Find: StreamMethod {
        /// The input: the folder to search, and what for.
        public struct Input: Codable, Hashable, Sendable {
            /// The path to begin at.
            public var path: Path
            /// The filter for what is reported.
            public var filter: Filter
            /// The least number of levels below the path; 0 includes the path itself.
            public var minimumDepth: UInt32
            /// The greatest number of levels below the path; `nil`: no limit.
            public var maximumDepth: UInt32?
            /// True to leave folders of other file systems alone.
            public var oneFileSystem: Bool
            /// True to report owners and groups by name, and the number of each file's names; `nil` is false.
            public var details: Bool?
            /// True when paths and kinds are enough: they come as ``Found/names`` then, where the device can tell them
            /// without looking at each; `nil`: no.
            public var namesOnly: Bool?

            /// Makes the input.
            public init(
                path: Path, filter: Filter = Filter(), minimumDepth: UInt32 = 0, maximumDepth: UInt32? = nil,
                oneFileSystem: Bool = false, details: Bool? = nil, namesOnly: Bool? = nil
            ) {
                self.path = path
                self.filter = filter
                self.minimumDepth = minimumDepth
                self.maximumDepth = maximumDepth
                self.oneFileSystem = oneFileSystem
                self.details = details
                self.namesOnly = namesOnly
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.find", by: .grant(.files, "read"), isIdempotent: true, "Searches a folder and everything beneath it."
        )
        /// Nothing.
        public typealias Upstream = Nothing
        /// The things found, some at a time.
        public typealias Downstream = Found
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// The conditions of a search: it reports everything that meets all of them.
    public struct Filter: Codable, Hashable, Sendable {
        /// A pattern as in a shell: `*`, `?`, `[a-z]`, and `\` before a literal character.
        public struct Pattern: Codable, Hashable, Sendable {
            /// The pattern.
            public var glob: String
            /// True to match the whole path, from the one searched on (`*` matches slashes too); else the name.
            public var isPath: Bool
            /// True to treat capitals and small letters as the same.
            public var ignoresCase: Bool

            /// Makes a pattern.
            public init(_ glob: String, isPath: Bool = false, ignoresCase: Bool = false) {
                self.glob = glob
                self.isPath = isPath
                self.ignoresCase = ignoresCase
            }
        }

        /// Limits of a number, both inclusive.
        public struct Bounds: Codable, Hashable, Sendable {
            /// The least.
            public var minimum: UInt64?
            /// The most.
            public var maximum: UInt64?

            /// Makes limits.
            public init(minimum: UInt64? = nil, maximum: UInt64? = nil) {
                self.minimum = minimum
                self.maximum = maximum
            }

            /// Tells whether a number lies within.
            public func contains(_ number: UInt64) -> Bool {
                number >= minimum ?? 0 && number <= maximum ?? .max
            }
        }

        /// The patterns, all of which must match.
        ///
        /// A filter has at most 64 patterns and 128 filters in it, no more than 16 levels deep.
        public var patterns: [Pattern]
        /// The kinds of things wanted; empty: any.
        public var kinds: [Kind]
        /// The kinds of special things wanted; empty: any.
        public var specials: [Special]
        /// The size, in bytes.
        public var size: Bounds
        /// The time since the last change, in seconds by the device's own clock.
        public var age: Bounds
        /// Further filters, all of which must be met.
        public var allOf: [Filter]
        /// Further filters, at least one of which must be met; empty: no condition.
        public var anyOf: [Filter]
        /// Further filters, none of which may be met.
        public var noneOf: [Filter]

        /// Makes a filter; the default is met by everything.
        public init(
            patterns: [Pattern] = [], kinds: [Kind] = [], specials: [Special] = [], size: Bounds = Bounds(),
            age: Bounds = Bounds(), allOf: [Filter] = [], anyOf: [Filter] = [], noneOf: [Filter] = []
        ) {
            self.patterns = patterns
            self.kinds = kinds
            self.specials = specials
            self.size = size
            self.age = age
            self.allOf = allOf
            self.anyOf = anyOf
            self.noneOf = noneOf
        }

        /// Reads a filter; one of an older kith has no others in it, and no kinds of what is special.
        public init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            patterns = try values.decode([Pattern].self, forKey: .patterns)
            kinds = try values.decode([Kind].self, forKey: .kinds)
            specials = try values.decodeIfPresent([Special].self, forKey: .specials) ?? []
            size = try values.decode(Bounds.self, forKey: .size)
            age = try values.decode(Bounds.self, forKey: .age)
            allOf = try values.decodeIfPresent([Filter].self, forKey: .allOf) ?? []
            anyOf = try values.decodeIfPresent([Filter].self, forKey: .anyOf) ?? []
            noneOf = try values.decodeIfPresent([Filter].self, forKey: .noneOf) ?? []
        }
    }

    /// A part of what a search has found.
    ///
    /// The last message is marked as such, with a ``failure`` when the search did not get to its end.
    public struct Found: StreamMessage, Hashable {
        /// The things found; their names are paths from the one searched on, empty for that itself.
        public var entries: [Entry]
        /// Further things, after ``entries``, of which only path and kind are given: for each a letter (`f` a file, `d` a
        /// folder, `l` a link, `p`, `s`, `c`, `b` a pipe, a socket, devices), the path, and a zero byte.
        public var names: ByteString?
        /// The things that could not be read, and why; at most 100 in all, the rest is only counted.
        public var skipped: [Skipped]
        /// The number of things that could not be read so far.
        public var skippedCount: UInt64
        /// True for the last message.
        public var isLast: Bool
        /// The error that ended the search early.
        public var failure: Failure?

        /// Makes a message.
        public init(
            entries: [Entry] = [], names: ByteString? = nil, skipped: [Skipped] = [], skippedCount: UInt64 = 0,
            isLast: Bool = false,
            failure: Failure? = nil
        ) {
            self.entries = entries
            self.names = names
            self.skipped = skipped
            self.skippedCount = skippedCount
            self.isLast = isLast
            self.failure = failure
        }
    }

    /// Adds up the disk usage of a folder and everything beneath it: the stream carries the sums.
    ///
    /// The counting is done on the device. A file with several names counts once; links are not followed.
    public enum Usage: StreamMethod {
        /// The input: the folder to add up, and what to report.
        public struct Input: Codable, Hashable, Sendable {
            /// The file or folder.
            public var path: Path
            /// The levels below down to which folders are reported; `nil`: all.
            public var maximumDepth: UInt32?
            /// True to report files too.
            public var files: Bool
            /// True to leave folders of other file systems alone.
            public var oneFileSystem: Bool

            /// Makes the input.
            public init(
                path: Path, maximumDepth: UInt32? = nil, files: Bool = false, oneFileSystem: Bool = false
            ) {
                self.path = path
                self.maximumDepth = maximumDepth
                self.files = files
                self.oneFileSystem = oneFileSystem
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.usage", by: .grant(.files, "read"), isIdempotent: true, "Adds up the disk usage of a folder.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The sums.
        public typealias Downstream = Used
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// A part of what has been added up: each folder after all that is in it, the path itself last.
    public struct Used: StreamMessage, Hashable {
        /// The sum of one folder, with all beneath it, or of one file.
        public struct Item: Codable, Hashable, Sendable {
            /// The path, from the one asked for on; empty for that itself.
            public var path: Path
            /// Bytes on the disk: fewer than the sizes where files have holes.
            public var allocated: UInt64
            /// The sum of the sizes.
            public var apparent: UInt64

            /// Makes an item.
            public init(path: Path, allocated: UInt64, apparent: UInt64) {
                self.path = path
                self.allocated = allocated
                self.apparent = apparent
            }
        }

        /// The items.
        public var items: [Item]
        /// The things that could not be read, and why; at most 100 in all, the rest is only counted.
        public var skipped: [Skipped]
        /// The number of things that could not be read so far.
        public var skippedCount: UInt64
        /// True for the last message.
        public var isLast: Bool
        /// The error that ended it early.
        public var failure: Failure?

        /// Makes a message.
        public init(
            items: [Item] = [], skipped: [Skipped] = [], skippedCount: UInt64 = 0, isLast: Bool = false,
            failure: Failure? = nil
        ) {
            self.items = items
            self.skipped = skipped
            self.skippedCount = skippedCount
            self.isLast = isLast
            self.failure = failure
        }
    }
}

extension Files.Find.Input: OmissibleInput {
    /// Everything in it, at all depths.
    public static var usual: Self { Self(path: "/") }
    /// The folder.
    public static var required: Set<String> { ["path"] }
}

extension Files.Usage.Input: OmissibleInput {
    /// Folders at all depths.
    public static var usual: Self { Self(path: "/") }
    /// The folder.
    public static var required: Set<String> { ["path"] }
}
