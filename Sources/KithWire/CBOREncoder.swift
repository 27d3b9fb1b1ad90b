/// Writes `Encodable` values as deterministic CBOR (RFC 8949 §4.2): shortest lengths, keys in bytewise order.
///
/// Structs and string-keyed dictionaries become maps, arrays arrays, ``ByteString`` a byte string, `nil` null,
/// floating-point numbers the shortest of 16, 32 and 64 bits that holds them.
public struct CBOREncoder: Sendable {
    /// Makes an encoder.
    public init() {}

    /// The bytes of `value`.
    ///
    /// - Throws: ``KithError`` `.invalid` when a type encodes nothing; whatever the type's own `encode(to:)` throws.
    public func encode(_ value: some Encodable) throws -> [UInt8] {
        var writer = ByteWriter()
        try CBORNode.make(of: value, at: []).write(to: &writer)
        return writer.bytes
    }
}

/// A value on its way into CBOR: containers are filled in place, in any order.
private final class CBORNode {
    enum Content {
        case empty
        case bytes([UInt8])
        case array([CBORNode])
        case map([(key: [UInt8], value: CBORNode)])
    }

    var content: Content = .empty

    init(_ content: Content = .empty) { self.content = content }

    static func make(of value: some Encodable, at path: [any CodingKey]) throws -> CBORNode {
        if let bytes = value as? ByteString { return .head(2, UInt64(bytes.bytes.count), bytes.bytes) }
        let node = CBORNode()
        try value.encode(to: NodeEncoder(node: node, codingPath: path))
        if case .empty = node.content {
            throw KithError(.invalid, "A value of type \(type(of: value)) encodes to nothing.")
        }
        return node
    }

    static func head(_ major: UInt8, _ argument: UInt64, _ body: [UInt8] = []) -> CBORNode {
        CBORNode(.bytes(headBytes(major, argument) + body))
    }

    static func headBytes(_ major: UInt8, _ argument: UInt64) -> [UInt8] {
        var writer = ByteWriter()
        let major = major << 5
        switch argument {
        case ..<24: writer.integer(major | UInt8(argument))
        case ..<0x100:
            writer.integer(major | 24)
            writer.integer(UInt8(argument))
        case ..<0x1_0000:
            writer.integer(major | 25)
            writer.integer(UInt16(argument))
        case ..<0x1_0000_0000:
            writer.integer(major | 26)
            writer.integer(UInt32(argument))
        default:
            writer.integer(major | 27)
            writer.integer(argument)
        }
        return writer.bytes
    }

    static func text(_ text: String) -> CBORNode { .head(3, UInt64(text.utf8.count), Array(text.utf8)) }

    static func integer(_ value: some BinaryInteger) -> CBORNode {
        if value < 0 { return .head(1, UInt64(-1 - Int64(value))) }
        return .head(0, UInt64(value))
    }

    static func bool(_ value: Bool) -> CBORNode { CBORNode(.bytes([value ? 0xF5 : 0xF4])) }
    static var null: CBORNode { CBORNode(.bytes([0xF6])) }

    static func number(_ value: Double) -> CBORNode {
        var writer = ByteWriter()
        if value.isNaN {
            writer.bytes([0xF9, 0x7E, 0x00])
        } else if let half = HalfFloat.bits(exactly: value) {
            writer.integer(0xF9 as UInt8)
            writer.integer(half)
        } else if Double(Float(value)) == value {
            writer.integer(0xFA as UInt8)
            writer.integer(Float(value).bitPattern)
        } else {
            writer.integer(0xFB as UInt8)
            writer.integer(value.bitPattern)
        }
        return CBORNode(.bytes(writer.bytes))
    }

    func write(to writer: inout ByteWriter) {
        switch content {
        case .empty: writer.integer(0xF6 as UInt8)
        case .bytes(let bytes): writer.bytes(bytes)
        case .array(let items):
            writer.bytes(Self.headBytes(4, UInt64(items.count)))
            for item in items { item.write(to: &writer) }
        case .map(let pairs):
            writer.bytes(Self.headBytes(5, UInt64(pairs.count)))
            for pair in pairs.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
                writer.bytes(pair.key)
                pair.value.write(to: &writer)
            }
        }
    }

    func append(_ node: CBORNode) {
        var items: [CBORNode] = []
        if case .array(let have) = content { items = have }
        content = .empty
        items.append(node)
        content = .array(items)
    }

    func set(_ key: String, _ node: CBORNode) {
        var pairs: [(key: [UInt8], value: CBORNode)] = []
        if case .map(let have) = content { pairs = have }
        content = .empty
        let bytes = Self.headBytes(3, UInt64(key.utf8.count)) + Array(key.utf8)
        pairs.removeAll { $0.key == bytes }
        pairs.append((bytes, node))
        content = .map(pairs)
    }

    var count: Int {
        if case .array(let items) = content { return items.count }
        return 0
    }
}

