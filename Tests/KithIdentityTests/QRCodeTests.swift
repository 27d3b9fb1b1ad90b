import Foundation
import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite struct QRCodeTests {
    /// `zbarimg` of Debian's zbar-tools, a reader we did not write; `nil` where it is not installed.
    static let reader = ["/usr/bin/zbarimg", "/usr/local/bin/zbarimg", "/opt/homebrew/bin/zbarimg"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    @Test(
        .enabled(if: reader != nil, "zbarimg is not installed: scripts/bootstrap does that"),
        arguments: QRCode.Correction.allCases)
    func `another program reads what we drew`(correction: QRCode.Correction) throws {
        var random = SeededRandom(seed: 18_004)
        var versions: Set<Int> = []
        // A code of every tenth length, in both modes; the largest are of version 40.
        let lengths = [1, 15, 30, 60, 110, 160, 220, 300, 420, 560, 700, 950, 1_250, 1_700, 2_300]
        for length in lengths + (correction == .low ? [2_953] : [2_331]) {
            let letters = (0..<length).map { _ in UInt8.random(in: 97...122, using: &random) }
            let bytes = String(decoding: letters, as: UTF8.self)
            for text in [bytes, bytes.uppercased()] {
                let code = try QRCode(text, correction: correction)
                versions.insert(code.version)
                #expect(try read(code) == text, "version \(code.version), seed \(random.seed)")
            }
        }
        #expect(versions.contains(40) && versions.count > 20)
    }

    @Test(.enabled(if: reader != nil, "zbarimg is not installed: scripts/bootstrap does that"))
    func `an invitation goes through a camera`() throws {
        let address = try #require(NetworkAddress("192.168.178.20:47001"))
        let invitation = Invitation(
            ticket: Ticket(id: try key(3).id, addresses: [address, address]), name: "Büro", expiresAt: 1_800_000_000)
        let capitals = try QRCode(invitation.text.uppercased())
        #expect(try Invitation(text: read(capitals)) == invitation)
        let plain = try QRCode(invitation.text)
        #expect(try Invitation(text: read(plain)) == invitation)
        #expect(capitals.version < plain.version)
        #expect(try read(QRCode("Grüße, 水")) == "Grüße, 水")
    }

    @Test func `a text that does not fit is refused`() throws {
        #expect(try QRCode(String(repeating: "A", count: 4_296)).version == 40)
        #expect(try QRCode(String(repeating: "a", count: 2_953)).version == 40)
        for text in [String(repeating: "A", count: 4_297), String(repeating: "a", count: 2_954)] {
            #expect(throws: KithError(.invalid, "")) { _ = try QRCode(text) }
        }
        #expect(throws: KithError(.invalid, "")) {
            _ = try QRCode(String(repeating: "a", count: 2_332), correction: .medium)
        }
        #expect(try QRCode("").version == 1)
    }

    @Test func `the terminal's picture is the code with a margin`() throws {
        let code = try QRCode("kith")
        #expect(code.size == 21)
        for colors in [false, true] {
            let lines = code.terminal(colors: colors).split(separator: "\n").map { line in
                Array(line.replacing("\u{1B}[38;5;16;48;5;231m", with: "").replacing("\u{1B}[0m", with: ""))
            }
            #expect(lines.count == 15 && lines.allSatisfy { $0.count == 29 })
            let upper: Set<Character> = ["█", "▀"]
            let lower: Set<Character> = ["█", "▄"]
            for row in 0..<29 {
                for column in 0..<29 {
                    let isDrawn = (row % 2 == 0 ? upper : lower).contains(lines[row / 2][column])
                    #expect(isDrawn == (code[row - 4, column - 4] == colors))
                }
            }
        }
    }

    /// Writes a picture and lets `zbarimg` read it.
    private func read(_ code: QRCode) throws -> String {
        let reader = try #require(Self.reader)
        let side = code.size + 8
        let scale = 3
        var picture = Array("P5\n\(side * scale) \(side * scale)\n255\n".utf8)
        for row in 0..<side * scale {
            for column in 0..<side * scale {
                picture.append(code[row / scale - 4, column / scale - 4] ? 0 : 255)
            }
        }
        let file = FileManager.default.temporaryDirectory.appending(path: "kith-qr-\(UUID().uuidString).pgm")
        try Data(picture).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = URL(filePath: reader)
        process.arguments = ["-q", "--raw", "--nodbus", file.path]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self).trimmingCharacters(in: .newlines)
    }
}
