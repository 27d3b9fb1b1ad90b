import Foundation
public import KithWire

/// The label of a key: a word that a person chose, such as `work`.
///
/// 1 to 64 bytes of UTF-8 in normalization form C, without control characters and without `:`, which separates a label
/// from what follows it where keys are derived.
public struct KeyLabel: Hashable, Sendable {
    /// The text.
    public let text: String

    /// Checks a label, and brings it into normalization form C, so that one word makes one key however it was typed.
    ///
    /// - Throws: `KithError` `.invalid` for what is no label.
    public init(_ text: String) throws(KithError) {
        let normal = text.precomposedStringWithCanonicalMapping
        guard (1...64).contains(normal.utf8.count) else {
            throw KithError(.invalid, "A key's label has 1 to 64 bytes, not \(normal.utf8.count).")
        }
        let isPlain = normal.unicodeScalars.allSatisfy { $0 != ":" && $0.properties.generalCategory != .control }
        guard isPlain else {
            throw KithError(.invalid, "A key's label has neither colons nor control characters.")
        }
        self.text = normal
    }
}

extension KeyLabel: CustomStringConvertible {
    /// The text.
    public var description: String { text }
}

extension KeyLabel: Comparable {
    /// Orders by the bytes of the text.
    public static func < (left: KeyLabel, right: KeyLabel) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }
}

extension KeyLabel: Codable {
    /// Reads the text.
    public init(from decoder: any Decoder) throws { try self.init(decoder.singleValueContainer().decode(String.self)) }

    /// Writes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
