extension Locations {
    /// Gives a location another name, another mode or other rules; its files keep their tags and notes.
    public enum Change: Method {
        /// The input: the location, and what changes.
        public struct Input: Codable, Hashable, Sendable {
            /// Its number, in its library.
            public var id: Int64
            /// Its name, 1 to 256 bytes; absent: as before.
            public var name: String?
            /// How much of it is in the library; absent: as before.
            public var mode: Library.Mode?
            /// What it leaves out; absent: as before.
            public var rules: Library.Rules?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(
                id: Int64, name: String? = nil, mode: Library.Mode? = nil, rules: Library.Rules? = nil,
                library: String? = nil
            ) {
                self.id = id
                self.name = name
                self.mode = mode
                self.rules = rules
                self.library = library
            }
        }

        /// The answer: the location; with another mode or other rules it is being scanned.
        public typealias Output = Library.Location
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.change", by: .owner, isIdempotent: true,
            "Gives a folder of the library another name, mode or rules, and scans it again.")
    }

    /// Writes a location into a file: its name, its rules, and what is noted of files in it; not the files.
    public enum Export: Method {
        /// The input: the location, and the file.
        public struct Input: Codable, Hashable, Sendable {
            /// Its number, in its library.
            public var id: Int64
            /// The file, from the top of the file system.
            public var path: Files.Path
            /// Whether to replace a file that is there already.
            public var overwrite: Bool
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(id: Int64, path: Files.Path, overwrite: Bool = false, library: String? = nil) {
                self.id = id
                self.path = path
                self.overwrite = overwrite
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The name of the location.
            public var name: String
            /// The bytes of the file.
            public var bytes: UInt64
            /// The number of files in it that have tags, stars, a mark or a note.
            public var notes: Int

            /// Makes the answer.
            public init(name: String, bytes: UInt64, notes: Int) {
                self.name = name
                self.bytes = bytes
                self.notes = notes
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.export", by: .owner, "Writes a folder's place in the library into a file, with tags and notes.")
    }

    /// Adds a location as a file says that ``Export`` wrote, after all of that was checked, and begins to scan it.
    ///
    /// Tags and notes are put on its files as scans find them.
    public enum Import: Method {
        /// The input: the file.
        public struct Input: Codable, Hashable, Sendable {
            /// The file, from the top of the file system.
            public var path: Files.Path
            /// The folder of the location; absent: where it was.
            public var folder: Files.Path?
            /// What it is called; absent: as it was.
            public var name: String?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(path: Files.Path, folder: Files.Path? = nil, name: String? = nil, library: String? = nil) {
                self.path = path
                self.folder = folder
                self.name = name
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The location.
            public var location: Library.Location
            /// The number of files in it that have tags, stars, a mark or a note.
            public var notes: Int

            /// Makes the answer.
            public init(location: Library.Location, notes: Int) {
                self.location = location
                self.notes = notes
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "locations.import", by: .owner, "Adds a folder to the library with the tags and notes of a file.")
    }
}

extension Libraries {
    /// Says what locations of a library are like that are added with nothing else said.
    public enum Configure: Method {
        /// The input: the library, and what is usual.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id; absent: the default one.
            public var library: String?
            /// How much of a new location is in the library; absent: as before.
            public var mode: Library.Mode?
            /// What a new location leaves out; absent: as before.
            public var rules: Library.Rules?
            /// Whether all is first as it is in a new library.
            public var resets: Bool

            /// Makes the input.
            public init(
                library: String? = nil, mode: Library.Mode? = nil, rules: Library.Rules? = nil, resets: Bool = false
            ) {
                self.library = library
                self.mode = mode
                self.rules = rules
                self.resets = resets
            }
        }

        /// The answer: the library.
        public typealias Output = Library.Summary
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "libraries.configure", by: .owner, isIdempotent: true,
            "Says what folders are like that are added to a library with nothing else said.")
    }
}

extension Locations.Export.Input: OmissibleInput {
    /// Nothing is replaced.
    public static var usual: Self { Self(id: 0, path: "") }
    /// The location, and the file.
    public static var required: Set<String> { ["id", "path"] }
}

extension Libraries.Configure.Input: OmissibleInput {
    /// All as before.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
