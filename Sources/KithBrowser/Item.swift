package import KithAPI

/// One line of a pane.
package struct Item: Hashable, Sendable {
    /// The kind of thing a line stands for.
    package enum Kind: Int, Hashable, Sendable {
        /// The way up.
        case parent
        /// A device of the list of devices.
        case device
        case folder
        case file
        case link
        /// A pipe, a socket or a device of the system.
        case special
    }

    /// Its name; of something found by a search, the path from the folder searched; empty: this device.
    package let name: [UInt8]
    package let kind: Kind
    /// What of the system it is, where that is known and ``kind`` is special.
    package let special: Files.Special?
    package let size: UInt64
    package let mode: UInt32
    /// In seconds since 1970.
    package let modified: Int64
    /// The target of a link.
    package let target: [UInt8]?
    /// The note beside a device.
    package let note: String?
    /// The sort key for sorting by name.
    let key: [UInt8]

    /// Takes over what a device has listed.
    package init(_ entry: Files.Entry) {
        let kind: Kind =
            switch entry.kind {
            case .file: .file
            case .folder: .folder
            case .link: .link
            case .special: .special
            }
        self.init(
            name: entry.name.bytes, kind: kind, special: entry.special, size: entry.size, mode: entry.mode,
            modified: entry.modified, target: entry.target?.bytes)
    }

    package init(
        name: [UInt8], kind: Kind, special: Files.Special? = nil, size: UInt64 = 0, mode: UInt32 = 0,
        modified: Int64 = 0, target: [UInt8]? = nil, note: String? = nil
    ) {
        self.name = name
        self.kind = kind
        self.special = special
        self.size = size
        self.mode = mode
        self.modified = modified
        self.target = target
        self.note = note
        key = Self.key(name)
    }

    /// The way up.
    static let parent = Item(name: Array("..".utf8), kind: .parent)

    package var text: String { String(decoding: name, as: UTF8.self) }
    /// True when it can be copied, renamed, deleted: not the way up, not a device.
    package var isReal: Bool { kind != .parent && kind != .device }
    /// True when it is left out unless hidden files are shown: the path, or a name on it, begins with a dot.
    package var isHidden: Bool { isReal && name.first == UInt8(ascii: ".") }

    /// The part behind the last dot of the name, in small letters.
    var suffix: [UInt8] {
        guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > 0 else { return [] }
        return name[(dot + 1)...].map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
    }

    /// A name as it is compared: capitals as small letters, numbers by their value.
    static func key(_ name: [UInt8]) -> [UInt8] {
        var hasDigits = false
        var isASCII = true
        for byte in name {
            if byte >= 0x80 { isASCII = false }
            if (0x30...0x39).contains(byte) { hasDigits = true }
        }
        // Most names are in ASCII; only for others is it worth asking Unicode.
        let folded = isASCII ? name : Array(String(decoding: name, as: UTF8.self).lowercased().utf8)
        var key: [UInt8] = []
        key.reserveCapacity(folded.count + (hasDigits ? 8 : 0))
        var index = 0
        while index < folded.count {
            let byte = folded[index]
            guard (0x30...0x39).contains(byte) else {
                key.append((0x41...0x5A).contains(byte) ? byte + 0x20 : byte)
                index += 1
                continue
            }
            while index < folded.count, folded[index] == 0x30 { index += 1 }
            var end = index
            while end < folded.count, (0x30...0x39).contains(folded[end]) { end += 1 }
            // A number is a digit, so that it stands among them, its length, and its digits.
            key.append(0x30)
            key.append(UInt8(min(end - index, 255)))
            key += folded[index..<end]
            index = end
        }
        return key
    }
}

