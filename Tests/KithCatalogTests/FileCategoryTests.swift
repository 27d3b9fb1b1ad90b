import Foundation
import Testing

@testable import KithCatalog

@Suite struct FileCategoryTests {
    @Test func `every extension stands once, in lower case and without a dot`() {
        var seen: Set<String> = []
        for (category, names) in FileCategory.extensions {
            for name in names.split(whereSeparator: \.isWhitespace) {
                #expect(seen.insert(String(name)).inserted, "\(name) in \(category)")
                #expect(name == name.lowercased() && !name.contains("."), "\(name)")
                #expect(FileCategory(extension: name) == category)
            }
        }
        #expect(seen.count > 800)
        #expect(Set(FileCategory.extensions.map(\.0)) == Set(FileCategory.allCases).subtracting([.other]))
    }

    @Test(
        arguments: [
            ("jpg", .image), ("HEIC", .image), ("cr3", .image), ("svg", .image), ("mkv", .video), ("mp4", .video),
            ("ts", .code),
            ("flac", .audio), ("mp3", .audio), ("pdf", .document), ("docx", .document), ("ods", .document),
            ("ps", .document),
            ("zip", .archive), ("zst", .archive), ("swift", .code), ("py", .code), ("html", .code), ("json", .code),
            ("md", .text),
            ("txt", .text), ("log", .text), ("epub", .book), ("mobi", .book), ("ttf", .font), ("woff2", .font),
            ("sqlite", .database),
            ("csv", .database), ("exe", .executable), ("deb", .executable), ("iso", .disk), ("dmg", .disk),
            ("qcow2", .disk),
            ("stl", .model), ("blend", .model), ("dwg", .model), ("", .other), ("nosuchthing", .other),
        ] as [(String, FileCategory)])
    func `an extension stands for what most people take it for`(_ name: String, _ category: FileCategory) {
        #expect(FileCategory(extension: name) == category)
    }

    private static func zip(_ files: [(name: String, content: String)]) -> [UInt8] {
        files.flatMap { file -> [UInt8] in
            let size = UInt8(file.content.utf8.count)
            let sizes: [UInt8] = [size, 0, 0, 0, size, 0, 0, 0, UInt8(file.name.utf8.count), 0, 0, 0]
            return Array("PK\u{3}\u{4}".utf8) + [UInt8](repeating: 0, count: 14) + sizes + Array(file.name.utf8)
                + Array(file.content.utf8)
        }
    }

    private static func at(_ offset: Int, _ text: String) -> [UInt8] {
        [UInt8](repeating: 0, count: offset) + Array(text.utf8)
    }

