import KithIdentity
public import KithWire

extension Files {
    /// The kind of thing that a name in a folder stands for.
    @nonexhaustive
    public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// A regular file.
        case file
        /// A folder.
        case folder
        /// A symbolic link.
        case link
        /// A pipe, a socket or a device.
        case special
    }

    /// The kind of something that is not a file, a folder or a link.
    @nonexhaustive
    public enum Special: String, Codable, Hashable, Sendable, CaseIterable {
        /// A pipe with a name.
        case pipe
        /// A Unix socket.
        case socket
        /// A device that is read and written byte by byte.
        case characterDevice
        /// A device of blocks: a disk.
        case blockDevice
    }

    /// The numbers of a device a special file stands for.
    public struct DeviceNumbers: Codable, Hashable, Sendable {
        /// The number of the driver.
        public var major: UInt32
        /// The number of the device among the driver's own.
        public var minor: UInt32

        /// Makes a pair.
        public init(major: UInt32, minor: UInt32) {
            self.major = major
            self.minor = minor
        }
    }

    /// One file or folder.
    public struct Entry: Codable, Hashable, Sendable {
        /// Its name, or the path asked for.
        public var name: Path
        /// The kind of thing it is.
        public var kind: Kind
        /// Bytes.
        public var size: UInt64
        /// The permission bits, with those for set-user-ID, set-group-ID and sticky.
        public var mode: UInt32
        /// The time of the last change, in seconds since 1970.
        public var modified: Int64
        /// The fraction of that second, in nanoseconds.
        public var modifiedNanoseconds: UInt32
        /// The number of its owner on that device.
        public var user: UInt32
        /// The number of its group on that device.
        public var group: UInt32
        /// The target of a link.
        public var target: Path?
        /// The kind of a special file; `nil` for any other.
        public var special: Special?
        /// The numbers of the device it stands for; `nil` when it is none.
        public var deviceNumbers: DeviceNumbers?
        /// The bytes it takes on the disk; only from ``Stat``.
        public var allocated: UInt64?
        /// The number of its names; only from ``Stat``, and from ``Find`` on request.
        public var links: UInt64?
        /// The owner's name on that device; only from ``Stat``, and from ``Find`` on request.
        public var userName: String?
        /// The group's name on that device; only from ``Stat``, and from ``Find`` on request.
        public var groupName: String?
        /// Its number on its file system; only from ``Stat``.
        public var inode: UInt64?
        /// The path from the top of the file system, links in it as they are; only from ``Stat``.
        public var absolute: Path?

        /// Describes a file.
        public init(
            name: Path, kind: Kind, size: UInt64, mode: UInt32, modified: Int64, modifiedNanoseconds: UInt32,
            user: UInt32 = 0, group: UInt32 = 0, target: Path? = nil, special: Special? = nil,
            deviceNumbers: DeviceNumbers? = nil, allocated: UInt64? = nil, links: UInt64? = nil,
            userName: String? = nil, groupName: String? = nil, inode: UInt64? = nil, absolute: Path? = nil
        ) {
            self.name = name
            self.kind = kind
            self.size = size
            self.mode = mode
            self.modified = modified
            self.modifiedNanoseconds = modifiedNanoseconds
            self.user = user
            self.group = group
            self.target = target
            self.special = special
            self.deviceNumbers = deviceNumbers
            self.allocated = allocated
            self.links = links
            self.userName = userName
            self.groupName = groupName
            self.inode = inode
            self.absolute = absolute
        }
    }

    /// Lists a folder, a page at a time, by the bytes of the names.
    ///
    /// Of a file, the file itself.
    public enum List: Method {
        /// The input: the folder, and the page of it.
        public struct Input: Codable, Hashable, Sendable {
            /// The folder.
            public var path: Path
            /// The name after which the page begins; `nil`: at the first.
            public var after: Path?
            /// The most entries of the page, 1…2000; a larger number counts as 2000.
            public var limit: Int

            /// Makes the input.
            public init(path: Path, after: Path? = nil, limit: Int = 1_000) {
                self.path = path
                self.after = after
                self.limit = limit
            }
        }

        /// A page.
        public struct Output: Codable, Hashable, Sendable {
            /// The entries, in order.
            public var entries: [Entry]
            /// True when more follow; ask again after the last name.
            public var hasMore: Bool

            /// Makes a page.
            public init(entries: [Entry], hasMore: Bool) {
                self.entries = entries
                self.hasMore = hasMore
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query("files.list", by: .grant(.files, "read"), "Lists a folder.")
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// Describes one file or folder.
    public enum Stat: Method {
        /// The input: the file or folder.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Path
            /// True to follow a link in the last place.
            public var followsLinks: Bool

            /// Makes the input.
            public init(path: Path, followsLinks: Bool = false) {
                self.path = path
                self.followsLinks = followsLinks
            }
        }

        /// The service's answer.
        public typealias Output = Entry
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "files.stat", by: .grant(.files, "read"), "Describes a file or folder.")
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// Asks whether something has this name.
    ///
    /// Not being there is an answer, not an error.
    public enum Exists: Method {
        /// The input: the path to look for.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Path

            /// Makes the input.
            public init(path: Path) { self.path = path }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The kind of what is there; `nil`: nothing is.
            public var kind: Kind?

            /// Makes the answer.
            public init(kind: Kind?) { self.kind = kind }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "files.exists", by: .grant(.files, "read"), "Tells whether a file or folder exists.")
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// Makes a folder.
    public enum MakeFolder: Method {
        /// The input: the folder to make.
        public struct Input: Codable, Hashable, Sendable {
            /// The folder.
            public var path: Path
            /// True to make missing folders above it too, and to accept an existing folder.
            public var parents: Bool
            /// The permission bits, before the device's umask.
            public var mode: UInt32

            /// Makes the input.
            public init(path: Path, parents: Bool = false, mode: UInt32 = 0o777) {
                self.path = path
                self.parents = parents
                self.mode = mode
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action("files.mkdir", by: .grant(.files, "write"), "Makes a folder.")
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.write) }
    }

    /// Renames a file or folder, at once.
    public enum Rename: Method {
        /// The input: the old path and the new one.
        public struct Input: Codable, Hashable, Sendable {
            /// The path to rename.
            public var from: Path
            /// Its new path: the name itself, not the folder to put it in.
            public var to: Path
            /// True to replace a file of that name.
            public var overwrite: Bool

            /// Makes the input.
            public init(from: Path, to: Path, overwrite: Bool = false) {
                self.from = from
                self.to = to
                self.overwrite = overwrite
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "files.rename", by: .grant(.files, "write"), "Renames or moves a file or folder.")
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.from.access(.write) }
    }

    /// Deletes a file, a link itself, or a folder.
    ///
    /// Nothing is kept.
    public enum Delete: Method {
        /// The input: the path to delete.
        public struct Input: Codable, Hashable, Sendable {
            /// The file or folder.
            public var path: Path
            /// True to delete a folder with what is in it; otherwise only an empty one is deleted.
            public var recursive: Bool

            /// Makes the input.
            public init(path: Path, recursive: Bool = false) {
                self.path = path
                self.recursive = recursive
            }
        }

        /// The answer: the things that were deleted.
        public struct Output: Codable, Hashable, Sendable {
            /// Files, links and folders.
            public var count: UInt64

            /// Makes the answer.
            public init(count: UInt64) { self.count = count }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "files.delete", by: .grant(.files, "write"), "Deletes a file or folder.")
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.write) }
    }

    /// Reads a file, or a part of one: the stream carries its bytes and ends with them.
    public enum Read: StreamMethod {
        /// The input: the file, and the part of it.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Path
            /// The first byte.
            public var offset: UInt64
            /// The number of bytes; `nil`: to the end.
            public var length: UInt64?

            /// Makes the input.
            public init(path: Path, offset: UInt64 = 0, length: UInt64? = nil) {
                self.path = path
                self.offset = offset
                self.length = length
            }
        }

        /// The file as it was when it was opened.
        public typealias Output = Entry
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.read", by: .grant(.files, "read"), isIdempotent: true, "Reads a file or a part of it.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The bytes asked for.
        public typealias Downstream = RawBytes
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// Writes a file: the caller sends its bytes, finishes, and receives the outcome.
    ///
    /// Without an offset the file appears, or replaces the one there, at once and whole when all has arrived.
    /// With one, the bytes go into the existing file as they come.
    public enum Write: StreamMethod {
        /// The input: the file to write, and the part of it.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Path
            /// The offset in an existing file; `nil`: a whole new file.
            public var offset: UInt64?
            /// True to replace an existing file.
            public var overwrite: Bool
            /// The permission bits of a new file; `nil`: those of the file replaced, else 0644 less the umask.
            public var mode: UInt32?
            /// The SHA-256 of what the file must still hold to be replaced, 32 bytes; else nothing is written
            /// (`.conflict`).
            ///
            /// `nil`: whatever it holds. Not with an offset.
            public var replacing: ByteString?

            /// Makes the input.
            public init(
                path: Path, offset: UInt64? = nil, overwrite: Bool = true, mode: UInt32? = nil,
                replacing: ByteString? = nil
            ) {
                self.path = path
                self.offset = offset
                self.overwrite = overwrite
                self.mode = mode
                self.replacing = replacing
            }
        }

        /// The outcome of a write.
        public struct Written: StreamMessage, Hashable {
            /// Bytes written.
            public var size: UInt64
            /// SHA-256 of what arrived, 32 bytes; compare it.
            public var sha256: ByteString
            /// The error; nothing was put in place then.
            public var failure: Failure?

            /// Makes the message.
            public init(size: UInt64, sha256: ByteString, failure: Failure? = nil) {
                self.size = size
                self.sha256 = sha256
                self.failure = failure
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.write", by: .grant(.files, "write"), "Writes a file or a part of it.")
        /// The bytes.
        public typealias Upstream = RawBytes
        /// The outcome, once.
        public typealias Downstream = Written
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.write) }
    }
}

