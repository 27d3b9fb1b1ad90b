import Foundation
import KithContent
import KithIO
import KithIndex
import KithWire

/// The thumbnails of a library, as files: those that were not asked for longest go when there are too many bytes.
///
/// Each is bound to a file as it was, not to its path: one that has changed has another.
actor ThumbnailCache {
    /// The most bytes, and as many as stay when it was more.
    static let (limit, keeps) = (256 << 20, 224 << 20)

    private let directory: String
    private let limit: Int
    private let keeps: Int
    /// The bytes there are; `nil` until they were counted.
    private var bytes: Int?

    init(directory: String, limit: Int = limit, keeps: Int = keeps) {
        (self.directory, self.limit, self.keeps) = (directory, limit, keeps)
    }

    private func path(_ item: ExtractionItem, _ side: Int) -> (folder: String, file: String) {
        let inode = UInt64(bitPattern: item.inode)
        let parts =
            [inode, UInt64(bitPattern: item.size), UInt64(bitPattern: item.modified)]
            + [UInt64(bitPattern: item.changed), UInt64(bitPattern: item.location), UInt64(side)]
        let folder = directory + "/" + String(inode % 256, radix: 16)
        return (folder, folder + "/" + parts.map { String($0, radix: 16) }.joined(separator: "-"))
    }

    /// The thumbnail of a file; `nil` when there is none.
    func thumbnail(of item: ExtractionItem, side: Int) -> ContentExchange.Thumbnail? {
        let path = path(item, side).file
        let frame = ContentExchange.Frame.thumbnail
        // What is not there, or not as it was written, is made anew.
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            attributes[.type] as? FileAttributeType == .typeRegular,
            let size = attributes[.size] as? Int, size <= frame.limit,
            let data = try? Data(contentsOf: URL(fileURLWithPath: path))
        else { return nil }
        var answer = ContentExchange.Answer()
        guard (try? answer.received(frame, [UInt8](data))) == false else { return nil }
        // If its time cannot be set, it only goes earlier.
        try? FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: path)
        return answer.thumbnail
    }

    /// Keeps a thumbnail: whole, or not at all.
    func keep(_ thumbnail: ContentExchange.Thumbnail, of item: ExtractionItem, side: Int) throws {
        let (folder, file) = path(item, side)
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let (width, height) = (UInt16(clamping: thumbnail.width), UInt16(clamping: thumbnail.height))
        let head = [UInt8(width & 0xFF), UInt8(width >> 8), UInt8(height & 0xFF), UInt8(height >> 8)]
        try Data(head + thumbnail.bytes).write(to: URL(fileURLWithPath: file), options: .atomic)
        bytes = bytes.map { $0 + head.count + thumbnail.bytes.count } ?? size
        if bytes ?? 0 > limit { removeOldest() }
    }

    /// The bytes there are.
    var size: Int { files().reduce(0) { $0 + $1.size } }

    private func removeOldest() {
        var left = 0
        for file in files().sorted(by: { $0.used > $1.used }) {
            if left + file.size <= keeps {
                left += file.size
            } else {
                // One that cannot be removed is counted the next time.
                try? FileManager.default.removeItem(atPath: file.path)
            }
        }
        bytes = left
    }

    private func files() -> [(path: String, size: Int, used: Date)] {
        let keys: Set<URLResourceKey> = [.isRegularFileKey, .fileSizeKey, .contentModificationDateKey]
        let all = FileManager.default.enumerator(
            at: URL(fileURLWithPath: directory), includingPropertiesForKeys: Array(keys))
        var files: [(path: String, size: Int, used: Date)] = []
        while let file = all?.nextObject() as? URL {
            // One that has gone meanwhile takes no room.
            guard let values = try? file.resourceValues(forKeys: keys), values.isRegularFile == true else { continue }
            files.append((file.path, values.fileSize ?? 0, values.contentModificationDate ?? .distantPast))
        }
        return files
    }
}
