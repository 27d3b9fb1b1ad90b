import KithTesting
import KithWire
import Testing

@Suite struct CBORTests {
    @Test func `the arrays and maps of a value are counted as they are written`() throws {
        let text = String(repeating: "\u{84}\u{A1}", count: 200)
        let value = ["a": [text, "b"], "c": [], "d": [String(repeating: "x", count: 70_000)]]
        let bytes = try CBOREncoder().encode(value)
        #expect(CBORDecoder.holdsContainers(bytes, atMost: 4))
        #expect(!CBORDecoder.holdsContainers(bytes, atMost: 3))
        let numbers = try CBOREncoder().encode([0.1, -1e300, 21.5, 7])
        #expect(CBORDecoder.holdsContainers(numbers, atMost: 1))
        #expect(!CBORDecoder.holdsContainers(numbers, atMost: 0))
        // A length that is not there.
        #expect(!CBORDecoder.holdsContainers([0x5B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], atMost: 9))
        #expect(!CBORDecoder.holdsContainers([0x61], atMost: 9))
    }

    // MARK: - RFC 8949, Appendix A

    @Test(
        arguments: [
            (0, "00"), (1, "01"), (10, "0a"), (23, "17"), (24, "1818"), (25, "1819"), (100, "1864"), (1_000, "1903e8"),
            (1_000_000, "1a000f4240"), (1_000_000_000_000, "1b000000e8d4a51000"), (.max, "1bffffffffffffffff"),
        ] as [(UInt64, String)])
    func `unsigned numbers`(value: UInt64, hex: String) throws { try check(value, hex) }

    @Test(
        arguments: [
            (-1, "20"), (-10, "29"), (-100, "3863"), (-1_000, "3903e7"), (.min, "3b7fffffffffffffff"),
        ] as [(Int64, String)])
    func `negative numbers`(value: Int64, hex: String) throws { try check(value, hex) }

    @Test(
        arguments: [
            (0.0, "f90000"), (-0.0, "f98000"), (1.0, "f93c00"), (1.1, "fb3ff199999999999a"), (1.5, "f93e00"),
            (65_504.0, "f97bff"), (100_000.0, "fa47c35000"), (3.4028234663852886e+38, "fa7f7fffff"),
            (1.0e+300, "fb7e37e43c8800759c"), (5.960464477539063e-8, "f90001"), (0.00006103515625, "f90400"),
            (-4.0, "f9c400"), (-4.1, "fbc010666666666666"), (.infinity, "f97c00"), (-.infinity, "f9fc00"),
        ] as [(Double, String)])
    func `floating-point numbers`(value: Double, hex: String) throws {
        try check(value, hex)
        let back = try CBORDecoder().decode(Double.self, from: bytes(hex))
        #expect(back.bitPattern == value.bitPattern)
    }

    @Test func `not a number`() throws {
        #expect(try CBOREncoder().encode(Double.nan) == bytes("f97e00"))
        #expect(try CBOREncoder().encode(Float.signalingNaN) == bytes("f97e00"))
        #expect(try CBORDecoder().decode(Double.self, from: bytes("f97e00")).isNaN)
    }

    @Test func `the other vectors`() throws {
        try check(false, "f4")
        try check(true, "f5")
        try check(Int?.none, "f6")
        try check(ByteString([]), "40")
        try check([1, 2, 3, 4] as ByteString, "4401020304")
        for (text, hex) in [
            ("", "60"), ("a", "6161"), ("IETF", "6449455446"), ("\"\\", "62225c"), ("\u{FC}", "62c3bc"),
            ("\u{6C34}", "63e6b0b4"), ("\u{10151}", "64f0908591"),
        ] { try check(text, hex) }
        try check([Int](), "80")
        try check([1, 2, 3], "83010203")
        try check(
            Tree.array([.number(1), .array([.number(2), .number(3)]), .array([.number(4), .number(5)])]),
            "8301820203820405")
        try check(Array(1...25), "98190102030405060708090a0b0c0d0e0f101112131415161718181819")
        try check([String: Int](), "a0")
        try check(Tree.map(["a": .number(1), "b": .array([.number(2), .number(3)])]), "a26161016162820203")
        try check(Tree.array([.text("a"), .map(["b": .text("c")])]), "826161a161626163")
        try check(["a": "A", "b": "B", "c": "C", "d": "D", "e": "E"], "a56161614161626142616361436164614461656145")
    }

