/// A data item that has been checked: where it lies in its input.
struct CBORItem {
    /// The offset of its first byte.
    var offset: UInt32
    /// The index of the first child of an array or a map in the table.
    var first: UInt32
}

/// A CBOR value that has been checked whole, read in place.
///
/// Nothing is copied out of the input but what is asked for: one table for all arrays and maps says where their
/// children are, those of one container side by side. A map's keys are in order, so that a key is found in logarithmic
/// time.
final class CBORTable: Sendable {
    /// A child of an array or a map.
    struct Child {
        /// The offset of its key; unused in an array.
        var key: UInt32
        var item: CBORItem
    }

    let bytes: [UInt8]
    let root: CBORItem
    private let children: [Child]

    /// Checks `bytes`, all of them.
    init(_ bytes: [UInt8], maxDepth: Int) throws(WireError) {
        guard bytes.count < Int(UInt32.max) else { throw .tooLong(limit: Int(UInt32.max) - 1, actual: bytes.count) }
        var parser = CBORParser(bytes: bytes, maxDepth: maxDepth)
        root = try parser.item(depth: 0)
        guard parser.position == bytes.count else { throw .trailing(bytes.count - parser.position) }
        self.bytes = bytes
        children = parser.children
    }

    /// An item that is not there: it reads as null.
    var absent: CBORItem { CBORItem(offset: UInt32(bytes.count), first: 0) }

    // MARK: - Items

    /// The first byte of an item: its major type and 5 bits of its argument.
    func head(of item: CBORItem) -> UInt8 { item.offset < bytes.count ? bytes[Int(item.offset)] : 0xF6 }

    /// The number in a head, and where what follows it begins.
    func argument(at offset: UInt32) -> (value: UInt64, end: Int) { Self.argument(in: bytes, at: Int(offset)) }

    /// The number in a head that has been checked, and where what follows it begins.
    static func argument(in bytes: [UInt8], at offset: Int) -> (value: UInt64, end: Int) {
        let info = bytes[offset] & 31
        let start = offset + 1
        guard info >= 24 else { return (UInt64(info), start) }
        let end = start + 1 << Int(info - 24)
        var value: UInt64 = 0
        for index in start..<end { value = value << 8 | UInt64(bytes[index]) }
        return (value, end)
    }

    /// The contents after the head of a text or a byte string.
    func body(at offset: UInt32) -> ArraySlice<UInt8> {
        let (count, start) = argument(at: offset)
        return bytes[start..<start + Int(count)]
    }

    /// A text.
    func text(at offset: UInt32) -> String { String(decoding: body(at: offset), as: UTF8.self) }

    /// The number of a floating-point value; `nil` for any other simple value.
    func number(of item: CBORItem) -> Double? {
        switch head(of: item) {
        case 0xF9: HalfFloat.value(UInt16(argument(at: item.offset).value))
        case 0xFA: Double(Float(bitPattern: UInt32(argument(at: item.offset).value)))
        case 0xFB: Double(bitPattern: argument(at: item.offset).value)
        default: nil
        }
    }

    // MARK: - Children

    /// The number of children of an array or a map.
    func count(of item: CBORItem) -> Int { Int(argument(at: item.offset).value) }

    /// A child of an array or a map, by its place.
    func child(_ index: Int, of item: CBORItem) -> Child { children[Int(item.first) + index] }

    /// The value of a key in a map with `count` members.
    func value(of key: String, in map: CBORItem, count: Int) -> CBORItem? {
        var key = key
        return key.withUTF8 { wanted in
            var range = 0..<count
            while !range.isEmpty {
                let middle = range.lowerBound + range.count / 2
                let child = child(middle, of: map)
                let (length, start) = argument(at: child.key)
                // The order of encoded texts is that of their lengths, and of their bytes where those are the same.
                var order = Int(length) - wanted.count
                var index = 0
                while order == 0, index < wanted.count {
                    order = unsafe Int(bytes[start + index]) - Int(wanted[index])
                    index += 1
                }
                if order == 0 { return child.item }
                range = order < 0 ? middle + 1..<range.upperBound : range.lowerBound..<middle
            }
            return nil
        }
    }

    /// The offset at which an item ends.
    func end(of item: CBORItem) -> Int {
        let (value, end) = argument(at: item.offset)
        switch bytes[Int(item.offset)] >> 5 {
        case 2, 3: return end + Int(value)
        case 4, 5: return value == 0 ? end : self.end(of: child(Int(value) - 1, of: item).item)
        default: return end
        }
    }

    /// The bytes of a child's key, in full.
    func key(_ child: Child) -> ArraySlice<UInt8> { bytes[Int(child.key)..<body(at: child.key).endIndex] }

    /// The bytes of an item, in full.
    func encoding(of item: CBORItem) -> ArraySlice<UInt8> { bytes[Int(item.offset)..<end(of: item)] }

    /// The keys on the way to an item.
    func path(to item: CBORItem) -> [String] {
        var path: [String] = []
        var place = root
        while place.offset < item.offset, item.offset < bytes.count {
            // The last child that begins no later.
            var range = 0..<count(of: place)
            while range.count > 1 {
                let middle = range.lowerBound + range.count / 2
                let isBehind = child(middle, of: place).item.offset > item.offset
                range = isBehind ? range.lowerBound..<middle : middle..<range.upperBound
            }
            let child = child(range.lowerBound, of: place)
            if head(of: place) >> 5 == 5 { path.append(text(at: child.key)) }
            place = child.item
        }
        return path
    }
}

