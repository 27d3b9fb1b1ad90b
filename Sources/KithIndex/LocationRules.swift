/// What a location leaves out of the index.
package struct LocationRules: Codable, Hashable, Sendable {
    /// Patterns in the syntax of `.gitignore`, relative to the location.
    package var patterns: [String]
    /// Whether what the `.gitignore` files in it name is left out.
    package var followsIgnoreFiles: Bool

    /// Makes rules; as they are, those of a location added with nothing else said.
    package init(patterns: [String] = Self.usualPatterns, followsIgnoreFiles: Bool = true) {
        self.patterns = patterns
        self.followsIgnoreFiles = followsIgnoreFiles
    }

    /// What a location leaves out with nothing else said.
    package static let usualPatterns = systemPatterns + versionControlPatterns

    /// Files that systems leave about and nobody looks for.
    package static let systemPatterns = [
        ".DS_Store", ".Trashes", ".Spotlight-V100", ".fseventsd", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN",
        "System Volume Information", "lost+found",
    ]
    /// What version control keeps for itself.
    package static let versionControlPatterns = [".git/", ".hg/", ".svn/", ".jj/"]
}

/// How much of a location is in the index.
package enum LocationMode: String, Codable, Hashable, Sendable, CaseIterable {
    /// The names in its folder itself.
    case shallow
    /// All that is beneath it.
    case recursive
    /// The same, and the identity of the content of each file.
    case content
}
