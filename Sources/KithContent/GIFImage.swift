/// Decodes the first picture of a GIF (CompuServe, 1990).
package enum GIFImage {
    /// The reason there is no picture.
    package typealias Failure = ImageFailure

    /// At most so many pixels.
    package static let pixelLimit = 16 << 20

    /// Decodes a file up to its first picture, onto a grey where it is transparent: 0, black, to 255, white.
    package static func decode(_ bytes: [UInt8], on background: UInt8 = 32) throws(Failure) -> Picture {
        guard bytes.count >= 13, bytes.starts(with: Array("GIF87a".utf8)) || bytes.starts(with: Array("GIF89a".utf8))
        else { throw .damaged }
        func number(_ at: Int) -> Int { Int(bytes[at]) | Int(bytes[at + 1]) << 8 }
        let (width, height) = (number(6), number(8))
        guard width > 0, height > 0 else { throw .damaged }
        guard width * height <= pixelLimit else { throw .tooLarge }
        var at = 13
        var palette = try table(bytes, &at, flags: bytes[10])
        var clear: UInt8?
        while at < bytes.count {
            switch bytes[at] {
            case 0x21:
                // An extension; one says which colour is transparent.
                guard at + 2 < bytes.count else { throw .damaged }
                if bytes[at + 1] == 0xF9, bytes[at + 2] == 4, at + 6 < bytes.count, bytes[at + 3] & 1 == 1 {
                    clear = bytes[at + 6]
                }
                at += 2
                _ = try blocks(bytes, &at)
            case 0x2C:
                guard at + 11 <= bytes.count else { throw .damaged }
                let place = (x: number(at + 1), y: number(at + 3), width: number(at + 5), height: number(at + 7))
                let flags = bytes[at + 9]
                guard place.width > 0, place.height > 0, place.width * place.height <= pixelLimit else {
                    throw .tooLarge
                }
                at += 10
                if flags & 0x80 != 0 { palette = try table(bytes, &at, flags: flags) }
                guard !palette.isEmpty, at < bytes.count else { throw .damaged }
                let bits = Int(bytes[at])
                at += 1
                let indices = try unpacked(try blocks(bytes, &at), bits: bits, count: place.width * place.height)
                var pixels = [UInt8](repeating: background, count: width * height * 3)
                let rows = flags & 0x40 == 0 ? Array(0..<place.height) : interlaced(place.height)
                for (line, row) in rows.enumerated() where place.y + row < height {
                    for column in 0..<min(place.width, max(width - place.x, 0)) {
                        let index = indices[line * place.width + column]
                        if index == clear { continue }
                        guard Int(index) * 3 + 2 < palette.count else { throw .damaged }
                        let to = ((place.y + row) * width + place.x + column) * 3
                        for part in 0..<3 { pixels[to + part] = palette[Int(index) * 3 + part] }
                    }
                }
                return Picture(width: width, height: height, pixels: pixels)
            default: throw .damaged
            }
        }
        throw .damaged
    }

    /// The colours that follow, if the flags say that some do.
    private static func table(_ bytes: [UInt8], _ at: inout Int, flags: UInt8) throws(Failure) -> [UInt8] {
        guard flags & 0x80 != 0 else { return [] }
        let size = 3 << (Int(flags & 7) + 1)
        guard at + size <= bytes.count else { throw .damaged }
        defer { at += size }
        return Array(bytes[at..<at + size])
    }

    /// The bytes of the blocks that follow, to the empty one.
    private static func blocks(_ bytes: [UInt8], _ at: inout Int) throws(Failure) -> [UInt8] {
        var all: [UInt8] = []
        while at < bytes.count {
            let size = Int(bytes[at])
            guard at + 1 + size <= bytes.count else { throw .damaged }
            all += bytes[(at + 1)..<(at + 1 + size)]
            at += 1 + size
            if size == 0 { return all }
        }
        throw .damaged
    }

    /// The order of the rows, in four passes.
    private static func interlaced(_ height: Int) -> [Int] {
        [(0, 8), (4, 8), (2, 4), (1, 2)].flatMap { Array(stride(from: $0.0, to: height, by: $0.1)) }
    }

    /// Unpacks LZW with codes of growing length, up to `count` bytes.
    private static func unpacked(_ data: [UInt8], bits: Int, count: Int) throws(Failure) -> [UInt8] {
        guard (2...8).contains(bits) else { throw .damaged }
        let (clear, end) = (1 << bits, (1 << bits) + 1)
        // Each entry is one byte behind another entry.
        var before = [Int16](repeating: -1, count: 4_096)
        var last = [UInt8](repeating: 0, count: 4_096)
        var length = [Int32](repeating: 1, count: 4_096)
        for index in 0..<clear { last[index] = UInt8(index) }
        var (free, size) = (end + 1, bits + 1)
        var (held, available, at) = (0, 0, 0)
        var previous: Int?
        var result = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            while available < size {
                guard at < data.count else { throw .damaged }
                held |= Int(data[at]) << available
                available += 8
                at += 1
            }
            let code = held & ((1 << size) - 1)
            held >>= size
            available -= size
            if code == clear {
                (free, size, previous) = (end + 1, bits + 1, nil)
                continue
            }
            guard code != end, code < free || (code == free && previous != nil && free < 4_096) else { throw .damaged }
            guard let earlier = previous else {
                guard code < clear else { throw .damaged }
                result[filled] = UInt8(code)
                filled += 1
                previous = code
                continue
            }
            // One that is not there yet is the one before with its own first byte behind it.
            var first = code < free ? code : earlier
            while before[first] >= 0 { first = Int(before[first]) }
            if free < 4_096 {
                (before[free], last[free], length[free]) = (Int16(earlier), last[first], length[earlier] + 1)
                free += 1
                if free == 1 << size, size < 12 { size += 1 }
            }
            let run = Int(length[code])
            var (entry, to) = (code, filled + run - 1)
            while entry >= 0 {
                if to < count { result[to] = last[entry] }
                to -= 1
                entry = Int(before[entry])
            }
            filled += run
            previous = code
        }
        return result
    }
}
