extension ContentProperties {
    /// Reads the size of an image and what its camera noted; false when the file is none that is known.
    mutating func readImage(_ source: any ByteSource) -> Bool {
        let head = source.bytes(at: 0, count: 32)
        if head.starts(with: [0xFF, 0xD8, 0xFF]) {
            format = "JPEG"
            readJPEG(source)
        } else if head.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            format = "PNG"
            readPNG(source)
        } else if head.starts(with: Array("GIF87a".utf8)) || head.starts(with: Array("GIF89a".utf8)) {
            format = "GIF"
            width = source.little(6, 2).map { Int($0) }
            height = source.little(8, 2).map { Int($0) }
        } else if source.code(0) == "RIFF", source.code(8) == "WEBP" {
            format = "WebP"
            readWebP(source)
        } else if TIFFReader(source) != nil {
            format = "TIFF"
            readExif(source, isTIFF: true)
        } else if source.code(4) == "ftyp", let brand = Self.imageBrand(source) {
            format = brand
            readHEIF(source)
        } else {
            return false
        }
        turnSize()
        return true
    }

    private mutating func readJPEG(_ source: any ByteSource) {
        var at: UInt64 = 2
        // Segments: FF, a marker, a length that counts itself. Those of cameras have a few dozen.
        for _ in 0..<1_024 {
            guard let marker = source.big(at, 2), marker > 0xFF00 else { return }
            if marker == 0xFFFF {
                at += 1
                continue
            }
            guard marker != 0xFFDA, marker != 0xFFD9, let length = source.big(at + 2, 2), length >= 2 else { return }
            if (0xFFC0...0xFFCF).contains(marker), ![0xFFC4, 0xFFC8, 0xFFCC].contains(marker) {
                height = source.big(at + 5, 2).map { Int($0) }
                width = source.big(at + 7, 2).map { Int($0) }
                return
            }
            if marker == 0xFFE1, length >= 8, source.bytes(at: at + 4, count: 6) == Array("Exif\0\0".utf8) {
                readExif(SourceSlice(source, from: at + 10, size: length - 8))
            }
            at += 2 + length
        }
    }

    private mutating func readPNG(_ source: any ByteSource) {
        var at: UInt64 = 8
        for _ in 0..<1_024 {
            guard let length = source.big(at, 4), let kind = source.code(at + 4) else { return }
            switch kind {
            case "IHDR":
                width = source.big(at + 8, 4).map { Int($0) }
                height = source.big(at + 12, 4).map { Int($0) }
            case "eXIf": readExif(SourceSlice(source, from: at + 8, size: length))
            case "IEND": return
            default: break
            }
            at += 12 + length
        }
    }

    private mutating func readWebP(_ source: any ByteSource) {
        var at: UInt64 = 12
        for _ in 0..<256 {
            guard let kind = source.code(at), let length = source.little(at + 4, 4) else { return }
            switch kind {
            case "VP8X":
                width = source.little(at + 12, 3).map { Int($0) + 1 }
                height = source.little(at + 15, 3).map { Int($0) + 1 }
            case "VP8 " where width == nil:
                width = source.little(at + 14, 2).map { Int($0 & 0x3FFF) }
                height = source.little(at + 16, 2).map { Int($0 & 0x3FFF) }
            case "VP8L" where width == nil:
                let bits = source.little(at + 9, 4)
                width = bits.map { Int($0 & 0x3FFF) + 1 }
                height = bits.map { Int($0 >> 14 & 0x3FFF) + 1 }
            case "EXIF":
                let hasMark = source.bytes(at: at + 8, count: 6) == Array("Exif\0\0".utf8)
                readExif(SourceSlice(source, from: at + 8 + (hasMark ? 6 : 0), size: length))
            default: break
            }
            at += 8 + length + length % 2
        }
    }

    /// The format of a file of ISO/IEC 23008-12; `nil` for others of the same kind, films.
    private static func imageBrand(_ source: any ByteSource) -> String? {
        guard let size = source.big(0, 4), size <= 1_024 else { return nil }
        let brands = stride(from: UInt64(8), to: size, by: 4).compactMap { source.code($0) }
        if brands.contains("avif") { return "AVIF" }
        return brands.contains { ["heic", "heix", "mif1", "msf1", "heim", "heis"].contains($0) } ? "HEIF" : nil
    }

    private mutating func readHEIF(_ source: any ByteSource) {
        guard let meta = BoxReader(source).first("meta") else { return }
        // A full box: a version and flags before its content.
        let inner = BoxReader(SourceSlice(meta, from: 4))
        if let properties = inner.first("iprp").flatMap({ BoxReader($0).first("ipco") }) {
            var largest: UInt64 = 0
            BoxReader(properties).forEach { kind, content in
                if kind == "ispe", let across = content.big(4, 4), let down = content.big(8, 4), across * down > largest
                {
                    largest = across * down
                    (width, height) = (Int(across), Int(down))
                }
                // A quarter turn is a property of its own; what Exif says of it does not count.
                if kind == "irot", let turn = content.big(0, 1), orientation == nil {
                    orientation = [1, 8, 3, 6][Int(turn & 3)]
                }
            }
        }
        let turned = orientation
        if let place = Self.exifPlace(inner), let skipped = source.big(place.start, 4) {
            readExif(SourceSlice(source, from: place.start + 4 + skipped, size: place.size))
        }
        orientation = turned
    }

    /// Where the item of type `Exif` is in the file, from its directory of items.
    private static func exifPlace(_ meta: BoxReader) -> (start: UInt64, size: UInt64)? {
        guard let names = meta.first("iinf"), let places = meta.first("iloc"), let version = names.big(0, 1) else {
            return nil
        }
        var wanted: UInt64?
        BoxReader(SourceSlice(names, from: version == 0 ? 6 : 8)).forEach { kind, content in
            guard kind == "infe", let version = content.big(0, 1), version >= 2 else { return }
            let width = version == 2 ? 2 : 4
            if content.code(4 + UInt64(width) + 2) == "Exif" { wanted = content.big(4, width) }
        }
        guard let wanted, let form = places.big(0, 1), form <= 2, let sizes = places.big(4, 2) else { return nil }
        let (offsetSize, lengthSize) = (Int(sizes >> 12), Int(sizes >> 8 & 15))
        let (baseSize, indexSize) = (Int(sizes >> 4 & 15), form > 0 ? Int(sizes & 15) : 0)
        let idSize = form == 2 ? 4 : 2
        guard [offsetSize, lengthSize, baseSize, indexSize].allSatisfy({ [0, 4, 8].contains($0) }),
            let count = places.big(6, idSize)
        else { return nil }
        var at = 6 + UInt64(idSize)
        func next(_ size: Int) -> UInt64? {
            defer { at += UInt64(size) }
            return size == 0 ? 0 : places.big(at, size)
        }
        for _ in 0..<min(count, 1_024) {
            guard let id = next(idSize), form == 0 || next(2) != nil, next(2) != nil, let base = next(baseSize),
                let extents = next(2)
            else { return nil }
            for index in 0..<min(extents, 64) {
                guard next(indexSize) != nil, let offset = next(offsetSize), let size = next(lengthSize) else {
                    return nil
                }
                let (start, isTooLarge) = base.addingReportingOverflow(offset)
                if id == wanted, index == 0 { return isTooLarge ? nil : (start, size) }
            }
        }
        return nil
    }
}

