import KithWire

/// The names that were listed for a folder in which what was not is to go.
///
/// Names are held by hash; two of one hash are both kept. A file system that folds cases or normalises names lists some
/// of them otherwise than they were sent: those that may be are held as they are, and compared by what they lead to.
struct ListedNames {
    private static let maximumRespelled = 1 << 20

    private var hashes: Set<Int> = []
    /// The names that were in the folder before, as the file system spells them.
    private let before: Set<Int>
    /// Names the file system may spell otherwise.
    private var respelled: [[UInt8]] = []

    /// Begins with none, for what is in a folder now.
    init(in folder: Descriptor) throws(Errno) {
        var before: Set<Int> = []
        try folder.forEachName { name throws(Errno) in before.insert(name.hashValue) }
        self.before = before
    }

    /// Adds a name, before anything is put there under it.
    mutating func insert(_ name: [UInt8], in folder: Descriptor) throws(Errno) {
        let hash = name.hashValue
        guard hashes.insert(hash).inserted, !before.contains(hash) else { return }
        // There, and listed by another spelling; or still to come, and spelled as the file system likes it.
        guard Self.mayBeNormalised(name) || (try? folder.info(name)) != nil else { return }
        guard respelled.count < Self.maximumRespelled else { throw .tooMany }
        respelled.append(name)
    }

    /// Runs `body` for what is in the folder and was not listed, by any spelling.
    func forEachOther(in folder: Descriptor, _ body: ([UInt8]) throws(Errno) -> Void) throws(Errno) {
        // What cannot be looked at is not there.
        let received = Set(respelled.compactMap { try? folder.info($0).identity })
        try folder.forEachName { name throws(Errno) in
            guard !hashes.contains(name.hashValue) else { return }
            if !received.isEmpty, let info = try? folder.info(name), received.contains(info.identity) { return }
            try body(name)
        }
    }

    /// Tells whether a file system may change a new name: HFS+ decomposes letters, FAT drops dots and spaces.
    private static func mayBeNormalised(_ name: [UInt8]) -> Bool {
        name.contains { $0 >= 0x80 } || name.last == UInt8(ascii: ".") || name.last == UInt8(ascii: " ")
    }
}
