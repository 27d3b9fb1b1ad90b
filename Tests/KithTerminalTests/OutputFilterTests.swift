import KithTesting
import Testing

@testable import KithTerminal

@Suite struct OutputFilterTests {
    private func filtered(_ text: String, _ filter: OutputFilter = OutputFilter()) -> String {
        var filter = filter
        return String(decoding: filter.filter(Array(text.utf8)), as: UTF8.self)
    }

    @Test func `a write to the clipboard is reported and does not pass`() {
        var filter = OutputFilter()
        let output = filter.filter(Array("a\u{1B}]52;c;aGVsbG8=\u{7}b\u{1B}]52;p;d29ybGQ\u{1B}\\c".utf8))
        #expect(output == Array("abc".utf8))
        #expect(
            filter.takeEvents() == [
                .clipboardWrite(selection: "c", text: Array("hello".utf8), isCut: false),
                .clipboardWrite(selection: "p", text: Array("world".utf8), isCut: false),
            ])
        #expect(filter.takeEvents() == [])
    }

    @Test func `the policy decides over writes and reads apart`() {
        let write = "\u{1B}]52;c;aGVsbG8=\u{7}"
        let read = "\u{1B}]52;c;?\u{1B}\\"
        #expect(filtered(write, OutputFilter(clipboardWrites: .allow)) == write)
        #expect(filtered(read, OutputFilter(clipboardWrites: .allow)) == "")
        #expect(filtered(read, OutputFilter(clipboardReads: .allow)) == read)
        var filter = OutputFilter(clipboardWrites: .deny, clipboardReads: .ask)
        #expect(filter.filter(Array((write + read).utf8)) == [])
        #expect(filter.takeEvents() == [.clipboardRead(selection: "c")])
    }

    @Test(arguments: [
        "\u{1B}[21t", "\u{1B}[20t", "\u{1B}[021t", "\u{1B}[4294967317t", "\u{5}", "\u{1B}[5\u{5}i", "\u{1B}[2\u{1}1t",
        "\u{1B}P$qanything\u{1B}\\", "\u{1B}P+qecho\u{1B}\\", "\u{1B}]50;?\u{7}",
        "\u{1B}]1337;ReportVariable=eA==\u{7}",
        "\u{1B}]1337;File=name=eA==:AAAA\u{7}", "\u{1B}]1337;Copy=;eA==\u{7}", "\u{1B}]46;/etc/passwd\u{7}",
        "\u{1B}P1;1|17/6c730d\u{1B}\\", "\u{1B}P1!zls\u{1B}\\", "\u{1B}[1*z", "\u{1B}[1;1;1;1;2;2*y", "\u{1B}[i",
        "\u{1B}_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\u{1B}\\", "\u{1B}_Ga=T,t=t;AAAA\u{1B}\\", "\u{9D}52;c;eA==\u{9C}",
        "\u{1B}]5\u{1}2;c;eA==\u{7}", "\u{1B}]052;c;eA==\u{7}", "\u{1B}]4294967348;c;eA==\u{7}", "\u{9B}21t",
        "\u{1B}P\u{1}$\u{1}qecho\u{1B}\\", "\u{1B}\u{1}]52;c;eA==\u{7}",
    ]) func `what types for the person, spies or prints is taken out`(sequence: String) {
        let output = filtered("a\(sequence)b")
        #expect(output.filter { $0 != "\u{1}" } == "ab")
        #expect(!output.contains("\u{1B}"))
    }

    @Test func `8-bit controls are read like their 7-bit forms`() {
        var filter = OutputFilter(clipboardWrites: .deny)
        #expect(filter.filter([0x61, 0x9D] + Array("52;c;eA==".utf8) + [0x9C, 0x62]) == [0x61, 0x62])
        #expect(filter.filter([0x9B] + Array("21t".utf8)) == [])
        #expect(filter.filter([0x9B] + Array("31m".utf8)) == [0x9B] + Array("31m".utf8))
    }

    @Test(arguments: [
        "plain text, naïve 語 😀 \u{9}\r\n\u{8}", "\u{1B}[1;31mred\u{1B}[0m", "\u{1B}]0;title\u{7}",
        "\u{1B}]2;Ünï\u{1B}\\",
        "\u{1B}]8;;https://kith.example\u{1B}\\link\u{1B}]8;;\u{1B}\\", "\u{1B}[18t", "\u{1B}[c", "\u{1B}[6n",
        "\u{1B}P$qm\u{1B}\\", "\u{1B}P$q q\u{1B}\\", "\u{1B}P+q544e\u{1B}\\", "\u{1B}]11;?\u{7}", "\u{1B}(0lqk\u{1B}(B",
        "\u{1B}Pq#0;2;0;0;0#0~~@@vv\u{1B}\\", "\u{1B}_Ga=T,f=100;AAAA\u{1B}\\", "\u{1B}[?1049h",
        "\u{1B}7\u{1B}8\u{1B}=",
        "\u{1B}]1337;File=inline=1:AAAA\u{7}", "\u{1B}#8", "\u{1B}[>c", "\u{1B}[22;0;0t\u{1B}[23;0;0t", "\u{1B}[2 q",
        "“quoted” — “\u{1B}]0;“title”\u{7}", "\u{1B}]P0ff0000",
    ]) func `all else passes byte for byte, in pieces of any size`(text: String) {
        let bytes = Array(text.utf8)
        for size in 1...bytes.count {
            var filter = OutputFilter()
            var output: [UInt8] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                output += filter.filter(Array(bytes[start..<min(start + size, bytes.count)]))
            }
            #expect(output == bytes, "in pieces of \(size)")
        }
    }

    @Test(arguments: [
        "\u{1B}[c", "\u{1B}[>c", "\u{1B}[6n", "\u{1B}[?996n", "\u{1B}[?2026$p", "\u{1B}[>q", "\u{1B}[?u", "\u{1B}[18t",
        "\u{1B}P$qm\u{1B}\\", "\u{1B}P+q544e\u{1B}\\", "\u{1B}]11;?\u{7}", "\u{1B}]4;1;?\u{7}", "\u{1B}Z",
        "\u{1B}_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\u{1B}\\", "\u{1B}[1$w",
    ]) func `where nobody is to answer, nothing is asked`(sequence: String) {
        #expect(filtered("a\(sequence)b", OutputFilter(allowsQueries: false)) == "ab")
        #expect(filtered("\u{1B}[>4;2m\u{1B}[2 q\u{1B}[3S\u{1B}[u", OutputFilter(allowsQueries: false)).count > 15)
    }

    @Test func `a string without an end is ended`() {
        var filter = OutputFilter()
        var output = filter.filter(Array("\u{1B}_x".utf8))
        let piece = Array(repeating: UInt8(ascii: "A"), count: 1 << 20)
        for _ in 0..<20 { output += filter.filter(piece) }
        #expect(output.count <= OutputFilter.pictureLimit + 2)
        #expect(output.suffix(2) == [0x1B, 0x5C])
        #expect(filter.filter(Array("\u{1B}\\text".utf8)) == Array("text".utf8))
        var long = OutputFilter()
        _ = long.filter(Array("\u{1B}]52;c;".utf8))
        #expect(long.filter(piece) == [])
        guard case .clipboardWrite(_, let text, true) = long.takeEvents().first else {
            Issue.record("The beginning is reported")
            return
        }
        #expect(text.count <= OutputFilter.clipboardLimit)
    }

    @Test(arguments: 0..<200 as Range<UInt64>)
    func `the pieces that output comes in do not matter, and no terminal is told to type`(seed: UInt64) {
        var source = TerminalOutput(seed: seed)
        var bytes = source.noise(400)
        for _ in 0..<6 {
            let secret = ["\u{1B}]52;c;eA==\u{7}", "\u{1B}[21t", "\u{5}", "\u{9D}52;c;?\u{7}"][
                Int.random(in: 0..<4, using: &source.random)]
            bytes.insert(contentsOf: Array(secret.utf8), at: Int.random(in: 0..<bytes.count, using: &source.random))
        }
        var whole = OutputFilter(clipboardWrites: .deny)
        let output = whole.filter(bytes)
        var pieces = OutputFilter(clipboardWrites: .deny)
        #expect(output == bytes.flatMap { pieces.filter([$0]) }, "seed \(seed)")
        // A second filter finds nothing left.
        var again = OutputFilter(clipboardWrites: .deny)
        let twice = again.filter(output)
        let same = zip(output, twice).prefix { $0 == $1 }.count
        #expect(same == twice.count, "seed \(seed): \(output.dropFirst(max(0, same - 40)).prefix(60))")
        #expect(!output.contains(0x05), "seed \(seed)")
    }
}
