import KithAPI
import KithWire
import Testing

@testable import KithShell

struct ShellFrameTests {
    static let frames: [ShellFrame] = [
        .input([0, 255, 10]), .input([]), .endOfInput,
        .resize(Shell.Size(columns: 80, rows: 24, pixelWidth: 800, pixelHeight: 65_535)),
        .signal(.interrupt), .output(Array(repeating: 7, count: 65_536)), .errorOutput([0xC3]),
        .exited(.status(0)), .exited(.status(255)), .exited(.signal(.kill, dumpedCore: false)),
        .exited(.signal(.quit, dumpedCore: true)), .taken(1 << 20), .received(1 << 40), .agent(3, [1, 2]),
        .agent(4, []),
        .jump(1 << 61), .screen([0x1B, 0x5B]), .echoed(input: 7, held: .microseconds(50_123)),
    ]

    @Test func `every frame survives the wire, however the bytes are cut`() throws {
        var generator = SystemRandomNumberGenerator()
        let seed = UInt64.random(in: .min ... .max, using: &generator)
        print("seed \(seed)")
        var state = seed
        let bytes = Self.frames.flatMap(\.encoded)
        var decoder = ReceiveBuffer()
        var decoded: [ShellFrame] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let count = Int(state >> 33) % 4096 + 1
            decoder.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            while let frame = try ShellFrame.next(from: &decoder) { decoded.append(frame) }
        }
        #expect(decoded == Self.frames)
    }

    @Test func `an unknown frame is skipped`() throws {
        var decoder = ReceiveBuffer()
        decoder.append([0x7F, 2, 9, 9] + ShellFrame.endOfInput.encoded)
        #expect(try ShellFrame.next(from: &decoder) == .endOfInput)
        #expect(try ShellFrame.next(from: &decoder) == nil)
    }

    @Test func `a frame above 64 KiB is refused before it has arrived`() {
        var decoder = ReceiveBuffer()
        decoder.append([0x11, 0x80, 0x01, 0x00, 0x01])
        #expect(throws: KithError(.invalid, "")) { try ShellFrame.next(from: &decoder) }
    }

    @Test(
        arguments: [
            [0x03, 1, 0], [0x04, 0], [0x04, 3, 0x2E, 0x2E, 0x2F], [0x13, 0], [0x13, 1, 0], [0x13, 2, 1, 0], [0x14, 0],
        ] as [[UInt8]])
    func `a malformed frame is an error`(bytes: [UInt8]) {
        var decoder = ReceiveBuffer()
        decoder.append(bytes)
        #expect(throws: KithError(.invalid, "")) { try ShellFrame.next(from: &decoder) }
    }

    @Test func `a signal travels by name and keeps the number of each system`() {
        #expect(ShellSignal("SIGTERM") == .terminate)
        #expect(ShellSignal("TERM")?.number == 15)
        #expect(ShellSignal(number: 9) == .kill)
        #expect(ShellSignal("") == nil)
        #expect(ShellSignal("../x") == nil)
        #expect(ShellExit.signal(.terminate, dumpedCore: false).shellStatus == 143)
        #expect(ShellExit.status(7).shellStatus == 7)
    }
}

struct EscapeKeysTests {
    private func typed(_ text: String..., escape: UInt8? = 0x7E) -> [EscapeKeys.Action] {
        var keys = EscapeKeys(escape: escape)
        return text.flatMap { keys.typed(Array($0.utf8)) }
    }

    @Test func `a tilde and a dot at the start of a line disconnect`() {
        #expect(typed("~.") == [.disconnect])
        #expect(typed("ls\r~.") == [.send(Array("ls\r".utf8)), .disconnect])
        #expect(typed("x\r", "~", ".") == [.send(Array("x\r".utf8)), .disconnect])
    }

    @Test func `elsewhere a tilde is a tilde`() {
        #expect(typed("a~.") == [.send(Array("a~.".utf8))])
        #expect(typed("~x") == [.send(Array("~x".utf8))])
        #expect(typed("~~.") == [.send(Array("~.".utf8))])
        #expect(typed("~.", escape: nil) == [.send(Array("~.".utf8))])
    }

    @Test func `where nothing typed goes anywhere a tilde is an escape everywhere`() {
        var keys = EscapeKeys(anywhere: true)
        #expect(keys.typed(Array("x~d".utf8)) == [.send(Array("x".utf8)), .detach])
    }

    @Test func `help and suspend are asked for and not sent`() {
        #expect(typed("~?~\u{1A}ok") == [.help, .suspend, .send(Array("ok".utf8))])
    }
}
