package import KithWire

/// The head of an answer of HTTP: its status line, and its fields.
package struct HTTPAnswerHead: Hashable, Sendable {
    /// The most lines of fields.
    static let maxLines = 128

    private struct Field: Hashable {
        var name: String
        var value: String
    }

    /// The status: 200 for success.
    package let status: UInt16
    /// The number of its bytes, with the empty line at its end.
    package let length: Int
    private let fields: [Field]

    /// Reads the head that `bytes` begin with.
    ///
    /// - Throws: `WireError.truncated` when more must come; other errors for what will not become one.
    package init(_ bytes: [UInt8]) throws(WireError) {
        var rest = bytes[...]
        guard let line = Self.line(&rest) else {
            // What will never be an answer need not be waited for.
            guard "HTTP/1.".utf8.starts(with: rest.prefix(7)) else { throw Self.noAnswer }
            throw .truncated(needed: 1, left: 0)
        }
        let words = line.split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), words[1].utf8.count == 3,
            let status = UInt16(words[1])
        else { throw Self.noAnswer }
        self.status = status
        var fields: [Field] = []
        var lines = 0
        while true {
            guard let line = Self.line(&rest) else { throw .truncated(needed: 1, left: 0) }
            if line.isEmpty { break }
            lines += 1
            guard lines <= Self.maxLines else { throw .tooLong(limit: Self.maxLines, actual: lines) }
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            fields.append(Field(name: line[..<colon].lowercased(), value: String(value)))
        }
        self.fields = fields
        length = rest.startIndex
    }

    private static let noAnswer = WireError.invalid("an answer begins with HTTP/1.x and a status")

    /// The value of a field, whatever the case of its name; the last one of several.
    package subscript(_ field: String) -> String? { values(of: field).last }

    /// The values of all fields of a name, whatever its case.
    package func values(of field: String) -> [String] {
        let name = field.lowercased()
        return fields.filter { $0.name == name }.map(\.value)
    }

    /// Takes a line off, without its end; `nil` when it has none.
    static func line(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard let end = rest.firstIndex(of: 10) else { return nil }
        var line = rest[..<end]
        rest = rest[(end + 1)...]
        if line.last == 13 { line = line.dropLast() }
        return String(decoding: line, as: UTF8.self)
    }
}
