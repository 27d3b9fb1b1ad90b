public import KithWire

/// Splits received bytes into lines: one JSON-RPC packet each, without the line feed.
///
/// Feed it what comes in, take the lines out. Empty lines are skipped.
public struct LineFramer: Sendable {
    /// The longest line allowed by default, in bytes: 4 MiB.
    public static let defaultLimit = 4 << 20

    /// The longest line, in bytes; what has been taken in is measured by it with the next line.
    package var limit: Int
    private var buffer: [UInt8] = []
    /// The offset of the bytes not handed out, and the one up to which there is no line feed.
    private var start = 0
    private var searched = 0

    /// Makes a framer for lines of at most `limit` bytes.
    public init(limit: Int = LineFramer.defaultLimit) { self.limit = limit }

    /// Takes bytes in.
    public mutating func append(_ bytes: [UInt8]) {
        if start == buffer.count {
            buffer = bytes
            start = 0
            searched = 0
        } else {
            if start > 0 {
                buffer.removeFirst(start)
                searched -= start
                start = 0
            }
            buffer += bytes
        }
    }

    /// The next whole line; `nil` until more bytes come.
    ///
    /// - Throws: `KithError` `.exhausted` when a line is longer than the limit. The rest cannot be read then.
    public mutating func next() throws(KithError) -> [UInt8]? {
        while let end = buffer[searched...].firstIndex(of: 0x0A) {
            var line = buffer[start..<end]
            start = end + 1
            searched = start
            guard line.count <= limit else { throw tooLong }
            if line.last == 0x0D { line = line.dropLast() }
            if !line.isEmpty { return Array(line) }
        }
        searched = buffer.count
        guard buffer.count - start <= limit else { throw tooLong }
        return nil
    }

    /// Takes the bytes after the last line taken: whatever follows the JSON.
    public mutating func takeRest() -> [UInt8] {
        defer {
            buffer = []
            start = 0
            searched = 0
        }
        return Array(buffer[start...])
    }

    private var tooLong: KithError { KithError(.exhausted, "A line is longer than \(limit) bytes.") }
}
