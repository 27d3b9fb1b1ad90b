package import Foundation
package import KithWire

/// The identity of a library: the file `library.json` in its folder.
package struct LibraryDescription: Hashable, Sendable {
    /// The name of the file.
    package static let fileName = "library.json"
    /// The version of the file's shape.
    static let version = 1
    /// The most bytes of the file.
    static let limit = 64 << 10
    /// The most bytes of a name.
    package static let nameLimit = 256

    package var id: UUID
    package var name: String
    /// Seconds since 1970.
    package var created: Int64

    package init(id: UUID, name: String, created: Int64) {
        (self.id, self.name, self.created) = (id, name, created)
    }

    /// The id as it is written everywhere: in small letters.
    package var idText: String { id.uuidString.lowercased() }

    /// The name without blanks around it.
    ///
    /// - Throws: `.invalid` for one that is empty, too long, has control characters, or could be taken for an id.
    package static func checkedName(_ name: String) throws(KithError) -> String {
        let name = name.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !name.isEmpty, name.utf8.count <= nameLimit, !name.hasPrefix("-"),
            name.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control })
        else {
            throw KithError(
                .invalid,
                "The name of a library has 1 to \(nameLimit) bytes, no control characters, and no - at its beginning.")
        }
        guard UUID(uuidString: name) == nil else {
            throw KithError(.invalid, "\(name) looks like the id of a library. Choose another name.")
        }
        return name
    }

    /// Tells whether a folder with these names is that of a library.
    static func isFolder(with entries: [ListedEntry]) -> Bool {
        let names = ["library.json", "index.sqlite", "lock"].map { Array($0.utf8) }
        return names.allSatisfy { name in entries.contains { $0.name == name && $0.attributes.kind == .file } }
    }

    // MARK: - The file

    /// Reads the one of a folder.
    ///
    /// - Throws: `.notFound` when the folder has none, `.corrupt` when it cannot be read as one.
    package static func read(from folder: String) throws(KithError) -> LibraryDescription {
        let path = folder + "/" + fileName
        let bytes: [UInt8]
        do throws(SystemFailure) {
            bytes = try DurableFile.contents(of: path, limit: limit)
        } catch {
            if error.isAbsence { throw KithError(.notFound, "\(folder) is not the folder of a library.") }
            throw KithError(error.code, "\(path) cannot be read: \(error).")
        }
        return try LibraryDescription(decoding: bytes, at: path)
    }

    /// Writes it into a folder, in place of the one that is there.
    package func write(to folder: String) throws(KithError) {
        let path = folder + "/" + Self.fileName
        do throws(SystemFailure) { try DurableFile.replace(path, with: encoded()) } catch {
            throw KithError(error.code, "\(path) cannot be written: \(error).")
        }
    }

    /// Reads the content of the file; members that it does not know are refused, as they would be lost.
    init(decoding bytes: [UInt8], at path: String) throws(KithError) {
        let stored: Stored
        do { stored = try JSONDecoder().decode(Stored.self, from: Data(bytes)) } catch {
            throw KithError(.corrupt, "\(path) does not describe a library: it is damaged.", cause: error)
        }
        guard stored.version <= Self.version else {
            throw KithError(.corrupt, "\(path) was written by a later version of Kith. Update this one.")
        }
        guard let id = UUID(uuidString: stored.id), stored.version == Self.version, stored.created >= 0 else {
            throw KithError(.corrupt, "\(path) does not describe a library: it is damaged.")
        }
        do throws(KithError) { name = try Self.checkedName(stored.name) } catch {
            throw KithError(.corrupt, "\(path) does not describe a library: \(error.message)")
        }
        (self.id, created) = (id, stored.created)
    }

    func encoded() -> [UInt8] {
        StrictJSON.encoded(Stored(version: Self.version, id: idText, name: name, created: created))
    }

    private struct Stored: Codable {
        var version: Int
        var id: String
        var name: String
        var created: Int64

        init(version: Int, id: String, name: String, created: Int64) {
            (self.version, self.id, self.name, self.created) = (version, id, name, created)
        }

        enum CodingKeys: String, CodingKey, CaseIterable { case version, id, name, created }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            version = try container.decode(Int.self, forKey: .version)
            // What a later version writes is not read as if it were of this one.
            if version <= LibraryDescription.version { try StrictJSON.check(decoder, CodingKeys.self) }
            id = try container.decode(String.self, forKey: .id)
            name = try container.decode(String.self, forKey: .name)
            created = try container.decode(Int64.self, forKey: .created)
        }
    }
}

/// Small JSON files of our own, in which nothing is that their type does not name.
enum StrictJSON {
    private struct AnyKey: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Refuses an object with members that its type does not have.
    static func check<Keys: CodingKey & CaseIterable>(_ decoder: any Decoder, _ keys: Keys.Type) throws {
        let known = Set(Keys.allCases.map(\.stringValue))
        for key in try decoder.container(keyedBy: AnyKey.self).allKeys where !known.contains(key.stringValue) {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "unknown member"))
        }
    }

    static func encoded(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        do { return [UInt8](try encoder.encode(value)) + [UInt8(ascii: "\n")] } catch {
            preconditionFailure("strings and numbers can always be written as JSON: \(error)")
        }
    }
}
