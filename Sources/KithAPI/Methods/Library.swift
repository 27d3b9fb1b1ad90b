import KithIdentity

/// The library of a device: an index of the files in its locations, searched without the disks they lie on.
public enum Library {
    /// What a location leaves out.
    public struct Rules: Codable, Hashable, Sendable {
        /// Patterns in the syntax of `.gitignore`, relative to the location; at most 10,000 of at most 4,096 bytes.
        public var patterns: [String]
        /// Whether what the `.gitignore` files in it name is left out, too.
        public var followsIgnoreFiles: Bool

        /// Makes rules.
        public init(patterns: [String], followsIgnoreFiles: Bool) {
            self.patterns = patterns
            self.followsIgnoreFiles = followsIgnoreFiles
        }
    }

    /// How much of a location is in the library.
    @nonexhaustive
    public enum Mode: String, Codable, Hashable, Sendable, CaseIterable {
        /// The names in its folder itself.
        case shallow
        /// All that is beneath it.
        case recursive
        /// The same, and the content of each file is read, so that duplicates are known.
        case content
    }

    /// A folder whose files are in the library, with all that is beneath it.
    public struct Location: Codable, Hashable, Sendable {
        /// Its number, which it keeps.
        public var id: Int64
        /// The name people call it by.
        public var name: String
        /// Its path from the top of the file system.
        public var path: Files.Path
        /// What it leaves out.
        public var rules: Rules
        /// When it was added, in seconds since 1970.
        public var added: Int64
        /// When it was scanned last to the end, in seconds since 1970; absent as long as it was not.
        public var scanned: Int64?
        /// Whether it is being scanned.
        public var isScanning: Bool
        /// Whether changes are noticed as they happen; else the next scan finds them.
        public var isWatched: Bool
        /// Why it could not be scanned last; what is known of it can be searched all the same.
        public var problem: String?
        /// The number of names in it: files, folders and links.
        public var entries: Int
        /// How much of it is in the library; absent: ``Mode/recursive``.
        public var mode: Mode?
        /// The number of folders among them.
        public var folders: Int?

        /// Describes a location.
        public init(
            id: Int64, name: String, path: Files.Path, rules: Rules, added: Int64, scanned: Int64? = nil,
            isScanning: Bool = false, isWatched: Bool = false, problem: String? = nil, entries: Int = 0,
            mode: Mode? = nil, folders: Int? = nil
        ) {
            self.id = id
            self.name = name
            self.path = path
            self.rules = rules
            self.added = added
            self.scanned = scanned
            self.isScanning = isScanning
            self.isWatched = isWatched
            self.problem = problem
            self.entries = entries
            self.mode = mode
            self.folders = folders
        }
    }

    /// A file, folder or link in the library.
    public struct Entry: Codable, Hashable, Sendable {
        /// Its number, which it keeps when it is renamed or moved.
        public var id: Int64
        /// Its path from the top of the file system.
        public var path: Files.Path
        /// What it is.
        public var kind: Files.Kind
        /// What kind of file it is, by its name: `image`, `document`, …; absent for what is no file.
        public var category: String?
        /// Bytes; 0 for what is no file.
        public var size: UInt64
        /// The time of the last change, in seconds since 1970.
        public var modified: Int64
        /// The time at which the library saw it first, in seconds since 1970.
        public var added: Int64
        /// The number of its location.
        public var location: Int64
        /// Its tags, each with those above it: `work/clients`.
        public var tags: [String]
        /// The time at which it was made, in seconds since 1970; absent where the file system does not say.
        public var created: Int64?
        /// Whether a person has marked it as a favourite; absent: no.
        public var isFavorite: Bool?
        /// The stars it was given, 1…5; absent: none.
        public var rating: Int?
        /// The note on it; absent: none.
        ///
        /// In the answer to a search at most its first 1,024 bytes.
        public var note: String?
        /// A passage of its text around what was found in it; absent where its text was not asked for.
        public var snippet: [Passage]?

