import CZlib
package import KithPixels
import KithWire

/// A picture as a PNG file (ISO/IEC 15948): eight bits of red, green and blue a pixel, without loss.
package enum PNGPicture {
    /// The bytes of the file; the fourth byte of each pixel is left out.
    package static func encode(_ picture: borrowing PixelView) -> [UInt8] {
        let size = picture.size
        var rows: [UInt8] = []
        rows.reserveCapacity((size.width * 3 + 1) * size.height)
        var before = [UInt8](repeating: 0, count: size.width * 3)
        for y in 0..<size.height {
            var row: [UInt8] = []
            row.reserveCapacity(size.width * 3)
            for x in 0..<size.width {
                let pixel = picture[x: x, y: y]
                for shift: UInt32 in [16, 8, 0] { row.append(UInt8(truncatingIfNeeded: pixel >> shift)) }
            }
            // Filter 2: each byte less the one above it.
            rows.append(2)
            for (byte, above) in zip(row, before) { rows.append(byte &- above) }
            before = row
        }
        var file = ByteWriter()
        file.bytes([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
        var header = ByteWriter()
        header.integer(UInt32(size.width))
        header.integer(UInt32(size.height))
        header.bytes([8, 2, 0, 0, 0])
        append("IHDR", header.bytes, to: &file)
        append("IDAT", compressed(rows), to: &file)
        append("IEND", [], to: &file)
        return file.bytes
    }

    private static func append(_ type: String, _ content: [UInt8], to file: inout ByteWriter) {
        let body = Array(type.utf8) + content
        file.integer(UInt32(content.count))
        file.bytes(body)
        file.integer(UInt32(truncatingIfNeeded: unsafe crc32(0, body, UInt32(body.count))))
    }

    private static func compressed(_ bytes: [UInt8]) -> [UInt8] {
        var length = compressBound(UInt(bytes.count))
        var result = [UInt8](repeating: 0, count: Int(length))
        let status = unsafe compress2(&result, &length, bytes, UInt(bytes.count), 6)
        precondition(status == Z_OK, "zlib compresses into the room it asks for")
        return Array(result.prefix(Int(length)))
    }
}
