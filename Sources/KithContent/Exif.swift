/// Reads the directories of TIFF 6.0, in which Exif 2.32 keeps what a camera notes.
struct TIFFReader {
    /// The most entries of a directory that are read.
    private static let entryLimit = 512

    private let source: any ByteSource
    private let isBig: Bool

    /// One value of a directory, wherever its bytes are.
    struct Value {
        var type: UInt64
        var count: UInt64
        var place: UInt64
    }

    /// - Returns: `nil` when it is no TIFF.
    init?(_ source: any ByteSource) {
        switch source.bytes(at: 0, count: 4) {
        case [0x49, 0x49, 0x2A, 0]: isBig = false
        case [0x4D, 0x4D, 0, 0x2A]: isBig = true
        default: return nil
        }
        self.source = source
    }

    func number(_ place: UInt64, _ count: Int) -> UInt64? {
        isBig ? source.big(place, count) : source.little(place, count)
    }

    /// Where the first directory is.
    var first: UInt64? { number(4, 4) }

    /// The values of a directory, by their tags.
    func directory(at place: UInt64) -> [UInt64: Value] {
        guard place > 0, let count = number(place, 2) else { return [:] }
        var values: [UInt64: Value] = [:]
        for index in 0..<min(count, UInt64(Self.entryLimit)) {
            let at = place + 2 + index * 12
            guard let tag = number(at, 2), let type = number(at + 2, 2), let count = number(at + 4, 4) else { break }
            let sizes: [UInt64: UInt64] = [1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8]
            guard let size = sizes[type], values[tag] == nil else { continue }
            // At most four bytes are here, else where they are.
            let isHere = count <= 4 && count * size <= 4
            guard let place = isHere ? at + 8 : number(at + 8, 4) else { break }
            values[tag] = Value(type: type, count: count, place: place)
        }
        return values
    }

    /// The first number of a value.
    func integer(_ value: Value?) -> UInt64? {
        guard let value else { return nil }
        switch value.type {
        case 1, 6, 7: return number(value.place, 1)
        case 3, 8: return number(value.place, 2)
        case 4, 9: return number(value.place, 4)
        default: return nil
        }
    }

    /// A fraction of a value.
    func fraction(_ value: Value?, _ index: UInt64 = 0) -> Double? {
        guard let value, value.type == 5 || value.type == 10, index < value.count,
            let above = number(value.place + index * 8, 4), let below = number(value.place + index * 8 + 4, 4)
        else { return nil }
        let (top, bottom) = (UInt32(truncatingIfNeeded: above), UInt32(truncatingIfNeeded: below))
        guard bottom != 0 else { return nil }
        return value.type == 5
            ? Double(top) / Double(bottom) : Double(Int32(bitPattern: top)) / Double(Int32(bitPattern: bottom))
    }

    func text(_ value: Value?) -> String? {
        guard let value, value.type == 2 || value.type == 7 else { return nil }
        return ContentProperties.text(source.bytes(at: value.place, count: Int(min(value.count, 256))))
    }
}

extension ContentProperties {
    /// Takes in what Exif data say: `source` begins with the head of TIFF.
    mutating func readExif(_ source: any ByteSource, isTIFF: Bool = false) {
        guard let tiff = TIFFReader(source), let first = tiff.first else { return }
        let main = tiff.directory(at: first)
        orientation = tiff.integer(main[0x112]).flatMap { (1...8).contains($0) ? Int($0) : nil }
        let (maker, model) = (tiff.text(main[0x10F]), tiff.text(main[0x110]))
        // Most models begin with their maker's name.
        let isNamed = maker.flatMap { $0.split(separator: " ").first }.map {
            model?.lowercased().hasPrefix($0.lowercased()) ?? false
        }
        camera = isNamed == true ? model : [maker, model].compactMap(\.self).joined(separator: " ")
        if camera == "" { camera = nil }
        if isTIFF {
            width = tiff.integer(main[0x100]).map { Int($0) }
            height = tiff.integer(main[0x101]).map { Int($0) }
        }
        author = tiff.text(main[0x13B])
        title = tiff.text(main[0x10E])
        var when = tiff.text(main[0x132])
        if let place = tiff.integer(main[0x8769]) {
            let exif = tiff.directory(at: place)
            when = tiff.text(exif[0x9003]) ?? tiff.text(exif[0x9004]) ?? when
            takenOffset = (tiff.text(exif[0x9011]) ?? tiff.text(exif[0x9010])).flatMap(Self.offset)
            exposure = tiff.fraction(exif[0x829A])
            aperture = tiff.fraction(exif[0x829D])
            sensitivity = tiff.integer(exif[0x8827]).map { Int($0) }
            focalLength = tiff.fraction(exif[0x920A])
            lens = tiff.text(exif[0xA434])
        }
        taken = when.flatMap(Self.time)
        if let place = tiff.integer(main[0x8825]) {
            let position = tiff.directory(at: place)
            func degrees(_ tag: UInt64, _ sign: UInt64, _ negative: String) -> Double? {
                guard let whole = tiff.fraction(position[tag], 0), let minutes = tiff.fraction(position[tag], 1)
                else { return nil }
                let sum = whole + minutes / 60 + (tiff.fraction(position[tag], 2) ?? 0) / 3_600
                return tiff.text(position[sign]) == negative ? -sum : sum
            }
            latitude = degrees(2, 1, "S")
            longitude = degrees(4, 3, "W")
            altitude = tiff.fraction(position[6]).map { tiff.integer(position[5]) == 1 ? -$0 : $0 }
        }
    }

    /// Seconds of `2024:05:31 12:30:00`, also with other signs between; `nil` when it is no time.
    static func time(_ text: String) -> Int64? {
        let parts = text.utf8.split { !($0 >= 0x30 && $0 <= 0x39) }.prefix(6).map { digits in
            digits.reduce(Int64(0)) { min($0 * 10 + Int64($1) - 48, 99_999) }
        }
        guard parts.count >= 3, (1...9_999).contains(parts[0]), (1...12).contains(parts[1]), (1...31).contains(parts[2])
        else { return nil }
        let clock = parts.dropFirst(3) + [0, 0, 0]
        let (hour, minute, second) = (clock[3], clock[4], clock[5])
        guard hour < 24, minute < 60, second < 61 else { return nil }
        return days(parts[0], parts[1], parts[2]) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    /// The days from 1970 to a day of the Gregorian calendar.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // Years that begin in March have their odd day at the end.
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// Minutes of `+02:00`; `nil` when it is none.
    static func offset(_ text: String) -> Int? {
        let bytes = Array(text.utf8)
        guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"), bytes[0] == 0x2B || bytes[0] == 0x2D,
            let hours = Int(String(decoding: bytes[1...2], as: UTF8.self)),
            let minutes = Int(String(decoding: bytes[4...5], as: UTF8.self)), hours <= 24, minutes < 60
        else { return nil }
        return (hours * 60 + minutes) * (bytes[0] == 0x2D ? -1 : 1)
    }

    /// Exchanges width and height where the picture is turned to be shown.
    mutating func turnSize() {
        if let orientation, orientation >= 5 { (width, height) = (height, width) }
    }
}