private struct NodeEncoder: Encoder {
    let node: CBORNode
    var codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        if case .map = node.content {} else { node.content = .map([]) }
        return KeyedEncodingContainer(MapContainer(node: node, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        if case .array = node.content {} else { node.content = .array([]) }
        return ArrayContainer(node: node, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        ValueContainer(node: node, codingPath: codingPath)
    }
}

private struct MapContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: CBORNode
    var codingPath: [any CodingKey]

    func encodeNil(forKey key: Key) { node.set(key.stringValue, .null) }
    func encode(_ value: Bool, forKey key: Key) { node.set(key.stringValue, .bool(value)) }
    func encode(_ value: String, forKey key: Key) { node.set(key.stringValue, .text(value)) }
    func encode(_ value: Double, forKey key: Key) { node.set(key.stringValue, .number(value)) }
    func encode(_ value: Float, forKey key: Key) { node.set(key.stringValue, .number(Double(value))) }
    func encode(_ value: Int, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: Int8, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: Int16, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: Int32, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: Int64, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: UInt, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: UInt8, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: UInt16, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: UInt32, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: UInt64, forKey key: Key) { node.set(key.stringValue, .integer(value)) }
    func encode(_ value: some Encodable, forKey key: Key) throws {
        node.set(key.stringValue, try .make(of: value, at: codingPath + [key]))
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        superEncoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        superEncoder(forKey: key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { child("super", path: codingPath) }
    func superEncoder(forKey key: Key) -> any Encoder { child(key.stringValue, path: codingPath + [key]) }

    private func child(_ name: String, path: [any CodingKey]) -> any Encoder {
        let child = CBORNode()
        node.set(name, child)
        return NodeEncoder(node: child, codingPath: path)
    }
}

private struct ArrayContainer: UnkeyedEncodingContainer {
    let node: CBORNode
    var codingPath: [any CodingKey]
    var count: Int { node.count }

    func encodeNil() { node.append(.null) }
    func encode(_ value: Bool) { node.append(.bool(value)) }
    func encode(_ value: String) { node.append(.text(value)) }
    func encode(_ value: Double) { node.append(.number(value)) }
    func encode(_ value: Float) { node.append(.number(Double(value))) }
    func encode(_ value: Int) { node.append(.integer(value)) }
    func encode(_ value: Int8) { node.append(.integer(value)) }
    func encode(_ value: Int16) { node.append(.integer(value)) }
    func encode(_ value: Int32) { node.append(.integer(value)) }
    func encode(_ value: Int64) { node.append(.integer(value)) }
    func encode(_ value: UInt) { node.append(.integer(value)) }
    func encode(_ value: UInt8) { node.append(.integer(value)) }
    func encode(_ value: UInt16) { node.append(.integer(value)) }
    func encode(_ value: UInt32) { node.append(.integer(value)) }
    func encode(_ value: UInt64) { node.append(.integer(value)) }
    func encode(_ value: some Encodable) throws { node.append(try .make(of: value, at: codingPath)) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        superEncoder().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { superEncoder().unkeyedContainer() }

    func superEncoder() -> any Encoder {
        let child = CBORNode()
        node.append(child)
        return NodeEncoder(node: child, codingPath: codingPath)
    }
}

private struct ValueContainer: SingleValueEncodingContainer {
    let node: CBORNode
    var codingPath: [any CodingKey]

    func encodeNil() { node.content = CBORNode.null.content }
    func encode(_ value: Bool) { node.content = CBORNode.bool(value).content }
    func encode(_ value: String) { node.content = CBORNode.text(value).content }
    func encode(_ value: Double) { node.content = CBORNode.number(value).content }
    func encode(_ value: Float) { node.content = CBORNode.number(Double(value)).content }
    func encode(_ value: Int) { node.content = CBORNode.integer(value).content }
    func encode(_ value: Int8) { node.content = CBORNode.integer(value).content }
    func encode(_ value: Int16) { node.content = CBORNode.integer(value).content }
    func encode(_ value: Int32) { node.content = CBORNode.integer(value).content }
    func encode(_ value: Int64) { node.content = CBORNode.integer(value).content }
    func encode(_ value: UInt) { node.content = CBORNode.integer(value).content }
    func encode(_ value: UInt8) { node.content = CBORNode.integer(value).content }
    func encode(_ value: UInt16) { node.content = CBORNode.integer(value).content }
    func encode(_ value: UInt32) { node.content = CBORNode.integer(value).content }
    func encode(_ value: UInt64) { node.content = CBORNode.integer(value).content }
    func encode(_ value: some Encodable) throws { node.content = try CBORNode.make(of: value, at: codingPath).content }
}

/// IEEE 754 half precision, as bits: not every platform has `Float16`.
enum HalfFloat {
    /// The 16 bits that hold `value` exactly; `nil` when none do.
    static func bits(exactly value: Double) -> UInt16? {
        let sign: UInt16 = value.sign == .minus ? 0x8000 : 0
        let magnitude = value.magnitude
        if magnitude == 0 { return sign }
        if magnitude == .infinity { return sign | 0x7C00 }
        guard magnitude <= 65_504 else { return nil }
        let exponent = max(Int(magnitude.exponent), -14)
        let scaled = magnitude / Self.power(exponent - 10)
        guard scaled == scaled.rounded(), scaled < 2_048 else { return nil }
        let fraction = UInt16(scaled)
        return fraction < 1_024 ? sign | fraction : sign | UInt16(exponent + 15) << 10 | (fraction - 1_024)
    }

    /// The value of 16 bits.
    static func value(_ bits: UInt16) -> Double {
        let exponent = Int(bits >> 10 & 31)
        let fraction = Double(bits & 1_023)
        let magnitude: Double =
            switch exponent {
            case 0: fraction * power(-24)
            case 31: fraction == 0 ? .infinity : .nan
            default: (1_024 + fraction) * power(exponent - 25)
            }
        return bits >> 15 == 1 ? -magnitude : magnitude
    }

    private static func power(_ exponent: Int) -> Double { Double(sign: .plus, exponent: exponent, significand: 1) }
}