extension Files.List.Input: OmissibleInput {
    /// A thousand entries from the first.
    public static var usual: Self { Self(path: "/") }
    /// The folder.
    public static var required: Set<String> { ["path"] }
}

extension Files.Stat.Input: OmissibleInput {
    /// The thing itself, a link as one.
    public static var usual: Self { Self(path: "/") }
    /// The path.
    public static var required: Set<String> { ["path"] }
}

extension Files.MakeFolder.Input: OmissibleInput {
    /// One folder, with the usual permissions.
    public static var usual: Self { Self(path: "/") }
    /// The path.
    public static var required: Set<String> { ["path"] }
}

extension Files.Rename.Input: OmissibleInput {
    /// Nothing is replaced.
    public static var usual: Self { Self(from: "/", to: "/") }
    /// Both paths.
    public static var required: Set<String> { ["from", "to"] }
}

extension Files.Delete.Input: OmissibleInput {
    /// An empty folder only.
    public static var usual: Self { Self(path: "/") }
    /// The path.
    public static var required: Set<String> { ["path"] }
}

extension Files.Read.Input: OmissibleInput {
    /// From the beginning to the end.
    public static var usual: Self { Self(path: "/") }
    /// The file.
    public static var required: Set<String> { ["path"] }
}

extension Files.Write.Input: OmissibleInput {
    /// The whole file, in place of one of that name.
    public static var usual: Self { Self(path: "/") }
    /// The file.
    public static var required: Set<String> { ["path"] }
}
