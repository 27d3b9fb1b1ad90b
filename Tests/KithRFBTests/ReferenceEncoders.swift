import KithRFB

/// What a server of another make sends: an update of one rectangle in encodings that our server does not write.
enum ReferenceEncoders {
    /// The handshake of a server without a password, with a picture of that size.
    static func handshake(width: Int, height: Int, name: String = "Other") -> [UInt8] {
        var bytes = Array("RFB 003.008\n".utf8) + [1, 1, 0, 0, 0, 0]
        bytes += u16(width) + u16(height) + [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]
        return bytes + u32(name.utf8.count) + Array(name.utf8)
    }

    static func u16(_ value: Int) -> [UInt8] { [UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)] }
    static func u32(_ value: Int) -> [UInt8] { u16(value >> 16 & 0xFFFF) + u16(value & 0xFFFF) }

    static func rectangle(_ rectangle: RFBRectangle, _ encoding: Int32, _ body: [UInt8]) -> [UInt8] {
        u16(rectangle.x) + u16(rectangle.y) + u16(rectangle.width) + u16(rectangle.height)
            + u32(Int(UInt32(bitPattern: encoding))) + body
    }

    static func update(_ rectangles: [[UInt8]]) -> [UInt8] {
        [0, 0] + u16(rectangles.count) + rectangles.flatMap { $0 }
    }

    /// A pixel of 32 bits, blue first.
    static func pixel(_ color: UInt32) -> [UInt8] {
        [UInt8(color & 0xFF), UInt8(color >> 8 & 0xFF), UInt8(color >> 16 & 0xFF), 0]
    }

    /// Runs along rows, on the first pixel's colour (RFC 6143 §7.7.3).
    static func rre(_ frame: RFBFrameBuffer) -> [UInt8] {
        let background = frame[0, 0]
        var parts: [[UInt8]] = []
        for y in 0..<frame.height {
            for run in runs(frame, row: y, from: 0, to: frame.width) where run.color != background {
                parts.append(pixel(run.color) + u16(run.x) + u16(y) + u16(run.length) + u16(1))
            }
        }
        return u32(parts.count) + pixel(background) + parts.flatMap { $0 }
    }

    private static func runs(
        _ frame: RFBFrameBuffer, row y: Int, from start: Int, to end: Int
    ) -> [(x: Int, length: Int, color: UInt32)] {
        var result: [(x: Int, length: Int, color: UInt32)] = []
        for x in start..<end {
            if let last = result.last, last.color == frame[x, y] {
                result[result.count - 1].length += 1
            } else {
                result.append((x, 1, frame[x, y]))
            }
        }
        return result
    }

    /// Each of the ways in which a tile may come, by what fits (RFC 6143 §7.7.4).
    static func hextile(_ frame: RFBFrameBuffer) -> [UInt8] {
        var bytes: [UInt8] = []
        var (lastBackground, lastForeground): (UInt32?, UInt32?) = (nil, nil)
        for y in stride(from: 0, to: frame.height, by: 16) {
            for x in stride(from: 0, to: frame.width, by: 16) {
                let (width, height) = (min(16, frame.width - x), min(16, frame.height - y))
                let background = frame[x, y]
                var parts: [(color: UInt32, bytes: [UInt8])] = []
                for row in 0..<height {
                    for run in runs(frame, row: y + row, from: x, to: x + width) where run.color != background {
                        parts.append((run.color, [UInt8((run.x - x) << 4 | row), UInt8((run.length - 1) << 4)]))
                    }
                }
                if parts.count > 100 {
                    bytes.append(1)
                    for row in 0..<height { for column in 0..<width { bytes += pixel(frame[x + column, y + row]) } }
                    (lastBackground, lastForeground) = (nil, nil)
                    continue
                }
                let isColored = Set(parts.map(\.color)).count > 1
                var mask: UInt8 = 0
                var head: [UInt8] = []
                if background != lastBackground {
                    mask |= 2
                    head += pixel(background)
                }
                if let color = parts.first?.color, !isColored, color != lastForeground {
                    mask |= 4
                    head += pixel(color)
                    lastForeground = color
                }
                if !parts.isEmpty { mask |= 8 }
                if isColored { mask |= 16 }
                bytes += [mask] + head
                if !parts.isEmpty { bytes.append(UInt8(parts.count)) }
                for part in parts { bytes += (isColored ? pixel(part.color) : []) + part.bytes }
                lastBackground = background
                if isColored { lastForeground = nil }
            }
        }
        return bytes
    }

    /// The differences from what a pixel's neighbours predict, in zlib's stored blocks (rfbproto, GradientFilter).
    static func tightGradient(_ frame: RFBFrameBuffer) -> [UInt8] {
        var plain: [UInt8] = []
        func part(_ x: Int, _ y: Int, _ shift: UInt32) -> Int {
            x < 0 || y < 0 ? 0 : Int(frame[x, y] >> shift & 0xFF)
        }
        for y in 0..<frame.height {
            for x in 0..<frame.width {
                for shift: UInt32 in [16, 8, 0] {
                    let guess = part(x - 1, y, shift) + part(x, y - 1, shift) - part(x - 1, y - 1, shift)
                    plain.append(UInt8(truncatingIfNeeded: part(x, y, shift) - min(max(guess, 0), 255)))
                }
            }
        }
        // So little is sent as it is.
        if plain.count < 12 { return [0x70, 2] + plain }
        return [0x70, 2] + tightLength(stored(plain).count) + stored(plain)
    }

    /// A zlib stream that is not compressed and does not end (RFC 1950, RFC 1951 §3.2.4).
    static func stored(_ plain: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [0x78, 0x01]
        for start in stride(from: 0, to: plain.count, by: 65_535) {
            let piece = plain[start..<min(start + 65_535, plain.count)]
            let (low, high) = (UInt8(piece.count & 0xFF), UInt8(piece.count >> 8))
            bytes += [0, low, high, ~low, ~high] + piece
        }
        return bytes
    }

    static func tightLength(_ length: Int) -> [UInt8] {
        if length < 1 << 7 { return [UInt8(length)] }
        if length < 1 << 14 { return [UInt8(length & 0x7F | 0x80), UInt8(length >> 7)] }
        return [UInt8(length & 0x7F | 0x80), UInt8(length >> 7 & 0x7F | 0x80), UInt8(length >> 14)]
    }
}
