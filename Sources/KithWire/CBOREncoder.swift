/// Writes `Encodable` values as deterministic CBOR (RFC 8949 §4.2): shortest lengths, keys in bytewise order.
///
/// Structs and string-keyed dictionaries become maps, arrays arrays, ``ByteString`` and `Data` byte strings, `nil` null,
/// floating-point numbers the shortest of 16, 32 and 64 bits that holds them.
public struct CBOREncoder: Sendable {
    /// Makes an encoder.
    public init() {}

    /// The bytes of `value`.
    ///
    /// - Throws: ``KithError`` `.invalid` when a type encodes nothing; whatever the type's own `encode(to:)` throws.
    public func encode(_ value: some Encodable) throws -> [UInt8] {
        var bytes: [UInt8] = []
        let run = EncodingRun()
        if let value = run.byteString(value) {
            bytes.byteString(value)
        } else {
            let node = EncodingNode(run)
            try node.fill(with: value)
            bytes.reserveCapacity(node.buffer.bytes.count + 9)
            node.buffer.write(to: &bytes)
        }
        return bytes
    }
}

/// Writes CBOR item by item, into memory that is taken once: for secrets, of which an encoder leaves copies.
///
/// The keys of a map come in bytewise order of their encodings, as those of ``CBOREncoder`` do.
package struct CBORItems {
    /// What was written.
    package private(set) var bytes: [UInt8] = []

    /// Takes the memory for as many bytes.
    package init(room: Int) { bytes.reserveCapacity(room) }

    /// The most bytes of the head of an item.
    package static let headSize = 9

    /// Begins a map of so many members; a key and a value follow for each.
    package mutating func map(_ count: Int) { bytes.head(5, UInt64(count)) }
    /// Begins an array of so many items, which follow.
    package mutating func array(_ count: Int) { bytes.head(4, UInt64(count)) }
    /// Writes an integer.
    package mutating func integer(_ value: Int64) { bytes.integer(value) }
    /// Writes a text.
    package mutating func text(_ text: String) { bytes.text(text) }

    /// Writes a byte string.
    package mutating func secret(_ secret: SecretBytes) {
        bytes.head(2, UInt64(secret.count))
        unsafe secret.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
    }

    /// Overwrites all of it.
    package mutating func clear() { bytes.clear() }
}

extension [UInt8] {
    /// Appends the head of a CBOR item.
    mutating func head(_ major: UInt8, _ argument: UInt64) {
        let major = major << 5
        let size: Int
        switch argument {
        case ..<24:
            append(major | UInt8(argument))
            return
        case ..<0x100: size = 0
        case ..<0x1_0000: size = 1
        case ..<0x1_0000_0000: size = 2
        default: size = 3
        }
        append(major | 24 | UInt8(size))
        bigEndian(argument, count: 1 << size)
    }

    private mutating func bigEndian(_ value: UInt64, count: Int) {
        for index in (0..<count).reversed() { append(UInt8(truncatingIfNeeded: value >> UInt64(8 * index))) }
    }

    fileprivate mutating func text(_ text: String) {
        head(3, UInt64(text.utf8.count))
        append(contentsOf: text.utf8)
    }

    fileprivate mutating func byteString(_ value: ByteString) {
        head(2, UInt64(value.bytes.count))
        append(contentsOf: value.bytes)
    }

    fileprivate mutating func integer(_ value: some FixedWidthInteger) {
        if value < 0 {
            head(1, UInt64(-1 - Int64(value)))
        } else {
            head(0, UInt64(value))
        }
    }

    fileprivate mutating func bool(_ value: Bool) { append(value ? 0xF5 : 0xF4) }
    fileprivate mutating func null() { append(0xF6) }

    fileprivate mutating func number(_ value: Double) {
        if value.isNaN {
            append(contentsOf: [0xF9, 0x7E, 0x00])
        } else if let half = HalfFloat.bits(exactly: value) {
            append(0xF9)
            bigEndian(UInt64(half), count: 2)
        } else if Double(Float(value)) == value {
            append(0xFA)
            bigEndian(UInt64(Float(value).bitPattern), count: 4)
        } else {
            append(0xFB)
            bigEndian(value.bitPattern, count: 8)
        }
    }
}

/// The keys on the way to the value being encoded, and what they need not lead through.
private final class EncodingRun {
    /// The keys, from the outermost; a container that is filled later has a path of its own.
    var keys: [any CodingKey] = []
    /// The types met so far, and whether their values are byte strings: a message has few types, and asking the runtime
    /// costs more.
    private var kinds: [(type: ObjectIdentifier, isByteString: Bool)] = []