/// Checks CBOR and notes where the children of arrays and maps are.
private struct CBORParser {
    private let bytes: [UInt8]
    private let maxDepth: Int
    private(set) var position = 0
    /// The children of all arrays and maps that have ended.
    private(set) var children: [CBORTable.Child] = []
    /// The children of those that have not ended, the innermost last: a count is not trusted before they are there.
    private var open: [CBORTable.Child] = []

    init(bytes: [UInt8], maxDepth: Int) {
        self.bytes = bytes
        self.maxDepth = maxDepth
    }

    private mutating func integer(_ size: Int) throws(WireError) -> UInt64 {
        guard bytes.count - position >= size else { throw .truncated(needed: size, left: bytes.count - position) }
        var value: UInt64 = 0
        for index in position..<position + size { value = value << 8 | UInt64(bytes[index]) }
        position += size
        return value
    }

    private mutating func byte() throws(WireError) -> UInt8 {
        guard position < bytes.count else { throw .truncated(needed: 1, left: 0) }
        defer { position += 1 }
        return bytes[position]
    }

    private mutating func argument(_ info: UInt8) throws(WireError) -> UInt64 {
        let value: UInt64
        let least: UInt64
        switch info {
        case ..<24: return UInt64(info)
        case 24: (value, least) = (try integer(1), 24)
        case 25: (value, least) = (try integer(2), 1 << 8)
        case 26: (value, least) = (try integer(4), 1 << 16)
        case 27: (value, least) = (try integer(8), 1 << 32)
        default: throw .invalid("a length is definite")
        }
        guard value >= least else { throw .invalid("a number is in its shortest form") }
        return value
    }

    private mutating func run(_ count: UInt64) throws(WireError) -> Range<Int> {
        guard count <= UInt64(bytes.count - position) else {
            throw .truncated(needed: Int(clamping: count), left: bytes.count - position)
        }
        defer { position += Int(count) }
        return position..<position + Int(count)
    }

    /// Skips text; returns whether it is ASCII.
    private mutating func text(_ count: UInt64) throws(WireError) -> Bool {
        let range = try run(count)
        var bits: UInt8 = 0
        for index in range { bits |= bytes[index] }
        guard bits >= 0x80 else { return true }
        guard let text = String(validating: bytes[range], as: UTF8.self) else { throw .invalid("text is UTF-8") }
        guard text.hasFewMarks else { throw .invalid("a letter has no more than \(String.marksLimit) marks") }
        return false
    }

    mutating func item(depth: Int) throws(WireError) -> CBORItem {
        guard depth < maxDepth else { throw .tooLong(limit: maxDepth, actual: depth + 1) }
        let offset = UInt32(position)
        let head = try byte()
        let info = head & 31
        var first: UInt32 = 0
        switch head >> 5 {
        case 0, 1: _ = try argument(info)
        case 2: _ = try run(try argument(info))
        case 3: _ = try text(try argument(info))
        case 4:
            let count = try argument(info)
            // Every item takes a byte at least.
            guard count <= UInt64(bytes.count - position) else {
                throw .truncated(needed: Int(clamping: count), left: bytes.count - position)
            }
            let mark = open.count
            for _ in 0..<count { open.append(CBORTable.Child(key: 0, item: try item(depth: depth + 1))) }
            first = close(from: mark)
        case 5:
            let count = try argument(info)
            guard count <= UInt64(bytes.count - position) / 2 else {
                throw .truncated(needed: Int(clamping: count), left: bytes.count - position)
            }
            let mark = open.count
            try members(count, depth: depth)
            first = close(from: mark)
        case 7: try simple(info)
        default: throw .invalid("tags are not used")
        }
        return CBORItem(offset: offset, first: first)
    }

    private mutating func members(_ count: UInt64, depth: Int) throws(WireError) {
        var last = 0..<0
        // Two spellings of one text (é, e and an accent) are one key to Swift; where all are ASCII there are none.
        var isASCII = true
        let mark = open.count
        for _ in 0..<count {
            let start = position
            let head = try byte()
            guard head >> 5 == 3 else { throw .invalid("a key is text") }
            if try !text(try argument(head & 31)) { isASCII = false }
            let key = start..<position
            guard bytes[last].lexicographicallyPrecedes(bytes[key]) else { throw Self.disorder }
            last = key
            open.append(CBORTable.Child(key: UInt32(start), item: try item(depth: depth + 1)))
        }
        guard !isASCII, count > 1 else { return }
        var keys = Set<String>()
        for child in open[mark...] {
            let (length, start) = CBORTable.argument(in: bytes, at: Int(child.key))
            let key = String(decoding: bytes[start..<start + Int(length)], as: UTF8.self)
            guard keys.insert(key).inserted else { throw Self.disorder }
        }
    }

    private static var disorder: WireError { .invalid("keys are in order, each once") }

    /// Moves the children of the container that ends to the table; returns the index of the first.
    private mutating func close(from mark: Int) -> UInt32 {
        let first = children.count
        children += open[mark...]
        open.removeSubrange(mark...)
        return UInt32(first)
    }

    private mutating func simple(_ info: UInt8) throws(WireError) {
        switch info {
        case 20, 21, 22: return
        case 25:
            let bits = UInt16(try integer(2))
            guard !HalfFloat.value(bits).isNaN || bits == 0x7E00 else { throw Self.shortest }
        case 26:
            let value = Double(Float(bitPattern: UInt32(try integer(4))))
            guard !value.isNaN, HalfFloat.bits(exactly: value) == nil else { throw Self.shortest }
        case 27:
            let value = Double(bitPattern: try integer(8))
            guard !value.isNaN, Double(Float(value)) != value else { throw Self.shortest }
        default: throw .invalid("a simple value is false, true or null")
        }
    }

    private static var shortest: WireError { .invalid("a number is in its shortest form") }
}
