#if os(Linux)
import Foundation
import KithTesting
import Testing

/// Pictures of `kith browse` on terminals that show some, by a pseudo-terminal that answers as they do.
@Suite(.timeLimit(.minutes(3))) struct GraphicsTerminalTests {
    private struct Seen: Decodable {
        var picture: String
        var removed: Bool
        var blocks: Bool
        var asked: Bool
        var status: Int32
    }

    private func seen(_ kind: String) async throws -> Seen {
        let machine = try Machine("graphics")
        let here = machine.path("here")
        try FileManager.default.createDirectory(atPath: here, withIntermediateDirectories: true)
        // A red picture of 40 by 20 pixels.
        let make = """
            import struct, zlib
            rows = b"".join(b"\\0" + b"\\xff\\0\\0" * 40 for _ in range(20))
            def chunk(kind, data):
                return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            head = struct.pack(">IIBBBBB", 40, 20, 8, 2, 0, 0, 0)
            png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
            open("\(here)/dot.png", "wb").write(png)
            """
        _ = try local(["python3", "-c", make])
        try await machine.expect("add", here)
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop/graphics_terminal.py").path
        let outcome = try await machine.start(
            [script, kind, Machine.program.path, "browse", "--data", machine.data, here, here], byEnvironment: true,
            program: URL(fileURLWithPath: "/usr/bin/python3")
        ).outcome(seconds: 120)
        await machine.remove()
        try #require(outcome.status == 0, "\(outcome)")
        return try JSONDecoder().decode(Seen.self, from: Data(outcome.output.utf8))
    }

    @Test func `one that speaks kitty's protocol gets the pixels, and is rid of them`() async throws {
        let seen = try await seen("kitty")
        #expect(seen.picture.contains("a=T,f=24,i=4212,s=40,v=20,") && seen.picture.contains(";/wAA/wAA"), "\(seen)")
        #expect(seen.removed && !seen.blocks && seen.status == 0, "\(seen)")
    }

    @Test func `one with sixels gets sixels`() async throws {
        let seen = try await seen("sixel")
        #expect(seen.picture.contains("\"1;1;40;20#180;2;100;0;0"), "\(seen)")
        #expect(!seen.blocks && seen.status == 0, "\(seen)")
    }

    @Test func `any other is asked, and gets half blocks`() async throws {
        let seen = try await seen("none")
        #expect(seen.asked && seen.blocks && !seen.removed && seen.status == 0, "\(seen)")
    }
}
#endif
