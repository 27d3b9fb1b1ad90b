import KithIdentity
import KithWire

extension Files {
    /// Copies from one place of a device to another on it; the stream carries the progress.
    ///
    /// No byte of a file passes over a link, and so ``Progress/sent`` stays nothing. When the caller goes, the copy ends;
    /// what had arrived whole stays.
    public enum Duplicate: StreamMethod {
        /// The input: the sources and the destination.
        public struct Input: Codable, Hashable, Sendable {
            /// One or more files or folders.
            public var sources: [Path]
            /// A folder, or with one source its new name.
            public var destination: Path
            /// True to copy folders, with all in them.
            public var recursive: Bool
            /// The parts of the sources to copy.
            public var selection: Selection
            /// The way in which things are put in place.
            public var receiving: ReceiveOptions

            /// Makes the input.
            public init(
                sources: [Path], destination: Path, recursive: Bool = false, selection: Selection = Selection(),
                receiving: ReceiveOptions = ReceiveOptions()
            ) {
                self.sources = sources
                self.destination = destination
                self.recursive = recursive
                self.selection = selection
                self.receiving = receiving
            }

            // The wire's names, which are older.
            private enum CodingKeys: String, CodingKey {
                case sources, destination, recursive, selection
                case receiving = "landing"
            }
        }

        /// The service's answer.
        public typealias Output = Nothing
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "files.duplicate", by: .grant(.files, "write"),
            "Copies files and folders of this device to another place on it.")
        /// Nothing.
        public typealias Upstream = Nothing
        /// The progress; the last message carries the outcome.
        public typealias Downstream = Progress
        /// The access a caller needs for this input; the service checks that the sources may be read.
        public static func access(for input: Input) -> Access { input.destination.access(.write) }
    }
}

extension Files.Duplicate.Input: OmissibleInput {
    /// As `kith cp` does without options.
    public static var usual: Self { Self(sources: [], destination: "/") }
    /// The sources and the destination.
    public static var required: Set<String> { ["sources", "destination"] }
}
