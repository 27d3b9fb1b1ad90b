import KithCatalog
import KithIO

/// What a location leaves out: its own patterns, and those of the `.gitignore` files on the way where it follows them.
struct RuleStack: Sendable {
    /// The most bytes of a `.gitignore` that are read.
    private static let maximumSize = 256 << 10

    private struct Level: Sendable {
        let rules: IgnoreRules
        /// The path from the folder of these rules to the one that is listed; empty, or with a slash at its end.
        var prefix: [UInt8]
    }

    /// From the outermost in.
    private var levels: [Level]
    private let followsIgnoreFiles: Bool

    /// The rules at the top of a location.
    init(_ rules: LocationRules) throws {
        let own = try IgnoreRules(rules.patterns)
        levels = own.isEmpty ? [] : [Level(rules: own, prefix: [])]
        followsIgnoreFiles = rules.followsIgnoreFiles
    }

    var isEmpty: Bool { levels.isEmpty }

    /// Tells whether a name in the folder that is listed is left out: the innermost rules that say anything decide.
    func excludes(_ name: [UInt8], isFolder: Bool) -> Bool {
        for level in levels.reversed() {
            if let decision = level.rules.decision(on: level.prefix + name, isFolder: isFolder) { return decision }
        }
        return false
    }

    /// The rules in a folder of this one.
    func entered(_ name: [UInt8]) -> RuleStack {
        guard !levels.isEmpty else { return self }
        var stack = self
        for index in stack.levels.indices { stack.levels[index].prefix += name + [UInt8(ascii: "/")] }
        return stack
    }

    /// The rules in a folder beneath the location, with those of the `.gitignore` files on the way to it.
    func entered(from top: [UInt8], to folder: [UInt8]) -> RuleStack {
        guard folder.count > top.count, var place = try? OpenFolder(path: top) else { return self }
        var stack = self
        for name in folder[top.count...].split(separator: UInt8(ascii: "/")).map(Array.init) {
            let entries: [ListedEntry] =
                (try? place.attributes(of: Self.fileName)).map {
                    [ListedEntry(name: Self.fileName, attributes: $0)]
                } ?? []
            stack = stack.entering(place, listed: entries).entered(name)
            guard let next = try? OpenFolder(name, in: place) else { return stack }
            place = next
        }
        return stack
    }

    private static let fileName = Array(".gitignore".utf8)

    /// The rules with those of the folder's own `.gitignore`.
    func entering(_ folder: OpenFolder, listed entries: [ListedEntry]) -> RuleStack {
        guard followsIgnoreFiles, entries.contains(where: { $0.name == Self.fileName && $0.attributes.kind == .file }),
            let text = try? folder.openFile(Self.fileName).contents(atMost: Self.maximumSize),
            let rules = try? IgnoreRules(
                text.split(separator: UInt8(ascii: "\n")).map { line in
                    String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
                }), !rules.isEmpty
        else { return self }
        var stack = self
        stack.levels.append(Level(rules: rules, prefix: []))
        return stack
    }
}

extension OpenFile {
    /// The first bytes, as many as there are up to a limit.
    func contents(atMost limit: Int) throws(SystemError) -> [UInt8] {
        var failure: SystemError?
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            do throws(SystemError) {
                while count < limit {
                    let rest = unsafe UnsafeMutableRawBufferPointer(
                        rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
                    let read = try unsafe self.read(into: rest, at: UInt64(count))
                    guard read > 0 else { break }
                    count += read
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }
}
