import KithWire

/// One thing a paired device may do on this one.
///
/// As text: `shell`, `shell:command=LINE`, `shell:view`, `shell:agent`, `files:read=/srv`, `files:write=/home/ana`
/// (which includes reading), `screen:view`, `screen:control` (which includes viewing), `forward`, `library`,
/// `node:PATTERN`.
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
    /// See the screen, or see and control it.
    case screen(ScreenAccess)
    /// Open connections from this device.
    case forward
    /// Use the library.
    case library
    /// Call the services whose path matches the pattern.
    case node(pattern: String)

    /// What may be done with files.
    public enum FileAccess: String, Hashable, Sendable, Codable {
        /// List and read.
        case read
        /// List, read, create, change and delete.
        case write
    }

    /// What may be done with the screen.
    public enum ScreenAccess: String, Hashable, Sendable, Codable {
        /// See it.
        case view
        /// See it, type and point.
        case control
    }

    /// A kind of grant, whatever it is limited to.
    public enum Kind: String, Hashable, Sendable, Codable {
        case shell, files, screen, forward, library, node
    }

    /// What kind it is.
    public var kind: Kind {
        switch self {
        case .shell, .shellCommand, .shellView, .shellAgent: .shell
        case .files: .files
        case .screen: .screen
        case .forward: .forward
        case .library: .library
        case .node: .node
        }
    }

    /// Whether holding this grant allows what `needed` names.
    public func covers(_ needed: Grant) -> Bool {
        switch (self, needed) {
        case (.shell, .shell), (.shell, .shellCommand), (.shell, .shellView), (.shellView, .shellView),
            (.shellAgent, .shellAgent), (.forward, .forward), (.library, .library):
            true
        case (.shellCommand(let held), .shellCommand(let wanted)): held == wanted
        case (.files(let held, let root), .files(let wanted, let path)):
            (held == .write || wanted == .read) && Self.contains(root, path)
        case (.screen(let held), .screen(let wanted)): held == .control || wanted == .view
        case (.node(let held), .node(let wanted)): held == wanted
        default: false
        }
    }

    /// Whether `path` is `root` or lies beneath it, by whole components.
    private static func contains(_ root: String, _ path: String) -> Bool {
        guard isNormalised(path) else { return false }
        return root == "/" || path == root || path.hasPrefix(root + "/")
    }

    /// Whether a path is absolute, without `.`, `..`, doubled or trailing slashes, and without a NUL.
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
        case .files(let access, let root): "files:\(access.rawValue)=\(root)"
        case .screen(let access): "screen:\(access.rawValue)"
        case .node(let pattern): "node:\(pattern)"
        }
    }

    /// Reads the text form; `nil` when it is not one, or when a path is not absolute and plain.
    public init?(_ description: String) {
        let parts = description.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let kind = Kind(rawValue: String(parts[0])) else { return nil }
        let detail = parts.count == 2 ? parts[1] : nil
        switch (kind, detail) {
        case (.shell, nil): self = .shell
        case (.shell, "view"): self = .shellView
        case (.shell, "agent"): self = .shellAgent
        case (.shell, let detail?):
            guard detail.hasPrefix("command=") else { return nil }
            let line = detail.dropFirst("command=".count)
            let isPlain = line.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
            guard isPlain, !line.isEmpty, line.utf8.count <= 1_024 else { return nil }
            self = .shellCommand(String(line))
        case (.forward, nil): self = .forward
        case (.library, nil): self = .library
        case (.screen, let detail?):
            guard let access = ScreenAccess(rawValue: String(detail)) else { return nil }
            self = .screen(access)
        case (.node, let detail?):
            guard !detail.isEmpty, detail.utf8.count <= 256 else { return nil }
            self = .node(pattern: String(detail))
        case (.files, let detail?):
            let halves = detail.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard halves.count == 2, let access = FileAccess(rawValue: String(halves[0])) else { return nil }
            var root = String(halves[1])
            while root.utf8.count > 1, root.hasSuffix("/") { root.removeLast() }
            guard Self.isNormalised(root) else { return nil }
            self = .files(access, root: root)
        default: return nil
        }
    }
}

extension Grant: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let grant = Grant(text) else {
            throw KithError(
                .invalid,
                """
                A grant is shell, shell:command=LINE, shell:view, shell:agent, files:read=/PATH, files:write=/PATH, \
                screen:view, screen:control or forward.
                """)
        }
        self = grant
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension Sequence<Grant> {
    /// Whether any of them covers `needed`.
    public func allows(_ needed: Grant) -> Bool { contains { $0.covers(needed) } }
}
