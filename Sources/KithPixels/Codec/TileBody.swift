/// The body of a message, read piece by piece: plain, or out of the compressed stream.
struct TileBody: ~Escapable {
    private let input: Span<UInt8>
    private var position = 0
    /// A few expanded bytes that the next reads take first.
    private var buffer: [UInt8] = []
    private var bufferPosition = 0
    private var bufferEnd = 0

    @_lifetime(copy input)
    init(input: Span<UInt8>) { self.input = input }

    /// The next byte.
    @_lifetime(self: copy self)
    mutating func byte(_ expander: inout StreamExpander?) throws(TileError) -> UInt8 {
        if bufferPosition == bufferEnd { try refill(&expander) }
        let byte = buffer[bufferPosition]
        bufferPosition += 1
        return byte
    }

    /// The next 16 bits.
    @_lifetime(self: copy self)
    mutating func number(_ expander: inout StreamExpander?) throws(TileError) -> Int {
        Int(try byte(&expander)) << 8 | Int(try byte(&expander))
    }

    /// The next colour, opaque.
    @_lifetime(self: copy self)
    mutating func colour(_ expander: inout StreamExpander?) throws(TileError) -> UInt32 {
        let (blue, green, red) = (try byte(&expander), try byte(&expander), try byte(&expander))
        return PixelBuffer.opaque | UInt32(red) << 16 | UInt32(green) << 8 | UInt32(blue)
    }

    /// The next variable-length integer (RFC 9000 §16).
    @_lifetime(self: copy self)
    mutating func varint(_ expander: inout StreamExpander?) throws(TileError) -> UInt64 {
        let first = try byte(&expander)
        var value = UInt64(first & 0x3F)
        for _ in 1..<1 << Int(first >> 6) { value = value << 8 | UInt64(try byte(&expander)) }
        return value
    }

    /// Reads `count` bytes into `target`; false when there are not so many.
    @_lifetime(self: copy self)
    mutating func read(
        _ count: Int, _ expander: inout StreamExpander?, into target: UnsafeMutableRawBufferPointer
    ) -> Bool {
        let ready = min(count, bufferEnd - bufferPosition)
        for index in 0..<ready { unsafe target[index] = buffer[bufferPosition + index] }
        bufferPosition += ready
        let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: target[ready..<count])
        return unsafe fill(rest, &expander) == rest.count
    }

    /// Checks that nothing is left.
    @_lifetime(self: copy self)
    mutating func finish(_ expander: inout StreamExpander?) throws(TileError) {
        if bufferPosition == bufferEnd { try refill(&expander, isEndExpected: true) }
        guard bufferPosition == bufferEnd, position == input.count else {
            throw .malformed("bytes behind the end")
        }
    }

    @_lifetime(self: copy self)
    private mutating func refill(_ expander: inout StreamExpander?, isEndExpected: Bool = false) throws(TileError) {
        if buffer.isEmpty { buffer = Array(repeating: 0, count: 1024) }
        var bytes: [UInt8] = []
        swap(&bytes, &buffer)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe fill($0, &expander) }
        swap(&bytes, &buffer)
        guard let count else { throw .malformed("a damaged stream") }
        (bufferPosition, bufferEnd) = (0, count)
        if count == 0, !isEndExpected { throw .truncated }
    }

    /// Fills `target` as far as there are bytes; `nil` when the stream is damaged.
    @_lifetime(self: copy self)
    private mutating func fill(_ target: UnsafeMutableRawBufferPointer, _ expander: inout StreamExpander?) -> Int? {
        if expander != nil { return unsafe expander?.expand(input, from: &position, into: target) }
        let count = min(target.count, input.count - position)
        for index in 0..<count { unsafe target[index] = input[position + index] }
        position += count
        return count
    }
}
