import KithIdentity

extension Search {
    /// Counts all that a query finds by the values of some properties.
    public enum Facets: Method {
        /// The input: the query.
        public struct Input: Codable, Hashable, Sendable {
            /// The query, as of ``Search/Find``.
            public var query: String
            /// As of ``Search/Find``; for years, too.
            public var offsetFromUTC: Int?
            /// The library, by name or UUID; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(query: String, offsetFromUTC: Int? = nil, library: String? = nil) {
                self.query = query
                self.offsetFromUTC = offsetFromUTC
                self.library = library
            }
        }

        /// A value and the number of entries that have it.
        public struct Count: Codable, Hashable, Sendable {
            /// The value.
            public var value: String
            /// The number of entries.
            public var count: Int

            /// Makes a count.
            public init(value: String, count: Int) {
                self.value = value
                self.count = count
            }
        }

        /// The answer; of each property at most 50 values, those that most entries have.
        public struct Output: Codable, Hashable, Sendable {
            /// The number of entries counted.
            public var total: Int
            /// True when there are more than were counted: then all numbers are too small.
            public var isCut: Bool
            /// The bytes of the files among them.
            public var bytes: UInt64
            /// Categories of files, and `folder`, `link`, `other`.
            public var kinds: [Count]
            /// Extensions of files.
            public var extensions: [Count]
            /// Locations, by their names.
            public var locations: [Count]
            /// Tags that entries carry themselves, with those above them.
            public var tags: [Count]
            /// Years of the last change, the latest first.
            public var years: [Count]
            /// Classes of the sizes of files, the smallest first, such as `empty` and `<10K`.
            public var sizes: [Count]

            /// Makes the answer.
            public init(
                total: Int, isCut: Bool, bytes: UInt64, kinds: [Count], extensions: [Count], locations: [Count],
                tags: [Count], years: [Count], sizes: [Count]
            ) {
                self.total = total
                self.isCut = isCut
                self.bytes = bytes
                self.kinds = kinds
                self.extensions = extensions
                self.locations = locations
                self.tags = tags
                self.years = years
                self.sizes = sizes
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "search.facets", by: .grant(.library), "Counts what a query finds, by kind, extension, tag, year and size.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }
}

extension Locations {
    /// Lists the folders that could not be read when they were looked at last.
    public enum Problems: Method {
        /// The input: of which location, and which part.
        public struct Input: Codable, Hashable, Sendable {
            /// The number of the location; absent: all of them.
            public var id: Int64?
            /// Where the answer begins: ``Output/next`` of the one before; absent: at the first folder.
            public var after: Int64?
            /// The most folders, 1…500; more count as that.
            public var limit: Int
            /// The library, by name or UUID; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(id: Int64? = nil, after: Int64? = nil, limit: Int = 100, library: String? = nil) {
                self.id = id
                self.after = after
                self.limit = limit
                self.library = library
            }
        }

        /// A folder that could not be read.
        public struct Problem: Codable, Hashable, Sendable {
            /// The number of its location.
            public var location: Int64
            /// Its path from the top of the file system.
            public var path: Files.Path
            /// Why.
            public var reason: String

            /// Describes a folder.
            public init(location: Int64, path: Files.Path, reason: String) {
                self.location = location
                self.path = path
                self.reason = reason
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The folders.
            public var problems: [Problem]
            /// Where the next part begins; absent at the end.
            public var next: Int64?

            /// Makes the answer.
            public init(problems: [Problem], next: Int64? = nil) {
                self.problems = problems
                self.next = next
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "locations.problems", by: .grant(.library), "Lists the folders of the library that could not be read.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }
}

/// What a person notes of entries of a library, beside tags.
public enum Annotations {
    /// Marks entries as favourites, rates them, and puts a note on them; the files stay as they are.
    public enum Change: Method {
        /// The input: the entries, and what changes.
        public struct Input: Codable, Hashable, Sendable {
            /// The paths of entries of the library; at most 10,000.
            public var paths: [Files.Path]
            /// Whether they are favourites; absent: as before.
            public var isFavorite: Bool?
            /// Their stars, 0…5; absent: as before.
            public var rating: Int?
            /// Their note, none when it is empty; at most 16,384 bytes; absent: as before.
            public var note: String?
            /// The library, by name or UUID; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(
                paths: [Files.Path], isFavorite: Bool? = nil, rating: Int? = nil, note: String? = nil,
                library: String? = nil
            ) {
                self.paths = paths
                self.isFavorite = isFavorite
                self.rating = rating
                self.note = note
                self.library = library
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "annotations.change", by: .owner, isIdempotent: true,
            "Marks files of the library as favourites, rates them and notes something on them.")
    }

    /// Reads what is noted of one entry, whole.
    public enum Get: Method {
        /// The input: the entry.
        public struct Input: Codable, Hashable, Sendable {
            /// The path of an entry of the library.
            public var path: Files.Path
            /// The library, by name or UUID; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(path: Files.Path, library: String? = nil) {
                self.path = path
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// Whether it is a favourite.
            public var isFavorite: Bool
            /// Its stars, 0…5.
            public var rating: Int
            /// The note on it; absent: none.
            public var note: String?

            /// Makes the answer.
            public init(isFavorite: Bool, rating: Int, note: String? = nil) {
                self.isFavorite = isFavorite
                self.rating = rating
                self.note = note
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "annotations.get", by: .grant(.library, "read"), "Reads what is noted of a file of the library.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.libraryRead) }
    }
}

extension Search.Facets.Input: OmissibleInput {
    /// In the default library.
    public static var usual: Self { Self(query: "") }
    /// The query.
    public static var required: Set<String> { ["query"] }
}

extension Locations.Problems.Input: OmissibleInput {
    /// The first hundred of all locations.
    public static var usual: Self { Self() }
    /// Nothing.
    public static var required: Set<String> { [] }
}
