public import KithWire

/// One thing a paired device may do on this one.
///
/// As text: `shell`, `shell:command=LINE`, `shell:view`, `shell:agent`, `files:read=/srv`, `files:write=/home/ana`
/// (which includes reading), `screen:view`, `screen:control` (which includes viewing), `screen:clipboard`,
/// `screen:record`, `screen:privacy`, `screen:unattended`, `forward`, `forward:to=HOST:PORT`,
/// `forward:listen=ADDRESS:PORT` (``ForwardPattern``),
/// `library`, `library:read` (which includes searching), `node:PATTERN` for what services from outside this package ask
/// for.
@nonexhaustive
public enum Grant: Hashable, Sendable {
    /// Run commands and shells as this device's user.
    case shell
    /// Run this line in the shell of this device's user, and no other.
    case shellCommand(String)
    /// See the shells that somebody here shares.
    case shellView
    /// Have its ssh agent asked by the shells it opens here; no other grant includes this.
    case shellAgent
    /// Read, or read and write, what lies beneath `root`: an absolute path without `.`, `..` or doubled slashes.
    case files(FileAccess, root: String)
    /// See the screen, see and control it, exchange clipboards with it, record it, darken it, or be let in without a
    /// person there.
    case screen(ScreenAccess)
    /// Open connections from this device to anywhere it can reach, its own loopback and Unix sockets too, and listen
    /// on its loopback.
    case forward
    /// Open connections from this device to what the pattern says.
    case forwardTo(ForwardPattern)
    /// Listen on this device where the pattern says.
    case forwardListen(ForwardPattern)
    /// Search the libraries: names, paths, sizes, times, tags and numbers of what is in their locations, no contents.
    case library
    /// Search the libraries, and read the files in their locations.
    case libraryRead
    /// Use what a service calls so: a path or the name of a method, which are the same (`TopicPath`), or a pattern.
    ///
    /// Patterns are those of topics: `math/add`, `sensors/*/temperature`, `chat/>`. Ended by `.*` or `/*`, everything
    /// that begins with the words before: `math.*` covers `math.add`, `math/add` and `math.slow.add`, not `math` itself
    /// nor `mathematics.add`; `*` covers all of this kind. What begins with `$` is a device's own: only a grant that
    /// begins with the same word covers it. What is asked for may be a pattern, too: all of it must be covered.
    case node(pattern: String)

    /// The access to files that a grant gives.
    @nonexhaustive
    public enum FileAccess: String, Hashable, Sendable, Codable {
        /// List and read.
        case read
        /// List, read, create, change and delete.
        case write
    }

    /// The access to the screen that a grant gives.
    @nonexhaustive
    public enum ScreenAccess: String, Hashable, Sendable, Codable {
        /// See it.
        case view
        /// See it, type and point.
        case control
        /// Exchange clipboards with it, while it is seen.
        case clipboard
        /// Keep a recording of what is seen.
        case record
        /// Keep it dark for whoever is in front of it, while it is seen.
        case privacy
        /// Do what other grants allow without anybody there being asked.
        case unattended
    }

    /// A kind of grant, whatever it is limited to.
    @nonexhaustive
    public enum Kind: String, Hashable, Sendable, Codable {
        case shell, files, screen, forward, library, node
    }

    /// The kind of the grant.
    public var kind: Kind {
        switch self {
        case .shell, .shellCommand, .shellView, .shellAgent: .shell
        case .files: .files
        case .screen: .screen
        case .forward, .forwardTo, .forwardListen: .forward
        case .library, .libraryRead: .library
        case .node: .node
        }
    }

    /// Tells whether holding this grant allows what `needed` names.
    public func covers(_ needed: Grant) -> Bool {
        switch (self, needed) {
        case (.shell, .shell), (.shell, .shellCommand), (.shell, .shellView), (.shellView, .shellView),
            (.shellAgent, .shellAgent), (.forward, .forward), (.library, .library), (.libraryRead, .library),
            (.libraryRead, .libraryRead):
            true
        case (.shellCommand(let held), .shellCommand(let wanted)): held == wanted
        case (.files(let held, let root), .files(let wanted, let path)):
            (held == .write || wanted == .read) && Self.contains(root, path)
        case (.screen(let held), .screen(let wanted)): held == wanted || (held == .control && wanted == .view)
        case (.node(let held), .node(let wanted)): Self.matches(held, wanted)
        case (.forward, .forwardTo): true
        case (.forward, .forwardListen(.hosts(let hosts, _))): ForwardPattern.Hosts.localhost.covers(hosts)
        case (.forwardTo(let held), .forwardTo(let wanted)): held.covers(wanted)
        case (.forwardListen(let held), .forwardListen(let wanted)): held.covers(wanted)
        default: false
        }
    }

    /// Tells whether `wanted` is what `held` names, in either spelling, or one of those it stands for.
    private static func matches(_ held: String, _ wanted: String) -> Bool {
        if held == wanted { return true }
        guard let path = try? TopicPath(method: wanted) else { return begins(wanted, as: held) }
        // What is a device's own is granted by its name or not at all.
        let isReserved = path.service.utf8.first == UInt8(ascii: "$")
        if held == "*" { return !isReserved }
        if begins(wanted, as: held) || begins(path.methodName, as: held) { return true }
        if begins(path.description, as: held.contains(":") ? held : "\(TopicPath.defaultNetwork):\(held)") {
            return true
        }
        guard let pattern = try? TopicPath(method: held), pattern.covers(path) else { return false }
        return !isReserved || pattern.segments[0] == path.segments[0]
    }

