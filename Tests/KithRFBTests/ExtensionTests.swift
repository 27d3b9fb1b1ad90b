import KithTesting
import Testing

@testable import KithRFB

@Suite struct ExtensionTests {
    private func frame(_ width: Int = 64, _ height: Int = 48) throws -> RFBFrameBuffer {
        try RFBFrameBuffer(width: width, height: height)
    }

    // MARK: - Input

    @Test func `keys, codes, buttons and places arrive as they were sent`() throws {
        let frame = try frame()
        var talk = try Conversation(frame)
        try talk.settle(frame)
        #expect(talk.client.takesKeyCodes && talk.client.takesMoreButtons && talk.client.takesFences)
        talk.serverEvents = []
        talk.client.sendKey(0x61, code: 0x1E, isDown: true)
        talk.client.sendKey(0x61, code: 0x1E, isDown: false)
        talk.client.sendKey(0x1F600 | 0x0100_0000, isDown: true)
        talk.client.sendPointer(x: 5, y: 6, buttons: [.left, .forward])
        talk.client.sendPointer(x: 5, y: 6, buttons: [.back])
        talk.client.sendPointer(x: 9000, y: 9000, buttons: [.scrollUp])
        try talk.settle(frame)
        #expect(
            talk.serverEvents == [
                .key(keysym: 0x61, code: 0x1E, isDown: true), .key(keysym: 0x61, code: 0x1E, isDown: false),
                .key(keysym: 0x101_F600, code: nil, isDown: true), .pointer(x: 5, y: 6, buttons: [.left, .forward]),
                .pointer(x: 5, y: 6, buttons: [.back]), .pointer(x: 63, y: 47, buttons: [.scrollUp]),
            ])
    }

    @Test func `what is held is released once`() throws {
        let frame = try frame()
        var talk = try Conversation(frame)
        try talk.settle(frame)
        talk.client.sendKey(0xFFE3, code: 0x1D, isDown: true)
        talk.client.sendKey(0x63, isDown: true)
        talk.client.sendKey(0x63, isDown: true)
        talk.client.sendKey(0x64, isDown: true)
        talk.client.sendKey(0x64, isDown: false)
        talk.client.sendPointer(x: 3, y: 4, buttons: [.left])
        try talk.settle(frame)
        #expect(
            talk.server.releaseInput() == [
                .key(keysym: 0x63, code: nil, isDown: false), .key(keysym: 0xFFE3, code: 0x1D, isDown: false),
                .pointer(x: 3, y: 4, buttons: []),
            ])
        #expect(talk.server.releaseInput() == [])
    }

    @Test func `a key is released by its place though its meaning changed`() {
        var held = HeldInput()
        var notes = [held.note(0x61, 0x1E, isDown: true), held.note(0x41, 0x1E, isDown: false)]
        #expect(notes == [true, true] && held.keys.isEmpty)
        notes = (0...UInt32(HeldInput.keyLimit)).map { held.note($0, nil, isDown: true) }
        #expect(notes.last == false && notes.dropLast().allSatisfy { $0 })
        #expect(held.keys.count == HeldInput.keyLimit)
    }

    // MARK: - The picture

    @Test func `the desktop changes its size both ways`() throws {
        var random = SeededRandom.fromEnvironment()
        var frame = try Pictures.desktop(100, 80, &random)
        var options = RFBServer.Options(name: "Desk")
        options.takesDesktopSize = true
        var talk = try Conversation(
            frame, server: options, screens: [RFBScreen(id: 7, frame: frame.bounds, flags: 5)])
        try talk.settle(frame)
        #expect(talk.client.screens == [RFBScreen(id: 7, frame: frame.bounds, flags: 5)])
        for size in [(150, 60), (40, 200), (300, 300)] {
            frame = try Pictures.desktop(size.0, size.1, &random)
            let screens = [RFBScreen(id: 7, frame: frame.bounds)]
            talk.clientEvents = []
            try talk.server.resize(width: size.0, height: size.1, screens: screens)
            try talk.settle(frame)
            #expect(talk.clientEvents.contains(.resized(screens: screens, status: nil)))
            #expect(talk.client.frameBuffer.differences(from: frame) == "", "\(random)")
        }
        talk.serverEvents = []
        talk.clientEvents = []
        let wanted = RFBRectangle(x: 0, y: 0, width: 64, height: 32)
        talk.client.requestDesktopSize(width: 64, height: 32, screens: [RFBScreen(id: 7, frame: wanted)])
        try talk.settle(frame)
        #expect(
            talk.serverEvents == [
                .resizeRequested(width: 64, height: 32, screens: [RFBScreen(id: 7, frame: wanted)])
            ])
        frame = try Pictures.desktop(64, 32, &random)
        try talk.server.resize(width: 64, height: 32, screens: [RFBScreen(id: 7, frame: wanted)])
        talk.server.answerDesktopSize(.done)
        try talk.settle(frame)
        #expect(talk.clientEvents.contains(.resized(screens: [RFBScreen(id: 7, frame: wanted)], status: .done)))
        #expect(talk.client.frameBuffer.differences(from: frame) == "", "\(random)")
        // Outside its own picture a monitor cannot be.
        talk.clientEvents = []
        talk.client.requestDesktopSize(width: 10, height: 10, screens: [RFBScreen(id: 7, frame: wanted)])
        try talk.settle(frame)
        #expect(talk.clientEvents.contains(.resized(screens: talk.client.screens, status: .invalidLayout)))
    }

    @Test func `a size that may not change is answered so`() throws {
        let frame = try frame()
        var talk = try Conversation(frame)
        try talk.settle(frame)
        talk.client.requestDesktopSize(width: 10, height: 10, screens: [RFBScreen(id: 0, frame: frame.bounds)])
        try talk.settle(frame)
        #expect(talk.clientEvents.contains(.resized(screens: talk.client.screens, status: .prohibited)))
        #expect(talk.client.frameBuffer.bounds == frame.bounds)
    }

    @Test(arguments: [RFBPixelFormat.xrgb, .rgb565]) func `the pointer's shape and the name arrive`(
        format: RFBPixelFormat
    ) throws {
        let frame = try frame()
        var options = RFBClient.Options()
        options.pixelFormat = format
        var talk = try Conversation(frame, client: options)
        let colors: [UInt32] = [0xFFFF_FFFF, 0, 0xFF00_0000]
        let cursor = RFBCursor(width: 9, height: 5, hotX: 3, hotY: 4, pixels: (0..<45).map { colors[$0 % 3] })
        talk.server.setCursor(cursor)
        try talk.settle(frame)
        let drawsCursor = talk.server.drawsCursor
        #expect(drawsCursor)
        #expect(talk.clientEvents.contains(.cursor(cursor)))
        talk.clientEvents = []
        talk.server.setCursor(cursor)
        talk.server.setName("Schreibtisch")
        talk.server.bell()
        try talk.settle(frame)
        #expect(talk.clientEvents.contains(.renamed("Schreibtisch")) && talk.clientEvents.contains(.bell))
        #expect(talk.clientEvents.count == 2)
    }

    @Test func `a pointer of two colours is drawn by those that know no other`() throws {
        var client = try RFBClient(.init())
        let head = RFBRectangle(x: 1, y: 0, width: 2, height: 1)
        try client.receive(
            ReferenceEncoders.handshake(width: 4, height: 4)
                + ReferenceEncoders.update([
                    ReferenceEncoders.rectangle(head, -240, [255, 0, 0, 0, 0, 255, 0x80, 0x40])
                ]))
        _ = try client.nextEvent()
        #expect(
            try client.nextEvent()
                == .cursor(RFBCursor(width: 2, height: 1, hotX: 1, hotY: 0, pixels: [0, 0xFF00_00FF])))
    }

    // MARK: - Flow

    @Test func `continuous updates need no request, and stop when fences are not answered`() throws {
        var frame = try frame()
        var talk = try Conversation(frame)
        try talk.settle(frame)
        #expect(talk.client.isContinuous == true)
        talk.fromClient = []
        let pixel = RFBRectangle(x: 1, y: 1, width: 1, height: 1)
        for step in 0..<10 {
            frame[1, 1] = UInt32(step)
            talk.server.changed(pixel)
            try talk.settle(frame)
        }
        #expect(talk.client.frameBuffer[1, 1] == 9)
        #expect(!talk.fromClient.contains(3), "an update was asked for")
        // Nobody answers: two updates go out, and the next waits for what is newest then.
        var sent = 0
        for step in 0..<10 {
            frame[1, 1] = UInt32(100 + step)
            talk.server.changed(pixel)
            if talk.server.update(from: frame) { sent += 1 }
            try talk.client.receive(talk.server.takeOutput())
        }
        #expect(sent == 2)
        try talk.settle(frame)
        while let _ = try talk.client.nextEvent() {}
        try talk.settle(frame)
        #expect(talk.client.frameBuffer[1, 1] == 109)
        talk.client.enableContinuousUpdates(false)
        try talk.settle(frame)
        frame[1, 1] = 5
        talk.server.changed(pixel)
        try talk.settle(frame)
        #expect(talk.client.frameBuffer[1, 1] == 5 && !talk.client.isContinuous)
    }

    @Test func `an update is made only for who waits, and has room`() throws {
        let frame = try frame()
        var options = RFBClient.Options()
        options.requestsUpdates = false
        var talk = try Conversation(frame, client: options)
        try talk.settle(frame)
        #expect(talk.server.isUpdateDue == false)
        talk.client.requestUpdate(of: RFBRectangle(x: 0, y: 0, width: 10, height: 10), isIncremental: true)
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .updated(RFBRegion(RFBRectangle(x: 0, y: 0, width: 10, height: 10))))
    }

    @Test func `a fence comes back`() throws {
        let frame = try frame()
        var talk = try Conversation(frame)
        try talk.settle(frame)
        talk.client.sendFence([1, 2, 3])
        try talk.settle(frame)
        #expect(talk.clientEvents.last == .fence([1, 2, 3]))
    }
}
