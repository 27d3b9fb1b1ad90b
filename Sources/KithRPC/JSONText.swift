import KithWire

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// One JSON value as text: valid JSON, in UTF-8, without a line feed.
///
/// Parameters and results stay text until code that knows their type decodes them: nothing is rounded,
/// reordered or built on the way.
public struct JSONText: Hashable, Sendable {
    /// The text.
    public let bytes: [UInt8]

    /// Checks that `bytes` are one JSON value.
    ///
    /// - Throws: `KithError` `.invalid`.
    public init(_ bytes: [UInt8]) throws {
        guard Self.isUTF8(bytes) else { throw KithError(.invalid, "The JSON text is not UTF-8.") }
        var scanner = JSONScanner(bytes)
        do {
            _ = try scanner.value()
            try scanner.finish()
        } catch {
            throw KithError(.invalid, "Not JSON: expected \(error.expected) at byte \(error.offset).", cause: error)
        }
        // White space between tokens may hold line feeds; inside strings they cannot stand.
        self.bytes = bytes.contains(0x0A) ? bytes.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 } : bytes
    }

    /// Takes text that a scanner has accepted already.
    package init(scanned bytes: [UInt8]) { self.bytes = bytes }

    /// The JSON text of a value, members in the order of their names.
    public init(encoding value: some Encodable) throws { bytes = try Self.encode(value) }

    /// The value the text stands for.
    public func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try Self.decode(type, from: bytes) }

    /// Writes a value as JSON in one line.
    package static func encode(_ value: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return [UInt8](try encoder.encode(value))
    }

    /// Reads a value from JSON.
    package static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(bytes))
    }

    package static func isUTF8(_ bytes: [UInt8]) -> Bool {
        bytes.allSatisfy { $0 < 0x80 } || String(validating: bytes, as: UTF8.self) != nil
    }

    /// Writes a string with its quotes.
    package static func quoted(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = [UInt8(ascii: "\"")]
        bytes.reserveCapacity(text.utf8.count + 2)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0x0A: bytes += Array("\\n".utf8)
            case 0x0D: bytes += Array("\\r".utf8)
            case 0x09: bytes += Array("\\t".utf8)
            case 0..<0x20, 0x7F: bytes += Array("\\u00\(Hex.encode(CollectionOfOne(byte)))".utf8)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
        return bytes
    }

    /// The members of the object; `nil` when it is not one, or repeats a name.
    package func members() -> [(name: String, value: JSONText)]? {
        var scanner = JSONScanner(bytes)
        guard let members = try? scanner.members() else { return nil }  // another kind of value is an answer, no fault
        return members.map { ($0.name, JSONText(scanned: Array(bytes[$0.value]))) }
    }

    /// An object of `members`, in their order.
    package init(members: some Sequence<(name: String, value: JSONText)>) {
        var text: [UInt8] = [UInt8(ascii: "{")]
        for (name, value) in members {
            if text.count > 1 { text.append(UInt8(ascii: ",")) }
            text += Self.quoted(name)
            text.append(UInt8(ascii: ":"))
            text += value.bytes
        }
        text.append(UInt8(ascii: "}"))
        bytes = text
    }

    /// The string this is, or `nil`.
    package var string: String? {
        bytes.first == UInt8(ascii: "\"") ? JSONScanner.unescaped(bytes[...]) : nil
    }

    /// The truth value this is, or `nil`.
    package var boolean: Bool? {
        switch bytes {
        case Array("true".utf8): true
        case Array("false".utf8): false
        default: nil
        }
    }

    /// The whole number this is, or `nil`.
    package var integer: Int64? { Int64(String(decoding: bytes, as: UTF8.self)) }
}

extension JSONText: CustomStringConvertible {
    /// The text itself.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
