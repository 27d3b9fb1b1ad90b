import Testing

@testable import KithRFB

@Suite struct ClipboardTests {
    private func connected(_ limit: Int = 10 << 20) throws -> Conversation {
        let frame = try RFBFrameBuffer(width: 8, height: 8)
        var client = RFBClient.Options()
        client.limits.clipboard = limit
        var talk = try Conversation(frame, client: client)
        try talk.settle(frame)
        return talk
    }

    @Test func `contents go both ways in all formats, and only when asked for`() throws {
        let frame = try RFBFrameBuffer(width: 8, height: 8)
        var talk = try connected()
        let contents = RFBClipboard(text: "grüße\n日本語 😀\n\nend", rtf: Array("{\\rtf1 x}".utf8), html: "<b>ü</b>")
        try talk.server.offerClipboard(contents)
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .clipboard(.offered([.text, .rtf, .html])))
        talk.client.requestClipboard([.text, .rtf, .html])
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .clipboard(.received(contents)))
        try talk.client.offerClipboard(contents)
        try talk.settle(frame)
        #expect(talk.serverEvents.last == .clipboard(.offered([.text, .rtf, .html])))
        talk.server.requestClipboard([.html])
        try talk.settle(frame)
        #expect(talk.serverEvents.last == .clipboard(.received(RFBClipboard(html: "<b>ü</b>"))))
    }

    @Test func `a megabyte of text arrives whole`() throws {
        let frame = try RFBFrameBuffer(width: 8, height: 8)
        var talk = try connected()
        let text = String(repeating: "0123456789abcde\n", count: 1 << 16)
        try talk.server.offerClipboard(RFBClipboard(text: text))
        try talk.settle(frame)
        talk.client.requestClipboard([.text])
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .clipboard(.received(RFBClipboard(text: text))))
    }

    @Test func `contents above the limit are refused whole, and the connection goes on`() throws {
        let frame = try RFBFrameBuffer(width: 8, height: 8)
        var talk = try connected(1000)
        let large = RFBClipboard(text: String(repeating: "x", count: 100_000))
        #expect(throws: RFBError.tooLong(field: "clipboard", limit: 1000, actual: 100_000)) {
            try talk.client.offerClipboard(large)
        }
        // Compressed it is small; what it claims to be is what counts.
        try talk.server.offerClipboard(large)
        try talk.settle(frame)
        talk.client.requestClipboard([.text])
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .clipboard(.refused(bytes: 100_001)))
        talk.server.bell()
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .bell)
    }

    @Test(arguments: [1, 1000, 1 << 20]) func `plain text above the limit is passed over as it comes`(piece: Int) throws
    {
        var options = RFBClient.Options()
        options.limits.clipboard = 1000
        var client = try RFBClient(options)
        var events: [RFBClient.Event] = []
        let bytes =
            ReferenceEncoders.handshake(width: 1, height: 1) + [3, 0, 0, 0] + ReferenceEncoders.u32(60_000)
            + [UInt8](repeating: 65, count: 60_000) + [2] + [3, 0, 0, 0, 0, 0, 0, 2, 0xE4, 0x0A]
        for start in stride(from: 0, to: bytes.count, by: piece) {
            try client.receive(Array(bytes[start..<min(start + piece, bytes.count)]))
            while let event = try client.nextEvent() { events.append(event) }
        }
        #expect(
            events == [
                .connected(name: "Other"), .clipboard(.refused(bytes: 60_000)), .bell,
                .clipboard(.received(RFBClipboard(text: "ä\n"))),
            ])
    }

    @Test func `a server that does not know the extension gets plain text`() throws {
        var client = try RFBClient(.init())
        try client.receive(ReferenceEncoders.handshake(width: 1, height: 1))
        _ = try client.nextEvent()
        _ = client.takeOutput()
        try client.offerClipboard(RFBClipboard(text: "ä", html: "<b>"))
        #expect(client.takeOutput() == [6, 0, 0, 0, 0, 0, 0, 1, 0xE4])
    }

    @Test func `an end that cannot ask gets text it can read`() throws {
        let frame = try RFBFrameBuffer(width: 8, height: 8)
        var server = try RFBServer(.init(name: ""), width: 8, height: 8, challenge: Conversation.challenge)
        try server.receive(Array("RFB 003.008\n".utf8) + [1, 1])
        while let _ = try server.nextEvent(at: .now) {}
        _ = server.takeOutput()
        try server.offerClipboard(RFBClipboard(text: "ä\r\n日"))
        #expect(server.takeOutput() == [3, 0, 0, 0, 0, 0, 0, 3, 0xE4, 0x0A, UInt8(ascii: "?")])
        #expect(server.update(from: frame) == false)
    }
}
