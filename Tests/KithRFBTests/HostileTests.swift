import KithRFBCodecs
import KithTesting
import Testing

@testable import KithRFB

@Suite struct HostileTests {
    private static let jpeg = TurboJPEG()

    /// What both ends send in a conversation with all there is in it.
    private func conversation(_ encoding: RFBEncoding, _ random: inout SeededRandom) throws -> (
        server: [UInt8], client: [UInt8]
    ) {
        var frame = try Pictures.desktop(90, 70, &random)
        var options = RFBClient.Options()
        options.encodings = [encoding, .copyRect]
        options.quality = 6
        var talk = try Conversation(frame, client: options, jpeg: Self.jpeg)
        try talk.settle(frame)
        for _ in 0..<3 {
            let part = Pictures.rectangle(in: frame.bounds, &random)
            Pictures.strokes(in: part, &frame, &random)
            talk.server.changed(part)
            talk.server.setCursor(RFBCursor(width: 4, height: 4, hotX: 1, hotY: 1, pixels: (0..<16).map { $0 << 20 }))
            talk.client.sendKey(0x61, code: 30, isDown: random.chance(0.5))
            talk.client.sendPointer(x: 3, y: 3, buttons: [.left, .forward])
            try talk.server.offerClipboard(RFBClipboard(text: "text", html: "<i>"))
            try talk.client.offerClipboard(RFBClipboard(text: "other"))
            try talk.settle(frame)
            talk.client.requestClipboard([.text, .html])
            talk.server.requestClipboard([.text])
            talk.client.requestDesktopSize(width: 9, height: 9, screens: talk.client.screens)
            talk.client.sendFence([1, 2])
            talk.server.setName("name")
            try talk.settle(frame)
        }
        frame = try frame.resized(width: 95, height: 60, limit: 10_000)
        try talk.server.resize(width: 95, height: 60, screens: [])
        try talk.settle(frame)
        return (talk.fromServer, talk.fromClient)
    }

