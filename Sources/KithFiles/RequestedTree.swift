import KithAPI
import KithCatalog
import KithWire

/// A check of what one device lists against what it was asked to send.
///
/// A sender may list the one thing that was asked for, under its name and of its kind, and what lies beneath it but for
/// what was to be left out. Anything else ends the transfer before it is put anywhere. A value without I/O: both the end
/// that puts things in place and the one that passes them on to a third device ask it.
struct RequestedTree: Sendable {
    /// The device, for messages.
    private let device: String
    /// The name of what was asked for; `nil` where the path has none, and the destination says it.
    private let name: [UInt8]?
    /// True when folders and links may come, too.
    let isRecursive: Bool
    /// True when the destination becomes what was asked for, and whatever comes later goes into that.
    private let isExact: Bool
    /// True when the path said that it is a folder.
    private let isFolder: Bool
    private let selection: Files.Selection
    private let rules: IgnoreRules
    private var hasBegun = false
    private var isOver = false
    /// The folder being listed, from the inside of the one asked for on, and how long that was before each on the way.
    private var path: [UInt8] = []
    private var lengths: [Int] = []

    /// Reads what is asked for.
    ///
    /// - Throws: `.invalid` for a path, or a pattern, that is none.
    init(
        _ source: Files.Location, recursive: Bool, exact: Bool = false, selection: Files.Selection
    ) throws(KithError) {
        let parsed = try source.path.parsed()
        device = source.device ?? "this device"
        name = parsed.components.last
        isRecursive = recursive
        isExact = exact || name == nil
        isFolder = parsed.isFolder
        self.selection = selection
        rules = try IgnoreRules(selection.exclude)
    }

    /// True when the request leaves the name open: `laptop:`, or the granted folder itself.
    var isUnnamed: Bool { name == nil }

    /// Takes the next message of the sender.
    ///
    /// - Throws: `.denied` for one that was not asked for.
    mutating func take(_ frame: TransferFrame) throws(KithError) {
        switch frame {
        case .folder(let attributes):
            try check(attributes.name, .folder)
            lengths.append(path.count)
            if lengths.count > 1 { path = relative(attributes.name) }
        case .folderEnd:
            // One that was never begun is the receiver's to refuse.
            guard let length = lengths.popLast() else { return }
            path.removeSubrange(length...)
        case .file(let attributes, _, _): try check(attributes.name, .file)
        case .link(let attributes, _): try check(attributes.name, .link)
        case .hardLink(let name, _):
            guard selection.hardLinks, !lengths.isEmpty else { throw refusal(shown(name)) }
            try check(name, .file)
        case .extended:
            guard selection.attributes else {
                throw KithError(
                    .denied, "\(device) sent extended attributes, which were not asked for. The copy was ended.")
            }
        case .end: isOver = true
        default: break
        }
    }

    private mutating func check(_ name: [UInt8], _ kind: Files.Kind) throws(KithError) {
        guard lengths.isEmpty else {
            guard !rules.excludes(relative(name), isFolder: kind == .folder) else { throw refusal(shown(name)) }
            return
        }
        let isPlausible = isRecursive ? kind == .folder || !isFolder : kind == .file
        guard !hasBegun, !isOver, self.name == nil || self.name == name else { throw refusal(shown(name)) }
        guard isPlausible else {
            let (sent, asked) = (Self.word(kind), isRecursive ? "a folder" : "a file")
            throw KithError(
                .denied, "\(device) sent \(sent), “\(shown(name))”, where \(asked) was asked for. The copy was ended.")
        }
        guard kind != .link || !isExact else {
            throw KithError(
                .denied,
                "\(device) sent a link, “\(shown(name))”, where a folder or a file was asked for. The copy was ended. For what a link leads to, put a slash behind its name."
            )
        }
        hasBegun = true
    }

    private func relative(_ name: [UInt8]) -> [UInt8] { path.isEmpty ? name : path + [UInt8(ascii: "/")] + name }

    private func shown(_ name: [UInt8]) -> Files.Path {
        guard !lengths.isEmpty, let top = self.name else { return Files.Path(bytes: name) }
        return Files.Path(bytes: top + [UInt8(ascii: "/")] + relative(name))
    }

    private func refusal(_ path: Files.Path) -> KithError {
        KithError(.denied, "\(device) sent “\(path)”, which was not asked for. It was refused, and the copy was ended.")
    }

    private static func word(_ kind: Files.Kind) -> String {
        switch kind {
        case .file: "a file"
        case .folder: "a folder"
        case .link: "a link"
        case .special: "a special file"
        }
    }
}