/// In which order a pane shows what it has.
package struct SortOrder: Hashable, Sendable {
    package enum Key: Hashable, Sendable, CaseIterable {
        /// The name.
        case name
        /// The largest first.
        case size
        /// The newest first.
        case time
        /// The part behind the last dot.
        case kind
    }

    package var key = Key.name
    package var isReversed = false

    package init(_ key: Key = .name, isReversed: Bool = false) {
        self.key = key
        self.isReversed = isReversed
    }

    /// Puts numbers of items in order: the way up first, then folders, then all else.
    func sort(_ numbers: inout [Int32], of items: [Item]) {
        // What is compared stands by itself: an item is large, and there may be hundreds of thousands.
        let groups = items.map { Self.group($0) }
        let names = items.map(\.key)
        let values: [Int64]
        switch key {
        case .name, .kind: values = []
        // The largest and the newest first.
        case .size: values = items.map { -Int64(clamping: $0.size) }
        case .time: values = items.map { -max($0.modified, -.max) }
        }
        let suffixes = key == .kind ? items.map(\.suffix) : []
        let (isReversed, key) = (isReversed, key)
        numbers.sort { left, right in
            let (left, right) = (Int(left), Int(right))
            if groups[left] != groups[right] { return groups[left] < groups[right] }
            switch key {
            case .size, .time:
                if values[left] != values[right] { return (values[left] < values[right]) != isReversed }
            case .kind:
                if suffixes[left] != suffixes[right] {
                    return suffixes[left].lexicographicallyPrecedes(suffixes[right]) != isReversed
                }
            case .name: break
            }
            let isTurned = isReversed && key == .name
            if names[left].lexicographicallyPrecedes(names[right]) { return !isTurned }
            if names[left] != names[right] { return isTurned }
            // Names that differ only in capitals or zeros.
            return items[left].name.lexicographicallyPrecedes(items[right].name)
        }
    }

    private static func group(_ item: Item) -> UInt8 {
        switch item.kind {
        case .parent: 0
        case .folder, .device: 1
        default: 2
        }
    }
}

/// The items of a pane, and which of them are shown in which order.
struct Listing: Sendable {
    private(set) var items: [Item] = []
    /// Numbers of items.
    private(set) var shown: [Int32] = []

    /// The settings that decide which items are shown.
    struct View: Hashable {
        var order = SortOrder()
        var showsHidden = false
        /// Only what has this in its name; capitals count when there is one in it.
        var filter = ""
    }

    var count: Int { shown.count }
    subscript(index: Int) -> Item { items[Int(shown[index])] }

    init(_ items: [Item] = [], _ view: View = View()) {
        self.items = items
        arrange(view)
    }

    /// Shows what `view` selects.
    mutating func arrange(_ view: View) {
        let needle = Self.needle(view.filter)
        shown = items.indices.compactMap { index in
            let item = items[index]
            if item.kind == .parent { return Int32(index) }
            if item.isHidden, !view.showsHidden { return nil }
            return needle.map { $0.isIn(item.name) } ?? true ? Int32(index) : nil
        }
        view.order.sort(&shown, of: items)
    }

    /// Adds items, without showing them yet.
    mutating func append(_ more: [Item]) { items += more }

    /// The first place of a name.
    func index(of name: [UInt8]) -> Int? { shown.firstIndex { items[Int($0)].name == name } }

    private struct Needle {
        let bytes: [UInt8]
        let minds: Bool

        func isIn(_ name: [UInt8]) -> Bool {
            if !minds, name.contains(where: { $0 >= 0x80 }) {
                return isIn(Array(String(decoding: name, as: UTF8.self).lowercased().utf8), folds: false)
            }
            return isIn(name, folds: !minds)
        }

        private func isIn(_ name: [UInt8], folds: Bool) -> Bool {
            guard name.count >= bytes.count else { return false }
            return (0...name.count - bytes.count).contains { start in
                var index = 0
                while index < bytes.count {
                    let byte = name[start + index]
                    guard (folds && (0x41...0x5A).contains(byte) ? byte + 0x20 : byte) == bytes[index] else { break }
                    index += 1
                }
                return index == bytes.count
            }
        }
    }

    private static func needle(_ filter: String) -> Needle? {
        if filter.isEmpty { return nil }
        let minds = filter.contains(where: \.isUppercase)
        return Needle(bytes: Array((minds ? filter : filter.lowercased()).utf8), minds: minds)
    }
}
