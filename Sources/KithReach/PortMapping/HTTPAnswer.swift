package import KithWire

/// The answer of a router to one request of HTTP, as UPnP uses it; or, over UDP, to a search (SSDP).
package struct HTTPAnswer: Hashable, Sendable {
    /// The most bytes of an answer, head and body.
    package static let maxLength = 80 << 10

    /// The status: 200 for success.
    package var status: UInt16 { head.status }
    /// The body, without what HTTP put around it.
    package private(set) var body: [UInt8] = []
    private let head: HTTPAnswerHead

    /// Reads an answer that is complete; one without a length ends where the bytes end, when that `isAll`.
    ///
    /// - Throws: `WireError.truncated` when more must come; other errors for what will not become one.
    package init(_ bytes: [UInt8], isAll: Bool) throws(WireError) {
        guard bytes.count <= Self.maxLength else { throw .tooLong(limit: Self.maxLength, actual: bytes.count) }
        head = try HTTPAnswerHead(bytes)
        let rest = bytes[head.length...]
        if head["transfer-encoding"]?.lowercased().contains("chunked") == true {
            body = try Self.chunks(rest)
        } else if let text = head["content-length"] {
            guard let length = Int(text), (0...Self.maxLength).contains(length) else {
                throw .invalid("a length is a number of bytes")
            }
            guard rest.count >= length else { throw .truncated(needed: length, left: rest.count) }
            body = Array(rest.prefix(length))
        } else if isAll {
            body = Array(rest)
        } else {
            throw .truncated(needed: 1, left: 0)
        }
    }

    /// The value of a field, whatever the case of its name.
    package subscript(_ field: String) -> String? { head[field] }

    private static func chunks(_ bytes: ArraySlice<UInt8>) throws(WireError) -> [UInt8] {
        var (rest, body) = (bytes, [UInt8]())
        while true {
            guard let line = HTTPAnswerHead.line(&rest) else { throw .truncated(needed: 1, left: 0) }
            let digits = line.prefix { $0.isHexDigit }
            guard (1...8).contains(digits.utf8.count), let length = Int(digits, radix: 16), length <= maxLength else {
                throw .invalid("a chunk begins with its length")
            }
            guard length > 0 else { return body }
            guard rest.count >= length + 1 else { throw .truncated(needed: length + 1, left: rest.count) }
            body += rest.prefix(length)
            rest = rest.dropFirst(length)
            guard HTTPAnswerHead.line(&rest) == "" else { throw .invalid("a chunk ends with its line") }
        }
    }
}