    /// Tells whether `name` begins, by whole words, with those before the `.*` or `/*` at the end of `pattern`.
    private static func begins(_ name: String, as pattern: String) -> Bool {
        guard pattern.hasSuffix(".*") || pattern.hasSuffix("/*") else { return false }
        return name.utf8.starts(with: pattern.utf8.dropLast())
    }

    /// Tells whether `path` is `root` or lies beneath it, by whole components.
    private static func contains(_ root: String, _ path: String) -> Bool {
        guard isNormalised(path) else { return false }
        return root == "/" || path == root || path.hasPrefix(root + "/")
    }

    /// Tells whether a path is absolute, without `.`, `..`, doubled or trailing slashes, and without a NUL.
    public static func isNormalised(_ path: String) -> Bool {
        guard path.utf8.first == 47, path.utf8.count <= 4_096, !path.utf8.contains(0) else { return false }
        guard path != "/" else { return true }
        return path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).allSatisfy {
            !$0.isEmpty && $0 != "." && $0 != ".."
        }
    }
}

extension Grant: LosslessStringConvertible {
    /// The text form.
    public var description: String {
        switch self {
        case .shell, .forward, .library: kind.rawValue
        case .shellCommand(let line): "shell:command=\(line)"
        case .shellView: "shell:view"
        case .shellAgent: "shell:agent"
        case .libraryRead: "library:read"
        case .forwardTo(let pattern): "forward:to=\(pattern)"
        case .forwardListen(let pattern): "forward:listen=\(pattern)"
        case .files(let access, let root): "files:\(access.rawValue)=\(root)"
        case .screen(let access): "screen:\(access.rawValue)"
        case .node(let pattern): "node:\(pattern)"
        }
    }

    /// Reads the text form; `nil` when it is not one.
    public init?(_ description: String) {
        // Whoever wants to know why not asks `init(parsing:)`.
        guard let grant = try? Grant(parsing: description) else { return nil }
        self = grant
    }

    /// Reads the text form.
    ///
    /// - Throws: `.invalid`, saying what is wrong and what would be right.
    public init(parsing text: String) throws(KithError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let kind = Kind(rawValue: String(parts[0])) else { throw Self.unknown(text) }
        let detail = parts.count == 2 ? parts[1] : nil
        switch (kind, detail) {
        case (.shell, nil): self = .shell
        case (.shell, "view"): self = .shellView
        case (.shell, "agent"): self = .shellAgent
        case (.shell, let detail?):
            guard detail.hasPrefix("command=") else { throw Self.unknown(text) }
            let line = detail.dropFirst("command=".count)
            let isPlain = line.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
            guard isPlain, !line.isEmpty, line.utf8.count <= 1_024 else {
                throw KithError(.invalid, "A granted line has 1 to 1024 bytes, and no control characters.")
            }
            self = .shellCommand(String(line))
        case (.forward, nil): self = .forward
        case (.forward, let detail?): self = try Self.forwarding(detail)
        case (.files, nil):
            throw KithError(.invalid, "“files” lacks what it allows, and where: files:read=/PATH or files:write=/PATH.")
        case (.library, nil): self = .library
        case (.library, "read"): self = .libraryRead
        case (.screen, let detail?):
            guard let access = ScreenAccess(rawValue: String(detail)) else { throw Self.unknown(text) }
            self = .screen(access)
        case (.node, let detail?):
            guard !detail.isEmpty, detail.utf8.count <= 256 else { throw Self.unknown(text) }
            self = .node(pattern: String(detail))
        case (.files, let detail?):
            let halves = detail.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard halves.count == 2, let access = FileAccess(rawValue: String(halves[0])) else {
                guard halves.count == 1, FileAccess(rawValue: String(detail)) != nil else { throw Self.unknown(text) }
                throw KithError(.invalid, "“\(text)” lacks the folder it is for: \(text)=/PATH.")
            }
            var root = String(halves[1])
            while root.utf8.count > 1, root.hasSuffix("/") { root.removeLast() }
            guard Self.isNormalised(root) else {
                throw KithError(.invalid, "“\(root.prefix(128))” is not an absolute path without “.”, “..” and “//”.")
            }
            self = .files(access, root: root)
        default: throw Self.unknown(text)
        }
    }

    private static func forwarding(_ detail: Substring) throws(KithError) -> Grant {
        let halves = detail.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        switch (halves[0], halves.count) {
        case ("to", 2): return .forwardTo(try ForwardPattern(parsing: halves[1]))
        case ("listen", 2):
            let pattern = try ForwardPattern(parsing: halves[1])
            switch pattern {
            case .hosts(.name, _), .hosts(.beneath, _):
                throw KithError(
                    .invalid, "Listening is at an address: forward:listen=localhost:PORT, ADDRESS:PORT or *:PORT.")
            default: return .forwardListen(pattern)
            }
        default:
            throw KithError(
                .invalid,
                "Forwarding is granted whole (forward), or as forward:to=HOST:PORT or forward:listen=ADDRESS:PORT.")
        }
    }

    private static func unknown(_ text: String) -> KithError {
        KithError(
            .invalid,
            """
            “\(text.prefix(128))” is not a grant. There are: shell, shell:command=LINE, shell:view, shell:agent, \
            files:read=/PATH, files:write=/PATH, screen:view, screen:control, screen:clipboard, screen:record, \
            screen:privacy, screen:unattended, forward, forward:to=HOST:PORT, forward:listen=ADDRESS:PORT, library, \
            library:read, node:NAME.
            """)
    }
}

extension Grant: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        self = try Grant(parsing: decoder.singleValueContainer().decode(String.self))
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension Sequence<Grant> {
    /// Tells whether any of them covers `needed`.
    public func allows(_ needed: Grant) -> Bool { contains { $0.covers(needed) } }
}