    /// The bytes of a value that is written as a byte string; `nil` for any other.
    func byteString<Value>(_ value: Value) -> ByteString? {
        if Value.self == ByteString.self { return value as? ByteString }
        let type = ObjectIdentifier(Value.self)
        let isByteString: Bool
        if let known = kinds.first(where: { $0.type == type }) {
            isByteString = known.isByteString
        } else {
            isByteString = Value.self is any CBORByteString.Type
            kinds.append((type, isByteString))
        }
        guard isByteString, let value = value as? any CBORByteString else { return nil }
        return ByteString(value.cborBytes)
    }
}

/// A type from elsewhere whose values are byte strings in CBOR.
package protocol CBORByteString {
    /// Makes a value of its bytes.
    init(cborBytes: [UInt8])
    /// The bytes.
    var cborBytes: [UInt8] { get }
}

/// An encoder of CBOR that takes a whole item as it is, for a value that is kept encoded.
package protocol CBORItemEncoder {
    /// Makes `item`, which is one item of deterministic CBOR, the value.
    func encode(item: [UInt8])
}

/// A value on its way into CBOR.
///
/// A value that is being encoded writes into a buffer of its own. When it is done, that is appended to the buffer of
/// the value around it, a map's members in order, and the node is used for the next. What may still be written to then
/// (a nested container, an encoder that was kept) stays a node until the value around it is done, too.
private final class EncodingNode {
    private let run: EncodingRun
    /// The keys on the way here; `nil`: the first ``depth`` ones of the run.
    private var path: [any CodingKey]?
    private var depth = 0
    /// The contents written so far.
    var buffer = EncodingBuffer()
    /// A node for the next value in this one.
    private var spare: EncodingNode?

    init(_ run: EncodingRun, path: [any CodingKey]? = nil) {
        self.run = run
        self.path = path
    }

    var codingPath: [any CodingKey] { path ?? Array(run.keys.prefix(depth)) }

    /// Lets a value encode itself.
    func fill<Value: Encodable>(with value: Value) throws {
        try value.encode(to: NodeEncoder(node: self))
        if buffer.isEmpty { throw KithError(.invalid, "A value of type \(type(of: value)) encodes to nothing.") }
    }

    /// A node that a value within this one has filled.
    private func node<Value: Encodable>(of value: Value, at path: [any CodingKey]?) throws -> EncodingNode {
        let node = spare ?? EncodingNode(run)
        spare = nil
        node.path = path
        node.depth = run.keys.count
        try node.fill(with: value)
        return node
    }

    // MARK: - Values

    /// Makes what a value encodes the value.
    func set<Value: Encodable>(_ value: Value) throws {
        if let value = run.byteString(value) { return buffer.set { $0.byteString(value) } }
        var node = try node(of: value, at: path)
        buffer.begin(.value)
        add(&node)
    }

    /// Appends a value to an array.
    func append<Value: Encodable>(_ value: Value) throws {
        if let value = run.byteString(value) { return buffer.append { $0.byteString(value) } }
        var node = try node(of: value, at: path)
        buffer.beginItem()
        add(&node)
    }

    /// Writes a member of a map.
    func write<Value: Encodable>(_ value: Value, for key: some CodingKey) throws {
        if let value = run.byteString(value) { return buffer.write(key.stringValue) { $0.byteString(value) } }
        var node = try member(value, key)
        buffer.beginMember(key.stringValue)
        add(&node)
    }

    private func member<Value: Encodable>(_ value: Value, _ key: some CodingKey) throws -> EncodingNode {
        if let path { return try node(of: value, at: path + [key]) }
        run.keys.append(key)
        defer { run.keys.removeLast() }
        return try node(of: value, at: nil)
    }

    /// A new item of an array that is written to later.
    func appendNode() -> EncodingNode {
        let node = EncodingNode(run, path: codingPath)
        buffer.beginItem()
        buffer.hold(node)
        return node
    }

    /// A new member of a map that is written to later.
    func writeNode(_ name: String, at path: [any CodingKey]) -> EncodingNode {
        let node = EncodingNode(run, path: path)
        buffer.beginMember(name)
        buffer.hold(node)
        return node
    }

    /// Adds the contents of a node, or the node itself when it might still be written to.
    private func add(_ node: inout EncodingNode) {
        guard isKnownUniquelyReferenced(&node), node.buffer.isSettled() else { return buffer.hold(node) }
        node.buffer.write(to: &buffer.bytes)
        node.buffer.clear()
        spare = node
    }
}

