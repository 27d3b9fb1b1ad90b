/// What FSEvents tells of one tree, as an index takes it.
struct ToldChanges {
    /// What an event says beside its path (FSEvents.h).
    struct Flags: OptionSet {
        let rawValue: UInt32
        /// Events were joined or lost: all beneath the path may have changed.
        static let mustScanSubfolders = Flags(rawValue: 0x01)
        /// What was told before is at its end.
        static let historyDone = Flags(rawValue: 0x10)
        /// The folder at the top, or one around it, was moved, removed or put there.
        static let topChanged = Flags(rawValue: 0x20)
    }

    /// The path of the tree, as the index has it.
    let top: [UInt8]

    /// Adds one event, whose path may end in a slash and be the one behind the links at the top of macOS.
    func add(_ path: some Sequence<UInt8>, _ flags: Flags, to changes: inout FolderWatcher.Changes) {
        if flags.contains(.historyDone) { return }
        if flags.contains(.mustScanSubfolders) { changes.isEverything = true }
        if flags.contains(.topChanged) { changes.folders.insert(top) }
        var path = Array(path)
        while path.count > 1, path.last == UInt8(ascii: "/") { path.removeLast() }
        // Foundation takes the links /tmp and /var for the folders, FSEvents names those in /private.
        let hidden = Array("/private".utf8)
        if !path.isWithin(top), path.starts(with: hidden) { path.removeFirst(hidden.count) }
        if path.isWithin(top) { changes.folders.insert(path) }
    }
}
