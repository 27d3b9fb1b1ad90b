import KithIdentity

extension Library {
    /// The state of a library.
    @nonexhaustive
    public enum State: String, Codable, Hashable, Sendable, CaseIterable {
        /// It answers.
        case open
        /// Its person has closed it: it is not searched until it is opened again.
        case closed
        /// Its folder is not there, as that of a disk that is not connected.
        case offline
        /// It cannot be opened; ``Summary/problem`` says why.
        case failed
    }

    /// A library of a device.
    public struct Summary: Codable, Hashable, Sendable {
        /// Its id, a UUID in small letters, which it keeps.
        public var id: String
        /// The name people call it by.
        public var name: String
        /// When it was made, in seconds since 1970.
        public var created: Int64
        /// Whether it is meant where no library is named.
        public var isDefault: Bool
        /// Its state.
        public var state: State
        /// True for one from elsewhere until its locations are scanned here for the first time.
        ///
        /// Nothing of it is scanned by itself, and no other device sees it until then.
        public var isUnconfirmed: Bool
        /// Its folder; for this device's own person only.
        public var path: Files.Path?
        /// Why it is not open; for this device's own person only.
        public var problem: String?
        /// What is in it; only where it was asked for, and of one that is open.
        public var statistics: Statistics?
        /// How much of a location is in it that is added with nothing else said; absent: ``Mode/recursive``.
        public var mode: Mode?
        /// What such a location leaves out; absent: as of ``Locations/Add``.
        public var rules: Rules?

        /// Describes a library.
        public init(
            id: String, name: String, created: Int64, isDefault: Bool, state: State, isUnconfirmed: Bool = false,
            path: Files.Path? = nil, problem: String? = nil, statistics: Statistics? = nil, mode: Mode? = nil,
            rules: Rules? = nil
        ) {
            self.id = id
            self.name = name
            self.created = created
            self.isDefault = isDefault
            self.state = state
            self.isUnconfirmed = isUnconfirmed
            self.path = path
            self.problem = problem
            self.statistics = statistics
            self.mode = mode
            self.rules = rules
        }
    }

    /// The numbers of a library.
    public struct Statistics: Codable, Hashable, Sendable {
        /// Those of one kind of file.
        public struct Category: Codable, Hashable, Sendable {
            /// The kind, by the names of the files: `image`, `document` and so on.
            public var name: String
            /// The number of files.
            public var files: UInt64
            /// Their bytes together.
            public var bytes: UInt64

            /// Describes a kind.
            public init(name: String, files: UInt64, bytes: UInt64) {
                self.name = name
                self.files = files
                self.bytes = bytes
            }
        }

        /// The number of files.
        public var files: UInt64
        /// The number of folders.
        public var folders: UInt64
        /// The number of links, pipes, sockets and devices.
        public var others: UInt64
        /// The bytes of all files together.
        public var bytes: UInt64
        /// The files by their kinds, those with the most bytes first.
        public var categories: [Category]
        /// The number of locations.
        public var locations: Int
        /// The number of tags.
        public var tags: Int
        /// The bytes that the library itself takes.
        public var indexBytes: UInt64
        /// When a location was scanned last to the end, in seconds since 1970; absent as long as none was.
        public var scanned: Int64?

        /// Describes what is in a library.
        public init(
            files: UInt64, folders: UInt64, others: UInt64, bytes: UInt64, categories: [Category], locations: Int,
            tags: Int, indexBytes: UInt64, scanned: Int64? = nil
        ) {
            self.files = files
            self.folders = folders
            self.others = others
            self.bytes = bytes
            self.categories = categories
            self.locations = locations
            self.tags = tags
            self.indexBytes = indexBytes
            self.scanned = scanned
        }
    }
}

/// The libraries of a device.
public enum Libraries {
    /// Lists the libraries, the default one first, then by their age.
    public enum List: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// Whether to count what is in them, which takes a tenth of a second for a million files.
            public var includeStats: Bool

            /// Makes the input.
            public init(includeStats: Bool = false) { self.includeStats = includeStats }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The libraries.
            public var libraries: [Library.Summary]

            /// Makes the answer.
            public init(libraries: [Library.Summary]) { self.libraries = libraries }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "libraries.list", by: .grant(.library), "Lists the libraries of a device.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }

    /// Describes a library, with its numbers.
    public enum Info: Method {
        /// The input: the library.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(library: String? = nil) { self.library = library }
        }

