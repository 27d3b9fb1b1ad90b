import Foundation
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithScreen

private let hasBrowser: Bool = {
    let missing = ["/usr/bin/chromium", "/usr/share/novnc/core/rfb.js"].filter {
        !FileManager.default.fileExists(atPath: $0)
    }
    if !missing.isEmpty { print("Skipped without \(missing.joined(separator: ", ")): apt-get install chromium novnc") }
    return missing.isEmpty && PythonPeer.isInstalled("websockets")
}()

/// The viewer that runs in browsers: noVNC, in Chromium.
@Suite(.timeLimit(.minutes(4))) struct NoVNCTests {
    private struct Order: Encodable {
        var `do`: String
        var file: String?
        var text: String?
        var x: Int?
        var y: Int?
    }

    private struct Answer: Decodable {
        var status: String?
        var width: Int?
        var height: Int?
        var text: String?
    }

    @Test(.enabled(if: hasBrowser))
    func `noVNC shows the screen exactly, follows its size, types, clicks and pastes both ways`() async throws {
        let stage = try RFBStage(width: 320, height: 200)
        let folder = try TemporaryFolder()
        try await stage.shown {
            try await PythonPeer.run("novnc.py", ["\(stage.port)", RFBStage.password]) { browser in
                func ask(_ order: Order) async throws -> Answer {
                    browser.send(String(decoding: try JSONEncoder().encode(order), as: UTF8.self))
                    return try await browser.next(Answer.self)
                }
                func showsTheScreen() async throws -> Bool {
                    let size = try await ask(Order(do: "pixels", file: folder.path + "/pixels"))
                    let bytes = try folder.bytes("pixels")
                    let pixels = stride(from: 0, to: bytes.count, by: 4).map { start in
                        bytes[start..<start + 3].reduce(0xFF) { $0 << 8 | UInt32($1) }
                    }
                    return size.width == stage.source.size.width && size.height == stage.source.size.height
                        && pixels == stage.source.pixels
                }
                let status = try await browser.next(Answer.self).status
                #expect(status?.hasPrefix("connect ") == true, "\(status ?? "no answer")")
                try await stage.source.scribble(12)
                // Its JPEG is replaced by what is exact as soon as the picture rests.
                try await eventually { try await showsTheScreen() }
                try await stage.source.scribble(12)
                try await eventually { try await showsTheScreen() }

                _ = try await ask(Order(do: "click", x: 40, y: 30))
                _ = try await ask(Order(do: "text", text: "aB1"))
                try await eventually {
                    stage.source.performed.filter { if case .key(_, isDown: false) = $0 { true } else { false } }.count
                        >= 3
                }
                let performed = stage.source.performed
                #expect(performed.contains(.move(x: 40, y: 30)))
                #expect(performed.contains(.button(.left, isDown: true)))
                #expect(performed.contains(.button(.left, isDown: false)))
                let typed = performed.compactMap { input -> UInt32? in
                    if case .key(let key, isDown: true) = input { key.symbol } else { nil }
                }
                #expect(typed == [0x61, 0x42, 0x31])
                // The place of the key comes, too (QEMU's extension).
                #expect(performed.contains(.key(.init(symbol: 0x61, code: 30), isDown: true)), "\(performed)")

                stage.source.copy([.text: Array("vom Schirm ✓".utf8)])
                try await eventually { try await ask(Order(do: "clipboard")).text == "vom Schirm ✓" }
                _ = try await ask(Order(do: "paste", text: "zum Schirm 🎉"))
                try await eventually {
                    (try? await stage.source.paste(.text)).map { String(decoding: $0, as: UTF8.self) }
                        == "zum Schirm 🎉"
                }

                stage.source.resize(width: 260, height: 180)
                try await eventually { try await showsTheScreen() }
            }
        }
    }

    @Test(.enabled(if: hasBrowser)) func `noVNC with a wrong password sees nothing, and says so`() async throws {
        let stage = try RFBStage()
        try await stage.shown {
            try await PythonPeer.run("novnc.py", ["\(stage.port)", "guessed!"]) { browser in
                let status = try await browser.next(Answer.self).status ?? ""
                #expect(status.hasPrefix("securityfailure "), "\(status)")
            }
        }
    }
}
