import Crypto
import Foundation
import GRDB
import KithIO
package import KithWire

/// A library in one file: a tar archive of three files, so that others can read it, too.
///
///     manifest.json   the sizes and SHA-256 of the other two, and what wrote them
///     library.json    its identity
///     index.sqlite    a consistent copy of its index
package enum LibraryArchive {
    /// How far an export or an import is.
    package struct Progress: Hashable, Sendable {
        package enum Phase: Hashable, Sendable { case copying, packing, checking }
        package var phase: Phase
        package var bytes: UInt64
        package var total: UInt64
    }

    /// What an archive holds, once all of it has been checked.
    package struct Contents: Sendable {
        package var description: LibraryDescription
        package var locations: [IndexLocation]
    }

    private static let manifestName = "manifest.json"
    private static let indexName = "index.sqlite"
    /// The most bytes of an index.
    static let indexLimit: UInt64 = 1 << 40

    private struct Manifest: Codable {
        struct File: Codable, Hashable {
            var name: String
            var size: UInt64
            /// In hexadecimal digits.
            var sha256: String

            init(name: String, size: UInt64, sha256: String) {
                (self.name, self.size, self.sha256) = (name, size, sha256)
            }

            enum CodingKeys: String, CodingKey, CaseIterable { case name, size, sha256 }

            init(from decoder: any Decoder) throws {
                try StrictJSON.check(decoder, CodingKeys.self)
                let container = try decoder.container(keyedBy: CodingKeys.self)
                name = try container.decode(String.self, forKey: .name)
                size = try container.decode(UInt64.self, forKey: .size)
                sha256 = try container.decode(String.self, forKey: .sha256)
            }
        }

        var version = 1
        /// Seconds since 1970.
        var exported: Int64
        var files: [File]

        init(exported: Int64, files: [File]) { (self.exported, self.files) = (exported, files) }

        enum CodingKeys: String, CodingKey, CaseIterable { case version, exported, files }

        init(from decoder: any Decoder) throws {
            try StrictJSON.check(decoder, CodingKeys.self)
            let container = try decoder.container(keyedBy: CodingKeys.self)
            version = try container.decode(Int.self, forKey: .version)
            exported = try container.decode(Int64.self, forKey: .exported)
            files = try container.decode([File].self, forKey: .files)
        }
    }

    // MARK: - Export

    /// Writes a library into a file as it is now; it goes on to be used meanwhile.
    ///
    /// The file appears whole, readable by its owner alone. What a crash leaves is one hidden file beside it, which the
    /// next export takes. Blocks while the disk works.
    ///
    /// - Throws: `.conflict` when the file is there, unless it `overwrites`, or another export writes it now.
    package static func write(
        _ description: LibraryDescription, folder: String, to path: String, overwrites: Bool,
        now: Int64 = Int64(Date().timeIntervalSince1970), step: @Sendable (String) -> Void = { _ in },
        progress: @escaping @Sendable (Progress) -> Void
    ) async throws(KithError) {
        let what = "export \(description.name) to \(path)"
        let copy = folder + "/.export-\(UUID().uuidString.lowercased()).sqlite"
        defer {
            // What is left is removed when the library is opened next.
            for suffix in ["", "-journal", "-wal", "-shm"] { _ = unsafe unlink(copy + suffix) }
        }
        do {
            guard let name = path.split(separator: "/").last.map(String.init), path.hasPrefix("/"), name != "..",
                name != ".", !path.hasSuffix("/"), !path.utf8.contains(0), name.utf8.count <= 200
            else { throw KithError(.invalid, "Could not \(what): that is not the whole path of a file.") }
            let parent = DurableFile.parent(of: path)
            let target = try ArchiveTarget.make(in: parent, name: name)
            try target.checkPlace(overwrites: overwrites)
            step("export.copy")
            try await IndexCopy.make(of: folder + "/index.sqlite", at: copy, progress: progress)
            step("export.pack")
            let identity = description.encoded()
            let index = try ArchiveReading(copy)
            let total = index.count
            let header = Manifest(
                exported: now,
                files: [
                    Manifest.File(
                        name: LibraryDescription.fileName, size: UInt64(identity.count),
                        sha256: hex(SHA256.hash(data: Data(identity)))),
                    Manifest.File(name: indexName, size: index.count, sha256: try index.hash()),
                ])
            let manifest = StrictJSON.encoded(header)
            for (name, bytes) in [(manifestName, manifest), (LibraryDescription.fileName, identity)] {
                try target.append(
                    ArchiveHeader(name: name, count: UInt64(bytes.count), modified: now).encoded() + bytes
                        + padding(UInt64(bytes.count)))
            }
            try target.append(ArchiveHeader(name: indexName, count: index.count, modified: now).encoded())
            var done: UInt64 = 0
            try index.forEach { bytes in
                try target.append(bytes)
                done += UInt64(bytes.count)
                progress(Progress(phase: .packing, bytes: done, total: total))
            }
            try target.append(padding(index.count) + [UInt8](repeating: 0, count: 2 * ArchiveHeader.size))
            step("export.sync")
            try target.finish(overwrites: overwrites) { step("export.move") }
            step("export.end")
        } catch let error as KithError {
            throw error
        } catch is CancellationError {
            throw KithError(.cancelled, "\(description.name) was not exported: it was cancelled.")
        } catch let error as SystemFailure {
            throw KithError(error.code, "Could not \(what): \(error).")
        } catch {
            throw FileIndex.failure(what, error)
        }
    }

    /// Removes what exports that were killed have left in a library's folder.
    package static func removeRemains(in folder: String) {
        // It is in nobody's way: the next time is early enough.
        for name in (try? DurableFile.names(in: folder)) ?? [] where name.hasPrefix(".export-") {
            _ = unsafe unlink(folder + "/" + name)
        }
    }

    private static func padding(_ count: UInt64) -> [UInt8] {
        [UInt8](repeating: 0, count: Int((512 - count % 512) % 512))
    }

    static func hex(_ digest: SHA256.Digest) -> String {
        digest.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
    }

    // MARK: - Import

    /// Unpacks an archive into an empty folder, and checks all of it.
    ///
    /// Blocks while the disk works.
    ///
    /// - Throws: `.corrupt` for anything in it that is not as it should be, `.exhausted` when it would not fit.
    package static func read(
        _ path: String, into folder: String, step: @Sendable (String) -> Void = { _ in },
        progress: @escaping @Sendable (Progress) -> Void
    ) throws(KithError) -> Contents {
        do {
            step("import.unpack")
            let description = try unpack(path, into: folder, progress)
            step("import.check")
            let size = try ArchiveReading(folder + "/" + indexName).count
            progress(Progress(phase: .checking, bytes: 0, total: size))
            let locations = try IndexCheck.checkAll(folder + "/" + indexName)
            progress(Progress(phase: .checking, bytes: size, total: size))
            // A database of ours is one file until it is opened: what checking has left beside it is nothing.
            for suffix in ["-journal", "-wal", "-shm"] { _ = unsafe unlink(folder + "/" + indexName + suffix) }
            return Contents(description: description, locations: locations)
        } catch let error as KithError {
            throw KithError(error.code, "\(path) cannot be imported: \(error.message)", cause: error.cause)
        } catch is CancellationError {
            throw KithError(.cancelled, "\(path) was not imported: it was cancelled.")
        } catch let error as SystemFailure {
            let reason = error.number == EINVAL ? "it is not a file, or it changes while it is read" : "\(error)"
            throw KithError(error.code, "\(path) cannot be imported: \(reason).")
        } catch {
            throw KithError(.corrupt, "\(path) cannot be imported: it is damaged.", cause: error)
        }
    }

    private static func damaged(_ what: String) -> KithError { KithError(.corrupt, what) }

    private static func unpack(
        _ path: String, into folder: String, _ progress: (Progress) -> Void
    ) throws -> LibraryDescription {
        let file = try ArchiveReading(path)
        var offset: UInt64 = 0
        /// The next header, of a file with this name and at most so many bytes.
        func header(_ name: String, limit: UInt64) throws -> UInt64 {
            let block = try file.bytes(at: offset, ArchiveHeader.size)
            let header: ArchiveHeader?
            do throws(ArchiveHeader.Failure) { header = try ArchiveHeader(block) } catch {
                throw damaged(
                    error == .notPlainFile
                        ? "There is something in it that is not a plain file of a library." : "It is not a library.")
            }
            guard let header, header.name == name else {
                throw damaged("It is not a library: \(name) is missing, or not in its place.")
            }
            offset += UInt64(ArchiveHeader.size)
            guard header.count <= limit, header.count <= file.count - min(offset, file.count) else {
                throw damaged("\(name) in it is larger than the whole file, or than such a file can be.")
            }
            return header.count
        }
        func skip(_ count: UInt64) { offset += count + UInt64(padding(count).count) }

        let manifestSize = try header(manifestName, limit: 64 << 10)
        let manifest: Manifest
        do {
            manifest = try JSONDecoder().decode(
                Manifest.self, from: Data(try file.bytes(at: offset, Int(manifestSize))))
        } catch let error as SystemFailure {
            throw error
        } catch {
            throw damaged("Its manifest is damaged.")
        }
        guard manifest.version == 1 else { throw damaged("A later version of Kith has written it. Update this one.") }
        guard manifest.files.map(\.name) == [LibraryDescription.fileName, indexName] else {
            throw damaged("Its manifest names other files than a library has.")
        }
        skip(manifestSize)
        let identitySize = try header(LibraryDescription.fileName, limit: UInt64(LibraryDescription.limit))
        let identity = try file.bytes(at: offset, Int(identitySize))
        guard manifest.files[0].size == identitySize,
            manifest.files[0].sha256 == hex(SHA256.hash(data: Data(identity)))
        else { throw damaged("\(LibraryDescription.fileName) in it is not what the manifest says.") }
        let description = try LibraryDescription(decoding: identity, at: LibraryDescription.fileName)
        skip(identitySize)
        let size = try header(indexName, limit: indexLimit)
        guard manifest.files[1].size == size else {
            throw damaged("\(indexName) in it is not what the manifest says.")
        }
        try checkRoom(for: size, in: folder)
        let output = unsafe open(
            folder + "/" + indexName, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard output >= 0 else { throw SystemFailure() }
        defer { close(output) }
        var (hash, done) = (SHA256(), UInt64(0))
        try file.forEach(from: offset, count: size) { bytes in
            hash.update(data: Data(bytes))
            try DurableFile.append(bytes, to: output)
            done += UInt64(bytes.count)
            progress(Progress(phase: .packing, bytes: done, total: size))
        }
        guard manifest.files[1].sha256 == hex(hash.finalize()) else {
            throw damaged("\(indexName) in it is not what the manifest says.")
        }
        guard fsync(output) == 0 else { throw SystemFailure() }
        skip(size)
        // Two blocks of zeros, and what some programs fill up with.
        guard file.count - min(offset, file.count) <= 64 << 10 else {
            throw damaged("There is more in it than a library has.")
        }
        try file.forEach(from: offset, count: file.count - min(offset, file.count)) { bytes in
            guard bytes.allSatisfy({ $0 == 0 }) else { throw damaged("There is more in it than a library has.") }
        }
        return description
    }

    private static func checkRoom(for size: UInt64, in folder: String) throws {
        var info = statvfs()
        guard unsafe statvfs(folder, &info) == 0 else { throw SystemFailure() }
        let (free, overflows) = UInt64(info.f_bavail).multipliedReportingOverflow(by: UInt64(info.f_frsize))
        guard overflows || (free > 64 << 20 && size < free - 64 << 20) else {
            throw KithError(.exhausted, "It has \(size) bytes, and \(free) are free in \(folder).")
        }
    }
}

extension LibraryArchive {
    /// Checks the index of a library in a folder that others may have changed, before it is opened; without one there is
    /// nothing to check.
    ///
    /// - Parameters:
    ///   - folder: The library's folder.
    ///   - isWhole: Whether its pages and all names in it are checked, too, which takes time with its size.
    /// - Throws: `.corrupt` when it is none of ours.
    package static func checkIndex(in folder: String, isWhole: Bool = false) throws(KithError) {
        let path = folder + "/" + indexName
        var info = stat()
        // A link that leads nowhere is something, too.
        if unsafe lstat(path, &info) != 0, errno == ENOENT { return }
        // SQLite plays a journal back before anything is read, and then deletes the file whose name stands at its end. Ours
        // have none.
        guard unsafe lstat(path + "-journal", &info) != 0, errno == ENOENT else {
            throw KithError(
                .corrupt, "The index of the library is not one: it has a journal, which SQLite would play back.")
        }
        if isWhole { _ = try IndexCheck.checkAll(path) } else { try IndexCheck.checkSchema(path) }
    }
}