        /// The answer: the library.
        public typealias Output = Library.Summary
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "libraries.info", by: .grant(.library), "Describes a library, with what is in it in numbers.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }

    /// Makes a library.
    public enum Create: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// Its name, 1 to 256 bytes, which no other library has.
            public var name: String
            /// A folder for it, not there yet or empty; absent: one of this device's own.
            public var path: Files.Path?

            /// Makes the input.
            public init(name: String, path: Files.Path? = nil) {
                self.name = name
                self.path = path
            }
        }

        /// The answer: the library.
        public typealias Output = Library.Summary
        /// The stable name on every wire.
        public static let header = MethodHeader.action("libraries.create", by: .owner, "Makes a library.")
    }

    /// Opens a library that was closed, or that is in a folder elsewhere: it stays there, and is remembered.
    public enum Open: Method {
        /// The input: one of both.
        public struct Input: Codable, Hashable, Sendable {
            /// A library of this device, by its name or its id.
            public var library: String?
            /// The folder of one that this device does not know.
            public var path: Files.Path?

            /// Makes the input.
            public init(library: String? = nil, path: Files.Path? = nil) {
                self.library = library
                self.path = path
            }
        }

        /// The answer: the library.
        public typealias Output = Library.Summary
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "libraries.open", by: .owner, isIdempotent: true, "Opens a library that was closed, or one elsewhere.")
    }

    /// Closes a library: it is neither searched nor kept up until it is opened again, and its disk can be taken away.
    public enum Close: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id.
            public var library: String
            /// Whether to forget one that is in a folder elsewhere, which stays as it is.
            public var forgets: Bool

            /// Makes the input.
            public init(library: String, forgets: Bool = false) {
                self.library = library
                self.forgets = forgets
            }
        }

        /// The answer: the library as it is now; absent when it was forgotten.
        public struct Output: Codable, Hashable, Sendable {
            /// The library.
            public var library: Library.Summary?

            /// Makes the answer.
            public init(library: Library.Summary?) { self.library = library }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "libraries.close", by: .owner, isIdempotent: true, "Closes a library until it is opened again.")
    }

    /// Gives a library another name.
    public enum Rename: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id.
            public var library: String
            /// The name it gets, 1 to 256 bytes, which no other library has.
            public var name: String

            /// Makes the input.
            public init(library: String, name: String) {
                self.library = library
                self.name = name
            }
        }

        /// The answer: the library.
        public typealias Output = Library.Summary
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "libraries.rename", by: .owner, isIdempotent: true, "Gives a library another name.")
    }

    /// Makes a library the one that is meant where none is named.
    public enum SetDefault: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id.
            public var library: String

            /// Makes the input.
            public init(library: String) { self.library = library }
        }

        /// The answer: the library.
        public typealias Output = Library.Summary
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "libraries.setDefault", by: .owner, isIdempotent: true,
            "Makes a library the one that is meant where none is named.")
    }

    /// Deletes a library with all that it knows: tags, notes, locations.
    ///
    /// The files in its locations stay as they are.
    public enum Delete: Method {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id.
            public var library: String

            /// Makes the input.
            public init(library: String) { self.library = library }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "libraries.delete", by: .owner, "Deletes a library with what it knows; files stay as they are.")
    }

    /// How far an export or an import is.
    public struct Progress: StreamMessage, Hashable {
        /// The step at hand.
        @nonexhaustive
        public enum Phase: String, Codable, Hashable, Sendable, CaseIterable {
            /// A consistent copy of the library is made.
            case copying
            /// The file is written, or read.
            case packing
            /// What was read is checked; nothing has been changed yet.
            case checking
            /// It is done.
            case done
        }

        /// The step.
        public var phase: Phase
        /// The bytes of this step that are done.
        public var bytes: UInt64
        /// The bytes of this step, about.
        public var total: UInt64
        /// The library, with the last message.
        public var library: Library.Summary?

        /// Describes how far it is.
        public init(phase: Phase, bytes: UInt64 = 0, total: UInt64 = 0, library: Library.Summary? = nil) {
            self.phase = phase
            self.bytes = bytes
            self.total = total
            self.library = library
        }
    }

    /// Writes a library into one file, as it is at this moment, while it goes on to be used.
    public enum Export: StreamMethod {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The library, by its name or its id; absent: the default one.
            public var library: String?
            /// The file, whose folder is there; only its owner may read it.
            public var path: Files.Path
            /// Whether a file that is there already is replaced.
            public var overwrite: Bool

            /// Makes the input.
            public init(library: String? = nil, path: Files.Path, overwrite: Bool = false) {
                self.library = library
                self.path = path
                self.overwrite = overwrite
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// How far it is.
        public typealias Downstream = Progress
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "libraries.export", by: .owner, "Writes a library into one file.")
    }

    /// Makes a library of a file that ``Export`` wrote.
    ///
    /// All of it is checked before anything is changed.
    public enum Import: StreamMethod {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Files.Path
            /// What the library is called; absent: as it was, with a number when another has that name.
            public var name: String?
            /// Whether it takes the place of the library with the same id; else it gets a new id when there is one.
            public var replaces: Bool

            /// Makes the input.
            public init(path: Files.Path, name: String? = nil, replaces: Bool = false) {
                self.path = path
                self.name = name
                self.replaces = replaces
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// How far it is.
        public typealias Downstream = Progress
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "libraries.import", by: .owner, "Makes a library of a file that was exported.")
    }
}

