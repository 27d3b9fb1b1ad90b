/// What the first bytes of a file show it to be.
///
/// The bytes are a hint, not a proof: whoever writes a file chooses them.
package struct FileSignature: Hashable, Sendable {
    /// The number of bytes from the start of a file that show the most: those up to the mark of an ISO 9660 image.
    package static let wantedLength = 32_774
    /// The number of bytes that show all but the image of a disk.
    package static let commonLength = 4_096

    /// What the file is for.
    package let category: FileCategory
    /// Its media type (RFC 6838), such as `image/png`.
    package let mediaType: String

    init(_ category: FileCategory, _ mediaType: String) {
        self.category = category
        self.mediaType = mediaType
    }

    /// Reads the first bytes of a file; `nil` when they show nothing.
    package init?(_ bytes: [UInt8]) {
        guard let found = Self.marked(bytes) ?? Self.contained(bytes) ?? Self.written(bytes) else { return nil }
        self = found
    }

    // MARK: - Marks

    private struct Mark: Sendable {
        var offset: Int
        var bytes: [UInt8]
        var signature: FileSignature

        init(_ bytes: [UInt8], at offset: Int = 0, _ category: FileCategory, _ mediaType: String) {
            self.bytes = bytes
            self.offset = offset
            signature = FileSignature(category, mediaType)
        }

        init(_ text: String, at offset: Int = 0, _ category: FileCategory, _ mediaType: String) {
            self.init(Array(text.utf8), at: offset, category, mediaType)
        }
    }

    /// Bytes that stand at one place in every file of a type; the first that fits counts.
    private static let marks: [Mark] = [
        Mark([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], .image, "image/png"),
        Mark([0xFF, 0xD8, 0xFF], .image, "image/jpeg"),
        Mark("GIF87a", .image, "image/gif"), Mark("GIF89a", .image, "image/gif"),
        Mark([0x49, 0x49, 0x2A, 0x00, 0x10, 0x00, 0x00, 0x00, 0x43, 0x52], .image, "image/x-canon-cr2"),
        Mark([0x49, 0x49, 0x2A, 0x00], .image, "image/tiff"), Mark([0x4D, 0x4D, 0x00, 0x2A], .image, "image/tiff"),
        Mark([0x49, 0x49, 0x2B, 0x00], .image, "image/tiff"), Mark([0x4D, 0x4D, 0x00, 0x2B], .image, "image/tiff"),
        Mark("IIRO", .image, "image/x-olympus-orf"), Mark("IIRS", .image, "image/x-olympus-orf"),
        Mark([0x49, 0x49, 0x55, 0x00], .image, "image/x-panasonic-rw2"),
        Mark("FUJIFILMCCD-RAW", .image, "image/x-fuji-raf"), Mark("FOVb", .image, "image/x-sigma-x3f"),
        Mark([0x49, 0x49, 0xBC, 0x01], .image, "image/jxr"),
        Mark("8BPS", .image, "image/vnd.adobe.photoshop"), Mark("gimp xcf", .image, "image/x-xcf"),
        Mark([0x00, 0x00, 0x00, 0x0C, 0x6A, 0x50, 0x20, 0x20, 0x0D, 0x0A, 0x87, 0x0A], .image, "image/jp2"),
        Mark([0xFF, 0x4F, 0xFF, 0x51], .image, "image/x-jp2-codestream"),
        Mark([0x00, 0x00, 0x00, 0x0C, 0x4A, 0x58, 0x4C, 0x20, 0x0D, 0x0A, 0x87, 0x0A], .image, "image/jxl"),
        Mark([0xFF, 0x0A], .image, "image/jxl"), Mark("qoif", .image, "image/qoi"),
        Mark([0x76, 0x2F, 0x31, 0x01], .image, "image/x-exr"), Mark("#?RADIANCE", .image, "image/vnd.radiance"),
        Mark("DDS ", .image, "image/vnd-ms.dds"), Mark("icns", .image, "image/x-icns"),
        Mark([0xC5, 0xD0, 0xD3, 0xC6], .image, "image/x-eps"),
        Mark("AT&TFORM", .book, "image/vnd.djvu"),
        Mark("%PDF-", .document, "application/pdf"), Mark("%!PS", .document, "application/postscript"),
        Mark("{\\rtf", .document, "application/rtf"),
        Mark([0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1], .document, "application/x-ole-storage"),
        Mark([0x1F, 0x8B], .archive, "application/gzip"), Mark([0x1F, 0x9D], .archive, "application/x-compress"),
        Mark([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], .archive, "application/x-xz"),
        Mark([0x28, 0xB5, 0x2F, 0xFD], .archive, "application/zstd"),
        Mark([0x04, 0x22, 0x4D, 0x18], .archive, "application/x-lz4"), Mark("LZIP", .archive, "application/x-lzip"),
        Mark("BZh", .archive, "application/x-bzip2"),
        Mark([0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C], .archive, "application/x-7z-compressed"),
        Mark([0x52, 0x61, 0x72, 0x21, 0x1A, 0x07], .archive, "application/vnd.rar"),
        Mark("MSCF\0\0\0\0", .archive, "application/vnd.ms-cab-compressed"),
        Mark("xar!", .archive, "application/x-xar"), Mark([0x60, 0xEA], .archive, "application/x-arj"),
        Mark("070701", .archive, "application/x-cpio"), Mark("070707", .archive, "application/x-cpio"),
        Mark("!<arch>\ndebian-binary", .executable, "application/vnd.debian.binary-package"),
        Mark("!<arch>\n", .executable, "application/x-archive"),
        Mark([0xED, 0xAB, 0xEE, 0xDB], .executable, "application/x-rpm"),
        Mark("hsqs", .disk, "application/vnd.squashfs"),
        Mark("ustar", at: 257, .archive, "application/x-tar"),
        Mark([0x7F, 0x45, 0x4C, 0x46], .executable, "application/x-elf"),
        Mark([0xFE, 0xED, 0xFA, 0xCE], .executable, "application/x-mach-binary"),
        Mark([0xFE, 0xED, 0xFA, 0xCF], .executable, "application/x-mach-binary"),
        Mark([0xCE, 0xFA, 0xED, 0xFE], .executable, "application/x-mach-binary"),
        Mark([0xCF, 0xFA, 0xED, 0xFE], .executable, "application/x-mach-binary"),
        Mark([0x00, 0x61, 0x73, 0x6D], .executable, "application/wasm"),
        Mark("dex\n", .executable, "application/x-dex"),
        Mark("SQLite format 3\0", .database, "application/vnd.sqlite3"),
        Mark([0x89, 0x48, 0x44, 0x46, 0x0D, 0x0A, 0x1A, 0x0A], .database, "application/x-hdf5"),
        Mark("PAR1", .database, "application/vnd.apache.parquet"),
        Mark("\0\u{1}\0\0Standard Jet DB", .database, "application/vnd.ms-access"),
        Mark("\0\u{1}\0\0Standard ACE DB", .database, "application/vnd.ms-access"),
        Mark([0x03, 0xD9, 0xA2, 0x9A], .database, "application/x-keepass2"),
        Mark([0x1A, 0x45, 0xDF, 0xA3], .video, "video/matroska"),
        Mark("FLV\u{1}", .video, "video/x-flv"), Mark([0x00, 0x00, 0x01, 0xBA], .video, "video/mpeg"),
        Mark([0x00, 0x00, 0x01, 0xB3], .video, "video/mpeg"),
        Mark([0x30, 0x26, 0xB2, 0x75, 0x8E, 0x66, 0xCF, 0x11], .video, "video/x-ms-asf"),
        Mark(".RMF", .video, "application/vnd.rn-realmedia"),
        Mark("fLaC", .audio, "audio/flac"), Mark("ID3", .audio, "audio/mpeg"), Mark("MThd", .audio, "audio/midi"),
        Mark("#!AMR", .audio, "audio/amr"), Mark(".snd", .audio, "audio/basic"), Mark("caff", .audio, "audio/x-caf"),
        Mark("wvpk", .audio, "audio/x-wavpack"), Mark("MAC ", .audio, "audio/x-ape"),
        Mark("DSD ", .audio, "audio/x-dsf"),
        Mark("MPCK", .audio, "audio/x-musepack"), Mark("MP+", .audio, "audio/x-musepack"),
        Mark("wOFF", .font, "font/woff"), Mark("wOF2", .font, "font/woff2"), Mark("OTTO", .font, "font/otf"),
        Mark([0x00, 0x01, 0x00, 0x00, 0x00], .font, "font/ttf"), Mark("true\0", .font, "font/ttf"),
        Mark("ttcf", .font, "font/collection"), Mark("%!PS-AdobeFont", .font, "application/x-font-type1"),
        Mark("BOOKMOBI", at: 60, .book, "application/x-mobipocket-ebook"),
        Mark("ITSF", .book, "application/vnd.ms-htmlhelp"),
        Mark([0x51, 0x46, 0x49, 0xFB], .disk, "application/x-qemu-disk"), Mark("KDMV", .disk, "application/x-vmdk"),
        Mark("vhdxfile", .disk, "application/x-vhdx"), Mark("conectix", .disk, "application/x-vhd"),
        Mark("<<< Oracle VM VirtualBox", .disk, "application/x-virtualbox-vdi"),
        Mark("CD001", at: 32_769, .disk, "application/vnd.efi.iso"),
        Mark("glTF", .model, "model/gltf-binary"), Mark("BLENDER", .model, "application/x-blender"),
        Mark("Kaydara FBX Binary", .model, "application/vnd.autodesk.fbx"),
        Mark("ISO-10303-21;", .model, "model/step"), Mark("ply\n", .model, "model/ply"),
        Mark("AC10", .model, "image/vnd.dwg"),
        Mark("-----BEGIN ", .text, "application/x-pem-file"), Mark("BEGIN:VCARD", .text, "text/vcard"),
        Mark("BEGIN:VCALENDAR", .text, "text/calendar"),
    ]

    private static func has(_ mark: [UInt8], at offset: Int, _ bytes: [UInt8]) -> Bool {
        bytes.count >= offset + mark.count && bytes[offset..<(offset + mark.count)].elementsEqual(mark)
    }

    private static func has(_ text: String, at offset: Int, _ bytes: [UInt8]) -> Bool {
        has(Array(text.utf8), at: offset, bytes)
    }

    private static func marked(_ bytes: [UInt8]) -> FileSignature? {
        guard var found = marks.first(where: { has($0.bytes, at: $0.offset, bytes) })?.signature else { return nil }
        switch found.mediaType {
        case "application/postscript" where has("%!PS-AdobeFont", at: 0, bytes):
            found = FileSignature(.font, "application/x-font-type1")
        // The name of the format stands in a header whose parts have no fixed place.
        case "video/matroska" where contains("webm", Array(bytes.prefix(64))):
            found = FileSignature(.video, "video/webm")
        default: break
        }
        return found
    }

    // MARK: - Containers

    /// Types whose mark says only what kind of container they are.
    private static func contained(_ bytes: [UInt8]) -> FileSignature? {
        if has("PK\u{3}\u{4}", at: 0, bytes) || has("PK\u{5}\u{6}", at: 0, bytes) { return zipped(bytes) }
        if has("RIFF", at: 0, bytes), bytes.count >= 12 {
            switch String(decoding: bytes[8..<12], as: UTF8.self) {
            case "WEBP": return FileSignature(.image, "image/webp")
            case "WAVE": return FileSignature(.audio, "audio/wav")
            case "AVI ": return FileSignature(.video, "video/x-msvideo")
            case "ACON": return FileSignature(.image, "application/x-navi-animation")
            default: return nil
            }
        }
        if has("FORM", at: 0, bytes), has("AIF", at: 8, bytes) { return FileSignature(.audio, "audio/aiff") }
        if has("ftyp", at: 4, bytes), bytes.count >= 12 { return media(String(decoding: bytes[8..<12], as: UTF8.self)) }
        if has("moov", at: 4, bytes) || has("mdat", at: 4, bytes) { return FileSignature(.video, "video/quicktime") }
        if has("OggS", at: 0, bytes) {
            let isVideo = has([0x80] + Array("theora".utf8), at: 28, bytes)
            return isVideo ? FileSignature(.video, "video/ogg") : FileSignature(.audio, "audio/ogg")
        }
        if has("MZ", at: 0, bytes), bytes.count >= 64 {
            return FileSignature(.executable, "application/vnd.microsoft.portable-executable")
        }
        if has([0xCA, 0xFE, 0xBA, 0xBE], at: 0, bytes), bytes.count >= 8 {
            // A fat binary counts its parts here; a Java class has its version, which is 45 at least.
            return bytes[4..<7].allSatisfy { $0 == 0 } && bytes[7] < 45
                ? FileSignature(.executable, "application/x-mach-binary")
                : FileSignature(.executable, "application/java-vm")
        }
        if has("BM", at: 0, bytes), bytes.count >= 18, [12, 40, 52, 56, 64, 108, 124].contains(bytes[14]),
            bytes[15] == 0
        {
            return FileSignature(.image, "image/bmp")
        }
        if has([0, 0, 1, 0], at: 0, bytes), bytes.count >= 22, bytes[5] == 0, bytes[4] > 0, bytes[9] == 0 {
            return FileSignature(.image, "image/vnd.microsoft.icon")
        }
        if bytes.count >= 189, bytes[0] == 0x47, bytes[188] == 0x47 { return FileSignature(.video, "video/mp2t") }
        // Eleven bits of ones, then a version and a layer that there are.
        if bytes.count >= 4, bytes[0] == 0xFF, bytes[1] & 0xE0 == 0xE0, bytes[1] & 0x18 != 0x08, bytes[1] != 0xFE {
            if bytes[1] & 0xF6 == 0xF0 { return FileSignature(.audio, "audio/aac") }
            let isFrame = bytes[1] & 0x06 != 0 && bytes[2] & 0xF0 != 0xF0 && bytes[2] & 0x0C != 0x0C
            if isFrame { return FileSignature(.audio, "audio/mpeg") }
        }
        return nil
    }

    /// The type of a file of boxes (ISO/IEC 14496-12), by its major brand.
    private static func media(_ brand: String) -> FileSignature {
        switch brand {
        case "heic", "heix", "heim", "heis", "hevc", "hevx": FileSignature(.image, "image/heic")
        case "mif1", "msf1": FileSignature(.image, "image/heif")
        case "avif", "avis": FileSignature(.image, "image/avif")
        case "crx ": FileSignature(.image, "image/x-canon-cr3")
        case "M4A ", "M4B ", "M4P ": FileSignature(.audio, "audio/mp4")
        case "qt  ": FileSignature(.video, "video/quicktime")
        case "3gp4", "3gp5", "3gp6", "3gp7": FileSignature(.video, "video/3gpp")
        case "M4V ": FileSignature(.video, "video/x-m4v")
        default: FileSignature(.video, "video/mp4")
        }
    }

    /// The type of a ZIP, by the names and the first file in it.
    private static func zipped(_ bytes: [UInt8]) -> FileSignature {
        var names: [String] = []
        var offset = 0
        // The names in the first headers that stand in a row are enough: each type has its own at the start.
        while has("PK\u{3}\u{4}", at: offset, bytes), bytes.count >= offset + 30, names.count < 64 {
            func number(_ place: Int, _ count: Int) -> Int {
                (0..<count).reduce(0) { $0 | Int(bytes[offset + place + $1]) << (8 * $1) }
            }
            let (size, length, extra) = (number(18, 4), number(26, 2), number(28, 2))
            let start = offset + 30
            guard bytes.count >= start + length else { break }
            let name = String(decoding: bytes[start..<(start + length)], as: UTF8.self)
            if names.isEmpty, name == "mimetype" {
                let end = min(bytes.count, start + length + extra + min(size, 100))
                if end > start + length + extra {
                    let type = String(decoding: bytes[(start + length + extra)..<end], as: UTF8.self)
                    if let found = typed(type) { return found }
                }
            }
            names.append(name)
            // Sizes may follow the data instead.
            if number(6, 2) & 8 != 0 { break }
            offset = start + length + extra + size
        }
        for (prefix, signature) in zips where names.contains(where: { $0.hasPrefix(prefix) }) { return signature }
        if names.first == "[Content_Types].xml" || names.first == "_rels/.rels" {
            // Which office it is stands further in, where the bytes may still be.
            for (prefix, signature) in zips where contains(prefix, bytes) { return signature }
            return FileSignature(.document, "application/vnd.openxmlformats-officedocument")
        }
        return FileSignature(.archive, "application/zip")
    }

    /// The type of a ZIP that says its own.
    private static func typed(_ type: String) -> FileSignature? {
        if type.hasPrefix("application/epub+zip") { return FileSignature(.book, "application/epub+zip") }
        guard type.hasPrefix("application/vnd.oasis.opendocument.") || type.hasPrefix("application/vnd.sun.xml.") else {
            return nil
        }
        let name = type.utf8.prefix { $0 > 0x20 && $0 < 0x7F }
        let category: FileCategory =
            type.hasPrefix("application/vnd.oasis.opendocument.base")
                || type.hasPrefix("application/vnd.oasis.opendocument.database") ? .database : .document
        return FileSignature(category, String(Substring(name)))
    }

    /// The beginnings of names in a ZIP that show what it is.
    private static let zips: [(String, FileSignature)] = [
        ("word/", FileSignature(.document, "application/vnd.openxmlformats-officedocument.wordprocessingml.document")),
        ("xl/", FileSignature(.document, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")),
        ("ppt/", FileSignature(.document, "application/vnd.openxmlformats-officedocument.presentationml.presentation")),
        ("visio/", FileSignature(.document, "application/vnd.ms-visio.drawing.main+xml")),
        ("AndroidManifest.xml", FileSignature(.executable, "application/vnd.android.package-archive")),
        ("META-INF/MANIFEST.MF", FileSignature(.executable, "application/java-archive")),
        ("Payload/", FileSignature(.executable, "application/x-ios-app")),
        ("3D/", FileSignature(.model, "model/3mf")),
        ("Index/Document.iwa", FileSignature(.document, "application/vnd.apple.iwork")),
    ]

    private static func contains(_ text: String, _ bytes: [UInt8]) -> Bool {
        let wanted = Array(text.utf8)
        return bytes.indices.contains { bytes[$0] == wanted[0] && has(wanted, at: $0, bytes) }
    }

    // MARK: - Text

    /// What a person or a program has written as text.
    private static func written(_ bytes: [UInt8]) -> FileSignature? {
        guard !bytes.isEmpty else { return nil }
        for mark in [[0xFF, 0xFE], [0xFE, 0xFF]] as [[UInt8]] where has(mark, at: 0, bytes) {
            return FileSignature(.text, "text/plain; charset=utf-16")
        }
        var text = bytes.prefix(4_096)
        if has([0xEF, 0xBB, 0xBF], at: 0, bytes) { text = text.dropFirst(3) }
        guard isText(text, isWhole: bytes.count <= 4_096) else { return nil }
        if text.starts(with: Array("#!".utf8)) { return script(text) }
        let start = String(decoding: text.drop { $0 <= 0x20 }.prefix(512), as: UTF8.self).lowercased()
        if start.hasPrefix("<?xml") || start.hasPrefix("<svg") || start.hasPrefix("<!doctype svg") {
            if start.contains("<svg") { return FileSignature(.image, "image/svg+xml") }
            if start.contains("<fictionbook") { return FileSignature(.book, "application/x-fictionbook+xml") }
            if start.contains("<html") { return FileSignature(.code, "application/xhtml+xml") }
            return FileSignature(.code, "application/xml")
        }
        for mark in ["<!doctype html", "<html", "<head", "<body"] where start.hasPrefix(mark) {
            return FileSignature(.code, "text/html")
        }
        return FileSignature(.text, "text/plain")
    }

    /// The type of a text that names its interpreter.
    private static func script(_ text: ArraySlice<UInt8>) -> FileSignature {
        let line = String(decoding: text.dropFirst(2).prefix { $0 != 0x0A }, as: UTF8.self)
        let words = line.split { $0 == " " || $0 == "\t" || $0 == "/" || $0 == "\r" }
        let name = words.last { !$0.hasPrefix("-") } ?? ""
        let types = [
            "sh": "application/x-sh", "bash": "application/x-sh", "dash": "application/x-sh", "zsh": "application/x-sh",
            "ksh": "application/x-sh", "python": "text/x-python", "perl": "text/x-perl", "ruby": "text/x-ruby",
            "node": "text/javascript", "php": "application/x-httpd-php", "swift": "text/x-swift",
        ]
        let plain = String(name.prefix { $0.isLetter })
        return FileSignature(.code, types[plain] ?? "text/x-script")
    }

    /// Tells whether bytes are UTF-8 without control characters but those of text; the last scalar may be cut.
    private static func isText(_ bytes: ArraySlice<UInt8>, isWhole: Bool) -> Bool {
        let isPlain = bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || (0x08...0x0D).contains($0) || $0 == 0x1B }
        guard isPlain, !bytes.isEmpty else { return false }
        if String(validating: bytes, as: UTF8.self) != nil { return true }
        guard !isWhole else { return false }
        return (1...3).contains { String(validating: bytes.dropLast($0), as: UTF8.self) != nil }
    }
}
