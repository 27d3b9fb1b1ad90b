import KithIdentity
public import KithWire

extension Files {
    /// Sends the end of a file, and what is added to it from then on.
    ///
    /// The file is followed by its name: one that is made shorter is read from its beginning, one that is replaced
    /// is read to its end and then the new one from its beginning. The caller finishes its direction to end it.
    public enum Follow: StreamMethod {
        /// The input: the file, and the place to begin at.
        public struct Input: Codable, Hashable, Sendable {
            /// The file.
            public var path: Path
            /// The place to begin at.
            public var start: Start
            /// True to send what is added later too; otherwise the stream ends after what is there now.
            public var follows: Bool
            /// True to wait for a file that is not there.
            public var waits: Bool

            /// Makes the input.
            public init(path: Path, start: Start = Start(), follows: Bool = false, waits: Bool = false) {
                self.path = path
                self.start = start
                self.follows = follows
                self.waits = waits
            }
        }

        /// A place in a file.
        public struct Start: Codable, Hashable, Sendable {
            /// The number of lines or bytes.
            public var count: UInt64
            /// True to count bytes, not lines.
            public var isBytes: Bool
            /// True when `count` is the first one, from 1, of the file; else it is the number of the last ones.
            public var isFromBeginning: Bool

            /// Makes a place; the default is before the last ten lines.
            public init(count: UInt64 = 10, isBytes: Bool = false, isFromBeginning: Bool = false) {
                self.count = count
                self.isBytes = isBytes
                self.isFromBeginning = isFromBeginning
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.follow", by: .grant(.files, "read"), isIdempotent: true,
            "Sends the end of a file, and what is added to it.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The contents of the file, and its events.
        public typealias Downstream = Followed
        /// The access a caller needs for this input.
        public static func access(for input: Input) -> Access { input.path.access(.read) }
    }

    /// Checks that no more of the end of a file comes than was asked for.
    package struct FollowCheck: Sendable {
        private let path: Path
        private let device: String
        private let isBytes: Bool
        /// The bytes, or lines, that may still come; `nil` for as many as there are.
        private var left: UInt64?

        /// Expects an answer.
        ///
        /// From the beginning on there is no bound; and of a file that is followed, what is added may come at once with
        /// its end.
        package init(_ input: Follow.Input, from device: String?) {
            path = input.path
            self.device = device ?? "This device"
            isBytes = input.start.isBytes
            left = input.start.isFromBeginning || input.follows ? nil : input.start.count
        }

        /// Refuses what is too much.
        ///
        /// - Throws: `.denied` for more bytes or lines than were asked for.
        package mutating func check(_ bytes: [UInt8]) throws(KithError) {
            guard var left, !bytes.isEmpty else { return }
            var isTooMuch = false
            if isBytes {
                isTooMuch = UInt64(bytes.count) > left
                if !isTooMuch { left -= UInt64(bytes.count) }
            } else {
                for byte in bytes {
                    // A last line need not end, but nothing comes behind the end of the last.
                    if left == 0 {
                        isTooMuch = true
                        break
                    }
                    if byte == UInt8(ascii: "\n") { left -= 1 }
                }
            }
            guard !isTooMuch else {
                throw KithError(
                    .denied, "\(device) sent more of the end of \(path) than was asked for. The rest was refused.")
            }
            self.left = left
        }
    }

    /// An addition to a file, or something that happened to it.
    public struct Followed: StreamMessage, Hashable {
        /// An event of a file that is followed.
        @nonexhaustive
        public enum Event: String, Codable, Hashable, Sendable, CaseIterable {
            /// Everything that was there at first has been sent.
            case reachedEnd
            /// It has become shorter; its bytes from the beginning come next.
            case truncated
            /// Another file has its name; the bytes of that one come next.
            case replaced
            /// No file has its name, or the file cannot be read; one is waited for.
            case missing
        }

        /// Bytes of the file; empty with an event.
        public var bytes: ByteString
        /// The event.
        public var event: Event?
        /// The error that ended it.
        public var failure: Failure?

        /// Makes a message.
        public init(bytes: ByteString = [], event: Event? = nil, failure: Failure? = nil) {
            self.bytes = bytes
            self.event = event
            self.failure = failure
        }
    }
}

extension Files.Follow.Input: OmissibleInput {
    /// The last ten lines.
    public static var usual: Self { Self(path: "/") }
    /// The file.
    public static var required: Set<String> { ["path"] }
}
