import KithIdentity
public import KithWire

extension Files {
    /// An error inside a message of a stream.
    public struct Failure: Codable, Hashable, Sendable {
        /// The code of the error.
        public var code: KithError.Code
        /// One sentence for a person.
        public var message: String

        /// Makes a failure.
        public init(code: KithError.Code, message: String) {
            self.code = code
            self.message = message
        }

        /// Takes over an error of any type; one that is not ours says little.
        public init(_ error: any Error) {
            switch error {
            case let error as KithError: self.init(code: error.code, message: error.message)
            case is CancellationError: self.init(code: .cancelled, message: "The transfer was cancelled.")
            default: self.init(code: .internal, message: "The transfer failed: \(error).")
            }
        }

        /// The same as an error.
        public var error: KithError { KithError(code, message) }
    }

    /// The receiver's choices: how what arrives is put in place.
    public struct ReceiveOptions: Codable, Hashable, Sendable {
        /// True to replace existing files.
        ///
        /// Without, they stay as they are and count as left out.
        public var overwrite: Bool
        /// True to keep permission bits and times.
        public var preserve: Bool
        /// True to have each file on the disk before it gets its name: safe from a power cut, and slower.
        public var sync: Bool
        /// True when the destination must be a folder, to put things in.
        public var intoFolder: Bool
        /// True when the destination is the new name even if a folder is there: its contents become the source's.
        public var exact: Bool
        /// True to take files as the same by their hash alone; otherwise by size and time of change.
        public var checksum: Bool
        /// True to leave files that are newer here as they are.
        public var update: Bool
        /// True to send changed files whole, without looking for what the old version has of them.
        public var wholeFile: Bool
        /// True to delete what the source does not have, once all the rest has arrived.
        public var delete: Bool
        /// True to change nothing; with ``report``, what would change is reported.
        public var dryRun: Bool
        /// True to report each file sent or deleted by name (``Progress/changes``).
        public var report: Bool
        /// The patterns of what ``delete`` does not touch, as in ``Selection/exclude``.
        public var exclude: [String]

        /// Makes a choice; the defaults are those of `kith cp`.
        public init(
            overwrite: Bool = true, preserve: Bool = true, sync: Bool = false, intoFolder: Bool = false,
            exact: Bool = false, checksum: Bool = false, update: Bool = false, wholeFile: Bool = false,
            delete: Bool = false, dryRun: Bool = false, report: Bool = false, exclude: [String] = []
        ) {
            self.overwrite = overwrite
            self.preserve = preserve
            self.sync = sync
            self.intoFolder = intoFolder
            self.exact = exact
            self.checksum = checksum
            self.update = update
            self.wholeFile = wholeFile
            self.delete = delete
            self.dryRun = dryRun
            self.report = report
            self.exclude = exclude
        }
    }

    /// The parts of a tree, and of each file, that are sent.
    public struct Selection: Codable, Hashable, Sendable {
        /// Patterns in the syntax of `.gitignore`, relative to the folder copied: what they name is not sent.
        public var exclude: [String]
        /// True to send extended attributes and access lists.
        public var attributes: Bool
        /// True to keep files that are one under several names one, inside one transfer.
        public var hardLinks: Bool

        /// Makes a choice; the defaults are those of `kith cp`.
        public init(exclude: [String] = [], attributes: Bool = false, hardLinks: Bool = false) {
            self.exclude = exclude
            self.attributes = attributes
            self.hardLinks = hardLinks
        }
    }

    /// The choice of when contents are compressed on their way.
    @nonexhaustive
    public enum Compression: String, Codable, Hashable, Sendable, CaseIterable {
        /// Compressed where they shrink, and the link is slower than the compressor.
        case auto
        /// Compressed wherever they shrink.
        case always
        /// Never.
        case never
    }

    /// Fetches a file or a tree: `TransferFrame`s of KithFiles come, what is wanted of them goes back.
    public enum Pull: StreamMethod {
        /// The input: the path to fetch.
        public struct Input: Codable, Hashable, Sendable {
            /// The file or folder.
            public var path: Path
            /// True to send a folder, with all in it.
            public var recursive: Bool
            /// The parts of it to send.
            public var selection: Selection
            /// The substreams that may be opened besides; `nil`: none.
            public var substreams: Substreams?

