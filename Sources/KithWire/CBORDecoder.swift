/// Reads `Decodable` values from deterministic CBOR (RFC 8949 §4.2), strictly.
///
/// Refused: lengths and integers not in shortest form, indefinite lengths, tags, keys out of order or twice, text that
/// is not UTF-8, bytes after the value, nesting deeper than ``maxDepth``. Nothing is allocated for a length that the
/// input does not hold.
public struct CBORDecoder: Sendable {
    /// How deep arrays and maps may nest: 32.
    public var maxDepth = 32

    /// Makes a decoder.
    public init() {}

    /// The value that `bytes` hold, all of them.
    ///
    /// - Throws: ``KithError`` `.invalid` for bytes or values that are not what `type` takes.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        var parser = CBORParser(bytes: bytes, maxDepth: maxDepth)
        let item: CBORItem
        do {
            item = try parser.item(depth: 0)
            guard parser.position == bytes.count else { throw WireError.trailing(bytes.count - parser.position) }
        } catch {
            throw KithError(.invalid, "Malformed CBOR: \(error).", cause: error)
        }
        do {
            return try ItemDecoder(item: item, codingPath: []).decode(type)
        } catch let error as DecodingError {
            // What `RawRepresentable` and hand-written types throw.
            throw KithError(.invalid, "A value is not one of those it may be.", cause: error)
        }
    }
}

/// One parsed data item.
enum CBORItem {
    case unsigned(UInt64)
    case negative(UInt64)
    case bytes([UInt8])
    case text(String)
    case array([CBORItem])
    case map([String: CBORItem])
    case bool(Bool)
    case null
    case number(Double)
}

struct CBORParser {
    let bytes: [UInt8]
    let maxDepth: Int
    var position = 0

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

    private mutating func run(_ count: UInt64) throws(WireError) -> ArraySlice<UInt8> {
        guard count <= UInt64(bytes.count - position) else {
            throw .truncated(needed: Int(clamping: count), left: bytes.count - position)
        }
        let start = position
        position += Int(count)
        return bytes[start..<position]
    }

    mutating func item(depth: Int) throws(WireError) -> CBORItem {
        guard depth < maxDepth else { throw .tooLong(limit: maxDepth, actual: depth + 1) }
        let head = UInt8(try integer(1))
        let info = head & 31
        switch head >> 5 {
        case 0: return .unsigned(try argument(info))
        case 1: return .negative(try argument(info))
        case 2: return .bytes(Array(try run(try argument(info))))
        case 3: return .text(try text(try argument(info)))
        case 4:
            let count = try argument(info)
            // Every item takes a byte at least: what cannot be there is not reserved.
            guard count <= UInt64(bytes.count - position) else {
                throw .truncated(needed: Int(clamping: count), left: bytes.count - position)
            }
            var items: [CBORItem] = []
            // Reserved at every depth before an item is seen: no more than a little at once.
            items.reserveCapacity(min(Int(count), 256))
            for _ in 0..<count { items.append(try item(depth: depth + 1)) }
            return .array(items)
        case 5:
            let count = try argument(info)
            guard count <= UInt64(bytes.count - position) / 2 else {
                throw .truncated(needed: Int(clamping: count), left: bytes.count - position)
            }
            var pairs: [String: CBORItem] = [:]
            var last: ArraySlice<UInt8>?
            for _ in 0..<count {
                let start = position
                let keyHead = UInt8(try integer(1))
                guard keyHead >> 5 == 3 else { throw .invalid("a key is text") }
                let key = try text(try argument(keyHead & 31))
                let encoded = bytes[start..<position]
                if let last, !last.lexicographicallyPrecedes(encoded) { throw .invalid("keys are in order, each once") }
                last = encoded
                // Two spellings of one text (é, e and an accent) are one key to Swift: the later must not win.
                guard pairs.updateValue(try item(depth: depth + 1), forKey: key) == nil else {
                    throw .invalid("keys are in order, each once")
                }
            }
            return .map(pairs)
        case 7: return try simple(info)
        default: throw .invalid("tags are not used")
        }
    }

    private mutating func text(_ count: UInt64) throws(WireError) -> String {
        guard let text = String(validating: try run(count), as: UTF8.self) else { throw .invalid("text is UTF-8") }
        return text
    }

    private mutating func simple(_ info: UInt8) throws(WireError) -> CBORItem {
        switch info {
        case 20: return .bool(false)
        case 21: return .bool(true)
        case 22: return .null
        case 25:
            let value = HalfFloat.value(UInt16(try integer(2)))
            guard !value.isNaN || bytes[position - 2] == 0x7E && bytes[position - 1] == 0 else { throw shortest }
            return .number(value)
        case 26:
            let value = Double(Float(bitPattern: UInt32(try integer(4))))
            guard !value.isNaN, HalfFloat.bits(exactly: value) == nil else { throw shortest }
            return .number(value)
        case 27:
            let value = Double(bitPattern: try integer(8))
            guard !value.isNaN, Double(Float(value)) != value else { throw shortest }
            return .number(value)
        default: throw .invalid("a simple value is false, true or null")
        }
    }

    private var shortest: WireError { .invalid("a number is in its shortest form") }
}

