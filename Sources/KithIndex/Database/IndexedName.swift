import KithCatalog

/// What an index holds of a name beside its bytes.
struct IndexedName {
    /// The text that is searched.
    let folded: String
    /// What follows the last dot that is not the first character, folded; empty when there is none.
    let fileExtension: String

    init(_ name: [UInt8]) {
        folded = foldedName(name)
        fileExtension = Self.fileExtension(of: folded)
    }

    private static func fileExtension(of folded: String) -> String {
        let bytes = folded.utf8
        guard let dot = bytes.lastIndex(of: UInt8(ascii: ".")), dot != bytes.startIndex else { return "" }
        let text = bytes[bytes.index(after: dot)...]
        return text.count <= 16 ? String(text) ?? "" : ""
    }

    /// The category of what has this name; empty for what is no file.
    func category(_ kind: StoredKind) -> String {
        kind == .file ? FileCategory(extension: fileExtension).rawValue : ""
    }
}