/// The output of one value: bytes, and nodes where some of them are not known yet.
private struct EncodingBuffer {
    enum Content {
        case nothing
        case value
        case array
        case map
    }

    /// A member of a map: its key, then its value unless that is in a node.
    private struct Member {
        var start: Int
        var end: Int
        /// The length of the key, and its first seven bytes: they tell most keys apart.
        var rank: UInt64
        /// The index of the held node that is the value; −1: none.
        var held = -1

        /// Tells whether the key precedes another in the order of encoded bytes: by length, then by the bytes.
        func precedes(_ other: Member, in bytes: [UInt8]) -> Bool {
            if rank != other.rank { return rank < other.rank }
            // Up to seven bytes, they are the same.
            return rank >> 56 > 7 && key(in: bytes).lexicographicallyPrecedes(other.key(in: bytes))
        }

        private func key(in bytes: [UInt8]) -> ArraySlice<UInt8> {
            let (count, end) = CBORTable.argument(in: bytes, at: start)
            return bytes[start..<end + Int(count)]
        }
    }

    /// A node in the place of bytes.
    private struct Held {
        /// The offset in the bytes where it belongs, unless it is a member.
        var place: Int
        var node: EncodingNode
    }

    private var content = Content.nothing
    var bytes: [UInt8] = []
    private var items = 0
    private var members: [Member] = []
    /// True while the members are in order, each once.
    private var isOrdered = true
    private var held: [Held] = []

    var isEmpty: Bool { content == .nothing }
    /// The number of items an array has so far.
    var count: Int { content == .array ? items : 0 }

    /// Forgets what was written, and keeps the memory.
    mutating func clear() {
        content = .nothing
        bytes.removeAll(keepingCapacity: true)
        items = 0
        if !members.isEmpty { members.removeAll(keepingCapacity: true) }
        isOrdered = true
        if !held.isEmpty { held = [] }
    }

    // MARK: - Writing

    /// Begins with a kind of content; an array or a map goes on when it has begun.
    mutating func begin(_ wanted: Content) {
        if content == wanted, wanted != .value { return }
        if content != .nothing { clear() }
        if bytes.capacity == 0 { bytes.reserveCapacity(64) }
        content = wanted
    }

    mutating func beginItem() {
        begin(.array)
        items += 1
    }

    mutating func beginMember(_ name: String) {
        begin(.map)
        if members.capacity == 0 { members.reserveCapacity(4) }
        endMember()
        var member = Member(start: bytes.count, end: bytes.count, rank: 0)
        var name = name
        name.withUTF8 { text in
            bytes.head(3, UInt64(text.count))
            unsafe bytes.append(contentsOf: text)
            member.rank = UInt64(min(text.count, 255)) << 56
            guard text.count < 255 else { return }
            for index in 0..<min(text.count, 7) { member.rank |= unsafe UInt64(text[index]) << UInt64(48 - 8 * index) }
        }
        member.end = bytes.count
        if let last = members.last, !last.precedes(member, in: bytes) { isOrdered = false }
        members.append(member)
    }

    private mutating func endMember() {
        if !members.isEmpty { members[members.count - 1].end = bytes.count }
    }

    /// Makes a scalar the value.
    mutating func set(_ write: (inout [UInt8]) -> Void) {
        begin(.value)
        write(&bytes)
    }

    /// Appends a scalar to an array.
    mutating func append(_ write: (inout [UInt8]) -> Void) {
        beginItem()
        write(&bytes)
    }

    /// Writes a scalar member of a map.
    mutating func write(_ name: String, _ write: (inout [UInt8]) -> Void) {
        beginMember(name)
        write(&bytes)
    }

    /// Puts a node in the place of the value, or of the last item or member.
    mutating func hold(_ node: EncodingNode) {
        if content == .map { members[members.count - 1].held = held.count }
        held.append(Held(place: bytes.count, node: node))
    }

    /// Tells whether no node in this one is referenced elsewhere.
    mutating func isSettled() -> Bool {
        held.indices.allSatisfy { isKnownUniquelyReferenced(&held[$0].node) && held[$0].node.buffer.isSettled() }
    }

    // MARK: - The encoding

    /// Appends what was written.
    mutating func write(to output: inout [UInt8]) {
        switch content {
        case .nothing: output.null()
        case .value: writeAll(to: &output)
        case .array:
            output.head(4, UInt64(items))
            writeAll(to: &output)
        case .map:
            endMember()
            if !isOrdered { order() }
            output.head(5, UInt64(members.count))
            if isOrdered, held.isEmpty {
                output.append(contentsOf: bytes)
                return
            }
            unsafe bytes.withUnsafeBufferPointer { bytes in
                for member in members {
                    unsafe output.append(
                        contentsOf: UnsafeBufferPointer(rebasing: bytes[member.start..<member.end]))
                    if member.held >= 0 { held[member.held].node.buffer.write(to: &output) }
                }
            }
        }
    }

