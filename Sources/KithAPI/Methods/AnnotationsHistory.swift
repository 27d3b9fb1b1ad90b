extension Annotations {
    /// A change of tags, stars, marks or notes that is kept so that it can be taken back.
    public struct Edit: Codable, Hashable, Sendable {
        /// What was done.
        @nonexhaustive
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            /// Files got tags, or lost some.
            case tags
            /// A tag was deleted with those beneath it.
            case deletedTag
            /// Stars, marks as a favourite or notes were changed.
            case annotation
            /// A change was taken back.
            case undo
        }

        /// Its name.
        public var id: String
        /// What was done.
        public var kind: Kind
        /// When, in seconds since 1970.
        public var made: Int64
        /// The first of the files it is about that is in the library still.
        public var first: Files.Path?
        /// The number of files it is about.
        public var files: Int
        /// At most eight of its tags, each with those above it.
        public var tags: [String]
        /// Which of `rating`, `favorite` and `note` it changed.
        public var fields: [String]
        /// The change that this one took back.
        public var undoes: String?
        /// The change that took this one back.
        public var undoneBy: String?

        /// Describes a change.
        public init(
            id: String, kind: Kind, made: Int64, first: Files.Path? = nil, files: Int, tags: [String] = [],
            fields: [String] = [], undoes: String? = nil, undoneBy: String? = nil
        ) {
            self.id = id
            self.kind = kind
            self.made = made
            self.first = first
            self.files = files
            self.tags = tags
            self.fields = fields
            self.undoes = undoes
            self.undoneBy = undoneBy
        }
    }

    /// Lists the changes of tags and notes of a library, the latest first: the last thousand of 90 days are kept.
    public enum History: Method {
        /// The input: how many.
        public struct Input: Codable, Hashable, Sendable {
            /// The most changes, 1…1,000; more count as that.
            public var limit: Int
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(limit: Int = 50, library: String? = nil) {
                self.limit = limit
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The changes.
            public var edits: [Edit]

            /// Makes the answer.
            public init(edits: [Edit]) { self.edits = edits }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "annotations.history", by: .owner, "Lists the changes of tags and notes, the latest first.")
    }

    /// Takes back a change of tags or notes; what was changed again since stays as it is.
    ///
    /// Taking back is a change itself: to take that back does the first one again.
    public enum Undo: Method {
        /// The input: the change.
        public struct Input: Codable, Hashable, Sendable {
            /// Its name; absent: the latest that was not taken back.
            public var id: String?
            /// The library, by its name or its id; absent: the default one.
            public var library: String?

            /// Makes the input.
            public init(id: String? = nil, library: String? = nil) {
                self.id = id
                self.library = library
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The change that was taken back.
            public var edit: Edit
            /// The number of files that are as they were before it.
            public var restored: Int
            /// The number of files that were changed again since, or have gone: left as they are.
            public var skipped: Int

            /// Makes the answer.
            public init(edit: Edit, restored: Int, skipped: Int) {
                self.edit = edit
                self.restored = restored
                self.skipped = skipped
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "annotations.undo", by: .owner, "Takes back a change of tags, stars, marks or notes.")
    }
}

extension Annotations.History.Input: OmissibleInput {
    /// The latest fifty of the default library.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Annotations.Undo.Input: OmissibleInput {
    /// The latest of the default library.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