            /// Makes the input.
            public init(path: Path, recursive: Bool, selection: Selection = Selection(), substreams: Substreams? = nil)
            {
                self.path = path
                self.recursive = recursive
                self.selection = selection
                self.substreams = substreams
            }

            // The wire's names, which are older.
            private enum CodingKeys: String, CodingKey {
                case path, recursive, selection
                case substreams = "lanes"
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.pull", by: .grant(.files, "read"), isIdempotent: true, carrying: .bulk,
            "Sends a file or a tree to the caller.")
        /// The answers of the transfer's receiver.
        public typealias Upstream = RawBytes
        /// The messages of the transfer's sender.
        public typealias Downstream = RawBytes
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// Delivers files and trees: `TransferFrame`s of KithFiles go, what is wanted of them comes back.
    public enum Push: StreamMethod {
        /// The input: the destination.
        public struct Input: Codable, Hashable, Sendable {
            /// A folder to put things in, or the new name of the one thing sent.
            public var path: Path
            /// The way in which it is put in place.
            public var receiving: ReceiveOptions
            /// The substreams that may be opened besides; `nil`: none.
            public var substreams: Substreams?

            /// Makes the input.
            public init(path: Path, receiving: ReceiveOptions, substreams: Substreams? = nil) {
                self.path = path
                self.receiving = receiving
                self.substreams = substreams
            }

            // The wire's names, which are older.
            private enum CodingKeys: String, CodingKey {
                case path
                case receiving = "landing"
                case substreams = "lanes"
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.push", by: .grant(.files, "write"), carrying: .bulk, "Receives a file or a tree from the caller.")
        /// The messages of the transfer's sender.
        public typealias Upstream = RawBytes
        /// The answers of the transfer's receiver.
        public typealias Downstream = RawBytes
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.write) }
    }

    /// The substreams of a transfer: further streams, for the contents of some of its files.
    public struct Substreams: Codable, Hashable, Sendable {
        /// The length of a token, in bytes.
        public static let tokenCount = 16

        /// The token by which the calls of the substreams name the transfer; random, so that no other transfer has it.
        public var token: [UInt8]
        /// The number of substreams, at most 16.
        public var count: UInt8

        /// Makes a choice.
        public init(token: [UInt8], count: UInt8) {
            self.token = token
            self.count = count
        }
    }

    /// Opens one substream of a running ``Pull`` or ``Push`` of the same caller.
    public enum Substream: StreamMethod {
        /// The input: the transfer, and the index of the substream.
        public struct Input: Codable, Hashable, Sendable {
            /// The token of the transfer, ``Substreams/token``.
            public var token: [UInt8]
            /// The index of the substream, from 0.
            public var index: UInt8

            /// Makes the input.
            public init(token: [UInt8], index: UInt8) {
                self.token = token
                self.index = index
            }

            // The wire's names, which are older.
            private enum CodingKeys: String, CodingKey {
                case token
                case index = "lane"
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire; the transfer's own access was checked when it began.
        public static let header = MethodHeader.stream(
            "files.lane", by: .grant(.files), carrying: .bulk, "Adds a stream to a running transfer of the caller.")
        /// One end of a transfer.
        public typealias Upstream = RawBytes
        /// The other end of it.
        public typealias Downstream = RawBytes
    }

    /// A path on this device or on another.
    public struct Location: Codable, Hashable, Sendable {
        /// The device; `nil`: this one, and then the path is absolute.
        public var device: String?
        /// The path there.
        public var path: Path

        /// Makes a location.
        public init(device: String?, path: Path) {
            self.device = device
            self.path = path
        }

