package import KithContent

/// Decodes PNG (ISO/IEC 15948): every colour type and depth, interlaced or not, onto a dark background.
///
/// The checksums of the chunks are not checked; that of the pixels is (zlib's own).
package enum PNGImage {
    /// The reason there is no picture.
    package typealias Failure = ImageFailure

    /// At most so many pixels.
    static let pixelLimit = 16 << 20

    private struct Header {
        var width: Int
        var height: Int
        var depth: Int
        var colorType: Int
        var isInterlaced: Bool

        /// Samples a pixel; `nil` for a type that does not exist.
        var channels: Int? { [0: 1, 2: 3, 3: 1, 4: 2, 6: 4][colorType] }
        func rowSize(_ width: Int) -> Int { (width * depth * (channels ?? 1) + 7) / 8 }
    }

    /// Decodes a whole file.
    package static func decode(_ bytes: [UInt8]) throws(Failure) -> Picture {
        guard bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) else { throw .damaged }
        var header: Header?
        var palette: [UInt8] = []
        var transparency: [UInt8] = []
        var packed: [UInt8] = []
        var at = 8
        while at + 12 <= bytes.count {
            let length = number(bytes, at)
            guard length <= bytes.count - at - 12 else { throw .damaged }
            let body = bytes[(at + 8)..<(at + 8 + length)]
            switch String(decoding: bytes[(at + 4)..<(at + 8)], as: UTF8.self) {
            case "IHDR": header = try read(Array(body))
            case "PLTE": palette = Array(body)
            case "tRNS": transparency = Array(body)
            case "IDAT": packed += body
            default: break
            }
            at += 12 + length
        }
        guard let header else { throw .damaged }
        let passes = header.isInterlaced ? interlacing : [(0, 0, 1, 1)]
        func size(_ pass: (Int, Int, Int, Int)) -> (width: Int, height: Int) {
            (
                max(0, (header.width - pass.0 + pass.2 - 1) / pass.2),
                max(0, (header.height - pass.1 + pass.3 - 1) / pass.3)
            )
        }
        let needed = passes.reduce(0) { sum, pass in
            let (width, height) = size(pass)
            return sum + (width == 0 ? 0 : height * (header.rowSize(width) + 1))
        }
        let raw: [UInt8]
        do throws(Inflate.Failure) {
            raw = try Inflate.zlib(packed, limit: needed)
        } catch {
            throw error == .tooLarge ? .tooLarge : .damaged
        }
        guard raw.count == needed else { throw .damaged }
        var pixels = [UInt8](repeating: 0, count: header.width * header.height * 3)
        var offset = 0
        for pass in passes {
            let (width, height) = size(pass)
            guard width > 0 else { continue }
            let rowSize = header.rowSize(width)
            var above = [UInt8](repeating: 0, count: rowSize)
            for row in 0..<height {
                let line = try unfiltered(
                    raw[(offset + 1)..<(offset + 1 + rowSize)], filter: raw[offset], above: above,
                    step: max(1, header.depth * (header.channels ?? 1) / 8))
                offset += rowSize + 1
                for column in 0..<width {
                    let color = try color(line, column, header, palette, transparency)
                    let index = ((pass.1 + row * pass.3) * header.width + pass.0 + column * pass.2) * 3
                    (pixels[index], pixels[index + 1], pixels[index + 2]) = color
                }
                above = line
            }
        }
        return Picture(width: header.width, height: header.height, pixels: pixels)
    }

    /// Adam7: first column, first row, columns apart, rows apart.
    private static let interlacing = [
        (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2),
    ]

    private static func number(_ bytes: [UInt8], _ at: Int) -> Int {
        bytes[at..<at + 4].reduce(0) { $0 << 8 | Int($1) }
    }

    private static func read(_ body: [UInt8]) throws(Failure) -> Header {
        guard body.count == 13, body[10] == 0, body[11] == 0, body[12] <= 1 else { throw .damaged }
        let header = Header(
            width: number(body, 0), height: number(body, 4), depth: Int(body[8]), colorType: Int(body[9]),
            isInterlaced: body[12] == 1)
        let depths: [Int: [Int]] = [0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]]
        guard depths[header.colorType]?.contains(header.depth) ?? false, header.width > 0, header.height > 0 else {
            throw .damaged
        }
        guard header.width <= pixelLimit, header.height <= pixelLimit / header.width else { throw .tooLarge }
        return header
    }

    /// Takes the filter off a row (§9).
    private static func unfiltered(
        _ row: ArraySlice<UInt8>, filter: UInt8, above: [UInt8], step: Int
    ) throws(Failure) -> [UInt8] {
        var line = Array(row)
        switch filter {
        case 0: break
        case 1: for index in step..<max(step, line.count) { line[index] &+= line[index - step] }
        case 2: for index in line.indices { line[index] &+= above[index] }
        case 3:
            for index in line.indices {
                let left = index >= step ? Int(line[index - step]) : 0
                line[index] &+= UInt8((left + Int(above[index])) / 2)
            }
        case 4:
            for index in line.indices {
                let left = index >= step ? Int(line[index - step]) : 0
                let corner = index >= step ? Int(above[index - step]) : 0
                let up = Int(above[index])
                let estimate = left + up - corner
                let distances = (abs(estimate - left), abs(estimate - up), abs(estimate - corner))
                let nearest =
                    distances.0 <= distances.1 && distances.0 <= distances.2
                    ? left : distances.1 <= distances.2 ? up : corner
                line[index] &+= UInt8(nearest)
            }
        default: throw .damaged
        }
        return line
    }

    /// One pixel of a row, over the background where it is transparent.
    private static func color(
        _ line: [UInt8], _ column: Int, _ header: Header, _ palette: [UInt8], _ transparency: [UInt8]
    ) throws(Failure) -> (UInt8, UInt8, UInt8) {
        /// A sample as it is stored.
        func raw(_ channel: Int) -> Int {
            let index = column * (header.channels ?? 1) + channel
            switch header.depth {
            case 8: return Int(line[index])
            case 16: return Int(line[index * 2]) << 8 | Int(line[index * 2 + 1])
            default:
                let perByte = 8 / header.depth
                let shift = (perByte - 1 - index % perByte) * header.depth
                return Int(line[index / perByte]) >> shift & ((1 << header.depth) - 1)
            }
        }
        func sample(_ channel: Int) -> Int { raw(channel) * 255 / ((1 << header.depth) - 1) }
        /// Tells whether the samples are those that `tRNS` makes transparent.
        func isClear(_ count: Int) -> Bool {
            transparency.count == count * 2
                && (0..<count).allSatisfy {
                    Int(transparency[$0 * 2]) << 8 | Int(transparency[$0 * 2 + 1]) == raw($0)
                }
        }
        switch header.colorType {
        case 0: return blend(sample(0), sample(0), sample(0), isClear(1) ? 0 : 255)
        case 2: return blend(sample(0), sample(1), sample(2), isClear(3) ? 0 : 255)
        case 3:
            let entry = raw(0)
            guard entry * 3 + 2 < palette.count else { throw .damaged }
            let alpha = entry < transparency.count ? Int(transparency[entry]) : 255
            return blend(Int(palette[entry * 3]), Int(palette[entry * 3 + 1]), Int(palette[entry * 3 + 2]), alpha)
        case 4: return blend(sample(0), sample(0), sample(0), sample(1))
        default: return blend(sample(0), sample(1), sample(2), sample(3))
        }
    }

    private static func blend(_ red: Int, _ green: Int, _ blue: Int, _ alpha: Int) -> (UInt8, UInt8, UInt8) {
        let background = 32
        func mixed(_ part: Int) -> UInt8 { UInt8((part * alpha + background * (255 - alpha)) / 255) }
        return (mixed(red), mixed(green), mixed(blue))
    }
}
