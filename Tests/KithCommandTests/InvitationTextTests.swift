import Foundation
import KithIdentity
import Testing

/// The ways to give `kith pair` an invitation.
@Suite struct InvitationTextTests {
    private static let hasReader = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].contains {
        FileManager.default.isExecutableFile(atPath: $0 + "/zbarimg")
    }

    @Test func `from standard input, from a file, and typed at a prompt`() async throws {
        try await withTwoMachines { laptop, phone in
            let first = try await laptop.expect("invite", "--yes", "--text", "--grant", "shell")
            try await phone.expect("pair", "-", "--yes", input: Data(first.utf8))

            let second = try await laptop.expect("invite", "--yes", "--text", "--grant", "forward")
            try Data("\n\(second)\n".utf8).write(to: URL(filePath: phone.path("invitation.txt")))
            try await phone.expect("pair", "--file", phone.path("invitation.txt"), "--yes")

            let third = try await laptop.expect("invite", "--yes", "--text", "--grant", "shell:view")
            let prompt = try Tmux(phone, ["pair", "--yes"])
            defer { prompt.end() }
            try await prompt.show("The invitation, as the other device shows it:")
            try prompt.type(third.trimmingCharacters(in: .newlines))
            try await prompt.show("Paired with laptop.")
            let grants = try await laptop.expect("devices", "--cached")
            for grant in ["shell", "forward", "shell:view"] { #expect(grants.contains(grant)) }
        }
    }

    @Test func `what is missing or said twice is a wrong command line, and costs no attempt`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            #expect(try await phone.kith(["pair", "--yes"]).status == 64)
            #expect(try await phone.kith(["pair", invitation, "--file", "x", "--yes"]).status == 64)
            #expect(try await phone.kith(["pair", "-"], input: Data(invitation.utf8)).status == 64)
            #expect(try await phone.kith(["pair", "--file", phone.path("nothing"), "--yes"]).status == 3)
            #expect(try await phone.kith(["pair", invitation]).status == 64)
            #expect(try await laptop.expect("invite", "--list", "--json").contains("\"attemptsLeft\" : 3"))
        }
    }

    #if os(Linux)
    @Test func `other users do not find the invitation in the list of processes`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try phone.start(["pair", invitation, "--yes"])
            // It waits for the other person now.
            _ = try await laptop.waitForLog(/kith accept (\S+)/)
            let arguments = try Data(
                contentsOf: URL(filePath: "/proc/\(joining.process.processIdentifier)/cmdline"))
            let shown = String(decoding: arguments, as: UTF8.self)
            #expect(shown.contains("pair") && shown.contains("kith-invite1...."), "\(shown)")
            #expect(!shown.contains(invitation.suffix(20)))
            try await laptop.expect("accept", "--yes")
            let outcome = try await joining.outcome(seconds: 30)
            #expect(outcome.status == 0, "\(outcome)")
        }
    }
    #endif

    @Test(.enabled(if: hasReader, "zbarimg is not installed: scripts/bootstrap does that"))
    func `from a picture of what invite shows`() async throws {
        try await withTwoMachines { laptop, phone in
            let shown = try await laptop.expect("invite", "--yes", "--grant", "shell")
            let picture = phone.path("photo of it.png")
            try PNG.write(try modules(of: shown), to: picture)
            let paired = try await phone.kith(["pair", "--scan", picture, "--yes"])
            #expect(paired.status == 0, "\(paired)")
            #expect(try await laptop.expect("devices", "--cached").contains("phone"))

            // Without a code in it, without a picture, without the program.
            try PNG.write([[Bool]](repeating: [Bool](repeating: false, count: 40), count: 40), to: picture)
            let empty = try await phone.kith(["pair", "--scan", picture, "--yes"])
            #expect(empty.status == 3 && empty.error.contains("shows no invitation"), "\(empty)")
            #expect(try await phone.kith(["pair", "--scan", phone.path("nothing"), "--yes"]).status == 3)
            let without = try phone.start(["pair", "--scan", picture, "--yes"], environment: ["PATH": "/nowhere"])
            let outcome = try await without.outcome(seconds: 30)
            #expect(outcome.status == 10 && outcome.error.contains("zbarimg"), "\(outcome)")
        }
    }

    /// The code in what a terminal without colours shows: light modules are drawn, dark ones left out.
    private func modules(of output: String) throws -> [[Bool]] {
        let lines = output.split(separator: "\n").filter { $0.contains("█") && !$0.contains("kith") }
        try #require(lines.count > 10)
        return lines.flatMap { line in
            [line.map { $0 != "█" && $0 != "▀" }, line.map { $0 != "█" && $0 != "▄" }]
        }
    }
}

/// A picture of black and white squares as a PNG file: grey, not compressed.
private enum PNG {
    static func write(_ modules: [[Bool]], to path: String, scale: Int = 4) throws {
        let width = (modules.first?.count ?? 0) * scale
        var pixels = Data()
        for row in modules {
            for _ in 0..<scale {
                pixels.append(0)  // no filter
                for isDark in row { pixels += [UInt8](repeating: isDark ? 0 : 255, count: scale) }
            }
        }
        var deflated = Data([0x78, 0x01])
        var rest = pixels[...]
        while !rest.isEmpty {
            let block = rest.prefix(65_535)
            rest = rest.dropFirst(block.count)
            let count = UInt16(block.count)
            deflated += [rest.isEmpty ? 1 : 0, UInt8(count & 255), UInt8(count >> 8)]
            deflated += [UInt8(~count & 255), UInt8(~count >> 8)]
            deflated += block
        }
        let (a, b) = pixels.reduce((1, 0) as (UInt32, UInt32)) { sums, byte in
            let a = (sums.0 + UInt32(byte)) % 65_521
            return (a, (sums.1 + a) % 65_521)
        }
        deflated += bytes(b << 16 | a)
        var file = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
        file += chunk("IHDR", Data(bytes(UInt32(width)) + bytes(UInt32(modules.count * scale)) + [8, 0, 0, 0, 0]))
        file += chunk("IDAT", deflated)
        file += chunk("IEND", Data())
        try file.write(to: URL(filePath: path))
    }

    private static func chunk(_ type: String, _ data: Data) -> Data {
        let checked = Data(type.utf8) + data
        var sum: UInt32 = .max
        for byte in checked {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum & 1 == 1 ? sum >> 1 ^ 0xEDB8_8320 : sum >> 1 }
        }
        return Data(bytes(UInt32(data.count))) + checked + Data(bytes(~sum))
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}
