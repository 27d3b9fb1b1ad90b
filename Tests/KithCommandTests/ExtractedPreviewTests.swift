#if os(Linux)
import Foundation
import KithBrowser
import KithContent
import KithTesting
import Testing

@testable import KithCommand

/// Previews of `kith browse` by the confined process that reads files.
@Suite(.timeLimit(.minutes(4))) struct ExtractedPreviewTests {
    private let program = Machine.program.deletingLastPathComponent().appendingPathComponent("kith-extract").path

    private func made(_ script: String) throws -> [UInt8] {
        let folder = try TemporaryFolder()
        _ = try local(["python3", "-c", "import struct, sys, zipfile\npath = '\(folder.path)/file'\n" + script])
        return [UInt8](try Data(contentsOf: URL(fileURLWithPath: folder.path + "/file")))
    }

    @Test func `a document is shown as its text`() async throws {
        let bytes = try made(
            """
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("word/document.xml", "<w:document><w:p><w:t>Dear Ana</w:t></w:p></w:document>")
            """)
        let previews = ExtractedPreview(program: program)
        #expect(previews.wantsWhole(Array(bytes.prefix(64)), size: UInt64(bytes.count)))
        guard case .text(let lines)? = try await previews.preview(of: bytes) else {
            Issue.record("it has no text")
            return
        }
        #expect(lines.first?.map(\.text).joined() == "Dear Ana")
    }

    @Test func `a picture that the browser does not decode is shown as one`() async throws {
        // A TIFF of 8 by 4 pixels, green.
        let bytes = try made(
            """
            pixels = b"\\0\\xff\\0" * 32
            entries = [(256, 3, 1, 8), (257, 3, 1, 4), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 2),
                       (273, 4, 1, 8), (277, 3, 1, 3), (278, 3, 1, 4), (279, 4, 1, 96), (284, 3, 1, 1)]
            data = b"II*\\0" + struct.pack("<I", 8 + len(pixels)) + pixels + struct.pack("<H", len(entries))
            for tag, kind, count, value in entries:
                data += struct.pack("<HHII", tag, kind, count, value)
            open(path, "wb").write(data + b"\\0" * 4)
            """)
        guard case .picture(let picture, let about)? = try await ExtractedPreview(program: program).preview(of: bytes)
        else {
            Issue.record("it is not shown")
            return
        }
        #expect(about == "TIFF image, 8 × 4" || about == "TIFF image")
        #expect(picture.width == 8 && picture.height == 4)
        #expect(picture.pixels[1] > 200 && picture.pixels[0] < 60 && picture.pixels[2] < 60)
    }

    @Test func `what is damaged, or nobody can read, has none and is shown as before`() async throws {
        let previews = ExtractedPreview(program: program)
        #expect(try await previews.preview(of: Array("%PDF-1.7 and then nothing".utf8)) == nil)
        #expect(try await previews.preview(of: [0x50, 0x4B, 3, 4, 0, 0]) == nil)
        #expect(try await previews.preview(of: Array("plain words".utf8)) == nil)
        let none = ExtractedPreview(program: nil)
        #expect(!none.wantsWhole(Array("%PDF-1.7".utf8), size: 8))
        let lost = ExtractedPreview(program: "/nonexistent/kith-extract")
        #expect(try await lost.preview(of: Array("%PDF-1.7".utf8)) == nil)
    }
}
#endif
