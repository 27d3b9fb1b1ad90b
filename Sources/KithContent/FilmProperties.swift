extension ContentProperties {
    /// Reads the duration, the codecs and the tags of a film or of sound; false when the file is none that is known.
    mutating func readFilm(_ source: any ByteSource) -> Bool {
        let head = source.bytes(at: 0, count: 16)
        if let kind = source.code(4), ["ftyp", "moov", "wide", "mdat"].contains(kind), readMP4(source) { return true }
        if head.starts(with: [0x1A, 0x45, 0xDF, 0xA3]) {
            readMatroska(source)
        } else if source.code(0) == "RIFF", source.code(8) == "WAVE" {
            readWAVE(source)
        } else if source.code(0) == "fLaC" {
            readFLAC(source)
        } else if source.code(0) == "OggS" {
            readOgg(source)
        } else if head.starts(with: Array("ID3".utf8)) || head.count > 1 && head[0] == 0xFF && head[1] & 0xE6 == 0xE2 {
            return readMP3(source)
        } else {
            return false
        }
        return true
    }

    private static func milliseconds(_ units: UInt64, perSecond: UInt64) -> Int64? {
        guard perSecond > 0 else { return nil }
        let (seconds, rest) = units.quotientAndRemainder(dividingBy: perSecond)
        guard seconds < 1 << 40, perSecond < 1 << 40 else { return nil }
        return Int64(seconds * 1_000 + rest * 1_000 / perSecond)
    }

    // MARK: - MP4 and QuickTime

    private mutating func readMP4(_ source: any ByteSource) -> Bool {
        guard let movie = BoxReader(source).first("moov") else { return false }
        format = source.code(4) == "ftyp" && source.code(8) != "qt  " ? "MP4" : "QuickTime"
        let boxes = BoxReader(movie)
        if let head = boxes.first("mvhd"), let version = head.big(0, 1) {
            let isLong = version == 1
            if let scale = head.big(isLong ? 20 : 12, 4), let units = head.big(isLong ? 24 : 16, isLong ? 8 : 4) {
                duration = Self.milliseconds(units, perSecond: scale)
            }
            // Seconds since 1904, of Greenwich; 0 where nobody wrote it.
            if let made = head.big(4, isLong ? 8 : 4), made > 2_082_844_800, made < 1 << 34 {
                (taken, takenOffset) = (Int64(made) - 2_082_844_800, 0)
            }
        }
        for track in boxes.all("trak").prefix(64) {
            guard let media = BoxReader(track).first("mdia"), let handler = BoxReader(media).first("hdlr")?.code(8)
            else { continue }
            let table = BoxReader(media).first("minf").flatMap { BoxReader($0).first("stbl") }
            let sample = table.flatMap { BoxReader($0).first("stsd") }
            let codec = sample?.code(12).flatMap { Self.plain($0) }
            if handler == "vide", width == nil, let head = BoxReader(track).first("tkhd"),
                let version = head.big(0, 1)
            {
                let end: UInt64 = version == 1 ? 96 : 84
                videoCodec = codec.map { Self.codecs[$0] ?? $0 }
                width = head.big(end - 8, 4).map { Int($0 >> 16) }
                height = head.big(end - 4, 4).map { Int($0 >> 16) }
                // A quarter turn: the first factor of the matrix is 0.
                if head.big(end - 44, 4) == 0, head.big(end - 40, 4) != 0 { (width, height) = (height, width) }
            } else if handler == "soun", audioCodec == nil {
                audioCodec = codec.map { Self.codecs[$0] ?? $0 }
                channels = sample?.big(32, 2).map { Int($0) }
                sampleRate = sample?.big(40, 4).map { Int($0 >> 16) }
            }
        }
        if let user = boxes.first("udta") { readUserData(user) }
        return true
    }

    private static let codecs = [
        "avc1": "H.264", "avc3": "H.264", "hvc1": "HEVC", "hev1": "HEVC", "av01": "AV1", "vp09": "VP9",
        "mp4v": "MPEG-4",
        "mp4a": "AAC", "alac": "ALAC", "ac-3": "AC-3", "ec-3": "E-AC-3", "Opus": "Opus", "fLaC": "FLAC", ".mp3": "MP3",
        "apcn": "ProRes", "V_VP8": "VP8", "V_VP9": "VP9", "V_AV1": "AV1", "V_MPEG4/ISO/AVC": "H.264",
        "V_MPEGH/ISO/HEVC": "HEVC", "A_OPUS": "Opus", "A_VORBIS": "Vorbis", "A_AAC": "AAC", "A_FLAC": "FLAC",
        "A_AC3": "AC-3", "A_MPEG/L3": "MP3",
    ]

    private mutating func readUserData(_ user: any ByteSource) {
        // A place as ISO 6709: +48.2082+016.3738+171/
        if let text = BoxReader(user).first("\u{A9}xyz") {
            let place = String(decoding: text.bytes(at: 4, count: 64), as: UTF8.self)
            var numbers: [Double] = []
            var current = ""
            for character in place.prefix(while: { $0 != "/" }) {
                if "+-".contains(character), !current.isEmpty {
                    numbers.append(Double(current) ?? .nan)
                    current = ""
                }
                current.append(character)
            }
            numbers.append(Double(current) ?? .nan)
            if numbers.count >= 2, numbers.allSatisfy(\.isFinite) {
                (latitude, longitude) = (numbers[0], numbers[1])
                altitude = numbers.count > 2 ? numbers[2] : nil
            }
        }
        guard let meta = BoxReader(user).first("meta"),
            let list = BoxReader(SourceSlice(meta, from: 4)).first("ilst")
        else { return }
        func tag(_ name: String) -> String? {
            BoxReader(list).first(name).flatMap { BoxReader($0).first("data") }.flatMap {
                Self.text($0.bytes(at: 8, count: 256))
            }
        }
        title = tag("\u{A9}nam")
        author = tag("\u{A9}ART")
        album = tag("\u{A9}alb")
    }

    // MARK: - Matroska and WebM

    private mutating func readMatroska(_ source: any ByteSource) {
        format = "Matroska"
        var scale: UInt64 = 1_000_000
        var length: Double?
        EBMLReader(source).forEach { id, content in
            if id == 0x1A45_DFA3 {
                EBMLReader(content).forEach { id, content in
                    if id == 0x4282, content.bytes(at: 0, count: 4) == Array("webm".utf8) { format = "WebM" }
                    return true
                }
            }
            guard id == 0x1853_8067 else { return true }
            EBMLReader(content).forEach { id, content in
                switch id {
                case 0x1549_A966:
                    EBMLReader(content).forEach { id, content in
                        switch id {
                        case 0x2A_D7B1: scale = content.big(0, Int(min(content.size, 8))) ?? scale
                        case 0x4489: length = Self.float(content)
                        case 0x7BA9: title = Self.text(content.bytes(at: 0, count: 256))
                        case 0x4461:
                            // Nanoseconds since 2001.
                            if let time = content.big(0, 8) {
                                taken = Int64(bitPattern: time) / 1_000_000_000 + 978_307_200
                                takenOffset = 0
                            }
                        default: break
                        }
                        return true
                    }
                case 0x1654_AE6B:
                    EBMLReader(content).forEach { id, content in
                        if id == 0xAE { readTrack(content) }
                        return true
                    }
                default: break
                }
                // What follows the first cluster is the film itself.
                return id != 0x1F43_B675
            }
            return false
        }
        if let length, length.isFinite, length >= 0 {
            let milliseconds = length * Double(scale) / 1_000_000
            duration = milliseconds < 1e15 ? Int64(milliseconds) : nil
        }
    }

    private mutating func readTrack(_ track: any ByteSource) {
        var (kind, codec): (UInt64?, String?)
        EBMLReader(track).forEach { id, content in
            switch id {
            case 0x83: kind = content.big(0, 1)
            case 0x86: codec = Self.text(content.bytes(at: 0, count: 64))
            case 0xE0:
                EBMLReader(content).forEach { id, content in
                    if id == 0xB0, width == nil {
                        width = content.big(0, Int(min(content.size, 4))).map { Int($0) }
                    }
                    if id == 0xBA, height == nil {
                        height = content.big(0, Int(min(content.size, 4))).map { Int($0) }
                    }
                    return true
                }
            case 0xE1:
                EBMLReader(content).forEach { id, content in
                    if id == 0xB5 {
                        sampleRate = Self.float(content).flatMap { $0 > 0 && $0 < 1e8 ? Int($0) : nil }
                    }
                    if id == 0x9F { channels = content.big(0, 1).map { Int($0) } }
                    return true
                }
            default: break
            }
            return true
        }
        let name = codec.map { Self.codecs[$0] ?? $0 }
        if kind == 1, videoCodec == nil { videoCodec = name }
        if kind == 2, audioCodec == nil { audioCodec = name }
    }

    private static func float(_ source: any ByteSource) -> Double? {
        switch source.size {
        case 4: source.big(0, 4).map { Double(Float(bitPattern: UInt32($0))) }
        case 8: source.big(0, 8).map { Double(bitPattern: $0) }
        default: nil
        }
    }

    // MARK: - Sound

    private mutating func readWAVE(_ source: any ByteSource) {
        format = "WAV"
        var (at, rate): (UInt64, UInt64) = (12, 0)
        for _ in 0..<256 {
            guard let kind = source.code(at), let length = source.little(at + 4, 4) else { return }
            if kind == "fmt " {
                audioCodec = source.little(at + 8, 2) == 1 ? "PCM" : nil
                channels = source.little(at + 10, 2).map { Int($0) }
                sampleRate = source.little(at + 12, 4).map { Int($0) }
                rate = source.little(at + 16, 4) ?? 0
            } else if kind == "data" {
                duration = Self.milliseconds(length, perSecond: rate)
                return
            }
            at += 8 + length + length % 2
        }
    }

    private mutating func readFLAC(_ source: any ByteSource) {
        (format, audioCodec) = ("FLAC", "FLAC")
        var at: UInt64 = 4
        for _ in 0..<128 {
            guard let head = source.big(at, 1), let length = source.big(at + 1, 3) else { return }
            if head & 0x7F == 0, let bits = source.big(at + 14, 8) {
                let rate = bits >> 44
                sampleRate = Int(rate)
                channels = Int(bits >> 41 & 7) + 1
                duration = Self.milliseconds(bits & 0xF_FFFF_FFFF, perSecond: rate)
            } else if head & 0x7F == 4 {
                readComments(SourceSlice(source, from: at + 4, size: length))
            }
            if head & 0x80 != 0 { return }
            at += 4 + length
        }
    }

    /// The comments of Vorbis, which FLAC and Opus have, too: `TITLE=…`.
    private mutating func readComments(_ source: any ByteSource) {
        guard let vendor = source.little(0, 4), let count = source.little(4 + vendor, 4) else { return }
        var at = 8 + vendor
        for _ in 0..<min(count, 256) {
            guard let length = source.little(at, 4) else { return }
            let comment = source.bytes(at: at + 4, count: Int(min(length, 512)))
            if let mark = comment.firstIndex(of: UInt8(ascii: "=")) {
                let text = Self.text(comment[(mark + 1)...])
                switch String(decoding: comment[..<mark], as: UTF8.self).lowercased() {
                case "title": title = title ?? text
                case "artist": author = author ?? text
                case "album": album = album ?? text
                default: break
                }
            }
            at += 4 + length
        }
    }

    private mutating func readOgg(_ source: any ByteSource) {
        format = "Ogg"
        // The head of a page is 27 bytes and a table of as many as the last of them says; then comes the first packet.
        func packet(_ page: UInt64) -> UInt64? { source.big(page + 26, 1).map { page + 27 + $0 } }
        guard let first = packet(0) else { return }
        var rate: UInt64 = 0
        let head = source.bytes(at: first, count: 8)
        if head.starts(with: Array("\u{1}vorbis".utf8)) {
            audioCodec = "Vorbis"
            channels = source.big(first + 11, 1).map { Int($0) }
            rate = source.little(first + 12, 4) ?? 0
            sampleRate = Int(rate)
        } else if head == Array("OpusHead".utf8) {
            audioCodec = "Opus"
            channels = source.big(first + 9, 1).map { Int($0) }
            // Whatever went in, its positions count 48,000 a second.
            (rate, sampleRate) = (48_000, 48_000)
        }
        if let segments = source.big(26, 1) {
            let table = source.bytes(at: 27, count: Int(segments))
            let second = first + table.reduce(0) { $0 + UInt64($1) }
            if source.code(second) == "OggS", let start = packet(second) {
                let mark: UInt64 = source.bytes(at: start, count: 8) == Array("OpusTags".utf8) ? 8 : 7
                readComments(SourceSlice(source, from: start + mark, size: 65_536))
            }
        }
        // The position of the last page.
        let tail = source.bytes(at: source.size - min(source.size, 65_536), count: 65_536)
        var at = tail.count - 14
        while at >= 0 {
            if tail[at] == 0x4F, tail[at...].starts(with: Array("OggS".utf8)) {
                let units = MemorySource(tail).little(UInt64(at) + 6, 8)
                duration = units.flatMap { Self.milliseconds($0, perSecond: rate) }
                return
            }
            at -= 1
        }
    }

    private mutating func readMP3(_ source: any ByteSource) -> Bool {
        var at: UInt64 = 0
        if source.bytes(at: 0, count: 3) == Array("ID3".utf8) {
            let size = source.bytes(at: 6, count: 4).reduce(UInt64(0)) { $0 << 7 | UInt64($1 & 0x7F) }
            readID3(SourceSlice(source, from: 10, size: size), version: source.big(3, 1) ?? 0)
            at = 10 + size
        }
        // The first frame may come after a few bytes of nothing.
        let head = source.bytes(at: at, count: 8_192)
        guard head.count > 4 else { return false }
        for start in 0..<(head.count - 4) where head[start] == 0xFF && head[start + 1] & 0xE6 == 0xE2 {
            let (version, bitRate, rate) = (head[start + 1] >> 3 & 3, head[start + 2] >> 4, head[start + 2] >> 2 & 3)
            guard version != 1, bitRate > 0, bitRate < 15, rate < 3 else { continue }
            let isFirst = version == 3
            // The later versions halve and quarter those of the first.
            let rates = [44_100, 48_000, 32_000].map { isFirst ? $0 : version == 2 ? $0 / 2 : $0 / 4 }
            let bitRates =
                isFirst
                ? [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
                : [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
            let isMono = head[start + 3] >> 6 == 3
            (format, audioCodec, sampleRate, channels) = ("MP3", "MP3", rates[Int(rate)], isMono ? 1 : 2)
            let frame = at + UInt64(start)
            // Where the rate varies, the first frame says how many there are.
            let mark = frame + 4 + (isFirst ? isMono ? 17 : 32 : isMono ? 9 : 17)
            if let code = source.code(mark), code == "Xing" || code == "Info", let flags = source.big(mark + 4, 4),
                flags & 1 == 1, let frames = source.big(mark + 8, 4)
            {
                duration = Self.milliseconds(frames * (isFirst ? 1_152 : 576), perSecond: UInt64(rates[Int(rate)]))
            } else {
                duration = Self.milliseconds(source.size - frame, perSecond: UInt64(bitRates[Int(bitRate)]) * 125)
            }
            return true
        }
        return false
    }

    private mutating func readID3(_ source: any ByteSource, version: UInt64) {
        // The older form has names of three letters.
        guard version == 3 || version == 4 else { return }
        var at: UInt64 = 0
        for _ in 0..<256 {
            guard let name = source.code(at), name.utf8.first != 0, let plain = source.big(at + 4, 4) else { return }
            let size =
                version == 3
                ? plain : source.bytes(at: at + 4, count: 4).reduce(UInt64(0)) { $0 << 7 | UInt64($1 & 0x7F) }
            if ["TIT2", "TPE1", "TALB"].contains(name) {
                let bytes = source.bytes(at: at + 10, count: Int(min(size, 512)))
                let text: String? =
                    switch bytes.first {
                    case 1: TextDecoding.text(Array(bytes.dropFirst())).flatMap { Self.plain($0) }
                    case 2: TextDecoding.text([0xFE, 0xFF] + bytes.dropFirst()).flatMap { Self.plain($0) }
                    default: Self.text(bytes.dropFirst())
                    }
                switch name {
                case "TIT2": title = text
                case "TPE1": author = text
                default: album = text
                }
            }
            let (next, isTooLarge) = at.addingReportingOverflow(10 + size)
            guard !isTooLarge else { return }
            at = next
        }
    }
}

/// Reads the elements of EBML (RFC 8794): a number, a size, content.
struct EBMLReader {
    /// The most elements that are looked at in one.
    private static let limit = 1_024

    private let source: any ByteSource

    init(_ source: any ByteSource) { self.source = source }

    /// Calls back for each element, in their order, as long as the callback wants more.
    func forEach(_ body: (UInt64, any ByteSource) -> Bool) {
        var at: UInt64 = 0
        for _ in 0..<Self.limit {
            guard at < source.size, let id = number(at, keepsMark: true),
                let size = number(at + id.length, keepsMark: false)
            else { return }
            let start = at + id.length + size.length
            // All ones: nobody knew how long it would be.
            let isOpen = size.value == (1 << (7 * size.length)) - 1
            let content = SourceSlice(source, from: start, size: isOpen ? .max : size.value)
            guard body(id.value, content), !isOpen else { return }
            let (next, isTooLarge) = start.addingReportingOverflow(size.value)
            guard !isTooLarge else { return }
            at = next
        }
    }

    private func number(_ place: UInt64, keepsMark: Bool) -> (value: UInt64, length: UInt64)? {
        guard let first = source.big(place, 1), first > 0 else { return nil }
        let length = UInt8(first).leadingZeroBitCount + 1
        guard let whole = source.big(place, length) else { return nil }
        return (keepsMark ? whole : whole & ((1 << UInt64(7 * length)) - 1), UInt64(length))
    }
}