private struct ItemDecoder: Decoder {
    let item: CBORItem
    var codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if type == ByteString.self, case .bytes(let bytes) = item, let value = ByteString(bytes) as? Value {
            return value
        }
        return try Value(from: self)
    }

    func mismatch(_ wanted: String) -> KithError {
        let path = codingPath.map(\.stringValue).joined(separator: ".")
        return KithError(.invalid, path.isEmpty ? "Expected \(wanted)." : "`\(path)` must be \(wanted).")
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .map(let pairs) = item else { throw mismatch("a map") }
        return KeyedDecodingContainer(MapReader(pairs: pairs, decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let items) = item else { throw mismatch("an array") }
        return ArrayReader(items: items, decoder: self)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { ValueReader(decoder: self) }

    var isNull: Bool {
        if case .null = item { return true }
        return false
    }

    func integer<Value: FixedWidthInteger>(_ type: Value.Type) throws -> Value {
        switch item {
        case .unsigned(let value):
            if let value = Value(exactly: value) { return value }
        case .negative(let value):
            if value <= UInt64(Int64.max), let value = Value(exactly: -1 - Int64(value)) { return value }
        default: break
        }
        throw mismatch("a number from \(Value.min) to \(Value.max)")
    }

    func number() throws -> Double {
        switch item {
        case .number(let value): return value
        case .unsigned(let value): return Double(value)
        case .negative(let value): return -1 - Double(value)
        default: throw mismatch("a number")
        }
    }

    func text() throws -> String {
        guard case .text(let text) = item else { throw mismatch("text") }
        return text
    }

    func bool() throws -> Bool {
        guard case .bool(let value) = item else { throw mismatch("true or false") }
        return value
    }
}

private struct MapReader<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let pairs: [String: CBORItem]
    let decoder: ItemDecoder
    var codingPath: [any CodingKey] { decoder.codingPath }
    var allKeys: [Key] { pairs.keys.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { pairs[key.stringValue] != nil }

    private func child(_ key: Key) throws -> ItemDecoder {
        guard let item = pairs[key.stringValue] else {
            throw KithError(.invalid, "`\((codingPath + [key]).map(\.stringValue).joined(separator: "."))` is missing.")
        }
        return ItemDecoder(item: item, codingPath: codingPath + [key])
    }

    func decodeNil(forKey key: Key) throws -> Bool { try child(key).isNull }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try child(key).bool() }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try child(key).text() }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try child(key).number() }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { Float(try child(key).number()) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try child(key).integer(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try child(key).integer(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try child(key).integer(type) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try child(key).integer(type) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try child(key).integer(type) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try child(key).integer(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try child(key).integer(type) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try child(key).integer(type) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try child(key).integer(type) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try child(key).integer(type) }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value { try child(key).decode(type) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try child(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try child(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder {
        ItemDecoder(item: pairs["super"] ?? .null, codingPath: codingPath)
    }

    func superDecoder(forKey key: Key) throws -> any Decoder { try child(key) }
}

private struct ArrayReader: UnkeyedDecodingContainer {
    let items: [CBORItem]
    let decoder: ItemDecoder
    var currentIndex = 0
    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { items.count }
    var isAtEnd: Bool { currentIndex == items.count }

    init(items: [CBORItem], decoder: ItemDecoder) {
        self.items = items
        self.decoder = decoder
    }

    private mutating func next() throws -> ItemDecoder {
        guard !isAtEnd else { throw decoder.mismatch("a longer array") }
        defer { currentIndex += 1 }
        return ItemDecoder(item: items[currentIndex], codingPath: codingPath)
    }

    mutating func decodeNil() throws -> Bool {
        guard !isAtEnd, case .null = items[currentIndex] else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode(_ type: Bool.Type) throws -> Bool { try next().bool() }
    mutating func decode(_ type: String.Type) throws -> String { try next().text() }
    mutating func decode(_ type: Double.Type) throws -> Double { try next().number() }
    mutating func decode(_ type: Float.Type) throws -> Float { Float(try next().number()) }
    mutating func decode(_ type: Int.Type) throws -> Int { try next().integer(type) }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try next().integer(type) }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try next().integer(type) }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try next().integer(type) }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try next().integer(type) }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try next().integer(type) }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try next().integer(type) }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try next().integer(type) }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try next().integer(type) }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try next().integer(type) }
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try next().decode(type) }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }
    mutating func superDecoder() throws -> any Decoder { try next() }
}

private struct ValueReader: SingleValueDecodingContainer {
    let decoder: ItemDecoder
    var codingPath: [any CodingKey] { decoder.codingPath }

    func decodeNil() -> Bool { decoder.isNull }
    func decode(_ type: Bool.Type) throws -> Bool { try decoder.bool() }
    func decode(_ type: String.Type) throws -> String { try decoder.text() }
    func decode(_ type: Double.Type) throws -> Double { try decoder.number() }
    func decode(_ type: Float.Type) throws -> Float { Float(try decoder.number()) }
    func decode(_ type: Int.Type) throws -> Int { try decoder.integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try decoder.integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try decoder.integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try decoder.integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try decoder.integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try decoder.integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try decoder.integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try decoder.integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try decoder.integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try decoder.integer(type) }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try decoder.decode(type) }
}
