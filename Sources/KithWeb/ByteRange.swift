/// The part of a file that a request asks for (RFC 9110 §14).
enum ByteRange: Hashable, Sendable {
    /// All of it.
    case whole
    /// These bytes.
    case part(Range<UInt64>)
    /// A part that the file does not have.
    case unsatisfiable

    /// Reads the values of `Range` fields for a file of `size` bytes.
    ///
    /// Of several ranges, and of what cannot be read, all is sent, as the RFC allows.
    init(_ fields: [String], size: UInt64) {
        self = .whole
        guard fields.count == 1, let field = fields.first, field.utf8.count <= 64 else { return }
        let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].lowercased() == "bytes" else { return }
        let ends = parts[1].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return }
        let (first, last) = (Self.number(ends[0]), Self.number(ends[1]))
        switch (ends[0].isEmpty, ends[1].isEmpty) {
        case (true, true): return
        case (true, false):
            guard let last else { return }
            self = last == 0 || size == 0 ? .unsatisfiable : .part(size - min(last, size)..<size)
        case (false, _):
            guard let first, ends[1].isEmpty || last != nil, last.map({ $0 >= first }) ?? true else { return }
            guard first < size else {
                self = .unsatisfiable
                return
            }
            self = .part(first..<min(last ?? .max, size - 1) + 1)
        }
    }

    /// A number in digits alone; what does not fit is the greatest there is.
    private static func number(_ text: Substring) -> UInt64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt64(text) ?? .max
    }
}
