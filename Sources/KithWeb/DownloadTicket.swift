import KithAPI
import KithWire

/// A file, or an archive of files and folders, that a page may have.
struct DownloadTicket: Sendable {
    /// What it is of.
    enum Content: Sendable {
        case file(Files.Path, Files.Entry)
        case archive(ArchiveForm, [Files.Path])
    }

    let content: Content
    /// The device that has it; `nil`: this one.
    let device: String?
    /// The name it is saved under.
    let name: String
    /// True when it may be shown where it is.
    let isInline: Bool
    /// Its size; `nil` when that is not known before it is asked for.
    let size: UInt64?

    /// The most paths of an archive.
    static let pathLimit = 10_000
    /// The most bytes of a file.
    static let sizeLimit: UInt64 = 1 << 53

    /// Looks at what is asked for, as this device's person, and throws what the device that has it says against that.
    init(_ wanted: WebRequests.Download, on device: String?, client: Client) async throws {
        self.device = device
        guard !wanted.paths.isEmpty else { throw KithError(.invalid, "Name a file in `paths`.") }
        guard wanted.paths.count <= Self.pathLimit else {
            throw KithError(
                .invalid, "At most \(Self.pathLimit) paths go into one archive: name the folder they are in.")
        }
        let form: ArchiveForm?
        switch wanted.form ?? .file {
        case .file: form = nil
        case .zip: form = .zip
        case .tar: form = .tar
        }
        if let form {
            // Those that are not there are said now, where a page can show it.
            if wanted.paths.count == 1 {
                _ = try await client.call(
                    Files.Stat.self, .init(path: wanted.paths[0], followsLinks: true), on: device)
            }
            content = .archive(form, wanted.paths)
            name = (wanted.paths.count == 1 ? Self.name(of: wanted.paths[0]) : "files") + form.ending
            (isInline, size) = (false, nil)
            return
        }
        guard wanted.paths.count == 1 else {
            throw KithError(.invalid, "Several files come as an archive: ask for the form zip or tar.")
        }
        let path = wanted.paths[0]
        let entry = try await client.call(Files.Stat.self, .init(path: path, followsLinks: true), on: device)
        guard entry.kind == .file else {
            throw KithError(.invalid, "“\(path)” is not a file: ask for the form zip or tar.")
        }
        guard entry.size <= Self.sizeLimit else {
            throw KithError(.invalid, "“\(path)” says it has \(entry.size) bytes: that is no file.")
        }
        content = .file(path, entry)
        name = Self.name(of: path)
        isInline = wanted.inline == true && MediaType.shown(name) != nil
        size = entry.size
    }

    /// The last name of a path; `files` where it has none.
    static func name(of path: Files.Path) -> String {
        let last = path.bytes.split(separator: UInt8(ascii: "/")).last.map { String(decoding: $0, as: UTF8.self) } ?? ""
        return last.isEmpty || last == "~" || last == "." ? "files" : last
    }
}
