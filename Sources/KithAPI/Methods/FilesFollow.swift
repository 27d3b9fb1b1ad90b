import KithIdentity
public import KithWire

extension Files {
    /// Sends the end of a file, and what is added to it from then on, as ``Followed`` messages (`MessageStream`).
    ///
    /// The file is followed by its name: one that is made shorter is read from its beginning, one that is replaced
    /// is read to its end and then the new one from its beginning. The caller finishes its direction to end it.
    public enum Follow: Method {
        /// Which file, and from where.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Path
            /// Where to begin.
            public var start: Start
            /// Whether what is added later is sent too; without, the stream ends after what is there now.
            public var follows: Bool
            /// Whether a file that is not there is waited for.
            public var waits: Bool

            /// Makes the input.
            public init(path: Path, start: Start = Start(), follows: Bool = false, waits: Bool = false) {
                self.path = path
                self.start = start
                self.follows = follows
                self.waits = waits
            }
        }

        /// Where in a file.
        public struct Start: Codable, Hashable, Sendable {
            /// How many lines or bytes.
            public var count: UInt64
            /// Whether bytes are counted, not lines.
            public var isBytes: Bool
            /// Whether `count` is the first one, from 1, of the file; else the number of the last ones.
            public var isFromBeginning: Bool

            /// Makes a place; the default is before the last ten lines.
            public init(count: UInt64 = 10, isBytes: Bool = false, isFromBeginning: Bool = false) {
                self.count = count
                self.isBytes = isBytes
                self.isFromBeginning = isFromBeginning
            }
        }

        /// What the service answers.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let name = "files.follow"
        /// How it is called.
        public static let kind = MethodKind.stream
        /// One line for a person.
        public static let summary = "Sends the end of a file, and what is added to it."
        /// Who may call it with this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// What has been added to a file, or happened to it.
    public struct Followed: Codable, Hashable, Sendable {
        /// What happened to a file that is followed.
        public enum Event: String, Codable, Hashable, Sendable {
            /// What was there at first has been sent.
            case reachedEnd
            /// It has become shorter; its bytes from the beginning come next.
            case truncated
            /// Another file has its name; the bytes of that one come next.
            case replaced
            /// Nothing has its name, or what has cannot be read; it is waited for.
            case missing
        }

        /// Bytes of the file; empty with an event.
        public var bytes: ByteString
        /// What happened.
        public var event: Event?
        /// Why it ended.
        public var failure: Failure?

        /// Makes a message.
        public init(bytes: ByteString = [], event: Event? = nil, failure: Failure? = nil) {
            self.bytes = bytes
            self.event = event
            self.failure = failure
        }
    }
}