/// Reads the boxes of ISO/IEC 14496-12: a size, four letters, content.
struct BoxReader {
    /// The most boxes that are looked at in one.
    private static let limit = 4_096

    private let source: any ByteSource

    init(_ source: any ByteSource) { self.source = source }

    /// Calls back for each box, in their order.
    func forEach(_ body: (String, any ByteSource) -> Void) {
        var at: UInt64 = 0
        for _ in 0..<Self.limit {
            guard at < source.size, let short = source.big(at, 4), let kind = source.code(at + 4) else { return }
            var (head, size) = (UInt64(8), short)
            if short == 1 {
                guard let long = source.big(at + 8, 8) else { return }
                (head, size) = (16, long)
            } else if short == 0 {
                size = source.size - at
            }
            guard size >= head else { return }
            body(kind, SourceSlice(source, from: at + head, size: size - head))
            let (next, isTooLarge) = at.addingReportingOverflow(size)
            guard !isTooLarge else { return }
            at = next
        }
    }

    /// The content of the first box of a kind.
    func first(_ kind: String) -> (any ByteSource)? { all(kind).first }

    func all(_ kind: String) -> [any ByteSource] {
        var found: [any ByteSource] = []
        forEach { if $0 == kind { found.append($1) } }
        return found
    }
}
