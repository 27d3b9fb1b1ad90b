/// The trash of this device's person: the same as that of other programs (the freedesktop.org specification 1.0).
public enum Trash {
    /// Something in the trash.
    public struct Item: Codable, Hashable, Sendable {
        /// Where it lies now.
        public var path: Files.Path
        /// Where it was; absent when what is noted of it cannot be read, or leads out of its file system.
        public var original: Files.Path?
        /// What it is.
        public var kind: Files.Kind
        /// Bytes; of a folder, what its disk says of all that is in it, 0 when that is not known.
        public var size: UInt64
        /// When it was put there, in seconds since 1970; absent when that is not known.
        public var deleted: Int64?

        /// Describes an item.
        public init(path: Files.Path, original: Files.Path?, kind: Files.Kind, size: UInt64, deleted: Int64?) {
            self.path = path
            self.original = original
            self.kind = kind
            self.size = size
            self.deleted = deleted
        }
    }

    /// Lists the trash, the latest first.
    public enum List: Method {
        /// The input: how many.
        public struct Input: Codable, Hashable, Sendable {
            /// The most items, 1…1,000; more count as that.
            public var limit: Int
            /// The number of items that are passed over.
            public var after: Int

            /// Makes the input.
            public init(limit: Int = 200, after: Int = 0) {
                self.limit = limit
                self.after = after
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The items.
            public var items: [Item]
            /// The number of all items.
            public var total: Int

            /// Makes the answer.
            public init(items: [Item], total: Int) {
                self.items = items
                self.total = total
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query("trash.list", by: .owner, "Lists what is in the trash.")
    }

    /// Plans to put things back; the answer is confirmed by ``Operations/Confirm``.
    public enum Restore: Method {
        /// The input: the things.
        public struct Input: Codable, Hashable, Sendable {
            /// Where they were, the one deleted last of several, or where they lie in the trash; at most 10,000.
            public var paths: [Files.Path]
            /// What happens where a name is taken by now.
            public var conflicts: Operations.Choice

            /// Makes the input.
            public init(paths: [Files.Path], conflicts: Operations.Choice = .ask) {
                self.paths = paths
                self.conflicts = conflicts
            }
        }

        /// The answer: the plan.
        public typealias Output = Operations.Planned
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "trash.restore", by: .owner, "Plans to put things back from the trash, and changes nothing.")
    }

    /// Plans to delete for good what is in the trash; the answer is confirmed by ``Operations/Confirm``.
    public enum Empty: Method {
        /// The input: what.
        public struct Input: Codable, Hashable, Sendable {
            /// Only what was put there before that many seconds; absent: everything.
            public var olderThan: Int64?

            /// Makes the input.
            public init(olderThan: Int64? = nil) { self.olderThan = olderThan }
        }

        /// The answer: the plan.
        public typealias Output = Operations.Planned
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "trash.empty", by: .owner, "Plans to delete for good what is in the trash, and changes nothing.")
    }
}

extension Trash.List.Input: OmissibleInput {
    /// The latest two hundred.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Trash.Restore.Input: OmissibleInput {
    /// Nothing but the question where a name is taken.
    public static var usual: Self { Self(paths: []) }
    /// The paths.
    public static var required: Set<String> { ["paths"] }
}

extension Trash.Empty.Input: OmissibleInput {
    /// Everything.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
