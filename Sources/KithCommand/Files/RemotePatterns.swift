import ArgumentParser
import KithAPI
import KithWire

/// Patterns in the paths of other devices: `laptop:/srv/d/*.txt`, expanded there.
///
/// As a shell's: `*`, `?` and `[a-z]` match within one name, and a name that begins with a dot only where the pattern
/// does, too. A thing whose name is the pattern itself comes first. What the device reports is held against
/// the pattern here: it cannot have another thing copied or printed than the ones that match.
enum RemotePatterns {
    /// So many things one pattern may stand for.
    static let limit = 4_000

    /// The matches of a location, by name; the location itself without a pattern in it, or when it exists.
    ///
    /// - Throws: `.notFound` when nothing matches, `.exhausted` when more than ``limit`` do, `.denied` when the device
    ///   answers with what does not match.
    static func expanded(_ location: Files.Location, _ client: Client) async throws -> [Files.Location] {
        guard let device = location.device, mayBeOne(location) else { return [location] }
        let literal = try await client.call(
            Files.Exists.self, Files.Exists.Input(path: location.path), on: device)
        if literal.kind != nil { return [location] }
        let names = location.path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true)
        var found = [Files.Path(bytes: location.path.bytes.first == UInt8(ascii: "/") ? [UInt8(ascii: "/")] : [])]
        var isBelowPattern = false
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            var below: [Files.Path] = []
            for folder in found {
                guard isPattern(Array(name)) else {
                    below.append(folder.appending(Array(name)))
                    continue
                }
                below += try await matches(Array(name), in: folder, foldersOnly: !isLast, on: device, client)
                guard below.count <= limit else {
                    throw KithError(
                        .exhausted, "\(location) matches more than \(limit) things. Name the folder, or fewer of them.")
                }
            }
            found = below
            if isPattern(Array(name)) {
                isBelowPattern = true
            } else if isBelowPattern, isLast || isPattern(Array(names[index + 1])) {
                found = try await existing(found, on: device, client)
            }
        }
        guard !found.isEmpty else { throw KithError(.notFound, "Nothing on \(device) matches \(location.path).") }
        return found.map { Files.Location(device: device, path: $0) }
    }

    /// Tells whether a location is on another device and has pattern characters.
    static func mayBeOne(_ location: Files.Location) -> Bool {
        location.device != nil && isPattern(location.path.bytes)
    }

    private static func isPattern(_ name: [UInt8]) -> Bool { name.contains { "*?[".utf8.contains($0) } }

    /// Those of some paths that are there, links to nowhere among them.
    private static func existing(
        _ paths: [Files.Path], on device: String, _ client: Client
    ) async throws -> [Files.Path] {
        var there: [Files.Path] = []
        // So many questions at once.
        for start in stride(from: 0, to: paths.count, by: 32) {
            let some = paths[start..<min(start + 32, paths.count)]
            let found = try await withThrowingTaskGroup(of: Files.Path?.self) { group in
                for path in some {
                    group.addTask {
                        do {
                            let answer = try await client.call(
                                Files.Exists.self, Files.Exists.Input(path: path), on: device)
                            return answer.kind == nil ? nil : path
                        } catch let error as KithError where error.code == .denied || error.code == .notFound {
                            // Behind a folder that may not be entered, as in a shell, nothing matches.
                            return nil
                        }
                    }
                }
                return try await group.reduce(into: Set<Files.Path>()) { if let path = $1 { $0.insert(path) } }
            }
            there += some.filter(found.contains)
        }
        return there
    }

    /// The matches of one name of a pattern in one folder; nothing in one that does not exist.
    private static func matches(
        _ pattern: [UInt8], in folder: Files.Path, foldersOnly: Bool, on device: String, _ client: Client
    ) async throws -> [Files.Path] {
        var filter = Files.Filter()
        filter.patterns = [Files.Filter.Pattern(String(decoding: pattern, as: UTF8.self))]
        if foldersOnly { filter.kinds = [.folder, .link] }
        // Without a folder before it: in the one that relative paths begin in.
        let input = Files.Find.Input(
            path: folder.bytes.isEmpty ? "." : folder, filter: filter, minimumDepth: 1, maximumDepth: 1)
        let check = try FoundCheck(input, from: device)
        let stream = try await client.open(Files.Find.self, input, on: device).stream
        defer { stream.abort(.cancelled) }
        let showsHidden = pattern.first == UInt8(ascii: ".")
        var names: [[UInt8]] = []
        for try await found in stream.messages {
            try check.check(found)
            names += found.entries.map(\.name.bytes).filter { showsHidden || $0.first != UInt8(ascii: ".") }
            if let failure = found.failure {
                if failure.code == .notFound { return [] }
                throw failure.error
            }
            guard !found.isLast, names.count <= limit else { break }
        }
        return Set(names).sorted { $0.lexicographicallyPrecedes($1) }.map { folder.appending($0) }
    }
}

/// The things a command is about, with the patterns among them expanded.
///
/// As the coreutils do, a command goes on after one that fails, and its status is that of the first that did.
struct PathList {
    /// The paths.
    private(set) var paths: [RemotePath] = []
    private let globals: GlobalOptions
    private let isAlone: Bool
    private var status: Int32?

    /// Expands what was typed.
    ///
    /// - Throws: the error of a single path that cannot be; of several, it is reported, and the others are gone on with.
    init(_ typed: [RemotePath], _ globals: GlobalOptions, _ client: Client) async throws {
        self.globals = globals
        isAlone = typed.count == 1
        for path in typed {
            guard let device = path.device else {
                paths.append(path)
                continue
            }
            do {
                paths += try await RemotePatterns.expanded(
                    Files.Location(device: device, path: path.remotePath), client
                ).map { RemotePath(device: device, exact: $0.path) }
            } catch let error as KithError where !isAlone && error.code != .closed {
                await failed(error)
            }
        }
    }

    /// Takes what was expanded already.
    init(_ paths: [RemotePath], _ globals: GlobalOptions, isAlone: Bool) {
        self.paths = paths
        self.globals = globals
        self.isAlone = isAlone
    }

    /// True when there are several, so that each is named where it is printed.
    var hasSeveral: Bool { paths.count > 1 || !isAlone }

    /// Runs `body` for each.
    ///
    /// - Throws: the error when there is one path alone, else the exit status of the first that failed.
    mutating func forEach(_ body: (RemotePath) async throws -> Void) async throws {
        for path in paths {
            do {
                try await body(path)
            } catch let error as KithError where !(isAlone && paths.count == 1) && error.code != .closed {
                await failed(error)
            }
        }
        if let status { throw ExitCode(status) }
    }

    private mutating func failed(_ error: KithError) async {
        report(await suggestingColon(error, globals), json: globals.json)
        if status == nil { status = error.code.exitStatus }
    }
}
