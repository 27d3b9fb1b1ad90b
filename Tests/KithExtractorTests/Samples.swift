import Foundation

/// Files of many kinds, made byte by byte.
enum Samples {
    static func little(_ number: Int, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }
    static func big(_ number: Int, _ count: Int) -> [UInt8] { little(number, count).reversed() }

    /// A ZIP archive of files that are stored as they are.
    static func zip(_ files: [(name: String, content: [UInt8])]) -> [UInt8] {
        var (body, directory) = ([UInt8](), [UInt8]())
        for (name, content) in files {
            let sizes = little(0, 4) + little(content.count, 4) + little(content.count, 4)
            let name = Array(name.utf8)
            directory +=
                [0x50, 0x4B, 1, 2] + little(20, 2) + little(20, 2) + little(0, 2) + little(0, 2) + little(0, 4) + sizes
                + little(name.count, 2) + little(0, 12) + little(body.count, 4) + name
            body +=
                [0x50, 0x4B, 3, 4] + little(20, 2) + little(0, 2) + little(0, 2) + little(0, 4) + sizes
                + little(name.count, 2) + little(0, 2) + name + content
        }
        return body + directory + [0x50, 0x4B, 5, 6] + little(0, 4) + little(files.count, 2) + little(files.count, 2)
            + little(directory.count, 4) + little(body.count, 4) + little(0, 2)
    }

    static func docx(_ text: String) -> [UInt8] {
        let body = "<w:p><w:r><w:t>\(text)</w:t></w:r></w:p>"
        let xml = "<?xml version=\"1.0\"?><w:document><w:body>\(body)</w:body></w:document>"
        return zip([("[Content_Types].xml", Array("<Types/>".utf8)), ("word/document.xml", Array(xml.utf8))])
    }