    @Test(
        arguments: [
            ([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], .image, "image/png"),
            ([0xFF, 0xD8, 0xFF, 0xE0], .image, "image/jpeg"),
            (Array("GIF89a".utf8), .image, "image/gif"), (Array("RIFF....WEBPVP8 ".utf8), .image, "image/webp"),
            (Array("RIFF....WAVEfmt ".utf8), .audio, "audio/wav"),
            (Array("RIFF....AVI LIST".utf8), .video, "video/x-msvideo"),
            (Array("\0\0\0\u{18}ftypheic".utf8), .image, "image/heic"),
            (Array("\0\0\0\u{18}ftypavif".utf8), .image, "image/avif"),
            (Array("\0\0\0\u{18}ftypisom".utf8), .video, "video/mp4"),
            (Array("\0\0\0\u{18}ftypqt  ".utf8), .video, "video/quicktime"),
            (Array("\0\0\0\u{18}ftypM4A ".utf8), .audio, "audio/mp4"),
            (Array("\0\0\0\u{8}moov".utf8), .video, "video/quicktime"),
            (Array("II*\0\u{8}\0\0\0".utf8), .image, "image/tiff"), (Array("MM\0*".utf8), .image, "image/tiff"),
            (Array("%PDF-1.7".utf8), .document, "application/pdf"),
            (Array("%!PS-Adobe-3.0".utf8), .document, "application/postscript"),
            (Array("%!PS-AdobeFont-1.0".utf8), .font, "application/x-font-type1"),
            (zip([("a.txt", "a")]), .archive, "application/zip"),
            (Array("PK\u{5}\u{6}".utf8), .archive, "application/zip"),
            (
                zip([("[Content_Types].xml", "x"), ("word/document.xml", "x")]), .document,
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
            ),
            (
                zip([("_rels/.rels", "x"), ("docProps/app.xml", "x"), ("xl/workbook.xml", "x")]), .document,
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
            ),
            (
                zip([("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", "x")]), .document,
                "application/vnd.oasis.opendocument.text"
            ),
            (zip([("mimetype", "application/epub+zip")]), .book, "application/epub+zip"),
            (zip([("META-INF/MANIFEST.MF", "x")]), .executable, "application/java-archive"),
            ([0x1F, 0x8B, 8], .archive, "application/gzip"),
            ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0], .archive, "application/x-xz"),
            ([0x28, 0xB5, 0x2F, 0xFD], .archive, "application/zstd"),
            (Array("BZh91AY".utf8), .archive, "application/x-bzip2"),
            ([0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C], .archive, "application/x-7z-compressed"),
            (Array("Rar!\u{1A}\u{7}\0".utf8), .archive, "application/vnd.rar"),
            (at(257, "ustar"), .archive, "application/x-tar"),
            (Array("\u{7F}ELF".utf8), .executable, "application/x-elf"),
            ([0xCF, 0xFA, 0xED, 0xFE], .executable, "application/x-mach-binary"),
            ([0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 2], .executable, "application/x-mach-binary"),
            ([0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 52], .executable, "application/java-vm"),
            (
                Array("MZ".utf8) + [UInt8](repeating: 0, count: 64), .executable,
                "application/vnd.microsoft.portable-executable"
            ),
            (Array("SQLite format 3\0".utf8), .database, "application/vnd.sqlite3"),
            ([0x1A, 0x45, 0xDF, 0xA3, 0x9F, 0x42, 0x82, 0x88] + Array("matroska".utf8), .video, "video/matroska"),
            ([0x1A, 0x45, 0xDF, 0xA3, 0x9F, 0x42, 0x82, 0x84] + Array("webm".utf8), .video, "video/webm"),
            (Array("fLaC".utf8), .audio, "audio/flac"), (Array("OggS".utf8), .audio, "audio/ogg"),
            (
                Array("OggS".utf8) + [UInt8](repeating: 0, count: 24) + [0x80] + Array("theora".utf8), .video,
                "video/ogg"
            ),
            (Array("ID3\u{4}".utf8), .audio, "audio/mpeg"), ([0xFF, 0xFB, 0x90, 0x64], .audio, "audio/mpeg"),
            ([0xFF, 0xF1, 0x50, 0x80], .audio, "audio/aac"), (Array("MThd".utf8), .audio, "audio/midi"),
            (Array("FORM....AIFF".utf8), .audio, "audio/aiff"), ([0, 1, 0, 0, 0, 0x0F], .font, "font/ttf"),
            (Array("OTTO".utf8), .font, "font/otf"),
            (Array("wOF2".utf8), .font, "font/woff2"), (at(32_769, "CD001"), .disk, "application/vnd.efi.iso"),
            ([0x51, 0x46, 0x49, 0xFB], .disk, "application/x-qemu-disk"),
            (at(60, "BOOKMOBI"), .book, "application/x-mobipocket-ebook"),
            (Array("glTF".utf8), .model, "model/gltf-binary"), (Array("#!/bin/sh\n".utf8), .code, "application/x-sh"),
            (Array("#!/usr/bin/env python3\n".utf8), .code, "text/x-python"),
            (Array("#!/usr/bin/env -S perl -w\n".utf8), .code, "text/x-perl"),
            (Array("#!/opt/x\n".utf8), .code, "text/x-script"),
            (Array("<?xml version=\"1.0\"?><a/>".utf8), .code, "application/xml"),
            (Array("<?xml version=\"1.0\"?>\n<svg/>".utf8), .image, "image/svg+xml"),
            (Array("<!DOCTYPE html>".utf8), .code, "text/html"),
            (Array("\u{FEFF}<html>".utf8), .code, "text/html"), (Array("plain text, é\n".utf8), .text, "text/plain"),
            ([0xFF, 0xFE, 0x41, 0], .text, "text/plain; charset=utf-16"),
            (Array("-----BEGIN KEY".utf8), .text, "application/x-pem-file"),
        ] as [([UInt8], FileCategory, String)])
    func `the first bytes of a file show what it is`(_ bytes: [UInt8], _ category: FileCategory, _ type: String) {
        #expect(FileSignature(bytes) == FileSignature(category, type))
        #expect(FileCategory(magic: bytes) == category)
    }

    @Test func `other bytes show nothing`() {
        for bytes in [[], [0], [1, 2, 3], [0xE9, 0x74, 0xE9], [0x50, 0x4B, 0], [UInt8](repeating: 0, count: 40_000)]
            as [[UInt8]]
        {
            #expect(FileSignature(bytes) == nil, "\(bytes.prefix(8))")
        }
    }

    @Test func `a long text may be cut within a letter`() {
        for cut in 0..<4 {
            let text = Array((String(repeating: "x", count: cut) + String(repeating: "🙂", count: 2_000)).utf8)
            #expect(FileSignature(text)?.mediaType == "text/plain")
        }
        #expect(FileSignature(Array("aé".utf8.dropLast())) == nil)
    }

    @Test func `no beginning of any mark makes it fail`() {
        for mark in [
            "PK\u{3}\u{4}", "RIFF", "FORM", "OggS", "MZ", "BM", "%!PS-AdobeFont", "\0\0\0\u{18}ftyp", "<?xml", "#!",
            "\0\0\u{1}\0",
        ] {
            for length in 0..<300 {
                for byte in [0, 0x41, 0xFF] as [UInt8] {
                    let bytes = Array(mark.utf8) + [UInt8](repeating: byte, count: length)
                    let found = FileSignature(bytes)
                    #expect(found == nil || found?.mediaType.contains("/") == true)
                }
            }
        }
    }
}
