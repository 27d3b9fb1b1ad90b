import KithAPI
import KithRPC
import KithWire

/// The files of a library, as the library has them: with their tags and kinds.
struct IndexedFiles: Sendable {
    /// The most entries that our method gives at once.
    private static let pageLimit: Int64 = 1_000

    private let device: AdaptedDevice
    private let library: String?
    /// The numbers of the locations, and the names in their paths.
    private let locations: [(id: JSONValue, names: [ArraySlice<UInt8>])]

    /// Asks for the locations of a library; of the default one, where none is named.
    init(of library: String?, on device: AdaptedDevice) async throws {
        self.device = device
        self.library = library
        let answer = try await device.client.call(named: "locations.list", Self.input([:], library))
        locations = (answer.member("locations")?.list ?? []).compactMap { location in
            guard let id = location.member("id"), let top = AdaptedPath.read(location.member("path")) else {
                return nil
            }
            return (id, top.names)
        }
    }

    private static func input(_ members: [String: JSONValue], _ library: String?) -> JSONValue {
        var members = members
        if let library { members["library"] = .string(library) }
        return .object(members)
    }

    /// What the library has of a path; `nil` when it has nothing.
    func facts(at path: Files.Path) async throws -> AdaptedFile.Facts? {
        let name = path.lastName
        guard let last = name.last, last > 0 else { return nil }
        // Just before the name: what lies between is not UTF-8, and next to never there.
        let before = name.dropLast() + [last - 1] + [UInt8](repeating: 0xFF, count: 8)
        var found: JSONValue?
        try await forEach(in: path.parent, after: Files.Path(bytes: Array(before)), limit: 8) { other, entry in
            if other == name { found = entry }
            return other.lexicographicallyPrecedes(name)
        }
        return try found.map { try AdaptedFile.facts(ofEntry: $0, of: device) }
    }

    /// Goes through what the library has of a folder, in the order of the bytes of the names, until `body` is false.
    ///
    /// Of a folder in no location, or one that was not scanned yet, it has nothing.
    func forEach(
        in folder: Files.Path, after first: Files.Path? = nil, limit: Int64 = pageLimit,
        _ body: (_ name: [UInt8], _ entry: JSONValue) throws -> Bool
    ) async throws {
        let wanted = folder.names
        guard let location = locations.first(where: { wanted.starts(with: $0.names) }) else { return }
        let inner = Files.Path(
            bytes: Array(wanted.dropFirst(location.names.count).joined(separator: [UInt8(ascii: "/")])))
        var after = first
        while true {
            var members: [String: JSONValue] = ["id": location.id, "path": inner.json, "limit": .integer(limit)]
            if let after { members["after"] = after.json }
            let page: JSONValue
            do {
                page = try await device.client.call(named: "locations.browse", Self.input(members, library))
            } catch let error as KithError where error.code == .notFound || error.code == .unsupported {
                // It was not scanned yet, or this device does not list folders from the index.
                return
            }
            var last: [UInt8]?
            for entry in page.member("entries")?.list ?? [] {
                guard let name = AdaptedPath.read(entry.member("path"))?.lastName else { continue }
                guard try body(name, entry) else { return }
                last = name
            }
            // A page that does not go on would be read for ever.
            guard page.member("hasMore")?.flag == true, let last, after.map({ $0.bytes != last }) ?? true else {
                return
            }
            after = Files.Path(bytes: last)
        }
    }
}