    /// A PDF with a line of text on one page.
    static func pdf(_ text: String) -> [UInt8] {
        let stream = "BT /F1 24 Tf 72 720 Td (\(text)) Tj ET"
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
            "<< /Length \(stream.utf8.count) >>\nstream\n\(stream)\nendstream",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", "<< /Title (A title) /Author (Ana) >>",
        ]
        var (text, places) = ("%PDF-1.4\n", [Int]())
        for (index, object) in objects.enumerated() {
            places.append(text.utf8.count)
            text += "\(index + 1) 0 obj\n\(object)\nendobj\n"
        }
        let start = text.utf8.count
        text += "xref\n0 \(objects.count + 1)\n0000000000 65535 f \n"
        for place in places { text += String(repeating: "0", count: 10 - String(place).count) + "\(place) 00000 n \n" }
        text += "trailer\n<< /Size \(objects.count + 1) /Root 1 0 R /Info 6 0 R >>\nstartxref\n\(start)\n%%EOF\n"
        return Array(text.utf8)
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ value >> 1 : value >> 1 }
    }

    private static func checked(_ kind: String, _ content: [UInt8]) -> [UInt8] {
        let body = Array(kind.utf8) + content
        let sum = ~body.reduce(~UInt32(0)) { table[Int(($0 ^ UInt32($1)) & 0xFF)] ^ $0 >> 8 }
        return big(content.count, 4) + body + big(Int(sum), 4)
    }

    /// A PNG whose left half is red and whose right half is blue, in blocks that are stored; or one that only says how
    /// large it is.
    static func png(_ width: Int, _ height: Int, isWhole: Bool = true, exif: [UInt8] = []) -> [UInt8] {
        let head = big(width, 4) + big(height, 4) + [8, 2, 0, 0, 0]
        let start: [UInt8] =
            [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + checked("IHDR", head)
            + (exif.isEmpty ? [] : checked("eXIf", exif))
        guard isWhole else { return start + checked("IDAT", [0x78, 0x01]) + checked("IEND", []) }
        var raw: [UInt8] = []
        for _ in 0..<height {
            raw.append(0)
            for x in 0..<width { raw += x < width / 2 ? [255, 0, 0] : [0, 0, 255] }
        }
        var packed: [UInt8] = [0x78, 0x01]
        var rest = raw[...]
        while !rest.isEmpty {
            let part = rest.prefix(65_535)
            rest = rest.dropFirst(part.count)
            packed += [rest.isEmpty ? 1 : 0] + little(part.count, 2) + little(~part.count & 0xFFFF, 2) + part
        }
        var (low, high) = (1, 0)
        for byte in raw {
            low = (low + Int(byte)) % 65_521
            high = (high + low) % 65_521
        }
        return start + checked("IDAT", packed + big(high << 16 | low, 4)) + checked("IEND", [])
    }

    /// Exif data with an orientation, a camera, a time with its offset, and a place, in little-endian TIFF.
    static func exif(orientation: Int = 6) -> [UInt8] {
        struct Field {
            var tag: Int
            var type: Int
            var count: Int
            var bytes: [UInt8]
        }
        func text(_ tag: Int, _ text: String) -> Field {
            Field(tag: tag, type: 2, count: text.utf8.count + 1, bytes: Array(text.utf8) + [0])
        }
        func fraction(_ tag: Int, _ parts: [(Int, Int)]) -> Field {
            Field(tag: tag, type: 5, count: parts.count, bytes: parts.flatMap { little($0.0, 4) + little($0.1, 4) })
        }
        func number(_ tag: Int, _ value: Int) -> Field { Field(tag: tag, type: 4, count: 1, bytes: little(value, 4)) }
        func size(_ fields: [Field]) -> Int {
            2 + fields.count * 12 + 4 + fields.reduce(0) { $0 + ($1.bytes.count > 4 ? $1.bytes.count : 0) }
        }
        func directory(_ fields: [Field], at place: Int) -> [UInt8] {
            var (entries, rest) = ([UInt8](), [UInt8]())
            for field in fields {
                entries += little(field.tag, 2) + little(field.type, 2) + little(field.count, 4)
                if field.bytes.count <= 4 {
                    entries += field.bytes + [UInt8](repeating: 0, count: 4 - field.bytes.count)
                } else {
                    entries += little(place + 2 + fields.count * 12 + 4 + rest.count, 4)
                    rest += field.bytes
                }
            }
            return little(fields.count, 2) + entries + little(0, 4) + rest
        }
        let taken = [
            fraction(0x829A, [(1, 250)]), fraction(0x829D, [(28, 10)]),
            Field(tag: 0x8827, type: 3, count: 1, bytes: little(400, 2)),
            text(0x9003, "2024:05:31 12:30:00"), text(0x9011, "+02:00"), fraction(0x920A, [(35, 1)]),
            text(0xA434, "Sonnar 35"),
        ]
        let place = [
            text(1, "N"), fraction(2, [(48, 1), (12, 1), (30, 1)]), text(3, "W"),
            fraction(4, [(16, 1), (22, 1), (0, 1)]),
        ]
        func main(_ taken: Int, _ place: Int) -> [Field] {
            [
                text(0x10F, "SONY"), text(0x110, "ILCE-7M4"),
                Field(tag: 0x112, type: 3, count: 1, bytes: little(orientation, 2)), number(0x8769, taken),
                number(0x8825, place),
            ]
        }
        let first = 8 + size(main(0, 0))
        let second = first + size(taken)
        return Array("II*\0".utf8) + little(8, 4) + directory(main(first, second), at: 8)
            + directory(taken, at: first) + directory(place, at: second)
    }

    static func wave(seconds: Int) -> [UInt8] {
        Array("RIFF".utf8) + little(36, 4) + Array("WAVEfmt ".utf8) + little(16, 4) + little(1, 2) + little(2, 2)
            + little(44_100, 4) + little(176_400, 4) + little(4, 2) + little(16, 2) + Array("data".utf8)
            + little(176_400 * seconds, 4)
    }
}
