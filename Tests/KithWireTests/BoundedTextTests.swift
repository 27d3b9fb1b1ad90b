import Testing

@testable import KithWire

/// Texts whose comparison would take long, or that would be kept whole.
@Suite(.timeLimit(.minutes(4))) struct BoundedTextTests {
    private func marks(_ count: Int) -> String {
        var text = String.UnicodeScalarView()
        text.append("a")
        // In the wrong order, so that they have to be sorted.
        for index in 0..<count { text.append(index.isMultiple(of: 2) ? "\u{301}" : "\u{316}") }
        return String(text)
    }

    @Test func `a letter with more marks than any writing has is refused, as a key and as a value`() throws {
        let decoder = CBORDecoder()
        func encoded(_ text: String) throws -> [UInt8] { try CBOREncoder().encode(text) }
        #expect(try decoder.decode(String.self, from: try encoded(marks(256))) == marks(256))
        let words = Array(repeating: marks(200), count: 10).joined(separator: " ")
        #expect(try decoder.decode(String.self, from: try encoded(words)) == words)
        for text in [
            marks(257), "x" + String(repeating: "\u{F73}", count: 257), String(repeating: "\u{301}", count: 400_000),
        ] {
            #expect(throws: KithError(.invalid, "")) { try decoder.decode(String.self, from: try encoded(text)) }
            // A key is compared with all others as soon as it is not ASCII.
            let map = [0xA2, 0x61, 0x62, 0x01] + (try encoded(text)) + [0x02]
            #expect(throws: KithError(.invalid, "")) { try decoder.decode([String: Int].self, from: map) }
        }
    }

    @Test func `the table of a message takes twelve bytes for a value, and a value takes one at least`() throws {
        #expect(MemoryLayout<CBORTable.Child>.stride == 12)
        // No count is believed before the values are there, however deep.
        for head in [[0x9A, 0xFF, 0xFF, 0xFF, 0xFF], [0xBB, 0x7F] + [UInt8](repeating: 0xFF, count: 7)] as [[UInt8]] {
            let bytes = [UInt8](repeating: 0x81, count: 20) + head
            #expect(throws: WireError.self) { try CBORTable(bytes, maxDepth: 32) }
        }
        #expect(throws: WireError.self) {
            try CBORTable([UInt8](repeating: 0x81, count: 1 << 20), maxDepth: 32)
        }
    }

    @Test func `the beginning of a text has no more bytes than it may, whatever its letters are`() {
        #expect("abc".prefix(bytes: 3) == "abc" && "abc".prefix(bytes: 2) == "ab" && "abc".prefix(bytes: 0) == "")
        #expect("aä€🍎".prefix(bytes: 9) == "aä€" && "aä€🍎".prefix(bytes: 10) == "aä€🍎")
        #expect("aä€".prefix(bytes: 5) == "aä" && "ä".prefix(bytes: 1) == "")
        #expect(marks(1_000).prefix(bytes: 500).utf8.count == 499)
    }
}
