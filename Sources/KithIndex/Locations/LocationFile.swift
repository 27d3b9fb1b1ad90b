import Foundation
package import KithWire

/// A location in a file: its name, its rules, and what a person noted of files in it, to be taken to another library.
///
/// The file is JSON, for its owner alone. Paths in it are relative to the location, so that it may lie elsewhere there.
package struct LocationFile: Hashable, Sendable {
    /// The version of the file's shape.
    static let version = 1
    /// The most bytes of a file that is read.
    static let limit = 64 << 20
    /// The most files with notes.
    static let noteLimit = 250_000

    /// What is noted of one file.
    package struct Note: Hashable, Sendable {
        /// Its path from the location, without a slash at its beginning.
        package var path: [UInt8]
        /// Its tags, each with those above it.
        package var tags: [[String]]
        package var annotation: Annotation
    }

    package var name: String
    /// Where the location was.
    package var path: [UInt8]
    package var mode: LocationMode
    package var rules: LocationRules
    package var notes: [Note]

    // MARK: - On the disk

    /// Writes the file, whole or not at all.
    ///
    /// - Returns: the number of its bytes.
    /// - Throws: `.conflict` when something has the name and is not to be replaced; what the disk says.
    package func write(to path: String, overwrites: Bool) throws(KithError) -> Int {
        var info = stat()
        if unsafe lstat(path, &info) == 0, !overwrites || info.st_mode & S_IFMT != S_IFREG {
            throw KithError(.conflict, "\(path) is there already.")
        }
        let bytes = StrictJSON.encoded(Stored(self))
        guard bytes.count <= Self.limit else {
            throw KithError(
                .exhausted, "The notes of \(name) are larger than such a file may be. Export the library instead.")
        }
        do throws(SystemFailure) { try DurableFile.replace(path, with: bytes) } catch {
            throw KithError(error.code, "\(path) cannot be written: \(error).")
        }
        return bytes.count
    }

    /// Reads a file, and checks all that is in it.
    ///
    /// - Throws: `.notFound`, `.corrupt` for a file that is not one, or not one of this version.
    package static func read(_ path: String) throws(KithError) -> LocationFile {
        let bytes: [UInt8]
        do throws(SystemFailure) { bytes = try DurableFile.contents(of: path, limit: limit) } catch {
            throw KithError(
                error.code,
                "\(path) cannot be read: \(error.number == EINVAL ? "it is not a regular file, or too large" : "\(error)")."
            )
        }
        do {
            return try JSONDecoder().decode(Stored.self, from: Data(bytes)).checked()
        } catch let error as Fault {
            throw KithError(.corrupt, "\(path) does not hold a location: \(error.reason).")
        } catch {
            throw KithError(
                .corrupt, "\(path) does not hold a location; `kith library export-location` writes one.", cause: error)
        }
    }

    /// The reason that a file is refused.
    fileprivate struct Fault: Error {
        var reason: String
    }

    /// The shape of the file.
    fileprivate struct Stored: Codable {
        struct Note: Codable {
            /// In UTF-8.
            var path: String?
            /// In base64, where that is not UTF-8.
            var bytes: String?
            var tags: [String]
            var favorite: Bool
            var rating: Int
            var note: String?
        }

        var version: Int
        var name: String
        /// In base64: it is shown to nobody.
        var path: String
        var mode: String
        var rules: LocationRules
        var notes: [Note]

        init(_ file: LocationFile) {
            (version, name, path) = (LocationFile.version, file.name, Base64.encode(file.path))
            (mode, rules) = (file.mode.rawValue, file.rules)
            notes = file.notes.map { note in
                let text = String(validating: note.path, as: UTF8.self)
                return Note(
                    path: text, bytes: text == nil ? Base64.encode(note.path) : nil,
                    tags: note.tags.map { $0.joined(separator: "/") }, favorite: note.annotation.isFavorite,
                    rating: note.annotation.rating, note: note.annotation.note)
            }
        }

        /// The location, after every value in it was looked at.
        func checked() throws(Fault) -> LocationFile {
            guard version == LocationFile.version else {
                throw Fault(reason: "a later version of Kith wrote it; update this one")
            }
            let name = name.trimmingCharacters(in: .whitespaces)
            guard (1...256).contains(name.utf8.count), let place = Base64.decode(path),
                place.first == UInt8(ascii: "/"), place.count <= 4_096, !place.contains(0)
            else { throw Fault(reason: "its name or its path is none") }
            guard let mode = LocationMode(rawValue: mode) else {
                throw Fault(reason: "a later version of Kith wrote it; update this one")
            }
            guard (try? RuleStack(rules)) != nil else { throw Fault(reason: "its rules cannot be read") }
            guard notes.count <= LocationFile.noteLimit else {
                throw Fault(reason: "it has notes on more than \(LocationFile.noteLimit) files")
            }
            var result: [LocationFile.Note] = []
            var seen: Set<[UInt8]> = []
            for note in notes {
                let path = try note.checkedPath()
                guard seen.insert(path).inserted else { throw Fault(reason: "a file is in it twice") }
                result.append(
                    LocationFile.Note(
                        path: path, tags: try note.checkedTags(),
                        annotation: Annotation(
                            isFavorite: note.favorite, rating: note.rating, note: note.note)))
            }
            return LocationFile(name: name, path: place, mode: mode, rules: rules, notes: result)
        }
    }
}

extension LocationFile.Stored.Note {
    /// The path, which leads nowhere but into the location.
    fileprivate func checkedPath() throws(LocationFile.Fault) -> [UInt8] {
        guard let path = path.map({ Array($0.utf8) }) ?? bytes.flatMap({ Base64.decode($0) }), path.count <= 4_096,
            !path.contains(0),
            path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).allSatisfy({
                !$0.isEmpty && $0 != [UInt8(ascii: ".")] && $0 != [UInt8(ascii: "."), UInt8(ascii: ".")]
            })
        else { throw LocationFile.Fault(reason: "a path in it does not lie in the location") }
        return path
    }

    /// The tags; stars and the note are looked at, too.
    fileprivate func checkedTags() throws(LocationFile.Fault) -> [[String]] {
        guard (0...5).contains(rating), note.map({ $0.utf8.count <= FileIndex.noteLimit && !$0.isEmpty }) ?? true,
            note?.utf8.contains(0) != true, tags.count <= 1_000
        else { throw LocationFile.Fault(reason: "stars, a note or tags in it are none") }
        return try tags.map { text throws(LocationFile.Fault) in
            let names = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            guard names.count <= FileIndex.tagDepthLimit, names.allSatisfy({ FileIndex.isTagName($0) }) else {
                throw LocationFile.Fault(reason: "a tag in it is none")
            }
            return names
        }
    }
}
