/// Reads `Decodable` values from deterministic CBOR (RFC 8949 §4.2), strictly.
///
/// Refused: lengths and integers not in shortest form, indefinite lengths, tags, keys out of order or twice, text that
/// is not UTF-8, bytes after the value, nesting deeper than ``maxDepth``. Nothing is allocated for a length that the
/// input does not hold.
public struct CBORDecoder: Sendable {
    /// The deepest that arrays and maps may nest: 32.
    public var maxDepth = 32

    /// Makes a decoder.
    public init() {}

    /// Decodes the value that makes up all of `bytes`.
    ///
    /// - Throws: ``KithError`` `.invalid` for bytes or values that do not fit `type`.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        let table: CBORTable
        do {
            table = try CBORTable(bytes, maxDepth: maxDepth)
        } catch {
            throw KithError(.invalid, "Malformed CBOR: \(error).", cause: error)
        }
        do {
            return try ItemDecoder(table: table, item: table.root).decode(type)
        } catch let error as DecodingError {
            // What `RawRepresentable` and hand-written types throw.
            throw KithError(.invalid, "A value is not one of those it may be.", cause: error)
        }
    }
}

extension CBORDecoder {
    /// Tells whether `bytes` are one item of deterministic CBOR that nests no deeper than `maxDepth`.
    package static func fits(_ bytes: [UInt8], maxDepth: Int) -> Bool {
        (try? CBORTable(bytes, maxDepth: maxDepth)) != nil
    }

    /// Tells whether `bytes`, which ``CBOREncoder`` wrote, hold at most `limit` arrays and maps, and so nest no deeper.
    ///
    /// Allocates nothing, and checks nothing else.
    package static func holdsContainers(_ bytes: [UInt8], atMost limit: Int) -> Bool {
        var (offset, containers) = (0, 0)
        while offset < bytes.count {
            let major = bytes[offset] >> 5
            let (value, end) = CBORTable.argument(in: bytes, at: offset)
            offset = end
            switch major {
            case 2, 3:
                guard let length = Int(exactly: value), length <= bytes.count - end else { return false }
                offset += length
            case 4, 5:
                containers += 1
                guard containers <= limit else { return false }
            default: continue
            }
        }
        return true
    }
}