    private func writeAll(to output: inout [UInt8]) {
        var start = 0
        for held in held {
            output.append(contentsOf: bytes[start..<held.place])
            held.node.buffer.write(to: &output)
            start = held.place
        }
        output.append(contentsOf: bytes[start...])
    }

    /// Puts the members in order; of those with the same key the last stays.
    private mutating func order() {
        let bytes = bytes
        members.sort { $0.precedes($1, in: bytes) || !$1.precedes($0, in: bytes) && $0.start > $1.start }
        var last: Member?
        members.removeAll { member in
            defer { last = member }
            return last.map { !$0.precedes(member, in: bytes) } ?? false
        }
    }
}

private struct NodeEncoder: Encoder {
    let node: EncodingNode
    var codingPath: [any CodingKey] { node.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        node.buffer.begin(.map)
        return KeyedEncodingContainer(MapContainer(node: node))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        node.buffer.begin(.array)
        return ArrayContainer(node: node)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { ValueContainer(node: node) }
}

extension NodeEncoder: CBORItemEncoder {
    func encode(item: [UInt8]) { node.buffer.set { $0 += item } }
}

private struct MapContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: EncodingNode
    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil(forKey key: Key) { node.buffer.write(key.stringValue) { $0.null() } }
    func encode(_ value: Bool, forKey key: Key) { node.buffer.write(key.stringValue) { $0.bool(value) } }
    func encode(_ value: String, forKey key: Key) { node.buffer.write(key.stringValue) { $0.text(value) } }
    func encode(_ value: Double, forKey key: Key) { node.buffer.write(key.stringValue) { $0.number(value) } }
    func encode(_ value: Float, forKey key: Key) { node.buffer.write(key.stringValue) { $0.number(Double(value)) } }
    func encode(_ value: Int, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: Int8, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: Int16, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: Int32, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: Int64, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: UInt, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: UInt8, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: UInt16, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: UInt32, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: UInt64, forKey key: Key) { node.buffer.write(key.stringValue) { $0.integer(value) } }
    func encode(_ value: some Encodable, forKey key: Key) throws { try node.write(value, for: key) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        superEncoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        superEncoder(forKey: key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { NodeEncoder(node: node.writeNode("super", at: codingPath)) }

    func superEncoder(forKey key: Key) -> any Encoder {
        NodeEncoder(node: node.writeNode(key.stringValue, at: codingPath + [key]))
    }
}

private struct ArrayContainer: UnkeyedEncodingContainer {
    let node: EncodingNode
    var codingPath: [any CodingKey] { node.codingPath }
    var count: Int { node.buffer.count }

    func encodeNil() { node.buffer.append { $0.null() } }
    func encode(_ value: Bool) { node.buffer.append { $0.bool(value) } }
    func encode(_ value: String) { node.buffer.append { $0.text(value) } }
    func encode(_ value: Double) { node.buffer.append { $0.number(value) } }
    func encode(_ value: Float) { node.buffer.append { $0.number(Double(value)) } }
    func encode(_ value: Int) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: Int8) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: Int16) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: Int32) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: Int64) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: UInt) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: UInt8) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: UInt16) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: UInt32) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: UInt64) { node.buffer.append { $0.integer(value) } }
    func encode(_ value: some Encodable) throws { try node.append(value) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        superEncoder().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { superEncoder().unkeyedContainer() }
    func superEncoder() -> any Encoder { NodeEncoder(node: node.appendNode()) }
}

private struct ValueContainer: SingleValueEncodingContainer {
    let node: EncodingNode
    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil() { node.buffer.set { $0.null() } }
    func encode(_ value: Bool) { node.buffer.set { $0.bool(value) } }
    func encode(_ value: String) { node.buffer.set { $0.text(value) } }
    func encode(_ value: Double) { node.buffer.set { $0.number(value) } }
    func encode(_ value: Float) { node.buffer.set { $0.number(Double(value)) } }
    func encode(_ value: Int) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: Int8) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: Int16) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: Int32) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: Int64) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: UInt) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: UInt8) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: UInt16) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: UInt32) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: UInt64) { node.buffer.set { $0.integer(value) } }
    func encode(_ value: some Encodable) throws { try node.set(value) }
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