        /// A run of a passage.
        public struct Passage: Codable, Hashable, Sendable {
            /// The text, in one line, without control characters.
            public var text: String
            /// Whether it is what was asked for.
            public var isHit: Bool

            /// Makes a run.
            public init(text: String, isHit: Bool) {
                self.text = text
                self.isHit = isHit
            }
        }

        /// Describes an entry.
        public init(
            id: Int64, path: Files.Path, kind: Files.Kind, category: String?, size: UInt64, modified: Int64,
            added: Int64, location: Int64, tags: [String] = [], created: Int64? = nil, isFavorite: Bool? = nil,
            rating: Int? = nil, note: String? = nil, snippet: [Passage]? = nil
        ) {
            self.id = id
            self.path = path
            self.kind = kind
            self.category = category
            self.size = size
            self.modified = modified
            self.added = added
            self.location = location
            self.tags = tags
            self.created = created
            self.isFavorite = isFavorite
            self.rating = rating
            self.note = note
            self.snippet = snippet
        }
    }

    /// How far a scan is.
    public struct Progress: StreamMessage, Hashable {
        /// The folders listed.
        public var folders: UInt64
        /// The names seen in them.
        public var entries: UInt64
        /// Those the library did not hold.
        public var added: UInt64
        /// Those that are not as they were.
        public var changed: UInt64
        /// Those that were elsewhere.
        public var moved: UInt64
        /// Those that are not there any more.
        public var removed: UInt64
        /// The folders that could not be listed.
        public var problems: UInt64
        /// True for the last message: the scan has ended.
        public var isLast: Bool

        /// Describes a scan.
        public init(
            folders: UInt64 = 0, entries: UInt64 = 0, added: UInt64 = 0, changed: UInt64 = 0, moved: UInt64 = 0,
            removed: UInt64 = 0, problems: UInt64 = 0, isLast: Bool = false
        ) {
            self.folders = folders
            self.entries = entries
            self.added = added
            self.changed = changed
            self.moved = moved
            self.removed = removed
            self.problems = problems
            self.isLast = isLast
        }
    }
}

/// The locations of a device's library.
public enum Locations {
    /// Adds a folder to the library; it is scanned from then on, and kept as the disk is.
    public enum Add: Method {
        /// The input: the folder.
        public struct Input: Codable, Hashable, Sendable {
            /// Its path from the top of the file system.
            public var path: Files.Path
            /// What it is called; absent: its own name.
            public var name: String?
            /// What is left out; absent: as ``Libraries/Configure`` says, else what systems leave about, and what
            /// `.gitignore` files name.
            public var rules: Library.Rules?
            /// How much of it is in the library; absent: as ``Libraries/Configure`` says, else
            /// ``Library/Mode/recursive``.
            public var mode: Library.Mode?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(
                path: Files.Path, name: String? = nil, rules: Library.Rules? = nil, mode: Library.Mode? = nil,
                library: String? = nil
            ) {
                self.path = path
                self.name = name
                self.rules = rules
                self.mode = mode
                self.library = library
            }
        }

        /// The answer: the location.
        public typealias Output = Library.Location
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.add", by: .owner, "Adds a folder to the library and begins to scan it.")
    }

    /// Lists the locations in the order in which they were added.
    public enum List: Method {
        /// The input: the library.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(library: String? = nil) { self.library = library }
        }
        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The locations.
            public var locations: [Library.Location]

            /// Makes the answer.
            public init(locations: [Library.Location]) { self.locations = locations }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "locations.list", by: .grant(.library), "Lists the folders whose files are in the library.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }

    /// Takes a location out of the library, with what is noted of its files; the files stay as they are.
    public enum Remove: Method {
        /// The input: the location.
        public struct Input: Codable, Hashable, Sendable {
            /// Its number, in its library.
            public var id: Int64
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(id: Int64, library: String? = nil) {
                self.id = id
                self.library = library
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.remove", by: .owner, "Takes a folder out of the library; its files stay as they are.")
    }