/// Decodes one item.
///
/// It is small enough to be passed on as `any Decoder` without being allocated.
private struct ItemDecoder: Decoder {
    let table: CBORTable
    let item: CBORItem
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// The keys on the way here, found when they are asked for.
    var codingPath: [any CodingKey] { table.path(to: item).map { PathKey(stringValue: $0) } }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if table.head(of: item) >> 5 == 2 {
            let bytes = { Array(table.body(at: item.offset)) }
            if type == ByteString.self, let value = ByteString(bytes()) as? Value { return value }
            if let type = type as? any CBORByteString.Type, let value = type.init(cborBytes: bytes()) as? Value {
                return value
            }
        }
        return try Value(from: self)
    }

    func mismatch(_ wanted: String) -> KithError {
        let path = table.path(to: item).joined(separator: ".")
        return KithError(.invalid, path.isEmpty ? "Expected \(wanted)." : "`\(path)` must be \(wanted).")
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard table.head(of: item) >> 5 == 5 else { throw mismatch("a map") }
        return KeyedDecodingContainer(MapReader(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard table.head(of: item) >> 5 == 4 else { throw mismatch("an array") }
        return ArrayReader(decoder: self)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { ValueReader(decoder: self) }

    var isNull: Bool { table.head(of: item) == 0xF6 }

    func integer<Value: FixedWidthInteger>(_ type: Value.Type) throws -> Value {
        switch table.head(of: item) >> 5 {
        case 0:
            if let value = Value(exactly: table.argument(at: item.offset).value) { return value }
        case 1:
            let value = table.argument(at: item.offset).value
            if value <= UInt64(Int64.max), let value = Value(exactly: -1 - Int64(value)) { return value }
        default: break
        }
        throw mismatch("a number from \(Value.min) to \(Value.max)")
    }

    func number() throws -> Double {
        switch table.head(of: item) >> 5 {
        case 0: return Double(table.argument(at: item.offset).value)
        case 1: return -1 - Double(table.argument(at: item.offset).value)
        default:
            guard let number = table.number(of: item) else { throw mismatch("a number") }
            return number
        }
    }

    func text() throws -> String {
        guard table.head(of: item) >> 5 == 3 else { throw mismatch("text") }
        return table.text(at: item.offset)
    }

    func bool() throws -> Bool {
        switch table.head(of: item) {
        case 0xF4: return false
        case 0xF5: return true
        default: throw mismatch("true or false")
        }
    }
}

/// A decoder of CBOR that gives the item it stands at as it is, for a value that is kept encoded.
package protocol CBORItemDecoder {
    /// The bytes of the item, which have been checked.
    var itemBytes: [UInt8] { get }
}

extension ItemDecoder: CBORItemDecoder {
    var itemBytes: [UInt8] {
        Int(item.offset) < table.bytes.count ? Array(table.encoding(of: item)) : [0xF6]
    }
}

/// A key of a path: its text and nothing else.
private struct PathKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

private struct MapReader<Key: CodingKey>: KeyedDecodingContainerProtocol {
    private let decoder: ItemDecoder
    private let count: Int
    private var table: CBORTable { decoder.table }
    var codingPath: [any CodingKey] { decoder.codingPath }
    var allKeys: [Key] {
        (0..<count).compactMap { Key(stringValue: table.text(at: table.child($0, of: decoder.item).key)) }
    }

    init(decoder: ItemDecoder) {
        self.decoder = decoder
        count = decoder.table.count(of: decoder.item)
    }

    private func find(_ name: String) -> ItemDecoder? {
        table.value(of: name, in: decoder.item, count: count).map { ItemDecoder(table: table, item: $0) }
    }

    func contains(_ key: Key) -> Bool { find(key.stringValue) != nil }

    private func child(_ key: Key) throws -> ItemDecoder {
        if let child = find(key.stringValue) { return child }
        let path = table.path(to: decoder.item) + [key.stringValue]
        throw KithError(.invalid, "`\(path.joined(separator: "."))` is missing.")
    }

    /// The value of a key, unless it is missing or null.
    private func present(_ key: Key) -> ItemDecoder? { find(key.stringValue).flatMap { $0.isNull ? nil : $0 } }

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

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try present(key)?.bool() }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? { try present(key)?.text() }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? { try present(key)?.number() }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        try present(key).map { Float(try $0.number()) }
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? { try present(key)?.integer(type) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? { try present(key)?.integer(type) }
    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try present(key)?.decode(type)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try child(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try child(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder {
        find("super") ?? ItemDecoder(table: table, item: table.absent)
    }

    func superDecoder(forKey key: Key) throws -> any Decoder { try child(key) }
}

private struct ArrayReader: UnkeyedDecodingContainer {
    private let decoder: ItemDecoder
    private let length: UInt32
    private var index: UInt32 = 0
    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { Int(length) }
    var currentIndex: Int { Int(index) }
    var isAtEnd: Bool { index == length }

    init(decoder: ItemDecoder) {
        self.decoder = decoder
        // There are no more than bytes.
        length = UInt32(decoder.table.count(of: decoder.item))
    }

    private func peek() throws -> ItemDecoder {
        guard !isAtEnd else { throw decoder.mismatch("a longer array") }
        return ItemDecoder(table: decoder.table, item: decoder.table.child(currentIndex, of: decoder.item).item)
    }

    private mutating func next() throws -> ItemDecoder {
        let next = try peek()
        index += 1
        return next
    }

    mutating func decodeNil() throws -> Bool {
        guard !isAtEnd, try peek().isNull else { return false }
        index += 1
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
