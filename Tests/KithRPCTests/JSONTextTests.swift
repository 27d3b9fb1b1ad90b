import KithRPC
import KithWire
import Testing

private func json(_ text: String) throws -> JSONText { try JSONText(Array(text.utf8)) }

@Suite struct `JSON text` {
    @Test(arguments: [
        "", " ", "nul", "truee", "01", "1.", ".5", "-", "+1", "1e", "\"", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"",
        "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\u{1}\"", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}",
        "{\"a\":1,}", "[", "{", "1 1", "'a'", "NaN", "Infinity", "\u{FEFF}1", "// x\n1",
    ])
    func `what the grammar refuses is refused`(text: String) {
        #expect(throws: KithError(.invalid, "")) { try json(text) }
    }

    @Test func `bytes that are not UTF-8 are refused`() {
        #expect(throws: KithError(.invalid, "")) { try JSONText([0x22, 0xFF, 0x22]) }
        #expect(throws: KithError(.invalid, "")) { try JSONText([0x22, 0xED, 0xA0, 0x80, 0x22]) }
    }

    @Test func `what it allows is read`() throws {
        let text = #" {"a": [1, -0.5e+3, true, false, null, {}], "\u0062": "\ud83d\ude00\n\"\\\/é"} "#
        #expect(
            try json(text).value()
                == .object([
                    "a": .array([
                        1, .number(-500), true, false, .null, .object([:]),
                    ]),
                    "b": .string("\u{1F600}\n\"\\/é"),
                ]))
    }

    @Test func `a number beyond all bounds is refused`() throws {
        #expect(throws: KithError(.invalid, "")) { try json("[1e999]").value() }
        #expect(try json("9223372036854775807").value() == .integer(.max))
        #expect(try json("9223372036854775808").value() == .number(0x1p63))
    }

    @Test func `a value is the same in CBOR as in JSON`() throws {
        let value = try json(#"{"a": [1, -0.5, true, null, {}], "b": "x"}"#).value()
        #expect(try CBORDecoder().decode(JSONValue.self, from: CBOREncoder().encode(value)) == value)
        #expect(try JSONText(encoding: value).value() == value)
        let bytes = try CBOREncoder().encode(["key": ByteString([0, 255])])
        #expect(try CBORDecoder().decode(JSONValue.self, from: bytes) == ["key": "AP8="])
    }

    @Test func `nesting is bounded`() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        _ = try json(nested(64))
        #expect(throws: KithError(.invalid, "")) { try json(nested(65)) }
        #expect(throws: KithError(.invalid, "")) { try json(nested(1_000_000)) }
    }

    @Test func `line feeds between tokens do not break the framing`() throws {
        #expect(try !json("[1,\r\n2]").bytes.contains(0x0A))
    }

    @Test func `random bytes never trap`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SplitMix(state: seed)
        let alphabet = Array("{}[]:,\"\\truefalsn0123456789.eE+-u dD\n".utf8) + [0xC3, 0xA9, 0xFF, 0x00]
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0..<40, using: &random)).map { _ in
                alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
            }
            if let text = try? JSONText(bytes) { _ = try? text.value() }  // most are refused, which is the point
            _ = RPCPacket(parsing: bytes)
        }
    }
}

@Suite struct `Lines` {
    @Test func `lines come out whole however they come in`() throws {
        let text = Array("one\n\r\ntwo\r\n\nthree\nrest".utf8)
        for size in 1...text.count {
            var framer = LineFramer()
            var lines: [String] = []
            for start in stride(from: 0, to: text.count, by: size) {
                framer.append(Array(text[start..<min(start + size, text.count)]))
                while let line = try framer.next() { lines.append(String(decoding: line, as: UTF8.self)) }
            }
            #expect(lines == ["one", "two", "three"])
            #expect(framer.takeRest() == Array("rest".utf8))
        }
    }

    @Test func `a line beyond the limit is refused before it is whole`() throws {
        var framer = LineFramer(limit: 10)
        framer.append(Array("0123456789\n".utf8))
        #expect(try framer.next()?.count == 10)
        framer.append(Array("0123456789a".utf8))
        #expect(throws: KithError(.exhausted, "")) { try framer.next() }
    }
}

/// SplitMix64, so that a failure can be repeated from its printed seed.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