    /// Scans a location, or follows the scan that is under way: it goes on when nobody follows it any more.
    public enum Scan: StreamMethod {
        /// The input: the location.
        public struct Input: Codable, Hashable, Sendable {
            /// Its number, in its library.
            public var id: Int64
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(id: Int64, library: String? = nil) {
                self.id = id
                self.library = library
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// How far it is, from time to time, and at the end.
        public typealias Downstream = Library.Progress
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "locations.scan", by: .owner, isIdempotent: true, "Brings the library to what is in a folder.")
    }
}

/// Searches of a device's library.
public enum Search {
    /// A place in the answer to a search; opaque, and good for the same query alone.
    public struct Cursor: Codable, Hashable, Sendable {
        /// The text that a device gave for it.
        public var text: String

        /// Takes the text of a place.
        public init(text: String) { self.text = text }

        /// Reads text; the number of an older client is taken, to be refused with a word.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                // Text or, when it is not that, a number: two forms of one value, not an error.
                self.init(text: text)
            } else {
                self.init(text: "#\(try container.decode(Int64.self))")
            }
        }

        /// Writes text.
        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(text)
        }
    }

    /// Finds files, folders and links.
    public enum Find: Method {
        /// The input: the query, and which part of the answer.
        public struct Input: Codable, Hashable, Sendable {
            /// The query, in the language that `kith search --help` describes; at most 4,096 bytes.
            public var query: String
            /// The most entries, 1…1,000; more count as that.
            public var limit: Int
            /// Where the answer begins: ``Output/next`` of the one before; absent: at the first entry.
            public var after: Cursor?
            /// The seconds by which the caller's clock is ahead of Greenwich, for dates; absent: 0.
            public var offsetFromUTC: Int?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?
            /// Whether all are counted, however long that takes; absent: no.
            public var countsAll: Bool?

