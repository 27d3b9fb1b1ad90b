/// A value of JSON (RFC 8259), read strictly: one value, UTF-8, 32 levels.
enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// A defect of the text, worded to go on after "line 3".
    struct Failure: Error {
        let reason: String
    }

    /// Reads a value that is all of `bytes`.
    init(parsing bytes: [UInt8]) throws(Failure) {
        var reader = Reader(bytes: bytes)
        self = try reader.value(depth: 0)
        reader.skipSpace()
        guard reader.position == bytes.count else { throw Failure(reason: "has more than one JSON value") }
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        init(bytes: [UInt8]) { self.bytes = bytes }

        private var next: UInt8? { position < bytes.count ? bytes[position] : nil }
        private var broken: Failure { Failure(reason: "is no JSON (at byte \(position))") }

        mutating func skipSpace() {
            while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { position += 1 }
        }

        private mutating func expect(_ text: StaticString) throws(Failure) {
            for byte in text.description.utf8 {
                guard next == byte else { throw broken }
                position += 1
            }
        }

        mutating func value(depth: Int) throws(Failure) -> JSONValue {
            guard depth < 32 else { throw Failure(reason: "is nested too deep") }
            skipSpace()
            switch next {
            case UInt8(ascii: "{"): return try object(depth: depth)
            case UInt8(ascii: "["): return try array(depth: depth)
            case UInt8(ascii: "\""): return .string(try string())
            case UInt8(ascii: "t"):
                try expect("true")
                return .bool(true)
            case UInt8(ascii: "f"):
                try expect("false")
                return .bool(false)
            case UInt8(ascii: "n"):
                try expect("null")
                return .null
            default: return .number(try number())
            }
        }

        private mutating func object(depth: Int) throws(Failure) -> JSONValue {
            var fields: [String: JSONValue] = [:]
            position += 1
            skipSpace()
            if next == UInt8(ascii: "}") {
                position += 1
                return .object(fields)
            }
            while true {
                skipSpace()
                guard next == UInt8(ascii: "\"") else { throw broken }
                let name = try string()
                skipSpace()
                try expect(":")
                fields[name] = try value(depth: depth + 1)
                skipSpace()
                if next == UInt8(ascii: ",") {
                    position += 1
                    continue
                }
                try expect("}")
                return .object(fields)
            }
        }

        private mutating func array(depth: Int) throws(Failure) -> JSONValue {
            var values: [JSONValue] = []
            position += 1
            skipSpace()
            if next == UInt8(ascii: "]") {
                position += 1
                return .array(values)
            }
            while true {
                values.append(try value(depth: depth + 1))
                skipSpace()
                if next == UInt8(ascii: ",") {
                    position += 1
                    continue
                }
                try expect("]")
                return .array(values)
            }
        }

        private mutating func digits() throws(Failure) {
            let start = position
            while let byte = next, (0x30...0x39).contains(byte) { position += 1 }
            guard position > start else { throw broken }
        }

        private mutating func number() throws(Failure) -> Double {
            let start = position
            if next == UInt8(ascii: "-") { position += 1 }
            if next == UInt8(ascii: "0") { position += 1 } else { try digits() }
            if next == UInt8(ascii: ".") {
                position += 1
                try digits()
            }
            if next == UInt8(ascii: "e") || next == UInt8(ascii: "E") {
                position += 1
                if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { position += 1 }
                try digits()
            }
            guard position - start <= 64, let number = Double(String(decoding: bytes[start..<position], as: UTF8.self)),
                number.isFinite
            else { throw Failure(reason: "has a number beyond all bounds") }
            return number
        }

        private mutating func string() throws(Failure) -> String {
            position += 1
            var text: [UInt8] = []
            while let byte = next {
                position += 1
                switch byte {
                case UInt8(ascii: "\""):
                    guard let string = String(validating: text, as: UTF8.self) else {
                        throw Failure(reason: "is not UTF-8")
                    }
                    return string
                case UInt8(ascii: "\\"): text += Array(String(try escaped()).utf8)
                case 0x00..<0x20: throw broken
                default: text.append(byte)
                }
            }
            throw broken
        }

        private mutating func escaped() throws(Failure) -> Character {
            guard let byte = next else { throw broken }
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return "\""
            case UInt8(ascii: "\\"): return "\\"
            case UInt8(ascii: "/"): return "/"
            case UInt8(ascii: "b"): return "\u{8}"
            case UInt8(ascii: "f"): return "\u{C}"
            case UInt8(ascii: "n"): return "\n"
            case UInt8(ascii: "r"): return "\r"
            case UInt8(ascii: "t"): return "\t"
            case UInt8(ascii: "u"): break
            default: throw broken
            }
            let first = try unit()
            guard (0xD800..<0xE000).contains(first) else { return Character(Unicode.Scalar(first) ?? "\u{FFFD}") }
            // A pair of surrogates is one character; one alone is none.
            let start = position
            if first < 0xDC00, next == UInt8(ascii: "\\") {
                position += 1
                if next == UInt8(ascii: "u") {
                    position += 1
                    let second = try unit()
                    if (0xDC00..<0xE000).contains(second) {
                        let value = 0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)
                        return Character(Unicode.Scalar(value) ?? "\u{FFFD}")
                    }
                }
                position = start
            }
            return "\u{FFFD}"
        }

        private mutating func unit() throws(Failure) -> UInt32 {
            guard position + 4 <= bytes.count,
                bytes[position..<position + 4].allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }),
                let unit = UInt32(String(decoding: bytes[position..<position + 4], as: UTF8.self), radix: 16)
            else { throw broken }
            position += 4
            return unit
        }
    }
}