    // MARK: - Swift's types

    private struct Record: Codable, Hashable {
        var name = "a"
        var count: Int8 = -3
        var data: ByteString = [1, 2]
        var list: [Record] = []
        var choice = Choice.some(2.5)
        var missing: String?
        var address: NetworkAddress?
        enum Choice: Codable, Hashable {
            case none
            case some(Float)
        }
    }

    @Test func `a struct survives, with optionals, enums, bytes and itself inside`() throws {
        var record = Record()
        record.list = [Record(name: "b", missing: "x"), Record(choice: .none, address: NetworkAddress("[::1]:5"))]
        let encoded = try CBOREncoder().encode(record)
        #expect(try CBORDecoder().decode(Record.self, from: encoded) == record)
        #expect(try CBOREncoder().encode(CBORDecoder().decode(Record.self, from: encoded)) == encoded)
        // The field that is `nil` does not travel; keys are in order of their bytes, the shortest first.
        #expect(try CBOREncoder().encode(["bb": 1, "a": 2, "c": 3]) == bytes("a36161026163036262" + "6201"))
        #expect(
            try CBORDecoder().decode([ByteString?].self, from: CBOREncoder().encode([[7], nil] as [ByteString?])) == [
                [7], nil,
            ])
    }

    @Test func `a number that does not fit is refused with its place`() throws {
        var record = Record()
        record.list = [Record()]
        var encoded = try CBOREncoder().encode(record)
        // −3 as 22 becomes −129 as 3880.
        let at = try #require(encoded.indices.last { encoded[$0] == 0x22 })
        encoded.replaceSubrange(at...at, with: [0x38, 0x80])
        do {
            _ = try CBORDecoder().decode(Record.self, from: encoded)
            Issue.record("no error")
        } catch let error as KithError {
            #expect(error.code == .invalid && error.message.contains("count"), "\(error)")
        }
    }

    @Test(arguments: ["f5", "6161", "80", "a0", "f93e00", "20", "f6"])
    func `a value of another type is refused, never converted`(hex: String) throws {
        #expect(throws: KithError(.invalid, "")) { _ = try CBORDecoder().decode(UInt8.self, from: bytes(hex)) }
    }

    private enum Colour: String, Codable { case red }

    @Test func `what RawRepresentable refuses is a KithError, too`() throws {
        #expect(throws: KithError(.invalid, "")) {
            _ = try CBORDecoder().decode(Colour.self, from: CBOREncoder().encode("blue"))
        }
    }

    // MARK: - What is refused

    @Test(arguments: [
        // Not in shortest form (RFC 8949 §4.2.1).
        "1800", "1817", "190018", "1900ff", "1a0000ffff", "1b00000000ffffffff", "3817", "580161", "78016161", "980100",
        "fa3fc00000", "fb3ff8000000000000", "fa7fc00000", "fb7ff8000000000000", "f97e01", "fe7e00", "fa7f800000",
        // Indefinite lengths and reserved heads.
        "5f42010243030405ff", "7f657374726561646d696e67ff", "9fff", "bfff", "1c", "1d", "1e", "1f", "ff",
        // Tags, simple values and undefined.
        "c074323031332d30332d32315432303a30343a30305a", "d74401020304", "f7", "f0", "f818", "f8ff", "e0",
        // Keys: twice, out of order, not text, one text in two spellings.
        "a2616101616102", "a2616201616102", "a2626161016162", "a10203", "a14161f6", "a262c3a90163" + "65cc8102",
        // Not UTF-8: a lone continuation byte, an overlong slash, a surrogate.
        "6180", "62c0af", "63eda080",
        // Cut off, or too long.
        "", "18", "19ff", "42ff", "62c3", "82" + "01", "a16161", "0000", "f4f4",
        // Lengths no input could hold.
        "9bffffffffffffffff", "bb7fffffffffffffff", "5b7fffffffffffffff", "7bffffffffffffffff", "9affffffff00",
    ])
    func `anything but the one form is refused`(hex: String) throws {
        #expect(throws: KithError(.invalid, "")) { _ = try CBORDecoder().decode(Tree.self, from: bytes(hex)) }
    }

    @Test func `nesting stops at 32`() throws {
        let deepest = [UInt8](repeating: 0x81, count: 31) + [0x00]
        _ = try CBORDecoder().decode(Tree.self, from: deepest)
        #expect(throws: KithError(.invalid, "")) { _ = try CBORDecoder().decode(Tree.self, from: [0x81] + deepest) }
        #expect(throws: KithError(.invalid, "")) {
            _ = try CBORDecoder().decode(Tree.self, from: [UInt8](repeating: 0x81, count: 1 << 20))
        }
    }

    @Test func `random trees survive, and are written one way`() throws {
        var random = SeededRandom(seed: 8_949)
        for _ in 0..<500 {
            let tree = Tree.random(depth: 4, using: &random)
            let encoded = try CBOREncoder().encode(tree)
            let back = try CBORDecoder().decode(Tree.self, from: encoded)
            #expect(back == tree, "seed \(random.seed)")
            #expect(try CBOREncoder().encode(back) == encoded, "seed \(random.seed)")
        }
    }

    @Test func `bytes that are accepted are the bytes that would be written`() throws {
        var random = SeededRandom(seed: 949)
        var accepted = 0
        for _ in 0..<20_000 {
            var input = random.bytes(Int.random(in: 1...6, using: &random))
            if Bool.random(using: &random) {
                input = try CBOREncoder().encode(Tree.random(depth: 2, using: &random))
                input[Int.random(in: input.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            // A number below −2⁶³ has no integer type here; it is read as floating-point and would be written as such.
            guard !input.contains(0x3B), let tree = try? CBORDecoder().decode(Tree.self, from: input) else { continue }
            accepted += 1
            #expect(try CBOREncoder().encode(tree) == input, "\(Hex.encode(input)), seed \(random.seed)")
        }
        #expect(accepted > 100)
    }

    // MARK: - Containers

    @Test func `members are in order of their keys' lengths, then of their bytes`() throws {
        // Some differ only behind the first seven bytes, some by a head of more than one byte.
        var random = SeededRandom(seed: 42)
        var keys = ["", "a", "b", "aa", "é", "z\u{10151}", "modified", "modifiee", "sameprefix1", "sameprefix2"]
        for length in [22, 23, 24, 25, 254, 255, 256, 300] {
            keys += ["a", "b"].map { String(repeating: "x", count: length - 1) + $0 }
        }
        for _ in 0..<20 {
            keys.shuffle(using: &random)
            let encoded = try CBOREncoder().encode(Members(keys: keys))
            let sorted = keys.sorted {
                ($0.utf8.count, Hex.encode(Array($0.utf8))) < ($1.utf8.count, Hex.encode(Array($1.utf8)))
            }
            let expected = try sorted.reduce(into: [0xB8, UInt8(keys.count)] as [UInt8]) {
                $0 += try CBOREncoder().encode($1) + CBOREncoder().encode($1.utf8.count)
            }
            #expect(encoded == expected)
            let back = try CBORDecoder().decode([String: Int].self, from: encoded)
            #expect(back == Dictionary(uniqueKeysWithValues: keys.map { ($0, $0.utf8.count) }))
        }
    }

    /// A map with these members, in this order.
    private struct Members: Encodable {
        var keys: [String]

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Name.self)
            for key in keys { try container.encode(key.utf8.count, forKey: Name(key)) }
        }
    }

    @Test func `the last value of a key that is written twice stays`() throws {
        let written = Custom { encoder in
            var container = encoder.container(keyedBy: Name.self)
            try container.encode("old", forKey: "b")
            try container.encode(1, forKey: "a")
            try container.encode([2, 3], forKey: "b")
            _ = container.nestedContainer(keyedBy: Name.self, forKey: "a")
            try container.encodeNil(forKey: "a")
        }
        #expect(try Hex.encode(CBOREncoder().encode(written)) == "a26161f66162820203")
    }

    @Test func `nested containers are filled in any order, also after what follows them`() throws {
        let written = Custom { encoder in
            var outer = encoder.container(keyedBy: Name.self)
            var list = outer.nestedUnkeyedContainer(forKey: "list")
            try list.encode(1)
            var map = outer.nestedContainer(keyedBy: Name.self, forKey: "b")
            try outer.encode("end", forKey: "a")
            var inner = list.nestedContainer(keyedBy: Name.self)
            try list.encode(2)
            try inner.encode(true, forKey: "z")
            try map.encode(3, forKey: "y")
            try inner.encode(false, forKey: "y")
            try map.encode(4, forKey: "x")
            try outer.superEncoder().encode("above")
            try outer.superEncoder(forKey: "s").encode([ByteString([7])])
            try list.superEncoder().encode(Int?.none)
            // Nobody writes to this one.
            _ = list.superEncoder()
            #expect(list.count == 5)
        }
        let expected = Tree.map([
            "a": .text("end"), "b": .map(["x": .number(4), "y": .number(3)]), "s": .array([.bytes([7])]),
            "list": .array([
                .number(1), .map(["y": .bool(false), "z": .bool(true)]), .number(2), .null, .null,
            ]),
            "super": .text("above"),
        ])
        #expect(try CBOREncoder().encode(written) == CBOREncoder().encode(expected))
    }

    @Test func `two containers from one encoder fill one map, and another kind begins anew`() throws {
        let both = Custom { encoder in
            var first = encoder.container(keyedBy: Name.self)
            try first.encode(2, forKey: "b")
            var second = encoder.container(keyedBy: Name.self)
            try second.encode(1, forKey: "a")
            try first.encode(3, forKey: "c")
        }
        #expect(try Hex.encode(CBOREncoder().encode(both)) == "a3616101616202616303")
        let anew = Custom { encoder in
            var map = encoder.container(keyedBy: Name.self)
            try map.encode(2, forKey: "b")
            var list = encoder.unkeyedContainer()
            try list.encode(5)
            try list.encode([6])
        }
        #expect(try Hex.encode(CBOREncoder().encode([anew])) == "81820581" + "06")
    }

    @Test func `an encoder that is kept may be written to until the outermost value is done`() throws {
        final class Kept { var encoder: (any Encoder)? }
        let kept = Kept()
        let keeper = Custom { encoder in
            kept.encoder = encoder
            var container = encoder.container(keyedBy: Name.self)
            try container.encode(1, forKey: "b")
        }
        let late = Custom { _ in
            var container = try #require(kept.encoder).container(keyedBy: Name.self)
            try container.encode(2, forKey: "a")
        }
        let whole = Custom { encoder in
            var container = encoder.unkeyedContainer()
            try container.encode([keeper])
            // It writes elsewhere, and nothing itself.
            #expect(throws: KithError(.invalid, "")) { try container.encode(late) }
            try container.encode([9])
        }
        #expect(try Hex.encode(CBOREncoder().encode(whole)) == "8281a2616102616201" + "8109")
    }

    @Test func `what fails to encode leaves nothing behind`() throws {
        let failing = Custom { encoder in
            var container = encoder.container(keyedBy: Name.self)
            try container.encode("half", forKey: "done")
            throw KithError(.conflict, "")
        }
        let whole = Custom { encoder in
            var container = encoder.container(keyedBy: Name.self)
            #expect(throws: KithError(.conflict, "")) { try container.encode(failing, forKey: "failing") }
            try container.encode(["k": 1], forKey: "a")
            #expect(container.codingPath.isEmpty)
        }
        #expect(try Hex.encode(CBOREncoder().encode(whole)) == "a16161a1616b01")
    }

    @Test func `a value knows the keys that lead to it`() throws {
        let value = Custom { encoder in
            var container = encoder.singleValueContainer()
            try container.encode(encoder.codingPath.map(\.stringValue).joined(separator: "."))
        }
        let whole = Custom { encoder in
            var outer = encoder.container(keyedBy: Name.self)
            try outer.encode(["b": [value]], forKey: "a")
            var nested = outer.nestedContainer(keyedBy: Name.self, forKey: "n")
            try nested.encode(["m": value], forKey: "l")
            try outer.encode(value, forKey: "z")
        }
        let expected = Tree.map([
            "a": .map(["b": .array([.text("a.b")])]), "n": .map(["l": .map(["m": .text("n.l.m")])]), "z": .text("z"),
        ])
        #expect(try CBOREncoder().encode(whole) == CBOREncoder().encode(expected))
    }

    @Test func `members are read in any order, again and again, and others are passed over`() throws {
        let encoded = try CBOREncoder().encode(
            Tree.map([
                "name": .text("n"), "unknown": .map(["name": .text("inner")]), "list": .array([.number(1), .null]),
                "size": .number(7), "none": .null, "é": .number(8),
            ]))
        let reading = try CBORDecoder().decode(Reading.self, from: encoded)
        let values = try reading.decoder.container(keyedBy: Name.self)
        #expect(Set(values.allKeys.map(\.stringValue)) == ["name", "unknown", "list", "size", "none", "é"])
        for _ in 0..<2 {
            #expect(try values.decode(Int.self, forKey: "size") == 7)
            #expect(try values.decode(String.self, forKey: "name") == "n")
            #expect(try values.decode([Int?].self, forKey: "list") == [1, nil])
            #expect(try values.decodeIfPresent(Int.self, forKey: "none") == nil)
            #expect(try values.decodeIfPresent([String: Int].self, forKey: "none") == nil)
            #expect(try values.decodeIfPresent(UInt8.self, forKey: "size") == 7)
            #expect(try values.decodeNil(forKey: "none") && !values.decodeNil(forKey: "name"))
            #expect(try values.decode(Int.self, forKey: "é") == 8)
            #expect(try values.decodeIfPresent(String.self, forKey: "gone") == nil)
            #expect(!values.contains("gone") && !values.contains("") && values.contains("none"))
        }
        let nested = try values.nestedContainer(keyedBy: Name.self, forKey: "unknown")
        #expect(try nested.decode(String.self, forKey: "name") == "inner")
        #expect(nested.codingPath.map(\.stringValue) == ["unknown"])
        var list = try values.nestedUnkeyedContainer(forKey: "list")
        #expect(list.count == 2)
        #expect(try list.decode(Int.self) == 1)
        #expect(try list.decodeNil() && list.isAtEnd && list.currentIndex == 2)
        #expect(throws: KithError(.invalid, "")) { try list.decode(Int.self) }
        #expect(try values.superDecoder(forKey: "name").singleValueContainer().decode(String.self) == "n")
        #expect(try values.superDecoder().singleValueContainer().decodeNil())
    }

    @Test func `an error names the place, however deep`() throws {
        let encoded = try CBOREncoder().encode(["a": [["b": ["c": "text"]], ["b": ["c": "more"]]]])
        do {
            _ = try CBORDecoder().decode([String: [[String: [String: Int]]]].self, from: encoded)
            Issue.record("no error")
        } catch let error as KithError {
            #expect(error.message.contains("`a.b.c` must be a number"), "\(error)")
        }
        struct Inner: Decodable { var gone: Int }
        do {
            _ = try CBORDecoder().decode([String: [[String: Inner]]].self, from: encoded)
            Issue.record("no error")
        } catch let error as KithError {
            #expect(error.message == "`a.b.gone` is missing.", "\(error)")
        }
    }

    @Test func `a map with a hundred thousand keys is read by what is asked for`() throws {
        // Each of the members of the type is looked for among them all, and each of them by a dictionary.
        let many = Dictionary(uniqueKeysWithValues: (0..<100_000).map { ("key\($0)", $0) })
        let encoded = try CBOREncoder().encode(many)
        #expect(try CBORDecoder().decode([String: Int].self, from: encoded) == many)
        let reading = try CBORDecoder().decode(Reading.self, from: encoded)
        let values = try reading.decoder.container(keyedBy: Name.self)
        for number in stride(from: 0, to: 200_000, by: 70) {
            let value = try values.decodeIfPresent(Int.self, forKey: Name("key\(number)"))
            if value != (number < 100_000 ? number : nil) { Issue.record("key\(number): \(String(describing: value))") }
        }
    }

    @Test func `one text in two spellings is refused in every map, ASCII or not`() throws {
        // K and the Kelvin sign are one letter to Swift; so are é and e with an accent.
        for keys in [["614b", "63e284aa"], ["62c3a9", "6365cc81"]] {
            let map = "a2" + keys.map { $0 + "01" }.joined()
            #expect(throws: KithError(.invalid, "")) {
                _ = try CBORDecoder().decode(Reading.self, from: bytes("a16161" + map))
            }
        }
    }

    /// A key of any name.
    private struct Name: CodingKey, ExpressibleByStringLiteral {
        var stringValue: String
        var intValue: Int? { nil }

        init(_ name: String) { stringValue = name }
        init(stringLiteral name: String) { stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    /// Encodes as it is told to.
    private struct Custom: Encodable {
        var write: (any Encoder) throws -> Void

        init(_ write: @escaping (any Encoder) throws -> Void) { self.write = write }
        func encode(to encoder: any Encoder) throws { try write(encoder) }
    }

    /// Keeps the decoder.
    private struct Reading: Decodable {
        var decoder: any Decoder

        init(from decoder: any Decoder) { self.decoder = decoder }
    }

    // MARK: - Helpers

    private func bytes(_ hex: String) throws -> [UInt8] { try #require(Hex.decode(hex)) }

    private func check<Value: Codable & Equatable>(_ value: Value, _ hex: String) throws {
        #expect(try Hex.encode(CBOREncoder().encode(value)) == hex)
        #expect(try CBORDecoder().decode(Value.self, from: bytes(hex)) == value)
    }
}

extension Encoder {
    /// Encodes a value here.
    fileprivate func encode(_ value: some Encodable) throws {
        var container = singleValueContainer()
        try container.encode(value)
    }
}

/// Any CBOR value that Swift's coding can name.
enum Tree: Codable, Hashable {
    case null
    case bool(Bool)
    case number(Int)
    case unsigned(UInt64)
    case float(Double)
    case text(String)
    case bytes(ByteString)
    case array([Tree])
    case map([String: Tree])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int.self) {
            self = .number(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .unsigned(value)
        } else if let value = try? container.decode(Double.self) {
            self = .float(value)
        } else if let value = try? container.decode(String.self) {
            self = .text(value)
        } else if let value = try? container.decode([Tree].self) {
            self = .array(value)
        } else if let value = try? container.decode([String: Tree].self) {
            self = .map(value)
        } else {
            self = .bytes(try container.decode(ByteString.self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .unsigned(let value): try container.encode(value)
        case .float(let value): try container.encode(value)
        case .text(let value): try container.encode(value)
        case .bytes(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .map(let value): try container.encode(value)
        }
    }

    static func random(depth: Int, using random: inout SeededRandom) -> Tree {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 7), using: &random) {
        case 0: .null
        case 1: .bool(Bool.random(using: &random))
        case 2: .number(Int(truncatingIfNeeded: random.next()) >> Int.random(in: 0..<64, using: &random))
        case 3: .unsigned(random.next() | 1 << 63)
        case 4:
            // Only those that no integer is equal to, so that a tree comes back as itself.
            .float(
                [1.5, .infinity, -0.25, 1.1, 3.4e38, 1e300, 6e-8, Double(Float(0.1)), -4.1].randomElement(
                    using: &random) ?? 0.5)
        case 5: .text(String(["a", "é", "水", "\u{10151}", "\0", "-"].shuffled(using: &random).joined().prefix(4)))
        case 6: .bytes(ByteString(random.bytes(Int.random(in: 0..<30, using: &random))))
        case 7:
            .array(
                (0..<Int.random(in: 0..<5, using: &random)).map { _ in Tree.random(depth: depth - 1, using: &random) })
        default:
            .map(
                Dictionary(
                    (0..<Int.random(in: 0..<30, using: &random)).map { _ in
                        ("k\(Int.random(in: 0..<2_000, using: &random))", Tree.random(depth: depth - 1, using: &random))
                    }, uniquingKeysWith: { first, _ in first }))
        }
    }
}
