import KithAPI
import KithWire

/// Patterns in the paths of other devices: `laptop:/srv/d/*.txt`, expanded there.
///
/// As a shell's: `*`, `?` and `[a-z]` match within one name, and a name that begins with a dot only where the pattern
/// does, too. A thing whose name is the pattern itself comes first.
enum RemotePatterns {
    /// So many things one pattern may stand for.
    static let limit = 4_000

    /// What a location stands for, by name; the location itself without a pattern in it, or when it is there.
    ///
    /// - Throws: `.notFound` when nothing matches, `.exhausted` when more than ``limit`` do.
    static func expanded(_ location: Files.Location, _ client: Client) async throws -> [Files.Location] {
        guard let device = location.device, mayBeOne(location) else { return [location] }
        let literal = try await client.call(
            Files.Exists.self, Files.Exists.Input(path: location.path), on: device)
        if literal.kind != nil { return [location] }
        let names = location.path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true)
        var found: [[UInt8]] = [location.path.bytes.first == UInt8(ascii: "/") ? [UInt8(ascii: "/")] : []]
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            var below: [[UInt8]] = []
            for folder in found {
                guard isPattern(Array(name)) else {
                    below.append(joined(folder, Array(name)))
                    continue
                }
                below += try await matches(Array(name), in: folder, foldersOnly: !isLast, on: device, client)
                guard below.count <= limit else {
                    throw KithError(.exhausted, "\(location) matches more than \(limit) things. Copy the folder.")
                }
            }
            found = below
        }
        guard !found.isEmpty else { throw KithError(.notFound, "Nothing on \(device) matches \(location.path).") }
        return found.map { Files.Location(device: device, path: Files.Path(bytes: $0)) }
    }

    /// Whether a location is on another device and has what a pattern has.
    static func mayBeOne(_ location: Files.Location) -> Bool {
        location.device != nil && isPattern(location.path.bytes)
    }

    private static func isPattern(_ name: [UInt8]) -> Bool { name.contains { "*?[".utf8.contains($0) } }

    private static func joined(_ folder: [UInt8], _ name: [UInt8]) -> [UInt8] {
        folder.isEmpty || folder.last == UInt8(ascii: "/") ? folder + name : folder + [UInt8(ascii: "/")] + name
    }

    /// What matches one name of a pattern in one folder; nothing in one that is not there.
    private static func matches(
        _ pattern: [UInt8], in folder: [UInt8], foldersOnly: Bool, on device: String, _ client: Client
    ) async throws -> [[UInt8]] {
        var filter = Files.Filter()
        filter.patterns = [Files.Filter.Pattern(String(decoding: pattern, as: UTF8.self))]
        if foldersOnly { filter.kinds = [.folder, .link] }
        let input = Files.Find.Input(
            path: Files.Path(bytes: folder), filter: filter, minimumDepth: 1, maximumDepth: 1)
        let messages = MessageStream(try await client.open(Files.Find.self, input, on: device).stream)
        let showsHidden = pattern.first == UInt8(ascii: ".")
        var names: [[UInt8]] = []
        while let found = try await messages.receive(Files.Found.self) {
            names += found.entries.map(\.name.bytes).filter { showsHidden || $0.first != UInt8(ascii: ".") }
            if let failure = found.failure {
                if failure.code == .notFound { return [] }
                throw failure.error
            }
            guard !found.isLast, names.count <= limit else { break }
        }
        messages.stream.abort(.cancelled)
        return names.sorted { $0.lexicographicallyPrecedes($1) }.map { joined(folder, $0) }
    }
}