extension Locations {
    /// Lists a folder as the library has it, also while its disk is away.
    public enum Browse: Method {
        /// The input: the folder, and which part of it.
        public struct Input: Codable, Hashable, Sendable {
            /// The number of the location.
            public var id: Int64
            /// The folder's path within the location, without a slash at its beginning; empty: the location itself.
            public var path: Files.Path
            /// The name after which the answer begins: that of the last entry of the one before; absent: at the first.
            public var after: Files.Path?
            /// The most entries, 1…1,000; more count as that.
            public var limit: Int
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(
                id: Int64, path: Files.Path = Files.Path(bytes: []), after: Files.Path? = nil, limit: Int = 1_000,
                library: String? = nil
            ) {
                self.id = id
                self.path = path
                self.after = after
                self.limit = limit
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// What is in the folder, in the order of the bytes of its names.
            public var entries: [Library.Entry]
            /// Whether there are more.
            public var hasMore: Bool

            /// Makes the answer.
            public init(entries: [Library.Entry], hasMore: Bool) {
                self.entries = entries
                self.hasMore = hasMore
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "locations.browse", by: .grant(.library), "Lists a folder as the library has it.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.library) }
    }

    /// Reads a file in a location that is as it was when it was scanned.
    public enum Read: StreamMethod {
        /// The input: the file, and the part of it.
        public struct Input: Codable, Hashable, Sendable {
            /// The number of the entry.
            public var entry: Int64
            /// The first byte.
            public var offset: UInt64
            /// The number of bytes; absent: to the end.
            public var length: UInt64?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(entry: Int64, offset: UInt64 = 0, length: UInt64? = nil, library: String? = nil) {
                self.entry = entry
                self.offset = offset
                self.length = length
                self.library = library
            }
        }

        /// The file.
        public typealias Output = Library.Entry
        /// Nothing.
        public typealias Upstream = Nothing
        /// The bytes asked for.
        public typealias Downstream = RawBytes
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "locations.read", by: .grant(.library, "read"), isIdempotent: true, "Reads a file of the library.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.libraryRead) }
    }
}

extension Libraries.List.Input: OmissibleInput {
    /// Without numbers.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Libraries.Close.Input: OmissibleInput {
    /// It is remembered.
    public static var usual: Self { Self(library: "") }
    /// The library.
    public static var required: Set<String> { ["library"] }
}

extension Libraries.Export.Input: OmissibleInput {
    /// Nothing is replaced.
    public static var usual: Self { Self(path: Files.Path(bytes: [])) }
    /// The file.
    public static var required: Set<String> { ["path"] }
}

extension Libraries.Import.Input: OmissibleInput {
    /// Nothing is replaced.
    public static var usual: Self { Self(path: Files.Path(bytes: [])) }
    /// The file.
    public static var required: Set<String> { ["path"] }
}

extension Locations.Browse.Input: OmissibleInput {
    /// The first thousand in the location itself.
    public static var usual: Self { Self(id: 0) }
    /// The location.
    public static var required: Set<String> { ["id"] }
}

extension Locations.Read.Input: OmissibleInput {
    /// The whole file.
    public static var usual: Self { Self(entry: 0) }
    /// The entry.
    public static var required: Set<String> { ["entry"] }
}

extension Libraries.Info.Input: OmissibleInput {
    /// The default one.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