        /// Reads one as typed: `laptop:/srv/photos`.
        ///
        /// A text with a slash before its first colon, or without a colon, is a path on this device: `./a:b` is a file.
        package init(typed text: String) {
            let head = text.prefix { $0 != "/" && $0 != ":" }
            if !head.isEmpty, text.dropFirst(head.count).first == ":" {
                let rest = String(text.dropFirst(head.count + 1))
                // `laptop:` alone is the home folder there, as with scp.
                self.init(device: String(head), path: Path(rest.isEmpty ? "~" : rest))
            } else {
                self.init(device: nil, path: Path(text))
            }
        }
    }

    /// Copies between this device and others; the stream carries the progress.
    ///
    /// The bytes pass between this device's disk and the other device; the caller sees none of them. Where both ends are on
    /// one device, that device copies by itself (``Duplicate``).
    /// When the caller goes, the copy ends; what had arrived whole stays.
    public enum Copy: StreamMethod {
        /// The input: the sources and the destination.
        public struct Input: Codable, Hashable, Sendable {
            /// One or more files or folders.
            public var sources: [Location]
            /// A folder, or with one source its new name.
            public var destination: Location
            /// True to copy folders, with all in them.
            public var recursive: Bool
            /// The parts of the sources to copy.
            public var selection: Selection
            /// The way in which things are put in place.
            public var receiving: ReceiveOptions
            /// The most bytes per second; `nil`: as many as the link carries.
            public var limit: UInt64?
            /// The time for which a lost connection is tried again without progress, in seconds; 0: not at all.
            public var retrySeconds: UInt32
            /// The choice of when contents are compressed; see ``Compression``.
            public var compress: Compression
            /// The number of files copied side by side, each over a stream of its own; `nil`: as many of the sources as
            /// there are processors, at most four, and of each one file at a time.
            public var parallel: UInt32?

            /// Makes the input.
            public init(
                sources: [Location], destination: Location, recursive: Bool = false, selection: Selection = Selection(),
                receiving: ReceiveOptions = ReceiveOptions(), limit: UInt64? = nil, retrySeconds: UInt32 = 120,
                compress: Compression = .auto, parallel: UInt32? = nil
            ) {
                self.sources = sources
                self.destination = destination
                self.recursive = recursive
                self.selection = selection
                self.receiving = receiving
                self.limit = limit
                self.retrySeconds = retrySeconds
                self.compress = compress
                self.parallel = parallel
            }

            // The wire's names, which are older.
            private enum CodingKeys: String, CodingKey {
                case sources, destination, recursive, selection
                case receiving = "landing"
                case limit, retrySeconds, compress, parallel
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.copy", by: .owner, "Copies files and folders between devices.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The progress; the last message carries the outcome.
        public typealias Downstream = Progress
    }

    /// The progress of a copy.
    ///
    /// The last message has a ``summary`` or a ``failure``.
    public struct Progress: StreamMessage, Hashable {
        /// Bytes done: sent, or found to be there already.
        public var bytes: UInt64
        /// Bytes to do, once they have been counted.
        public var totalBytes: UInt64?
        /// Bytes of contents that passed over the link.
        public var sent: UInt64
        /// Bytes of all kinds that passed over the link for them, compressed where they were.
        public var wire: UInt64
        /// Files done.
        public var files: UInt64
        /// Files to do, once they have been counted.
        public var totalFiles: UInt64?
        /// The path being copied.
        public var current: Path?
        /// The reason the copy waits, when its connection was lost and is being made again.
        public var waiting: String?
        /// The things left out since the message before, each with the reason.
        public var skipped: [Skipped]
        /// The things changed, or that would be, since the message before; only on request (``ReceiveOptions/report``).
        public var changes: [Change]
        /// The summary, at the end of a copy that succeeded.
        public var summary: Summary?
        /// The error that ended the copy; `nil` when it succeeded.
        public var failure: Failure?

