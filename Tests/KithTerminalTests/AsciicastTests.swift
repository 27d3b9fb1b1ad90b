import KithTesting
import KithWire
import Testing

@testable import KithTerminal

@Suite struct AsciicastTests {
    private let header = Asciicast.Header(
        columns: 80, rows: 24, timestamp: 1_763_700_000, idleTimeLimit: 2, command: "sh -c \"x\"", title: "näme\n",
        environment: ["TERM": "xterm-256color", "SHELL": "/bin/sh"])

    @Test func `a pause is as long as the recording at most, whatever limit it names`() throws {
        for limit in ["0", "1e300", "5e-324", "1.7976931348623157e308"] {
            var reader = Asciicast.Reader()
            let text =
                "{\"version\":2,\"width\":80,\"height\":24,\"idle_time_limit\":\(limit)}\n[31536000,\"o\",\"a\"]\n"
            let events = try reader.read(Array(text.utf8))
            for speed in [0.01, 1, 1_000] {
                var pace = Asciicast.Pace(speed: speed, idleLimit: reader.header?.idleTimeLimit)
                let due = pace.due(try #require(events.first).time)
                #expect(due >= .zero && due <= .seconds(31_536_001 / speed))
            }
        }
    }

    @Test func `a recording is read as it was written`() throws {
        var writer = Asciicast.Writer(recordsInput: true)
        let file =
            writer.header(header) + writer.output(Array("\u{1B}[1mhello\r\n\"\\\u{7F}😀".utf8), at: .milliseconds(5))
            + writer.input(Array("ls".utf8), at: .milliseconds(1500))
            + writer.resize(columns: 100, rows: 30, at: .seconds(2)) + writer.finish(at: .seconds(3))
        for size in [1, 7, file.count] {
            var reader = Asciicast.Reader()
            var events: [Asciicast.Event] = []
            for start in stride(from: 0, to: file.count, by: size) {
                events += try reader.read(Array(file[start..<min(start + size, file.count)]))
            }
            events += try reader.finish()
            #expect(reader.header == header)
            #expect(
                events == [
                    .init(time: .milliseconds(5), kind: .output(Array("\u{1B}[1mhello\r\n\"\\\u{7F}😀".utf8))),
                    .init(time: .milliseconds(1500), kind: .input(Array("ls".utf8))),
                    .init(time: .seconds(2), kind: .resize(columns: 100, rows: 30)),
                ])
        }
    }

    @Test func `the first lines are what the format says`() {
        var writer = Asciicast.Writer()
        let lines = writer.header(.init(columns: 80, rows: 24)) + writer.output([0x1B, 0x41], at: .milliseconds(1250))
        #expect(
            String(decoding: lines, as: UTF8.self)
                == "{\"version\": 2, \"width\": 80, \"height\": 24}\n[1.250000, \"o\", \"\\u001bA\"]\n")
    }

    @Test func `what is typed is left out unless asked for`() {
        var writer = Asciicast.Writer()
        #expect(writer.input(Array("secret".utf8), at: .zero) == [])
    }

    @Test(arguments: 0..<50 as Range<UInt64>) func `characters are never broken, and what is none is U+FFFD`(
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        let isText = seed % 2 == 0
        let bytes =
            isText
            ? Array(
                (0..<50).map { _ in ["a", "é", "語", "😀", "\u{1B}[m"].randomElement(using: &random) ?? "" }.joined().utf8
            )
            : (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
        var writer = Asciicast.Writer()
        var file = writer.header(.init(columns: 80, rows: 24))
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1...5, using: &random))
            file += writer.output(Array(piece), at: .zero)
            rest = rest.dropFirst(piece.count)
        }
        file += writer.finish(at: .zero)
        var reader = Asciicast.Reader()
        let events = try reader.read(file) + reader.finish()
        let output = events.flatMap { event in
            if case .output(let bytes) = event.kind { bytes } else { [UInt8]() }
        }
        #expect(output == Array(String(decoding: bytes, as: UTF8.self).utf8), "seed \(seed)")
    }

    @Test(arguments: [
        "", "{}\n", "[]\n", "{\"version\": 1, \"width\": 80, \"height\": 24}\n", "{\"version\": 2}\n",
        "{\"version\": 2, \"width\": 1e9, \"height\": 24}\n", "{\"version\": 2, \"width\": 0, \"height\": 24}\n",
        "{\"version\": 2, \"width\": 8.5, \"height\": 24}\n", "HEAD{}\n{}\n", "HEAD[1, \"o\"]\n",
        "HEAD[-1, \"o\", \"x\"]\n",
        "HEAD[1, \"o\", \"x\"]\n[0.5, \"o\", \"x\"]\n", "HEAD[1e400, \"o\", \"x\"]\n", "HEAD[1, \"o\", \"x\"] 1\n",
        "HEAD[1, \"r\", \"80x-1\"]\n", "HEAD[1, \"r\", \"80x24x1\"]\n", "HEAD[1, \"o\", \"\\x\"]\n",
        "HEAD[1, \"o\", \"x\n",
        "HEAD[01, \"o\", \"x\"]\n", "HEAD[nan, \"o\", \"x\"]\n",
    ]) func `a hostile file is one clear error`(file: String) {
        var reader = Asciicast.Reader()
        let text = file.replacing("HEAD", with: "{\"version\": 2, \"width\": 80, \"height\": 24}\n")
        let error = #expect(throws: KithError.self) {
            _ = try reader.read(Array(text.utf8))
            _ = try reader.finish()
        }
        #expect(error?.code == .corrupt)
        #expect(error?.message.hasPrefix("This is not a recording in asciicast v2: line ") == true)
    }

    @Test func `a line without an end, or nested without an end, is refused`() {
        var reader = Asciicast.Reader()
        #expect(throws: KithError.self) {
            for _ in 0..<3 { _ = try reader.read(Array(repeating: 0x20, count: Asciicast.lineLimit / 2)) }
        }
        var nested = Asciicast.Reader()
        #expect(throws: KithError.self) {
            _ = try nested.read(Array(repeating: UInt8(ascii: "["), count: 100_000) + [0x0A])
        }
    }
}
