#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import Foundation
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// Both clipboards of a screen, both ways, with `xclip` at the other end.
@Suite(.needsX11, .serialized, .timeLimit(.minutes(8))) struct X11ClipboardTests {
    /// Bytes of which no two parts are alike.
    private static func bytes(_ count: Int) -> [UInt8] {
        var generator = SeededRandom(seed: UInt64(count))
        return (0..<count / 8).flatMap { _ in
            withUnsafeBytes(of: generator.next()) { Array($0) }
        }
    }

    /// Has a program own a clipboard until it is killed.
    private func own(
        _ bytes: some Sequence<UInt8>, _ server: XServer, _ folder: TemporaryFolder, selection: String = "clipboard",
        as target: String? = nil
    ) throws -> ChildProcess {
        try folder.write(bytes, to: "content")
        let type = target.map { ["-t", $0] } ?? []
        return try server.start(
            "xclip", ["-quiet", "-selection", selection] + type + ["-i", "\(folder.path)/content"])
    }

    private func wait(
        for selection: ScreenClipboard.Selection, of source: X11Source
    ) async throws -> [ScreenClipboard.Format] {
        while true {
            for case .clipboard(selection, let formats) in try await source.nextChanges() { return formats }
        }
    }

    @Test(arguments: [ScreenClipboard.Selection.clipboard, .primary])
    func `text that is copied there is told of, and read`(_ selection: ScreenClipboard.Selection) async throws {
        let server = try XServer()
        let folder = try TemporaryFolder()
        let source = try await X11Source.open(display: server.display)
        #expect(await outcome { _ = try await source.clipboard(selection, as: .text) } == .notFound)
        let text = "Grüße, 世界 😀\n"
        let owner = try own(text.utf8, server, folder, selection: selection.rawValue)
        #expect(try await wait(for: selection, of: source) == [.text])
        #expect(try await source.clipboard(selection, as: .text) == Array(text.utf8))
        owner.kill()
        #expect(try await wait(for: selection, of: source) == [])
        await source.close()
    }

    @Test func `HTML and images are read as they are, and what was copied before is told of, too`() async throws {
        let server = try XServer()
        let folder = try TemporaryFolder()
        let image: [UInt8] = Self.bytes(300_000)
        let owner = try own(image, server, folder, as: "image/png")
        try await eventually {
            (try? await server.run("xclip", ["-selection", "clipboard", "-o", "-t", "TARGETS"])) != nil  // not yet
        }
        let source = try await X11Source.open(display: server.display)
        #expect(try await wait(for: .clipboard, of: source) == [.png])
        #expect(try await source.clipboard(.clipboard, as: .png) == image)
        let page = "<b>fett</b>"
        let other = try own(page.utf8, server, folder, as: "text/html")
        #expect(try await wait(for: .clipboard, of: source) == [.html])
        #expect(try await source.clipboard(.clipboard, as: .html) == Array(page.utf8))
        await source.close()
        owner.kill()
        other.kill()
    }

    @Test func `5 MB come in parts, and 11 MB not at all`() async throws {
        let server = try XServer()
        let folder = try TemporaryFolder()
        let source = try await X11Source.open(display: server.display)
        let large = Self.bytes(5_000_000)
        let owner = try own(large, server, folder)
        _ = try await wait(for: .clipboard, of: source)
        #expect(try await source.clipboard(.clipboard, as: .text) == large)
        let other = try own([UInt8](repeating: 0x61, count: 11_000_000), server, folder)
        _ = try await wait(for: .clipboard, of: source)
        #expect(await outcome { _ = try await source.clipboard(.clipboard, as: .text) } == .exhausted)
        await source.close()
        owner.kill()
        other.kill()
    }

    @Test(arguments: ["clipboard", "primary"])
    func `what a viewer has is pasted there`(_ name: String) async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let selection = try #require(ScreenClipboard.Selection(rawValue: name))
        let contents: [ScreenClipboard.Format: [UInt8]] = [
            .text: Array("Grüße, 世界".utf8), .html: Array("<i>x</i>".utf8),
            .png: Self.bytes(5_000_000),
        ]
        try await source.offerClipboard(selection, formats: [.text, .html, .png]) { contents[$0] ?? [] }
        func paste(_ target: String) async throws -> [UInt8] {
            try await server.run("xclip", ["-selection", name, "-o", "-t", target])
        }
        let targets = try await String(decoding: paste("TARGETS"), as: UTF8.self).split(separator: "\n")
        #expect(Set(targets).isSuperset(of: ["TARGETS", "TIMESTAMP", "UTF8_STRING", "text/html", "image/png"]))
        #expect(try await paste("UTF8_STRING") == contents[.text])
        #expect(try await paste("text/plain;charset=utf-8") == contents[.text])
        let latin: [UInt8] = [0x47, 0x72, 0xFC, 0xDF, 0x65, 0x2C, 0x20, 0x3F, 0x3F]
        #expect(try await paste("STRING") == latin)
        #expect(try await paste("text/html") == contents[.html])
        #expect(try await paste("image/png") == contents[.png])
        // Its own content can be read back as anybody's can.
        #expect(try await source.clipboard(selection, as: .png) == contents[.png])
        try await source.offerClipboard(selection, formats: []) { _ in [] }
        await #expect(throws: XServer.Failure.self) { try await paste("UTF8_STRING") }
        await source.close()
    }

    @Test func `an offer of 11 MB, or that fails, pastes nothing`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        try await source.offerClipboard(.clipboard, formats: [.text, .html]) { format in
            guard format == .text else { throw KithError(.denied, "no") }
            return [UInt8](repeating: 0x61, count: 11_000_000)
        }
        for target in ["UTF8_STRING", "text/html"] {
            await #expect(throws: XServer.Failure.self) {
                try await server.run("xclip", ["-selection", "clipboard", "-o", "-t", target])
            }
        }
        await source.close()
    }

    @Test func `an offer of ours is not told of, and ends when somebody else copies`() async throws {
        let server = try XServer()
        let folder = try TemporaryFolder()
        let source = try await X11Source.open(display: server.display)
        try await source.offerClipboard(.clipboard, formats: [.text]) { _ in Array("ours".utf8) }
        let owner = try own("theirs".utf8, server, folder)
        #expect(try await wait(for: .clipboard, of: source) == [.text])
        #expect(try await source.clipboard(.clipboard, as: .text) == Array("theirs".utf8))
        await source.close()
        owner.kill()
    }

    @Test func `an owner that does not answer is given up`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        // It owns the clipboard, and never looks at what it is asked.
        let silent = try X11Connection(display: server.display, name: "silent")
        let clipboards = X11Clipboards(silent)
        xcb_set_selection_owner(silent.raw, clipboards.window, silent.atoms[.clipboard], 0)
        try silent.synchronize()
        #expect(await outcome { _ = try await source.clipboard(.clipboard, as: .text) } == .timedOut)
        await source.close()
    }

    @Test func `Latin-1 and UTF-16 become UTF-8`() {
        let page: [UInt8] = [0xFF, 0xFE, 0x3C, 0x00, 0x16, 0x4E]
        #expect(X11Source.normalized(page, .html, isLatin1: false) == Array("<世".utf8))
        #expect(X11Source.normalized([0x47, 0xFC], .text, isLatin1: true) == Array("Gü".utf8))
        #expect(X11Source.normalized([0xFF, 0xFE, 1], .png, isLatin1: false) == [0xFF, 0xFE, 1])
    }
}
#endif
