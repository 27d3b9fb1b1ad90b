package import KithAPI

/// One line of a pane.
package struct Item: Hashable, Sendable {
    /// What a line stands for.
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
    package let size: UInt64
    package let mode: UInt32
    /// In seconds since 1970.
    package let modified: Int64
    /// Where a link leads.
    package let target: [UInt8]?
    /// What there is to say of a device.
    package let note: String?
    /// What it is sorted by when sorted by name.
    let key: [UInt8]

    /// Takes over what a device has listed.
    package init(_ entry: Files.Entry) {
        let kinds: [Files.Kind: Kind] = [.file: .file, .folder: .folder, .link: .link, .special: .special]
        self.init(
            name: entry.name.bytes, kind: kinds[entry.kind] ?? .special, size: entry.size, mode: entry.mode,
            modified: entry.modified, target: entry.target?.bytes)
    }

    package init(
        name: [UInt8], kind: Kind, size: UInt64 = 0, mode: UInt32 = 0, modified: Int64 = 0, target: [UInt8]? = nil,
        note: String? = nil
    ) {
        self.name = name
        self.kind = kind
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
    /// Whether it can be copied, renamed, deleted: not the way up, not a device.
    package var isReal: Bool { kind != .parent && kind != .device }
    /// Whether it is left out unless hidden files are shown: the path, or a name on it, begins with a dot.
    package var isHidden: Bool { isReal && name.first == UInt8(ascii: ".") }

    /// What is behind the last dot of the name, in small letters.
    var suffix: [UInt8] {
        guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > 0 else { return [] }
        return name[(dot + 1)...].map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
    }

    /// A name as it is compared: capitals as small letters, numbers by their value.
    static func key(_ name: [UInt8]) -> [UInt8] {
        // Most names are in ASCII; only for others is it worth asking Unicode.
        let folded =
            name.allSatisfy { $0 < 0x80 }
            ? name.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
            : Array(String(decoding: name, as: UTF8.self).lowercased().utf8)
        guard folded.contains(where: { (0x30...0x39).contains($0) }) else { return folded }
        var key: [UInt8] = []
        var index = 0
        while index < folded.count {
            guard (0x30...0x39).contains(folded[index]) else {
                key.append(folded[index])
                index += 1
                continue
            }
            var end = index
            while end < folded.count, (0x30...0x39).contains(folded[end]) { end += 1 }
            let digits = folded[index..<end].drop { $0 == 0x30 }
            // A number is a digit, so that it stands among them, its length, and its digits.
            key += [0x30, UInt8(min(digits.count, 255))] + digits
            index = end
        }
        return key
    }
}

/// In which order a pane shows what it has.
package struct SortOrder: Hashable, Sendable {
    package enum Key: Hashable, Sendable, CaseIterable {
        /// By name.
        case name
        /// The largest first.
        case size
        /// The newest first.
        case time
        /// By what is behind the last dot.
        case kind
    }

    package var key = Key.name
    package var isReversed = false

    package init(_ key: Key = .name, isReversed: Bool = false) {
        self.key = key
        self.isReversed = isReversed
    }

    /// Whether one comes before another: the way up first, then folders, then all else.
    func precedes(_ left: Item, _ right: Item) -> Bool {
        let groups = (Self.group(left), Self.group(right))
        if groups.0 != groups.1 { return groups.0 < groups.1 }
        switch key {
        case .name: break
        case .size where left.size != right.size: return (left.size > right.size) != isReversed
        case .time where left.modified != right.modified: return (left.modified > right.modified) != isReversed
        case .kind:
            let (first, second) = (left.suffix, right.suffix)
            if first != second { return first.lexicographicallyPrecedes(second) != isReversed }
        case .size, .time: break
        }
        let isAscending =
            left.key == right.key
            ? left.name.lexicographicallyPrecedes(right.name) : left.key.lexicographicallyPrecedes(right.key)
        return key == .name ? isAscending != isReversed && left.name != right.name : isAscending
    }

    private static func group(_ item: Item) -> Int {
        switch item.kind {
        case .parent: 0
        case .folder, .device: 1
        default: 2
        }
    }
}

/// What a pane has, and which of it is shown in which order.
struct Listing: Sendable {
    private(set) var items: [Item] = []
    /// Numbers of items.
    private(set) var shown: [Int32] = []

    /// What decides what is shown.
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

    /// Shows what `view` says.
    mutating func arrange(_ view: View) {
        let needle = Self.needle(view.filter)
        shown = items.indices.compactMap { index in
            let item = items[index]
            if item.kind == .parent { return Int32(index) }
            if item.isHidden, !view.showsHidden { return nil }
            return needle.map { $0.isIn(item.name) } ?? true ? Int32(index) : nil
        }
        shown.sort { view.order.precedes(items[Int($0)], items[Int($1)]) }
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
