#if os(Linux)
import Foundation
import KithContent
import KithTesting
import Testing

@testable import KithExtractor

/// Formats that are read by our own code in the confined process: GIF, and ZIP archives of more than 4 GiB.
@Suite(.timeLimit(.minutes(4))) struct FormatTests {
    private func read(
        _ bytes: [UInt8], _ wanted: WantedContent, side: Int = 256
    ) async throws -> ContentExtractor.Result {
        let folder = try TemporaryFolder()
        let path = folder.path + "/file"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        let extractor = ContentExtractor(path: builtProgram("kith-extract"))
        defer { extractor.close() }
        return try await extractor.read(file.fileDescriptor, wanted, side: side)
    }

    // MARK: - GIF

    /// A GIF of pictures of one colour each: palette 0 red, 1 blue; its codes are never longer than three bits.
    private static func gif(_ width: Int, _ height: Int, colors: [UInt8]) -> [UInt8] {
        var bytes = Array("GIF89a".utf8) + Samples.little(width, 2) + Samples.little(height, 2) + [0x81, 0, 0]
        bytes += [255, 0, 0, 0, 0, 255, 0, 255, 0, 255, 255, 255]
        for color in colors {
            bytes += [0x2C] + [UInt8](repeating: 0, count: 4) + Samples.little(width, 2) + Samples.little(height, 2)
            bytes += [0, 2]
            // Clear before each two pixels: no code grows.
            var codes: [Int] = []
            for pixel in 0..<width * height {
                if pixel % 2 == 0 { codes.append(4) }
                codes.append(Int(color))
            }
            codes.append(5)
            var (held, count, packed) = (0, 0, [UInt8]())
            for code in codes {
                held |= code << count
                count += 3
                while count >= 8 {
                    packed.append(UInt8(held & 0xFF))
                    (held, count) = (held >> 8, count - 8)
                }
            }
            if count > 0 { packed.append(UInt8(held & 0xFF)) }
            for start in stride(from: 0, to: packed.count, by: 255) {
                let block = packed[start..<min(start + 255, packed.count)]
                bytes += [UInt8(block.count)] + block
            }
            bytes.append(0)
        }
        return bytes + [0x3B]
    }

    @Test func `a GIF has a thumbnail of its first picture`() async throws {
        let result = try await read(Self.gif(80, 40, colors: [1, 0]), [.properties, .thumbnail], side: 40)
        #expect(result.content.properties.format == "GIF" && result.content.properties.width == 80)
        let thumbnail = try #require(result.thumbnail, "\(result.failure ?? "")")
        #expect(thumbnail.width == 40 && thumbnail.height == 20)
        // Blue, as the first one is: of the two pictures the decoder of the previews says the same.
        let picture = try GIFImage.decode(Self.gif(80, 40, colors: [1, 0]))
        #expect(Array(picture.pixels.prefix(3)) == [0, 0, 255])
        #expect(thumbnail.bytes.starts(with: [0xFF, 0xD8, 0xFF]))
    }

    @Test func `a GIF that is cut, or says it is huge, has none, and harms nobody`() async throws {
        let whole = Self.gif(30, 30, colors: [0])
        let cut = try await read(Array(whole.prefix(60)), [.thumbnail])
        #expect(cut.thumbnail == nil && cut.failure == "it is damaged")
        var huge = whole
        huge.replaceSubrange(6..<10, with: [0xFF, 0xFF, 0xFF, 0xFF])
        #expect(try await read(huge, [.thumbnail]).failure == "it has more pixels than are worth the time")
    }

    // MARK: - Zip64

    /// An archive with one stored file whose sizes and offset, and whose directory's, are in the fields of Zip64.
    private static func zip64(_ name: String, _ content: [UInt8], recordAt wrong: UInt64? = nil) -> [UInt8] {
        let (all, name) = ([UInt8](repeating: 0xFF, count: 4), Array(name.utf8))
        var body = [0x50, 0x4B, 3, 4] + Samples.little(45, 2) + Samples.little(0, 12)
        body += Samples.little(content.count, 4) + Samples.little(content.count, 4)
        body += Samples.little(name.count, 2) + Samples.little(0, 2) + name + content
        let extra =
            Samples.little(0x9999, 2) + Samples.little(2, 2) + [7, 7] + Samples.little(1, 2) + Samples.little(24, 2)
            + Samples.little(content.count, 8) + Samples.little(content.count, 8) + Samples.little(0, 8)
        var directory = [0x50, 0x4B, 1, 2] + Samples.little(45, 2) + Samples.little(45, 2) + Samples.little(0, 12)
        directory += all + all + Samples.little(name.count, 2) + Samples.little(extra.count, 2)
        directory += Samples.little(0, 10) + all + name + extra
        let record =
            [0x50, 0x4B, 6, 6] + Samples.little(44, 8) + Samples.little(45, 2) + Samples.little(45, 2)
            + Samples.little(0, 8) + Samples.little(1, 8) + Samples.little(1, 8) + Samples.little(directory.count, 8)
            + Samples.little(body.count, 8)
        let place = wrong ?? UInt64(body.count + directory.count)
        let locator =
            [0x50, 0x4B, 6, 7] + Samples.little(0, 4) + (0..<8).map { UInt8(truncatingIfNeeded: place >> (8 * $0)) }
            + Samples.little(1, 4)
        return body + directory + record + locator + [0x50, 0x4B, 5, 6] + Samples.little(0, 4) + [
            0xFF, 0xFF, 0xFF, 0xFF,
        ]
            + all + all + Samples.little(0, 2)
    }

    @Test func `a document in a ZIP archive with Zip64 fields is read`() async throws {
        let xml = "<?xml version=\"1.0\"?><w:document><w:body><w:p><w:t>large words</w:t></w:p></w:body></w:document>"
        let archive = Self.zip64("word/document.xml", Array(xml.utf8))
        #expect(try await read(archive, [.text]).content.text == "large words")
        // As another program reads it.
        let folder = try TemporaryFolder()
        try Data(archive).write(to: URL(fileURLWithPath: folder.path + "/a.zip"))
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = [
            "-c", "import sys, zipfile; sys.stdout.write(zipfile.ZipFile(sys.argv[1]).namelist()[0])",
            folder.path + "/a.zip",
        ]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let said = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(String(decoding: said, as: UTF8.self) == "word/document.xml")
    }

    @Test(arguments: [UInt64.max, UInt64.max - 39, UInt64(1) << 63, 0, 5] as [UInt64])
    func `numbers of Zip64 that lead nowhere are no archive`(place: UInt64) async throws {
        let archive = Self.zip64("word/document.xml", Array("<x>words</x>".utf8), recordAt: place)
        #expect(try await read(archive, [.text]).content.text == nil)
    }
}
#endif