            /// Makes the input.
            public init(
                query: String, limit: Int = 50, after: Cursor? = nil, offsetFromUTC: Int? = nil, library: String? = nil,
                countsAll: Bool? = nil
            ) {
                self.query = query
                self.limit = limit
                self.after = after
                self.offsetFromUTC = offsetFromUTC
                self.library = library
                self.countsAll = countsAll
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// What was found, in the query's order; without one, what fits its words best comes first.
            public var entries: [Library.Entry]
            /// Where the next part begins; absent at the end.
            public var next: Cursor?
            /// How many there are in all; absent where only counting would tell.
            public var total: Int?

            /// Makes the answer.
            public init(entries: [Library.Entry], next: Cursor? = nil, total: Int? = nil) {
                self.entries = entries
                self.next = next
                self.total = total
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "search.files", by: .grant(.library), "Finds files in the library by a query.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }

    /// Finds files, and tells from then on which come and which go, until the caller leaves.
    public enum Follow: StreamMethod {
        /// The input: the query.
        public struct Input: Codable, Hashable, Sendable {
            /// The query, as of ``Find``.
            public var query: String
            /// The most entries that are followed, 1…1,000; more count as that.
            public var limit: Int
            /// As of ``Find``.
            public var offsetFromUTC: Int?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(query: String, limit: Int = 200, offsetFromUTC: Int? = nil, library: String? = nil) {
                self.query = query
                self.limit = limit
                self.offsetFromUTC = offsetFromUTC
                self.library = library
            }
        }

        /// A difference to what was told before; the first one to nothing.
        public struct Difference: StreamMessage, Hashable {
            /// What is there now and was not, or is not as it was; in the query's order.
            public var found: [Library.Entry]
            /// The numbers of those that are not found any more.
            public var gone: [Int64]

            /// Makes a difference.
            public init(found: [Library.Entry], gone: [Int64]) {
                self.found = found
                self.gone = gone
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// The differences.
        public typealias Downstream = Difference
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "search.follow", by: .grant(.library), isIdempotent: true, "Finds files, and tells what comes and goes.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }
}

/// The tags of a device's library.
public enum Tags {
    /// A tag.
    public struct Tag: Codable, Hashable, Sendable {
        /// Its name with those above it: `work/clients`.
        public var name: String
        /// The number of entries that carry it itself.
        public var uses: Int

        /// Describes a tag.
        public init(name: String, uses: Int) {
            self.name = name
            self.uses = uses
        }
    }

    /// Lists the tags by their names.
    public enum List: Method {
        /// The input: the library.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(library: String? = nil) { self.library = library }
        }
        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The tags.
            public var tags: [Tag]

            /// Makes the answer.
            public init(tags: [Tag]) { self.tags = tags }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query("tags.list", by: .grant(.library), "Lists the tags.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }

    /// Gives tags to entries, and takes them away.
    public enum Change: Method {
        /// The input: the entries, and the tags.
        public struct Input: Codable, Hashable, Sendable {
            /// The paths of entries of the library; at most 10,000.
            public var paths: [Files.Path]
            /// The tags they get; those that are not there are made, with those above them.
            public var add: [String]
            /// The tags that are taken away.
            public var remove: [String]
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(
                paths: [Files.Path], add: [String] = [], remove: [String] = [], library: String? = nil
            ) {
                self.paths = paths
                self.add = add
                self.remove = remove
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The number of entries that have other tags than before.
            public var changed: Int?

            /// Makes the answer.
            public init(changed: Int? = nil) { self.changed = changed }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "tags.change", by: .owner, isIdempotent: true, "Gives tags to files of the library, and takes them away.")
    }

    /// Gives a tag another name, and with it those beneath it; the files that carry them carry the new ones.
    public enum Rename: Method {
        /// The input: the tag, and its new name.
        public struct Input: Codable, Hashable, Sendable {
            /// Its name, with those above it.
            public var name: String
            /// Its new name, with those above it; where there is such a tag, both are one from then on.
            public var newName: String
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(name: String, newName: String, library: String? = nil) {
                self.name = name
                self.newName = newName
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The number of tags that have another name: the tag, and those beneath it; 0 when it is the same name.
            public var tags: Int
            /// The number of files that carry one of them.
            public var files: Int
            /// Whether there was a tag of the new name already.
            public var isMerged: Bool

            /// Makes the answer.
            public init(tags: Int, files: Int, isMerged: Bool) {
                self.tags = tags
                self.files = files
                self.isMerged = isMerged
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "tags.rename", by: .owner, "Gives a tag and those beneath it another name, on all files at once.")
    }

    /// Deletes a tag and those beneath it; the files stay as they are.
    public enum Delete: Method {
        /// The input: the tag.
        public struct Input: Codable, Hashable, Sendable {
            /// Its name, with those above it.
            public var name: String
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(name: String, library: String? = nil) {
                self.name = name
                self.library = library
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "tags.delete", by: .owner, "Deletes a tag and those beneath it.")
    }
}

extension Search.Find.Input: OmissibleInput {
    /// The first fifty.
    public static var usual: Self { Self(query: "") }
    /// The query.
    public static var required: Set<String> { ["query"] }
}

extension Search.Follow.Input: OmissibleInput {
    /// The first two hundred.
    public static var usual: Self { Self(query: "") }
    /// The query.
    public static var required: Set<String> { ["query"] }
}

extension Tags.Change.Input: OmissibleInput {
    /// None is given, none taken away.
    public static var usual: Self { Self(paths: []) }
    /// The paths.
    public static var required: Set<String> { ["paths"] }
}

extension Locations.List.Input: OmissibleInput {
    /// Those of the default library.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Tags.List.Input: OmissibleInput {
    /// Those of the default library.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
