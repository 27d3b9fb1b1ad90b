internal import KithPixels
internal import KithRFB
internal import KithWire

/// What the two ends of a screen, and of the remote framebuffer protocol, may send each other.
enum FuzzedScreen {
    // MARK: - The remote framebuffer protocol

    private static let challenge = (0..<16).map { UInt8($0) }

    /// A picture with edges, and with areas of one color.
    private static let frame: RFBFrameBuffer = {
        guard var frame = try? RFBFrameBuffer(width: 64, height: 48) else {
            preconditionFailure("a picture of 64 × 48 is allowed")
        }
        for y in 0..<48 { for x in 0..<64 { frame[x, y] = UInt32(x / 9 * 0x1F_0000 + y / 5 * 0x3F + (x ^ y) % 7) } }
        return frame
    }()

    /// The parts in which bytes arrive: the first byte says how large they are.
    private static func parts(of bytes: [UInt8]) -> [[UInt8]] {
        guard let first = bytes.first else { return [] }
        let size = first == 0 ? max(1, bytes.count) : Int(first)
        return stride(from: 1, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    /// A viewer's bytes, for a server that asks for a password and one that does not.
    static func viewer(_ bytes: [UInt8]) {
        for password in [nil, Array("password".utf8)] {
            var options = RFBServer.Options(name: "fuzz", password: password)
            options.takesDesktopSize = true
            options.limits.input = 1 << 16
            options.limits.clipboard = 1 << 12
            do {
                var server = try RFBServer(options, width: 64, height: 48, challenge: challenge)
                drive(&server, with: bytes, frame)
            } catch {
                preconditionFailure("a picture of 64 × 48 is allowed")
            }
        }
    }

    private static func drive(_ server: inout RFBServer, with bytes: [UInt8], _ frame: RFBFrameBuffer) {
        var now = ContinuousClock.Instant.now
        // What is wrong ends in an error, which is the end of the connection.
        try? serve(parts(of: bytes), by: &server, frame, &now)
        precondition(server.takeOutput().count < 1 << 22, "An answer is not larger than what it answers allows")
        for case .pointer(_, _, let buttons) in server.releaseInput() {
            precondition(buttons.isEmpty, "Nothing stays held")
        }
    }

    private static func serve(
        _ parts: [[UInt8]], by server: inout RFBServer, _ frame: RFBFrameBuffer, _ now: inout ContinuousClock.Instant
    ) throws {
        for (number, part) in parts.enumerated() {
            try server.receive(part)
            now += .milliseconds(1)
            while let event = try server.nextEvent(at: now) {
                switch event {
                case .pointer(let x, let y, _):
                    precondition((0..<64).contains(x) && (0..<48).contains(y), "A pointer is inside the picture")
                case .clipboard(.received(let contents)):
                    precondition(contents.byteCount <= 1 << 15, "A clipboard is as large as is allowed")
                case .clipboard(.offered(let formats)): server.requestClipboard(formats)
                case .resizeRequested: server.answerDesktopSize(.prohibited)
                case .connected, .key, .clipboard: break
                }
            }
            if number % 3 == 0 { server.changed(RFBRectangle(x: number % 60, y: number % 40, width: 20, height: 9)) }
            if number % 7 == 3 { server.moved(to: RFBRectangle(x: 4, y: 4, width: 30, height: 20), fromX: 9, y: 9) }
            server.update(from: frame, isExact: number % 5 == 0)
            _ = server.takeOutput()
        }
    }

    /// A server's bytes, for a viewer with a password.
    static func server(_ bytes: [UInt8]) {
        var options = RFBClient.Options()
        options.password = Array("password".utf8)
        options.limits.pixels = 1 << 14
        options.limits.input = 1 << 16
        options.limits.clipboard = 1 << 12
        do {
            var client = try RFBClient(options)
            // What is wrong ends in an error, which is the end of the connection.
            try? view(parts(of: bytes), by: &client)
            precondition(client.frameBuffer.pixels.count <= 1 << 14, "A picture is as large as is allowed")
        } catch {
            preconditionFailure("an empty picture is allowed")
        }
    }

    private static func view(_ parts: [[UInt8]], by client: inout RFBClient) throws {
        for part in parts {
            try client.receive(part)
            while let event = try client.nextEvent() {
                switch event {
                case .updated(let region):
                    // It may have become smaller in the same update, and is then shown anew.
                    precondition(region.rectangles.count <= RFBRegion.limit, "A region has so many rectangles")
                case .cursor(let cursor):
                    precondition(
                        cursor.pixels.count == cursor.width * cursor.height && cursor.width <= RFBCursor.sideLimit,
                        "A shape has its pixels")
                case .clipboard(.offered(let formats)): client.requestClipboard(formats)
                case .clipboard(.received(let contents)):
                    precondition(contents.byteCount <= 1 << 15, "A clipboard is as large as is allowed")
                case .connected: client.sendPointer(x: 1, y: 1, buttons: .left)
                case .resized, .bell, .renamed, .clipboard, .fence: break
                }
            }
            _ = client.takeOutput()
        }
    }

    /// What both ends send in a conversation, behind the size of its parts.
    static let conversations: (viewer: [[UInt8]], server: [[UInt8]]) = {
        var result: (viewer: [[UInt8]], server: [[UInt8]]) = ([], [])
        for encoding in [RFBEncoding.raw, .zrle, .tight] {
            for password in [nil, Array("password".utf8)] {
                // Both ends are ours: neither says anything wrong.
                guard let said = try? converse(encoding, password) else {
                    preconditionFailure("two ends of ours understand each other")
                }
                for size: UInt8 in [0, 7, 60] {
                    result.viewer.append([size] + said.viewer)
                    result.server.append([size] + said.server)
                }
            }
        }
        return result
    }()

    private static func converse(
        _ encoding: RFBEncoding, _ password: [UInt8]?
    ) throws -> (viewer: [UInt8], server: [UInt8]) {
        var options = RFBClient.Options()
        options.encodings = [encoding, .copyRect]
        options.password = password
        var client = try RFBClient(options)
        var server = try RFBServer(
            RFBServer.Options(name: "fuzz", password: password), width: 64, height: 48, challenge: challenge)
        var (viewer, screen): ([UInt8], [UInt8]) = ([], [])
        let now = ContinuousClock.Instant.now
        for step in 0..<24 {
            switch step {
            case 12: server.setCursor(RFBCursor(width: 2, height: 2, hotX: 1, hotY: 1, pixels: [0, 1 << 31, 7, 9]))
            case 13: client.sendKey(0x61, code: 30, isDown: true)
            case 14: client.sendPointer(x: 9, y: 9, buttons: [.left, .scrollUp])
            case 15: try client.offerClipboard(RFBClipboard(text: "copied", html: "<b>"))
            case 16: server.requestClipboard(.text)
            case 17: try server.offerClipboard(RFBClipboard(text: "there"))
            case 18: server.moved(to: RFBRectangle(x: 0, y: 0, width: 20, height: 20), fromX: 5, y: 5)
            case 19: client.requestDesktopSize(width: 9, height: 9, screens: [])
            case 20: try server.resize(width: 64, height: 48, screens: [RFBScreen(id: 3, frame: frame.bounds)])
            default: break
            }
            let sent = client.takeOutput()
            viewer += sent
            try server.receive(sent)
            while try server.nextEvent(at: now) != nil {}
            server.update(from: frame)
            let answered = server.takeOutput()
            screen += answered
            try client.receive(answered)
            while try client.nextEvent() != nil {}
        }
        return (viewer, screen)
    }

    // MARK: - Our own pictures

    /// A host's messages, each behind its length in 16 bits.
    static func tiles(_ bytes: [UInt8]) {
        var decoder = TileDecoder(areaLimit: 1 << 14)
        for message in messages(in: bytes) {
            // Only one that starts anew is taken after an error.
            guard let changed = try? decoder.decode(message) else { continue }
            let bounds = decoder.picture.size.bounds
            precondition(bounds.area <= 1 << 14, "A picture is as large as is allowed")
            precondition(changed.rectangles.allSatisfy { bounds.contains($0) }, "Nothing is drawn outside the picture")
        }
    }

    /// A host's messages about the pointer, each behind its length in 16 bits.
    static func pointer(_ bytes: [UInt8]) {
        var receiver = CursorReceiver()
        for message in messages(in: bytes) {
            // One that makes no sense changes nothing.
            _ = try? receiver.received(message)
            if let shape = receiver.shape {
                precondition(
                    shape.pixels.count == shape.size.area && shape.size.width <= CursorShape.sideLimit,
                    "A shape has its pixels")
            }
        }
    }

    private static func messages(in bytes: [UInt8]) -> [[UInt8]] {
        var reader = ByteReader(bytes)
        var messages: [[UInt8]] = []
        while let length = try? reader.integer(as: UInt16.self),
            let message = try? reader.bytes(min(Int(length), reader.remaining))
        {
            messages.append(message)
        }
        return messages
    }

    private static func joined(_ messages: [[UInt8]]) -> [UInt8] {
        messages.flatMap { [UInt8($0.count >> 8 & 0xFF), UInt8($0.count & 0xFF)] + $0 }
    }

    /// Pictures that begin, change, move and become smaller, with and without compression; and numbers that are too large.
    static let tileSeeds: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for compresses in [false, true] {
            var encoder = TileEncoder(options: .init(compresses: compresses))
            var messages: [[UInt8]] = []
            for step in 0..<6 {
                let size = PixelSize(width: step < 4 ? 100 : 40, height: step < 4 ? 70 : 90)
                var picture = PixelBuffer(size: size)
                for y in 0..<size.height {
                    let row = (y + step * 3) % size.height
                    for x in 0..<size.width {
                        picture[x: x, y: y] = UInt32(row / 8 * 0x10_2030 + (x / 5 ^ row) % (step == 2 ? 251 : 4))
                    }
                }
                encoder.damaged(PixelRegion(size.bounds))
                let now = ContinuousClock.Instant.now + .seconds(step)
                if let message = encoder.encode(picture.view, at: now) { messages.append(message.bytes) }
            }
            seeds.append(joined(messages))
        }
        let large: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
        return seeds + [joined([[1] + large + large]), joined([[3] + large]), joined([[1, 1, 1] + large])]
    }()

    /// Shapes and places, and numbers that are too large.
    static let pointerSeeds: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for compresses in [false, true] {
            var sender = CursorSender(compresses: compresses)
            var messages: [[UInt8]] = []
            for step in 0..<4 {
                let shape = CursorShape(
                    size: PixelSize(width: 3 + step % 2, height: 4), hotspot: (1, 2),
                    pixels: (0..<(3 + step % 2) * 4).map { UInt32($0 * 0x0102_0304) })
                if let shape { messages += sender.show(shape) }
                if let message = sender.moved(x: 9 * step, y: 65_000) { messages.append(message) }
                if step == 2, let message = sender.hide() { messages.append(message) }
            }
            seeds.append(joined(messages))
        }
        return seeds + [
            joined([[1, 255, 255, 255, 255, 255, 1, 0x28, 0xB5, 0x2F, 0xFD]]), joined([[2, 15], [3], [0]]),
        ]
    }()
}
