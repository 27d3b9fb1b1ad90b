import KithAPI

/// Which file something is, and whether it is as it was: what a step of an operation was planned for.
struct FileIdentity: Hashable, Sendable {
    var kind: Files.Kind
    var device: UInt64
    var inode: UInt64
    var size: UInt64
    /// Nanoseconds since 1970.
    var modified: Int64

    init(kind: Files.Kind, device: UInt64, inode: UInt64, size: UInt64, modified: Int64) {
        self.kind = kind
        self.device = device
        self.inode = inode
        self.size = size
        self.modified = modified
    }

    init(_ info: Descriptor.Info) {
        // A time of the year 2300 counts as that of 2262; none of the two is compared to anything but itself.
        let (seconds, overflow) = info.seconds.multipliedReportingOverflow(by: 1_000_000_000)
        self.init(
            kind: info.kind, device: info.device, inode: info.inode, size: info.size,
            modified: overflow ? (info.seconds < 0 ? .min : .max) : seconds &+ Int64(info.nanoseconds))
    }

    /// Whether that is the same thing, and what it holds is as it was; of a folder, whether it is the same.
    func matches(_ other: FileIdentity) -> Bool {
        kind == .folder ? isSame(as: other) : self == other
    }

    /// Whether that is the same thing, whatever it holds by now.
    func isSame(as other: FileIdentity) -> Bool {
        kind == other.kind && device == other.device && inode == other.inode
    }
}

/// One step of an operation, as the journal keeps it.
struct OperationStep: Hashable, Sendable {
    /// How far it is.
    enum State: Int, Sendable {
        case pending = 0
        /// It may have been done.
        case begun = 1
        /// A copy is whole, and may have its name: ``OperationStep/landed`` says which file it is.
        case placing = 2
        case done = 3
        case skipped = 4
        case failed = 5
    }

    var number: Int64
    var action: Operations.Action
    /// From the top of the file system, without links in all but the last name.
    var source: [UInt8]?
    var destination: [UInt8]?
    /// What is at the source; what the step refuses to touch anything else for.
    var identity: FileIdentity?
    /// What has the name of the destination.
    var there: FileIdentity?
    var choice: Operations.Choice?
    /// The step that has to be done before this one, or this one is left out.
    var after: Int64?
    var state = State.pending
    var message: String?
    /// What is at the destination now.
    var landed: FileIdentity?

    /// The bytes that are copied.
    var bytes: UInt64 { action == .copy && identity?.kind == .file ? identity?.size ?? 0 : 0 }

    /// What can be done where the name is taken.
    var choices: [Operations.Choice] {
        guard let there, let identity else { return [] }
        switch action {
        case .makeFolder: return [.skip, .overwrite]
        // A folder is never replaced by something else.
        case _ where there.kind == .folder && identity.kind != .folder: return [.skip, .keepBoth]
        case _ where there.kind == .folder: return [.skip, .keepBoth]
        default: return [.skip, .overwrite, .keepBoth]
        }
    }
}

extension [UInt8] {
    /// The last name of a path, and the folder around it.
    var splitAtName: (folder: [UInt8], name: [UInt8]) {
        guard let slash = lastIndex(of: UInt8(ascii: "/")) else { return ([], self) }
        return (slash == startIndex ? [UInt8(ascii: "/")] : Array(self[..<slash]), Array(self[(slash + 1)...]))
    }

    /// The path of a name in this folder.
    func appendingName(_ name: some Collection<UInt8>) -> [UInt8] {
        last == UInt8(ascii: "/") ? self + name : self + [UInt8(ascii: "/")] + name
    }

    /// Whether this path lies in a folder, or is it.
    func lies(in folder: [UInt8]) -> Bool {
        self == folder || folder == [UInt8(ascii: "/")]
            || count > folder.count && starts(with: folder) && self[folder.count] == UInt8(ascii: "/")
    }

    /// The path for a message.
    var shown: String { String(decoding: self, as: UTF8.self) }

    /// The name with a number, before its ending: `a.tar.gz` and 2 are `a (2).tar.gz`.
    func numbered(_ number: Int) -> [UInt8] { numbered(" (\(number))") }

    /// The name with a mark before its ending, at most so many bytes long; without a mark only shortened.
    func numbered(_ mark: String?, limit: Int = 255) -> [UInt8] {
        let dot = UInt8(ascii: ".")
        // What begins with a dot has that in its name; an ending is short, and `.tar` belongs to it.
        var end = lastIndex(of: dot).flatMap { $0 > startIndex && count - $0 <= 9 ? $0 : nil } ?? endIndex
        if end < endIndex, let before = self[..<end].lastIndex(of: dot), before > startIndex,
            self[before..<end].elementsEqual(".tar".utf8)
        {
            end = before
        }
        let mark = Array((mark ?? "").utf8)
        let stem = self[..<end].prefix(Swift.max(limit - mark.count - (count - end), 1))
        return stem + mark + self[end...]
    }
}