    private func damage(_ bytes: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            let at = Int.random(in: 12..<bytes.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 2: bytes.removeSubrange(at..<min(bytes.count, at + Int.random(in: 1...8, using: &random)))
            case 3: bytes.insert(contentsOf: random.bytes(Int.random(in: 1...8, using: &random)), at: at)
            default: bytes[at] = [0, 0xFF, 0x7F, 0x80][Int.random(in: 0..<4, using: &random)]
            }
            if bytes.count < 40 { break }
        }
        return bytes
    }

    @Test(arguments: [RFBEncoding.raw, .zrle, .tight])
    func `a damaged server ends in an error and stays inside its bounds`(encoding: RFBEncoding) throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let recorded = try conversation(encoding, &random).server
        var failures = 0
        for _ in 0..<600 {
            let bytes = damage(recorded, &random)
            var options = RFBClient.Options()
            options.limits.pixels = 1 << 16
            options.quality = 6
            var client = try RFBClient(options, jpeg: Self.jpeg)
            do throws(RFBError) {
                for start in stride(from: 0, to: bytes.count, by: 1500) {
                    try client.receive(Array(bytes[start..<min(start + 1500, bytes.count)]))
                    while let _ = try client.nextEvent() {}
                    _ = client.takeOutput()
                }
            } catch {
                failures += 1
                #expect(!error.description.isEmpty)
                #expect(throws: error) { try client.nextEvent() }
            }
            #expect(client.frameBuffer.pixels.count <= 1 << 16)
        }
        #expect(failures > 100, "\(random)")
    }

    @Test func `other servers' encodings survive damage too`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let frame = try Pictures.desktop(50, 40, &random)
        let bodies: [(Int32, [UInt8])] = [
            (2, ReferenceEncoders.rre(frame)), (5, ReferenceEncoders.hextile(frame)),
            (7, ReferenceEncoders.tightGradient(frame)),
        ]
        var failures = 0
        for (encoding, body) in bodies {
            let recorded = ReferenceEncoders.update([ReferenceEncoders.rectangle(frame.bounds, encoding, body)])
            for _ in 0..<400 {
                var client = try RFBClient(.init())
                try client.receive(
                    ReferenceEncoders.handshake(width: 50, height: 40) + damage(recorded, &random))
                do throws(RFBError) { while let _ = try client.nextEvent() {} } catch { failures += 1 }
            }
        }
        #expect(failures > 100, "\(random)")
    }

    @Test func `a damaged viewer ends in an error and costs no more than its bounds`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let recorded = try conversation(.tight, &random).client
        let frame = try Pictures.desktop(90, 70, &random)
        var failures = 0
        for _ in 0..<1500 {
            let bytes = damage(recorded, &random)
            var server = try RFBServer(.init(name: "x"), width: 90, height: 70, challenge: Conversation.challenge)
            do throws(RFBError) {
                for start in stride(from: 0, to: bytes.count, by: 100) {
                    try server.receive(Array(bytes[start..<min(start + 100, bytes.count)]))
                    while let _ = try server.nextEvent(at: .now) {}
                    server.update(from: frame)
                    #expect(server.takeOutput().count < 1 << 20)
                }
            } catch {
                failures += 1
            }
            #expect(server.releaseInput().count <= HeldInput.keyLimit + 1)
        }
        #expect(failures > 100, "\(random)")
    }

    @Test func `a picture beyond the bound is refused before it is made`() throws {
        var client = try RFBClient(.init())
        try client.receive(ReferenceEncoders.handshake(width: 65_535, height: 65_535))
        #expect(throws: RFBError.tooLarge(width: 65_535, height: 65_535, limit: RFBFrameBuffer.pixelLimit)) {
            try client.nextEvent()
        }
    }

    @Test func `lengths beyond what a rectangle needs are refused by their head`() throws {
        let one = RFBRectangle(x: 0, y: 0, width: 1, height: 1)
        let many: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF]
        let cases: [(Int32, [UInt8])] = [
            (16, many), (2, many + [0, 0, 0, 0]), (-307, many), (-239, []), (-308, [200, 0, 0, 0]), (1, [0, 9, 0, 9]),
            (99, []), (7, [0xF0]), (7, [0x40, 3]),
        ]
        for (encoding, body) in cases {
            var client = try RFBClient(.init())
            let place = encoding == -239 ? RFBRectangle(x: 0, y: 0, width: 600, height: 600) : one
            try client.receive(
                ReferenceEncoders.handshake(width: 4, height: 4)
                    + ReferenceEncoders.update([ReferenceEncoders.rectangle(place, encoding, body)]))
            #expect(try client.nextEvent() == .connected(name: "Other"))
            #expect(throws: RFBError.self, "encoding \(encoding)") { try client.nextEvent() }
        }
    }

    @Test func `a rectangle outside the picture is refused`() throws {
        for encoding in [0, 1, 2, 5, 7, 16] as [Int32] {
            var client = try RFBClient(.init())
            let place = RFBRectangle(x: 3, y: 0, width: 2, height: 1)
            try client.receive(
                ReferenceEncoders.handshake(width: 4, height: 4)
                    + ReferenceEncoders.update([ReferenceEncoders.rectangle(place, encoding, [])]))
            _ = try client.nextEvent()
            #expect(throws: RFBError.outside(place)) { try client.nextEvent() }
        }
    }

    @Test func `few bytes that paint everything again and again are refused`() throws {
        let place = RFBRectangle(x: 0, y: 0, width: 1000, height: 1000)
        let fill = ReferenceEncoders.rectangle(place, 7, [0x80, 1, 2, 3])
        var client = try RFBClient(.init())
        try client.receive(
            ReferenceEncoders.handshake(width: 1000, height: 1000)
                + ReferenceEncoders.update([[UInt8]](repeating: fill, count: 60_000)))
        _ = try client.nextEvent()
        #expect(throws: RFBError.malformed("an update paints the picture a few times at most")) {
            try client.nextEvent()
        }
        let part =
            ReferenceEncoders.pixel(5) + [0, 0, 0, 0] + ReferenceEncoders.u16(1000) + ReferenceEncoders.u16(1000)
        var body = ReferenceEncoders.u32(50_000) + ReferenceEncoders.pixel(0)
        for _ in 0..<50_000 { body += part }
        client = try RFBClient(.init())
        try client.receive(
            ReferenceEncoders.handshake(width: 1000, height: 1000)
                + ReferenceEncoders.update([ReferenceEncoders.rectangle(place, 2, body)]))
        _ = try client.nextEvent()
        #expect(throws: RFBError.malformed("subrectangles paint a rectangle a few times at most")) {
            try client.nextEvent()
        }
    }

    // MARK: - A viewer's demands

    private func server(_ change: (inout RFBServer.Options) -> Void = { _ in }) throws -> RFBServer {
        var options = RFBServer.Options(name: "x")
        change(&options)
        var server = try RFBServer(options, width: 40, height: 30, challenge: Conversation.challenge)
        try server.receive(Array("RFB 003.008\n".utf8) + [1, 1])
        return server
    }

    @Test func `messages above the rate wait, and none is lost`() throws {
        var server = try server {
            $0.limits.messagesPerSecond = 10
            $0.limits.messageBurst = 20
        }
        let start = ContinuousClock.now
        #expect(try server.nextEvent(at: start) == .connected(isShared: true))
        for _ in 0..<50 { try server.receive([4, 1, 0, 0, 0, 0, 0, 0x61]) }
        var read = 0
        while let _ = try server.nextEvent(at: start) { read += 1 }
        #expect(read == 20)
        var now = start
        while read < 50 {
            let deadline = server.nextDeadline
            now = try #require(deadline)
            while let _ = try server.nextEvent(at: now) { read += 1 }
        }
        #expect(now - start >= .milliseconds(2900) && now - start < .seconds(4))
        #expect(server.nextDeadline == nil)
    }

    @Test func `a handshake and a message have to end`() throws {
        let start = ContinuousClock.now
        var silent = try RFBServer(.init(name: ""), width: 4, height: 4, challenge: Conversation.challenge)
        #expect(try silent.nextEvent(at: start) == nil)
        let deadline = silent.nextDeadline
        let end = try #require(deadline)
        #expect(throws: RFBError.timedOut("the handshake")) { try silent.nextEvent(at: end) }

        var slow = try server()
        _ = try slow.nextEvent(at: start)
        #expect(try slow.nextEvent(at: start + .seconds(1000)) == nil, "who says nothing may stay")
        try slow.receive([6, 0, 0, 0, 0, 0, 0, 200])
        #expect(try slow.nextEvent(at: start + .seconds(1000)) == nil)
        try slow.receive([65])
        #expect(try slow.nextEvent(at: start + .seconds(1020)) == nil)
        #expect(slow.nextDeadline == start + .seconds(1030))
        #expect(throws: RFBError.timedOut("a message")) { try slow.nextEvent(at: start + .seconds(1030)) }
    }

    @Test func `answers that nobody fetches stop the reading`() throws {
        var server = try server { $0.limits.output = 1000 }
        while let _ = try server.nextEvent(at: .now) {}
        _ = server.takeOutput()
        let fence: [UInt8] = [248, 0, 0, 0, 0x80, 0, 0, 1, 64] + [UInt8](repeating: 1, count: 64)
        for _ in 0..<100 { try server.receive(fence) }
        #expect(try server.nextEvent(at: .now) == nil)
        var answers = 0
        for _ in 0..<100 {
            let bytes = server.takeOutput()
            #expect(bytes.count <= 1000 + fence.count)
            answers += bytes.count / fence.count
            _ = try server.nextEvent(at: .now)
        }
        #expect(answers == 100)
    }

    @Test func `what waits to be read is bounded`() throws {
        var server = try server { $0.limits.input = 10_000 }
        try server.receive([6, 0, 0, 0, 0, 0, 0x40, 0])
        try server.receive([UInt8](repeating: 65, count: 9000))
        #expect(throws: RFBError.tooLong(field: "input", limit: 10_000, actual: 14_022)) {
            try server.receive([UInt8](repeating: 65, count: 5000))
        }
    }

    @Test func `messages that were not agreed on are refused`() throws {
        let cases: [[UInt8]] = [
            [99], [255, 1, 0, 0], [2, 0, 0xFF, 0xFF], [248, 0, 0, 0, 0x80, 0, 0, 0, 65],
            [251, 0, 0, 9, 0, 9, 200, 0], [6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFC, 1, 0, 0, 0],
            // Pixels of 24 bits, with a colour map, without red, and with red beyond the pixel.
            [0, 0, 0, 0, 24, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [0, 0, 0, 0, 8, 8, 0, 0, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [0, 0, 0, 0, 32, 24, 0, 1, 0, 0, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 25, 8, 0, 0, 0, 0],
        ]
        for message in cases {
            var server = try server()
            _ = try server.nextEvent(at: .now)
            try server.receive(message)
            #expect(throws: RFBError.self, "\(message)") { try server.nextEvent(at: .now) }
        }
    }
}
