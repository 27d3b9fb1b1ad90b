/// A form of archive, written in order, whose size is known before any of the contents is read.
enum ArchiveForm: Hashable, Sendable {
    case zip
    case tar

    var ending: String { self == .zip ? ".zip" : ".tar" }
    var mediaType: String { self == .zip ? "application/zip" : "application/x-tar" }
}

/// A file or folder in an archive.
struct ArchiveEntry: Hashable, Sendable {
    /// Its path in the archive: names with slashes between, none in front, UTF-8.
    var name: String
    var isFolder: Bool
    /// Bytes; 0 of a folder.
    var size: UInt64
    /// The time of the last change, in seconds since 1970.
    var modified: Int64
    /// The permission bits.
    var mode: UInt32

    /// A path as it is safe to unpack: no backslashes, which are slashes elsewhere, no control characters.
    static func name(_ bytes: some Collection<UInt8>) -> String {
        String(
            String.UnicodeScalarView(
                String(decoding: bytes, as: UTF8.self).unicodeScalars.map { scalar in
                    scalar == "\\" || scalar.value < 0x20 || scalar.value == 0x7F ? "_" : scalar
                }))
    }
}