        /// Makes a message.
        public init(
            bytes: UInt64 = 0, totalBytes: UInt64? = nil, sent: UInt64 = 0, wire: UInt64 = 0, files: UInt64 = 0,
            totalFiles: UInt64? = nil,
            current: Path? = nil, waiting: String? = nil, skipped: [Skipped] = [], changes: [Change] = [],
            summary: Summary? = nil, failure: Failure? = nil
        ) {
            self.bytes = bytes
            self.totalBytes = totalBytes
            self.sent = sent
            self.wire = wire
            self.files = files
            self.totalFiles = totalFiles
            self.current = current
            self.waiting = waiting
            self.skipped = skipped
            self.changes = changes
            self.summary = summary
            self.failure = failure
        }
    }

    /// Something a copy changed at the destination, or would.
    public struct Change: Codable, Hashable, Sendable {
        /// The kind of a change.
        @nonexhaustive
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            /// It was not there.
            case new
            /// It was there and was another.
            case changed
            /// The source does not have it.
            case deleted
        }

        /// The path, from the destination on.
        public var path: Path
        /// The kind of the change.
        public var kind: Kind

        /// Makes an entry.
        public init(path: Path, kind: Kind) {
            self.path = path
            self.kind = kind
        }
    }

    /// Something left out of a copy.
    public struct Skipped: Codable, Hashable, Sendable {
        /// The path, from the source named on.
        public var path: Path
        /// The reason.
        public var failure: Failure
        /// True when the copy counts as good all the same: it is not a file, or it stayed because it was there already.
        public var isHarmless: Bool

        /// Makes an entry.
        public init(path: Path, failure: Failure, isHarmless: Bool = false) {
            self.path = path
            self.failure = failure
            self.isHarmless = isHarmless
        }

        /// Reads an entry; one of an older kith says by its code alone whether it is harmless.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            path = try container.decode(Path.self, forKey: .path)
            failure = try container.decode(Failure.self, forKey: .failure)
            isHarmless =
                try container.decodeIfPresent(Bool.self, forKey: .isHarmless)
                ?? [.unsupported, .conflict].contains(failure.code)
        }
    }

    /// The totals of a copy.
    public struct Summary: Codable, Hashable, Sendable {
        /// Bytes of the files put in place.
        public var bytes: UInt64
        /// Bytes of contents that passed over the link, in all attempts.
        public var sent: UInt64
        /// Bytes of all kinds that passed over the link for them, compressed where they were; only the device that was
        /// asked for the copy says so.
        public var wire: UInt64?
        /// Files put in place.
        public var files: UInt64
        /// Files that were there already.
        public var unchanged: UInt64
        /// Folders made.
        public var folders: UInt64
        /// Symbolic links made.
        public var links: UInt64
        /// Things deleted, each with what was in it.
        public var deleted: UInt64
        /// Things left out.
        public var skipped: UInt64

        /// Makes a summary.
        public init(
            bytes: UInt64 = 0, sent: UInt64 = 0, wire: UInt64? = nil, files: UInt64 = 0, unchanged: UInt64 = 0,
            folders: UInt64 = 0,
            links: UInt64 = 0, deleted: UInt64 = 0, skipped: UInt64 = 0
        ) {
            self.bytes = bytes
            self.sent = sent
            self.wire = wire
            self.files = files
            self.unchanged = unchanged
            self.folders = folders
            self.links = links
            self.deleted = deleted
            self.skipped = skipped
        }

        /// The sum of two.
        package static func + (left: Summary, right: Summary) -> Summary {
            Summary(
                bytes: left.bytes.saturatingAdding(right.bytes), sent: left.sent.saturatingAdding(right.sent),
                wire: nil,
                files: left.files.saturatingAdding(right.files),
                unchanged: left.unchanged.saturatingAdding(right.unchanged),
                folders: left.folders.saturatingAdding(right.folders),
                links: left.links.saturatingAdding(right.links), deleted: left.deleted.saturatingAdding(right.deleted),
                skipped: left.skipped.saturatingAdding(right.skipped))
        }
    }
}

extension Files.Copy.Input: OmissibleInput {
    /// As `kith cp` does without options.
    public static var usual: Self { Self(sources: [], destination: Files.Location(device: nil, path: "/")) }
    /// The sources and the destination.
    public static var required: Set<String> { ["sources", "destination"] }
}
