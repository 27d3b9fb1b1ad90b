import KithIdentity
public import KithWire

/// What is in the files of a device's library: properties, thumbnails, text.
public enum Media {
    /// What the content of a file says about itself; whoever wrote the file chose it.
    public struct Properties: Codable, Hashable, Sendable {
        /// The format by its usual name: `JPEG`, `MP4`, `PDF`.
        public var format: String?
        /// Pixels across, as it is to be shown.
        public var width: Int?
        /// Pixels down, as it is to be shown.
        public var height: Int?
        /// When it was taken, as the clock there showed it, in seconds from that clock's 1970.
        public var taken: Int64?
        /// The minutes by which that clock was ahead of Greenwich; absent where nobody noted it.
        public var takenOffset: Int?
        /// The maker and the model of the camera.
        public var camera: String?
        /// The lens.
        public var lens: String?
        /// Seconds.
        public var exposure: Double?
        /// The f-number.
        public var aperture: Double?
        /// The sensitivity of ISO 12232.
        public var sensitivity: Int?
        /// Millimetres.
        public var focalLength: Double?
        /// Degrees north, -90…90.
        public var latitude: Double?
        /// Degrees east, -180…180.
        public var longitude: Double?
        /// Metres above the sea.
        public var altitude: Double?
        /// Milliseconds.
        public var duration: Int64?
        /// The coding of the pictures: `H.264`.
        public var videoCodec: String?
        /// The coding of the sound: `AAC`.
        public var audioCodec: String?
        /// Samples of sound a second.
        public var sampleRate: Int?
        /// Channels of sound.
        public var channels: Int?
        /// The title.
        public var title: String?
        /// The artist or the author.
        public var author: String?
        /// The album.
        public var album: String?
        /// The number of pages or slides.
        public var pages: Int?

        /// Makes properties of which nothing is known.
        public init() {}
    }

    /// Describes a file of the library; what is not known of its content yet is read.
    public enum Describe: Method {
        /// The input: the file.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// The path of a file in a location.
            public var path: Files.Path

            /// Makes the input.
            public init(library: String? = nil, path: Files.Path) {
                self.library = library
                self.path = path
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The file.
            public var entry: Library.Entry
            /// The SHA-256 of its content in hex, where that is known.
            public var sha256: String?
            /// What its content says; absent when that could not be read.
            public var properties: Properties?
            /// The bytes of its text that are searched.
            public var textBytes: Int
            /// Why its content could not be read, in a sentence.
            public var problem: String?

            /// Makes the answer.
            public init(
                entry: Library.Entry, sha256: String? = nil, properties: Properties? = nil, textBytes: Int = 0,
                problem: String? = nil
            ) {
                self.entry = entry
                self.sha256 = sha256
                self.properties = properties
                self.textBytes = textBytes
                self.problem = problem
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "media.properties", by: .grant(.library, "read"),
            "Describes a file of the library, with what its content says.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.libraryRead) }
    }

    /// Makes a small picture of an image in the library.
    public enum Thumbnail: Method {
        /// The input: the file, and how large.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// The path of a file in a location.
            public var path: Files.Path
            /// The most pixels of the longer side: 256 or 1,024; absent: 256.
            public var size: Int?

            /// Makes the input.
            public init(library: String? = nil, path: Files.Path, size: Int? = nil) {
                self.library = library
                self.path = path
                self.size = size
            }
        }

        /// The answer: a JPEG, turned as it is to be shown, without what the file says of place and camera.
        public struct Output: Codable, Hashable, Sendable {
            /// Pixels across.
            public var width: Int
            /// Pixels down.
            public var height: Int
            /// The bytes of the JPEG, at most 512 KiB.
            public var bytes: ByteString

            /// Makes the answer.
            public init(width: Int, height: Int, bytes: ByteString) {
                self.width = width
                self.height = height
                self.bytes = bytes
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "media.thumbnail", by: .grant(.library, "read"), "Makes a small picture of an image in the library.")
        /// The access a caller needs.
        public static func access(for input: Input) -> Access { .granted(.libraryRead) }
    }

    /// Reads what is in the files of a location, so that it is found, as a job.
    public enum Extract: Method {
        /// The input: the location.
        public struct Input: Codable, Hashable, Sendable {
            /// The library; absent: the default one.
            public var library: String?
            /// The number of the location.
            public var id: Int64

            /// Makes the input.
            public init(library: String? = nil, id: Int64) {
                self.library = library
                self.id = id
            }
        }

        /// The answer: the job.
        public typealias Output = Jobs.Job
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "media.extract", by: .owner, "Reads the text and the properties of the files of a location, as a job.")
    }
}
